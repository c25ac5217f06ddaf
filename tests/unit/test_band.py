"""The band in which a measurement should fall, and the verdict on it."""

from __future__ import annotations

import json
import math
import random
from datetime import timedelta

import pytest

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.domain.band import MAX_SCORE, judge
from headgate.domain.metric import mean, sample_stddev
from headgate.domain.verdict import Mark, Metric, Point, Policy, Verdict
from tests.unit.measurements import BEGIN, DAY, PLAIN, ROWS, daily, noisy, verdict, weekly


class TestWorkedExamples:
    """Section 6 of the design this began with, with the point itself left out of what it is compared with."""

    @pytest.mark.parametrize("count", [15, 5])
    def test_a_tenfold_spike_is_found_after_fifteen_points_and_after_five(self, count: int) -> None:
        found = verdict([100] * count, 1000)
        assert (found.state, found.type, found.severity) == ("anomalous", AnomalyType.RowCountSpike, Severity.WARNING)
        assert found.reason == f"1,000 rows are 90.0 standard deviations above the {count}-day mean of 100"

    @pytest.mark.parametrize(("count", "upper", "is_found"), [(15, 831.25, True), (5, 1352.27, False)])
    def test_with_the_point_itself_among_them_five_are_too_few(self, count: int, upper: float, is_found: bool) -> None:
        values = [100.0] * count + [1000.0]
        bound = (mean(values) or 0) + 3 * (sample_stddev(values) or 0)
        assert bound == pytest.approx(upper, abs=0.01)
        assert (bound < 1000) is is_found

    def test_four_points_are_not_enough(self) -> None:
        found = verdict([100] * 4, 1000)
        assert (found.state, found.points, found.expected) == ("learning", 4, None)
        assert found.reason == "1,000 rows are not judged yet: 4 points in 30 days can be compared with, 5 are needed"

    @pytest.mark.parametrize("value", [99, 100, 101])
    def test_a_row_more_or_less_of_a_constant_hundred_is_normal(self, value: int) -> None:
        assert verdict([100] * 5, value).state == "normal"

    def test_a_drop_is_critical(self) -> None:
        found = verdict([100, 101, 99, 100, 102], 40)
        assert (found.state, found.type, found.severity) == ("anomalous", AnomalyType.RowCountDrop, Severity.CRITICAL)

    def test_half_of_the_rows_missing_is_critical_within_a_wide_band(self) -> None:
        found = verdict([10, 500, 20, 900, 30, 700], 150)
        assert found.low is not None
        assert found.low <= 150
        assert (found.state, found.type, found.severity) == ("anomalous", AnomalyType.RowCountDrop, Severity.CRITICAL)
        assert found.method == "drop_rule"
        assert found.reason == "150 rows are 58 % below the 6-day mean of 360, and 50 % are allowed"


def test_the_plain_rule_is_the_mean_and_three_standard_deviations() -> None:
    values = [990e6, 1010e6, 1000e6, 970e6, 1030e6, 1005e6, 995e6]
    found = verdict(values, 1e9, PLAIN, Metric.byte_size)
    middle, spread = 1e9, sample_stddev(values) or 0
    assert found.method == "sigma"
    assert (found.expected, found.stddev) == pytest.approx((middle, spread))
    assert (found.low, found.high) == pytest.approx((middle - 3 * spread, middle + 3 * spread))


def test_a_reason_names_value_score_and_mean() -> None:
    chance = random.Random(2)
    found = verdict([round(chance.gauss(1_000_000, 30_000)) for _ in range(30)], 1_400_000)
    assert found.reason.startswith("1,400,000 rows are ")
    assert " standard deviations above the 30-day mean of " in found.reason
    assert "\n" not in found.reason


class TestSpan:
    """A reason names how far back the points reach that count."""

    @staticmethod
    def reason(gap: timedelta, count: int, policy: Policy | None = None) -> str:
        history = [Point(BEGIN + place * gap, 1000.0) for place in range(count)]
        return judge(ROWS, history, BEGIN + count * gap, 5000, policy or Policy()).reason

    @pytest.mark.parametrize(
        ("gap", "count", "told"),
        [
            (DAY, 60, "the 30-day mean"),
            (DAY, 8, "the 8-day mean"),
            (DAY / 96, 1000, "the 10-day mean"),
            (DAY / 24, 20, "the 20-hour mean"),
            (DAY / 1440, 10, "the 10-minute mean"),
            (timedelta(0), 10, "the 1-minute mean"),
        ],
        ids=["more than the window", "a week", "quarters of an hour", "hours", "minutes", "one moment"],
    )
    def test_it_is_that_of_the_points(self, gap: timedelta, count: int, told: str) -> None:
        assert told in self.reason(gap, count)

    def test_it_is_at_most_the_window(self) -> None:
        assert "the 7-day mean" in self.reason(DAY, 20, Policy(window_days=7))

    def test_a_trend_has_one(self) -> None:
        found = verdict(noisy(15, lambda day: 1000 + 30 * day, share=0.02), 5000)
        assert "that the trend of 15 days leads to" in found.reason


