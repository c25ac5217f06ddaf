"""Shapes of tasks, their attempts and batches. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class Status(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DEAD = "DEAD"
    CANCELED = "CANCELED"


class TaskOut(BaseModel):
    """A task. `retry_count` are the failures since it was made or retried, `attempts` all that were ever begun."""

    id: int
    task_type: str
    status: Status
    tenant_id: int
    tenant_code: str
    resource_type: str
    resource_id: str
    model_fingerprint: str
    content_hash: str
    priority: int
    retry_count: int
    max_retry: int
    attempts: int
    next_run_at: datetime | None = Field(description="When it is due; null once it is over or at work")
    repeat_s: int | None = Field(description="Recurring work: seconds from its end to the next time")
    worker_id: str | None = Field(description="Who works on it, or did last")
    claim_until: datetime | None = Field(description="Others take it over if its worker is not heard of until then")
    batch_no: str | None
    last_error: str | None
    payload: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class AttemptOut(BaseModel):
    attempt_no: int
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]
    worker_id: str
    batch_no: str | None
    input_size: int | None = Field(description="How many tasks were done together")
    started_at: datetime
    finished_at: datetime | None
    latency_ms: int | None
    error_type: str | None
    error_message: str | None


class TaskDetailOut(TaskOut):
    """A task with its latest attempts, the first of them first; the one that goes on is the last."""

    attempt_log: list[AttemptOut]


class TaskPage(BaseModel):
    items: list[TaskOut]
    next_cursor: str | None


class BatchOut(BaseModel):
    id: int
    batch_no: UUID
    task_type: str
    tenant_id: int
    model_fingerprint: str
    worker_id: str
    planned_size: int
    success_count: int
    failed_count: int
    started_at: datetime
    finished_at: datetime | None
    status: Literal["RUNNING", "SUCCEEDED", "FAILED"]


class BatchPage(BaseModel):
    items: list[BatchOut]
    next_cursor: str | None


class TypeStatsOut(BaseModel):
    """How much there is of one type; from 20,000 on a number says at least."""

    task_type: str
    backlog: int = Field(description="Waiting and due")
    oldest_due_at: datetime | None
    pending: int
    failed: int = Field(description="Failed, and waiting to be tried again")
    running: int
    dead: int


class StatsOut(BaseModel):
    backlog: int
    oldest_due_at: datetime | None
    is_behind: bool = Field(description="Whether something has been due for more than a minute")
    pending: int
    failed: int
    running: int
    dead: int
    types: list[TypeStatsOut]


class RetryIn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    status: Literal["DEAD", "FAILED"]
    task_type: str | None = Field(default=None, max_length=64, pattern="^[^\\x00]*$", description="Null for all types")


class RetriedOut(BaseModel):
    retried: int
    is_more: bool = Field(description="Whether some are left, because enough is waiting already")
