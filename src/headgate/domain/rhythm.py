"""When the next write of a dataset is due: by its SLA, or by the rhythm that its writes show. Knows times only."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from headgate.domain.anomaly import Severity

# Two weekends have to be seen before a quiet Sunday means anything.
MIN_SPAN: Final = timedelta(days=14)
MIN_WRITES: Final = 6
_WEEK: Final = timedelta(days=7)
_WEEKS: Final = 4
_GAPS: Final = 60
# A write may come so much earlier or later than a week ago and still be the same one.
_LEAST_JITTER: Final = timedelta(hours=1)
_MOST_JITTER: Final = timedelta(hours=12)
_LEAST_GRACE: Final = timedelta(minutes=30)
_GRACE_SHARE: Final = 0.1
# Three standard deviations, told by the median distance from the median.
_SPREADS: Final = 3 * 1.4826
# A rhythm by which one in seven of the last writes was late is none.
_CHECKED: Final = 20
_MOST_LATE: Final = 0.15


@dataclass(frozen=True)
class Lateness:
    """A write that should have come: by when, and how that is known (`sla` or `rhythm`); it may be the first."""

    expected_by: datetime
    last_write_at: datetime | None
    late_by: timedelta
    source: str
    severity: Severity
    reason: str


def late(
    writes: Sequence[datetime], now: datetime, sla_hours: float | None = None, *, known_since: datetime | None = None
) -> Lateness | None:
    """How late a dataset is, or None if it is not, or if nothing says when it should be written.

    An SLA counts alone where there is one; of what was never written, from when it is known. A rhythm needs writes of
    two weeks; it looks at what followed the writes of the same time of the week, so that what is written from Monday to
    Friday is not late on a Sunday.
    """
    if sla_hours is not None and not 0 < sla_hours < math.inf:
        raise ValueError(f"sla_hours is {sla_hours!r}: it must be a number above 0")
    known = _times(writes, known_since)
    _require_zone(now)
    if not known or known[-1] >= now:
        return None
    patience = _rhythm(known) if sla_hours is None else _hours(sla_hours)
    if patience is None or now - known[-1] <= patience:
        return None
    return _lateness(known[-1], patience, now, sla_hours, is_written=bool(writes))


def due_by(
    writes: Sequence[datetime], sla_hours: float | None = None, *, known_since: datetime | None = None
) -> datetime | None:
    """When the next write is due, for a dataset that may not be late yet; None if nothing says so."""
    known = _times(writes, known_since)
    patience = (_rhythm(known) if sla_hours is None else _hours(sla_hours)) if known else None
    return None if patience is None else _plus(known[-1], patience)


def in_hours(hours: float) -> str:
    """
    >>> in_hours(1), in_hours(0.5)
    ('1 hour', '0.5 hours')
    """
    return f"{hours:g} {'hour' if hours == 1 else 'hours'}"


def _times(writes: Sequence[datetime], known_since: datetime | None) -> list[datetime]:
    """Writes in order; what was never written is as old as it is known."""
    times = writes or ([] if known_since is None else [known_since])
    _require_zone(*times)
    return sorted(set(times))


def _lateness(
    last: datetime, patience: timedelta, now: datetime, sla_hours: float | None, *, is_written: bool
) -> Lateness:
    expected_by, age = _plus(last, patience), _told(now - last)
    told = f"the last write was {age} ago, at {_moment(last)}"
    if not is_written:
        told = f"it was never written since it is known, for {age}, since {_moment(last)}"
    by_rhythm = f"by its rhythm the next was due by {_moment(expected_by)}"
    return Lateness(
        expected_by=expected_by,
        last_write_at=last if is_written else None,
        late_by=now - expected_by,
        source="rhythm" if sla_hours is None else "sla",
        severity=Severity.WARNING if sla_hours is None else Severity.CRITICAL,
        reason=f"{told}; {by_rhythm if sla_hours is None else f'its SLA is {in_hours(sla_hours)}'}",
    )


def _rhythm(writes: Sequence[datetime]) -> timedelta | None:
    """How long the next write may take, if the writes up to now kept the rhythm that this follows from."""
    if len(writes) < MIN_WRITES or writes[-1] - writes[0] < MIN_SPAN:
        return None
    gaps = [after - at for at, after in pairwise(writes)]
    checked = [
        gaps[place] > patience
        for place in range(max(MIN_WRITES, len(writes) - _CHECKED), len(writes) - 1)
        if (patience := _patience(writes, gaps, place)) is not None
    ]
    if checked and sum(checked) > _MOST_LATE * len(checked):
        return None
    return _patience(writes, gaps, len(writes) - 1)


def _patience(writes: Sequence[datetime], all_gaps: Sequence[timedelta], place: int) -> timedelta | None:
    """How long the write after this one may take, by what came after its like in the weeks before; None if anything."""
    if not place or writes[place] - writes[0] < MIN_SPAN:
        return None
    # Two weeks of them, however many: a backfill has more writes than months of days.
    begin = min(max(0, place - _GAPS), bisect_right(writes, writes[place] - MIN_SPAN) - 1)
    gaps = list(all_gaps[begin:place])
    usual = _median(gaps)
    alike = _weekly(writes, all_gaps, place, min(max(usual / 2, _LEAST_JITTER), _MOST_JITTER))
    if len(alike) < 2:
        # Written less often than weekly, or at another time than ever before.
        alike = [max(gaps)] if usual < _WEEK else gaps
    middle = _median(alike)
    spread = _SPREADS * _median([abs(gap - middle) for gap in alike])
    if spread > middle:
        return None
    return middle + max(_LEAST_GRACE, _GRACE_SHARE * middle, spread)


def _weekly(writes: Sequence[datetime], gaps: Sequence[timedelta], place: int, jitter: timedelta) -> list[timedelta]:
    """For each of the last weeks, how long it took from about this time of it to the next write."""
    found = []
    for week in range(1, _WEEKS + 1):
        then = writes[place] - week * _WEEK
        begin, end = bisect_left(writes, then - jitter), bisect_right(writes, then + jitter, hi=place)
        if begin < end:
            # Of several writes in a burst the last is the one that a pause follows.
            found.append(max(gaps[begin:end]))
    return found


def _median(spans: Sequence[timedelta]) -> timedelta:
    ordered = sorted(spans)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _hours(hours: float) -> timedelta:
    try:
        return timedelta(hours=hours)
    except OverflowError:
        return timedelta.max


def _plus(at: datetime, patience: timedelta) -> datetime:
    try:
        return at + patience
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _told(span: timedelta) -> str:
    """A span as people say it."""
    hours, minutes = span / timedelta(hours=1), round(span / timedelta(minutes=1))
    if hours < 2:
        return f"{minutes} minute{'' if minutes == 1 else 's'}" if minutes else "less than a minute"
    return f"{hours:.0f} hours" if hours < 48 else f"{hours / 24:.1f} days"


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _require_zone(*times: datetime) -> None:
    for at in times:
        if at.tzinfo is None:
            raise ValueError(f"{at.isoformat()} has no time zone: give an aware time")
