"""Tests that look at values as they are: present, among others, within bounds, before each other."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.config.tests import rows
from headgate.pipelines.spark.checks import literals
from headgate.pipelines.spark.checks.frame import Frame, Unfit, are_comparable, has_equality
from headgate.pipelines.spark.checks.literals import is_text

_EQUAL, _OTHER = ("=", "=="), ("!=", "<>")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_BLANK = " \t\n\r\f\v\u00a0\u2007\u202f\u3000"
# 1.01 - 1.00 is not 0.01 in binary; a difference this small is none.
_SLACK = 1e-12
_LARGE = 1e300


def all_of(conditions: list[Column]) -> Column:
    return reduce(operator.and_, conditions)


def not_null(test: rows.NotNullTest, frame: Frame) -> Column:
    return all_of([frame.column(name).isNotNull() for name in test.columns])


def not_empty(test: rows.NotEmptyTest, frame: Frame) -> Column:
    return all_of([_filled(name, test.allow_null, frame) for name in test.columns])


def _filled(name: str, allow_null: bool, frame: Frame) -> Column:
    kind, column = frame.type_of(name), frame.column(name)
    if isinstance(kind, T.ArrayType | T.MapType):
        filled = F.size(column) > 0
    elif is_text(kind):
        filled = F.length(F.btrim(column, F.lit(_BLANK))) > 0
    else:
        raise Unfit(f"not_empty tests text, arrays and maps, and {name!r} is {kind.simpleString()}", "use not_null")
    # The size of a NULL is -1 or NULL, as Spark is set.
    return F.when(column.isNull(), F.lit(allow_null)).otherwise(filled)


def accepted_values(test: rows.AcceptedValuesTest, frame: Frame) -> Column:
    return _among(test.column, test.values, test.case_sensitive, frame)


def forbidden_values(test: rows.ForbiddenValuesTest, frame: Frame) -> Column:
    return ~_among(test.column, test.values, test.case_sensitive, frame)


def _among(name: str, values: list[Any], case_sensitive: bool, frame: Frame) -> Column:
    if case_sensitive:
        return frame.column(name).isin([frame.literal(name, value) for value in values])
    return F.lower(frame.text(name, "case_sensitive: false")).isin([str(value).lower() for value in values])


def in_range(test: rows.RangeTest, frame: Frame) -> Column:
    column, bounds = frame.column(test.column), []
    if test.min is not None:
        low = _bound(test.column, test.min, frame)
        bounds.append(column > low if test.exclusive else column >= low)
    if test.max is not None:
        high = _bound(test.column, test.max, frame)
        bounds.append(column < high if test.exclusive else column <= high)
    return all_of([*_is_number(test.column, frame), *bounds])


def comparison(test: rows.ComparisonTest, frame: Frame) -> Column:
    compared: Column = OPERATORS[test.operator](frame.column(test.column), _bound(test.column, test.value, frame))
    return compared if test.operator in _OTHER else all_of([*_is_number(test.column, frame), compared])


def _is_number(name: str, frame: Frame) -> list[Column]:
    """To Spark, NaN is above all numbers; here it lies within no bounds."""
    if isinstance(frame.type_of(name), T.FloatType | T.DoubleType):
        return [F.when(frame.column(name).isNotNull(), ~F.isnan(frame.column(name)))]
    return []


def _bound(name: str, value: Any, frame: Frame) -> Column:
    kind = frame.type_of(name)
    if is_text(kind) and not isinstance(value, str):
        raise Unfit(f"{name!r} is text, and {value!r} is not", "cast it in transform, or write the bound as text")
    try:
        return literals.bound(value, kind)
    except ValueError:
        raise Unfit(
            f"{value!r} cannot be compared with {name!r}, which is {kind.simpleString()}",
            "correct the value, or cast the column in transform",
        ) from None


def column_comparison(test: rows.ColumnComparisonTest, frame: Frame) -> Column:
    left, right = frame.type_of(test.column), frame.type_of(test.other)
    if test.tolerance is not None:
        return _nearly(test, test.tolerance, frame)
    if not are_comparable(left, right):
        raise Unfit(
            f"{test.column!r} is {left.simpleString()} and {test.other!r} is {right.simpleString()}: "
            "they cannot be compared",
            "cast one of them in transform",
        )
    compared: Column = OPERATORS[test.operator](frame.column(test.column), frame.column(test.other))
    return compared


def _nearly(test: rows.ColumnComparisonTest, tolerance: float, frame: Frame) -> Column:
    left, right = frame.number(test.column, "tolerance"), frame.number(test.other, "tolerance")
    size = F.greatest(F.abs(left.cast("double")), F.abs(right.cast("double")))
    # Infinity is near nothing, and to Spark NaN is near itself.
    slack = F.lit(tolerance) + F.least(size, F.lit(_LARGE)) * F.lit(_SLACK)
    apart = _difference(test, frame)
    if test.operator in (*_EQUAL, *_OTHER):
        is_near = ~F.isnan(apart) & (F.abs(apart) <= slack)
        return is_near if test.operator in _EQUAL else ~is_near
    loose: Column = OPERATORS[test.operator](apart, slack if test.operator in ("<", "<=") else -slack)
    return ~F.isnan(apart) & loose


def _difference(test: rows.ColumnComparisonTest, frame: Frame) -> Column:
    """Exact where decimals and whole numbers allow it; none of the steps can overflow."""
    names = (test.column, test.other)
    left, right = (frame.column(name).cast("double") for name in names)
    if any(isinstance(frame.type_of(name), T.FloatType | T.DoubleType) for name in names):
        return left - right
    exact = F.try_subtract(*(_exact(name, frame) for name in names))
    return F.coalesce(exact.cast("double"), left - right)


def _exact(name: str, frame: Frame) -> Column:
    kind, column = frame.type_of(name), frame.column(name)
    return column if isinstance(kind, T.DecimalType) else column.cast("decimal(20,0)")


def not_in_future(test: rows.NotInFutureTest, frame: Frame) -> Column:
    """Dates, and times without a zone, are taken as the session's."""
    column = frame.time(test.column, "not_in_future")
    latest = F.lit((frame.now + (test.tolerance or timedelta(0))).isoformat()).cast("timestamp")
    return column <= latest.cast(frame.type_of(test.column))


def outlier(test: rows.OutlierTest, frame: Frame) -> Column:
    """Without a spread nothing can be told, and every row passes."""
    column = frame.number(test.column, "outlier")
    middle, spread = frame.figures.get(outlier_key(test), (None, None))
    if middle is None or not spread:
        return F.lit(True)
    return F.abs(column.cast("double") - F.lit(middle)) <= F.lit(test.max_deviations * spread)


def outlier_key(test: rows.OutlierTest) -> str:
    """Tests with the same key need the same figures."""
    return f"{test.method}:{test.column.lower()}:{test.where or ''}"


def hashable(name: str, kind: str, frame: Frame) -> str:
    """The name of a column that values can be told apart in."""
    own, found = frame.own_column(name, kind), frame.type_of(name)
    if not has_equality(found):
        raise Unfit(f"{kind} compares values, and {name!r} is {found.simpleString()}", "take a part of it in transform")
    return own


def ordering(text: str) -> tuple[str, bool]:
    """What to order by, and whether downwards: `updated_at DESC`."""
    name, _, direction = text.strip().rpartition(" ")
    if name and direction.upper() in ("ASC", "DESC"):
        return name, direction.upper() == "DESC"
    return text, False
