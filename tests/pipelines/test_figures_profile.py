"""What is taken of columns in the pass, what outliers are told by, and how many jobs the tests of a batch take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.pipelines.config.tests import TestConfig
from headgate.pipelines.record import ColumnProfile
from headgate.pipelines.spark import fused
from headgate.pipelines.spark.checks.passing import LOCAL, passes
from headgate.pipelines.spark.figures import measures_of, outlier_figures, profile_measures, profile_of
from tests.pipelines.testing import batch, config, frame_of, jobs_of, named


def test_a_profile_is_taken_of_all_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = batch(
        spark,
        "id int, name string, day date, tags array<int>, extra map<string,int>",
        [(1, "b", date(2026, 1, 1), [1], None), (2, "a" * 300, None, None, {"a": 1}), (2, None, None, None, None)],
    )
    at = frame_of(rows)

    staged = fused.sort_rows(spark, rows, fused.Tests(), str(tmp_path), measures=profile_measures(at))

    assert profile_of(staged.observed, at) == {
        "id": ColumnProfile(0, 2, 1, 2),
        "name": ColumnProfile(1, 2, "x" * 200, "x"),
        "day": ColumnProfile(2, 1, "2026-01-01", "2026-01-01"),
        "tags": ColumnProfile(2),
        "extra": ColumnProfile(2),
    }


def test_a_profile_of_some_columns_of_an_empty_batch(spark: SparkSession, tmp_path: Path) -> None:
    rows = batch(spark, "id int, home struct<city:string>, more int", [])
    at, columns = frame_of(rows), ["home.city", "id"]

    staged = fused.sort_rows(spark, rows, fused.Tests(), str(tmp_path), measures=profile_measures(at, columns))

    assert profile_of(staged.observed, at, columns) == {"home.city": ColumnProfile(0, 0), "id": ColumnProfile(0, 0)}


def outlying(rows: DataFrame, test: TestConfig) -> list[object]:
    at = replace(frame_of(rows), figures=outlier_figures(named(test), rows, frame_of(rows)))
    return [row[0] for row in rows.where(~passes(test, at)).select("c").collect()]


VALUES = [(float(value), "x") for value in [10, 11, 9, 10, 12, 8, 10, 11, 9, 10]]


@pytest.mark.parametrize(
    ("method", "where", "expected"),
    [("stddev", None, [1000.0]), ("mad", None, [1000.0]), ("mad", "k = 'y'", []), ("stddev", "k = 'x'", [])],
)
def test_values_far_from_the_middle_are_outliers(
    spark: SparkSession, method: str, where: str | None, expected: list[float]
) -> None:
    rows = batch(spark, "c double, k string", [*VALUES, (1000.0, "y"), (None, "x")])

    assert outlying(rows, config("outlier", column="c", max_deviations=3, method=method, where=where)) == expected


def test_what_is_no_number_has_no_part_in_the_middle_and_is_an_outlier(spark: SparkSession) -> None:
    rows = batch(spark, "c double, k string", [*VALUES, (float("nan"), "x"), (float("inf"), "x")])

    found = outlying(rows, config("outlier", column="c", max_deviations=3))

    assert [str(value) for value in found] == ["nan", "inf"]


@pytest.mark.parametrize("rows", [[], [(None, "x")], [(1.0, "x"), (1.0, "x")]], ids=["empty", "NULLs", "all the same"])
def test_without_a_spread_nothing_is_an_outlier(spark: SparkSession, rows: list[tuple[object, str]]) -> None:
    frame = batch(spark, "c double, k string", rows)

    assert [outlying(frame, config("outlier", column="c", method=method)) for method in ("stddev", "mad")] == [[], []]


def test_outliers_of_all_tests_take_two_aggregations(spark: SparkSession) -> None:
    rows = batch(spark, "c double, d double", [(1.0, 2.0)])
    few = named(config("outlier", column="c"), config("outlier", column="c", method="mad"))
    many = named(
        *(
            config("outlier", column=c, method=m, where=w)
            for c in "cd"
            for m in ("stddev", "mad")
            for w in (None, "c > 0")
        )
    )

    _, one = jobs_of(spark, lambda: outlier_figures(few, rows, frame_of(rows)))
    found, all_at_once = jobs_of(spark, lambda: outlier_figures(many, rows, frame_of(rows)))

    assert len(found) == 8
    assert one == all_at_once


def passed(spark: SparkSession, rows: DataFrame, tests: list[TestConfig], folder: Path) -> Callable[[], fused.Staged]:
    at, all_tests = frame_of(rows), named(*tests)
    local = [(test, passes(test.config, at)) for test in all_tests if type(test.config) in LOCAL]
    measures = measures_of(all_tests, at) | profile_measures(at)
    return lambda: fused.sort_rows(spark, rows, fused.Tests(local), str(folder), measures=measures)


def test_fifty_tests_take_as_many_jobs_as_five(spark: SparkSession, tmp_path: Path) -> None:
    rows = batch(spark, "id int, email string", [(1, "a@x.de"), (2, "b"), (None, "c@x.de")])
    five = [
        config("not_null", column="id"),
        config("email", column="email"),
        config("range", column="id", min=0),
        config("mean", column="id", min=0),
        config("null_rate", column="id", max=0.5),
    ]
    fifty = [*five * 2, *(config("range", column="id", max=n) for n in range(20)), *five * 4]

    few, jobs = jobs_of(spark, passed(spark, rows, five, tmp_path / "five"))
    many, more_jobs = jobs_of(spark, passed(spark, rows, fifty, tmp_path / "fifty"))

    assert len(fifty) == 50
    assert more_jobs == jobs
    assert few.failures["not_null1"] == many.failures["not_null1"] == 1
    assert sum(many.lots.values()) == 3
