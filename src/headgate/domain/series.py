"""What a series leads to: its mean, its weekdays and its trend, as far as the points bear them out.

Numbers only; what is measured and what a deviation means is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Final, NamedTuple, TypeAlias

from headgate.domain.metric import mean, percentile, sample_stddev

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
    are; `levels` are those of the weekdays at `centre`, all alike without a season. Days are counted from `origin`, so
    that the first of the weekdays is that of the time in question.
    """

    expected: float
    stddev: float
    free: int
    reach: float
    levels: tuple[float, ...]
    slope: float
    centre: float
    mean: float
    origin: float = 0.0
    has_season: bool = False

    @property
    def has_trend(self) -> bool:
        return self.slope != 0

    def level(self, day: float) -> float:
        """What the weekday of a time has at `centre`."""
        return self.levels[phase(day, self.origin)]

    def at(self, day: float) -> float:
        return self.level(day) + self.slope * (day - self.centre)


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


def around(day: float) -> float:
    """Where days begin that have a time in their middle: an hour sooner or later, or midnight, changes none of them."""
    return day - 0.5


def phase(day: float, origin: float) -> int:
    """Which weekday it is, counted from that which begins at an origin."""
    return int((day - origin) // 1) % 7


def fit(dots: Sequence[Dot], day: float, *, origin: float | None = None, is_seasonal: bool = True) -> Fit:
    """What at least two points, none of them negative, lead to at a day.

    Weekdays and a trend count where chance does not explain them.
    """
    origin = around(day) if origin is None else origin
    days, values = [dot[0] for dot in dots], [dot[1] for dot in dots]
    everything = _Group.of(days, values)
    model = flat = _Model.of((everything,), linear=False)
    if flat.error > len(dots) * (everything.value * _NOISE) ** 2:
        leaning = _Model.of((everything,), linear=True)
        # Points of one day are much alike: for weekdays and trends they count as one.
        dates = len({(day - origin) // 1 for day in days})
        crowd = len(days) / dates
        season = _season(leaning, days, values, origin, crowd) if is_seasonal and dates >= _MIN_SEASON else None
        model = season or _trend(flat, leaning, days, day, crowd) or flat
    return _forecast(model, everything, days, values, day, origin)


def _season(
    leaning: _Model, days: Sequence[float], values: Sequence[float], origin: float, crowd: float
) -> _Model | None:
    """Each weekday for itself, if they explain the series and the day in question is known from two of them."""
    groups = _by_weekday(days, values, origin)
    own, both = groups[0], _Model.of(groups, linear=True)
    if own is None or own.size < 2 * crowd or not _explains(leaning, both, crowd):
        return None
    level = _Model.of(groups, linear=False)
    return both if _leans(level, both, crowd) else level


def _by_weekday(days: Sequence[float], values: Sequence[float], origin: float) -> list[_Group | None]:
    own: list[tuple[list[float], list[float]]] = [([], []) for _ in range(7)]
    for day, value in zip(days, values, strict=True):
        times, amounts = own[int((day - origin) // 1) % 7]
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


def _forecast(
    model: _Model, everything: _Group, days: Sequence[float], values: Sequence[float], day: float, origin: float
) -> Fit:
    has_season, slope, centre = len(model.groups) > 1, model.slope, everything.day
    own = (model.groups[0] if has_season else None) or everything
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
        origin=origin,
        has_season=has_season,
    )
    return found._replace(stddev=_relative(found, days, values)) if has_season or slope else found


def _relative(found: Fit, days: Sequence[float], values: Sequence[float]) -> float:
    """The standard deviation where the forecast is: a series scatters more where it is high.

    Where it is next to nothing it is taken to scatter like a tenth of its mean.
    """
    levels, slope, centre, origin = found.levels, found.slope, found.centre, found.origin
    # Written out, without `at`: a call for each point shows in the time that a verdict takes.
    usual = [levels[int((day - origin) // 1) % 7] + slope * (day - centre) for day in days]
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
