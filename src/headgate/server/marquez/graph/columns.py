"""The graph of columns around a node: where they come from and, if wanted, what comes from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from headgate.server.marquez.datasets import ColumnEdge, DatasetStore, input_fields
from headgate.server.marquez.graph.jobs import MAX_NODES, Q
from headgate.server.marquez.jobs import JobStore
from headgate.server.marquez.lookup import Tenant
from headgate.server.marquez.nodes import field_node

Json = dict[str, Any]
Column = tuple[UUID, str]

_MAX_EDGES: Final = 20_000


class ColumnGraph:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._datasets = DatasetStore(tenant)

    async def columns_of(self, dataset_ids: Sequence[UUID]) -> list[Column]:
        """Columns that the schema has or that lineage knows, in the schema's order."""
        nodes = await self._datasets.nodes(dataset_ids)
        told = [(id_, field["name"]) for id_, node in nodes.items() for field in node["fields"]]
        known = await self._tenant.fetch(Q.list_columns, dataset_ids, MAX_NODES)
        return list(dict.fromkeys([*told, *((row["id"], row["name"]) for row in known)]))

    async def columns_written_by(self, job_id: UUID) -> list[Column]:
        uses = await JobStore(self._tenant).uses([job_id])
        return await self.columns_of([use.dataset_id for use in uses if use.role == "output"])

    async def around(self, columns: Sequence[Column], depth: int, *, with_downstream: bool) -> Json:
        walk = _Walk(columns)
        await self._follow(walk, Q.list_column_sources, depth, upstream=True)
        if with_downstream:
            await self._follow(walk, Q.list_column_targets, depth, upstream=False)
        return await self._render(walk)

    async def _follow(self, walk: _Walk, query: str, depth: int, *, upstream: bool) -> None:
        frontier = walk.start
        for _ in range(depth):
            if not frontier:
                return
            ids, names = [column[0] for column in frontier], [column[1] for column in frontier]
            rows = await self._tenant.fetch(query, ids, names, _MAX_EDGES + 1)
            walk.truncated |= len(rows) > _MAX_EDGES
            frontier = walk.add(await self._datasets.column_edges(rows[:_MAX_EDGES]), upstream=upstream)

    async def _render(self, walk: _Walk) -> Json:
        datasets = await self._datasets.nodes(list({dataset_id for dataset_id, _ in walk.columns}))
        gone = {id_ for id_, data in datasets.items() if data["deleted"]}
        sources: dict[Column, list[ColumnEdge]] = {}
        targets: dict[Column, set[Column]] = {}
        for edge in sorted(walk.edges, key=_order):
            if edge.source[0] not in gone and edge.target[0] not in gone:
                sources.setdefault(edge.target, []).append(edge)
                targets.setdefault(edge.source, set()).add(edge.target)
        columns = (column for column in walk.columns if column in walk.start or column in sources or column in targets)
        types = {id_: {field["name"]: field["type"] for field in data["fields"]} for id_, data in datasets.items()}
        graph = [
            _node(column, datasets, sources.get(column, ()), targets.get(column, ()))
            | {"data": _data(column, datasets, types[column[0]].get(column[1]), sources.get(column, ()))}
            for column in columns
        ]
        return {"graph": sorted(graph, key=lambda node: str(node["id"])), "truncated": walk.truncated}


class _Walk:
    """Columns that have been reached, and the edges between them."""

    def __init__(self, start: Sequence[Column]) -> None:
        self.start = dict.fromkeys(start[:MAX_NODES])
        self.columns = dict(self.start)
        self.edges: set[ColumnEdge] = set()
        self.truncated = len(start) > MAX_NODES

    def add(self, edges: Iterable[ColumnEdge], *, upstream: bool) -> dict[Column, None]:
        """Take in edges whose far end there is room for; the columns that were not known before."""
        new: dict[Column, None] = {}
        for edge in sorted(edges, key=_order):
            far = edge.source if upstream else edge.target
            if far not in self.columns:
                if len(self.columns) >= MAX_NODES:
                    self.truncated = True
                    continue
                self.columns[far] = new[far] = None
            self.edges.add(edge)
        return new


def _order(edge: ColumnEdge) -> tuple[Column, Column, str, str]:
    return edge.source, edge.target, edge.description or "", edge.type or ""


def _node(
    column: Column, datasets: Mapping[UUID, Json], sources: Sequence[ColumnEdge], targets: Iterable[Column]
) -> Json:
    node_id = _id(column, datasets)
    inputs = sorted({_id(edge.source, datasets) for edge in sources})
    outputs = sorted(_id(target, datasets) for target in targets)
    return {
        "id": node_id,
        "type": "DATASET_FIELD",
        # As in Marquez, whose clients take the far end of either kind of edge from its destination.
        "inEdges": [{"origin": node_id, "destination": source} for source in inputs],
        "outEdges": [{"origin": node_id, "destination": target} for target in outputs],
    }


def _data(column: Column, datasets: Mapping[UUID, Json], type_: str | None, sources: Sequence[ColumnEdge]) -> Json:
    dataset = datasets[column[0]]
    inputs = input_fields(sources, datasets)
    first = inputs[0] if inputs else {}
    return {
        "namespace": dataset["namespace"],
        "dataset": dataset["name"],
        "datasetVersion": dataset["currentVersion"],
        "field": column[1],
        "fieldType": type_,
        "transformationDescription": first.get("transformationDescription"),
        "transformationType": first.get("transformationType"),
        "inputFields": inputs,
    }


def _id(column: Column, datasets: Mapping[UUID, Json]) -> str:
    dataset = datasets[column[0]]
    return field_node(dataset["namespace"], dataset["name"], column[1])
