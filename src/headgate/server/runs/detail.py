"""Reads one run with everything that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from headgate.domain.signals import Signal
from headgate.errors import NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.runs.facets import RunFacets
from headgate.server.runs.log.store import EventLog
from headgate.server.runs.schemas import (
    ChildOut,
    ParentJobOut,
    ParentOut,
    RunDatasetOut,
    RunDetailOut,
    SignalOut,
    StateOut,
)
from headgate.server.runs.stages.store import StageStore
from headgate.server.runs.store import RunStore, duration_ms, job_of
from headgate.server.shapes import JobOut

Q = Queries("headgate.server.runs")

MAX_DATASETS: Final = 1000
MAX_CHILDREN: Final = 100
MAX_PARENTS: Final = 20
# Facets are read from so many of the latest events, and the first few, which say what later ones do not repeat.
LATEST_EVENTS: Final = 500
FIRST_EVENTS: Final = 20
FACET_BYTES: Final = 64_000_000

_HISTORY = ("start_at", "running_at", "complete_at", "fail_at", "abort_at", "other_at")


async def check_run(conn: Connection, organization_id: UUID, run_id: UUID) -> None:
    """Raise NotFound unless the organisation has this run."""
    if not await conn.fetchval(Q.find_run, organization_id, run_id):
        raise unknown_run(run_id)


def unknown_run(run_id: UUID) -> NotFound:
    return NotFound(f"no run {str(run_id)!r}", hint="run is the OpenLineage runId; list them at /api/v1/runs")


class RunDetail:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def read(self, run_id: UUID) -> dict[str, Any]:
        """A `RunDetailOut` as values; facets are the bytes that were sent."""
        own = (self._organization_id, run_id)
        runs = await RunStore(self._conn, self._organization_id).read([run_id])
        row = await self._conn.fetchrow(Q.get_run, *own)
        if not runs or row is None:
            raise unknown_run(run_id)
        run = runs[0]
        facets, facets_truncated = await self._facets(run_id, run.job.id)
        children = await self._children(run_id)
        counts = {count["state"]: count["runs"] for count in await self._conn.fetch(Q.count_children, *own)}
        datasets = await self._conn.fetch(Q.list_run_datasets, *own, MAX_DATASETS)
        detail = RunDetailOut(
            **run.model_dump(),
            state_history=_history(row),
            is_late=bool(row["ended_at"] and row["last_activity_at"] and row["last_activity_at"] > row["ended_at"]),
            other_jobs=[JobOut(**job) for job in msgspec.json.decode(row["other_jobs"])],
            inputs=_datasets(datasets, "input"),
            input_count=row["input_count"],
            outputs=_datasets(datasets, "output"),
            output_count=row["output_count"],
            parents=[_parent(parent) for parent in await self._conn.fetch(Q.list_parents, *own, MAX_PARENTS)],
            children=children[:MAX_CHILDREN],
            children_by_state=counts,
            children_truncated=len(children) > MAX_CHILDREN,
            error_detail=facets.error(run.error),
            signals=[signal_out(signal) for signal in await StageStore(*self._context).signals(run_id)],
            facets={},
            job_facets={},
            facets_truncated=facets_truncated,
        )
        return detail.model_dump(mode="json") | {"facets": facets.run.out(), "job_facets": facets.job.out()}

    @property
    def _context(self) -> tuple[Connection, UUID]:
        return self._conn, self._organization_id

    async def _children(self, run_id: UUID) -> list[ChildOut]:
        """Runs below a run, level by level and each once; one more than are shown if there are more."""
        found: list[ChildOut] = []
        seen, level = [run_id], [run_id]
        while level and len(found) <= MAX_CHILDREN:
            room = MAX_CHILDREN + 1 - len(found)
            rows = await self._conn.fetch(Q.list_children, self._organization_id, level, seen, room)
            depth = found[-1].depth + 1 if found else 1
            found += [_child(row, depth) for row in rows]
            level = [row["run_id"] for row in rows]
            seen += level
        return found

    async def _facets(self, run_id: UUID, job_id: UUID) -> tuple[RunFacets, bool]:
        """The facets of the run, and whether some of its events were left out for being too many or too large."""
        log = EventLog(*self._context)
        rows = await log.latest(run_id, limit=LATEST_EVENTS, first=FIRST_EVENTS)
        facets, size = RunFacets(), 0
        async for row, event in log.bodies(rows):
            facets.add(event, is_main_job=row["job_id"] == job_id)
            size += len(event)
            if size > FACET_BYTES:
                return facets, True
        return facets, len(rows) >= LATEST_EVENTS + FIRST_EVENTS


def _history(row: Record) -> list[StateOut]:
    """When each state was first seen, by time; at the same instant in the order of a run's course."""
    seen = [(row[name], place, name) for place, name in enumerate(_HISTORY) if row[name] is not None]
    return [StateOut(state=name.removesuffix("_at").upper(), at=at) for at, _, name in sorted(seen)]


def _datasets(rows: Sequence[Record], role: str) -> list[RunDatasetOut]:
    return [
        RunDatasetOut(**{name: value for name, value in row.items() if name != "role"}, urn=_urn(row))
        for row in rows
        if row["role"] == role
    ]


def _urn(row: Record) -> str:
    return f"{row['namespace']}/{row['name']}"


def _parent(row: Record) -> ParentOut:
    named = row["job_namespace"] is not None and row["job_name"] is not None
    return ParentOut(
        run_id=row["run_id"],
        job=ParentJobOut(id=row["job_id"], namespace=row["job_namespace"], name=row["job_name"]) if named else None,
        state=row["state"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
    )


def _child(row: Record, depth: int) -> ChildOut:
    return ChildOut(
        run_id=row["run_id"],
        parent_run_id=row["parent_run_id"],
        depth=depth,
        job=job_of(row),
        state=row["state"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        duration_ms=duration_ms(row),
    )


def signal_out(signal: Signal) -> SignalOut:
    return SignalOut(
        code=signal.code,
        severity=signal.severity,
        value=signal.value,
        threshold=signal.threshold,
        message=signal.message,
    )
