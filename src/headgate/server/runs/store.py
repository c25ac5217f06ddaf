"""Reads runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headgate.domain.run import producer_name
from headgate.errors import NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.runs.schemas import JobOut, RunDatasetOut, RunDetailOut, RunOut, StateOut

Q = Queries("headgate.server.runs")

_HISTORY = ("start_at", "running_at", "complete_at", "fail_at", "abort_at", "other_at")


class RunStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def list(self, *, after: tuple[datetime, UUID] | None, state: str | None, limit: int) -> list[RunOut]:
        """Runs by start, latest first."""
        at, run_id = after or (None, None)
        rows = await self._conn.fetch(Q.list_runs, self._organization_id, at, run_id, state, limit)
        return [RunOut(**_run(row)) for row in rows]

    async def get(self, run_id: UUID) -> RunDetailOut:
        row = await self._conn.fetchrow(Q.get_run, self._organization_id, run_id)
        if row is None:
            raise NotFound(f"no run {str(run_id)!r}", hint="run is the OpenLineage runId; list them at /api/v1/runs")
        datasets = await self._conn.fetch(Q.list_run_datasets, self._organization_id, run_id)
        return RunDetailOut(
            **_run(row),
            state_history=_history(row),
            is_late=bool(row["ended_at"] and row["last_activity_at"] and row["last_activity_at"] > row["ended_at"]),
            other_jobs=[JobOut(**job) for job in msgspec.json.decode(row["other_jobs"])],
            inputs=[_dataset(item) for item in datasets if item["role"] == "input"],
            outputs=[_dataset(item) for item in datasets if item["role"] == "output"],
        )


def _run(row: Record) -> dict[str, Any]:
    ended, started = row["ended_at"], row["started_at"]
    context = row["partition_context"]
    return {
        "run_id": row["run_id"],
        "job": JobOut(id=row["job_id"], namespace=row["job_namespace"], name=row["job_name"]),
        "state": row["state"],
        "started_at": started,
        "ended_at": ended,
        "duration_ms": None if ended is None else max(0, int((ended - started).total_seconds() * 1000)),
        "last_event_at": row["last_event_at"],
        "parent_run_id": row["parent_run_id"],
        "root_run_id": row["root_run_id"],
        "application_id": row["application_id"],
        "partition_context": None if context is None else msgspec.json.decode(context),
        "processing_type": row["processing_type"],
        "is_test": row["is_test"],
        "error": row["error"],
        "producer": row["producer"],
        "producer_name": producer_name(row["producer"]),
        "event_count": row["event_count"],
    }


def _history(row: Record) -> list[StateOut]:
    """When each state was first seen, by time; at the same instant in the order of a run's course."""
    seen = [(row[name], place, name) for place, name in enumerate(_HISTORY) if row[name] is not None]
    return [StateOut(state=name.removesuffix("_at").upper(), at=at) for at, _, name in sorted(seen)]


def _dataset(row: Record) -> RunDatasetOut:
    return RunDatasetOut(
        id=row["id"],
        namespace=row["namespace"],
        name=row["name"],
        urn=f"{row['namespace']}/{row['name']}",
        display_name=row["display_name"],
        type=row["type"],
        row_count=row["row_count"],
        byte_size=row["byte_size"],
        file_count=row["file_count"],
    )
