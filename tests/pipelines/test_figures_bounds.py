"""Figures that are taken in the pass, against their bounds; one pass for all of them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.spark.figures.measures import measures_of
from tests.pipelines.testing import ansi, batch, config, frame_of, judged, named, utc

COLUMNS = "id bigint, price decimal(10,2), score double, kind string, at timestamp, day date, big bigint, none int"
ROWS = [
    (1, Decimal("0.10"), 1.0, "a", utc(2026, 5, 4, 10, 0), date(2026, 5, 4), 2**62, None),
    (2, Decimal("0.20"), 2.0, "a", utc(2026, 5, 4, 11, 0), date(2026, 5, 3), 2**62, None),
    (3, Decimal("0.30"), 3.0, "b", utc(2026, 5, 1, 0, 0), date(2026, 5, 1), 2**62, None),
    (4, None, None, None, None, None, None, None),
]
HALVES = [{"low": 0, "high": 2, "share": 0.5}, {"low": 2, "share": 0.5}]
KINDS = [{"value": "a", "share": 0.6}, {"value": "b", "share": 0.4}]


def holds(said: str, passes: bool, figure: Any, **test: Any) -> Any:
    return passes, figure, test, said


CASES = [
    holds("as many NULLs as are allowed", True, 0.25, type="null_rate", column="kind", max=0.25),
    holds("more than are allowed", False, 0.25, type="null_rate", column="kind", max=0.2),
    holds("of the rows in where", True, 0.0, type="null_rate", column="kind", max=0, where="id < 4"),
    holds("enough rows", True, 4, type="row_count", min=4, max=4),
    holds("too few", False, 4, type="row_count", min=5),
    holds("rows in where", False, 1, type="row_count", min=2, where="kind = 'b'"),
    holds("a sum of decimals is exact", True, 0.6, type="sum", column="price", min=0.6, max=0.6),
    holds("a sum beyond its type", True, 3 * 2.0**62, type="sum", column="big", min=1e18),
    holds("a mean", True, 2.0, type="mean", column="score", min=2, max=2),
    holds("a mean of decimals", False, 0.2, type="mean", column="price", max=0.19),
    holds("of some", True, 1.5, type="mean", column="score", max=1.5, where="kind = 'a'"),
    holds("the smallest", False, 1.0, type="minimum", column="score", min=1.5),
    holds("the largest", True, 3.0, type="maximum", column="score", max=3),
    holds("the spread", True, 1.0, type="stddev", column="score", min=0.99, max=1.01),
    holds("the median", True, 2.0, type="quantile", column="score", quantile=0.5, min=2, max=2),
    holds("different values", True, 2, type="distinct_count", column="kind", min=2, max=2),
    holds("counted exactly", True, 2, type="distinct_count", column="kind", min=2, max=2, exact=True),
    holds("as a share of values", False, 2 / 3, type="distinct_count", column="kind", min=0.9, as_ratio=True),
    holds(
        "as an exact share of some",
        True,
        0.5,
        type="distinct_count",
        column="kind",
        max=0.5,
        as_ratio=True,
        exact=True,
        where="kind = 'a'",
    ),
    holds("fresh", True, "2026-05-04T11:00:00Z", type="freshness", column="at", max_age="1h"),
    holds("not fresh", False, "2026-05-04T11:00:00Z", type="freshness", column="at", max_age="59m"),
    holds("dates begin at midnight", False, "2026-05-04T00:00:00Z", type="freshness", column="day", max_age="11h"),
    holds(
        "some are not fresh",
        False,
        "2026-05-01T00:00:00Z",
        type="freshness",
        column="at",
        max_age="1d",
        where="kind = 'b'",
    ),
    holds(
        "a distribution as expected", True, None, type="distribution", column="score", expected=HALVES, threshold=0.5
    ),
    holds("of words", True, None, type="distribution", column="kind", expected=KINDS, threshold=0.1),
    holds(
        "words that were not expected",
        False,
        None,
        type="distribution",
        column="kind",
        expected=[{"value": "a", "share": 0.5}, {"value": "x", "share": 0.5}],
        threshold=0.25,
    ),
    holds(
        "too few to tell",
        True,
        None,
        type="distribution",
        column="score",
        expected=HALVES,
        metric="chi_square",
        threshold=0.05,
    ),
    holds(
        "or to tell apart",
        True,
        None,
        type="distribution",
        column="score",
        expected=HALVES,
        metric="ks",
        threshold=0.05,
    ),
    holds("not near", False, None, type="distribution", column="score", expected=HALVES, metric="kl", threshold=0.01),
    holds("slots without rows", False, 2, type="no_gaps", column="at", every="1d"),
    holds("some may be missing", True, 1, type="no_gaps", column="day", every="1d", max_missing=1),
    holds("hours of a day", True, 0, type="no_gaps", column="at", every="1h", where="id < 3"),
]


@pytest.fixture(scope="module", params=[True, False], ids=["ansi", "legacy"])
def found(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    tests = [config(**test) for _, _, test, _ in CASES]
    with ansi(spark, request.param):
        return judged(batch(spark, COLUMNS, ROWS), tmp_path_factory.mktemp("staged"), *tests)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[said for *_, said in CASES])
def test_figures_are_held_against_their_bounds(found: list[Any], number: int) -> None:
    expected, observed, test, _ = CASES[number]
    outcome, record = found[number].outcome, found[number].record

    assert outcome.passes(4) is expected, outcome.detail
    assert not outcome.is_row_level
    assert record.status == ("passed" if expected else "failed")
    assert observed is None or record.observed == pytest.approx(observed)
    assert record.type == test["type"]
    assert record.limit
    assert record.detail == outcome.detail


EMPTY = [
    (config("null_rate", column="c", max=0), True),
    (config("row_count", max=5), True),
    (config("mean", column="c", min=1), True),
    (config("sum", column="c", min=1), True),
    (config("minimum", column="c", min=1), True),
    (config("maximum", column="c", min=1), True),
    (config("stddev", column="c", min=1), True),
    (config("quantile", column="c", quantile=0.5, min=1), True),
    (config("distinct_count", column="c", min=1), True),
    (config("distinct_count", column="c", min=1, exact=True), True),
    (config("distinct_count", column="c", min=1, as_ratio=True), True),
    (config("distribution", column="c", expected=HALVES, threshold=0.1), True),
    (config("distribution", column="c", expected=HALVES, threshold=0.1, metric="chi_square"), True),
    (config("distribution", column="c", expected=HALVES, threshold=0.1, metric="ks"), True),
    (config("no_gaps", column="at", every="1d"), True),
    (config("custom_query", query="SELECT avg(c) FROM df", operator=">", value=1), True),
    (config("no_overlap", columns=["c"], start="at", end="at"), True),
    (config("freshness", column="at", max_age="1d"), False),
]


@pytest.mark.parametrize("rows", [[], [(None, None)]], ids=["an empty batch", "only NULLs"])
def test_what_is_not_known_breaks_no_bound_but_freshness(spark: SparkSession, tmp_path: Path, rows: list[Any]) -> None:
    tests = [test for test, _ in EMPTY if rows == [] or test.kind != "null_rate"]

    found = judged(batch(spark, "c int, at timestamp", rows), tmp_path, *tests)

    assert {each.record.name: each.outcome.passes(0) for each in found} == {
        each.record.name: expected
        for each, expected in zip(found, [passes for test, passes in EMPTY if test in tests], strict=True)
    }
    unknown = [each.record for each in found if each.record.type in ("mean", "quantile", "distribution", "no_gaps")]
    assert all("not known" in str(record.detail) and record.observed is None for record in unknown)


def test_rows_of_an_empty_batch_are_counted_as_none(spark: SparkSession, tmp_path: Path) -> None:
    [found] = judged(batch(spark, "c int", []), tmp_path, config("row_count", min=1))

    assert not found.outcome.passes(0)
    assert found.record.observed == 0
    assert found.outcome.detail == "there are 0 rows, at least 1 are asked for"


def test_all_nulls_are_a_known_share(spark: SparkSession, tmp_path: Path) -> None:
    [found] = judged(batch(spark, "c int", [None, None]), tmp_path, config("null_rate", column="c", max=0.5))

    assert (found.record.observed, found.record.status) == (1.0, "failed")


def test_a_figure_that_is_no_number_fails(spark: SparkSession, tmp_path: Path) -> None:
    rows = batch(spark, "c double", [1.0, float("nan")])

    [found] = judged(rows, tmp_path, config("mean", column="c", max=10))

    assert not found.outcome.passes(2)
    assert found.outcome.detail == "the mean of 'c' is NaN, at most 10 is asked for"


def test_nan_is_in_no_part_of_a_distribution(spark: SparkSession, tmp_path: Path) -> None:
    rows = batch(spark, "c double", [1.0, 3.0, float("nan"), None])
    test = config("distribution", column="c", expected=HALVES, metric="chi_square", threshold=0.05)

    [found] = judged(rows, tmp_path, test)

    assert "1 of 3 values are in no part" in str(found.outcome.detail)
    assert found.record.observed == 0.0


def test_nulls_can_be_a_part_of_a_distribution(spark: SparkSession, tmp_path: Path) -> None:
    expected = [{"value": None, "share": 0.5}, {"value": 1, "share": 0.5}]

    [found] = judged(
        batch(spark, "c int", [1, None]), tmp_path, config("distribution", column="c", expected=expected, threshold=0.1)
    )

    assert found.record.observed == pytest.approx(0)
    assert found.record.evaluated == 2


def test_measures_have_names_of_their_own_and_row_tests_have_none(spark: SparkSession) -> None:
    rows = batch(spark, "c int", [1])
    tests = named(config("mean", column="c", min=1), config("not_null", column="c"), config("mean", column="c", max=2))

    assert list(measures_of(tests, frame_of(rows))) == [
        "_headgate_m0_figure",
        "_headgate_m0_values",
        "_headgate_m2_figure",
        "_headgate_m2_values",
    ]
