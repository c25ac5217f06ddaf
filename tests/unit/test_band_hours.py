"""Series with several points a day: what is usual depends on the time of day."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from headgate.domain.anomaly import AnomalyType
from headgate.domain.band import judge
from headgate.domain.verdict import Point, Policy, Verdict
from tests.unit.measurements import BEGIN, DAY, ROWS

HOUR = timedelta(hours=1)
MIDNIGHT = BEGIN.replace(hour=0)


def office(at: datetime) -> float:
    return 10_000 if 8 <= at.hour < 20 else 4_500


def weekdays(at: datetime) -> float:
    return office(at) if at.weekday() < 5 else 2_500


def series(days: int, usual: Callable[[datetime], float] = office, every: timedelta = HOUR) -> list[Verdict]:
    """The verdicts on points as they come in, with what they make of those before them."""
    chance, history, found = random.Random(4), list[Point](), []
    for place in range(int(days * DAY / every)):
        at = MIDNIGHT + place * every
        found.append(judge(ROWS, history, at, round(usual(at) * chance.gauss(1, 0.05))))
        history.append(Point(at, found[-1].value, found[-1].is_outside))
    return found


def known(days: int, usual: Callable[[datetime], float] = office) -> list[Point]:
    chance = random.Random(4)
    times = [MIDNIGHT + place * HOUR for place in range(24 * days)]
    return [Point(at, round(usual(at) * chance.gauss(1, 0.05))) for at in times]


@pytest.mark.parametrize(
    ("usual", "every"),
    [(office, HOUR), (weekdays, HOUR), (office, 6 * HOUR), (office, HOUR / 2)],
    ids=["hours", "hours and weekends", "four a day", "half hours"],
)
def test_working_hours_hardly_ever_alarm(usual: Callable[[datetime], float], every: timedelta) -> None:
    found = series(21, usual, every)
    alarms = [each for each in found if each.is_anomalous]
    assert len(alarms) <= max(4, 0.01 * len(found)), alarms[-1].reason


class TestKnownHours:
    HISTORY = known(14)

    @pytest.mark.parametrize(
        ("hour", "value", "type_"),
        [
            (12, 4_500, AnomalyType.RowCountDrop),
            (12, 15_000, AnomalyType.RowCountSpike),
            (2, 10_000, AnomalyType.RowCountSpike),
            (2, 2_000, AnomalyType.RowCountDrop),
            (12, 10_000, None),
            (2, 4_500, None),
        ],
    )
    def test_a_value_is_compared_with_those_of_its_hour(
        self, hour: int, value: float, type_: AnomalyType | None
    ) -> None:
        found = judge(ROWS, self.HISTORY, MIDNIGHT + 14 * DAY + hour * HOUR, value)
        assert found.type is type_, found.reason
        assert "at this time of day" in found.reason

    def test_an_hour_earlier_or_later_is_no_anomaly(self) -> None:
        found = judge(ROWS, self.HISTORY, MIDNIGHT + 14 * DAY + 7 * HOUR, 10_000)
        assert found.state == "normal"
        assert found.reason.endswith("; an hour earlier or later that is usual")

    def test_it_can_be_switched_off(self) -> None:
        policy = Policy(seasonality="off")
        assert judge(ROWS, self.HISTORY, MIDNIGHT + 14 * DAY + 12 * HOUR, 4_500, policy).state == "normal"

    def test_noise_is_no_season_of_hours(self) -> None:
        found = judge(ROWS, known(14, lambda at: 1000), MIDNIGHT + 14 * DAY, 1000)
        assert found.points == 14 * 24


def test_hours_of_weekends_are_known_after_weeks() -> None:
    history = known(28, weekdays)
    saturday = MIDNIGHT + 33 * DAY + 12 * HOUR
    assert judge(ROWS, history, saturday, 2_500).state == "normal"
    assert judge(ROWS, history, saturday, 10_000).type is AnomalyType.RowCountSpike
    assert judge(ROWS, history, saturday - DAY, 2_500).type is AnomalyType.RowCountDrop


def test_in_the_first_week_the_rule_over_all_points_has_to_agree() -> None:
    history = known(5)
    saturday = MIDNIGHT + 5 * DAY + 12 * HOUR
    found = judge(ROWS, history, saturday, 4_500)
    assert found.state == "normal"
    assert found.reason.endswith("; by all points so far, whatever the time of day, it is usual")
    assert judge(ROWS, history, saturday, 0).type is AnomalyType.RowCountDrop
    assert judge(ROWS, history, saturday, 50_000).type is AnomalyType.RowCountSpike


@pytest.mark.parametrize("factor", [2.0, 0.4], ids=["doubled", "fewer"])
def test_a_level_with_hours_is_taken_after_some(factor: float) -> None:
    begin = MIDNIGHT + 20 * DAY + 10 * HOUR
    found = series(27, lambda at: office(at) * (factor if at >= begin else 1.0))
    after = [each for each in found[20 * 24 + 10 :] if each.is_anomalous]
    assert 4 <= len(after) <= 8, [each.reason for each in after]


def test_a_day_and_night_that_begin_late_do_not_alarm_for_good() -> None:
    begin = MIDNIGHT + 15 * DAY
    found = series(25, lambda at: office(at) if at >= begin else 4_500.0)
    late = [each for each in found[17 * 24 :] if each.is_anomalous]
    assert len(late) <= 3, [each.reason for each in late]
