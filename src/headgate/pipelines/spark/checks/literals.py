"""Values of a file as Spark literals: exactly what was written, or a refusal."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

_BITS = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_MAX_DIGITS = 38


def is_text(kind: T.DataType) -> bool:
    return isinstance(kind, T.StringType | T.VarcharType | T.CharType)


def of_type(value: Any, kind: T.DataType) -> Column:
    """A literal that equals some value of this type; ValueError says why there is none."""
    if isinstance(kind, T.BooleanType):
        return F.lit(_flag(value))
    if isinstance(kind, T.NumericType):
        return _held(number(value), kind)
    if isinstance(kind, T.DateType):
        return F.lit(date.fromisoformat(str(value)))
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return F.lit(_moment(str(value), kind)).cast(kind)
    if is_text(kind):
        return F.lit(str(value).lower() if isinstance(value, bool) else str(value))
    raise ValueError("values of this type cannot be written in the file")


def bound(value: Any, kind: T.DataType) -> Column:
    """A literal to compare with: a bound of whole numbers may lie between two, or beyond all of them."""
    if not isinstance(kind, T.NumericType):
        return of_type(value, kind)
    if isinstance(kind, T.FloatType | T.DoubleType):
        return F.lit(float(number(value))).cast(kind)
    return _decimal(number(value))


def number(value: Any) -> Decimal:
    if isinstance(value, bool):
        raise ValueError("it is no number")
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        raise ValueError("it is no number") from None
    if not found.is_finite():
        raise ValueError("it is no finite number")
    return found


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("it is neither true nor false")
    return value


def _held(value: Decimal, kind: T.DataType) -> Column:
    if isinstance(kind, T.FloatType | T.DoubleType):
        return F.lit(float(value)).cast(kind)
    if isinstance(kind, T.DecimalType):
        if value != round(value, kind.scale) or abs(value) >= Decimal(10) ** (kind.precision - kind.scale):
            raise ValueError("it has too many digits")
        return _decimal(value)
    if value != value.to_integral_value():
        raise ValueError("it is no whole number")
    limit = 2 ** (_BITS[type(kind)] - 1)  # type: ignore[index]  # the other numeric types are whole
    if not -limit <= value < limit:
        raise ValueError("it is too large")
    return F.lit(int(value))


def _decimal(value: Decimal) -> Column:
    """As a decimal and not as a double, so that 0.1 is 0.1 and large whole numbers keep their digits."""
    plain = Decimal(f"{value:f}")
    digits = max(len(plain.as_tuple().digits), -int(plain.as_tuple().exponent))
    return F.lit(plain) if digits <= _MAX_DIGITS else F.lit(float(value))


def _moment(value: str, kind: T.DataType) -> str:
    """As Spark reads it in every mode; a time without a zone is one of the session's."""
    found = datetime.fromisoformat(value)
    if found.tzinfo is not None and isinstance(kind, T.TimestampNTZType):
        raise ValueError("the column knows no time zones")
    return found.isoformat()
