"""Levels of a series: where the newest begins, and which were left again for what was usual before them.

Numbers only; what is measured and what a deviation means is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from headgate.domain.metric import mean
from headgate.domain.series import Dot, around, fit, phase

# A level has changed if so many in a row are on one side, over so many days: hours of an outage are no level.
LEVEL_RUN: Final = 5
LEVEL_DAYS: Final = 3.0
# Of several points a day some hours are enough, but for what is next to nothing: that may be an outage for a day.
_LEVEL_HOURS: Final = 3 / 24
_OUTAGE_DAYS: Final = 1.0
_NEXT_TO_NOTHING: Final = 0.25
# A level was temporary if what follows within so many days is as before: off by no more than a share of the way to it.
# What was before has to be known from so many points and days, and for longer than the level lasted.
_TEMPORARY_DAYS: Final = 14.0
_MIN_BEFORE: Final = 8
_MIN_DAYS_BEFORE: Final = 3.0
_UNKNOWN_DAYS: Final = 1.5
_BACK: Final = 0.4
_MOST: Final = 0.5
_ALMOST_ALL: Final = 0.9
_ABOUT: Final = 0.1
_BY_FAR: Final = 0.3
# What scatters by less than this share of its mean has no weekdays that would matter here.
_CALM: Final = 0.15
# A level that comes again so soon is how the series is by now, unless all is as before for a day.
_AGAIN_DAYS: Final = 1.5
_DAY: Final = 1.0


class Levels(NamedTuple):
    """Where the newest level begins and was made; (0, 0) if there is none.

    `gone` are the places of levels since then that were temporary, `back` of points after those that were taken for
    odd, though they were as before.
    """

    begin: int = 0
    end: int = 0
    gone: frozenset[int] = frozenset()
    back: frozenset[int] = frozenset()

    def counts(self, place: int, dots: Sequence[Dot]) -> bool:
        """Whether what is at a place is part of what is usual."""
        return place not in self.gone and (place < self.end or not dots[place][2] or place in self.back)


class Clock(NamedTuple):
    """How the points of a series lie in time: in how many parts of a day one looks at it, if it has several a day."""

    day: float
    parts: int = 1
    is_crowded: bool = False

    def usual(self, dots: Sequence[Dot]) -> Callable[[float], float]:
        """What points lead to at any time: those of the same time of day, or their weekdays and trend."""
        turn = self._part
        if not self.is_crowded:
            found = fit(dots, self.day)
            if found.has_season or found.has_trend or found.stddev <= _CALM * found.mean:
                return found.at
            turn = self._weekday
        own: dict[int, list[float]] = {}
        for dot in dots:
            own.setdefault(turn(dot[0]), []).append(dot[1])
        whole = mean([dot[1] for dot in dots]) or 0.0
        means = {place: sum(values) / len(values) for place, values in own.items()}
        return lambda day: means.get(turn(day), whole)

    def _part(self, day: float) -> int:
        return part(day, self.day, self.parts)

    def _weekday(self, day: float) -> int:
        return phase(day, around(self.day))


class _Return(NamedTuple):
    """Where a level ends that was temporary, and where the first points end that are as before."""

    place: int
    end: int


class _Past(NamedTuple):
    """What was usual before a level, for comparing with what comes after it; `low` and `high` are the level's own."""

    usual: Callable[[float], float]
    gap: float
    is_higher: bool
    days: float
    low: float
    high: float

    def is_back(self, dot: Dot) -> bool | None:
        """Whether a point is as before the level; None if it may as well be of the level, as at night."""
        usual = self.usual(dot[0])
        if abs(dot[1] - usual) > _BACK * self.gap * usual:
            return False
        return None if self.low <= dot[1] <= self.high else True


