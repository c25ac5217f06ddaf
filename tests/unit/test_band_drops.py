"""When half of the usual is too little, and when it is not."""

from __future__ import annotations

import math
import random
from typing import ClassVar

import pytest

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.band import judge
from headgate.domain.verdict import Metric, Point, Policy, Verdict
from tests.unit.measurements import BEGIN, DAY, ROWS, daily, noisy, verdict, weekly


def lopsided() -> list[float]:
    """Most days alike, some much larger."""
    chance = random.Random(3)
    return [round(10_000 * math.exp(chance.gauss(0, 0.4))) for _ in range(30)]


class TestDropRule:
    def test_seasonality_explains_a_low_sunday(self) -> None:
        values = noisy(27, weekly)
        assert verdict(values[:27], 300).state == "normal"
        assert verdict(values[:24], 300).state == "anomalous"

    # Weekdays here and there, and two Saturdays that were judged anomalous.
    WEEKS: ClassVar = [
        Point(BEGIN + day * DAY, 300 if day % 7 == 5 else 1000 + day, day % 7 == 5)
        for day in (3, 4, 5, 8, 10, 12, 15, 16, 17)
    ]

    def test_a_low_weekday_is_explained_by_the_two_before(self) -> None:
        found = judge(ROWS, self.WEEKS, BEGIN + 19 * DAY, 305)
        assert found.state == "normal"
        told = "305 rows are 64 % below the 16-day mean of 853; every Saturday so far was like that, so it is usual"
        assert found.reason == told

    def test_a_lower_one_is_not(self) -> None:
        assert judge(ROWS, self.WEEKS, BEGIN + 19 * DAY, 50).state == "anomalous"

    def test_one_that_was_told_explains_nothing(self) -> None:
        once = [point for point in self.WEEKS if point.at != BEGIN + 5 * DAY]
        assert judge(ROWS, once, BEGIN + 19 * DAY, 305).state == "anomalous"

    def test_one_of_which_nothing_was_said_explains_nothing_either(self) -> None:
        once = [point._replace(is_anomalous=False) for point in self.WEEKS if point.at != BEGIN + 5 * DAY]
        assert judge(ROWS, once, BEGIN + 19 * DAY, 305).state == "anomalous"
        found = verdict([1000, 1010, 990, 10, 1005, 1001, 998, 1003, 997, 1000], 10)
        assert (found.type, found.severity) == (AnomalyType.RowCountDrop, Severity.CRITICAL)

    @pytest.mark.parametrize(
        ("sunday", "is_told", "state"),
        [(310, False, "normal"), (990, False, "anomalous"), (310, True, "anomalous")],
        ids=["like it", "unlike it", "told"],
    )
    def test_a_saturday_and_the_sunday_after_it_are_a_weekend(self, sunday: float, is_told: bool, state: str) -> None:
        values = {3: 1001, 4: 1002, 5: 300, 6: sunday, 7: 1003, 8: 1005, 9: 999, 10: 1001, 11: 1000}
        history = [Point(BEGIN + day * DAY, value, is_told and day in (5, 6)) for day, value in values.items()]
        assert judge(ROWS, history, BEGIN + 12 * DAY, 305).state == state

    def test_one_bad_day_does_not_excuse_that_of_the_next_week(self) -> None:
        found = verdict([0, 1000, 1010, 990, 1005, 995, 1003], 0)
        assert (found.state, found.type) == ("anomalous", AnomalyType.RowCountDrop)

    def test_a_small_first_load_does_not_excuse_that_of_the_next_week(self) -> None:
        found = verdict([10, 1000, 1003, 998, 1001, 999, 1002], 10)
        assert (found.state, found.type) == ("anomalous", AnomalyType.RowCountDrop)

    def test_two_points_of_one_day_are_not_two_weeks(self) -> None:
        noon = [Point(BEGIN + 5 * DAY + DAY / 4, 301, True)]
        once = [point for point in self.WEEKS if point.at != BEGIN + 12 * DAY]
        assert judge(ROWS, sorted([*once, *noon]), BEGIN + 19 * DAY, 305).state == "anomalous"

    def test_no_rows_at_all_are_usual_only_where_most_of_those_days_had_none(self) -> None:
        def found(lows: list[int]) -> str:
            saturdays = dict(zip((5, 12), lows, strict=True))
            points = [point._replace(value=saturdays.get((point.at - BEGIN).days, point.value)) for point in self.WEEKS]
            return judge(ROWS, points, BEGIN + 19 * DAY, 0).state

        assert found([0, 0]) == "normal"
        assert found([5, 0]) == "anomalous"
        assert found([5, 3]) == "anomalous"

    def test_without_seasonality_no_weekday_explains_anything(self) -> None:
        assert judge(ROWS, self.WEEKS, BEGIN + 19 * DAY, 305, Policy(seasonality="off")).state == "anomalous"

    def test_chance_may_halve_a_few_rows(self) -> None:
        assert verdict([8, 3, 5, 9, 4, 6, 7], 2).state == "normal"

    def test_lows_that_are_part_of_a_series_are_normal_and_lower_ones_are_not(self) -> None:
        chance = random.Random(5)
        values = [round(chance.choice((200, 900, 1000, 1100, 1800)) * chance.gauss(1, 0.05)) for _ in range(25)]
        assert verdict(values, 210).state == "normal"
        assert verdict(values, 20).state == "anomalous"

    @pytest.mark.parametrize(
        ("values", "state"),
        [
            ([1000, 200, 1900, 600, 1500, 1000, 300, 1700, 900, 1200], "anomalous"),
            ([1000, 200, 1900, 600, 1500, 1000, 300, 1700, 400, 1200], "normal"),
            ([1000, 200, 1900, 300, 1500, 400, 1700], "anomalous"),
        ],
        ids=["two", "three", "three of a few"],
    )
    def test_it_takes_three_lows_of_eight_points(self, values: list[float], state: str) -> None:
        assert verdict(values, 450, Policy(seasonality="off")).state == state

    def test_it_takes_lows_in_one_of_ten_points(self) -> None:
        values = [100.0] * 3 + [1000.0, 1800.0] * 12
        assert verdict(values, 300, Policy(seasonality="off", method="percentile", sigma=20)).state == "normal"
        more = [100.0] * 3 + [1000.0, 1800.0] * 20
        policy = Policy(seasonality="off", method="percentile", sigma=20, window_days=60)
        assert verdict(more, 300, policy).state == "anomalous"

    def test_it_is_for_rows_and_bytes_only(self) -> None:
        wild = [10_000, 500_000, 20_000, 900_000, 30_000, 700_000]
        states = {metric: verdict(wild, 150_000, metric=metric).state for metric in Metric if metric != "null_share"}
        assert {metric for metric, state in states.items() if state == "anomalous"} == {"row_count", "byte_size"}

    def test_a_policy_may_allow_more_or_less(self) -> None:
        wild = [10, 500, 20, 900, 30, 700]
        assert verdict(wild, 150, Policy(drop_share=0.6)).state == "normal"
        assert verdict(wild, 250, Policy(drop_share=0.3)).state == "anomalous"

    @pytest.mark.parametrize(
        ("values", "value"),
        [
            ([8, 3, 5, 9, 4, 6, 7], 2),
            ([1000, 200, 1900, 600, 1500, 1000, 300, 1700, 400, 1200], 450),
            (lopsided(), 4_500),
        ],
        ids=["a few rows", "usual lows", "lopsided"],
    )
    def test_what_a_policy_sets_has_no_exceptions(self, values: list[float], value: float) -> None:
        assert verdict(values, value).state == "normal"
        found = verdict(values, value, Policy(drop_share=0.5))
        assert (found.state, found.method) == ("anomalous", "drop_rule")


