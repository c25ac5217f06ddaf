"""When a batch is good enough to be published."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from headgate.domain.gate import Action
from headgate.pipelines.config.strict import Rate, Strict


class ThresholdConfig(Strict):
    """A limit of its own for a test, found by name and else by type; beside the overall rate."""

    test: str
    min_pass_rate: Rate


class RowCountConfig(Strict):
    """How many rows the batch should have."""

    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)
    change_threshold: Rate | None = Field(default=None, description="Largest change against the last published run.")
    on_missing_history: Literal["pass", "fail"] = "pass"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}: nothing could pass")
        return self


class GateConfig(Strict):
    """The gate of a node."""

    require_pass_rate: Rate = Field(default=0.95, description="Share of rows that fail no test other than warnings.")
    on_fail: Action = Action.abort
    thresholds: list[ThresholdConfig] = Field(default_factory=list)
    row_count: RowCountConfig | None = None
