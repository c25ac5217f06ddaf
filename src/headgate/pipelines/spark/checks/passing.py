"""Whether a row passes a test: the test's own condition, `where`, and what a NULL means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.pipelines.config.tests import TestConfig, rows
from headgate.pipelines.spark.checks import text, values
from headgate.pipelines.spark.checks.frame import Frame, Unfit

Check = Callable[[Any, Frame], Column]


def custom_sql(test: rows.CustomSqlTest, frame: Frame) -> Column:
    return F.expr(test.condition)


# Tests whose verdict depends on nothing but the row itself.
LOCAL: dict[type[TestConfig], Check] = {
    rows.NotNullTest: values.not_null,
    rows.NotEmptyTest: values.not_empty,
    rows.AcceptedValuesTest: values.accepted_values,
    rows.ForbiddenValuesTest: values.forbidden_values,
    rows.RangeTest: values.in_range,
    rows.ComparisonTest: values.comparison,
    rows.ColumnComparisonTest: values.column_comparison,
    rows.NotInFutureTest: values.not_in_future,
    rows.OutlierTest: values.outlier,
    rows.RegexMatchTest: text.regex_match,
    rows.LikeTest: text.like,
    rows.LengthTest: text.length,
    rows.FormatTest: text.formatted,
    rows.DateFormatTest: text.readable_time,
    rows.JsonTest: text.json,
    rows.JsonSchemaTest: text.json_schema,
    rows.CodeTest: text.code,
    rows.NoPiiTest: text.no_pii,
    rows.CustomSqlTest: custom_sql,
}


def passes(test: TestConfig, frame: Frame) -> Column:
    """True or false, never NULL: no row is lost between the two."""
    check = LOCAL.get(type(test))
    if check is None:
        raise Unfit(f"{test.kind} is no test of a row by itself")
    return scoped(test, F.coalesce(check(test, frame), F.lit(test.allow_null)))


def scoped(test: TestConfig, condition: Column) -> Column:
    """Rows outside `where` pass."""
    if test.where is None:
        return condition
    return ~F.coalesce(F.expr(test.where), F.lit(False)) | condition
