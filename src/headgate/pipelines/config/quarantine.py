"""Where failing rows go, and what is written beside them."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from headgate.pipelines.config.strict import Name, Strict


class QuarantineColumns(Strict):
    """Columns added to quarantined rows, by the names they get."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, serialize_by_alias=True)

    rejection_reason: bool = Field(default=True, alias="_rejection_reason", description="Which tests failed, in words.")
    rejected_at: bool = Field(default=True, alias="_rejected_at")
    source_batch_id: bool = Field(default=True, alias="_source_batch_id", description="The run that rejected the row.")
    failed_tests: bool = Field(default=True, alias="_failed_tests", description="Names of the failed tests, as array.")
    original_node: bool = Field(default=False, alias="_original_node")


class QuarantineConfig(Strict):
    """The quarantine table of a node; each run appends its own batch."""

    connection: Name
    path: str | None = None
    table: str | None = None
    format: Literal["parquet", "delta", "iceberg", "orc", "avro", "json", "csv"] = "parquet"
    add_columns: QuarantineColumns = Field(default_factory=QuarantineColumns)
    retention_days: int | None = Field(default=90, ge=1, description="Older batches are deleted by later runs.")
    max_rows: int | None = Field(
        default=None, ge=1, description="At most so many rows of a batch are kept; all without it."
    )
    samples: int = Field(default=5, ge=0, le=100, description="Rows shown in the story, with values masked.")

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.table is None):
            raise ValueError(f"say one of path and table; {'both are' if self.path else 'none is'} there")
        return self

    @property
    def is_table(self) -> bool:
        """Whether rows of all runs are in one table, and not in a folder for each."""
        return self.table is not None or self.format in ("delta", "iceberg")
