"""Puts answers about columns together from what the store has found: plain values, ready to be encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from headgate.domain.impact import criticality
from headgate.server.columns.edges import Json, column_ref, edge
from headgate.server.columns.reasons import Losses, Reason, User, why_no_source, without_source
from headgate.server.columns.store import MAX_EDGES, MAX_READERS, Walk
from headgate.server.db.pool import Record
from headgate.server.references.datasets import Dataset

Counts = Mapping[str, tuple[int, int]]
Node = tuple[UUID, str]


def column_lineage(
    dataset: Dataset,
    rows: Sequence[Record],
    limit: int,
    names: Sequence[str],
    counts: Counts,
    writers: Sequence[User],
    losses: Losses,
) -> Json:
    """Edges into and out of a dataset, and why columns have none that lead to them; `rows` may be one too many."""
    sourced = {name for name, (upstream, _) in counts.items() if upstream}
    read = [name for name, (_, downstream) in counts.items() if downstream]
    reasons = {name: why_no_source(name, names, writers, losses) for name in without_source(names, read, sourced)}
    return {
        "dataset": dataset_ref(dataset._asdict()),
        "edges": [edge(row) for row in rows[:limit]],
        "missing": [
            {"column": name, "reason": reason.code, "message": reason.message} for name, reason in reasons.items()
        ],
        "reason": None if counts else reason_out(why_no_source(None, names, writers, losses)),
        "truncated": len(rows) > limit,
    }


def columns(
    dataset: Dataset,
    fields: Sequence[Mapping[str, Any]],
    counts: Counts,
    tags: Mapping[str, list[str]],
    notes: Mapping[str, str],
) -> Json:
    """Columns of the schema in its order, then those that only lineage knows."""
    known = {field["name"]: field for field in fields}
    others = sorted(name for name in counts if name and name not in known)
    places = {name: place for place, name in enumerate(known, 1)}
    items = []
    for name in (*known, *others):
        field, (upstream, downstream) = known.get(name, {}), counts.get(name, (0, 0))
        items.append(
            {
                "name": name,
                "position": places.get(name),
                "type": field.get("type"),
                "nullable": field.get("nullable"),
                "description": notes.get(name, field.get("description")),
                "in_schema": name in known,
                "upstream": upstream,
                "downstream": downstream,
                "tags": tags.get(name, []),
            }
        )
    return {"dataset": dataset_ref(dataset._asdict()), "items": items, "next_cursor": None}


def graph(
    dataset: Dataset,
    column: str,
    walks: Sequence[Walk],
    edges: Sequence[Record],
    reasons: Mapping[str, Reason | None],
    readers: Sequence[Record],
) -> Json:
    """Columns that were reached and what lies between them."""
    nodes = merged(walks)
    hidden = sum(walk.hidden for walk in walks)
    is_empty = all(not walk.reached() for walk in walks)
    told = {direction: reason_out(reasons.get(direction)) for direction in ("upstream", "downstream")}
    return {
        "root": column_ref(dataset.id, dataset.namespace, dataset.name, column),
        "nodes": [_node(row) for row in nodes],
        "edges": [edge(row) for row in edges[:MAX_EDGES]],
        "truncated": hidden > 0 or len(edges) > MAX_EDGES or len(readers) > MAX_READERS,
        "hidden": hidden,
        "reason": (told["upstream"] or told["downstream"]) if is_empty else None,
        "reasons": told,
        "possible_readers": _possible_readers(readers[:MAX_READERS]),
    }


def column_impact(
    dataset: Dataset,
    column: str,
    walk: Walk,
    edges: Sequence[Record],
    reason: Reason | None,
    readers: Sequence[Record],
) -> Json:
    """What is made of a column, by dataset."""
    shown = [edge(row) for row in edges[:MAX_EDGES]]
    reached = walk.reached()
    named = [row for row in reached if row["column_name"]]
    items = _by_dataset(reached, shown)
    return {
        "root": column_ref(dataset.id, dataset.namespace, dataset.name, column),
        "criticality": criticality(len(items), len(named)).value,
        "datasets": len(items),
        "columns": len(named),
        "items": items,
        "jobs": _distinct_jobs(shown),
        "truncated": walk.hidden > 0 or len(edges) > MAX_EDGES or len(readers) > MAX_READERS,
        "hidden": walk.hidden,
        "reason": reason_out(reason),
        "possible_readers": _possible_readers(readers[:MAX_READERS]),
    }


def merged(walks: Sequence[Walk]) -> list[Record]:
    """Columns of several walks, each once at its least depth, nearest first."""
    nearest: dict[Node, Record] = {}
    for row in sorted((row for walk in walks for row in walk.rows), key=_place):
        nearest.setdefault((row["dataset_id"], row["column_name"]), row)
    return list(nearest.values())


def dataset_ref(row: Mapping[str, Any] | Record) -> Json:
    kept = ("id", "namespace", "name", "display_name", "type")
    return {key: row[key] for key in kept} | {"urn": f"{row['namespace']}/{row['name']}"}


def reason_out(reason: Reason | None) -> Json | None:
    return None if reason is None else reason._asdict()


def _possible_readers(rows: Sequence[Record]) -> list[Json]:
    jobs: dict[UUID, Json] = {}
    for row in rows:
        ref = {"id": row["job_id"], "namespace": row["job_namespace"], "name": row["job_name"]}
        job = jobs.setdefault(row["job_id"], ref | {"writes": []})
        if row["id"] is not None:
            job["writes"].append(dataset_ref(row))
    return list(jobs.values())


def _place(row: Record) -> tuple[int, str, str, str]:
    return row["depth"], row["namespace"], row["name"], row["column_name"]


def _node(row: Record) -> Json:
    ref = column_ref(row["dataset_id"], row["namespace"], row["name"], row["column_name"])
    return ref | {"urn": f"{row['namespace']}/{row['name']}", "depth": row["depth"]}


def _by_dataset(rows: Sequence[Record], edges: Sequence[Json]) -> list[Json]:
    into: dict[UUID, list[Json]] = {}
    for item in edges:
        into.setdefault(item["target"]["dataset_id"], []).append(item)
    items: dict[UUID, Json] = {}
    for row in rows:
        dataset_id = row["dataset_id"]
        if dataset_id not in items:
            items[dataset_id] = _reached_dataset(row, into.get(dataset_id, []))
        column = row["column_name"] or None
        mine = [item for item in into.get(dataset_id, []) if item["target"]["column"] == column]
        items[dataset_id]["columns"].append({"column": column, "depth": row["depth"], "labels": _labels(mine)})
    return list(items.values())


def _reached_dataset(row: Record, edges: Sequence[Json]) -> Json:
    found = {"depth": row["depth"], "columns": [], "labels": _labels(edges), "jobs": _distinct_jobs(edges)}
    return dataset_ref({"id": row["dataset_id"], **dict(row)}) | found


def _labels(edges: Sequence[Json]) -> list[str]:
    return sorted({item["label"] for item in edges})


def _distinct_jobs(edges: Sequence[Json]) -> list[Json]:
    jobs = {item["job"]["id"]: item["job"] for item in edges}
    return sorted(jobs.values(), key=lambda job: (job["namespace"], job["name"]))