def test_three_and_a_half_standard_deviations_are_too_many_after_a_month() -> None:
    values = noisy(30)
    middle, spread = mean(values) or 0, sample_stddev(values) or 0
    policy = Policy(seasonality="off")
    assert verdict(values, middle - 3.6 * spread, policy).state == "anomalous"
    assert verdict(values, middle - 3.0 * spread, policy).state == "normal"


def test_many_points_have_a_band_of_three_standard_deviations() -> None:
    chance = random.Random(3)
    values = [chance.gauss(1e6, 1e5) for _ in range(700)]
    history = [Point(BEGIN + place * timedelta(hours=1), value) for place, value in enumerate(values)]
    found = judge(ROWS, history, BEGIN + 700 * timedelta(hours=1), 1e6, Policy(seasonality="off"))
    assert found.method == "sigma"
    assert (found.high or 0) - (found.expected or 0) == pytest.approx(3 * (found.stddev or 0), rel=0.02)


class TestFewPoints:
    def alarms(self, count: int, policy: Policy) -> float:
        chance = random.Random(count)
        found = 0
        for _ in range(1500):
            values = [chance.gauss(1e6, 1e5) for _ in range(count)]
            found += verdict(values, chance.gauss(1e6, 1e5), policy).state == "anomalous"
        return found / 1500

    @pytest.mark.parametrize("count", [5, 10, 30])
    def test_they_alarm_no_more_often_than_many(self, count: int) -> None:
        assert self.alarms(count, Policy(drop_share=1)) < 0.01

    def test_without_the_correction_five_alarm_ten_times_as_often_as_three_sigma_should(self) -> None:
        assert self.alarms(5, Policy(drop_share=1, small_sample=False)) > 0.027


class TestFloors:
    @pytest.mark.parametrize(
        ("metric", "usual", "calm", "wild"),
        [
            (Metric.row_count, 1_000_000, 1_050_000, 1_070_000),
            (Metric.row_count, 100, 125, 140),
            (Metric.row_count, 0, 3, 12),
            (Metric.byte_size, 1e9, 1.08e9, 1.1e9),
            (Metric.byte_size, 0, 700, 900),
            (Metric.duration_ms, 60_000, 77_000, 79_000),
            (Metric.duration_ms, 200, 3_100, 3_300),
            (Metric.null_share, 0.0, 0.014, 0.016),
            (Metric.null_share, 0.2, 0.25, 0.27),
            (Metric.distinct_count, 10_000, 10_500, 10_700),
            (Metric.rows_quarantined, 0, 8, 9),
        ],
    )
    def test_a_constant_series_alarms_only_beyond_its_floor(
        self, metric: Metric, usual: float, calm: float, wild: float
    ) -> None:
        assert verdict([usual] * 10, calm, metric=metric).state == "normal"
        assert verdict([usual] * 10, wild, metric=metric).state == "anomalous"

    def test_a_policy_may_set_its_own(self) -> None:
        assert verdict([1e6] * 10, 1.2e6, Policy(floor_share=0.1)).state == "normal"
        assert verdict([1e6] * 10, 1.004e6, Policy(floor_share=0.0)).state == "anomalous"

    def test_the_floor_is_not_widened_for_few_points(self) -> None:
        five, thirty = verdict([1e6] * 5, 1e6), verdict([1e6] * 30, 1e6)
        assert (five.low, five.high) == (thirty.low, thirty.high)


