"""Shapes of the lineage of a run in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from headgate.server.shapes import DatasetRefOut, JobOut


class RunRefOut(BaseModel):
    run_id: UUID
    job: JobOut
    state: str
    started_at: datetime
    ended_at: datetime | None
    is_test: bool


class RunInputOut(BaseModel):
    """A dataset that was read; `produced_by` is the run that had written it when this run began."""

    dataset: DatasetRefOut
    row_count: int | None
    produced_by: RunRefOut | None


class RunOutputOut(BaseModel):
    """A dataset that was written, and the runs that began to read it before another run wrote it again."""

    dataset: DatasetRefOut
    row_count: int | None
    consumed_by: list[RunRefOut]
    consumed_by_truncated: bool


class RunNodeOut(RunRefOut):
    depth: int


class RunEdgeOut(BaseModel):
    """The run `target` read what the run `source` had written."""

    source: UUID
    target: UUID
    dataset: DatasetRefOut


class RunLineageOut(BaseModel):
    """What a run read and wrote, and (`runs`, `edges`) the runs that led to it, nearest first."""

    run: RunRefOut
    inputs: list[RunInputOut]
    input_count: int
    outputs: list[RunOutputOut]
    output_count: int
    runs: list[RunNodeOut]
    edges: list[RunEdgeOut]
    truncated: bool
