"""Figures over series of measurements."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.metric import (
    Direction,
    distinct_count,
    mean,
    most_telling,
    null_share,
    percentile,
    sample_stddev,
)

counts = st.lists(st.integers(0, 2**40), min_size=1, max_size=50)


def test_nothing_has_no_figures() -> None:
    assert (mean([]), sample_stddev([]), percentile([], 0.5)) == (None, None, None)


def test_one_value_has_no_spread() -> None:
    assert (mean([7]), sample_stddev([7]), percentile([7], 0.05), percentile([7], 0.95)) == (7, None, 7, 7)


@pytest.mark.parametrize(
    ("values", "middle", "spread"),
    [([100] * 15 + [1000], 156.25, 225.0), ([100] * 5 + [1000], 250.0, 367.4234614174767), ([3, 3, 3], 3.0, 0.0)],
    ids=["spike among fifteen", "spike among five", "all alike"],
)
def test_the_spread_is_that_of_a_sample(values: list[float], middle: float, spread: float) -> None:
    assert (mean(values), sample_stddev(values)) == (middle, pytest.approx(spread))


@pytest.mark.parametrize(("fraction", "value"), [(0, 10), (0.05, 11.5), (0.25, 17.5), (0.5, 25), (0.95, 38.5), (1, 40)])
def test_a_percentile_lies_on_the_line_between_its_neighbours(fraction: float, value: float) -> None:
    assert percentile([40, 10, 30, 20], fraction) == pytest.approx(value)


@given(counts)
def test_figures_agree_with_the_standard_library(values: list[int]) -> None:
    assert mean(values) == pytest.approx(statistics.mean(values))
    if len(values) > 1:
        assert sample_stddev(values) == pytest.approx(statistics.stdev(values))
        twentieths = statistics.quantiles(values, n=20, method="inclusive")
        assert percentile(values, 0.05) == pytest.approx(twentieths[0])
        assert percentile(values, 0.95) == pytest.approx(twentieths[-1])


@pytest.mark.parametrize(
    ("measured", "chosen"),
    [
        (["input", "output", "profile"], Direction.output),
        (["input", "profile"], Direction.profile),
        (["input"], Direction.input),
        ([], None),
    ],
    ids=str,
)
def test_writers_know_more_than_profiles_and_those_more_than_readers(
    measured: list[str], chosen: Direction | None
) -> None:
    assert most_telling(measured) is chosen


@pytest.mark.parametrize(
    ("figures", "rows", "share"),
    [
        ({"nullCount": 5}, 100, 0.05),
        ({"nullCount": 5, "count": 15}, 100, 0.05),
        ({"nullCount": 20, "count": 980}, None, 0.02),
        ({"nullCount": 990, "count": 10}, None, 0.99),
        ({"nullCount": 3, "count": 0}, None, 1.0),
        ({"nullCount": 300}, 100, 1.0),
        ({"nullCount": 0, "count": 0}, None, None),
        ({"nullCount": 0, "count": 7}, 0, None),
        ({"nullCount": 5}, None, None),
        ({"nullCount": 5, "count": "many"}, None, None),
        ({"nullCount": True, "count": 5}, None, None),
        ({"nullCount": -1}, 100, None),
        ({"count": 5}, 100, None),
        ([], 100, None),
        (None, None, None),
    ],
    ids=str,
)
def test_a_null_share_is_of_the_rows_that_were_looked_at(
    figures: object, rows: int | None, share: float | None
) -> None:
    assert null_share(figures, rows) == share


@pytest.mark.parametrize(
    ("figures", "count"), [({"distinctCount": 5}, 5.0), ({"distinctCount": "5"}, None), ({}, None), (7, None)], ids=str
)
def test_distinct_values_are_as_many_as_a_profile_says(figures: object, count: float | None) -> None:
    assert distinct_count(figures) == count
