"""Figures that ride in the pass: aggregates over all rows, taken while they are sorted into their lots.

None of them is DISTINCT, and none can fail on a value, whatever the session's mode.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.config.tests import TestConfig, datasets
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import Frame, Unfit, are_comparable, has_equality

# The relative error of approximate counts; small numbers of values are counted exactly in practice.
DISTINCT_ERROR = 0.02
DAY_S = 86_400


def measure_name(number: int, what: str) -> str:
    return f"_headgate_m{number}_{what}"


def measures_of(tests: Sequence[NamedTest], frame: Frame) -> dict[str, Column]:
    """The aggregates that these tests need, by names that `judge` knows when it is given the same tests."""
    found = {}
    for number, test in enumerate(tests):
        measure = _MEASURES.get(type(test.config))
        if measure is not None:
            for what, column in measure(test.config, frame).items():
                found[measure_name(number, what)] = column
    return found


def fit(test: TestConfig, frame: Frame) -> None:
    """Refuse a test of the whole batch that these columns cannot answer."""
    check = _FITS.get(type(test))
    if check is not None:
        check(test, frame)


def looked_at(test: TestConfig) -> Column:
    return F.lit(True) if test.where is None else F.coalesce(F.expr(test.where), F.lit(False))


def within(test: TestConfig, column: Column) -> Column:
    """NULL for rows that the test does not look at; aggregates pass over them."""
    return column if test.where is None else F.when(looked_at(test), column)


def total_of(column: Column, kind: T.DataType) -> Column:
    """A sum that is exact for whole numbers and decimals; one that has too many digits is taken as a double."""
    if isinstance(kind, T.FloatType | T.DoubleType):
        return F.sum(column.cast("double"))
    exact = column if isinstance(kind, T.DecimalType) else column.cast("decimal(20,0)")
    return F.coalesce(F.try_sum(exact).cast("double"), F.sum(column.cast("double")))


def _null_rate(test: datasets.NullRateTest, frame: Frame) -> dict[str, Column]:
    is_null = frame.column(test.column).isNull()
    return {"nulls": F.count_if(looked_at(test) & is_null), "rows": F.count_if(looked_at(test))}


def _row_count(test: datasets.RowCountTest, frame: Frame) -> dict[str, Column]:
    return {"rows": F.count_if(looked_at(test))}


def _freshness(test: datasets.FreshnessTest, frame: Frame) -> dict[str, Column]:
    """As a number: a time would come back in the zone of the machine."""
    moment = frame.time(test.column, "freshness").cast("timestamp")
    return {"newest": F.max(F.unix_micros(within(test, moment)))}


def _schema(test: datasets.SchemaTest, frame: Frame) -> dict[str, Column]:
    """Files do not keep what may be NULL: it is counted instead."""
    found = {}
    for number, spec in enumerate(test.columns):
        if spec.nullable is False and _is_there(spec.name, frame):
            found[f"nulls{number}"] = F.count_if(looked_at(test) & frame.column(spec.name).isNull())
    return found


def _is_there(name: str, frame: Frame) -> bool:
    try:
        frame.type_of(name)
    except Unfit:
        return False
    return True


def _aggregate(test: datasets.AggregateTest, frame: Frame) -> dict[str, Column]:
    column, kind = within(test, frame.number(test.column, test.type)), frame.type_of(test.column)
    plain = column.cast("double")
    figure = {
        "sum": lambda: total_of(column, kind),
        "mean": lambda: _mean(column, kind),
        "minimum": lambda: F.min(column).cast("double"),
        "maximum": lambda: F.max(column).cast("double"),
        "stddev": lambda: F.stddev_samp(plain),
    }[test.type]()
    return {"figure": figure, "values": F.count(column)}


def _mean(column: Column, kind: T.DataType) -> Column:
    plain = F.avg(column.cast("double"))
    return F.coalesce(F.try_avg(column).cast("double"), plain) if isinstance(kind, T.DecimalType) else plain


def _quantile(test: datasets.QuantileTest, frame: Frame) -> dict[str, Column]:
    column = within(test, frame.number(test.column, "quantile")).cast("double")
    return {"figure": F.percentile_approx(column, test.quantile, test.accuracy), "values": F.count(column)}


def _distinct_count(test: datasets.DistinctCountTest, frame: Frame) -> dict[str, Column]:
    column = within(test, _countable(test, frame))
    counted = {"values": F.count(column)}
    # An exact count needs a job of its own.
    return counted if test.exact else {**counted, "figure": F.approx_count_distinct(column, DISTINCT_ERROR)}


def _countable(test: datasets.DistinctCountTest, frame: Frame) -> Column:
    kind = frame.type_of(test.column)
    if not has_equality(kind):
        raise Unfit(
            f"distinct_count compares values, and {test.column!r} is {kind.simpleString()}",
            "take a part of it in transform",
        )
    return frame.column(test.column)


def _distribution(test: datasets.DistributionTest, frame: Frame) -> dict[str, Column]:
    """How many values each part has; a value is in the first part that it fits, and NULLs are in none by themselves."""
    parts = [_is_in(part, test, frame) for part in test.expected]
    place = F.when(parts[0], F.lit(0))
    for number, part in enumerate(parts[1:], 1):
        place = place.when(part, F.lit(number))
    place = place.when(frame.column(test.column).isNotNull(), F.lit(len(parts)))
    return {
        f"part{number}": F.count_if(looked_at(test) & F.coalesce(place == number, F.lit(False)))
        for number in range(len(parts) + 1)
    }


def _is_in(part: datasets.Bin, test: datasets.DistributionTest, frame: Frame) -> Column:
    if not part.has_bounds:
        column = frame.column(test.column)
        return column.isNull() if part.value is None else column == frame.literal(test.column, part.value)
    plain = frame.number(test.column, "a part from low to high").cast("double")
    low = [plain >= F.lit(part.low)] if part.low is not None else []
    high = [plain < F.lit(part.high)] if part.high is not None else []
    return reduce(operator.and_, [~F.isnan(plain), *low, *high])


_MEASURES: dict[type[TestConfig], Callable[[Any, Frame], dict[str, Column]]] = {
    datasets.NullRateTest: _null_rate,
    datasets.RowCountTest: _row_count,
    datasets.FreshnessTest: _freshness,
    datasets.SchemaTest: _schema,
    datasets.AggregateTest: _aggregate,
    datasets.QuantileTest: _quantile,
    datasets.DistinctCountTest: _distinct_count,
    datasets.DistributionTest: _distribution,
}


def _fit_volume(test: datasets.VolumeChangeTest, frame: Frame) -> None:
    if test.where is not None:
        raise Unfit(
            f"{test.kind} compares all rows with those of earlier runs, and where {test.where!r} leaves some out",
            "leave where out, or use row_count",
        )


def _fit_gaps(test: datasets.NoGapsTest, frame: Frame) -> None:
    frame.time(test.column, "no_gaps")
    if isinstance(frame.type_of(test.column), T.DateType) and test.every.total_seconds() % DAY_S:
        raise Unfit(f"{test.column!r} is a date, and every is no whole number of days", "say every: 1d")


def _fit_overlap(test: datasets.NoOverlapTest, frame: Frame) -> None:
    for name in test.columns:
        if not has_equality(frame.type_of(name)):
            raise Unfit(f"{name!r} is {frame.type_of(name).simpleString()}, and no key", "take a part of it")
    start, end = frame.type_of(test.start), frame.type_of(test.end)
    if not are_comparable(start, end):
        raise Unfit(
            f"start {test.start!r} is {start.simpleString()} and end {test.end!r} is {end.simpleString()}: "
            "they cannot be compared",
            "cast one of them in transform",
        )


def _fit_reconcile(test: datasets.ReconcileTest, frame: Frame) -> None:
    for name in test.sums:
        frame.number(name, "reconcile")
    for name in test.group_by:
        if not has_equality(frame.type_of(name)):
            raise Unfit(f"{name!r} is {frame.type_of(name).simpleString()}, and cannot be grouped by", "leave it out")


_FITS: dict[type[TestConfig], Callable[[Any, Frame], None]] = {
    datasets.VolumeChangeTest: _fit_volume,
    datasets.NoGapsTest: _fit_gaps,
    datasets.NoOverlapTest: _fit_overlap,
    datasets.ReconcileTest: _fit_reconcile,
}
