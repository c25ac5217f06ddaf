"""Shapes of Marquez's API. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

Facets = dict[str, Any]


class Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class Name(Shape):
    namespace: str
    name: str


class VersionName(Name):
    version: UUID


class NamespaceOut(Shape):
    name: str
    created_at: datetime
    updated_at: datetime
    owner_name: str
    description: str | None
    is_hidden: bool


class NamespaceList(Shape):
    namespaces: list[NamespaceOut]
    total_count: int


class SourceOut(Shape):
    type: str
    name: str
    created_at: datetime
    updated_at: datetime
    connection_url: str
    description: str | None


class SourceList(Shape):
    sources: list[SourceOut]
    total_count: int


class TagOut(Shape):
    name: str
    description: str | None


class TagList(Shape):
    tags: list[TagOut]
    total_count: int


class FieldOut(Shape):
    name: str
    type: str | None
    tags: list[str]
    description: str | None


class InputField(Shape):
    namespace: str
    dataset: str
    field: str
    transformation_description: str | None
    transformation_type: str | None


class ColumnLineage(Shape):
    name: str
    input_fields: list[InputField]


class DatasetNode(Shape):
    """A dataset as a graph shows it."""

    id: Name
    type: Literal["DB_TABLE", "STREAM"]
    name: str
    physical_name: str
    created_at: datetime
    updated_at: datetime
    namespace: str
    source_name: str
    fields: list[FieldOut]
    tags: list[str]
    last_modified_at: datetime | None
    last_lifecycle_state: str | None
    description: str | None
    current_version: UUID
    deleted: bool


class DatasetOut(DatasetNode):
    column_lineage: list[ColumnLineage] | None
    facets: Facets


class DatasetList(Shape):
    datasets: list[DatasetOut]
    total_count: int


class DatasetVersionUse(Shape):
    dataset_version_id: VersionName
    facets: Facets


class RunOut(Shape):
    id: UUID
    created_at: datetime
    updated_at: datetime
    nominal_start_time: datetime | None
    nominal_end_time: datetime | None
    state: Literal["NEW", "RUNNING", "COMPLETED", "FAILED", "ABORTED"]
    started_at: datetime
    ended_at: datetime | None
    duration_ms: int | None
    args: dict[str, str]
    job_version: VersionName | None
    input_dataset_versions: list[DatasetVersionUse]
    output_dataset_versions: list[DatasetVersionUse]
    facets: Facets


class RunList(Shape):
    runs: list[RunOut]
    total_count: int


class RunFacets(Shape):
    run_id: UUID
    facets: Facets


class DatasetVersionOut(Shape):
    id: VersionName
    type: Literal["DB_TABLE", "STREAM"]
    name: str
    physical_name: str
    created_at: datetime
    version: UUID
    namespace: str
    source_name: str
    fields: list[FieldOut]
    tags: list[str]
    last_modified_at: datetime | None
    lifecycle_state: str | None
    description: str | None
    created_by_run: RunOut | None
    facets: Facets


class DatasetVersionList(Shape):
    versions: list[DatasetVersionOut]
    total_count: int


class JobNode(Shape):
    """A job as a graph shows it."""

    id: Name
    type: Literal["BATCH", "STREAM", "SERVICE"]
    name: str
    simple_name: str
    parent_job_name: str | None
    created_at: datetime
    updated_at: datetime
    namespace: str
    inputs: list[Name]
    outputs: list[Name]
    location: str | None
    description: str | None
    latest_run: RunOut | None
    tags: list[str]
    labels: list[str]
    current_version: UUID | None


class JobOut(JobNode):
    latest_runs: list[RunOut]
    facets: Facets


class JobList(Shape):
    jobs: list[JobOut]
    total_count: int


class JobVersionOut(Shape):
    id: VersionName
    name: str
    created_at: datetime
    version: UUID
    namespace: str
    location: str | None
    inputs: list[Name]
    outputs: list[Name]
    latest_run: RunOut


class JobVersionList(Shape):
    versions: list[JobVersionOut]
    total_count: int


class Edge(Shape):
    origin: str
    destination: str


class Node(Shape):
    id: str
    type: Literal["DATASET", "JOB"]
    data: DatasetNode | JobNode
    in_edges: list[Edge]
    out_edges: list[Edge]


class Graph(Shape):
    graph: list[Node]
    truncated: bool


class ColumnData(Shape):
    namespace: str
    dataset: str
    dataset_version: UUID
    field: str
    field_type: str | None
    transformation_description: str | None
    transformation_type: str | None
    input_fields: list[InputField]


class ColumnNode(Shape):
    id: str
    type: Literal["DATASET_FIELD"]
    data: ColumnData
    in_edges: list[Edge]
    out_edges: list[Edge]


class ColumnGraph(Shape):
    graph: list[ColumnNode]
    truncated: bool


class SearchResult(Shape):
    type: Literal["DATASET", "JOB"]
    name: str
    updated_at: datetime
    namespace: str
    node_id: str


class SearchResults(Shape):
    total_count: int
    results: list[SearchResult]


class EventList(Shape):
    events: list[dict[str, Any]]
    total_count: int