class TestMarks:
    HISTORY = daily(noisy(20))
    AT = BEGIN + 20 * DAY

    @pytest.mark.parametrize(
        ("mark", "told"),
        [
            (Mark("once", at=AT.replace(hour=23)), "a person expects that on 2026-03-22"),
            (Mark("weekday", weekday=6), "a person expects that every Sunday"),
            (Mark("until", until=AT + DAY), "a person expects that until 2026-03-23 06:00 UTC"),
            (Mark("until", at=AT, until=AT), "a person expects that until 2026-03-22 06:00 UTC"),
        ],
        ids=["once", "weekday", "until", "from and until"],
    )
    def test_what_a_person_expects_is_no_anomaly(self, mark: Mark, told: str) -> None:
        found = judge(ROWS, self.HISTORY, self.AT, 5000, marks=[mark])
        assert (found.state, found.type, found.severity) == ("expected", None, None)
        assert found.score is not None
        assert found.score > 3
        assert found.reason.endswith(told)

    @pytest.mark.parametrize(
        "mark",
        [
            Mark("once", at=AT - DAY),
            Mark("once", at=AT + DAY),
            Mark("weekday", weekday=0),
            Mark("until", until=AT - timedelta(seconds=1)),
            Mark("until", at=AT + timedelta(seconds=1), until=AT + DAY),
        ],
        ids=["day before", "day after", "other weekday", "over", "not yet"],
    )
    def test_what_a_mark_does_not_cover_is_one(self, mark: Mark) -> None:
        assert judge(ROWS, self.HISTORY, self.AT, 5000, marks=[mark]).state == "anomalous"

    @pytest.mark.parametrize(
        ("side", "value", "state"),
        [
            ("spike", 5000, "expected"),
            ("spike", 10, "anomalous"),
            ("drop", 10, "expected"),
            ("drop", 5000, "anomalous"),
            (None, 10, "expected"),
        ],
    )
    def test_one_with_a_side_is_for_that_side(self, side: str | None, value: float, state: str) -> None:
        mark = Mark("once", at=self.AT, side=side)
        assert judge(ROWS, self.HISTORY, self.AT, value, marks=[mark]).state == state

    def test_what_is_normal_stays_normal(self) -> None:
        assert judge(ROWS, self.HISTORY, self.AT, 1000, marks=[Mark("once", at=self.AT)]).state == "normal"

    def test_what_came_before_a_time_of_exception_is_learnt_from(self) -> None:
        since = Mark("until", at=self.AT - 3 * DAY, until=self.AT + DAY)
        assert judge(ROWS, self.HISTORY, self.AT + 2 * DAY, 1000, marks=[since]).points == 17

    def test_an_expected_point_is_not_learnt_from(self) -> None:
        history = [*self.HISTORY, Point(self.AT, 1300)]
        marked = judge(ROWS, history, self.AT + DAY, 1200, marks=[Mark("once", at=self.AT)])
        assert (marked.state, marked.points) == ("anomalous", 20)
        assert (judge(ROWS, history, self.AT + DAY, 1200).state, judge(ROWS, history, self.AT + DAY, 1200).points) == (
            "normal",
            21,
        )

    @pytest.mark.parametrize(
        ("fields", "told"),
        [
            ({"kind": "always"}, "kind is 'always'"),
            ({"kind": "once"}, "at is None"),
            ({"kind": "weekday"}, "weekday is None"),
            ({"kind": "until", "at": AT}, "until is None"),
            ({"kind": "weekday", "weekday": 7}, "weekday is 7"),
            ({"kind": "once", "at": AT, "side": "up"}, "side is 'up'"),
            ({"kind": "once", "at": AT.replace(tzinfo=None)}, "has no time zone"),
        ],
        ids=lambda case: str(case)[:20],
    )
    def test_a_mark_that_says_nothing_is_refused(self, fields: dict[str, object], told: str) -> None:
        with pytest.raises(ValueError, match=told):
            Mark(**fields)  # type: ignore[arg-type]  # wrong on purpose


class TestPercentiles:
    POLICY = Policy(method="percentile")

    def test_the_band_lies_around_the_median(self) -> None:
        found = verdict([100.0] * 10 + [900.0] * 3, 100, Policy(method="percentile", seasonality="off"))
        assert (found.expected, found.method) == (100, "percentile")

    def test_it_is_wider_where_the_tail_is(self) -> None:
        chance = random.Random(9)
        values = [round(1000 * math.exp(chance.gauss(0, 0.5))) for _ in range(29)]
        found = verdict(values, 1000, self.POLICY)
        assert found.expected is not None
        assert found.low is not None
        assert found.high is not None
        assert found.high - found.expected > 1.3 * (found.expected - found.low)

    def test_a_normal_series_has_about_the_same_band(self) -> None:
        values = noisy(29)
        sigma, percentile = verdict(values, 1000), verdict(values, 1000, self.POLICY)
        assert percentile.low == pytest.approx(sigma.low, rel=0.05)
        assert percentile.high == pytest.approx(sigma.high, rel=0.05)

    def test_weekdays_count_as_well(self) -> None:
        found = verdict(noisy(28, weekly), 300, self.POLICY)
        assert (found.method, found.type) == ("percentile+weekday", AnomalyType.RowCountDrop)

    def test_its_reason_names_the_median(self) -> None:
        assert "the 10-day median of 100" in verdict([100.0] * 10, 1000, self.POLICY).reason


