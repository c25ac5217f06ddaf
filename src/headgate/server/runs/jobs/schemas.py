"""Shapes of jobs in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from headgate.server.runs.schemas import ParentJobOut, RunOut
from headgate.server.shapes import DatasetRefOut, JobOut


class LatestRunOut(BaseModel):
    run_id: UUID
    state: str
    started_at: datetime
    ended_at: datetime | None
    duration_ms: int | None


class JobItemOut(JobOut):
    """A job; `pipeline` is the name of what its latest run was part of, such as a DAG."""

    job_type: str | None
    processing_type: str | None
    integration: str | None
    description: str | None
    owners: list[str]
    tags: list[str]
    pipeline: str | None
    latest_run: LatestRunOut | None
    first_seen_at: datetime


class JobPage(BaseModel):
    items: list[JobItemOut]
    next_cursor: str | None


class JobDatasetOut(DatasetRefOut):
    first_seen_at: datetime
    last_seen_at: datetime
    last_completed_at: datetime | None


class RunSummaryOut(BaseModel):
    """How runs went over some days; durations are those of completed runs."""

    days: int
    total: int
    by_state: dict[str, int]
    mean_duration_ms: float | None
    p50_duration_ms: float | None
    p99_duration_ms: float | None
    truncated: bool


class JobDetailOut(JobItemOut):
    facets: dict[str, Any]
    inputs: list[JobDatasetOut]
    input_count: int
    outputs: list[JobDatasetOut]
    output_count: int
    runs: RunSummaryOut
    latest_runs: list[RunOut]
    parents: list[ParentJobOut]
    children: list[JobOut]


class IntegrationOut(BaseModel):
    integration: str | None
    total: int
    by_state: dict[str, int]


class JobsSummaryOut(BaseModel):
    """How runs went over some hours; `success_rate` is the share of COMPLETE among those that ended.

    `running` and `stuck` are of now, whatever the hours.
    """

    hours: int
    total: int
    by_state: dict[str, int]
    success_rate: float | None
    mean_duration_ms: float | None
    running: int
    stuck: int
    by_integration: list[IntegrationOut]
    truncated: bool


class CountryPage(BaseModel):
    items: list[str]
    next_cursor: str | None
