"""Labelled series: what a dataset's metric does over months, and where something went wrong.

Each family is drawn from numbers of its own, so that a seed gives the same series again.
A planted anomaly is one that a person who knew the series would see: at least five standard deviations of its noise
off, and at least a sixth of its value. After a shift of level the first point is the anomaly, the next four are not
counted (whether they are still news is a matter of taste), and from then on the level is the usual one. What a person
called a false alarm is not counted either.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from headgate.domain.verdict import Metric

DAYS = 120
HOURS = 24 * 21
KNOWN_DAYS = 3
WEEKS = 60
# No side judges fewer than five points, so that nothing is planted among them.
FIRST = 6
SETTLING = 4
_BEGIN = datetime(2026, 1, 1, 6, tzinfo=UTC)


@dataclass
class Series:
    """A metric's points with the places of anomalies, and of points that are not counted either way.

    `rows` are how many each is a share of; `forgiven` are those that a person calls false alarms.
    """

    family: str
    metric: Metric = Metric.row_count
    times: list[datetime] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    wrong: set[int] = field(default_factory=set)
    uncounted: set[int] = field(default_factory=set)
    rows: list[int] = field(default_factory=list)
    forgiven: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Shape:
    """What is usual on a day, and how far it scatters."""

    level: float
    noise: float
    slope: float = 0.0
    rate: float = 0.0
    weekend: float = 1.0
    monday: float = 1.0

    def usual(self, day: int) -> float:
        weekday = (_BEGIN + timedelta(days=day)).weekday()
        factor = self.weekend if weekday > 4 else self.monday if weekday == 0 else 1.0
        return self.level * max(0.1, 1 + self.slope * day) * (1 + self.rate) ** day * factor

    def drawn(self, chance: random.Random, day: int) -> float:
        usual = self.usual(day)
        return max(0.0, round(chance.gauss(usual, self.noise * usual)))


def _level(chance: random.Random) -> float:
    return 10 ** chance.uniform(3, 7)


def _steady(chance: random.Random) -> Shape:
    return Shape(_level(chance), chance.uniform(0.02, 0.12))


def _trending(chance: random.Random) -> Shape:
    slope = chance.choice((chance.uniform(0.005, 0.03), -chance.uniform(0.002, 0.006)))
    return Shape(_level(chance), chance.uniform(0.02, 0.08), slope=slope)


def _weekly(chance: random.Random) -> Shape:
    weekend, monday = chance.uniform(0.1, 0.7), chance.choice((1.0, chance.uniform(1.1, 1.6)))
    return Shape(_level(chance), chance.uniform(0.02, 0.08), weekend=weekend, monday=monday)


def _growing_weekly(chance: random.Random) -> Shape:
    weekend, slope = chance.uniform(0.2, 0.7), chance.uniform(0.003, 0.015)
    return Shape(_level(chance), chance.uniform(0.02, 0.08), slope=slope, weekend=weekend)


def _compounding(chance: random.Random) -> Shape:
    """So many percent a day more, or less: at first or at last thousands of rows."""
    noise = chance.uniform(0.02, 0.08)
    if chance.random() < 0.5:
        return Shape(_level(chance), noise, rate=chance.uniform(0.01, 0.05))
    return Shape(10 ** chance.uniform(6, 8), noise, rate=-chance.uniform(0.01, 0.05))


def _spike(chance: random.Random, usual: float, noise: float) -> float:
    return round(usual * (1 + max(chance.uniform(5, 15) * noise, chance.uniform(0.17, 2.0))))


def _drop(chance: random.Random, usual: float, noise: float) -> float:
    return round(max(0.0, usual * (1 - min(1.0, max(chance.uniform(5, 12) * noise, chance.uniform(0.17, 1.0))))))


Plant = Callable[[random.Random, float, float], float]


def _either(chance: random.Random, usual: float, noise: float) -> float:
    return (_spike if chance.random() < 0.5 else _drop)(chance, usual, noise)


def _places(chance: random.Random, days: int, share: float) -> set[int]:
    return {day for day in range(FIRST, days) if chance.random() < share}


def _planted(shaped: Callable[[random.Random], Shape], plant: Plant, share: float = 0.02, missing: float = 0.0) -> Draw:
    """Series of a shape with anomalies here and there, and without some of its days."""

    def draw(chance: random.Random, series: Series) -> None:
        shape = shaped(chance)
        wrong = _places(chance, DAYS, share)
        for day in range(DAYS):
            if day not in wrong and chance.random() < missing:
                continue
            value = plant(chance, shape.usual(day), shape.noise) if day in wrong else shape.drawn(chance, day)
            _add(series, day, value, is_wrong=day in wrong)

    return draw


def _shifted(chance: random.Random, series: Series) -> None:
    """A level that changes for good once or twice."""
    shape = _steady(chance)
    shifts = {chance.randint(25, 55), chance.randint(75, 105)} if chance.random() < 0.5 else {chance.randint(25, 105)}
    level = 1.0
    for day in range(DAYS):
        if day in shifts:
            level *= chance.choice((chance.uniform(1.8, 4.0), chance.uniform(0.2, 0.5)))
            series.uncounted.update(range(day + 1, day + 1 + SETTLING))
        _add(series, day, round(level * shape.drawn(chance, day)), is_wrong=day in shifts)


def _constant(chance: random.Random, series: Series) -> None:
    """A table that is written anew with the same rows, now and then a few more; a fifth more or less is wrong."""
    rows, wrong = round(_level(chance)), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        if chance.random() < 0.1:
            rows += max(1, round(rows * chance.uniform(0, 0.004)))
        factor = chance.choice((chance.uniform(1.2, 3), chance.uniform(0, 0.8))) if day in wrong else 1.0
        _add(series, day, round(rows * factor), is_wrong=day in wrong)


def _small(chance: random.Random, series: Series) -> None:
    """A partition of a few rows a day: what chance makes of it is usual, nothing instead of thirty rows is not."""
    usual, wrong = chance.choice((0.5, 2, 5, 10, 20, 40)), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        value = _poisson(chance, usual)
        if day in wrong:
            spike = math.ceil(usual + chance.uniform(6, 15) * math.sqrt(usual + 1))
            value = 0 if usual >= 40 and chance.random() < 0.5 else spike
        _add(series, day, value, is_wrong=day in wrong)


def _skewed(chance: random.Random, series: Series) -> None:
    """Most days alike, some much larger: the tail belongs to it. Wrong is what is far beyond, or next to nothing."""
    level, spread, wrong = _level(chance), chance.uniform(0.2, 0.5), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        value = level * math.exp(chance.gauss(0, spread))
        if day in wrong:
            far = chance.uniform(5, 8) * spread
            value = level * (math.exp(far) if chance.random() < 0.5 else math.exp(-far) / 2)
        _add(series, day, round(value), is_wrong=day in wrong)


def _nulls(chance: random.Random, series: Series) -> None:
    """Share of nulls in a column of a few thousand to a few million rows; wrong is a tenth or more of them lost."""
    series.metric = Metric.null_share
    rows, usual = (
        10 ** chance.uniform(3, 6),
        chance.choice((0.0, chance.uniform(0.001, 0.05), chance.uniform(0.05, 0.3))),
    )
    wrong = _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        scatter = math.sqrt(usual * (1 - usual) / rows) + 0.03 * usual
        value = min(1.0, max(0.0, chance.gauss(usual, scatter)))
        if day in wrong:
            value = min(1.0, usual + max(chance.uniform(0.05, 0.7), chance.uniform(5, 10) * scatter))
        _add(series, day, value, is_wrong=day in wrong)


def _durations(chance: random.Random, series: Series) -> None:
    """How long a job runs: scattered to the right; wrong is three times as long or more."""
    series.metric = Metric.duration_ms
    usual, spread, wrong = 10 ** chance.uniform(3.5, 7), chance.uniform(0.05, 0.25), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        value = usual * math.exp(chance.gauss(0, spread))
        if day in wrong:
            value = (usual + 3000) * max(chance.uniform(3, 10), math.exp(6 * spread))
        _add(series, day, round(value), is_wrong=day in wrong)


def _poisson(chance: random.Random, usual: float) -> int:
    limit, count, product = math.exp(-usual), 0, chance.random()
    while product > limit:
        count, product = count + 1, product * chance.random()
    return count


def _working_hours(chance: random.Random, series: Series) -> None:
    """A point an hour, with more in twelve hours of the day; of every second the weekends are like nights."""
    shape, night, opens = _steady(chance), chance.uniform(0.05, 0.6), chance.randint(0, 23)
    noise, has_weekends, wrong = chance.uniform(0.02, 0.08), chance.random() < 0.5, _places(chance, HOURS, 0.01)
    for hour in range(HOURS):
        at = _BEGIN + timedelta(hours=hour)
        is_open = (at.hour - opens) % 24 < 12 and not (has_weekends and at.weekday() > 4)
        usual = shape.level * (1.0 if is_open else night)
        # On the first days nobody knows the hours.
        is_wrong = hour in wrong and hour >= 24 * KNOWN_DAYS
        value = _either(chance, usual, noise) if is_wrong else max(0.0, round(usual * chance.gauss(1, noise)))
        _add_at(series, at, value, is_wrong=is_wrong)


def _hourly_shift(chance: random.Random, series: Series) -> None:
    """A point an hour, and a level that changes for good."""
    shape, shift = _steady(chance), chance.randint(5 * 24, 12 * 24)
    factor = chance.choice((chance.uniform(1.8, 4.0), chance.uniform(0.3, 0.5)))
    series.uncounted.update(range(shift + 1, shift + 1 + SETTLING))
    for hour in range(HOURS):
        value = round(shape.drawn(chance, 0) * (factor if hour >= shift else 1.0))
        _add_at(series, _BEGIN + timedelta(hours=hour), value, is_wrong=hour == shift)


def _first_load(chance: random.Random, series: Series) -> None:
    """All there is on the first day, and what is new on each day after it."""
    shape, wrong = _steady(chance), _places(chance, DAYS, 0.03)
    for day in range(DAYS):
        value = _either(chance, shape.usual(day), shape.noise) if day in wrong else shape.drawn(chance, day)
        _add(series, day, value if day else value * 10 ** chance.uniform(1, 3), is_wrong=day in wrong)


def _forgiven(chance: random.Random, series: Series) -> None:
    """One day is loaded once more, with all that there ever was, and a person says that this was right."""
    shape, wrong, reload = _steady(chance), _places(chance, DAYS, 0.03), chance.randint(15, 60)
    series.forgiven, series.uncounted = {reload}, {reload}
    for day in range(DAYS):
        value = _either(chance, shape.usual(day), shape.noise) if day in wrong else shape.drawn(chance, day)
        factor = 10 ** chance.uniform(1, 3) if day == reload else 1.0
        _add(series, day, round(value * factor), is_wrong=day in wrong - {reload})


def _small_constant(chance: random.Random, series: Series) -> None:
    """A table of a few rows that are always the same; wrong is that they are gone, or most of them."""
    rows, wrong = chance.randint(2, 40), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        left = 0 if chance.random() < 0.5 else chance.randint(0, max(0, math.ceil(rows / 2) - 1))
        _add(series, day, left if day in wrong else rows, is_wrong=day in wrong)


def _few_nulls(chance: random.Random, series: Series) -> None:
    """Share of nulls in a column of ten to two hundred rows: chance makes much of it; wrong is most of them lost."""
    series.metric = Metric.null_share
    rows, usual, wrong = chance.choice((10, 20, 50, 200)), chance.uniform(0.002, 0.03), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        size = max(5, round(chance.gauss(rows, 0.1 * rows)))
        share = chance.uniform(0.5, 1.0) if day in wrong else usual
        series.rows.append(size)
        _add(series, day, sum(chance.random() < share for _ in range(size)) / size, is_wrong=day in wrong)


def _never_null(chance: random.Random, series: Series) -> None:
    """A column of a large table that has no nulls; wrong is that one in a hundred is one."""
    series.metric = Metric.null_share
    rows, wrong = round(10 ** chance.uniform(5, 7)), _places(chance, DAYS, 0.02)
    for day in range(DAYS):
        # The first anomaly is planted where it is known that there are none.
        is_wrong = day in wrong and day > 10
        series.rows.append(rows)
        _add(series, day, chance.uniform(0.008, 0.03) if is_wrong else 0.0, is_wrong=is_wrong)


def _once_a_week(chance: random.Random, series: Series) -> None:
    """A point a week."""
    shape, wrong = _steady(chance), _places(chance, WEEKS, 0.03)
    for week in range(WEEKS):
        value = _either(chance, shape.level, shape.noise) if week in wrong else shape.drawn(chance, 0)
        _add(series, 7 * week, value, is_wrong=week in wrong)


def _summer_time(chance: random.Random, series: Series) -> None:
    """A weekly season by the clock of Berlin, about midnight of UTC, over the change to summer time."""
    shape, wrong = _weekly(chance), _places(chance, DAYS, 0.02)
    minute, jitter = chance.choice((30, 60, 90)), chance.choice((0.0, 4.0))
    for day in range(DAYS):
        date = _BEGIN + timedelta(days=day)
        local = datetime(date.year, date.month, date.day, minute // 60, minute % 60, tzinfo=ZoneInfo("Europe/Berlin"))
        at = local.astimezone(UTC) + timedelta(minutes=chance.gauss(0, jitter))
        value = _either(chance, shape.usual(day), shape.noise) if day in wrong else shape.drawn(chance, day)
        _add_at(series, at, value, is_wrong=day in wrong)


def _lost_days(chance: random.Random, series: Series) -> None:
    """A weekly season of which half or more is lost for five to nine days, and then is there again."""
    shape, begin, left = _weekly(chance), chance.randint(40, 70), chance.uniform(0.2, 0.5)
    lost = range(begin, begin + chance.randint(5, 9))
    wrong = _places(chance, DAYS, 0.02) - set(lost)
    series.uncounted.update(lost[1:])
    for day in range(DAYS):
        value = _either(chance, shape.usual(day), shape.noise) if day in wrong else shape.drawn(chance, day)
        _add(series, day, round(value * left) if day in lost else value, is_wrong=day in wrong or day == begin)


def _lost_hours(chance: random.Random, series: Series) -> None:
    """A point an hour, with more by day, of which half or more is lost for five to twelve hours."""
    level, height, noise = _level(chance), chance.uniform(0.3, 0.8), chance.uniform(0.02, 0.06)
    begin, left = chance.randint(24 * 10, 24 * 14), chance.uniform(0.3, 0.5)
    lost = range(begin, begin + chance.randint(5, 12))
    wrong = {hour for hour in _places(chance, HOURS, 0.01) if hour >= 24 * KNOWN_DAYS} - set(lost)
    series.uncounted.update(lost[1:])
    for hour in range(HOURS):
        usual = level * (1 + height * math.sin(hour / 24 * 2 * math.pi)) * (left if hour in lost else 1.0)
        value = _either(chance, usual, noise) if hour in wrong else max(0.0, round(usual * chance.gauss(1, noise)))
        _add_at(series, _BEGIN + timedelta(hours=hour), value, is_wrong=hour in wrong or hour == begin)


def _quiet_nights(chance: random.Random, series: Series) -> None:
    """A point an hour: next to nothing in six hours of the night, and little in the hours about them."""
    level, night, noise = _level(chance), chance.uniform(0.01, 0.15), chance.uniform(0.03, 0.08)
    wrong, begin = _places(chance, HOURS, 0.01), _BEGIN + timedelta(hours=chance.randint(0, 23))
    for hour in range(HOURS):
        at = begin + timedelta(hours=hour)
        usual = level * (night if at.hour < 6 else 1.0 if 8 <= at.hour < 22 else 0.25)
        is_wrong = hour in wrong and hour >= 24 * KNOWN_DAYS
        value = _either(chance, usual, noise) if is_wrong else max(0.0, round(usual * chance.gauss(1, noise)))
        _add_at(series, at, value, is_wrong=is_wrong)


def _two_loads(chance: random.Random, series: Series) -> None:
    """A large load in the morning that hardly scatters, and a small one in the evening that does."""
    large, small = _level(chance) * 100, 10 ** chance.uniform(-3, -1)
    noises, wrong = (chance.uniform(0.003, 0.02), chance.uniform(0.03, 0.15)), _places(chance, 2 * DAYS, 0.02)
    for place in range(2 * DAYS):
        usual, noise = large * (small if place % 2 else 1.0), noises[place % 2]
        is_wrong = place in wrong and place >= 2 * KNOWN_DAYS
        value = _either(chance, usual, noise) if is_wrong else max(0.0, round(usual * chance.gauss(1, noise)))
        _add_at(series, _BEGIN + timedelta(hours=12 * place), value, is_wrong=is_wrong)


def _backfill(chance: random.Random, series: Series) -> None:
    """A weekly season, and one day on which weeks or months of older dates are loaded within hours."""
    shape, loaded, older = _weekly(chance), chance.randint(25, 60), chance.randint(14, 120)
    wrong, step = _places(chance, DAYS, 0.02), timedelta(hours=chance.uniform(1, 6)) / older
    for day in range(DAYS):
        value = _either(chance, shape.usual(day), shape.noise) if day in wrong else shape.drawn(chance, day)
        _add(series, day, value, is_wrong=day in wrong)
        for place in range(older if day == loaded else 0):
            at = _BEGIN + timedelta(days=day, hours=6) + place * step
            _add_at(series, at, shape.drawn(chance, place), is_wrong=False)


def _add(series: Series, day: int, value: float, *, is_wrong: bool) -> None:
    _add_at(series, _BEGIN + timedelta(days=day), value, is_wrong=is_wrong)


def _add_at(series: Series, at: datetime, value: float, *, is_wrong: bool) -> None:
    if is_wrong:
        series.wrong.add(len(series.values))
    series.times.append(at)
    series.values.append(value)


Draw = Callable[[random.Random, Series], None]

FAMILIES: dict[str, Draw] = {
    "noise": _planted(_steady, _either),
    "trend": _planted(_trending, _either),
    "compounding": _planted(_compounding, _either),
    "weekly season": _planted(_weekly, _either),
    "trend and season": _planted(_growing_weekly, _either),
    "level shifts": _shifted,
    "spikes": _planted(_steady, _spike, share=0.05),
    "drops": _planted(_steady, _drop, share=0.05),
    "missing days": _planted(_weekly, _either, missing=0.25),
    "constant": _constant,
    "small partitions": _small,
    "skewed": _skewed,
    "null shares": _nulls,
    "durations": _durations,
    "working hours": _working_hours,
    "hourly shift": _hourly_shift,
    "large first load": _first_load,
    "forgiven reload": _forgiven,
    "small constant": _small_constant,
    "few nulls": _few_nulls,
    "never null": _never_null,
    "once a week": _once_a_week,
    "summer time": _summer_time,
    "lost days": _lost_days,
    "lost hours": _lost_hours,
    "quiet nights": _quiet_nights,
    "two loads a day": _two_loads,
    "backfill": _backfill,
}


def drawn(family: str, seeds: range) -> Iterator[Series]:
    """A series for each seed."""
    for seed in seeds:
        series = Series(family)
        FAMILIES[family](random.Random(f"{family} {seed}"), series)
        yield series
