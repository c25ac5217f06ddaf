"""Secondary facts that only move when their content does: facets of jobs and datasets, and column lineage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headgate.domain.names import stronger_type
from headgate.openlineage.facts import ColumnEdge, Facts, JobFacts
from headgate.server.ingest.context import Context, Q, storable
from headgate.server.ingest.rows import Content

MAX_FACET_NAME = 500
_CODE = ("sql", "sourceCode", "sourceCodeLocation")


async def store_job_facets(context: Context, events: Sequence[Facts]) -> None:
    """Merge the facets of each job's events, oldest first, into what the job has, and tell each change of its code."""
    for step in _steps(context, events):
        await _merge(context, step)


def _steps(context: Context, events: Sequence[Facts]) -> list[list[Facts]]:
    """Events that can be merged at once: where the code of a job changes, a new step begins."""
    code: dict[UUID | None, tuple[Any, ...]] = {}
    place: dict[UUID | None, int] = {}
    steps: dict[int, list[Facts]] = defaultdict(list)
    for facts in sorted(events, key=lambda facts: facts.event_time):
        job_id = context.job_id(facts)
        told = tuple(facts.job_facets.get(name) for name in _CODE)
        if any(told) and told != code.get(job_id):
            place[job_id] = place[job_id] + 2 if job_id in place else 0
            code[job_id] = told
            steps[place[job_id]].append(facts)
        else:
            steps[place.setdefault(job_id, 0) + 1].append(facts)
    return [steps[number] for number in sorted(steps)]


async def _merge(context: Context, events: Sequence[Facts]) -> None:
    merged: dict[UUID, JobFacts] = {}
    latest: dict[UUID, Facts] = {}
    for facts in sorted(events, key=lambda facts: facts.event_time):
        job_id = context.job_id(facts)
        assert job_id is not None
        assert facts.job_facets_hash is not None
        context.ids.job_hashes[job_id] = facts.job_facets_hash
        latest[job_id] = facts
        known = merged.setdefault(job_id, JobFacts())
        known.job_facets = known.job_facets | facts.job_facets
        known.job_type = facts.job_type or known.job_type
        known.processing_type = facts.processing_type or known.processing_type
        known.integration = facts.integration or known.integration
    rows = [_job_row(job_id, latest[job_id], merged[job_id]) for job_id in sorted(merged)]
    await context.conn.execute(Q.merge_job_facets, context.organization_id, *map(list, zip(*rows, strict=True)))


def _job_row(job_id: UUID, facts: Facts, job: JobFacts) -> tuple[Any, ...]:
    facets = job.job_facets
    bodies = {name: text for name, body in facets.items() if body is not None and (text := storable(body))}
    members = ",".join(f"{msgspec.json.encode(name).decode()}:{text}" for name, text in bodies.items())
    deleted = "\x1f".join(name for name, body in facets.items() if body is None)
    return (
        job_id, facts.event_time, facts.job_facets_hash, f"{{{members}}}", deleted, job.job_type,
        job.processing_type, job.integration,
    )  # fmt: skip


async def store_facets(context: Context, contents: Sequence[Content]) -> None:
    """The newest body of every facet that these uses of datasets carry."""
    bodies: dict[tuple[UUID, str], tuple[Any, ...]] = {}
    deleted: dict[tuple[UUID, str], datetime] = {}
    for facts, use, job_id, dataset_id in contents:
        role = None if use.role == "dataset" else use.role
        for name, body in use.facets.items():
            key = (dataset_id, name)
            if body is None:
                deleted[key] = facts.event_time
                bodies.pop(key, None)
            elif len(name) <= MAX_FACET_NAME and (text := storable(body)):
                bodies[key] = (*key, text, facts.event_time, job_id, role, use.facets_hash)
    if bodies:
        columns = map(list, zip(*bodies.values(), strict=True))
        await context.conn.execute(Q.upsert_dataset_facets, context.organization_id, *columns)
    if deleted:
        ids, names = zip(*deleted, strict=True)
        times = list(deleted.values())
        await context.conn.execute(Q.delete_dataset_facets, context.organization_id, list(ids), list(names), times)
    await _describe(context, contents)


async def _describe(context: Context, contents: Sequence[Content]) -> None:
    """Type, location and life cycle, as the newest content tells them."""
    known: dict[UUID, tuple[Any, ...]] = {}
    for facts, use, _, dataset_id in contents:
        before = known.get(dataset_id, (None, None, None, None))
        known[dataset_id] = (
            dataset_id,
            stronger_type(before[1], use.told_type) if use.told_type else before[1],
            use.location or before[2],
            facts.event_time if use.lifecycle == "DROP" and facts.event_type != "START" else before[3],
        )
    rows = [known[dataset_id] for dataset_id in sorted(known)]
    await context.conn.execute(Q.describe_datasets, context.organization_id, *map(list, zip(*rows, strict=True)))


async def store_columns(context: Context, contents: Sequence[Content]) -> None:
    """Column edges of outputs whose column lineage is not what it was."""
    wanted = [
        content
        for content in contents
        if content.use.columns is not None and content.job_id is not None and content.use.role == "output"
    ]
    for content in sorted(wanted, key=lambda content: (content.job_id, content.dataset_id)):
        assert content.use.columns is not None
        assert content.job_id is not None
        await _store_column_set(context, content, content.job_id, content.use.columns.edges)


async def _store_column_set(context: Context, content: Content, job_id: UUID, edges: Sequence[ColumnEdge]) -> None:
    at = content.facts.event_time
    # A source that no event has listed as an input becomes a dataset here.
    await context.resolve({edge.source[:2]: (edge.source, None, None) for edge in edges}, at)
    assert content.use.columns is not None
    replaced = await context.conn.fetchval(
        Q.store_column_lineage,
        context.organization_id,
        job_id,
        content.dataset_id,
        at,
        content.use.columns.hash,
        [context.ids.datasets[edge.source[:2]] for edge in edges],
        [edge.source_column for edge in edges],
        [edge.target_column for edge in edges],
        [msgspec.json.encode([dict(kind) for kind in edge.kinds]).decode() for edge in edges],
        [edge.expression for edge in edges],
    )
    context.ids.has_changed_columns = context.ids.has_changed_columns or replaced
