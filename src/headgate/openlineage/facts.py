"""What one event says, as plain values: the vocabulary between the wire and the store.

None of them is ever part of a circle, so the garbage collector need not look at them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct

from headgate.domain.names import DatasetName
from headgate.openlineage.anomalies import AnomalyTold
from headgate.openlineage.facets import SchemaValue
from headgate.openlineage.pipelines import AlertFacet, NodeTold, PipelineTold


class ColumnEdge(NamedTuple):
    """One column that another comes from; `target_column` is empty when it shapes the whole target."""

    source: DatasetName
    source_column: str
    target_column: str
    kinds: tuple[tuple[tuple[str, Any], ...], ...]
    expression: str | None


class ColumnSet(NamedTuple):
    """All column edges into one output, with a hash that is equal when nothing about them changed."""

    hash: int
    edges: tuple[ColumnEdge, ...]


class DatasetUse(Struct, gc=False):
    """A dataset as one event shows it: read, written, or described on its own."""

    dataset: DatasetName
    role: str
    key: tuple[str, str]
    facets: dict[str, bytes | None] = {}
    facets_hash: int | None = None
    schema: SchemaValue | None = None
    columns: ColumnSet | None = None
    symlinks: tuple[DatasetName, ...] = ()
    type: str | None = None
    told_type: str | None = None
    location: str | None = None
    lifecycle: str | None = None
    previous: DatasetName | None = None
    client_hash: str | None = None
    origin_run: UUID | None = None
    context: dict[str, str] | None = None
    # As the producer spells it, where that is not how we do.
    sent_urn: str | None = None
    # What this output comes from, where its own lineage facet says so; None leaves it to the run's inputs.
    sources: list[DatasetName] | None = None


class JobFacts(Struct, gc=False):
    """What a job's facets say, whatever run sends them."""

    job_facets: dict[str, bytes | None] = {}
    job_facets_hash: int | None = None
    job_type: str | None = None
    processing_type: str | None = None
    integration: str | None = None
    is_test: bool = False
    edges: list[tuple[DatasetName, DatasetName]] | None = None
    invalid_facets: list[str] = []


class Metric(Struct, gc=False):
    dataset: DatasetName
    direction: str
    row_count: int | None = None
    byte_size: int | None = None
    file_count: int | None = None
    partition_count: int | None = None
    columns: dict[str, Any] | None = None
    # As in DatasetUse: tells partitions of one dataset apart.
    sent_urn: str | None = None


class TestResult(Struct, gc=False):
    dataset: DatasetName | None
    key: str
    name: str
    assertion: str | None
    column: str | None
    status: str
    severity: str
    expected: str | None
    actual: str | None
    description: str | None
    detail: dict[str, Any]
    sent_urn: str | None = None


class Facts(Struct, gc=False):
    """One accepted event, ready to be stored."""

    kind: str
    event_type: str | None
    event_time: datetime
    producer: str
    raw: bytes
    lenient: bool = False
    run_id: UUID | None = None
    job: tuple[str, str] | None = None
    job_facets: dict[str, bytes | None] = {}
    job_facets_hash: int | None = None
    job_type: str | None = None
    processing_type: str | None = None
    integration: str | None = None
    parent_run: UUID | None = None
    root_run: UUID | None = None
    parent_job: tuple[str, str] | None = None
    root_job: tuple[str, str] | None = None
    error: str | None = None
    application_id: str | None = None
    partition_context: dict[str, str] | None = None
    partition_key: str | None = None
    is_test: bool = False
    uses: list[DatasetUse] = []
    edges: list[tuple[DatasetName, DatasetName]] | None = None
    metrics: list[Metric] = []
    tests: list[TestResult] = []
    stages: list[dict[str, Any]] = []
    pipeline: PipelineTold | None = None
    node: NodeTold | None = None
    alerts: list[AlertFacet] = []
    anomalies: list[AnomalyTold] = []
    invalid_facets: list[str] = []
