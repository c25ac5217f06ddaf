"""Shapes of schemas in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from headgate.domain.lineage import Label
from headgate.domain.schema import ChangeType, FieldChange
from headgate.server.shapes import DatasetRefOut, JobOut


class FieldOut(BaseModel):
    """A column, or a field nested in one: then its name is dotted, and `path` has its steps."""

    name: str
    type: str
    nullable: bool
    description: str | None
    path: list[str]


class VersionBriefOut(BaseModel):
    """A version of a schema: valid from `valid_from`, and until before `valid_to`."""

    id: UUID
    version: int
    hash: str
    valid_from: datetime
    valid_to: datetime | None
    run_id: UUID | None
    job: JobOut | None
    change_type: ChangeType
    summary: str
    description: str
    breaking: bool
    columns_added: list[str]
    columns_removed: list[str]
    columns_type_changed: list[str]
    column_count: int


class VersionOut(VersionBriefOut):
    fields: list[FieldOut]


class SchemaOut(VersionOut):
    dataset: DatasetRefOut


class VersionPage(BaseModel):
    items: list[VersionOut]
    next_cursor: str | None


class PlacedOut(BaseModel):
    """How a field is in one of two schemas."""

    type: str
    nullable: bool
    position: int


class FieldDiffOut(BaseModel):
    """What became of a field; `since_version` is the version that changed it, where that is known."""

    name: str
    change: FieldChange
    before: PlacedOut | None
    after: PlacedOut | None
    breaking: bool
    since_version: int | None


class BreakOut(BaseModel):
    column: str
    change: FieldChange
    description: str


class KindOut(BaseModel):
    type: str
    subtype: str | None


class ReaderOut(BaseModel):
    """A column downstream that a broken one goes into; null when it is the whole dataset."""

    column: str
    read_as: str
    dataset: DatasetRefOut
    target_column: str | None
    job: JobOut
    kinds: list[KindOut]
    label: Label
    expression: str | None


class DiffOut(BaseModel):
    """From one version to another; `from` is null when there was none before."""

    model_config = ConfigDict(populate_by_name=True)

    dataset: DatasetRefOut
    from_: VersionBriefOut | None = Field(alias="from")
    to: VersionBriefOut
    summary: str
    fields: list[FieldDiffOut]
    added: list[str]
    removed: list[str]
    type_changed: list[str]
    nullability_changed: list[str]
    moved: list[str]
    breaking: bool
    breaking_changes: list[BreakOut]
    readers: list[ReaderOut]
    possible_readers: list[JobOut]
    truncated: bool
