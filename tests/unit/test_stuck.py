"""By when a run should have ended."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from headgate.domain.metric import mean, percentile, sample_stddev
from headgate.domain.run import RunState
from headgate.domain.stuck import History, expected_end, next_look, patience

BEGIN = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
DAY = timedelta(hours=24)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (History(0, None), DAY),
        (History(4, 60.0), DAY),
        (History(5, 3600.0), timedelta(hours=1.05)),
        (History(5, 600.0), timedelta(minutes=10.5)),
        (History(5, 599.0), timedelta(seconds=628.95)),
        (History(5, 500.0), timedelta(minutes=10)),
        (History(5, 0.0), timedelta(minutes=10)),
        (History(200, 200_000.0), timedelta(seconds=210_000)),
        (History(5, 3600.0, math.log(60), 3.0), timedelta(hours=4.2)),
    ],
)
def test_a_run_may_take_as_long_as_almost_all_before_it(history: History, expected: timedelta) -> None:
    assert expected_end("RUNNING", BEGIN, history) == BEGIN + expected


def a_history(durations: Sequence[float]) -> History:
    """As the database counts it."""
    logs = [math.log(max(each, 1)) for each in durations]
    return History(len(logs), percentile(durations, 0.99), mean(logs), sample_stddev(logs))


@pytest.mark.parametrize("count", [5, 10, 20, 100])
@pytest.mark.parametrize("spread", [0.05, 0.2, 0.4], ids="spread {}".format)
def test_few_of_the_runs_that_are_well_are_called_stuck_however_many_there_were(count: int, spread: float) -> None:
    chance, rounds = random.Random(f"{count}, {spread}"), 1000

    def an_hour_or_so() -> float:
        return 3600 * math.exp(chance.gauss(0, spread))

    stuck = sum(
        an_hour_or_so() > patience(a_history([an_hour_or_so() for _ in range(count)])).total_seconds()
        for _ in range(rounds)
    )

    assert stuck / rounds < 0.02


def test_a_run_that_takes_twice_as_long_as_all_before_it_is_stuck() -> None:
    chance = random.Random(7)
    for count in (5, 10, 50, 200):
        history = a_history([3600 * chance.gauss(1, 0.05) for _ in range(count)])
        assert timedelta(hours=1) < patience(history) < timedelta(hours=2)


def test_a_little_longer_than_the_longest_of_five_is_not_stuck() -> None:
    history = a_history([60 * each for each in (58, 59, 60, 61, 62)])
    assert patience(history) > timedelta(minutes=62, seconds=20)


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