class TestSeverity:
    @pytest.mark.parametrize(
        ("metric", "usual", "value", "anomaly_type", "severity"),
        [
            (Metric.row_count, 1000, 2000, AnomalyType.RowCountSpike, Severity.WARNING),
            (Metric.row_count, 1000, 0, AnomalyType.RowCountDrop, Severity.CRITICAL),
            (Metric.byte_size, 1e6, 2e6, AnomalyType.VolumeSpike, Severity.WARNING),
            (Metric.byte_size, 1e6, 1e5, AnomalyType.VolumeDrop, Severity.CRITICAL),
            (Metric.duration_ms, 60_000, 600_000, AnomalyType.DurationSpike, Severity.WARNING),
            (Metric.duration_ms, 60_000, 6_000, AnomalyType.DurationDrop, Severity.INFO),
            (Metric.null_share, 0.01, 0.3, AnomalyType.NullShareSpike, Severity.WARNING),
            (Metric.null_share, 0.01, 0.9, AnomalyType.NullShareSpike, Severity.CRITICAL),
            (Metric.null_share, 0.45, 0.62, AnomalyType.NullShareSpike, Severity.WARNING),
            (Metric.null_share, 0.5, 0.0, AnomalyType.NullShareDrop, Severity.INFO),
            (Metric.distinct_count, 1000, 2000, AnomalyType.DistinctCountSpike, Severity.WARNING),
            (Metric.distinct_count, 1000, 10, AnomalyType.DistinctCountDrop, Severity.CRITICAL),
            (Metric.rows_quarantined, 100, 1000, AnomalyType.QuarantineSpike, Severity.WARNING),
        ],
    )
    def test_each_metric_has_its_own(
        self, metric: Metric, usual: float, value: float, anomaly_type: AnomalyType, severity: Severity
    ) -> None:
        found = verdict([usual] * 10, value, metric=metric)
        assert (found.state, found.type, found.severity) == ("anomalous", anomaly_type, severity)

    def test_fewer_quarantined_rows_are_no_anomaly(self) -> None:
        assert verdict([1000] * 10, 0, metric=Metric.rows_quarantined).state == "normal"

    def test_a_policy_may_set_them(self) -> None:
        policy = Policy(spike_severity=Severity.INFO, drop_severity=Severity.WARNING)
        assert verdict([1000] * 10, 5000, policy).severity is Severity.INFO
        assert verdict([1000] * 10, 0, policy).severity is Severity.WARNING


class TestReason:
    """A sentence says what decided."""

    def test_what_is_within_the_band_is_told_with_the_band(self) -> None:
        found = verdict([1, 0, 2, 1, 0, 1, 3, 1], 5)
        assert found.state == "normal"
        assert found.reason == "5 rows are within 0 to 8.4, around the 8-day mean of 1.1"

    def test_percentiles_are_told_by_where_their_band_ends(self) -> None:
        found = verdict([100.0] * 10, 1000, Policy(method="percentile"))
        told = "1,000 rows are above 132, where the band by percentiles around the 10-day median of 100 ends"
        assert found.reason == told

    @pytest.mark.parametrize("method", ["sigma", "percentile"])
    def test_what_is_outside_has_a_score_beyond_the_width_of_the_band(self, method: str) -> None:
        chance = random.Random(4)
        for _ in range(200):
            values = [round(1000 * math.exp(chance.gauss(0, 0.5))) for _ in range(20)]
            found = verdict(values, round(1000 * math.exp(chance.gauss(0, 2))), Policy(method=method, drop_share=1))
            assert found.score is not None
            if found.state == "anomalous":
                assert abs(found.score) >= 3, found.reason

    def test_a_series_by_factors_is_told_by_its_geometric_mean(self) -> None:
        values = [1000, 2000, 1000, 4000, 1000, 2000, 1000, 8000, 1000, 2000, 1000, 4000, 1000]
        found = verdict(values, 200_000, Policy(seasonality="off"))
        middle = math.exp(mean([math.log(value) for value in values]) or 0)
        assert found.expected == pytest.approx(middle)
        assert f"above the 13-day geometric mean of {middle:,.0f} on a logarithmic scale" in found.reason


