"""Tests of single rows: each failing row is known, and can be quarantined."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from headgate.pipelines.config.read import Format
from headgate.pipelines.config.strict import Column, Name, OneOrMore, Span, Strict, Text
from headgate.pipelines.config.tests.common import Columns, Operator, Scalar, TestConfig


class NotNullTest(TestConfig):
    """No NULL in any of the columns: one test, however many columns."""

    type: Literal["not_null"]
    columns: Columns = Field(validation_alias=AliasChoices("columns", "column"))

    @model_validator(mode="after")
    def _takes_no_null(self) -> Self:
        if self.allow_null and "allow_null" in self.model_fields_set:
            raise ValueError("not_null with allow_null: true tests nothing: leave one of them out")
        return self


class NotEmptyTest(TestConfig):
    """No empty or blank string, no empty array or map."""

    type: Literal["not_empty"]
    columns: Columns = Field(validation_alias=AliasChoices("columns", "column"))


class UniqueTest(TestConfig):
    """No two rows with the same key. Every row of a duplicated key fails, unless the first is kept."""

    type: Literal["unique"]
    columns: Columns = Field(validation_alias=AliasChoices("columns", "column"))
    keep: Literal["none", "first"] = "none"
    order_by: Annotated[list[str], OneOrMore()] = Field(
        default_factory=list, description="Which row is the first: `updated_at DESC`."
    )

    @model_validator(mode="after")
    def _order_means_first(self) -> Self:
        if self.order_by and self.keep != "first":
            raise ValueError("order_by says which row is the first: it needs keep: first")
        return self


class AcceptedValuesTest(TestConfig):
    """Only these values."""

    type: Literal["accepted_values"]
    column: Column
    values: list[Scalar] = Field(min_length=1)
    case_sensitive: bool = True


class ForbiddenValuesTest(TestConfig):
    """None of these values."""

    type: Literal["forbidden_values"]
    column: Column
    values: list[Scalar] = Field(min_length=1)
    case_sensitive: bool = True


class RangeTest(TestConfig):
    """Between two bounds, both included unless `exclusive`; dates and times are written as text."""

    type: Literal["range"]
    column: Column
    min: int | float | str | None = None
    max: int | float | str | None = None
    exclusive: bool = False

    @model_validator(mode="after")
    def _has_bound(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("range needs min, max or both")
        low, high = _comparable(self.min), _comparable(self.max)
        if low is None or high is None:
            return self
        if isinstance(low, str) != isinstance(high, str):
            raise ValueError(
                f"min {self.min!r} and max {self.max!r} are not of one kind: give two numbers or two dates"
            )
        if low > high or (self.exclusive and low == high):  # type: ignore[operator]  # of one kind
            raise ValueError(f"min {self.min!r} is not below max {self.max!r}: nothing could pass")
        return self


_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T].*)?")


def _comparable(bound: int | float | str | None) -> float | str | None:
    """A number, or a date as text; None for what only the column's type can put in order."""
    if isinstance(bound, str):
        try:
            return float(bound)
        except ValueError:
            return bound.replace(" ", "T") if _ISO.fullmatch(bound) else None
    return bound


class ComparisonTest(TestConfig):
    """A column against a constant."""

    type: Literal["comparison"]
    column: Column
    operator: Operator
    value: Scalar


class ColumnComparisonTest(TestConfig):
    """A column against another of the same row, as pickup_at <= dropoff_at; `tolerance` for numbers."""

    type: Literal["column_comparison"]
    column: Column
    operator: Operator
    other: Column
    tolerance: float | None = Field(default=None, ge=0)

    @property
    def tested_columns(self) -> tuple[str, ...]:
        return self.column, self.other


class RegexMatchTest(TestConfig):
    """The pattern is found in the value; anchor it with ^ and $ to match it whole."""

    type: Literal["regex_match"]
    column: Column
    pattern: str = Field(min_length=1)
    negate: bool = False


class LikeTest(TestConfig):
    """The whole value is like the pattern, as in SQL: % stands for any text, _ for one character."""

    type: Literal["like"]
    column: Column
    pattern: str
    negate: bool = False


