"""By when a run should have ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.domain.run import RunState
from headgate.domain.stuck import History, expected_end

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
