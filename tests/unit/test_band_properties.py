"""What holds for every series of measurements."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.domain.anomaly import AnomalyType
from headgate.domain.band import judge
from headgate.domain.series import LARGEST
from headgate.domain.verdict import Metric, Point, Policy, State
from tests.unit.measurements import BEGIN, DAY, PLAIN, ROWS, daily, verdict

counts = st.integers(0, 10**12)
series = st.lists(counts, max_size=60)
marks = st.lists(st.booleans(), min_size=60, max_size=60)
metrics = st.sampled_from(Metric)
policies = st.builds(
    Policy,
    method=st.sampled_from(["sigma", "percentile"]),
    sigma=st.floats(0.5, 20),
    min_points=st.integers(2, 20),
    seasonality=st.sampled_from(["auto", "off"]),
    small_sample=st.booleans(),
    floor_share=st.none() | st.floats(0, 1),
)


@given(metrics, st.lists(st.floats(-1, LARGEST / 2), max_size=60), st.floats(-1e99, 1e99), marks, policies)
@example(ROWS, [0.0, 1e99] * 20, 1e99, [False] * 60, Policy())
@example(ROWS, [5e-324] * 20, 0.0, [False] * 60, Policy(sigma=20, min_points=2))
def test_every_verdict_is_made_of_numbers(
    metric: Metric, values: list[float], value: float, outside: list[bool], policy: Policy
) -> None:
    history = daily(values, wrong=[place for place, is_outside in enumerate(outside) if is_outside])
    found = judge(metric, history, BEGIN + 28 * DAY, value, policy)
    numbers = [each for each in found.as_dict().values() if isinstance(each, float)]
    assert all(map(math.isfinite, numbers))
    assert found.reason
    assert (found.type is None) == (found.severity is None) == (found.state != State.anomalous)
    if found.low is not None and found.expected is not None and found.high is not None:
        assert 0 <= found.low <= found.expected <= found.high
        assert found.stddev is not None
        assert found.stddev > 0


@given(st.integers(0, 10**15), st.integers(5, 90), metrics.filter(lambda metric: metric != "null_share"))
def test_a_constant_series_never_alarms(value: int, count: int, metric: Metric) -> None:
    assert verdict([value] * count, value, metric=metric).state == "normal"


@given(st.lists(counts, min_size=5, max_size=40), counts, st.sampled_from([2, 1024, 2**20]))
def test_the_unit_of_bytes_does_not_matter(values: list[int], value: int, factor: int) -> None:
    """Beyond the least amounts that are believed, a series in other units gets the same verdict."""
    big = [10**9 + each for each in values]
    one = verdict(big, 10**9 + value, metric=Metric.byte_size)
    other = verdict([each * factor for each in big], (10**9 + value) * factor, metric=Metric.byte_size)
    assert (other.state, other.type, other.method) == (one.state, one.type, one.method)
    assert other.score == pytest.approx(one.score, rel=1e-6, abs=1e-6)


@given(series, counts, st.randoms(use_true_random=False))
def test_the_order_in_which_history_is_handed_over_does_not_matter(
    values: list[int], value: int, chance: random.Random
) -> None:
    history = daily(values)
    mixed = list(history)
    chance.shuffle(mixed)
    at = BEGIN + 28 * DAY
    assert judge(ROWS, mixed, at, value) == judge(ROWS, history, at, value)


@given(st.lists(counts, min_size=5, max_size=30), st.randoms(use_true_random=False))
def test_points_of_one_moment_may_come_in_any_order(values: list[int], chance: random.Random) -> None:
    history = [Point(BEGIN, value) for value in values]
    mixed = list(history)
    chance.shuffle(mixed)
    assert judge(ROWS, mixed, BEGIN + DAY, values[0]) == judge(ROWS, history, BEGIN + DAY, values[0])


@given(st.lists(counts, min_size=5, max_size=29), counts)
def test_what_is_further_off_than_all_before_is_no_less_anomalous(values: list[int], value: int) -> None:
    """What was there once may be usual: one that was let through, or the level of before."""
    found = verdict(values, value, PLAIN)
    if found.type is AnomalyType.RowCountSpike:
        assert verdict(values, max(value, *values) * 2 + 1, PLAIN).type is AnomalyType.RowCountSpike
    if found.type is AnomalyType.RowCountDrop and min(values) > 0:
        assert verdict(values, min(value, *values) // 2, PLAIN).type is AnomalyType.RowCountDrop
