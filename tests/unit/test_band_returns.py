"""Levels that were left again for what was usual before them, and loads that came at once."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import pytest

from headgate.domain.anomaly import AnomalyType
from headgate.domain.band import judge
from headgate.domain.verdict import Metric, Point, Verdict
from tests.unit.measurements import BEGIN, DAY, ROWS, noisy, weekly

HOUR = timedelta(hours=1)
MIDNIGHT = BEGIN.replace(hour=0)


def judged(points: Iterable[tuple[datetime, float]], metric: Metric = ROWS) -> list[Verdict]:
    """The verdicts on points as they come in, with what they make of those before them."""
    history, found = list[Point](), []
    for at, value in points:
        found.append(judge(metric, history, at, value))
        history.append(Point(at, value, found[-1].is_outside))
    return found


def by_day(values: Sequence[float], metric: Metric = ROWS) -> list[Verdict]:
    return judged(((BEGIN + day * DAY, value) for day, value in enumerate(values)), metric)


def told(found: Iterable[Verdict]) -> list[str]:
    return [each.reason for each in found if each.is_anomalous]


class TestDays:
    def test_what_was_lost_for_days_comes_back_without_alarm(self) -> None:
        found = by_day([*noisy(30), *[400, 410, 395, 405, 400], *noisy(20)])
        assert [each.state.value for each in found[30:35]] == ["anomalous"] * 4 + ["new_level"]
        assert told(found[35:]) == []

    def test_what_was_usual_before_counts_at_once(self) -> None:
        found = by_day([*noisy(30), *[400, 410, 395, 405, 400], 1000, 990, 400])
        assert found[-3].expected == pytest.approx(1000, rel=0.03)
        assert found[-1].type is AnomalyType.RowCountDrop

    def test_that_there_is_less_again_is_told_once(self) -> None:
        found = by_day([*noisy(30), *[3000, 3050, 2990, 3010, 3020], *noisy(10)])
        assert [each.state.value for each in found[35:]] == ["anomalous"] + ["normal"] * 9

    def test_one_low_point_does_not_end_a_higher_level(self) -> None:
        found = by_day([*noisy(30), *[3000, 3050, 2990, 3010, 3020], 1000, *[3000, 3040, 2990]])
        assert [each.state.value for each in found[35:]] == ["anomalous"] + ["normal"] * 3

    def test_a_level_of_weeks_is_no_temporary_one(self) -> None:
        found = by_day([*noisy(30), *[value * 0.4 for value in noisy(16)], 1000])
        assert found[-1].type is AnomalyType.RowCountSpike

    @pytest.mark.parametrize("lost_from", [28, 30], ids=["from Monday on", "from Wednesday on"])
    def test_weekdays_are_known_after_a_week_in_which_much_was_lost(self, lost_from: int) -> None:
        values = noisy(70, weekly)
        for day in range(lost_from, lost_from + 5):
            values[day] *= 0.4
        values[lost_from + 14] = 300 if weekly(lost_from + 14) == 1000 else 1000
        values[40] = 1000
        found = by_day(values)
        wrong = {40, lost_from + 14}
        assert all(found[day].is_anomalous for day in wrong)
        assert told(each for day, each in enumerate(found) if day >= lost_from + 5 and day not in wrong) == []

    def test_nulls_that_are_gone_again_leave_nothing_behind(self) -> None:
        found = by_day([*[0.0] * 20, *[0.3] * 5, *[0.0] * 5, 0.3], Metric.null_share)
        assert [each.is_anomalous for each in found[25:]] == [True, False, False, False, False, True]


class TestHours:
    @staticmethod
    def usual(at: datetime) -> float:
        return 1000 + 800 * math.sin((at.hour - 6) / 24 * 2 * math.pi)

    def points(self, days: int, lost: range, wrong: dict[int, float]) -> list[tuple[datetime, float]]:
        chance, found = random.Random(1), list[tuple[datetime, float]]()
        for hour in range(24 * days):
            at = MIDNIGHT + hour * HOUR
            factor = 0.4 if hour in lost else wrong.get(hour, 1.0)
            found.append((at, round(self.usual(at) * chance.lognormvariate(0, 0.05) * factor)))
        return found

    @pytest.mark.parametrize("hours", [5, 30])
    def test_an_outage_of_hours_leaves_the_hours_known(self, hours: int) -> None:
        lost = range(24 * 20 + 10, 24 * 20 + 10 + hours)
        wrong = {24 * 22 + 12: 0.3, 24 * 23 + 3: 3.0, 24 * 25 + 12: 0.3}
        found = judged(self.points(28, lost, wrong))
        assert all(found[hour].is_anomalous for hour in wrong)
        after = [each for hour, each in enumerate(found) if hour >= lost.stop and hour not in wrong]
        assert len(told(after)) <= 2, told(after)

    def test_a_level_that_stays_is_learnt_anew(self) -> None:
        lost = range(24 * 20 + 10, 24 * 28)
        found = judged(self.points(28, lost, {}))
        assert len(told(found[lost.start :])) <= 8, told(found[lost.start :])


def quiet_nights(at: datetime) -> float:
    return 100 if at.hour < 6 else 3000 if 8 <= at.hour < 22 else 700


def test_quiet_nights_do_not_alarm_after_the_third() -> None:
    chance, begin = random.Random(1), MIDNIGHT + 9 * HOUR
    times = [begin + hour * HOUR for hour in range(24 * 9)]
    found = judged((at, round(quiet_nights(at) * chance.lognormvariate(0, 0.05))) for at in times)
    assert told(found[24 * 4 :]) == []
    assert len(told(found)) <= 24


@pytest.mark.parametrize("noise", [0.05, 0.1, 0.2])
def test_a_small_load_beside_a_large_one_scatters_as_it_does(noise: float) -> None:
    alarms = 0
    for seed in range(4):
        chance, values = random.Random(seed), list[float]()
        for _ in range(24):
            values += [round(1e6 * chance.gauss(1, 0.003)), round(1000 * chance.gauss(1, noise))]
        found = judged((BEGIN + place * 12 * HOUR, value) for place, value in enumerate(values))
        alarms += len(told(found[8:]))
        assert judge(
            ROWS,
            [Point(BEGIN + place * 12 * HOUR, each) for place, each in enumerate(values)],
            BEGIN + 24 * DAY,
            500_000,
        ).is_anomalous
    assert alarms <= 4


class TestBackfill:
    @staticmethod
    def points(days: int, loaded: int, at_day: int, wrong: dict[int, float]) -> list[tuple[datetime, float]]:
        """A weekday's rows a day, and within an hour those of older dates with the same weekdays."""
        values = {**dict(enumerate(noisy(days, weekly))), **wrong}
        older = noisy(loaded, lambda day: weekly(day) * 1.01)
        begin = BEGIN + (at_day - 1) * DAY + 6 * HOUR
        daily = [(BEGIN + day * DAY, value) for day, value in values.items()]
        return sorted([*daily, *((begin + place * HOUR / loaded, value) for place, value in enumerate(older))])

    @pytest.mark.parametrize("loaded", [14, 28, 91])
    def test_weekdays_are_known_after_older_dates_were_loaded(self, loaded: int) -> None:
        wrong = {45: 300.0, 54: 1000.0, 59: 300.0}
        points = self.points(60, loaded, 40, wrong)
        found = {at: each for (at, _), each in zip(points, judged(points), strict=True)}
        days = {BEGIN + day * DAY for day in wrong}
        assert all(found[at].is_anomalous for at in days)
        assert told(each for at, each in found.items() if at > BEGIN + 39 * DAY and at not in days) == []

    def test_loads_of_the_same_weekdays_are_not_told_each(self) -> None:
        found = judged(self.points(41, 91, 40, {}))
        assert len(told(found[40:])) <= 2, told(found[40:])

    def test_older_dates_may_be_loaded_on_a_weekend(self) -> None:
        found = judged(self.points(35, 91, 35, {}))
        assert len(told(found[35:])) <= 8, told(found[35:])

    def test_a_load_that_is_tried_again_and_again_stays_wrong(self) -> None:
        points = [(BEGIN + day * DAY, value) for day, value in enumerate(noisy(38, weekly))]
        again = [(BEGIN + 38 * DAY + place * HOUR / 6, 300.0) for place in range(12)]
        assert all(each.is_anomalous for each in judged([*points, *again])[38:])

    def test_a_table_that_is_loaded_every_hour_from_now_on_is_learnt(self) -> None:
        chance = random.Random(3)
        points = [(BEGIN + day * DAY, value) for day, value in enumerate(noisy(20))]
        hours = [(BEGIN + 19 * DAY + hour * HOUR, round(chance.gauss(50, 3))) for hour in range(1, 24 * 6)]
        assert told(judged([*points, *hours])[20 + 24 * 2 :]) == []