class TestNothingLeft:
    """A table that never was empty and is, and others that lose what they always had."""

    @pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 9, 40])
    def test_a_table_that_always_had_the_same_rows_and_has_none_is_critical(self, rows: int) -> None:
        found = verdict([rows] * 30, 0)
        assert (found.type, found.severity) == (AnomalyType.RowCountDrop, Severity.CRITICAL)

    @pytest.mark.parametrize(("usual", "value"), [(5, 1), (195, 160), (3, 0)])
    def test_a_column_that_always_had_the_same_values_and_loses_them_is(self, usual: int, value: int) -> None:
        found = verdict([usual] * 30, value, metric=Metric.distinct_count)
        assert (found.type, found.severity) == (AnomalyType.DistinctCountDrop, Severity.CRITICAL)

    def test_a_row_fewer_of_a_few_is_none(self) -> None:
        assert verdict([9] * 30, 8).state == "normal"
        assert verdict([5] * 30, 4, metric=Metric.distinct_count).state == "normal"

    @staticmethod
    def counts(usual: float, size: int) -> list[float]:
        """What chance makes of a count."""
        chance = random.Random(12)
        return [sum(chance.random() < usual / 1000 for _ in range(1000)) for _ in range(size)]

    def test_chance_may_leave_none_of_three_rows(self) -> None:
        values = [value or 1 for value in self.counts(3, 30)]
        assert verdict(values, 0).state == "normal"

    def test_chance_does_not_leave_none_of_ten(self) -> None:
        values = self.counts(10, 30)
        assert min(values) > 0
        assert verdict(values, 0).type is AnomalyType.RowCountDrop
        assert verdict(values, 3).state == "normal"

    def test_what_was_nothing_before_may_be_again(self) -> None:
        values = [*self.counts(6, 28), 0, 0]
        assert verdict(values, 0, Policy(seasonality="off")).state == "normal"

    def test_what_is_left_of_quarantined_rows_does_not_matter(self) -> None:
        assert verdict([9] * 30, 0, metric=Metric.rows_quarantined).state == "normal"


