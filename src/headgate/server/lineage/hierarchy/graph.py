"""Puts a graph around a job together: its jobs and datasets, what is rolled up into them, and what was left out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.lineage.hierarchy.family import Family
from headgate.server.lineage.hierarchy.walk import DOWN, UP, Walk
from headgate.server.references.jobs import find_job

Q = Queries("headgate.server.lineage.hierarchy")

Json = dict[str, Any]


async def job_graph(
    conn: Connection, organization_id: UUID, job_text: str, *, depth: int, limit: int, rollup: bool
) -> Json:
    """A `JobGraphOut` as values: the job, what it reads and writes, and the jobs up to `depth` steps around it.

    Rolled up, a job stands for all jobs whose runs are part of its runs; else each is a node of its own.
    """
    root = (await find_job(conn, organization_id, job_text)).id
    family = await Family.of(conn, organization_id, root, limit=limit)
    stands_for = family.top_of if rollup else _itself
    walk = Walk(conn, organization_id, family, limit=limit, stands_for=stands_for)
    walk.begin([root, *family.parent_of])
    for direction in (UP, DOWN):
        await walk.go(direction, depth)
    return await _assembled(conn, organization_id, family, walk, rollup=rollup)


async def _assembled(conn: Connection, organization_id: UUID, family: Family, walk: Walk, *, rollup: bool) -> Json:
    parents = list(family.above(family.root))
    trees = _trees(family, walk) if rollup else {}
    named = {*walk.jobs, *family.members, *parents, *(job for tree in trees.values() for job in tree)}
    jobs = {row["id"]: row for row in await conn.fetch(Q.describe_jobs, organization_id, list(named))}
    datasets = await conn.fetch(Q.describe_datasets, organization_id, list(walk.datasets))
    nodes = [_job_node(jobs[job], depth, trees.get(job, {}), jobs) for job, depth in walk.jobs.items()]
    nodes += [_dataset_node(row, walk.datasets[row["id"]]) for row in datasets]
    nodes.sort(key=lambda node: (node["depth"], node["kind"] != "job", node["urn"]))
    edges = [edge._asdict() | {"last_seen_at": at} for edge, at in walk.edges.items()]
    return {
        "root": family.root,
        "nodes": nodes,
        "edges": edges + ([] if rollup else _containment(family, walk)),
        "hierarchy": _tree(family.root, _children(family.parent_of), jobs),
        "parents": [{"id": job, "namespace": jobs[job]["namespace"], "name": jobs[job]["name"]} for job in parents],
        "truncated": bool(walk.hidden) or walk.is_cut or family.is_cut,
        "hidden": len(walk.hidden),
    }


def _itself(job: UUID) -> UUID:
    return job


def _trees(family: Family, walk: Walk) -> dict[UUID, dict[UUID, UUID]]:
    """Of each job that stands for others, the parent of each of those."""
    trees = {family.root: dict(family.parent_of)}
    for top, parts in walk.parts.items():
        for part in parts - ({top} | family.members):
            below = part
            for parent in family.above(part):
                trees.setdefault(top, {}).setdefault(below, parent)
                if parent == top or parent in family.members:
                    break
                below = parent
    return trees


def _containment(family: Family, walk: Walk) -> list[Json]:
    shown = ((parent, job) for job, parent in family.parent_of.items() if {job, parent} <= walk.jobs.keys())
    return [{"source": parent, "target": job, "kind": "contains", "last_seen_at": None} for parent, job in shown]


def _children(parent_of: Mapping[UUID, UUID]) -> dict[UUID, list[UUID]]:
    found: dict[UUID, list[UUID]] = {}
    for job, parent in parent_of.items():
        found.setdefault(parent, []).append(job)
    return found


def _tree(job: UUID, children: Mapping[UUID, Collection[UUID]], jobs: Mapping[UUID, Record]) -> Json:
    row = jobs[job]
    below = [_tree(child, children, jobs) for child in children.get(job, ())]
    return {
        "id": job,
        "namespace": row["namespace"],
        "name": row["name"],
        "job_type": row["job_type"],
        "integration": row["integration"],
        "children": sorted(below, key=lambda tree: (tree["namespace"], tree["name"])),
    }


def _job_node(row: Record, depth: int, parent_of: Mapping[UUID, UUID], jobs: Mapping[UUID, Record]) -> Json:
    tree = _tree(row["id"], _children(parent_of), jobs)
    return _node(row, "job", depth) | {
        "display_name": row["name"],
        "type": row["job_type"],
        "integration": row["integration"],
        "external": False,
        "children": tree["children"],
    }


def _dataset_node(row: Record, depth: int) -> Json:
    return _node(row, "dataset", depth) | {
        "display_name": row["display_name"],
        "type": row["type"],
        "integration": None,
        "external": row["external"],
        "children": [],
    }


def _node(row: Record, kind: str, depth: int) -> Json:
    return {
        "id": row["id"],
        "kind": kind,
        "namespace": row["namespace"],
        "name": row["name"],
        "urn": f"{row['namespace']}/{row['name']}",
        "depth": depth,
    }
