"""Series of measurements, a point a day, for tests of what is made of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from headgate.domain.band import judge
from headgate.domain.verdict import Metric, Point, Policy, Verdict

# A Monday.
BEGIN = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)
DAY = timedelta(days=1)
ROWS = Metric.row_count
PLAIN = Policy(small_sample=False, seasonality="off", floor_share=0.0)


def daily(values: Sequence[float], *, wrong: Sequence[int] = ()) -> list[Point]:
    """A point a day from the Monday on, of which those at some places were judged anomalous."""
    return [Point(BEGIN + day * DAY, value, day in wrong) for day, value in enumerate(values)]


def verdict(values: Sequence[float], value: float, policy: Policy | None = None, metric: Metric = ROWS) -> Verdict:
    """The verdict on the day after a value a day."""
    return judge(metric, daily(values), BEGIN + len(values) * DAY, value, policy or Policy())


def noisy(count: int, usual: Callable[[int], float] = lambda day: 1000.0, share: float = 0.03) -> list[float]:
    chance = random.Random(11)
    return [round(usual(day) * chance.gauss(1, share)) for day in range(count)]


def weekly(day: int) -> float:
    return 1000.0 if day % 7 < 5 else 300.0