class LengthTest(TestConfig):
    """The number of characters of text lies between two bounds, both included."""

    type: Literal["length"]
    column: Column
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _has_bound(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("length needs min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}: nothing could pass")
        return self


class FormatTest(TestConfig):
    """Values that look like what they should be."""

    type: Literal["email", "url", "uuid", "ipv4", "ipv6"]
    column: Column


class DateFormatTest(TestConfig):
    """Text that can be read as a date or a time; without a format, as ISO 8601."""

    type: Literal["date", "timestamp"]
    column: Column
    format: str | None = Field(default=None, description="Spark's pattern, as dd/MM/yyyy.")


class JsonTest(TestConfig):
    """Text that is JSON."""

    type: Literal["json"]
    column: Column


class JsonSchemaTest(TestConfig):
    """JSON that has these fields with these types, as Spark's DDL."""

    type: Literal["json_schema"]
    column: Column
    fields: str = Field(min_length=1, description="`id BIGINT, tags ARRAY<STRING>`")
    required: list[str] = Field(default_factory=list, description="Fields that must not be NULL.")


class CodeTest(TestConfig):
    """ISO 3166-1 countries (two or three letters) and ISO 4217 currencies."""

    type: Literal["country_code", "currency_code"]
    column: Column
    letters: Literal[2, 3] | None = Field(default=None, description="Of a country code; both kinds without it.")
    case_sensitive: bool = True

    @model_validator(mode="after")
    def _letters_of_countries(self) -> Self:
        if self.letters is not None and self.type == "currency_code":
            raise ValueError("currency codes have three letters: letters is for country_code")
        return self


class CustomSqlTest(TestConfig):
    """A condition in SQL over the columns of a row; where it is NULL, `allow_null` decides."""

    type: Literal["custom_sql"]
    condition: str = Field(min_length=1, validation_alias=AliasChoices("condition", "expression", "sql"))


class ReferenceConfig(Strict):
    """Where the keys that may be referred to are."""

    connection: Name | None = None
    path: str | None = None
    table: str | None = None
    format: Format | None = None
    node: Name | None = Field(default=None, description="A node in `depends_on`, instead of a connection.")
    options: dict[str, Text] = Field(default_factory=dict, repr=False)

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.node is None) == (self.connection is None):
            raise ValueError("say either node, or connection with path or table")
        if self.connection is not None and (self.path is None) == (self.table is None):
            raise ValueError(f"say one of path and table of connection {self.connection!r}")
        if self.node is not None and (self.path is not None or self.table is not None):
            raise ValueError(f"path and table belong to a connection: the rows of node {self.node!r} are known")
        return self


class ForeignKeyTest(TestConfig):
    """Each key is found in another dataset; a key with a NULL part refers to nothing and passes."""

    type: Literal["foreign_key"]
    columns: Columns = Field(validation_alias=AliasChoices("columns", "column"))
    reference: ReferenceConfig
    reference_columns: Annotated[list[str], OneOrMore()] = Field(
        default_factory=list, description="Their names over there, if they differ."
    )

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        if self.reference_columns and len(self.reference_columns) != len(self.columns):
            raise ValueError(f"{len(self.columns)} columns refer to {len(self.reference_columns)}: name as many")
        return self


class NotInFutureTest(TestConfig):
    """No date or time later than the run."""

    type: Literal["not_in_future"]
    column: Column
    tolerance: Span | None = Field(default=None, description="How far clocks may be apart.")


class OutlierTest(TestConfig):
    """No value more than so many standard deviations (or, with `mad`, robust ones) from the batch's middle."""

    type: Literal["outlier"]
    column: Column
    max_deviations: float = Field(default=4.0, gt=0, validation_alias=AliasChoices("max_deviations", "z_score"))
    method: Literal["stddev", "mad"] = "stddev"


PiiKind = Literal["email", "credit_card", "ssn", "phone", "iban", "ip_address"]


class NoPiiTest(TestConfig):
    """No e-mail address, card number, social security number, phone number or IBAN in text."""

    type: Literal["no_pii"]
    columns: Columns = Field(validation_alias=AliasChoices("columns", "column"))
    kinds: list[PiiKind] = Field(default=["email", "credit_card", "ssn", "iban"], min_length=1)


RowTest = Annotated[
    NotNullTest
    | NotEmptyTest
    | UniqueTest
    | AcceptedValuesTest
    | ForbiddenValuesTest
    | RangeTest
    | ComparisonTest
    | ColumnComparisonTest
    | RegexMatchTest
    | LikeTest
    | LengthTest
    | FormatTest
    | DateFormatTest
    | JsonTest
    | JsonSchemaTest
    | CodeTest
    | CustomSqlTest
    | ForeignKeyTest
    | NotInFutureTest
    | OutlierTest
    | NoPiiTest,
    Field(discriminator="type"),
]
