"""Puts a story together: a run as its record, the one it is compared with, and the lineage around it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from headgate.pipelines.record import DatasetRef, NodeRecord, RunRecord, Status, overall
from headgate.server.db.pool import Record
from headgate.server.pipelines.store import PipelineStore
from headgate.story import Kind, Lineage, LineageEdge, LineageNode

# As far as a picture can be taken in.
MAX_DEPTH: Final = 2
MAX_DATASETS: Final = 40


async def record_of(store: PipelineStore, run: Record) -> RunRecord:
    """A run with its nodes as the engine had them; of one that has not ended, the nodes that have."""
    rows = await store.run_nodes(run["run_id"])
    nodes = [_node(row) for row in rows if row["ended_at"] is not None]
    return RunRecord(
        run_id=str(run["run_id"]),
        project=run["project"],
        pipelines=(run["pipeline"],),
        status=overall(nodes) if run["ended_at"] is None else Status(run["status"]),
        environment=run["environment"],
        file=run["file"],
        started_at=run["started_at"],
        ended_at=run["ended_at"],
        nodes=nodes,
    )


async def lineage_of(store: PipelineStore, datasets: Sequence[DatasetRef], direction: str) -> Lineage:
    """What lies up- or downstream of these datasets, under the names by which the run has them."""
    names = [(dataset.namespace, dataset.name) for dataset in datasets[:MAX_DATASETS]]
    spelled = {dataset_id: "/".join(name) for name, dataset_id in (await store.datasets(names)).items()}
    return _lineage(await store.flows(list(spelled), direction, MAX_DEPTH, MAX_DATASETS), spelled)


def inputs_of(nodes: Iterable[NodeRecord]) -> list[DatasetRef]:
    return list(dict.fromkeys(dataset for node in nodes for dataset in node.inputs))


def outputs_of(nodes: Iterable[NodeRecord]) -> list[DatasetRef]:
    return list(dict.fromkeys(node.output for node in nodes if node.output is not None))


def _node(row: Record) -> NodeRecord:
    node = msgspec.convert(msgspec.json.decode(row["record"]), NodeRecord)
    node.status = Status(row["status"])
    return node


def _lineage(flows: Sequence[Mapping[str, Any]], spelled: Mapping[UUID, str]) -> Lineage:
    nodes: dict[str, LineageNode] = {}
    edges: dict[LineageEdge, None] = {}
    for flow in flows:
        source = spelled.get(flow["source_id"], flow["source"])
        target = spelled.get(flow["target_id"], flow["target"])
        nodes.setdefault(source, LineageNode(source, flow["source_label"], Kind.dataset))
        nodes[flow["job"]] = LineageNode(flow["job"], flow["job_label"], Kind.job, flow["pipeline"])
        nodes[target] = LineageNode(target, flow["target_label"], Kind.dataset, flow["pipeline"])
        edges |= dict.fromkeys([LineageEdge(source, flow["job"]), LineageEdge(flow["job"], target)])
    return Lineage(tuple(nodes.values()), tuple(edges))
