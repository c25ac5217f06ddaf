"""What a series is learnt from: without points far from all others, from its newest level on, of the same time of day.

Numbers only; what is measured and what a deviation means is not known here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter, mul, sub
from typing import Final, NamedTuple

from headgate.domain.level import LEVEL_RUN, Clock, direction, level_days, newest_level, part
from headgate.domain.metric import mean
from headgate.domain.series import Dot, Fit, around, phase

_NEAR: Final = 0.25
# A day of the last week that was told to be wrong, and one with nothing at all, may have been as wrong as this one.
_MIN_ECHOES: Final = 2
# From so many points on, lows that came so often, and in one of ten, are known to be part of the series.
_MIN_FOR_LOWS: Final = 8
_MIN_LOWS: Final = 3
_USUAL_LOWS: Final = 0.1
# Far from all others: so many times as far as the next one, and as most are. With few points the newest may be a level.
_MIN_FOR_WILD: Final = 5
_MIN_TO_TELL: Final = 8
_GAP: Final = 3.0
_FAR: Final = 8.0
_FEW: Final = 10
# The median distance from the median is this share of a standard deviation.
_MAD_SIGMA: Final = 0.6745
# From so many points a day on they are several; the time of day is one of so many parts of it.
_SEVERAL: Final = 1.6
_MIN_FOR_SEVERAL: Final = 5
_PARTS: Final = (2, 3, 4, 6, 8, 12, 24)
_MIN_DAYS: Final = 3
_MIN_HOURS_EXPLAIN: Final = 0.15
_HOUR_PARTS: Final = 12
_ENOUGH: Final = 12
_LOWEST: Final = 0.1
_SMALL: Final = 0.25
# With fewer days of several points each, a weekend has not been seen: the rule over all points has to agree.
_A_WEEK: Final = 8
# So many points within so many days are a burst, where other days have one.
_MIN_BURST: Final = 5
_BURST_DAYS: Final = 0.5
_ABOUT_AS_MUCH: Final = (0.75, 1.5)
# Before two of each are seen, a weekday may have so many times as much as others, or as little.
_TWO_WEEKS: Final = 14
_WEEKDAY_FACTOR: Final = 10.0


class Hours(NamedTuple):
    """The parts of a day, from the time in question on: what each has on the average, and how far it scatters.

    `spread` is a share of what is usual then, of all parts together, while the first has few points of its own; `free`
    is how many points it is learnt from.
    """

    day: float
    means: tuple[float, ...]
    spread: float
    free: int

    def at(self, day: float) -> float:
        return self.means[part(day, self.day, len(self.means))]

    def is_beside(self, value: float, expected: float) -> bool:
        """Whether a value is what is usual an hour earlier or later: clocks are changed, and so are working hours."""
        own, near = self.means[0], _NEAR * abs(value - expected)
        beside = (self.means[-1], self.means[1]) if len(self.means) >= _HOUR_PARTS and own > 0 else ()
        return any(abs(value - expected * each / own) <= near for each in beside)


class Plain(NamedTuple):
    """All points of a window but those far from all others: their mean, and their squares around it."""

    dots: Sequence[Dot]
    mean: float
    squares: float

    def side(self, value: float, sigma: float, left: float) -> int:
        """On which side a value is, with itself among all points.

        Less than a share of their mean is below, unless that is as usual as other lows.
        """
        middle = self.mean + (value - self.mean) / (len(self.dots) + 1)
        reach = sigma * math.sqrt((self.squares + (value - self.mean) * (value - middle)) / len(self.dots))
        is_low = value < left * middle and not has_lows(self.dots, value, left, middle)
        return (value > middle + reach) - (value < middle - reach or is_low)


class Learnt(NamedTuple):
    """The points to learn from, all points since the newest level began, and the newest as far as all were outside.

    `weeks` are points of the same time of day, by which weekdays are told. `wild` are far from all others and left out;
    `hours` are known where the points to learn from are those of one time of day. `plain` is there while several points
    a day are known for less than a week. `is_burst` if the point in question comes with many others at once.
    """

    dots: Sequence[Dot]
    level: Sequence[Dot]
    streak: Sequence[Dot]
    weeks: Sequence[Dot]
    origin: float
    is_crowded: bool = False
    wild: Sequence[Dot] = ()
    hours: Hours | None = None
    plain: Plain | None = None
    is_burst: bool = False

    @property
    def points(self) -> int:
        """How many points there are to judge by: those of other hours say how far each scatters."""
        return max(len(self.dots) + len(self.wild), self.hours.free if self.hours else 0)


Floor = Callable[[float], float]


def learnt(
    dots: Sequence[Dot],
    day: float,
    value: float,
    floor: Floor,
    *,
    is_seasonal: bool = True,
    zero_is_level: bool = True,
) -> Learnt:
    """From the newest level on, the points that were not outside, and those of weekdays or hours that are always so.

    Nothing at all is a level only where `zero_is_level` says so; else it is taken for an outage, however long. `floor`
    is the least standard deviation that is believed of a mean. The value in question says whether a level is left.
    """
    dots, is_burst = _without_bursts(dots, day)
    is_seasonal, is_crowded = is_seasonal and not is_burst, _has_several(dots)
    origin = float(math.floor(day)) if is_crowded else around(day)
    clock = Clock(day, _parts(dots), is_crowded) if is_crowded else Clock(day)
    kept = level = dots
    streak: Sequence[Dot] = ()
    outside: Sequence[Dot] = ()
    if any(map(itemgetter(2), dots)):
        found = newest_level(dots, value, clock, zero_is_level=zero_is_level)
        places = [place for place in range(found.begin, len(dots)) if place not in found.gone]
        usual = [place for place in places if found.counts(place, dots)]
        kept = [dots[place] for place in usual if zero_is_level or dots[place][1] != 0 or not dots[place][2]]
        odd = [place for place in range(found.end, len(dots)) if not found.counts(place, dots)]
        # A level of hours may be a weekend, and so a habit; one of days is none.
        outside = [dots[place] for place in odd if is_crowded or place not in found.gone]
        last = usual[-1] if usual else found.end - 1
        level, streak = [dots[place] for place in places], [dots[place] for place in places if place > last]
    if is_crowded and is_seasonal:
        return _of_hours(
            dots, Learnt(kept, level, streak, level, origin, is_crowded), outside, clock, floor, zero_is_level
        )
    if is_seasonal and outside:
        kept = sorted([*kept, *_habits(outside, kept, _weekdays(origin), zero_is_level=zero_is_level)])
    wild = _wild(kept, floor)
    kept = [dot for dot in kept if dot not in wild] if wild else kept
    return Learnt(kept, level, streak, level, origin, is_crowded, wild, is_burst=is_burst)


def _has_several(dots: Sequence[Dot]) -> bool:
    """Whether there are several points a day."""
    return len(dots) >= max(_SEVERAL * (dots[-1][0] - dots[0][0]), _MIN_FOR_SEVERAL) if dots else False


def _without_bursts(dots: Sequence[Dot], day: float) -> tuple[Sequence[Dot], bool]:
    """A series without what came at once on few days, as older dates that are loaded again; whether it is doing so.

    Of such a day the point counts whose time of day is nearest to that in question. While it goes on, and most of it
    is usual, nobody knows of which weekday the next is.
    """
    days = [dot[0] for dot in dots]
    if len(dots) < _TWO_WEEKS or min(map(sub, days[_MIN_BURST - 1 :], days)) >= _BURST_DAYS:
        return dots, False
    dates = _by_turn(dots, lambda dot: int(dot[0]))
    bursts = {
        date: own for date, own in dates.items() if len(own) >= _MIN_BURST and own[-1][0] - own[0][0] < _BURST_DAYS
    }
    if len(dates) < _TWO_WEEKS or not 0 < len(bursts) <= (len(dates) + 8) // 10:
        return dots, False
    rest = [dot for date, own in dates.items() for dot in ([_nearest(own, day)] if date in bursts else own)]
    if _has_several(rest):
        return dots, False
    current = [dot for own in bursts.values() for dot in own if day - dot[0] < _BURST_DAYS]
    return rest, len(current) >= _MIN_BURST and _is_like(current, rest)


def _is_like(burst: Sequence[Dot], rest: Sequence[Dot]) -> bool:
    """Whether what comes at once is what is known: most of it is usual, or it has as much on the average, and varies.

    What is alike and odd is the same load, tried again and again.
    """
    if 2 * sum(1 for dot in burst if dot[2]) < len(burst):
        return True
    values, usual = [dot[1] for dot in burst], math.fsum(dot[1] for dot in rest) / len(rest)
    low, high = _ABOUT_AS_MUCH
    return max(values) > high * min(values) and low * usual <= math.fsum(values) / len(values) <= high * usual


def _nearest(dots: Sequence[Dot], day: float) -> Dot:
    """The point whose time of day is nearest to that in question."""
    return min(dots, key=lambda dot: abs((dot[0] - day + 0.5) % 1 - 0.5))


def _of_hours(
    dots: Sequence[Dot], found: Learnt, outside: Sequence[Dot], clock: Clock, floor: Floor, zero_is_level: bool
) -> Learnt:
    """What there is of several points a day: those of the same time of day, if that explains them."""
    kept, level, day, parts = list(found.dots), found.level, clock.day, clock.parts
    dates = len({int(dot[0]) for dot in kept})
    if outside:
        kept = sorted(kept + _habits(outside, kept, lambda dot: part(dot[0], day, parts), zero_is_level=zero_is_level))
    wild = _wild(kept, floor)
    kept = [dot for dot in kept if dot not in wild] if wild else kept
    # Hours of an outage say nothing of what is usual, either.
    whole = dots if zero_is_level else [dot for dot in dots if dot[1] != 0 or not dot[2]]
    plain = _plain(whole, floor) if dates < _A_WEEK and whole else None
    hours = _hours(kept, day, parts) if dates >= _MIN_DAYS else None
    # Some hours make a level: what a weekend has may be one, again and again.
    found = found._replace(weeks=[dot for dot in dots if part(dot[0], day, parts) == 0], wild=wild, plain=plain)
    if hours is None:
        return found._replace(dots=kept)
    own = [dot for dot in kept if part(dot[0], day, parts) == 0]
    origin = around(day)
    beyond = [dot for dot in outside if part(dot[0], day, parts) == 0 and dot not in own]
    if beyond:
        own = sorted(own + _habits(beyond, own, _weekdays(origin), zero_is_level=zero_is_level))
    level = [dot for dot in level if part(dot[0], day, parts) == 0]
    return found._replace(dots=own, level=level, origin=origin, hours=hours)


def _plain(dots: Sequence[Dot], floor: Floor) -> Plain:
    wild = _wild(dots, floor)
    found = [dot for dot in dots if dot not in wild] if wild else dots
    middle = math.fsum(dot[1] for dot in found) / len(found)
    return Plain(found, middle, math.fsum((dot[1] - middle) ** 2 for dot in found))


def _parts(dots: Sequence[Dot]) -> int:
    """In how many parts a day is looked at: not many more than it has points, and at most its hours."""
    crowd = (len(dots) - 1) / max(dots[-1][0] - dots[0][0], 1 / _PARTS[-1])
    return next((parts for parts in _PARTS if parts >= 0.75 * crowd), _PARTS[-1])


def _hours(dots: Sequence[Dot], day: float, parts: int) -> Hours | None:
    """What is usual by the time of day, if that explains more of a series than chance would and each part is known."""
    values = [dot[1] for dot in dots]
    middle = sum(values) / len(values)
    places = [int(((dot[0] - day) * parts + 0.5) // 1) % parts for dot in dots]
    sizes, sums = [0] * parts, [0.0] * parts
    for place, value in zip(places, values, strict=True):
        sizes[place] += 1
        sums[place] += value - middle
    total = sum((value - middle) ** 2 for value in values)
    own = {round(dot[0] - day) for place, dot in zip(places, dots, strict=True) if place == 0}
    known = sum(1 for size in sizes if size)
    if len(own) < _MIN_DAYS or min(sizes[1], sizes[-1]) < 2 or total <= 0:
        return None
    explained = sum(each * each / size for each, size in zip(sums, sizes, strict=True) if size)
    free = len(dots) - known
    rest = max(total - explained, 0.0)
    limit = _f_limit(known - 1) * (1 + 6.4 / free + 28.6 / free**2) if free > 0 else math.inf
    if explained < _MIN_HOURS_EXPLAIN * total or explained * free <= limit * rest * (known - 1):
        return None
    means = tuple(middle + (each / size if size else 0.0) for each, size in zip(sums, sizes, strict=True))
    spread = _spread(values, [means[place] for place in places], free) if sizes[0] < _ENOUGH else 0.0
    return Hours(day, means, spread, free)


def _spread(values: Sequence[float], usual: Sequence[float], free: int) -> float:
    """How far values scatter, as a share of what is usual; where that is next to nothing, of a tenth of the mean."""
    least = _LOWEST * sum(values) / len(values)
    off = [(value - each) / max(each, least) for value, each in zip(values, usual, strict=True)]
    return math.sqrt(sum(map(mul, off, off)) / free)


def _f_limit(more: int) -> float:
    """F that chance exceeds once in a thousand times with very many points, by Wilson and Hilferty's approximation."""
    ninth = 2 / (9 * more)
    return float((1 - ninth + 3.09 * math.sqrt(ninth)) ** 3)


