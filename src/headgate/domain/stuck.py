"""When a run should have ended by. Knows times only; which runs there are is the business of the store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from headgate.domain.run import RunState

MIN_COMPLETED: Final = 5
FLOOR: Final = timedelta(minutes=10)
WITHOUT_HISTORY: Final = timedelta(hours=24)
# A run that was only told of in passing has not begun, as far as we know.
GOING_ON: Final = frozenset({RunState.START, RunState.RUNNING})
# How long such a run is worth a look whether it has begun since, and how much later each look is than the one before.
_MAY_BEGIN: Final = timedelta(days=7)
_LATER: Final = 0.5


class History(NamedTuple):
    """How long completed runs of a job took: how many there were, and the 99th percentile."""

    completed: int
    p99_s: float | None


NO_HISTORY: Final = History(0, None)


def expected_end(
    state: str, started_at: datetime, history: History = NO_HISTORY, *, is_streaming: bool = False
) -> datetime | None:
    """By when a run that goes on should have ended; after that it is stuck. None for one that need not end."""
    if state not in GOING_ON or is_streaming:
        return None
    try:
        return started_at + patience(history)
    except OverflowError:
        return None


def patience(history: History) -> timedelta:
    """How long a run may take: as long as almost all before it, or a day where few are known."""
    if history.completed < MIN_COMPLETED or history.p99_s is None:
        return WITHOUT_HISTORY
    return max(FLOOR, timedelta(seconds=history.p99_s))


def next_look(state: str, since: datetime, now: datetime) -> datetime | None:
    """When to look at a run again that was only told of in passing since a time; None if it is over, or was never more.

    The longer nothing came of it the later: of producers that name no states there are very many.
    """
    age = now - since
    if state != RunState.OTHER or age > _MAY_BEGIN:
        return None
    return now + max(FLOOR, _LATER * age)
