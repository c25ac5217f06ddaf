"""Shapes of runs in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel


class JobOut(BaseModel):
    id: UUID
    namespace: str
    name: str


class RunOut(BaseModel):
    run_id: UUID
    job: JobOut
    state: str
    started_at: datetime
    ended_at: datetime | None
    duration_ms: int | None
    last_event_at: datetime
    parent_run_id: UUID | None
    root_run_id: UUID | None
    application_id: str | None
    partition_context: dict[str, str] | None
    processing_type: str | None
    is_test: bool
    error: str | None
    producer: str
    producer_name: str
    event_count: int


class RunPage(BaseModel):
    items: list[RunOut]
    next_cursor: str | None


class StateOut(BaseModel):
    state: str
    at: datetime


class RunDatasetOut(BaseModel):
    id: UUID
    namespace: str
    name: str
    urn: str
    display_name: str
    type: str | None
    row_count: int | None
    byte_size: int | None
    file_count: int | None


class RunDetailOut(RunOut):
    state_history: list[StateOut]
    is_late: bool
    other_jobs: list[JobOut]
    inputs: list[RunDatasetOut]
    outputs: list[RunDatasetOut]
