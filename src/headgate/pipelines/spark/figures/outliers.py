"""The middle and the spread that outliers are told by: one aggregation for all tests, a second for robust ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.pipelines.config.tests import rows
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import Frame
from headgate.pipelines.spark.checks.values import outlier_key
from headgate.pipelines.spark.figures.measures import within

# By it the median deviation of normal values is their standard deviation.
_NORMAL = 1.4826
_ACCURACY = 10_000

Figures = dict[str, tuple[float | None, float | None]]


def outlier_figures(tests: Sequence[NamedTest], batch: DataFrame, frame: Frame) -> Figures:
    """Middle and spread by `outlier_key`, for `Frame.figures`; None where there are no values."""
    wanted = {outlier_key(test.config): test.config for test in tests if isinstance(test.config, rows.OutlierTest)}
    plain = {key: test for key, test in wanted.items() if test.method == "stddev"}
    robust = {key: test for key, test in wanted.items() if test.method == "mad"}
    middles = {key: F.avg(_values(test, frame)) for key, test in plain.items()}
    middles |= {key: _median(_values(test, frame)) for key, test in robust.items()}
    spreads = {key: F.stddev_samp(_values(test, frame)) for key, test in plain.items()}
    found = _taken(batch, {("middle", key): column for key, column in middles.items()} | _spread_keys(spreads))
    deviations = {
        key: _median(F.abs(_values(test, frame) - F.lit(found["middle", key]))) * _NORMAL
        for key, test in robust.items()
        if found["middle", key] is not None
    }
    found |= _taken(batch, _spread_keys(deviations))
    return {key: (found["middle", key], found.get(("spread", key))) for key in wanted}


def _spread_keys(columns: Mapping[str, Column]) -> dict[tuple[str, str], Column]:
    return {("spread", key): column for key, column in columns.items()}


def _values(test: rows.OutlierTest, frame: Frame) -> Column:
    """Only numbers have a middle: NaN and infinities are left out here, and are outliers later."""
    column = within(test, frame.number(test.column, "outlier").cast("double"))
    return F.when(~F.isnan(column) & (F.abs(column) < F.lit(math.inf)), column)


def _median(column: Column) -> Column:
    return F.percentile_approx(column, 0.5, _ACCURACY)


def _taken(batch: DataFrame, columns: Mapping[tuple[str, str], Column]) -> dict[tuple[str, str], Any]:
    if not columns:
        return {}
    row = batch.agg(*(column.alias(f"c{n}") for n, column in enumerate(columns.values()))).first()
    assert row is not None
    return {key: row[f"c{n}"] for n, key in enumerate(columns)}