def part(at: float, day: float, parts: int) -> int:
    """Which part of the day a time is in; the first has the time in question in its middle."""
    return int(((at - day) * parts + 0.5) // 1) % parts


def direction(dot: Dot, expected: float) -> int:
    return (dot[1] > expected) - (dot[1] < expected)


def level_days(value: float, before: float | None, *, is_crowded: bool) -> float:
    """How long it takes to make a level of a value."""
    if not is_crowded:
        return LEVEL_DAYS
    return _OUTAGE_DAYS if before is not None and value < _NEXT_TO_NOTHING * before else _LEVEL_HOURS


def newest_level(dots: Sequence[Dot], value: float, clock: Clock, *, zero_is_level: bool) -> Levels:
    """Where the newest run outside on one side that made a level begins and ends, by the time of a value.

    What is outside after it is so by the measure of the new level. A level that was left for what was before it, by
    the value at the latest, is none.
    """
    newest, left, place = Levels(), (0, 0), 0
    while place < len(dots):
        if not dots[place][2] or place in newest.back:
            place += 1
            continue
        end = next((each for each in range(place, len(dots)) if not dots[each][2]), len(dots))
        if end - place < LEVEL_RUN - 1:
            place = end
            continue
        known = [dots[each] for each in range(newest.begin, place) if newest.counts(each, dots)]
        before = mean([dot[1] for dot in known])
        end = _run_end(dots, place, before)
        places = [each for each in range(place, end) if zero_is_level or dots[each][1] != 0]
        found = _level_end(dots, places, end, before, is_crowded=clock.is_crowded)
        if not found:
            place = end
            continue
        begin, is_again = places[0], left[1] > 0 and dots[places[0]][0] - dots[left[1] - 1][0] < _AGAIN_DAYS
        back = _return(dots, (begin, found), known, value, clock, is_again=is_again)
        if back:
            gone, returned = newest.gone.union(range(begin, back.place)), newest.back.union(range(back.place, back.end))
            newest, left, place = newest._replace(gone=gone, back=returned), (begin, back.end), back.end
        else:
            newest, left, place = Levels(left[0] if is_again else begin, found), (0, 0), found
    return newest


def _return(
    dots: Sequence[Dot], level: tuple[int, int], known: Sequence[Dot], value: float, clock: Clock, *, is_again: bool
) -> _Return | None:
    """Where a series went back to what was known before a level, if it did: most of the first points are like that.

    One is enough if more has come back, and it is the newest: what was lost is there again. That less has come back
    is told once.
    """
    past = _past(dots[slice(*level)], known, clock) or _later(dots, level, clock)
    if past is None:
        return None
    after = enumerate([*dots[level[1] :], (clock.day, value, False)], start=level[1])
    found = ((place, dot[0], past.is_back(dot)) for place, dot in after)
    coming = [(place, day, is_back) for place, day, is_back in found if is_back is not None]
    for turn, (place, day, is_back) in enumerate(coming):
        if day - dots[level[0]][0] > past.days:
            return None
        is_newest = place == len(dots) and not past.is_higher and not is_again
        if is_back and (is_newest or _is_over(coming[turn:], is_again=is_again)):
            end = next((later for later, _, is_back in coming[turn:] if not is_back), len(dots))
            return _Return(place, min(end, len(dots)))
    return None


def _is_over(coming: Sequence[tuple[int, float, bool]], *, is_again: bool) -> bool:
    """Whether most of the first points, or almost all of a day, are as before a level."""
    first = [each[2] for each in coming[:LEVEL_RUN]]
    if is_again:
        begin = coming[0][1]
        first = [each[2] for each in coming if each[1] - begin < _DAY] if coming[-1][1] - begin >= _DAY else []
    return sum(first) > 1 and sum(first) >= (_ALMOST_ALL if is_again else _MOST) * len(first)


def _past(level: Sequence[Dot], known: Sequence[Dot], clock: Clock) -> _Past | None:
    """What was usual before a level, if enough is known of it."""
    if len(known) < _MIN_BEFORE or known[-1][0] - known[0][0] < _MIN_DAYS_BEFORE:
        return None
    usual = clock.usual(known)
    now, then = sum(dot[1] for dot in level), sum(usual(dot[0]) for dot in level)
    gap = abs(now - then) / max(now, then) if max(now, then) > 0 else 0.0
    days = known[-1][0] - known[0][0]
    # Of several points a day a weekend may be a level: until there were two, its second day is.
    longest = _UNKNOWN_DAYS if clock.is_crowded and days < _TEMPORARY_DAYS else _TEMPORARY_DAYS
    values = [dot[1] for dot in level]
    low, high = (1 - _ABOUT) * min(values), (1 + _ABOUT) * max(values)
    return _Past(usual, gap, now > then, min(longest, days), low, high)


def _later(dots: Sequence[Dot], level: tuple[int, int], clock: Clock) -> _Past | None:
    """What is usual since a level, where it is old and something else by far: by then the window has lost the past."""
    after = [dot for dot in dots[level[1] :] if not dot[2]]
    if clock.is_crowded or len(after) < _TEMPORARY_DAYS:
        return None
    past = _past(dots[slice(*level)], after, clock)
    return past if past and past.gap >= _BY_FAR else None


def _run_end(dots: Sequence[Dot], begin: int, before: float | None) -> int:
    end = begin + 1
    while end < len(dots) and dots[end][2]:
        if before is not None and direction(dots[end], before) != direction(dots[begin], before):
            break
        end += 1
    return end


def _level_end(dots: Sequence[Dot], places: Sequence[int], end: int, before: float | None, *, is_crowded: bool) -> int:
    """Where the level is made of what a run has at some places; 0 if it is not."""
    for count, place in enumerate(places, start=1):
        days = level_days(dots[place][1], before, is_crowded=is_crowded)
        if count >= LEVEL_RUN and dots[place][0] - dots[places[0]][0] >= days:
            return place + 1
    if len(places) < LEVEL_RUN - 1 or end >= len(dots):
        return 0
    # Of the run itself: what comes after a night of next to nothing does not say that it was no outage.
    days = max(level_days(dots[place][1], before, is_crowded=is_crowded) for place in places)
    is_one_short = dots[end][0] - dots[places[0]][0] >= days
    return end if is_one_short and _is_taken(dots, places, end, before) else 0


def _is_taken(dots: Sequence[Dot], places: Iterable[int], end: int, before: float | None) -> bool:
    """Whether the point after a run was let through as what it is, a new level: it is nearer to it than to the past."""
    if before is None:
        return False
    level = mean([dots[place][1] for place in places]) or 0.0
    return abs(dots[end][1] - level) < abs(dots[end][1] - before)
