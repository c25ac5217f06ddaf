"""Shapes of column lineage and impact in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from headgate.domain.impact import Criticality
from headgate.domain.lineage import Label
from headgate.server.shapes import DatasetRefOut, JobOut


class Shape(BaseModel):
    """Answers are built as plain values, for there may be thousands of them; a field that is not here is a mistake."""

    model_config = ConfigDict(extra="forbid")


class ColumnRefOut(Shape):
    """Which column; null stands for the dataset as a whole."""

    dataset_id: UUID
    namespace: str
    name: str
    column: str | None


class ColumnKindOut(Shape):
    type: Literal["DIRECT", "INDIRECT"]
    subtype: str | None


class ColumnEdgeOut(Shape):
    source: ColumnRefOut
    target: ColumnRefOut
    kinds: list[ColumnKindOut]
    label: Label
    expression: str | None
    job: JobOut
    last_seen_at: datetime


class ColumnReasonOut(Shape):
    """Why there is nothing to show."""

    code: str
    message: str


class MissingOut(Shape):
    """A column without a known source, and why."""

    column: str
    reason: str
    message: str


class ColumnLineageOut(Shape):
    dataset: DatasetRefOut
    edges: list[ColumnEdgeOut]
    missing: list[MissingOut]
    reason: ColumnReasonOut | None
    truncated: bool


class ColumnOut(Shape):
    name: str
    position: int | None
    type: str | None
    nullable: bool | None
    description: str | None
    in_schema: bool
    upstream: int
    downstream: int
    tags: list[str]


class ColumnsOut(Shape):
    dataset: DatasetRefOut
    items: list[ColumnOut]
    next_cursor: str | None


class ColumnNodeOut(Shape):
    dataset_id: UUID
    namespace: str
    name: str
    urn: str
    column: str | None
    depth: int


class ColumnReasonsOut(Shape):
    """Why there is nothing in a direction; null where there is something, or where nobody asked."""

    upstream: ColumnReasonOut | None
    downstream: ColumnReasonOut | None


class PossibleReaderOut(JobOut):
    """A job that may read a column, for it sends no column lineage for what it writes."""

    writes: list[DatasetRefOut]


class ColumnGraphOut(Shape):
    root: ColumnRefOut
    nodes: list[ColumnNodeOut]
    edges: list[ColumnEdgeOut]
    truncated: bool
    hidden: int
    reason: ColumnReasonOut | None
    reasons: ColumnReasonsOut
    possible_readers: list[PossibleReaderOut]


class ReachedColumnOut(Shape):
    column: str | None
    depth: int
    labels: list[Label]


class ReachedDatasetOut(DatasetRefOut):
    depth: int
    columns: list[ReachedColumnOut]
    labels: list[Label]
    jobs: list[JobOut]


class ColumnImpactOut(Shape):
    root: ColumnRefOut
    criticality: Criticality
    datasets: int
    columns: int
    items: list[ReachedDatasetOut]
    jobs: list[JobOut]
    truncated: bool
    hidden: int
    reason: ColumnReasonOut | None
    possible_readers: list[PossibleReaderOut]


class AffectedTableOut(DatasetRefOut):
    """A table that is reached, on what the judgement rests, and who is concerned."""

    depth: int
    certainty: Literal["column", "table"]
    reads_column: bool | None
    columns: list[str]
    jobs: list[JobOut]
    pipelines: list[str]
    read_by: list[str]
    owners: list[str]
    description: str | None
    tags: list[str]


class ImpactTotalsOut(Shape):
    tables: int
    pipelines: int
    owners: int
    direct: int
    columns: int


class ReachOut(Shape):
    tables: list[AffectedTableOut]
    pipelines: list[str]
    owners: list[str]
    totals: ImpactTotalsOut
    criticality: Criticality
    truncated: bool
    hidden: int


class DatasetImpactOut(ReachOut):
    dataset: DatasetRefOut
    column: str | None
    if_schema_changes: bool


class RunImpactOut(ReachOut):
    run_id: UUID
    outputs: list[DatasetRefOut]
