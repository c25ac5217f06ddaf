"""Where a node's rows go, and how they meet those already there."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, model_validator

from headgate.pipelines.config.read import Format
from headgate.pipelines.config.strict import Column, Name, OneOrMore, Strict


class WriteMode(StrEnum):
    """How rows meet those that are there."""

    overwrite = "overwrite"
    append = "append"
    overwrite_partitions = "overwrite_partitions"
    upsert = "upsert"
    append_once = "append_once"
    scd2 = "scd2"


KEYED = {WriteMode.upsert, WriteMode.append_once, WriteMode.scd2}


class HistoryConfig(Strict):
    """Columns of a slowly changing dimension of type 2."""

    track: list[Column] = Field(
        default_factory=list, description="A change in these is a new version; all others without it."
    )
    effective_at: Column | None = Field(
        default=None, description="Column that tells since when; the run's time without it."
    )
    valid_from: Column = "valid_from"
    valid_to: Column = "valid_to"
    is_current: Column = "is_current"
    on_missing: Literal["keep", "close"] = Field(default="keep", description="Keys that a batch lacks.")


class WriteConfig(Strict):
    """The target of a node."""

    connection: Name
    path: str | None = None
    table: str | None = None
    topic: str | None = Field(default=None, description="Topic of a Kafka connection.")
    format: Format | None = Field(default=None, description="parquet unless said otherwise; tables know theirs.")
    mode: WriteMode = WriteMode.overwrite
    keys: Annotated[list[Column], OneOrMore()] = Field(
        default_factory=list, validation_alias=AliasChoices("keys", "merge_keys"), description="For the keyed modes."
    )
    partition_by: Annotated[list[Column], OneOrMore()] = Field(default_factory=list)
    history: HistoryConfig | None = Field(default=None, description="For scd2.")
    options: dict[str, bool | int | float | str] = Field(
        default_factory=dict, repr=False, description="Spark's options for the format."
    )

    @model_validator(mode="before")
    @classmethod
    def _topics_grow(cls, value: object) -> object:
        if not isinstance(value, dict) or value.get("topic") is None:
            return value
        if str(value.get("mode", "append")) != "append":
            raise ValueError(f"mode {value['mode']} is not for topics: leave it out, they only grow")
        return value | {"mode": "append"}

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [name for name in ("path", "table", "topic") if getattr(self, name) is not None]
        if len(given) != 1:
            said = " and ".join(given) or "none"
            raise ValueError(f"say one of path, table and topic; {said} {'are' if len(given) > 1 else 'is'} there")
        return self

    @model_validator(mode="after")
    def _fits_the_mode(self) -> Self:
        if self.mode in KEYED and not self.keys:
            raise ValueError(f"mode {self.mode} needs keys: the columns that tell rows apart")
        if self.keys and self.mode not in KEYED:
            raise ValueError(f"keys are for {', '.join(sorted(KEYED))}; the mode is {self.mode}")
        if self.mode is WriteMode.overwrite_partitions and not self.partition_by:
            raise ValueError("mode overwrite_partitions needs partition_by: the columns whose values are replaced")
        if self.history is not None and self.mode is not WriteMode.scd2:
            raise ValueError(f"history is for mode scd2; the mode is {self.mode}")
        return self
