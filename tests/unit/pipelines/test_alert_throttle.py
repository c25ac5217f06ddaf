"""How often the same is told, by a clock that the test turns."""

from __future__ import annotations

import fcntl
import json
import logging
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.pipelines.alerts.throttle import Limits, Throttle, refusal, remembered, subject_of
from headgate.pipelines.config.alerts import AlertEvent
from tests.support.channels import NOW, SECRET, a_channel, an_alert

QUARTER = Limits(timedelta(minutes=15), 10)
NO_PAUSE = Limits(timedelta(0), 3)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "alerts.json"


def test_the_first_alert_is_told(path: Path, clock: Clock) -> None:
    assert Throttle(path, clock).admit("a", QUARTER) is None


def test_the_same_is_not_told_again_until_the_time_has_passed(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    throttle.admit("a", QUARTER)
    clock.turn(minutes=14, seconds=59)
    assert throttle.admit("a", QUARTER) == "told 15 min ago, at most every 15 min"
    clock.turn(seconds=1)
    assert throttle.admit("a", QUARTER) is None


def test_what_was_refused_does_not_put_off_the_next(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    throttle.admit("a", QUARTER)
    for _ in range(14):
        clock.turn(minutes=1)
        assert throttle.admit("a", QUARTER) is not None
    clock.turn(minutes=1)
    assert throttle.admit("a", QUARTER) is None


def test_at_most_so_many_are_told_in_any_hour(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    for _ in range(3):
        assert throttle.admit("a", NO_PAUSE) is None
        clock.turn(minutes=10)
    assert throttle.admit("a", NO_PAUSE) == "told 3 times in the last hour, at most 3"
    clock.turn(minutes=29, seconds=59)
    assert throttle.admit("a", NO_PAUSE) is not None
    clock.turn(seconds=1)
    assert throttle.admit("a", NO_PAUSE) is None
    assert throttle.admit("a", NO_PAUSE) is not None


def test_subjects_are_counted_apart(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    assert throttle.admit("a", QUARTER) is None
    assert throttle.admit("b", QUARTER) is None


def test_pipelines_events_and_channels_are_different_subjects() -> None:
    first = subject_of(an_alert(), a_channel())
    others = {
        subject_of(an_alert(pipeline="gold"), a_channel()),
        subject_of(an_alert(project="bank"), a_channel()),
        subject_of(an_alert(AlertEvent.on_quarantine), a_channel()),
        subject_of(an_alert(), a_channel("teams")),
    }
    assert len(others | {first}) == 5
    assert subject_of(an_alert(node="x", message="other"), a_channel()) == first


def test_the_settings_of_a_channel_are_the_limits() -> None:
    assert Limits.of(a_channel()) == Limits(timedelta(minutes=15), 10)
    assert Limits.of(a_channel(metadata={"throttle_minutes": 0.5, "max_per_hour": 2})) == Limits(
        timedelta(seconds=30), 2
    )


def test_a_new_process_remembers_what_the_last_one_told(path: Path, clock: Clock) -> None:
    Throttle(path, clock).admit("a", QUARTER)
    clock.turn(minutes=5)
    assert Throttle(path, clock).admit("a", QUARTER) is not None
    clock.turn(minutes=10)
    assert Throttle(path, clock).admit("a", QUARTER) is None


def test_a_real_process_leaves_its_times_behind(path: Path) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from headgate.pipelines.alerts.throttle import Limits, Throttle\n"
        "sys.exit(0 if Throttle(Path(sys.argv[1])).admit('a', Limits()) is None else 9)"
    )
    codes = [subprocess.run([sys.executable, "-c", script, str(path)], check=False).returncode for _ in range(2)]
    assert codes == [0, 9]
    assert Throttle(path).admit("a", QUARTER) is not None


def test_the_limit_of_an_hour_holds_across_processes(path: Path, clock: Clock) -> None:
    told = [Throttle(path, clock).admit("a", NO_PAUSE) for _ in range(5)]
    assert [reason is None for reason in told] == [True, True, True, False, False]


def test_what_failed_to_be_sent_may_be_tried_again_at_once(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    throttle.admit("a", QUARTER)
    throttle.release("a")
    assert Throttle(path, clock).admit("a", QUARTER) is None
    assert throttle.admit("a", QUARTER) is not None


def test_what_another_process_took_back_is_not_held_against_us(path: Path, clock: Clock) -> None:
    one, other = Throttle(path, clock), Throttle(path, clock)
    one.admit("a", QUARTER)
    assert other.admit("a", QUARTER) is not None
    one.release("a")
    assert other.admit("a", QUARTER) is None


def test_taking_back_what_was_never_told_changes_nothing(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    throttle.release("a")
    assert throttle.admit("a", QUARTER) is None


def test_times_to_come_silence_nobody() -> None:
    tomorrow = NOW + timedelta(days=1)
    assert refusal([tomorrow], NOW, QUARTER) is None
    assert remembered([tomorrow], NOW) == []


def test_only_the_last_hour_and_the_last_time_are_kept() -> None:
    times = [NOW - timedelta(minutes=minutes) for minutes in (300, 200, 50, 10)]
    assert remembered(times, NOW) == times[2:]
    assert remembered(times[:2], NOW) == times[1:2]


def test_a_pause_longer_than_an_hour_is_kept_too(path: Path, clock: Clock) -> None:
    daily = Limits(timedelta(days=1), 10)
    throttle = Throttle(path, clock)
    throttle.admit("a", daily)
    throttle.admit("b", daily)
    clock.turn(hours=23)
    assert throttle.admit("a", daily) is not None
    clock.turn(hours=1)
    assert throttle.admit("a", daily) is None


def test_the_file_stays_small(path: Path, clock: Clock) -> None:
    throttle = Throttle(path, clock)
    for _ in range(50):
        throttle.admit("a", QUARTER)
        clock.turn(minutes=15)
    assert len(json.loads(path.read_text())["told"]["a"]) <= 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"told": 3}',
        '{"told": {"a": 3}}',
        '{"told": {"a": ["yesterday"]}}',
        '{"told": {"a": ["2026-03-01"]}}',
        "\x00\xff",
    ],
)
def test_a_broken_file_is_told_once_and_keeps_no_alert_back(
    text: str, path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_text(text)
    throttle = Throttle(path, clock)
    with caplog.at_level(logging.WARNING):
        assert throttle.admit("a", QUARTER) is None
        assert throttle.admit("a", QUARTER) is not None
        assert throttle.admit("b", QUARTER) is None
    assert len(caplog.records) == 1
    assert str(path) in caplog.text
    assert set(json.loads(path.read_text())["told"]) == {"a", "b"}


def test_a_file_that_is_no_text_is_begun_anew(path: Path, clock: Clock) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\x00")
    assert Throttle(path, clock).admit("a", QUARTER) is None
    assert Throttle(path, clock).admit("a", QUARTER) is not None


def test_a_place_that_cannot_be_written_is_told_once_and_counts_in_memory(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    throttle = Throttle(tmp_path / "file" / "alerts.json", clock)
    with caplog.at_level(logging.WARNING):
        assert throttle.admit("a", QUARTER) is None
        assert throttle.admit("a", QUARTER) is not None
    assert len(caplog.records) == 1


def test_a_file_that_cannot_be_replaced_is_told_once_and_counts_in_memory(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.with_name("alerts.json.new").mkdir()
    throttle = Throttle(path, clock)
    with caplog.at_level(logging.WARNING):
        assert throttle.admit("a", QUARTER) is None
        assert throttle.admit("a", QUARTER) is not None
    assert len(caplog.records) == 1
    path.with_name("alerts.json.new").rmdir()
    throttle.admit("b", QUARTER)
    assert set(json.loads(path.read_text())["told"]) == {"a", "b"}


def test_a_lock_that_nobody_lets_go_keeps_no_alert_back(
    path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    with path.with_name("alerts.json.lock").open("w") as held, caplog.at_level(logging.WARNING):
        fcntl.flock(held, fcntl.LOCK_EX)
        assert Throttle(path, clock).admit("a", QUARTER) is None
    assert "locked by another process" in caplog.text


def test_without_a_file_the_process_counts_for_itself(clock: Clock) -> None:
    throttle = Throttle(None, clock)
    assert [throttle.admit("a", QUARTER) is None for _ in range(2)] == [True, False]


def test_the_file_holds_no_url(path: Path) -> None:
    Throttle(path).admit(subject_of(an_alert(), a_channel()), QUARTER)
    assert not any(part in path.read_text() for part in SECRET.split("/"))


def test_the_clock_is_the_real_one_unless_another_is_given(path: Path) -> None:
    before = datetime.now(UTC)
    Throttle(path).admit("a", QUARTER)
    [told] = json.loads(path.read_text())["told"]["a"]
    assert before <= datetime.fromisoformat(told) <= datetime.now(UTC)
