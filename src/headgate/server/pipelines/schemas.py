"""Shapes of pipelines, their runs and their quarantine in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from pydantic import BaseModel


class RunStatus(StrEnum):
    """How a run of a pipeline or a node ended; `running` has not."""

    running = "running"
    published = "published"
    stopped = "stopped"
    failed = "failed"
    skipped = "skipped"


class BatchState(StrEnum):
    open = "open"
    replayed = "replayed"
    discarded = "discarded"
    expired = "expired"
    gate_aborted = "gate_aborted"


class NodeCountsOut(BaseModel):
    """Nodes of a run by how their latest attempt ended."""

    published: int
    stopped: int
    failed: int
    skipped: int
    running: int


class PipelineRunOut(BaseModel):
    """A run; its rows are those of all its nodes together."""

    run_id: UUID
    project: str
    pipeline: str
    environment: str | None
    file: str | None
    status: RunStatus
    started_at: datetime
    ended_at: datetime | None
    node_counts: NodeCountsOut
    rows_in: int
    rows_quarantined: int
    rows_published: int


class PipelineRunPage(BaseModel):
    items: list[PipelineRunOut]
    next_cursor: str | None


class PipelineOut(BaseModel):
    project: str
    pipeline: str
    run_count: int
    last_run: PipelineRunOut


class PipelinePage(BaseModel):
    items: list[PipelineOut]
    next_cursor: str | None


class TargetOut(BaseModel):
    """A dataset that a node writes; `label` is what the pipeline's file calls it."""

    urn: str
    label: str | None


class TestCountsOut(BaseModel):
    total: int
    passed: int
    failed: int


class NodeRunOut(BaseModel):
    """One attempt of a node."""

    run_id: UUID
    pipeline_run_id: UUID | None
    node: str
    attempt: int
    status: RunStatus
    started_at: datetime
    ended_at: datetime | None
    rows_in: int
    rows_valid: int
    rows_quarantined: int
    rows_published: int
    gate: dict[str, Any] | None
    tests: TestCountsOut
    target: TargetOut | None


class NodeRecordOut(NodeRunOut):
    """With all that the engine said of it."""

    record: dict[str, Any]


class PublishedOut(BaseModel):
    """A published run of a node."""

    run_id: UUID
    ended_at: datetime
    rows_in: int
    rows_published: int


class PublishedPage(BaseModel):
    items: list[PublishedOut]
    next_cursor: str | None


class NodeOut(BaseModel):
    """A node with its latest run; one that the last run names and that has never begun has none."""

    node: str
    in_last_run: bool
    latest_run: NodeRunOut | None
    last_published: PublishedOut | None
    target: TargetOut | None


class PipelineDetailOut(PipelineOut):
    nodes: list[NodeOut]
    targets: list[TargetOut]


class AlertOut(BaseModel):
    event: str
    node: str | None
    channel: str
    outcome: str
    reason: str | None
    message: str | None
    at: datetime


class PipelineRunDetailOut(PipelineRunOut):
    """`planned_nodes` are those that the run set out to do, `nodes` those that began, each as its latest attempt."""

    planned_nodes: list[str]
    nodes: list[NodeRecordOut]
    alerts: list[AlertOut]


class FieldOut(BaseModel):
    name: str
    type: str
    nullable: bool


class WatermarkOut(BaseModel):
    """How far published runs have read."""

    column: str
    value: str
    run_id: UUID
    updated_at: datetime


class LastPublishedOut(PublishedOut):
    fields: list[FieldOut]
    watermark: WatermarkOut | None


class BatchOut(BaseModel):
    """Rows that one run set apart; `failed_tests` counts them by the tests they fail."""

    project: str
    pipeline: str
    node: str
    batch_id: str
    run_id: UUID
    dataset_urn: str
    location: str
    rows: int
    failed_tests: dict[str, int]
    state: BatchState
    rejected_at: datetime
    expires_at: datetime | None
    changed_at: datetime
    changed_by: UUID


class BatchPage(BaseModel):
    items: list[BatchOut]
    next_cursor: str | None