def pooled(found: Fit, known: Learnt) -> Fit:
    """A fit to the points of one time of day, with the spread of all of them while it has few itself."""
    hours = known.hours
    if hours is None or len(known.dots) >= _ENOUGH or found.has_season or found.has_trend:
        return found
    middle = sum(hours.means) / len(hours.means)
    # Next to nothing is taken to scatter like a tenth of the mean, as it was when the spread was measured.
    stddev = hours.spread * max(found.expected, _LOWEST * middle)
    # A small load beside large ones has a way of its own.
    own = found.stddev if found.expected < _SMALL * middle else 0.0
    return found._replace(stddev=max(stddev, own), free=hours.free)


def _wild(dots: Sequence[Dot], floor: Floor) -> Sequence[Dot]:
    """The few points that are far from all others: a first load, or an exception, says nothing of the rest."""
    size = len(dots)
    if size < _MIN_FOR_WILD:
        return ()
    values = sorted([dot[1] for dot in dots])
    middle = (values[(size - 1) // 2] + values[size // 2]) / 2
    apart = _furthest(values, middle, (size + 8) // 10 + 1)
    # As many as there are before the last gap: two that are far off hide each other.
    count = max((place for place in range(1, len(apart)) if apart[place - 1] > _GAP * apart[place]), default=0)
    # Of few points most may be near each other by chance.
    far = _FAR * (1 + _FEW / size)
    if not count or apart[count - 1] <= far * floor(middle):
        return ()
    off = sorted([abs(value - middle) for value in values])
    if apart[count - 1] <= far * off[size // 2] / _MAD_SIGMA:
        return ()
    wild = [dot for dot in dots if abs(dot[1] - middle) >= apart[count - 1]]
    return wild if _is_exception(wild, dots, middle) else ()


def _furthest(ordered: Sequence[float], middle: float, count: int) -> list[float]:
    """How far those are from a middle that are furthest, of some values in order."""
    low, high, found = 0, len(ordered) - 1, []
    for _ in range(count):
        above, below = ordered[high] - middle, middle - ordered[low]
        found.append(max(above, below))
        low, high = (low, high - 1) if above >= below else (low + 1, high)
    return found


def _is_exception(wild: Sequence[Dot], dots: Sequence[Dot], middle: float) -> bool:
    """Whether points far off came on few days, not on one weekday always, and are not how a short series goes on."""
    all_dates, dates = {int(dot[0]) for dot in dots}, {int(dot[0]) for dot in wild}
    if dots[-1] in wild and (len(dots) < _MIN_TO_TELL or len(all_dates) < _MIN_DAYS):
        return False
    if len(all_dates) < _TWO_WEEKS and any(_may_be_weekday(dot[1], middle) and dot is not dots[0] for dot in wild):
        return False
    if len(dates) > 1 and len({date % 7 for date in dates}) < len(dates):
        return False
    return len(dates) == 1 or len(dates) <= (len(all_dates) + 8) // 10


def _may_be_weekday(value: float, middle: float) -> bool:
    """Whether a weekday may have a value, for all that is known before there are two of each."""
    return middle <= value * _WEEKDAY_FACTOR and value <= middle * _WEEKDAY_FACTOR


def was_let_in(known: Learnt, value: float, expected: float, least: int) -> Dot | None:
    """A point like a value that is far from all others and was let through: one of the first was never judged."""
    near = _NEAR * abs(value - expected)
    like = [dot for dot in known.wild if abs(dot[1] - value) <= near]
    return next((dot for dot in like if sum(1 for each in known.level if each < dot) >= least), None)


def has_lows(level: Sequence[Dot], value: float, left: float, expected: float) -> bool:
    """Whether values as low as this one are part of a series."""
    lows = [dot[1] for dot in level if dot[1] < left * expected]
    is_usual = len(level) >= _MIN_FOR_LOWS and len(lows) >= max(_MIN_LOWS, _USUAL_LOWS * len(level))
    return is_usual and value >= left * (mean(lows) or 0.0)


def is_echo(weeks: Sequence[Dot], day: float, value: float, expected: float) -> bool:
    """Whether a value is what its weekday always was, though too seldom for a season.

    That takes two earlier ones. A day beside it that was as much off is one of them, if nothing was said of the other:
    a weekend has two days. If something was said it takes three, of two weeks. Nothing at all is no echo of next to
    nothing: most of those days have to have had nothing, too.
    """
    near, origin = _NEAR * abs(value - expected), around(day)
    alike = [dot for dot in weeks if phase(dot[0], origin) == 0 and day - dot[0] > 1]
    if not alike or not all(abs(dot[1] - value) <= near for dot in alike):
        return False
    if len({(dot[0] - origin) // 1 for dot in alike}) >= _MIN_ECHOES:
        return value != 0 or 2 * sum(1 for dot in alike if dot[1] == 0) > len(alike)
    beside = [dot for dot in weeks if phase(dot[0], origin) in (1, 6) and abs(dot[1] - value) <= near]
    if value == 0 or not beside:
        return False
    # How a series began is no rule: a first load may be small.
    if any(not dot[2] and dot is not weeks[0] for dot in alike):
        return any(not dot[2] or day - dot[0] < 2 for dot in beside)
    return len(beside) >= _MIN_ECHOES and len({round((day - dot[0]) / 7) for dot in [*alike, *beside]}) >= _MIN_ECHOES


def level_run(
    known: Learnt, usual: Callable[[float], float], newest: Dot, side: int, *, zero_is_level: bool = True
) -> int:
    """How many in a row, the newest among them, make a new level on a side (1 above, -1 below); 0 if they do not."""
    usual = known.hours.at if known.hours else usual
    run = [newest]
    for dot in reversed(known.streak):
        if direction(dot, usual(dot[0])) != side:
            break
        run.append(dot)
    counted = [dot for dot in run if zero_is_level or dot[1] != 0]
    days = level_days(newest[1], usual(newest[0]), is_crowded=known.is_crowded)
    is_level = newest in counted and len(counted) >= LEVEL_RUN and newest[0] - counted[-1][0] >= days
    return len(counted) if is_level else 0


def _weekdays(origin: float) -> Callable[[Dot], int]:
    return lambda dot: phase(dot[0], origin)


def _habits(
    outside: Sequence[Dot], kept: Sequence[Dot], turn: Callable[[Dot], int], *, zero_is_level: bool
) -> list[Dot]:
    """Points outside that their turn, a weekday or a time of day, repeats: on two days or more, most of its points."""
    found: list[Dot] = []
    middle, usual = mean([dot[1] for dot in kept]), Counter(map(turn, kept))
    for place, own in _by_turn(outside, turn).items():
        weeks = {math.floor(dot[0]) for dot in own}
        values = [dot[1] for dot in own]
        if middle is None or len(weeks) < 2 or usual[place] >= len(own):
            continue
        if not zero_is_level and min(values) == 0 and not _is_interrupted(sorted(weeks), kept):
            continue
        apart = min(abs(value - middle) for value in values)
        if len({direction(dot, middle) for dot in own}) == 1 and max(values) - min(values) <= apart / 2:
            found += own
    return found


def _by_turn(dots: Iterable[Dot], turn: Callable[[Dot], int]) -> dict[int, list[Dot]]:
    found: dict[int, list[Dot]] = {}
    for dot in dots:
        found.setdefault(turn(dot), []).append(dot)
    return found


def _is_interrupted(weeks: Sequence[int], kept: Sequence[Dot]) -> bool:
    """Whether something usual lies between each of some days and the next: else they are days of one outage."""
    return all(any(day < dot[0] < after for dot in kept) for day, after in pairwise(weeks))