class TestBytesOfRows:
    """Bytes are fewer where rows are: they are told if those are."""

    ROWS: ClassVar = [3.0, 4, 2, 3, 5, 3, 4]

    def found(self, rows: float, size: float, policy: Policy | None = None) -> Verdict:
        of_rows = verdict(self.ROWS, rows)
        history = daily([1000 * count for count in self.ROWS])
        return judge(Metric.byte_size, history, BEGIN + 7 * DAY, size, policy or Policy(), rows=of_rows)

    def test_what_chance_makes_of_a_few_rows_is_no_drop_of_their_bytes(self) -> None:
        assert self.found(0, 0).state == "normal"
        assert verdict([1000 * count for count in self.ROWS], 0, metric=Metric.byte_size).type is AnomalyType.VolumeDrop

    def test_fewer_bytes_of_as_many_rows_are_one(self) -> None:
        assert self.found(4, 1000).type is AnomalyType.VolumeDrop

    def test_a_policy_that_says_how_many_is_followed(self) -> None:
        assert self.found(0, 0, Policy(drop_share=0.5)).type is AnomalyType.VolumeDrop

    def test_bytes_of_rows_that_are_told_are_told(self) -> None:
        history = daily([900e3, 1500e3, 1100e3, 700e3, 1300e3, 1000e3, 1400e3])
        of_rows = verdict([900, 1500, 1100, 700, 1300, 1000, 1400], 300)
        assert of_rows.state == "anomalous"
        found = judge(Metric.byte_size, history, BEGIN + 7 * DAY, 300e3, rows=of_rows)
        assert found.type is AnomalyType.VolumeDrop


class TestLopsided:
    """Series that scatter by factors: most days alike, some much larger."""

    def test_they_have_a_band_by_factors_around_their_geometric_mean(self) -> None:
        found = verdict(lopsided(), 25_000)
        assert (found.state, found.method) == ("normal", "sigma+log")
        assert found.expected is not None
        assert found.expected == pytest.approx(10_000, rel=0.2)
        assert found.low is not None
        assert found.high is not None
        assert found.low * found.high == pytest.approx(found.expected**2, rel=0.01)
        assert "30-day geometric mean of" in found.reason
        assert verdict(lopsided(), 250_000).reason.endswith("on a logarithmic scale")

    @pytest.mark.parametrize(("value", "side"), [(90_000, 1), (900, -1), (0, -1)])
    def test_what_is_far_beyond_their_tail_or_next_to_nothing_is_found(self, value: int, side: int) -> None:
        found = verdict(lopsided(), value)
        assert found.state == "anomalous"
        assert found.score is not None
        assert found.score * side > 3

    def test_half_of_the_mean_is_nothing_out_of_the_ordinary_unless_a_policy_says_so(self) -> None:
        assert verdict(lopsided(), 4_500).state == "normal"
        assert verdict(lopsided(), 3_000).state == "normal"
        assert verdict(lopsided(), 3_000, Policy(drop_share=0.3)).method == "drop_rule"

    def test_a_wide_series_that_is_not_lopsided_keeps_the_rule_of_half(self) -> None:
        values = [600, 1400, 800, 1200, 1000] * 4
        assert verdict(values, 450).method == "drop_rule"

    @pytest.mark.parametrize(
        ("values", "method"),
        [
            ([1000 + day % 5 for day in range(30)], "sigma"),
            ([*range(500, 1500, 100), 0, 3000, 900, 800], "sigma"),
            ([3, 5, 4, 9, 2, 6, 12, 5, 4, 3, 7, 5, 8, 4], "sigma"),
            ([900, 1500, 1100, 700, 3000], "sigma"),
        ],
        ids=["calm", "with nothing", "a few rows", "too short"],
    )
    def test_others_do_not(self, values: list[float], method: str) -> None:
        assert verdict(values, 1000).method == method

    def test_shares_and_percentiles_do_not(self) -> None:
        shares = [value / 100_000 for value in lopsided()]
        assert verdict(shares, 0.1, metric=Metric.null_share).method == "sigma"
        assert verdict(lopsided(), 9000, Policy(method="percentile")).method == "percentile"
