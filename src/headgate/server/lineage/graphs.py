"""Puts graphs of datasets together from what the store finds; as plain values, for they may hold thousands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.lineage import kinds_of, label_of
from headgate.server.db.pool import Record
from headgate.server.lineage.store import DOWN, MAX_COLUMNS, UP, Edge, LineageStore

Json = dict[str, Any]

MAX_DEPTH = 20


class Bounds(NamedTuple):
    """How far to go from the root in each direction (None: not at all), and how many datasets to show."""

    up: int | None
    down: int | None
    limit: int


class Reach(NamedTuple):
    """What is shown: each dataset's depth, and those from which a further step would lead to what is not."""

    depths: dict[UUID, int]
    up: list[UUID]
    down: list[UUID]


async def lineage(store: LineageStore, root: UUID, bounds: Bounds, *, with_columns: bool) -> Json:
    """What feeds the root, what it feeds, or both; hidden is what lies further that way."""
    reach = await _reach(store, root, bounds)
    shown = list(reach.depths)
    edges = await store.edges(shown)
    nodes = [node_of(row, reach.depths[row["id"]]) for row in await store.nodes(shown, edges)]
    hidden = await store.beyond(shown, reach.up, reach.down) if reach.up or reach.down else 0
    return await _answer(store, root, nodes, edges, hidden, with_columns)


async def neighbourhood(store: LineageStore, root: UUID, bounds: Bounds, *, with_columns: bool) -> Json:
    """The same for a view in which any dataset can be unfolded: each says what is hidden next to it."""
    reach = await _reach(store, root, bounds)
    shown = list(reach.depths)
    edges = await store.edges(shown)
    nodes = [node_of(row, reach.depths[row["id"]]) for row in await store.nodes(shown, edges)]
    hidden_up, hidden_down = await store.hidden(shown, UP), await store.hidden(shown, DOWN)
    for node in nodes:
        node["hidden_up"] = hidden_up.get(node["id"], 0)
        node["hidden_down"] = hidden_down.get(node["id"], 0)
    hidden = await store.beyond(shown, list(hidden_up), list(hidden_down))
    return await _answer(store, root, nodes, edges, hidden, with_columns)


async def _reach(store: LineageStore, root: UUID, bounds: Bounds) -> Reach:
    up = {} if bounds.up is None else await store.walk(root, UP, bounds.up, bounds.limit)
    down = {} if bounds.down is None else await store.walk(root, DOWN, bounds.down, bounds.limit)
    return merge(up, down, bounds)


def merge(up: Mapping[UUID, int], down: Mapping[UUID, int], bounds: Bounds) -> Reach:
    """Both ways as one: each dataset at its least depth, and the nearest of all if they are too many."""
    depths: dict[UUID, int] = {}
    for dataset, depth in (*up.items(), *down.items()):
        depths[dataset] = min(depth, depths.get(dataset, depth))
    nearest = dict(sorted(depths.items(), key=lambda item: item[1])[: bounds.limit])
    # What there was no room for lies on the last level or beyond.
    full_at = max(nearest.values()) - 1 if len(nearest) == bounds.limit else MAX_DEPTH
    return Reach(nearest, _ends(up, nearest, bounds.up, full_at), _ends(down, nearest, bounds.down, full_at))


def _ends(walked: Mapping[UUID, int], shown: Mapping[UUID, int], depth: int | None, full_at: int) -> list[UUID]:
    """Datasets that a walk may have gone no further from: for its depth, or for want of room."""
    last = full_at if depth is None else min(depth, full_at)
    return [dataset for dataset, at in walked.items() if at >= last and dataset in shown]


async def _answer(
    store: LineageStore, root: UUID, nodes: Sequence[Json], found: Sequence[Edge], hidden: int, with_columns: bool
) -> Json:
    jobs = await store.jobs({edge.job for edge in found})
    edges = [_edge(edge, jobs) for edge in found]
    is_cut = with_columns and await _add_columns(store, found, edges)
    return {"root": root, "nodes": nodes, "edges": edges, "truncated": hidden > 0 or is_cut, "hidden": hidden}


async def _add_columns(store: LineageStore, found: Sequence[Edge], edges: Sequence[Json]) -> bool:
    """Fill in the columns of each edge; whether there are too many of them."""
    rows = await store.columns(found)
    for edge in edges:
        edge["columns"] = []
    for row in rows[:MAX_COLUMNS]:
        edges[row["place"] - 1]["columns"].append(_column(row))
    return len(rows) > MAX_COLUMNS


def node_of(row: Record, depth: int) -> Json:
    return {
        "id": row["id"],
        "namespace": row["namespace"],
        "name": row["name"],
        "urn": f"{row['namespace']}/{row['name']}",
        "display_name": row["display_name"],
        "type": row["type"],
        "depth": depth,
        "external": row["external"],
    }


def _edge(edge: Edge, jobs: Mapping[UUID, Record]) -> Json:
    return {
        "source": edge.source,
        "target": edge.target,
        "job": dict(jobs[edge.job]),
        "last_seen_at": edge.last_seen_at,
        "completed": edge.is_completed,
        "columns": None,
    }


def _column(row: Record) -> Json:
    kinds = msgspec.json.decode(row["kinds"])
    return {
        "source": row["source_column"],
        "target": row["target_column"],
        "label": label_of(kinds, row["expression"]),
        "kinds": [{"type": type_, "subtype": subtype} for type_, subtype in kinds_of(kinds)],
        "expression": row["expression"],
    }


def jobs_of(ids: Iterable[UUID], jobs: Mapping[UUID, Record]) -> list[Json]:
    """These jobs by name."""
    return sorted((dict(jobs[id_]) for id_ in ids), key=lambda job: (job["namespace"], job["name"]))
