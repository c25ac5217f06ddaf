"""Batches whose columns are not those of the target: by name, NULL where one has none, and never another type."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.spark.spelling import quoted

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_REAL = ("float", "double")


@dataclass(frozen=True)
class Fit:
    """The columns of both: the target's in its order, then those that the batch adds."""

    schema: T.StructType
    missing: tuple[str, ...]
    added: tuple[str, ...]
    # Columns whose values the target keeps in a wider type.
    cast: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not (self.missing or self.cast)


def fit(batch: T.StructType, target: T.StructType, label: str) -> Fit:
    """How a batch goes with what is there; a type that does not is refused, with all such columns at once."""
    there = {each.name.lower(): each for each in target.fields}
    here = {each.name.lower(): each for each in batch.fields}
    clashes = [
        f"{name!r} is {here[name].dataType.simpleString()} in the batch and {field.dataType.simpleString()} there"
        for name, field in there.items()
        if name in here and not _fits(here[name].dataType, field.dataType)
    ]
    if clashes:
        raise ConfigError(
            f"the columns of {label} have other types: {'; '.join(clashes)}",
            hint="cast them in transform, or replace the target by mode: overwrite",
        )
    added = [each for each in batch.fields if each.name.lower() not in there]
    return Fit(
        T.StructType([T.StructField(each.name, each.dataType, True) for each in (*target.fields, *added)]),
        missing=tuple(each.name for name, each in there.items() if name not in here),
        added=tuple(each.name for each in added),
        cast=tuple(each.name for name, each in there.items() if name in here and _is_wider(here[name], each)),
    )


def aligned(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The rows in these columns."""
    there = {name.lower(): name for name in frame.columns}
    columns = []
    for field in schema.fields:
        name = there.get(field.name.lower())
        column = F.lit(None) if name is None else F.col(quoted(name))
        if name is None or frame.schema[name].dataType.simpleString() != field.dataType.simpleString():
            column = column.cast(field.dataType)
        columns.append(column.alias(field.name))
    return frame.select(*columns)


def _is_wider(one: T.StructField, other: T.StructField) -> bool:
    return one.dataType.simpleString() != other.dataType.simpleString()


def _fits(batch: T.DataType, target: T.DataType) -> bool:
    one, other = batch.simpleString(), target.simpleString()
    if one == other or isinstance(batch, T.NullType):
        return True
    for order in (_WHOLE, _REAL):
        if one in order and other in order:
            return order.index(one) < order.index(other)
    if isinstance(batch, T.DecimalType) and isinstance(target, T.DecimalType):
        return target.scale >= batch.scale and target.precision - target.scale >= batch.precision - batch.scale
    return False
