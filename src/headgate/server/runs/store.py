"""Finds runs by what is asked of them, and reads them.

Runs are picked first, which `picking` does, and read afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.run import producer_name
from headgate.domain.stuck import GOING_ON, NO_HISTORY, History, expected_end
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.references.datasets import Dataset
from headgate.server.references.jobs import find_job
from headgate.server.runs.filters import RunFilter
from headgate.server.runs.order import Place, RunSlice
from headgate.server.runs.picking.store import RunPicker, Wanted
from headgate.server.runs.schemas import RunOut, RunPage
from headgate.server.shapes import JobOut

Q = Queries("headgate.server.runs")

# A look at so many runs takes less than a second.
MAX_LOOKED_AT: Final = 200_000
# Runs of so many jobs are found job by job; with more, most runs are of one of them.
_FEW_JOBS: Final = 20
_ROUNDS: Final = 10


class Now(NamedTuple):
    """How many runs go on, and how many of those should have ended."""

    running: int
    stuck: int


class RunStore:
    def __init__(self, conn: Connection, organization_id: UUID, *, max_looked_at: int = MAX_LOOKED_AT) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._max_looked_at = max_looked_at
        self._picker = RunPicker(conn, organization_id, max_looked_at)

    async def page(self, asked: RunFilter, page: RunSlice, *, job_id: UUID | None = None) -> RunPage:
        """Runs by start."""
        wanted = await self._wanted(asked, job_id)
        if asked.stuck is None:
            places, end = await self._picker.pick(wanted, page)
            items = await self.read([place.run_id for place in places])
        else:
            items, end = await self._judged(wanted, page)
        return RunPage(items=items, next_cursor=page.cursor(end))

    async def of_dataset(self, dataset: Dataset, roles: Sequence[str], page: RunSlice) -> RunPage:
        """Runs that read or wrote a dataset, latest first."""
        places, end = await self._picker.pick_of_dataset(dataset.id, roles, page)
        items = await self.read([place.run_id for place in places])
        return RunPage(items=items, next_cursor=page.cursor(end))

    async def read(self, run_ids: Sequence[UUID]) -> list[RunOut]:
        """These runs, in the order given, each with whether it should have ended."""
        rows = await self._conn.fetch(Q.list_runs, self._organization_id, run_ids) if run_ids else []
        histories = await self._histories({row["job_id"] for row in rows if row["state"] in GOING_ON})
        now = datetime.now(UTC)
        return [_run(row, histories.get(row["job_id"], NO_HISTORY), now) for row in rows]

    async def count_now(self, max_judged: int) -> Now:
        """What goes on among the newest runs; whether it should have ended is looked at for those that began first."""
        rows = await self._conn.fetch(Q.list_going_on, self._organization_id, self._max_looked_at, max_judged)
        histories = await self._histories({row["job_id"] for row in rows})
        now = datetime.now(UTC)
        dues = [_due(row, histories.get(row["job_id"], NO_HISTORY)) for row in rows]
        stuck = sum(due is not None and now > due for due in dues)
        return Now(rows[0]["running"] if rows else 0, stuck)

    async def _wanted(self, asked: RunFilter, job_id: UUID | None) -> Wanted:
        if job_id is not None:
            return Wanted(asked, [job_id])
        if asked.job is not None:
            job = await find_job(self._conn, self._organization_id, asked.job)
            return Wanted(asked, [job.id])
        if asked.job_name is None:
            return Wanted(asked)
        rows = await self._conn.fetch(Q.find_jobs_like, self._organization_id, asked.job_name, _FEW_JOBS + 1)
        if len(rows) > _FEW_JOBS:
            return Wanted(asked, None, asked.job_name)
        return Wanted(asked, [row["id"] for row in rows])

    async def _judged(self, wanted: Wanted, page: RunSlice) -> tuple[list[RunOut], Place | None]:
        """Runs that are, or are not, stuck: which of them are is known only after they are read."""
        found: list[RunOut] = []
        look = replace(page, limit=max(page.limit, 100))
        end: Place | None = None
        for _ in range(_ROUNDS):
            places, end = await self._picker.pick(wanted, look)
            read = await self.read([place.run_id for place in places])
            found += [run for run in read if run.is_stuck == wanted.filter.stuck]
            if len(found) > page.limit:
                found = found[: page.limit]
                return found, Place(found[-1].started_at, found[-1].run_id)
            if end is None:
                break
            look = replace(look, place=end)
        return found, end

    async def _histories(self, job_ids: set[UUID]) -> dict[UUID, History]:
        if not job_ids:
            return {}
        rows = await self._conn.fetch(Q.list_durations, self._organization_id, list(job_ids))
        return {row["id"]: History(*(row[name] for name in History._fields)) for row in rows}


def duration_ms(row: Record) -> int | None:
    """None of a run that goes on, and of one whose end is all that was told of it."""
    started_at, ended_at = row["started_at"], row["ended_at"]
    if ended_at is None or (row["start_at"] is None and ended_at <= started_at):
        return None
    return max(0, int((ended_at - started_at).total_seconds() * 1000))


def job_of(row: Record) -> JobOut:
    return JobOut(id=row["job_id"], namespace=row["job_namespace"], name=row["job_name"])


def _due(row: Record, history: History) -> datetime | None:
    kinds = (row["processing_type"], row["job_processing_type"])
    is_streaming = any((kind or "").upper() == "STREAMING" for kind in kinds)
    return expected_end(row["state"], row["started_at"], history, is_streaming=is_streaming)


def _run(row: Record, history: History, now: datetime) -> RunOut:
    context = row["partition_context"]
    due = _due(row, history)
    is_stuck = due is not None and now > due
    return RunOut(
        run_id=row["run_id"],
        job=job_of(row),
        state=row["state"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        duration_ms=duration_ms(row),
        last_event_at=row["last_event_at"],
        parent_run_id=row["parent_run_id"],
        root_run_id=row["root_run_id"],
        application_id=row["application_id"],
        partition_context=None if context is None else msgspec.json.decode(context),
        processing_type=row["processing_type"],
        is_test=row["is_test"],
        error=row["error"],
        producer=row["producer"],
        producer_name=producer_name(row["producer"]),
        event_count=row["event_count"],
        is_stuck=is_stuck,
        expected_end=due,
        stuck_since=due if is_stuck else None,
    )
