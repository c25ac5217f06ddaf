"""What a series is learnt from: without points far from all others, from its newest level on, of the same time of day.

Numbers only; what is measured and what a deviation means is not known here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter, mul
from typing import Final, NamedTuple

from headgate.domain.metric import mean
from headgate.domain.series import Dot, Fit, around, phase

# A level has changed if so many in a row are on one side, over so many days: hours of an outage are no level.
LEVEL_RUN: Final = 5
LEVEL_DAYS: Final = 3.0
# Of several points a day some hours are enough, but for what is next to nothing: that may be an outage for a day.
_LEVEL_HOURS: Final = 3 / 24
_OUTAGE_DAYS: Final = 1.0
_NEXT_TO_NOTHING: Final = 0.25
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
# With fewer days of several points each, a weekend has not been seen: the rule over all points has to agree.
_A_WEEK: Final = 8
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
        return self.means[_part(day, self.day, len(self.means))]

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
    a day are known for less than a week.
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

    @property
    def points(self) -> int:
        """How many points there are to judge by: those of other hours say how far each scatters."""
        return max(len(self.dots) + len(self.wild), self.hours.free if self.hours else 0)


Floor = Callable[[float], float]


def learnt(
    dots: Sequence[Dot], day: float, floor: Floor, *, is_seasonal: bool = True, zero_is_level: bool = True
) -> Learnt:
    """From the newest level on, the points that were not outside, and those of weekdays or hours that are always so.

    Nothing at all is a level only where `zero_is_level` says so; else it is taken for an outage, however long. `floor`
    is the least standard deviation that is believed of a mean.
    """
    is_crowded = len(dots) >= max(_SEVERAL * (dots[-1][0] - dots[0][0]), _MIN_FOR_SEVERAL) if dots else False
    origin = float(math.floor(day)) if is_crowded else around(day)
    kept = level = dots
    streak: Sequence[Dot] = ()
    outside: Sequence[Dot] = ()
    if any(map(itemgetter(2), dots)):
        begin, end = _newest_level(dots, is_crowded=is_crowded, zero_is_level=zero_is_level)
        within = [dot for dot in dots[begin:end] if zero_is_level or dot[1] != 0 or not dot[2]]
        kept = within + [dot for dot in dots[end:] if not dot[2]]
        outside = [dot for dot in dots[end:] if dot[2]]
        last = next((place for place in range(len(dots) - 1, end - 1, -1) if not dots[place][2]), end - 1)
        level, streak = dots[begin:], dots[last + 1 :]
    if is_crowded and is_seasonal:
        return _of_hours(
            dots, Learnt(kept, level, streak, level, origin, is_crowded), outside, day, floor, zero_is_level
        )
    if is_seasonal and outside:
        kept = sorted([*kept, *_habits(outside, kept, _weekdays(origin), zero_is_level=zero_is_level)])
    wild = _wild(kept, floor)
    kept = [dot for dot in kept if dot not in wild] if wild else kept
    return Learnt(kept, level, streak, level, origin, is_crowded, wild)


def _of_hours(
    dots: Sequence[Dot], found: Learnt, outside: Sequence[Dot], day: float, floor: Floor, zero_is_level: bool
) -> Learnt:
    """What there is of several points a day: those of the same time of day, if that explains them."""
    kept, level = list(found.dots), found.level
    dates = len({int(dot[0]) for dot in kept})
    parts = _parts((len(dots) - 1) / max(dots[-1][0] - dots[0][0], 1 / _PARTS[-1]))
    if outside:
        kept = sorted(kept + _habits(outside, kept, lambda dot: _part(dot[0], day, parts), zero_is_level=zero_is_level))
    wild = _wild(kept, floor)
    kept = [dot for dot in kept if dot not in wild] if wild else kept
    # Hours of an outage say nothing of what is usual, either.
    whole = dots if zero_is_level else [dot for dot in dots if dot[1] != 0 or not dot[2]]
    plain = _plain(whole, floor) if dates < _A_WEEK and whole else None
    hours = _hours(kept, day, parts) if dates >= _MIN_DAYS else None
    # Some hours make a level: what a weekend has may be one, again and again.
    found = found._replace(weeks=[dot for dot in dots if _part(dot[0], day, parts) == 0], wild=wild, plain=plain)
    if hours is None:
        return found._replace(dots=kept)
    own = [dot for dot in kept if _part(dot[0], day, parts) == 0]
    origin = around(day)
    beyond = [dot for dot in outside if _part(dot[0], day, parts) == 0 and dot not in own]
    if beyond:
        own = sorted(own + _habits(beyond, own, _weekdays(origin), zero_is_level=zero_is_level))
    level = [dot for dot in level if _part(dot[0], day, parts) == 0]
    return found._replace(dots=own, level=level, origin=origin, hours=hours)


def _plain(dots: Sequence[Dot], floor: Floor) -> Plain:
    wild = _wild(dots, floor)
    found = [dot for dot in dots if dot not in wild] if wild else dots
    middle = math.fsum(dot[1] for dot in found) / len(found)
    return Plain(found, middle, math.fsum((dot[1] - middle) ** 2 for dot in found))


def _parts(crowd: float) -> int:
    """In how many parts a day is looked at that has so many points: not many more than them, and at most its hours."""
    return next((parts for parts in _PARTS if parts >= 0.75 * crowd), _PARTS[-1])


def _part(at: float, day: float, parts: int) -> int:
    """Which part of the day a time is in; the first has the time in question in its middle."""
    return int(((at - day) * parts + 0.5) // 1) % parts


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
    return found._replace(stddev=hours.spread * found.expected, free=hours.free)


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
        if _side(dot, usual(dot[0])) != side:
            break
        run.append(dot)
    counted = [dot for dot in run if zero_is_level or dot[1] != 0]
    days = _level_days(newest[1], usual(newest[0]), is_crowded=known.is_crowded)
    is_level = newest in counted and len(counted) >= LEVEL_RUN and newest[0] - counted[-1][0] >= days
    return len(counted) if is_level else 0


def _level_days(value: float, before: float | None, *, is_crowded: bool) -> float:
    """How long it takes to make a level of a value."""
    if not is_crowded:
        return LEVEL_DAYS
    return _OUTAGE_DAYS if before is not None and value < _NEXT_TO_NOTHING * before else _LEVEL_HOURS


def _newest_level(dots: Sequence[Dot], *, is_crowded: bool, zero_is_level: bool) -> tuple[int, int]:
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
        found = _level_end(dots, places, end, before, is_crowded=is_crowded)
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


def _level_end(dots: Sequence[Dot], places: Sequence[int], end: int, before: float | None, *, is_crowded: bool) -> int:
    """Where the level is made of what a run has at some places; 0 if it is not."""
    for count, place in enumerate(places, start=1):
        days = _level_days(dots[place][1], before, is_crowded=is_crowded)
        if count >= LEVEL_RUN and dots[place][0] - dots[places[0]][0] >= days:
            return place + 1
    if len(places) < LEVEL_RUN - 1 or end >= len(dots):
        return 0
    days = _level_days(dots[end][1], before, is_crowded=is_crowded)
    is_one_short = dots[end][0] - dots[places[0]][0] >= days
    return end if is_one_short and _is_taken(dots, places, end, before) else 0


def _is_taken(dots: Sequence[Dot], places: Sequence[int], end: int, before: float | None) -> bool:
    """Whether the point after a run was let through as what it is, a new level: it is nearer to it than to the past."""
    if before is None:
        return False
    level = mean([dots[place][1] for place in places]) or 0.0
    return abs(dots[end][1] - level) < abs(dots[end][1] - before)


def _side(dot: Dot, expected: float) -> int:
    return (dot[1] > expected) - (dot[1] < expected)


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
        if len({_side(dot, middle) for dot in own}) == 1 and max(values) - min(values) <= apart / 2:
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
