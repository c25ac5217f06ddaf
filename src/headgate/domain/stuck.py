"""When a run should have ended by. Knows times only; which runs there are is the business of the store."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from headgate.domain.run import RunState
from headgate.domain.series import widened

MIN_COMPLETED: Final = 5
FLOOR: Final = timedelta(minutes=10)
WITHOUT_HISTORY: Final = timedelta(hours=24)
# What one in a hundred exceeds, in standard deviations.
_ONE_PERCENT: Final = 2.326
# A little longer than ever is not stuck yet, and runs that differ very much are no reason to wait for ever.
_LEEWAY: Final = 1.05
_MOST: Final = 4.0
# A run that was only told of in passing has not begun, as far as we know.
GOING_ON: Final = frozenset({RunState.START, RunState.RUNNING})
# How long such a run is worth a look whether it has begun since, and how much later each look is than the one before.
_MAY_BEGIN: Final = timedelta(days=7)
_LATER: Final = 0.5


class History(NamedTuple):
    """How long completed runs of a job took: how many there were, and the 99th percentile.

    Of the logarithms of their seconds the mean and the standard deviation, where they are known: of few runs the
    percentile is just the longest.
    """

    completed: int
    p99_s: float | None
    mean_log: float | None = None
    stddev_log: float | None = None


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
    """How long a run may take: as long as almost all before it and a little longer, or a day where few are known.

    One in a hundred runs that are well takes longer than that, however many there were before.
    """
    if history.completed < MIN_COMPLETED or history.p99_s is None:
        return WITHOUT_HISTORY
    longest = max(history.p99_s, min(_predicted(history), _MOST * history.p99_s))
    return max(FLOOR, timedelta(seconds=_LEEWAY * longest))


def _predicted(history: History) -> float:
    """What the next run takes at most, in all but one of a hundred cases: durations scatter by factors."""
    if history.mean_log is None or history.stddev_log is None:
        return 0.0
    count = history.completed
    reach = widened(_ONE_PERCENT, count - 1) * math.sqrt(1 + 1 / count)
    return math.exp(history.mean_log + reach * history.stddev_log)


def next_look(state: str, since: datetime, now: datetime) -> datetime | None:
    """When to look at a run again that was only told of in passing since a time; None if it is over, or was never more.

    The longer nothing came of it the later: of producers that name no states there are very many.
    """
    age = now - since
    if state != RunState.OTHER or age > _MAY_BEGIN:
        return None
    return now + max(FLOOR, _LATER * age)
