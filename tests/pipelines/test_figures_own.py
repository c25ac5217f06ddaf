"""Tests of a batch that need jobs of their own, earlier runs or only the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.config.node import ContractConfig
from headgate.pipelines.spark.figures import own_figures
from headgate.pipelines.spark.figures.contract import with_contract
from headgate.pipelines.spark.figures.reconcile import reconciled
from headgate.pipelines.spark.figures.verdicts import Batch, judge
from tests.pipelines.testing import batch, config, frame_of, jobs_of, judged, named


@pytest.mark.parametrize(
    ("type", "runs", "history", "expected"),
    [
        ("volume_change", 1, [4], True),
        ("volume_change", 1, [8], True),
        ("volume_change", 1, [9], False),
        ("volume_change", 1, [2], False),
        ("volume_drop", 1, [1], True),
        ("volume_drop", 1, [8], True),
        ("volume_drop", 1, [9], False),
        ("volume_change", 2, [2, 6, 100], True),
        ("volume_change", 3, [4], True),
        ("volume_change", 1, [0], False),
        ("volume_drop", 1, [0], True),
    ],
)
def test_rows_are_compared_with_earlier_runs(
    spark: SparkSession,
    type: str,  # noqa: A002 - as files say it
    runs: int,
    history: list[int],
    expected: bool,
) -> None:
    at = frame_of(batch(spark, "c int", []))

    [found] = judge(named(config(type, threshold=0.5, runs=runs)), {}, Batch(4, at, history))

    assert found.outcome.passes(4) is expected, found.outcome.detail


@pytest.mark.parametrize("on_missing", ["pass", "fail"])
def test_without_earlier_runs_the_file_decides_and_the_reason_is_told(spark: SparkSession, on_missing: str) -> None:
    at = frame_of(batch(spark, "c int", []))
    tests = named(config("volume_change", threshold=0.5, on_missing_history=on_missing))

    [found] = judge(tests, {}, Batch(4, at, history_note="the server does not answer"))

    assert found.outcome.passes(4) is (on_missing == "pass")
    assert found.outcome.detail == "the change of the row count is not known: the server does not answer"


@pytest.mark.parametrize(
    ("columns", "more", "detail"),
    [
        ([("id", "integer"), ("name", None), ("price", "numeric(6,2)")], {}, "the columns are as expected"),
        ([("ID", "INT"), ("name", "string"), ("price", "decimal(6,2)")], {}, "the columns are as expected"),
        ([("id", "bigint"), ("name", None), ("price", None)], {}, "'id' is int and not bigint"),
        ([("id", None), ("name", None)], {}, "'price' is there and not expected"),
        ([("id", None), ("name", None)], {"strict": False}, "the columns are as expected"),
        ([("id", None), ("nom", None)], {"strict": False}, "'nom' is missing"),
        ([("name", None), ("id", None)], {"strict": False}, "the columns are as expected"),
        ([("name", None), ("id", None)], {"strict": False, "ordered": True}, "the columns are in the order id, name"),
    ],
)
def test_columns_are_as_promised(spark: SparkSession, columns: Any, more: dict[str, bool], detail: str) -> None:
    rows = batch(spark, "id int, name string, price decimal(6,2)", [])
    specs = [{"name": name, "type": kind} for name, kind in columns]
    tests = named(config("schema", columns=specs, **more))

    own, jobs = jobs_of(spark, lambda: own_figures(spark, tests, rows, frame_of(rows), {}))
    [found] = judge(tests, own, Batch(0, frame_of(rows)))

    assert found.outcome.detail == detail
    assert found.outcome.passes(0) is (detail == "the columns are as expected")
    assert jobs == 0


def test_columns_that_promise_a_value_have_no_nulls(spark: SparkSession, tmp_path: Path) -> None:
    specs = [{"name": "c", "nullable": False}, {"name": "d", "nullable": False}, {"name": "e", "nullable": True}]
    rows = batch(spark, "c int, d int, e int", [(1, 1, None), (1, None, None), (None, None, None)])

    whole, some = judged(
        rows, tmp_path, config("schema", columns=specs), config("schema", columns=specs, where="d = 1")
    )

    assert whole.outcome.detail == "'c' has 1 NULLs; 'd' has 2 NULLs"
    assert some.outcome.passes(3)


def test_a_schema_test_without_columns_goes_by_the_contract() -> None:
    contract = ContractConfig(columns=[{"name": "c", "type": "int"}])  # type: ignore[list-item]  # as a file has it
    tests = named(config("schema"), config("schema", strict=True), config("row_count", min=1))

    loose, strict, other = with_contract(tests, contract)

    assert loose.config.columns == contract.columns  # type: ignore[attr-defined]
    assert (loose.config.strict, strict.config.strict) == (False, True)  # type: ignore[attr-defined]
    assert other is tests[2]
    assert with_contract(tests, None) == tests


@pytest.mark.parametrize(
    ("test", "expected", "detail"),
    [
        ({"query": "SELECT * FROM {df} WHERE c > 2"}, False, "the query finds 1 rows, none are allowed"),
        ({"query": "SELECT * FROM df WHERE c > 3"}, True, "the query finds 0 rows, none are allowed"),
        ({"query": "SELECT * FROM df WHERE c > 2", "where": "c < 3"}, True, "the query finds 0 rows, none are allowed"),
        (
            {"query": "SELECT max(c) FROM df", "operator": "<=", "value": 3},
            True,
            "the query gives 3, <= 3 is asked for",
        ),
        ({"query": "SELECT sum(c) FROM df", "operator": "=", "value": 5}, False, "the query gives 6, = 5 is asked for"),
        (
            {"query": "SELECT c FROM df", "operator": "=", "value": 5},
            False,
            "the query gives more than one row, and one figure is compared",
        ),
        (
            {"query": "SELECT c FROM df WHERE false", "operator": "=", "value": 5},
            False,
            "the query gives no row, and one figure is compared",
        ),
        (
            {"query": "SELECT sum(c) FROM df", "operator": "=", "value": 5, "where": "false"},
            True,
            "the figure of the query is NULL, and not known: nothing is broken",
        ),
    ],
)
def test_a_query_finds_wrong_rows_or_gives_a_figure(
    spark: SparkSession, test: dict[str, Any], expected: bool, detail: str
) -> None:
    rows = batch(spark, "c int", [1, 2, 3])
    tests = named(config("custom_query", **test))

    [found] = judge(tests, own_figures(spark, tests, rows, frame_of(rows), {}), Batch(3, frame_of(rows)))

    assert (found.outcome.passes(3), found.outcome.detail) == (expected, detail)


SALES = [("EU", 10.0), ("EU", 20.0), ("US", 5.0), (None, 1.0)]


@pytest.mark.parametrize(
    ("other", "test", "details"),
    [
        (SALES, {}, None),
        (SALES, {"sums": ["price"], "group_by": ["region"]}, None),
        (SALES[:3], {}, ["the sides differ: rows 4 against 3"]),
        (SALES[:3], {"tolerance": 0.5}, None),
        (SALES[:3], {"where": "region IS NOT NULL", "sums": ["price"]}, None),
        ([*SALES[:3], (None, 2.0)], {}, None),
        ([*SALES[:3], (None, 2.0)], {"sums": ["price"]}, ["sum of price 36 against 37"]),
        ([*SALES[:3], (None, 2.0)], {"sums": ["price"], "tolerance": 0.1}, None),
        (
            [*SALES[:3], ("UK", 1.0)],
            {"sums": ["price"], "group_by": ["region"]},
            [
                "2 of 4 groups differ",
                "region NULL, rows 1 against 0, sum of price 1 against 0",
                "region UK, rows 0 against 1",
            ],
        ),
    ],
)
def test_a_batch_agrees_with_another_dataset(
    spark: SparkSession, other: list[Any], test: dict[str, Any], details: list[str] | None
) -> None:
    rows, reference = (batch(spark, "region string, price double", each) for each in (SALES, other))
    tests = named(config("reconcile", reference={"node": "n"}, **test))

    own = own_figures(spark, tests, rows, frame_of(rows), {tests[0].name: reference})
    [found] = judge(tests, own, Batch(4, frame_of(rows)))

    assert found.outcome.passes(4) is (details is None), found.outcome.detail
    assert all(detail in str(found.outcome.detail) for detail in details or [])


def test_two_empty_sides_agree(spark: SparkSession) -> None:
    rows = batch(spark, "region string, price double", [])
    test = config("reconcile", reference={"node": "n"}, sums=["price"])

    assert reconciled(test, rows, frame_of(rows), rows).different == 0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("intervals", "overlaps"),
    [
        ([("a", 1, 3), ("a", 3, 5), ("b", 2, 4)], 0),
        ([("a", 1, 4), ("a", 3, 5)], 1),
        ([("a", 1, 10), ("a", 2, 3), ("a", 5, 6)], 2),
        ([("a", 1, None), ("a", 3, None)], 1),
        ([("a", 1, 3), ("a", 3, None)], 0),
        ([("a", 1, 3), ("a", 1, 3)], 1),
        ([("a", 2, 2), ("a", 1, 3), ("a", 9, 8)], 0),
        ([(None, 1, 3), (None, 1, 3), ("a", None, 3), ("a", None, 3)], 0),
    ],
)
def test_intervals_of_a_key_do_not_overlap(spark: SparkSession, intervals: list[Any], overlaps: int) -> None:
    rows = batch(spark, "k string, start int, end int", intervals)
    tests = named(config("no_overlap", columns=["k"], start="start", end="end"))

    [found] = judge(tests, own_figures(spark, tests, rows, frame_of(rows), {}), Batch(9, frame_of(rows)))

    assert found.record.observed == overlaps
    assert found.outcome.passes(9) is (overlaps == 0)


def test_several_tests_that_need_jobs_share_them(spark: SparkSession) -> None:
    rows = batch(spark, "k int, day date, start int, end int", [(1, None, 1, 2)])
    few = named(
        config("no_gaps", column="day", every="1d"),
        config("no_overlap", columns=["k"], start="start", end="end"),
    )
    many = named(*(test.config for test in few * 4), *(config("distinct_count", column="k", min=1, exact=True),) * 3)

    _, one = jobs_of(spark, lambda: own_figures(spark, few, rows, frame_of(rows), {}))
    _, all_at_once = jobs_of(spark, lambda: own_figures(spark, many, rows, frame_of(rows), {}))

    # A union of several windows may take a job more, not one a test.
    assert all_at_once <= one + 2
