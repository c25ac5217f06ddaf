"""Secondary facts that only move when their content does: facets of jobs and datasets, and column lineage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headgate.domain.names import DatasetName, stronger_type
from headgate.openlineage.facts import ColumnEdge
from headgate.server.ingest.batch import Use
from headgate.server.ingest.context import Context, Q, storable


async def store_job_facets(context: Context, places: Sequence[int]) -> None:
    """Merge the facets of each job's events, oldest first, into what the job already has."""
    merged: dict[UUID, tuple[datetime, int | None, dict[str, Any]]] = {}
    for place in sorted(places, key=lambda p: context.batch.events[p - 1].facts.event_time):
        facts = context.batch.events[place - 1].facts
        job_id = context.job_id(place)
        if job_id is not None:
            known = merged[job_id][2] if job_id in merged else {}
            merged[job_id] = (facts.event_time, facts.job_facets_hash, known | facts.job_facets)
    rows = [_job_row(job_id, *merged[job_id]) for job_id in sorted(merged)]
    if rows:
        await context.conn.execute(Q.merge_job_facets, context.organization_id, *map(list, zip(*rows, strict=True)))


def _job_row(job_id: UUID, at: datetime, hash_: int | None, facets: dict[str, Any]) -> tuple[Any, ...]:
    bodies = {name: text for name, body in facets.items() if body is not None and (text := storable(body))}
    members = ",".join(f"{msgspec.json.encode(name).decode()}:{text}" for name, text in bodies.items())
    deleted = [name for name, body in facets.items() if body is None]
    return job_id, at, hash_, f"{{{members}}}", "\x1f".join(deleted)


async def store_facets(context: Context, uses: Sequence[Use]) -> None:
    """The newest body of every facet that these uses of datasets carry."""
    bodies: dict[tuple[UUID, str], tuple[Any, ...]] = {}
    deleted: dict[tuple[UUID, str], datetime] = {}
    for row in uses:
        facts = context.batch.facts_of(row)
        dataset_id = context.dataset_id(row)
        for name, body in row.use.facets.items():
            key = (dataset_id, name)
            if body is None:
                deleted[key] = facts.event_time
                bodies.pop(key, None)
            elif text := storable(body):
                role = None if row.use.role == "dataset" else row.use.role
                job_id = context.job_id(row.event)
                bodies[key] = (*key, text, facts.event_time, job_id, role, row.use.facets_hash)
    if bodies:
        columns = map(list, zip(*bodies.values(), strict=True))
        await context.conn.execute(Q.upsert_dataset_facets, context.organization_id, *columns)
    if deleted:
        ids, names = zip(*deleted, strict=True)
        times = list(deleted.values())
        await context.conn.execute(Q.delete_dataset_facets, context.organization_id, list(ids), list(names), times)
    await _describe(context, uses)


async def _describe(context: Context, uses: Sequence[Use]) -> None:
    known: dict[UUID, tuple[Any, ...]] = {}
    for row in uses:
        use = row.use
        dataset_id = context.dataset_id(row)
        before = known.get(dataset_id, (None, None, None))
        type_ = stronger_type(before[1], use.type) if use.type else before[1]
        starting = context.batch.facts_of(row).event_type == "START"
        known[dataset_id] = (
            dataset_id,
            type_,
            use.location or before[2],
            use.lifecycle == "DROP" and not starting,
            use.role == "output" and use.lifecycle != "DROP",
            context.batch.facts_of(row).event_time,
        )
    rows = [known[dataset_id] for dataset_id in sorted(known)]
    await context.conn.execute(Q.describe_datasets, context.organization_id, *map(list, zip(*rows, strict=True)))


async def store_columns(context: Context, uses: Sequence[Use]) -> None:
    """Column edges of outputs whose column lineage is not what it was."""
    seen: set[tuple[UUID | None, UUID, int]] = set()
    for row in sorted(uses, key=lambda row: (str(context.job_id(row.event)), context.dataset_id(row))):
        columns = row.use.columns
        job_id = context.job_id(row.event)
        if columns is None or job_id is None or row.use.role != "output":
            continue
        key = (job_id, context.dataset_id(row), columns.hash)
        if key not in seen:
            seen.add(key)
            await _store_column_set(context, row, job_id, columns.edges, columns.hash)


async def _store_column_set(context: Context, row: Use, job_id: UUID, edges: Sequence[ColumnEdge], hash_: int) -> None:
    at = context.batch.facts_of(row).event_time
    sources = await _resolve(context, [edge.source for edge in edges], at)
    await context.conn.execute(
        Q.store_column_lineage,
        context.organization_id,
        job_id,
        context.dataset_id(row),
        at,
        hash_,
        [sources[edge.source[:2]] for edge in edges],
        [edge.source_column for edge in edges],
        [edge.target_column for edge in edges],
        [msgspec.json.encode([dict(kind) for kind in edge.kinds]).decode() for edge in edges],
        [edge.expression for edge in edges],
    )


async def _resolve(context: Context, names: Sequence[DatasetName], at: datetime) -> dict[tuple[str, str], UUID]:
    """Ids by name; a source that no event has listed as an input becomes a dataset here."""
    wanted = {name[:2]: name for name in names}
    found = {key: id_ for key in wanted if (id_ := context.dataset_id_of(key)) is not None}
    missing = [wanted[key] for key in sorted(wanted) if key not in found]
    if missing:
        ids = await context.conn.fetchval(
            Q.resolve_datasets,
            context.organization_id,
            [name.namespace for name in missing],
            [name.name for name in missing],
            [name.display_name for name in missing],
            [None] * len(missing),
            [None] * len(missing),
            list(range(1, len(missing) + 1)),
            at,
        )
        found |= {name[:2]: id_ for name, id_ in zip(missing, ids, strict=True)}
    return found
