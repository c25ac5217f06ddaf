"""Figures of columns for people, taken in the same pass: NULLs, different values, the smallest and the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.record import ColumnProfile
from headgate.pipelines.spark.checks.frame import Frame
from headgate.pipelines.spark.checks.literals import is_text
from headgate.pipelines.spark.masking import masked

_ORDERED = (T.NumericType, T.DateType, T.TimestampType, T.TimestampNTZType, T.BooleanType)
_DISTINCT_ERROR = 0.05
_TEXT_SIZE = 200


def profile_measures(frame: Frame, columns: Sequence[str] = ()) -> dict[str, Column]:
    """The aggregates of these columns, or of all; smallest and largest only of types that have an order."""
    found: dict[str, Column] = {}
    for number, name in enumerate(_names(frame, columns)):
        column, kind = frame.column(name), frame.type_of(name)
        found[_key(number, "nulls")] = F.count_if(column.isNull())
        if isinstance(kind, _ORDERED) or is_text(kind):
            found[_key(number, "distinct")] = F.approx_count_distinct(column, _DISTINCT_ERROR)
            found[_key(number, "min")] = _shown(F.min(column), kind)
            found[_key(number, "max")] = _shown(F.max(column), kind)
    return found


def profile_of(observed: Mapping[str, Any], frame: Frame, columns: Sequence[str] = ()) -> dict[str, ColumnProfile]:
    """The profile by column, from what was observed with the measures of the same columns."""
    return {
        name: ColumnProfile(
            nulls=observed[_key(number, "nulls")],
            distinct=observed.get(_key(number, "distinct")),
            min=observed.get(_key(number, "min")),
            max=observed.get(_key(number, "max")),
        )
        for number, name in enumerate(_names(frame, columns))
    }


def _names(frame: Frame, columns: Sequence[str]) -> Sequence[str]:
    return columns or [field.name for field in frame.schema.fields]


def _key(number: int, what: str) -> str:
    return f"_headgate_p{number}_{what}"


def _shown(value: Column, kind: T.DataType) -> Column:
    """Numbers as they are, the rest as text; of text itself only the form, for it may be somebody's name."""
    if isinstance(kind, T.IntegralType):
        return value
    if isinstance(kind, T.NumericType):
        return value.cast("double")
    text = value.cast("string")
    return F.substring(masked(text) if is_text(kind) else text, 1, _TEXT_SIZE)
