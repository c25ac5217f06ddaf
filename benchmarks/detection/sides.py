"""Who judges: ours, and the rule of the first design, as its text has it and as its code had it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from benchmarks.detection.families import Series
from headgate.domain.band import MAX_REACH_DAYS, judge
from headgate.domain.metric import mean, sample_stddev
from headgate.domain.verdict import Metric, Point, Policy

WINDOW = timedelta(days=30)
REACH = timedelta(days=MAX_REACH_DAYS)
Judge = Callable[[Series], Iterator[bool]]


def ours(series: Series, policy: Policy | None = None) -> Iterator[bool]:
    """Point by point, as they come in: each verdict decides what the next ones learn from."""
    history: list[Point] = []
    sizes: list[Point] = []
    for place, (at, value) in enumerate(zip(series.times, series.values, strict=True)):
        rows = judge(Metric.row_count, sizes, at, series.rows[place]) if series.rows else None
        verdict = judge(series.metric, history, at, value, policy or Policy(), rows=rows)
        history.append(Point(at, value, verdict.is_outside and place not in series.forgiven))
        if rows is not None:
            sizes.append(Point(at, rows.value, rows.is_outside))
        while history[0].at <= at - REACH:
            history.pop(0)
        yield verdict.is_anomalous


def plain(series: Series) -> Iterator[bool]:
    """3-sigma over 30 days with the point itself among them, nothing left out, and half of the mean as a limit."""
    return _sigma(series, includes_current=True)


def excluding(series: Series) -> Iterator[bool]:
    """The same without the point itself, and without the limit: what the code of the first design did."""
    return _sigma(series, includes_current=False)


def _sigma(series: Series, *, includes_current: bool) -> Iterator[bool]:
    halves = includes_current and series.metric in (Metric.row_count, Metric.byte_size)
    for place, (at, value) in enumerate(zip(series.times, series.values, strict=True)):
        end = place + 1 if includes_current else place
        known = [v for t, v in zip(series.times[:end], series.values[:end], strict=True) if t > at - WINDOW]
        middle, spread = mean(known), sample_stddev(known)
        if len(known) < 5 or middle is None or spread is None:
            yield False
            continue
        is_halved = halves and middle > 0 and (value - middle) / middle < -0.5
        yield value > middle + 3 * spread or value < max(0.0, middle - 3 * spread) or is_halved


SIDES: dict[str, Judge] = {"ours": ours, "plain": plain, "excluding": excluding}
