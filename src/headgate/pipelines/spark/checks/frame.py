"""The columns of a batch as tests see them: by the names in the file, with their types."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.spark.checks import literals
from headgate.pipelines.spark.checks.literals import is_text


class Unfit(Exception):
    """A test that cannot be applied to these columns: what is wrong, and the way out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


@dataclass(frozen=True)
class Frame:
    """The schema, the moment that counts as now, and figures that were taken of the batch before."""

    schema: T.StructType
    now: datetime
    figures: dict[str, Any] = field(default_factory=dict)

    def column(self, name: str) -> Column:
        return F.col(self.path(name))

    def path(self, name: str) -> str:
        """The name as Spark has to be given it; `a.b` is a field of a struct unless a column is called so."""
        return ".".join(f"`{each.name.replace('`', '``')}`" for each in self._steps(name))

    def type_of(self, name: str) -> T.DataType:
        return self._steps(name)[-1].dataType

    def own_column(self, name: str, kind: str) -> str:
        """The name of a column of the batch itself, as the batch spells it; fields of structs are refused."""
        steps = self._steps(name)
        if len(steps) > 1:
            hint = f"give it a name of its own in transform: {name} AS {name.replace('.', '_')}"
            raise Unfit(f"{kind} needs columns, and {name!r} is a field of {steps[0].name!r}", hint)
        return steps[0].name

    def top_of(self, name: str) -> str:
        """The name of the column that it is, or is a field of."""
        return self._steps(name)[0].name

    def _steps(self, name: str) -> list[T.StructField]:
        found = _find(self.schema, name)
        if found is not None:
            return [found]
        inside: T.DataType = self.schema
        steps = []
        for part in name.split("."):
            step = _find(inside, part) if isinstance(inside, T.StructType) else None
            if step is None:
                raise Unfit(f"there is no column {name!r}", self._nearest(name))
            steps.append(step)
            inside = step.dataType
        return steps

    def _nearest(self, name: str) -> str:
        names = list(_names(self.schema)) if "." in name else [each.name for each in self.schema.fields]
        near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], n=1, cutoff=0.5)
        if near:
            return f"did you mean {next(each for each in names if each.lower() == near[0])!r}?"
        return f"its columns: {', '.join(names)}" if names else "it has no columns at all"

    def text(self, name: str, kind: str) -> Column:
        """A column of text; others are refused, because a cast would hide what is wrong."""
        if not is_text(self.type_of(name)):
            raise self._other_kind(name, f"{kind} tests text")
        return self.column(name)

    def number(self, name: str, kind: str) -> Column:
        if not isinstance(self.type_of(name), T.NumericType):
            raise self._other_kind(name, f"{kind} tests numbers")
        return self.column(name)

    def time(self, name: str, kind: str) -> Column:
        if not isinstance(self.type_of(name), T.DateType | T.TimestampType | T.TimestampNTZType):
            raise self._other_kind(name, f"{kind} tests dates and times")
        return self.column(name)

    def _other_kind(self, name: str, wanted: str) -> Unfit:
        return Unfit(f"{wanted}, and {name!r} is {self.type_of(name).simpleString()}", "cast it in transform")

    def literal(self, name: str, value: Any) -> Column:
        """A value of the file as one that the column can hold; what it cannot hold is refused."""
        kind = self.type_of(name)
        try:
            return literals.of_type(value, kind)
        except ValueError as error:
            raise Unfit(
                f"{value!r} cannot be a value of {name!r}, which is {kind.simpleString()}{_because(error)}",
                "correct the value, or cast the column in transform",
            ) from None


def _because(error: ValueError) -> str:
    return f": {error}" if str(error) else ""


def _find(schema: T.StructType, name: str) -> T.StructField | None:
    """As it is spelled, else as Spark would find it."""
    exact = next((each for each in schema.fields if each.name == name), None)
    folded = name.lower()
    return exact or next((each for each in schema.fields if each.name.lower() == folded), None)


def _names(schema: T.StructType, before: str = "") -> list[str]:
    names = []
    for each in schema.fields:
        names.append(before + each.name)
        if isinstance(each.dataType, T.StructType):
            names += _names(each.dataType, f"{before}{each.name}.")
    return names


_FAMILIES: dict[str, tuple[type[T.DataType], ...]] = {
    "number": (T.NumericType,),
    "text": (T.StringType, T.VarcharType, T.CharType),
    "time": (T.DateType, T.TimestampType, T.TimestampNTZType),
}


def are_comparable(left: T.DataType, right: T.DataType) -> bool:
    """Whether values can be compared without a cast that may fail on some of them."""
    families = [
        next((name for name, kinds in _FAMILIES.items() if isinstance(each, kinds)), each.simpleString())
        for each in (left, right)
    ]
    return families[0] == families[1] and has_equality(left)


def has_equality(kind: T.DataType) -> bool:
    """Maps and variants have none."""
    if isinstance(kind, T.ArrayType):
        return has_equality(kind.elementType)
    if isinstance(kind, T.StructType):
        return all(has_equality(each.dataType) for each in kind.fields)
    return not isinstance(kind, T.MapType) and kind.typeName() != "variant"
