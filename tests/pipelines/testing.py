"""Small batches and tests as a file says them, and the jobs that Spark ran for them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession

from headgate.pipelines.config.tests import AnyTest, TestConfig
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark import fused
from headgate.pipelines.spark.checks.frame import Frame
from headgate.pipelines.spark.checks.passing import passes
from headgate.pipelines.spark.figures import Batch, Judged, judge, measures_of, own_figures

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
_TESTS: TypeAdapter[TestConfig] = TypeAdapter(AnyTest)
_numbers = itertools.count(1)
Result = TypeVar("Result")


def config(type: str, **fields: Any) -> TestConfig:  # noqa: A002 - as the file calls it
    return _TESTS.validate_python({"type": type, **fields})


def named(*tests: TestConfig) -> list[NamedTest]:
    """Tests with names that are theirs alone, and the lines of a file that they might be in."""
    return [NamedTest(test.name or f"{test.kind}{n}", test, f"shop.yaml:{n}") for n, test in enumerate(tests, 1)]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]  # year, month, day and so on


def batch(spark: SparkSession, columns: str, rows: list[Any]) -> DataFrame:
    """Rows of several columns, or the values of one."""
    return spark.createDataFrame([row if isinstance(row, tuple) else (row,) for row in rows], columns)


def frame_of(rows: DataFrame) -> Frame:
    return Frame(rows.schema, NOW)


def verdicts(rows: DataFrame, test: TestConfig) -> list[bool | None]:
    """Whether each row passes, in the order in which the rows were given."""
    return [row[0] for row in rows.select(passes(test, frame_of(rows))).collect()]


@contextmanager
def ansi(spark: SparkSession, is_on: bool) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", str(is_on).lower())
    yield
    spark.conf.set("spark.sql.ansi.enabled", str(before))


def jobs_of(spark: SparkSession, work: Callable[[], Result]) -> tuple[Result, int]:
    """What the work gave, and how many jobs Spark ran for it."""
    context, group = spark.sparkContext, f"counted-{next(_numbers)}"
    context.setJobGroup(group, "counted")
    try:
        result = work()
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # takes it away
    return result, len(context.statusTracker().getJobIdsForGroup(group))


def judged(
    rows: DataFrame,
    folder: Path,
    *tests: TestConfig,
    references: Mapping[str, DataFrame] | None = None,
    history: Sequence[int] = (),
    history_note: str | None = None,
) -> list[Judged]:
    """The tests of the whole batch as the engine takes them: what rides in the pass, and what needs jobs of its own."""
    spark, at, all_tests = rows.sparkSession, frame_of(rows), named(*tests)
    staged = fused.sort_rows(spark, rows, fused.Tests(), str(folder), measures=measures_of(all_tests, at))
    own = own_figures(spark, all_tests, rows, at, references or {})
    return judge(all_tests, staged.observed | own, Batch(staged.total, at, history, history_note))