@pytest.mark.parametrize(
    ("metric", "usual", "value", "begins"),
    [
        (Metric.row_count, 50, 1, "1 row is "),
        (Metric.row_count, 1000, 12_345.0, "12,345 rows are "),
        (Metric.byte_size, 1e6, 2.5e9, "a size of 2.5 GB is "),
        (Metric.byte_size, 1e6, 12, "a size of 12 bytes is "),
        (Metric.duration_ms, 60_000, 9e6, "a duration of 2.5 h is "),
        (Metric.duration_ms, 60_000, 930_000, "a duration of 15.5 min is "),
        (Metric.duration_ms, 60_000, 1_500, "a duration of 1.5 s is "),
        (Metric.null_share, 0.01, 0.1234, "a null share of 12.3 % in 'email' is "),
        (Metric.distinct_count, 100, 1, "1 distinct value in 'email' is "),
        (Metric.rows_quarantined, 10, 70, "70 quarantined rows in 'email' are "),
    ],
)
def test_a_reason_is_told_in_the_units_of_its_metric(metric: Metric, usual: float, value: float, begins: str) -> None:
    column = "email" if begins.count("'") else None
    found = judge(metric, daily([usual] * 10), BEGIN + 10 * DAY, value, column=column)
    assert found.reason.startswith(begins)


def test_what_is_off_is_not_judged() -> None:
    found = verdict([100] * 20, 100_000, Policy(enabled=False))
    assert (found.state, found.score, found.type) == ("off", None, None)
    assert found.reason == "row_count is not judged: its policy is off"


class TestBadInput:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e100, 10**400], ids=lambda value: str(value)[:8])
    def test_a_value_that_is_no_measurement_is_refused(self, value: float) -> None:
        with pytest.raises(ValueError, match="is no measurement"):
            verdict([100] * 10, value)

    def test_a_time_without_a_zone_is_refused(self) -> None:
        with pytest.raises(ValueError, match="2026-03-02T06:00:00 has no time zone"):
            judge(ROWS, [], BEGIN.replace(tzinfo=None), 1)

    def test_an_unknown_metric_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'rows' is not a valid Metric"):
            judge("rows", [], BEGIN, 1)  # type: ignore[arg-type]  # wrong on purpose

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("method", "magic"),
            ("seasonality", "on"),
            ("sigma", 0),
            ("sigma", 21),
            ("sigma", math.nan),
            ("min_points", 1),
            ("window_days", 0),
            ("drop_share", 0),
            ("drop_share", 1.1),
            ("floor_share", -0.1),
        ],
    )
    def test_a_policy_that_cannot_be_followed_is_refused(self, field: str, value: object) -> None:
        with pytest.raises(ValueError, match=f"{field} is {value!r}: it must be"):
            Policy(**{field: value})  # type: ignore[arg-type]  # wrong on purpose

    def test_no_history_is_a_beginning(self) -> None:
        found = verdict([], 100)
        assert (found.state, found.points, found.low, found.high) == ("learning", 0, None, None)

    def test_a_negative_value_is_a_drop(self) -> None:
        assert verdict([100] * 10, -1).type is AnomalyType.RowCountDrop

    def test_huge_counts_are_judged(self) -> None:
        found = verdict([10**30] * 10, 10**31)
        assert found.type is AnomalyType.RowCountSpike

    def test_a_score_has_an_end(self) -> None:
        assert verdict([0] * 10, 10**18).score == MAX_SCORE


class TestStored:
    @pytest.mark.parametrize("value", [1000, 5000, 0])
    def test_a_verdict_survives_json(self, value: float) -> None:
        found = verdict(noisy(20), value)
        assert Verdict.from_dict(json.loads(json.dumps(found.as_dict()))) == found

    def test_one_that_was_not_judged_does_too(self) -> None:
        found = verdict([], 1)
        assert Verdict.from_dict(json.loads(json.dumps(found.as_dict()))) == found

    def test_fields_of_later_versions_are_left_out(self) -> None:
        found = verdict(noisy(20), 1000)
        assert Verdict.from_dict({**found.as_dict(), "colour": "red"}) == found
