"""Figures that cannot ride in the pass, by jobs of their own over the staged batch: one for several tests where it can.

Needed by no_gaps, exact distinct_count, no_overlap, reconcile and custom_query; the schema is compared without a job.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.config.tests import datasets
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import Frame, Unfit
from headgate.pipelines.spark.checks.said import SPARK_ERRORS, said
from headgate.pipelines.spark.figures.contract import type_named
from headgate.pipelines.spark.figures.measures import DAY_S, looked_at, measure_name, within
from headgate.pipelines.spark.figures.reconcile import reconciled

_MICROS = 1_000_000


def own_figures(
    spark: SparkSession,
    tests: Sequence[NamedTest],
    batch: DataFrame,
    frame: Frame,
    references: Mapping[str, DataFrame],
) -> dict[str, Any]:
    """Figures for `judge`, by the names that it knows; `references` are the other sides, by the names of tests."""
    found = _counted(tests, batch, frame) | _overlapping(tests, batch, frame)
    for number, test in enumerate(tests):
        if isinstance(test.config, datasets.SchemaTest):
            types = {spec.name: type_named(spark, spec) for spec in test.config.columns}
            found[measure_name(number, "types")] = types
        elif isinstance(test.config, datasets.CustomQueryTest):
            found[measure_name(number, "answer")] = _answer(spark, batch, test.config)
        elif isinstance(test.config, datasets.ReconcileTest):
            agreement = reconciled(test.config, batch, frame, references[test.name])
            found[measure_name(number, "agreement")] = agreement
    return found


def _counted(tests: Sequence[NamedTest], batch: DataFrame, frame: Frame) -> dict[str, Any]:
    """All that takes DISTINCT, in one aggregation."""
    columns: dict[str, Column] = {}
    for number, test in enumerate(tests):
        config = test.config
        if isinstance(config, datasets.DistinctCountTest) and config.exact:
            columns[measure_name(number, "figure")] = F.count_distinct(within(config, frame.column(config.column)))
        elif isinstance(config, datasets.NoGapsTest):
            slot = within(config, _slot(config, frame))
            columns[measure_name(number, "slots")] = F.count_distinct(slot)
            columns[measure_name(number, "span")] = F.max(slot) - F.min(slot) + 1
    return _first_row(batch.agg(*_named(columns))) if columns else {}


def _named(columns: Mapping[str, Column]) -> Iterable[Column]:
    return (column.alias(name) for name, column in columns.items())


def _first_row(frame: DataFrame) -> dict[str, Any]:
    row = frame.first()
    assert row is not None
    return row.asDict()


def _slot(test: datasets.NoGapsTest, frame: Frame) -> Column:
    """The number of a slot of time, counted from 1970."""
    column, seconds = frame.time(test.column, "no_gaps"), test.every.total_seconds()
    if isinstance(frame.type_of(test.column), T.DateType):
        return _floored(F.unix_date(column), int(seconds // DAY_S))
    return _floored(F.unix_micros(column.cast("timestamp")), max(1, int(seconds * _MICROS)))


def _floored(column: Column, size: int) -> Column:
    whole = column.cast("long")
    return ((whole - F.pmod(whole, F.lit(size))) / F.lit(size)).cast("long")


def _overlapping(tests: Sequence[NamedTest], batch: DataFrame, frame: Frame) -> dict[str, Any]:
    """How many intervals begin before an earlier one of their key has ended, for all tests in one query."""
    counts = [
        _overlaps(test.config, batch, frame).select(F.lit(measure_name(number, "overlaps")), F.count(F.lit(1)))
        for number, test in enumerate(tests)
        if isinstance(test.config, datasets.NoOverlapTest)
    ]
    return dict(reduce(DataFrame.unionAll, counts).collect()) if counts else {}


def _overlaps(test: datasets.NoOverlapTest, batch: DataFrame, frame: Frame) -> DataFrame:
    """Intervals are without their ends. Those without a key or a beginning, and empty ones, overlap nothing."""
    start, end = F.col("_headgate_start"), F.col("_headgate_end")
    keys = [f"_headgate_key{number}" for number in range(len(test.columns))]
    intervals = batch.where(looked_at(test)).select(
        *(frame.column(name).alias(key) for name, key in zip(test.columns, keys, strict=True)),
        frame.column(test.start).alias("_headgate_start"),
        frame.column(test.end).alias("_headgate_end"),
    )
    present = reduce(operator.and_, [F.col(key).isNotNull() for key in keys], start.isNotNull())
    earlier = Window.partitionBy(*keys).orderBy(start).rowsBetween(Window.unboundedPreceding, -1)
    is_open, last = F.max(end.isNull()).over(earlier), F.max(end).over(earlier)
    is_early = F.coalesce(is_open, F.lit(False)) | F.coalesce(start < last, F.lit(False))
    real = intervals.where(present & (end.isNull() | (start < end)))
    return real.select(is_early.alias("_headgate_early")).where("_headgate_early")


def query_frame(spark: SparkSession, batch: DataFrame, test: datasets.CustomQueryTest) -> DataFrame:
    """The query over the batch; refused if Spark cannot read it, or if it can give no figure."""
    scoped = batch if test.where is None else batch.where(test.where)
    scoped.createOrReplaceTempView("df")
    try:
        answer = spark.sql(test.query.replace("{df}", "df"))
        fields = answer.schema.fields
    except SPARK_ERRORS as error:
        hint = "the batch is called df, and the nodes in depends_on by their names"
        raise Unfit(f"query {test.query!r} cannot be used: {said(error)}", hint) from None
    if test.operator is not None and (len(fields) != 1 or not isinstance(fields[0].dataType, T.NumericType)):
        given = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
        raise Unfit(
            f"query {test.query!r} gives {given}, and {test.operator} compares one number",
            "select one number, or leave operator and value out",
        )
    return answer


def _answer(spark: SparkSession, batch: DataFrame, test: datasets.CustomQueryTest) -> dict[str, Any]:
    answer = query_frame(spark, batch, test)
    if test.operator is None:
        return {"rows": answer.count()}
    rows = answer.take(2)
    figure = rows[0][0] if rows else None
    return {"rows": len(rows), "figure": None if figure is None else float(figure)}
