"""Shapes of runs in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from headgate.server.shapes import DatasetRefOut, JobOut


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
    is_stuck: bool
    expected_end: datetime | None
    stuck_since: datetime | None


class RunPage(BaseModel):
    items: list[RunOut]
    next_cursor: str | None


class StateOut(BaseModel):
    state: str
    at: datetime


class RunDatasetOut(DatasetRefOut):
    row_count: int | None
    byte_size: int | None
    file_count: int | None


class ParentJobOut(BaseModel):
    """The job of a parent; without an id if the job never sent an event itself."""

    id: UUID | None
    namespace: str
    name: str


class ParentOut(BaseModel):
    """A run above another; nothing but its id is sure if it never sent an event."""

    run_id: UUID
    job: ParentJobOut | None
    state: str | None
    started_at: datetime | None
    ended_at: datetime | None


class ChildOut(BaseModel):
    """A run below another, `depth` levels down."""

    run_id: UUID
    parent_run_id: UUID
    depth: int
    job: JobOut
    state: str
    started_at: datetime
    ended_at: datetime | None
    duration_ms: int | None


class ErrorOut(BaseModel):
    message: str
    programming_language: str | None
    stack_trace: str | None


class SignalOut(BaseModel):
    """Something to improve: `value` is beyond `threshold`. Shares are from 0 to 1."""

    code: str
    severity: str
    value: float
    threshold: float
    message: str


class RunDetailOut(RunOut):
    state_history: list[StateOut]
    is_late: bool
    other_jobs: list[JobOut]
    inputs: list[RunDatasetOut]
    input_count: int
    outputs: list[RunDatasetOut]
    output_count: int
    parents: list[ParentOut]
    children: list[ChildOut]
    children_by_state: dict[str, int]
    children_truncated: bool
    error_detail: ErrorOut | None
    signals: list[SignalOut]
    facets: dict[str, Any]
    job_facets: dict[str, Any]
    facets_truncated: bool
