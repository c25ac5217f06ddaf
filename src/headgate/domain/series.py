"""What a series leads to: its mean, its weekdays and its trend, as far as the points bear them out.

Numbers only; what is measured and what a deviation means is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from operator import mul
from typing import Final, NamedTuple, TypeAlias

from headgate.domain.metric import mean, percentile, sample_stddev

# A level has changed if so many in a row are on one side, over so many days: hours of an outage are no level.
LEVEL_RUN: Final = 5
LEVEL_DAYS: Final = 3.0
# Beyond this squares are no longer numbers.
LARGEST: Final = 1e100
_MIN_SEASON: Final = 12
_MIN_TREND: Final = 12
_MIN_FREE: Final = 5
_MIN_EXPLAINED: Final = 0.5
# F that chance exceeds once in a thousand times with very many points, for one to six weekdays beyond the first.
_F_LIMITS: Final = (math.inf, 10.83, 6.91, 5.42, 4.62, 4.10, 3.74)
_TREND_SIGMA: Final = 3.0
_LOWEST: Final = 0.1
_NEAR: Final = 0.25
# A day of the last week that was told to be wrong, and one with nothing at all, may have been as wrong as this one.
_MIN_ECHOES: Final = 2
# From so many points on, lows that came so often, and in one of ten, are known to be part of the series.
_MIN_FOR_LOWS: Final = 8
_MIN_LOWS: Final = 3
_USUAL_LOWS: Final = 0.1
# The 95th percentile of a normal distribution lies so many standard deviations above its median.
_P95_SIGMA: Final = 1.645
_LARGEST_LOG: Final = math.log(LARGEST)
# What is below this share of the values is the last bits of floating point numbers.
_NOISE: Final = 1e-12


# A point in plain numbers: days since 1970, the value, and whether it was judged to be outside.
Dot: TypeAlias = tuple[float, float, bool]


class Fit(NamedTuple):
    """What a series leads to at one time.

    `free` is how many points are left to learn the spread from, `reach` how much less certain a forecast is than they
    are; `levels` are those of the weekdays at `centre`, all alike without a season.
    """

    expected: float
    stddev: float
    free: int
    reach: float
    levels: tuple[float, ...]
    slope: float
    centre: float
    mean: float
    has_season: bool = False

    @property
    def has_trend(self) -> bool:
        return self.slope != 0

    def at(self, day: float) -> float:
        return self.levels[weekday_of(day)] + self.slope * (day - self.centre)


class _Group(NamedTuple):
    """Points of one kind: how many, their centre, and their sums of squares and products around it."""

    size: int
    day: float
    value: float
    days: float
    both: float
    values: float

    @classmethod
    def of(cls, days: Sequence[float], values: Sequence[float]) -> _Group:
        size = len(days)
        day, value = sum(days) / size, sum(values) / size
        apart = [each - day for each in days]
        off = [each - value for each in values]
        return cls(size, day, value, sum(map(mul, apart, apart)), sum(map(mul, apart, off)), sum(map(mul, off, off)))


class _Model(NamedTuple):
    """One group or one a weekday, which share a slope or have none."""

    groups: Sequence[_Group | None]
    days: float
    slope: float
    error: float
    free: int

    @classmethod
    def of(cls, groups: Sequence[_Group | None], *, linear: bool) -> _Model:
        found = [group for group in groups if group]
        days, both, values = (sum(group[place] for group in found) for place in (3, 4, 5))
        free = sum(group.size for group in found) - len(found)
        if not linear or days <= 0:
            return cls(groups, days, 0.0, values, free)
        return cls(groups, days, both / days, max(0.0, values - both * both / days), free - 1)


def weekday_of(day: float) -> int:
    """0 is Monday; the first day of 1970 was a Thursday."""
    return (math.floor(day) + 3) % 7


def fit(dots: Sequence[Dot], day: float, *, is_seasonal: bool = True) -> Fit:
    """What at least two points, none of them negative, lead to at a day.

    Weekdays and a trend count where chance does not explain them.
    """
    days, values = [dot[0] for dot in dots], [dot[1] for dot in dots]
    everything = _Group.of(days, values)
    model = flat = _Model.of((everything,), linear=False)
    if flat.error > len(dots) * (everything.value * _NOISE) ** 2:
        leaning = _Model.of((everything,), linear=True)
        # Points of one day are much alike: for weekdays and trends they count as one.
        dates = len({day // 1 for day in days})
        crowd = len(days) / dates
        season = _season(leaning, days, values, day, crowd) if is_seasonal and dates >= _MIN_SEASON else None
        model = season or _trend(flat, leaning, days, day, crowd) or flat
    return _forecast(model, everything, days, values, day)


def _season(leaning: _Model, days: Sequence[float], values: Sequence[float], day: float, crowd: float) -> _Model | None:
    """Each weekday for itself, if they explain the series and the day in question is known from two of them."""
    groups = _by_weekday(days, values)
    own, both = groups[weekday_of(day)], _Model.of(groups, linear=True)
    if own is None or own.size < 2 * crowd or not _explains(leaning, both, crowd):
        return None
    level = _Model.of(groups, linear=False)
    return both if _leans(level, both, crowd) else level


def _by_weekday(days: Sequence[float], values: Sequence[float]) -> list[_Group | None]:
    own: list[tuple[list[float], list[float]]] = [([], []) for _ in range(7)]
    for day, value in zip(days, values, strict=True):
        times, amounts = own[(int(day // 1) + 3) % 7]
        times.append(day)
        amounts.append(value)
    return [_Group.of(times, amounts) if times else None for times, amounts in own]


def _explains(leaning: _Model, both: _Model, crowd: float) -> bool:
    """Whether groups explain most of what a trend alone does not, and more than chance would."""
    more = leaning.free - both.free
    if both.free < _MIN_FREE * crowd or more < 1 or leaning.error <= 0:
        return False
    explained = (leaning.error - both.error) / leaning.error
    chance = both.error / leaning.error / both.free * crowd
    free = both.free / crowd
    limit = _F_LIMITS[more] * (1 + 6.4 / free + 28.6 / free**2)
    return explained >= _MIN_EXPLAINED and explained / more > limit * chance


def _trend(flat: _Model, leaning: _Model, days: Sequence[float], day: float, crowd: float) -> _Model | None:
    # A line through old points says little of a day far behind them.
    is_near = day - days[-1] <= max(7.0, (days[-1] - days[0]) / 2)
    return leaning if len(days) >= _MIN_TREND * crowd and is_near and _leans(flat, leaning, crowd) else None


def _leans(level: _Model, leaning: _Model, crowd: float) -> bool:
    """Whether the slope is more than chance would give."""
    free = leaning.free / crowd
    return free >= _MIN_FREE and (level.error - leaning.error) * free > widened(_TREND_SIGMA, free) ** 2 * leaning.error


def _forecast(model: _Model, everything: _Group, days: Sequence[float], values: Sequence[float], day: float) -> Fit:
    has_season, slope, centre = len(model.groups) > 1, model.slope, everything.day
    own = (model.groups[weekday_of(day)] if has_season else None) or everything
    ahead = day - own.day
    leverage = 1 / own.size + (ahead * ahead / model.days if slope else 0.0)
    levels = tuple(each.value - slope * (each.day - centre) if each else everything.value for each in model.groups)
    found = Fit(
        expected=own.value + slope * ahead,
        stddev=math.sqrt(model.error / model.free),
        free=model.free,
        reach=math.sqrt(1 + leverage),
        levels=levels if has_season else levels * 7,
        slope=slope,
        centre=centre,
        mean=everything.value,
        has_season=has_season,
    )
    return found._replace(stddev=_relative(found, days, values)) if has_season or slope else found


def _relative(found: Fit, days: Sequence[float], values: Sequence[float]) -> float:
    """The standard deviation where the forecast is: a series scatters more where it is high.

    Where it is next to nothing it is taken to scatter like a tenth of its mean.
    """
    levels, slope, centre = found.levels, found.slope, found.centre
    # Written out, without `at`: a call for each point shows in the time that a verdict takes.
    usual = [levels[(int(day // 1) + 3) % 7] + slope * (day - centre) for day in days]
    least = _LOWEST * abs(found.mean)
    apart = [(value - each) / max(abs(each), least) for value, each in zip(values, usual, strict=True)]
    return math.sqrt(sum(map(mul, apart, apart)) / found.free) * max(abs(found.expected), least)


def widened(sigma: float, free: float) -> float:
    """How many standard deviations, estimated from few points, are as seldom exceeded as `sigma` known ones.

    Student's t by Wallace's approximation: with 4 degrees of freedom 3 become 6.8, with 29 they become 3.3.
    """
    skewed = sigma * (8 * free + 3) / (8 * free + 1)
    return math.sqrt(free * math.expm1(skewed * skewed / free))


class Factors(NamedTuple):
    """A series on a scale of logarithms: its mean and standard deviation there, and how lopsided it is without."""

    middle: float
    spread: float
    skew: float

    @classmethod
    def of(cls, values: Sequence[float], middle: float) -> Factors:
        """Of values above 0, which have a mean."""
        logs = [math.log(value) for value in values]
        return cls(mean(logs) or 0.0, sample_stddev(logs) or 0.0, _skew(values, middle))

    def at(self, deviations: float) -> float:
        return math.exp(min(self.middle + deviations * self.spread, _LARGEST_LOG))

    def score(self, value: float) -> float:
        # Nothing at all is taken for half of the least that can be counted.
        return (math.log(max(value, 0.5)) - self.middle) / self.spread


def _skew(values: Sequence[float], middle: float) -> float:
    """How lopsided values are: above 0 if they reach further up than down."""
    apart = [value - middle for value in values]
    square = sum(each * each for each in apart) / len(apart)
    return sum(each * each * each for each in apart) / len(apart) / (square * math.sqrt(square)) if square > 0 else 0.0


def spread(dots: Sequence[Dot], found: Fit) -> tuple[float, float, float]:
    """The median of what a fit leaves over, and what the 5th and 95th percentiles would be standard deviations of."""
    rest = [dot[1] - found.at(dot[0]) for dot in dots]
    low, middle, high = (percentile(rest, fraction) or 0.0 for fraction in (0.05, 0.5, 0.95))
    return middle, (middle - low) / _P95_SIGMA, (high - middle) / _P95_SIGMA


def has_lows(level: Sequence[Dot], value: float, left: float, expected: float) -> bool:
    """Whether values as low as this one are part of a series."""
    lows = [dot[1] for dot in level if dot[1] < left * expected]
    is_usual = len(level) >= _MIN_FOR_LOWS and len(lows) >= max(_MIN_LOWS, _USUAL_LOWS * len(level))
    return is_usual and value >= left * (mean(lows) or 0.0)


class Learnt(NamedTuple):
    """The points to learn from, all points since the newest level began, and the newest as far as all were outside."""

    dots: Sequence[Dot]
    level: Sequence[Dot]
    streak: Sequence[Dot]


def learnt(dots: Sequence[Dot], *, is_seasonal: bool = True, zero_is_level: bool = True) -> Learnt:
    """From the newest level on, the points that were not outside, and those of weekdays that are always so.

    Nothing at all is a level only where `zero_is_level` says so; else it is taken for an outage, however long.
    """
    if not any(dot[2] for dot in dots):
        return Learnt(dots, dots, ())
    begin, end = _newest_level(dots, zero_is_level=zero_is_level)
    within = [dot for dot in dots[begin:end] if zero_is_level or dot[1] != 0 or not dot[2]]
    kept = within + [dot for dot in dots[end:] if not dot[2]]
    if is_seasonal:
        outside = [dot for dot in dots[end:] if dot[2]]
        kept = sorted(kept + _habits(outside, kept, zero_is_level=zero_is_level))
    last = next((place for place in range(len(dots) - 1, end - 1, -1) if not dots[place][2]), end - 1)
    return Learnt(kept, dots[begin:], dots[last + 1 :])


def is_echo(level: Sequence[Dot], day: float, value: float, expected: float) -> bool:
    """Whether a value is what its weekday always was, though too seldom for a season.

    One earlier week is enough if nothing was said of it and it is not how the series began: a first load may be small.
    Else it takes two. Nothing at all is no echo of next to nothing: most of those days have to have had nothing, too.
    """
    weekday, near = weekday_of(day), _NEAR * abs(value - expected)
    alike = [dot for dot in level if weekday_of(dot[0]) == weekday and day - dot[0] > 1]
    was_right = value != 0 and any(not dot[2] and dot is not level[0] for dot in alike)
    if len({math.floor(dot[0]) for dot in alike}) < (1 if was_right else _MIN_ECHOES):
        return False
    if value == 0 and 2 * sum(1 for dot in alike if dot[1] == 0) <= len(alike):
        return False
    return all(abs(dot[1] - value) <= near for dot in alike)


def level_run(streak: Sequence[Dot], fitted: Fit, newest: Dot, side: int, *, zero_is_level: bool = True) -> int:
    """How many in a row, the newest among them, make a new level on a side (1 above, -1 below); 0 if they do not."""
    run = [newest]
    for dot in reversed(streak):
        if _side(dot, fitted.at(dot[0])) != side:
            break
        run.append(dot)
    counted = [dot for dot in run if zero_is_level or dot[1] != 0]
    is_level = newest in counted and len(counted) >= LEVEL_RUN and newest[0] - counted[-1][0] >= LEVEL_DAYS
    return len(counted) if is_level else 0


def _newest_level(dots: Sequence[Dot], *, zero_is_level: bool) -> tuple[int, int]:
    """Where the newest run outside on one side that made a level begins and ends; (0, 0) if there is none.

    What is outside after it is so by the measure of the new level.
    """
    newest, begin = (0, 0), 0
    while begin < len(dots):
        if not dots[begin][2]:
            begin += 1
            continue
        known = range(newest[0], begin)
        before = mean([dots[place][1] for place in known if place < newest[1] or not dots[place][2]])
        end = _run_end(dots, begin, before)
        places = [place for place in range(begin, end) if zero_is_level or dots[place][1] != 0]
        found = _level_end(dots, places, end, before)
        if found:
            newest = (places[0], found)
        begin = found or end
    return newest


def _run_end(dots: Sequence[Dot], begin: int, before: float | None) -> int:
    end = begin + 1
    while end < len(dots) and dots[end][2]:
        if before is not None and _side(dots[end], before) != _side(dots[begin], before):
            break
        end += 1
    return end


def _level_end(dots: Sequence[Dot], places: Sequence[int], end: int, before: float | None) -> int:
    """Where the level is made of what a run has at some places; 0 if it is not."""
    for count, place in enumerate(places, start=1):
        if count >= LEVEL_RUN and dots[place][0] - dots[places[0]][0] >= LEVEL_DAYS:
            return place + 1
    is_one_short = len(places) >= LEVEL_RUN - 1 and end < len(dots) and dots[end][0] - dots[places[0]][0] >= LEVEL_DAYS
    return end if is_one_short and _is_taken(dots, places, end, before) else 0


def _is_taken(dots: Sequence[Dot], places: Sequence[int], end: int, before: float | None) -> bool:
    """Whether the point after a run was let through as what it is, a new level: it is nearer to it than to the past."""
    if before is None:
        return False
    level = mean([dots[place][1] for place in places]) or 0.0
    return abs(dots[end][1] - level) < abs(dots[end][1] - before)


def _side(dot: Dot, expected: float) -> int:
    return (dot[1] > expected) - (dot[1] < expected)


def _habits(outside: Sequence[Dot], kept: Sequence[Dot], *, zero_is_level: bool) -> list[Dot]:
    """Points outside that their weekday repeats: twice or more, most of its points, alike."""
    found: list[Dot] = []
    middle = mean([dot[1] for dot in kept])
    for weekday in {weekday_of(dot[0]) for dot in outside}:
        own = [dot for dot in outside if weekday_of(dot[0]) == weekday]
        weeks = {math.floor(dot[0]) for dot in own}
        usual = sum(1 for dot in kept if weekday_of(dot[0]) == weekday)
        values = [dot[1] for dot in own]
        if middle is None or len(weeks) < 2 or usual >= len(own):
            continue
        if not zero_is_level and min(values) == 0 and not _is_interrupted(sorted(weeks), kept):
            continue
        apart = min(abs(value - middle) for value in values)
        if len({_side(dot, middle) for dot in own}) == 1 and max(values) - min(values) <= apart / 2:
            found += own
    return found


def _is_interrupted(weeks: Sequence[int], kept: Sequence[Dot]) -> bool:
    """Whether something usual lies between each of some days and the next: else they are days of one outage."""
    return all(any(day < dot[0] < after for dot in kept) for day, after in pairwise(weeks))
