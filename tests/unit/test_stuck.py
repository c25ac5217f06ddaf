"""By when a run should have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.domain.run import RunState
from headgate.domain.stuck import History, expected_end, next_look

BEGIN = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
DAY = timedelta(hours=24)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History(0, None), DAY),
        (History(4, 60.0), DAY),
        (History(5, 3600.0), timedelta(hours=1)),
        (History(5, 600.0), timedelta(minutes=10)),
        (History(5, 599.0), timedelta(minutes=10)),
        (History(5, 0.0), timedelta(minutes=10)),
        (History(200, 200_000.0), timedelta(seconds=200_000)),
    ],
)
def test_a_run_may_take_as_long_as_almost_all_before_it(history: History, expected: timedelta) -> None:
    assert expected_end("RUNNING", BEGIN, history) == BEGIN + expected


@pytest.mark.parametrize("state", sorted(set(RunState) - {RunState.START, RunState.RUNNING}))
def test_what_does_not_go_on_has_no_expected_end(state: str) -> None:
    assert expected_end(state, BEGIN) is None


def test_a_stream_need_not_end() -> None:
    assert expected_end("START", BEGIN, is_streaming=True) is None


def test_a_start_at_the_end_of_time_has_no_expected_end() -> None:
    assert expected_end("START", datetime.max.replace(tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("state", "age", "wait"),
    [
        (RunState.OTHER, timedelta(0), timedelta(minutes=10)),
        (RunState.OTHER, timedelta(hours=8), timedelta(hours=4)),
        (RunState.OTHER, timedelta(days=8), None),
        (RunState.COMPLETE, timedelta(0), None),
        (RunState.RUNNING, timedelta(0), None),
    ],
    ids=["new", "some hours old", "a week old", "over", "goes on"],
)
def test_a_run_that_was_told_of_in_passing_is_looked_at_later_and_later(
    state: RunState, age: timedelta, wait: timedelta | None
) -> None:
    found = next_look(state, BEGIN, BEGIN + age)
    assert found == (None if wait is None else BEGIN + age + wait)
