"""One step of a pipeline: read, transform, test, decide, write."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from headgate.pipelines.config.alerts import AlertConfig
from headgate.pipelines.config.gate import GateConfig
from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.config.read import ReadConfig
from headgate.pipelines.config.strict import Column, Name, OneOrMore, Span, Strict
from headgate.pipelines.config.tests import AnyTest, OnFail
from headgate.pipelines.config.tests.datasets import ColumnSpec, SchemaTest
from headgate.pipelines.config.transform import TransformConfig
from headgate.pipelines.config.write import WriteConfig


class OnError(StrEnum):
    """What the failure of a node means for the others."""

    fail_fast = "fail_fast"
    fail_later = "fail_later"
    ignore = "ignore"


class RetryConfig(Strict):
    """How often a node that broke is tried again; a gate's verdict is never retried."""

    attempts: int = Field(default=1, ge=1, le=20, description="Tries in all.")
    delay: Span = Field(default="10s", validate_default=True)
    backoff: float = Field(default=2.0, ge=1, le=10)


class ProfileConfig(Strict):
    """Figures of columns, taken in the same pass: nulls, distinct values, smallest and largest."""

    columns: list[Column] = Field(default_factory=list, description="All without it.")


class ValidationConfig(Strict):
    """The tests of a node, and where the rows go that they set apart."""

    tests: list[AnyTest] = Field(default_factory=list)
    quarantine: QuarantineConfig | None = None
    profile: bool | ProfileConfig = False

    @model_validator(mode="after")
    def _can_quarantine(self) -> Self:
        if self.quarantine is None:
            for test in self.tests:
                if test.on_fail is OnFail.quarantine:
                    raise ValueError(
                        f"test {(test.name or test.kind)!r} sets rows apart, but there is no quarantine block: "
                        "add `quarantine` with connection and path, or say on_fail: fail"
                    )
        return self


class ContractConfig(Strict):
    """The columns that a node promises, and what happens when the target's schema changes."""

    columns: list[ColumnSpec] = Field(default_factory=list)
    strict: bool = Field(default=False, description="Whether further columns break it.")
    on_drift: Literal["evolve", "warn", "fail"] = "evolve"


class FreshnessConfig(Strict):
    """How old the newest row, or without a column the last publish, may become."""

    max_age: Span
    column: Column | None = None


class NodeConfig(Strict):
    """A node. Without `read`, it lives on what it depends on; without `write`, others live on it."""

    name: Name
    description: str | None = None
    owner: str | None = None
    tags: list[str] = Field(default_factory=list)
    enabled: bool = True
    depends_on: Annotated[list[Name], OneOrMore()] = Field(default_factory=list)
    read: ReadConfig | None = None
    transform: TransformConfig | None = None
    contract: ContractConfig | None = None
    validation: ValidationConfig = Field(default_factory=ValidationConfig)
    gate: GateConfig | None = None
    write: WriteConfig | None = None
    freshness: FreshnessConfig | None = None
    retry: RetryConfig | None = None
    on_error: OnError | None = None
    alerts: list[AlertConfig] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_rows(self) -> Self:
        if self.read is None and not self.depends_on:
            raise ValueError(f"node {self.name!r} has no rows: give it read or depends_on")
        if self.read is None and len(self.depends_on) > 1 and self.transform is None:
            raise ValueError(
                f"node {self.name!r} depends on {len(self.depends_on)} nodes: say in transform how they meet"
            )
        if self.name in self.depends_on:
            raise ValueError(f"node {self.name!r} depends on itself: take it out of depends_on")
        return self

    @model_validator(mode="after")
    def _promises_columns(self) -> Self:
        for test in self.validation.tests:
            if isinstance(test, SchemaTest) and not test.columns and not (self.contract and self.contract.columns):
                raise ValueError(
                    f"test {(test.name or test.kind)!r} has no columns, and the node no contract: add either"
                )
        return self
