"""Runs as Marquez shows them: reads rows and gives plain values.

What the facets of a run say is not kept apart from its events, so it is read from the log, and only as far as a
bound on bytes allows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from headgate.domain.run import RunState
from headgate.errors import NotFound
from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Record
from headgate.server.marquez import facets as read
from headgate.server.marquez.facets import EventFacets
from headgate.server.marquez.lookup import Q, Tenant
from headgate.server.marquez.requests import MAX_COUNT, Window

Json = dict[str, Any]
Named = Mapping[UUID, Record]

# Packed bytes of events that one answer may read.
_MAX_BYTES = 8 * 1024 * 1024
_EVENTS_OF_ONE = 200
_EVENTS_OF_MANY = 20
_STATES = {
    RunState.START: "RUNNING",
    RunState.RUNNING: "RUNNING",
    RunState.OTHER: "RUNNING",
    RunState.COMPLETE: "COMPLETED",
    RunState.FAIL: "FAILED",
    RunState.ABORT: "ABORTED",
}


class RunStore:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant

    async def page(self, job_id: UUID, job: Mapping[str, str], window: Window) -> tuple[list[Json], int]:
        rows = await self._tenant.fetch(Q.list_runs, job_id, window.limit, window.offset)
        runs = await self.render(rows, {job_id: job}, await self.facets([row["run_id"] for row in rows]))
        return runs, await self._tenant.count(Q.count_runs, job_id, MAX_COUNT)

    async def get(self, run_id: UUID) -> Json:
        found = await self.by_id([run_id])
        if run_id not in found:
            raise self._unknown(run_id)
        return found[run_id]

    async def job_of(self, run_id: UUID) -> UUID:
        rows = await self._tenant.fetch(Q.get_runs, [run_id])
        if not rows:
            raise self._unknown(run_id)
        job_id: UUID = rows[0]["job_id"]
        return job_id

    async def by_id(self, ids: Iterable[UUID]) -> dict[UUID, Json]:
        rows = await self._tenant.fetch(Q.get_runs, list(ids))
        jobs = {row["job_id"]: {"namespace": row["job_namespace"], "name": row["job_name"]} for row in rows}
        runs = await self.render(rows, jobs, await self.facets([row["run_id"] for row in rows]))
        return {row["run_id"]: run for row, run in zip(rows, runs, strict=True)}

    async def facets(self, ids: Sequence[UUID]) -> dict[UUID, EventFacets]:
        """What the events of each run say, the later ones over the earlier ones."""
        found: dict[UUID, EventFacets] = {}
        events = _EVENTS_OF_ONE if len(ids) == 1 else _EVENTS_OF_MANY
        for row in await self._tenant.fetch(Q.list_run_events, ids, events, _MAX_BYTES):
            found.setdefault(row["run_id"], EventFacets()).add(unpack(row["raw"]))
        return found

    async def facets_of(self, run_id: UUID) -> EventFacets:
        await self.job_of(run_id)
        return (await self.facets([run_id])).get(run_id, EventFacets())

    async def datasets(self, ids: Collection[UUID]) -> dict[UUID, Record]:
        """Names and schema versions of datasets."""
        return {row["id"]: row for row in await self._tenant.fetch(Q.list_run_datasets, list(ids))}

    async def render(
        self, rows: Sequence[Record], jobs: Mapping[UUID, Mapping[str, str]], facets: Mapping[UUID, EventFacets]
    ) -> list[Json]:
        """The runs of these rows, in their order."""
        used = {dataset_id for row in rows for dataset_id in (*row["input_ids"], *row["output_ids"])}
        datasets = await self.datasets(used)
        return [_run(row, jobs[row["job_id"]], facets.get(row["run_id"], EventFacets()), datasets) for row in rows]

    def _unknown(self, run_id: UUID) -> NotFound:
        return NotFound(f"no run {str(run_id)!r}", hint="a run is named by its OpenLineage runId")


def version_of(row: Record) -> UUID | None:
    """The version of a job that a run shows: one for each set of inputs and outputs, known once it has ended."""
    if row["ended_at"] is None:
        return None
    inputs, outputs = (",".join(sorted(map(str, row[name]))) for name in ("input_ids", "output_ids"))
    return uuid5(row["job_id"], f"{inputs}>{outputs}")


def _run(row: Record, job: Mapping[str, str], facets: EventFacets, datasets: Named) -> Json:
    started, ended = row["started_at"], row["ended_at"]
    nominal_start, nominal_end = read.nominal_times(facets.run)
    version = version_of(row)
    return {
        "id": row["run_id"],
        "createdAt": started,
        "updatedAt": row["last_event_at"],
        "nominalStartTime": nominal_start,
        "nominalEndTime": nominal_end,
        "state": _STATES[RunState(row["state"])],
        "startedAt": started,
        "endedAt": ended,
        "durationMs": _duration_ms(row),
        "args": {},
        "jobVersion": None if version is None else {**job, "version": version},
        "inputDatasetVersions": _uses(row["input_ids"], row["last_event_at"], datasets),
        "outputDatasetVersions": _uses(row["output_ids"], row["last_event_at"], datasets),
        "facets": facets.run,
    }


def _duration_ms(row: Record) -> int | None:
    """None of a run that goes on, and of one whose end is all that was told of it."""
    started, ended = row["started_at"], row["ended_at"]
    if ended is None or (row["start_at"] is None and ended <= started):
        return None
    return max(0, int((ended - started).total_seconds() * 1000))


def _uses(ids: Iterable[UUID], at: datetime, datasets: Named) -> list[Json]:
    found = sorted((datasets[id_] for id_ in ids if id_ in datasets), key=lambda row: (row["namespace"], row["name"]))
    return [
        {
            "datasetVersionId": {
                "namespace": row["namespace"],
                "name": row["name"],
                "version": _version_at(row, at),
            },
            "facets": {},
        }
        for row in found
    ]


def _version_at(row: Record, at: datetime) -> UUID:
    """The schema version that was valid then; the dataset's own id where none was known."""
    found: UUID = next((id_ for id_, since in zip(row["ids"], row["times"], strict=True) if since <= at), row["id"])
    return found
