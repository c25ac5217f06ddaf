"""Shapes of datasets, tags and status in requests and answers. Every field of an answer is always there."""

from __future__ import annotations

import unicodedata
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path
from pydantic import AfterValidator, BaseModel, Field

from headgate.server.bodies import Body
from headgate.server.shapes import DatasetRefOut, JobOut

MAX_TAG = 100
MAX_OWNERS = 100
MAX_IDS = 1000


class Sort(StrEnum):
    """Orders of a list of datasets; a minus turns one round."""

    name = "name"
    name_down = "-name"
    freshness = "freshness"
    freshness_down = "-freshness"
    rows = "rows"
    rows_down = "-rows"
    downstream = "downstream"
    downstream_down = "-downstream"


def _tag(text: str) -> str:
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise ValueError("contains a control character")
    if text != text.strip():
        raise ValueError("begins or ends with a blank")
    return text


Tag = Annotated[str, Path(min_length=1, max_length=MAX_TAG, examples=["pii"]), AfterValidator(_tag)]
ColumnRef = Annotated[str, Path(min_length=1, max_length=1000, description="Name of a column")]
Owner = Annotated[str, Field(min_length=1, max_length=200)]


class DatasetOut(DatasetRefOut):
    location: str | None
    description: str | None
    owners: list[str]
    tags: list[str]
    last_updated: datetime | None
    row_count: int | None
    byte_size: int | None
    upstream_count: int
    downstream_count: int
    column_count: int | None
    schema_version: int | None
    failing_tests: int
    has_incident: bool
    is_stale: bool
    sla_hours: float | None
    external: bool
    dropped: bool
    first_seen_at: datetime


class DatasetPage(BaseModel):
    items: list[DatasetOut]
    next_cursor: str | None


class AliasOut(BaseModel):
    namespace: str
    name: str
    urn: str
    source: str


class FacetOut(BaseModel):
    body: Any
    event_time: datetime
    job: JobOut | None


class DatasetJobOut(JobOut):
    last_seen_at: datetime
    last_completed_at: datetime | None


class FieldOut(BaseModel):
    name: str
    type: str
    nullable: bool
    description: str | None
    tags: list[str]


class LatestRunOut(BaseModel):
    run_id: UUID
    job: JobOut
    state: str
    started_at: datetime
    ended_at: datetime | None


class NoteOut(BaseModel):
    description: str | None
    owners: list[str] | None
    updated_by: UUID | None
    updated_at: datetime


class DatasetDetailOut(DatasetOut):
    aliases: list[AliasOut]
    facets: dict[str, FacetOut]
    producers: list[DatasetJobOut]
    producer_count: int
    consumers: list[DatasetJobOut]
    consumer_count: int
    fields: list[FieldOut]
    latest_run: LatestRunOut | None
    partition_keys: list[str]
    merged_ids: list[UUID]
    notes: NoteOut | None


class NoteIn(Body):
    """What is left out stays; null takes it back, and what the facet says is shown again."""

    description: Annotated[str, Field(max_length=10_000)] | None = None
    owners: Annotated[list[Owner], Field(max_length=MAX_OWNERS)] | None = None


class TagOut(BaseModel):
    tag: str
    dataset_count: int
    column_count: int


class TagPage(BaseModel):
    items: list[TagOut]
    next_cursor: str | None


class LastRunOut(BaseModel):
    run_id: UUID
    state: str
    ended_at: datetime | None


class State(StrEnum):
    ok = "ok"
    failing = "failing"
    stale = "stale"
    unknown = "unknown"


class DatasetStatusOut(BaseModel):
    id: UUID
    current_id: UUID
    state: State
    dropped: bool
    last_updated: datetime | None
    failing_tests: int
    last_run: LastRunOut | None
    row_count: int | None


class StatusOut(BaseModel):
    items: list[DatasetStatusOut]
    missing: list[UUID]
