"""Weekdays, trends, what a series is learnt from, and new levels."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import timedelta, timezone

import pytest

from headgate.domain.anomaly import AnomalyType
from headgate.domain.band import judge
from headgate.domain.verdict import Metric, Point, Policy
from tests.unit.measurements import BEGIN, DAY, ROWS, daily, noisy, verdict, weekly


class TestWeekdays:
    def test_a_weekday_has_a_band_of_its_own(self) -> None:
        values = noisy(28, weekly)
        monday, saturday = verdict(values, 1000), verdict(values + noisy(5), 300)
        assert monday.method == "sigma+weekday"
        assert monday.expected == pytest.approx(1000, rel=0.05)
        assert saturday.expected == pytest.approx(300, rel=0.05)
        assert saturday.high is not None
        assert saturday.high < 400

    def test_a_sunday_that_is_like_a_monday_is_a_spike(self) -> None:
        found = verdict(noisy(27, weekly), 1000)
        assert (found.state, found.type) == ("anomalous", AnomalyType.RowCountSpike)
        assert found.reason.endswith("that is usual on a Sunday")

    def test_a_monday_that_is_like_a_sunday_is_a_drop(self) -> None:
        assert verdict(noisy(28, weekly), 300).type is AnomalyType.RowCountDrop

    def test_noise_is_no_season(self) -> None:
        assert verdict(noisy(29), 1000).method == "sigma"

    def test_one_week_is_no_season(self) -> None:
        assert verdict(noisy(11, weekly), 1000).method == "sigma"

    def test_hours_of_three_days_are_no_season(self) -> None:
        chance = random.Random(6)
        history = [
            Point(BEGIN + hour * timedelta(hours=1), chance.gauss((1000, 1500, 900)[hour // 24], 20))
            for hour in range(72)
        ]
        assert judge(ROWS, history, BEGIN + 3 * DAY, 1200).method in ("sigma", "sigma+log")

    def test_it_can_be_switched_off(self) -> None:
        assert verdict(noisy(28, weekly), 1000, Policy(seasonality="off")).method == "sigma"

    def test_a_weekday_that_was_always_outside_is_learnt(self) -> None:
        saturdays = (5, 12, 19)
        values = [300.0 if day in saturdays else value for day, value in enumerate(noisy(26))]
        found = judge(ROWS, daily(values, wrong=saturdays), BEGIN + 26 * DAY, 300)
        assert found.state == "normal"
        assert judge(ROWS, daily(values, wrong=saturdays), BEGIN + 26 * DAY, 1000).type is AnomalyType.RowCountSpike

    @pytest.mark.parametrize("hour", [0, 1, 23])
    def test_an_hour_more_or_less_is_no_other_weekday(self, hour: int) -> None:
        begin = BEGIN.replace(hour=hour, minute=30)
        history = [Point(begin + day * DAY, value) for day, value in enumerate(noisy(40, weekly))]
        for day in range(40, 54):
            at = begin + day * DAY - timedelta(hours=1)
            found = judge(ROWS, history, at, weekly(day))
            history.append(Point(at, found.value, found.is_outside))
            assert found.state == "normal", found.reason

    def test_minutes_around_midnight_are_no_other_weekday(self) -> None:
        chance, midnight, history = random.Random(5), BEGIN.replace(hour=0), list[Point]()
        for day, value in enumerate(noisy(60, weekly)):
            at = midnight + day * DAY + timedelta(minutes=chance.gauss(0, 4))
            found = judge(ROWS, history, at, value)
            history.append(Point(at, value, found.is_outside))
            assert day < 28 or found.state == "normal", found.reason

    def test_a_weekday_is_that_of_utc(self) -> None:
        tokyo = timezone(timedelta(hours=9))
        here = daily(noisy(28, weekly))
        there = [point._replace(at=point.at.astimezone(tokyo)) for point in here]
        at = BEGIN + 28 * DAY
        assert judge(ROWS, there, at.astimezone(tokyo), 700) == judge(ROWS, here, at, 700)


class TestTrend:
    def test_growth_is_expected_to_go_on(self) -> None:
        values = noisy(30, lambda day: 1000 + 30 * day, share=0.02)
        found = verdict(values, 1900)
        assert found.method == "sigma+trend"
        assert found.state == "normal"
        assert found.expected == pytest.approx(1900, rel=0.03)
        assert "that the trend of 30 days leads to" in found.reason

    def test_growth_that_stops_at_once_is_a_drop(self) -> None:
        assert verdict(noisy(30, lambda day: 1000 + 30 * day, share=0.02), 1200).type is AnomalyType.RowCountDrop

    @pytest.mark.parametrize("rate", [0.9, 0.95, 1.05, 1.1])
    def test_what_grows_or_shrinks_by_as_many_percent_a_day_never_alarms(self, rate: float) -> None:
        history: list[Point] = []
        for day in range(60):
            found = judge(ROWS, history[-30:], BEGIN + day * DAY, round(1e6 * rate**day))
            history.append(Point(BEGIN + day * DAY, found.value, found.is_outside))
            assert found.state in ("learning", "normal"), (day, found.reason)

    def test_a_value_on_its_way_to_the_trend_says_so(self) -> None:
        found = verdict([round(1e6 * 0.9**day) for day in range(13)], 254_187)
        assert found.high is not None
        assert found.high < 254_187
        assert found.reason.endswith("; the value before was 282,430, so it is on its way there")

    @pytest.mark.parametrize("value", [400_000, 600_000], ids=["some days", "a week"])
    def test_a_value_that_goes_back_is_a_spike(self, value: float) -> None:
        assert verdict([round(1e6 * 0.9**day) for day in range(13)], value).type is AnomalyType.RowCountSpike

    def test_growth_of_weekdays_has_both(self) -> None:
        found = verdict(noisy(29, lambda day: weekly(day) * (1 + 0.03 * day), share=0.01), 1850)
        assert found.method == "sigma+weekday+trend"
        assert found.expected == pytest.approx(1000 * (1 + 0.03 * 29), rel=0.08)

    def test_decline_ends_at_nothing(self) -> None:
        values = [max(0.0, 10_000 - 350 * day) for day in range(28)]
        found = judge(ROWS, daily(values), BEGIN + 34 * DAY, 0)
        assert (found.expected, found.low, found.state) == (0, 0, "normal")

    def test_old_points_do_not_lead_far_ahead(self) -> None:
        policy = Policy(window_days=90)
        history = daily(noisy(20, lambda day: 1000 + 30 * day, share=0.02))
        assert judge(ROWS, history, BEGIN + 60 * DAY, 1300, policy).method == "sigma"


class TestBaseline:
    def test_points_that_were_judged_anomalous_stay_out(self) -> None:
        values = [1000, 1010, 990, 1800, 1005, 995, 1000]
        out = judge(ROWS, daily(values, wrong=[3]), BEGIN + 7 * DAY, 1900)
        back = judge(ROWS, daily(values), BEGIN + 7 * DAY, 1900)
        assert (out.state, out.points) == ("anomalous", 6)
        assert (back.state, back.points) == ("normal", 7)

    def test_points_older_than_the_window_stay_out(self) -> None:
        found = judge(ROWS, daily([1.0] * 10 + [1000.0] * 20), BEGIN + 40 * DAY, 1000)
        assert (found.points, found.expected) == (19, 1000)

    def test_points_that_came_later_stay_out(self) -> None:
        assert judge(ROWS, daily([1000.0] * 10), BEGIN + 4 * DAY, 1000).points == 5

    def test_points_that_are_no_measurements_stay_out(self) -> None:
        found = verdict([1000.0, math.nan, math.inf, -math.inf, 1e300, -5.0] + [1000.0] * 5, 1000)
        assert (found.points, found.expected) == (6, 1000)

    def test_a_window_is_the_policys(self) -> None:
        assert verdict([1.0] * 20 + [1000.0] * 7, 1000, Policy(window_days=7)).expected == 1000

    def test_a_window_with_too_few_points_reaches_further_back(self) -> None:
        history = [Point(BEGIN + week * 7 * DAY, 1000.0 + week % 3) for week in range(20)]
        found = judge(ROWS, history, BEGIN + 140 * DAY, 10)
        assert (found.type, found.points) == (AnomalyType.RowCountDrop, 12)
        assert found.reason.endswith("below the 84-day mean of 1,001 (30 days have too few points)")
        monthly = [Point(BEGIN + month * 30 * DAY, 1000.0 + month % 3) for month in range(8)]
        assert judge(ROWS, monthly, BEGIN + 240 * DAY, 10).type is AnomalyType.RowCountDrop

    def test_it_reaches_no_further_than_four_hundred_days(self) -> None:
        yearly = [Point(BEGIN + year * 200 * DAY, 1000.0) for year in range(8)]
        found = judge(ROWS, yearly, BEGIN + 1600 * DAY, 10)
        assert found.state == "learning"
        assert found.reason.endswith(": 1 point in 400 days can be compared with, 5 are needed")

    def test_a_long_outage_does_not_become_what_is_usual(self) -> None:
        history = daily(noisy(20))
        for day in range(20, 80):
            found = judge(ROWS, history, BEGIN + day * DAY, 0)
            history.append(Point(BEGIN + day * DAY, 0, found.is_outside))
            assert found.state == "anomalous", found.reason

    def test_many_points_may_be_asked_for(self) -> None:
        assert verdict([1000.0] * 19, 1000, Policy(min_points=20)).state == "learning"


class TestNewLevel:
    def test_the_fifth_in_a_row_on_one_side_is_the_new_level(self) -> None:
        history, states = daily(noisy(20)), []
        for day in range(20, 30):
            found = judge(ROWS, history, BEGIN + day * DAY, 3000 + 20 * (day % 3))
            history.append(Point(BEGIN + day * DAY, found.value, found.is_outside))
            states.append(found.state.value)
        assert states == ["anomalous"] * 4 + ["new_level"] + ["normal"] * 5

    def test_it_is_no_anomaly_and_says_so(self) -> None:
        history = daily([*noisy(20), 3000, 3050, 2990, 3010], wrong=[20, 21, 22, 23])
        found = judge(ROWS, history, BEGIN + 24 * DAY, 3020)
        assert (found.state, found.type, found.severity) == ("new_level", None, None)
        assert (found.is_anomalous, found.is_outside) == (False, True)
        told = "; 5 in a row are above, so the level has changed: what comes is compared with these"
        assert found.reason.endswith(told)

    @pytest.mark.parametrize("is_kept_outside", [True, False], ids=["kept as outside", "kept as normal"])
    def test_the_baseline_begins_with_the_first_of_the_five(self, is_kept_outside: bool) -> None:
        wrong = [20, 21, 22, 23, *([24] if is_kept_outside else [])]
        history = daily([*noisy(20), 3000, 3050, 2990, 3010, 3020], wrong=wrong)
        found = judge(ROWS, history, BEGIN + 25 * DAY, 3000)
        assert (found.state, found.points, found.expected) == ("normal", 5, 3014)

    def test_the_old_level_is_then_a_drop(self) -> None:
        history = daily([*noisy(20), 3000, 3050, 2990, 3010, 3020], wrong=[20, 21, 22, 23, 24])
        assert judge(ROWS, history, BEGIN + 25 * DAY, 1000).type is AnomalyType.RowCountDrop

    def test_both_sides_in_turn_are_none(self) -> None:
        history = daily([*noisy(20), 3000, 100, 3000, 100], wrong=[20, 21, 22, 23])
        assert judge(ROWS, history, BEGIN + 24 * DAY, 3000).state == "anomalous"

    def test_four_and_then_the_old_level_are_none(self) -> None:
        history = daily([*noisy(20), 3000, 3050, 2990, 3010, 1000], wrong=[20, 21, 22, 23])
        found = judge(ROWS, history, BEGIN + 25 * DAY, 1000)
        assert (found.state, found.points) == ("normal", 21)

    @staticmethod
    def hourly(values: Sequence[float], metric: Metric = ROWS, usual: float = 1000) -> list[str]:
        """What is made of a value an hour, after ten days of something usual."""
        chance = random.Random(8)
        hour = timedelta(hours=1)
        history = [Point(BEGIN + place * hour, usual * chance.gauss(1, 0.03)) for place in range(240)]
        states = []
        for place, value in enumerate(values, start=240):
            found = judge(metric, history, BEGIN + place * hour, value)
            history.append(Point(BEGIN + place * hour, value, found.is_outside))
            states.append(found.state.value)
        return states

    @pytest.mark.parametrize("value", [0, 200], ids=["nothing", "next to nothing"])
    def test_hours_are_no_level(self, value: float) -> None:
        assert self.hourly([value] * 12) == ["anomalous"] * 12

    def test_a_day_of_hours_is(self) -> None:
        states = self.hourly([200.0 + hour % 7 for hour in range(40)])
        assert states == ["anomalous"] * 24 + ["new_level"] + ["normal"] * 15

    @pytest.mark.parametrize("value", [2000, 400], ids=["above", "below"])
    def test_five_hours_are_one_if_much_is_left(self, value: float) -> None:
        states = self.hourly([value + 5 * (hour % 7) for hour in range(40)])
        assert states == ["anomalous"] * 4 + ["new_level"] + ["normal"] * 35

    def test_five_minutes_are_none(self) -> None:
        minute = timedelta(minutes=1)
        history = [Point(BEGIN + place * minute, 1000.0 + place % 9) for place in range(600)]
        for place in range(600, 612):
            found = judge(ROWS, history, BEGIN + place * minute, 2000)
            history.append(Point(BEGIN + place * minute, 2000, found.is_outside))
            assert found.state == "anomalous"

    def test_nothing_at_all_is_never_one(self) -> None:
        history = daily(noisy(20))
        for day in range(20, 45):
            found = judge(ROWS, history, BEGIN + day * DAY, 0)
            history.append(Point(BEGIN + day * DAY, 0, found.is_outside))
            assert found.state == "anomalous"

    def test_what_comes_after_nothing_is_a_level_of_its_own(self) -> None:
        levels = [*noisy(15), *[0.0] * 6, *[400.0, 410, 395, 405]]
        history = daily(levels, wrong=range(15, 25))
        assert judge(ROWS, history, BEGIN + 25 * DAY, 0).state == "anomalous"
        assert judge(ROWS, history, BEGIN + 25 * DAY, 400).state == "new_level"
        after = [*history, Point(BEGIN + 25 * DAY, 400, True)]
        found = judge(ROWS, after, BEGIN + 26 * DAY, 400)
        assert (found.state, found.points, found.expected) == ("normal", 5, 402)

    def test_no_nulls_any_more_are_one(self) -> None:
        history = daily([0.2] * 20 + [0.0] * 4, wrong=range(20, 24))
        assert judge(Metric.null_share, history, BEGIN + 24 * DAY, 0).state == "new_level"

    def test_a_weekday_that_has_nothing_is_learnt_and_weeks_of_nothing_are_not(self) -> None:
        saturdays = (5, 12, 19)
        values = [0.0 if day in saturdays else value for day, value in enumerate(noisy(26))]
        assert judge(ROWS, daily(values, wrong=saturdays), BEGIN + 26 * DAY, 0).state == "normal"

    def test_a_level_of_a_level_counts(self) -> None:
        levels = [*noisy(12), *[3000.0] * 5, *[9000.0] * 5]
        found = judge(ROWS, daily(levels, wrong=range(12, 22)), BEGIN + 22 * DAY, 9000)
        assert (found.state, found.expected) == ("normal", 9000)
