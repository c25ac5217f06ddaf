"""Tests of a batch as a whole."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from headgate.pipelines.config.strict import Column, Rate, Span, Strict
from headgate.pipelines.config.tests.common import Columns, DatasetTestConfig, Operator
from headgate.pipelines.config.tests.rows import ReferenceConfig


class Bounded(DatasetTestConfig):
    """A figure that has to lie between two bounds, both included."""

    min: float | None = None
    max: float | None = None

    @model_validator(mode="after")
    def _has_bound(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError(f"{self.kind} needs min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}: nothing could pass")
        return self


class NullRateTest(DatasetTestConfig):
    """The share of NULLs in a column."""

    type: Literal["null_rate"]
    column: Column
    max: Rate = Field(validation_alias=AliasChoices("max", "max_rate"))


class RowCountTest(Bounded):
    """The number of rows lies between two bounds, both included."""

    type: Literal["row_count"]


class VolumeChangeTest(DatasetTestConfig):
    """The number of rows against the last published run, or the mean of several."""

    type: Literal["volume_change", "volume_drop"]
    threshold: float = Field(gt=0, description="0.5 is half as many, or half as many again.")
    runs: int = Field(default=1, ge=1, le=100, description="The mean of so many published runs.")
    on_missing_history: Literal["pass", "fail"] = "pass"

    @model_validator(mode="after")
    def _can_happen(self) -> Self:
        if self.type == "volume_drop" and self.threshold > 1:
            raise ValueError(f"threshold {self.threshold:g} of volume_drop is more than all rows: give a share up to 1")
        return self


class FreshnessTest(DatasetTestConfig):
    """The newest value of a time column is not older than this."""

    type: Literal["freshness"]
    column: Column
    max_age: Span


class NoGapsTest(DatasetTestConfig):
    """Each slot of time between the first and the last row has rows in it."""

    type: Literal["no_gaps"]
    column: Column
    every: Span
    max_missing: int = Field(default=0, ge=0)


class ColumnSpec(Strict):
    """A column as it should be."""

    name: Column
    type: str | None = Field(default=None, description="Spark's name of the type, as decimal(10,2).")
    nullable: bool | None = None


class SchemaTest(DatasetTestConfig):
    """The columns of the batch are these; with `strict`, and no others."""

    type: Literal["schema"]
    columns: list[ColumnSpec] = Field(default_factory=list, description="Those of the node's contract without it.")
    strict: bool = True
    ordered: bool = False


class AggregateTest(Bounded):
    """A figure of a column."""

    type: Literal["mean", "sum", "minimum", "maximum", "stddev"]
    column: Column


class QuantileTest(Bounded):
    """A quantile of a column, 0.5 for the median, lies between two bounds."""

    type: Literal["quantile"]
    column: Column
    quantile: Rate
    accuracy: int = Field(default=10_000, ge=100, le=1_000_000)


class DistinctCountTest(Bounded):
    """How many values there are, approximately; with `as_ratio`, as a share of the rows that are not NULL."""

    type: Literal["distinct_count"]
    column: Column
    as_ratio: bool = False
    exact: bool = False

    @model_validator(mode="after")
    def _is_a_share(self) -> Self:
        if self.as_ratio and max(self.min or 0, self.max or 0) > 1:
            raise ValueError("with as_ratio, min and max of distinct_count are shares between 0 and 1")
        return self


class Bin(Strict):
    """A part of the expected distribution: a value, or numbers from `low` up to but without `high`."""

    value: str | int | float | bool | None = None
    low: float | None = None
    high: float | None = None
    share: Rate

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        has_bounds = self.low is not None or self.high is not None
        if has_bounds == ("value" in self.model_fields_set):
            raise ValueError(f"a part with share {self.share:g} needs either value, or low and high")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"low {self.low:g} is not below high {self.high:g}: nothing could be in between")
        return self

    @property
    def has_bounds(self) -> bool:
        return self.low is not None or self.high is not None


class DistributionTest(DatasetTestConfig):
    """How far the batch's distribution is from the expected one."""

    type: Literal["distribution"]
    column: Column
    expected: list[Bin] = Field(min_length=2)
    metric: Literal["psi", "kl", "chi_square", "ks"] = "psi"
    threshold: float = Field(gt=0, description="The largest distance; for chi_square and ks the smallest p-value.")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        total = sum(each.share for each in self.expected)
        if abs(total - 1) > 0.01:
            raise ValueError(f"the shares of the expected distribution add up to {total:g}, not to 1")
        if self.metric == "ks" and not all(each.has_bounds for each in self.expected):
            raise ValueError("metric ks compares numbers: give low and high in expected, or use psi or chi_square")
        return self


class CustomQueryTest(DatasetTestConfig):
    """A query over the batch (`{df}` or `df`) that gives one figure, or the rows that are wrong."""

    type: Literal["custom_query"]
    query: str = Field(min_length=1)
    operator: Operator | None = Field(default=None, description="How the figure compares; without it no row may come.")
    value: float | None = None

    @model_validator(mode="after")
    def _compares_with_something(self) -> Self:
        if (self.operator is None) != (self.value is None):
            raise ValueError(
                "operator and value belong together: say both, or neither for a query that finds wrong rows"
            )
        return self


class ReconcileTest(DatasetTestConfig):
    """The batch agrees with another dataset: in its number of rows, and in sums of columns by group."""

    type: Literal["reconcile"]
    reference: ReferenceConfig
    sums: list[Column] = Field(default_factory=list)
    group_by: list[Column] = Field(default_factory=list)
    tolerance: Rate = 0.0


class NoOverlapTest(DatasetTestConfig):
    """No two intervals of a key overlap, as in a slowly changing dimension; an open end is NULL."""

    type: Literal["no_overlap"]
    columns: Columns = Field(validation_alias=AliasChoices("columns", "keys"))
    start: Column
    end: Column


DatasetTest = Annotated[
    NullRateTest
    | RowCountTest
    | VolumeChangeTest
    | FreshnessTest
    | NoGapsTest
    | SchemaTest
    | AggregateTest
    | QuantileTest
    | DistinctCountTest
    | DistributionTest
    | CustomQueryTest
    | ReconcileTest
    | NoOverlapTest,
    Field(discriminator="type"),
]
