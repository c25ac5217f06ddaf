"""What a story is told from: a run, the one before it, and the lineage around it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from headgate.pipelines.record import DatasetRef, NodeRecord, RunRecord


class Kind(StrEnum):
    """What a point of the lineage is."""

    dataset = "dataset"
    job = "job"


class LineageNode(Struct, frozen=True):
    """A dataset or a job around the run; `id` is its namespace + "/" + name, so that it meets the run's own."""

    id: str
    label: str
    kind: Kind
    pipeline: str | None = None


class LineageEdge(Struct, frozen=True):
    """Data flows from `source` to `target`; both are ids."""

    source: str
    target: str


class Lineage(Struct, frozen=True):
    """What lies on one side of the run; a node of the run itself may be among it."""

    nodes: tuple[LineageNode, ...] = ()
    edges: tuple[LineageEdge, ...] = ()


class Story(Struct, frozen=True):
    """All that a story tells. `previous` is the run that it is compared with."""

    run: RunRecord
    generated_at: datetime
    previous: RunRecord | None = None
    upstream: Lineage = Lineage()
    downstream: Lineage = Lineage()
    server_url: str | None = None


def dataset_id(dataset: DatasetRef) -> str:
    return f"{dataset.namespace}/{dataset.name}"


def job_id(run: RunRecord, node: NodeRecord) -> str:
    return f"{run.project}/{job_name(node)}"


def job_name(node: NodeRecord) -> str:
    return f"{node.pipeline}.{node.name}"
