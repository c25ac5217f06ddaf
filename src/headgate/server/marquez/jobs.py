"""Jobs and their versions, as Marquez shows them: reads rows and gives plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Raw

from headgate.errors import NotFound
from headgate.server.db.pool import Record
from headgate.server.marquez import facets as read
from headgate.server.marquez.lookup import Q, Tenant
from headgate.server.marquez.requests import MAX_COUNT, Window
from headgate.server.marquez.runs import RunStore, version_of

Json = dict[str, Any]

MAX_USES = 50_000
# Versions are not stored; they are told from this many of a job's latest runs.
MAX_VERSION_RUNS = 1000
_LATEST_RUNS = 10
_TYPES = {"STREAMING": "STREAM", "STREAM": "STREAM", "SERVICE": "SERVICE"}


class Use(NamedTuple):
    """A dataset that a job reads or writes now."""

    job_id: UUID
    role: str
    dataset_id: UUID
    namespace: str
    name: str


class JobStore:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._runs = RunStore(tenant)

    async def page(self, window: Window) -> tuple[list[Json], int]:
        rows = await self._tenant.fetch(Q.list_job_ids, *window)
        return await self.details([row["id"] for row in rows]), await self._tenant.count(Q.count_jobs, MAX_COUNT)

    async def page_of(self, namespace: str, window: Window) -> tuple[list[Json], int]:
        rows = await self._tenant.fetch(Q.list_namespace_job_ids, namespace, *window)
        total = await self._tenant.count(Q.count_namespace_jobs, namespace, MAX_COUNT)
        return await self.details([row["id"] for row in rows]), total

    async def details(self, ids: Sequence[UUID], *, with_run_facets: bool = False) -> list[Json]:
        """These jobs with all that is known of them. Facets of runs are in the log, so they are read on demand."""
        rows = await self._tenant.fetch(Q.list_jobs, ids)
        runs = await self._latest_runs(rows, _LATEST_RUNS, with_facets=with_run_facets)
        nodes = await self._nodes(rows, runs)
        return [
            nodes[row["id"]] | {"latestRuns": [run for _, run in runs.get(row["id"], ())], "facets": _facets(row)}
            for row in rows
        ]

    async def nodes(self, ids: Sequence[UUID]) -> dict[UUID, Json]:
        """These jobs as a graph shows them."""
        rows = await self._tenant.fetch(Q.list_jobs, ids)
        return await self._nodes(rows, await self._latest_runs(rows, 1, with_facets=False))

    async def name(self, job_id: UUID) -> dict[str, str]:
        row = (await self._tenant.fetch(Q.list_jobs, [job_id]))[0]
        return {"namespace": row["namespace"], "name": row["name"]}

    async def uses(self, jobs: Collection[UUID]) -> list[Use]:
        """What these jobs read and write now."""
        return [Use(**dict(row)) for row in await self._tenant.fetch(Q.list_uses, list(jobs), MAX_USES)]

    async def versions(self, job_id: UUID) -> list[Json]:
        """The sets of inputs and outputs that the job's latest runs had, latest first."""
        job = (await self._tenant.fetch(Q.list_jobs, [job_id]))[0]
        rows = await self._tenant.fetch(Q.list_runs, job_id, MAX_VERSION_RUNS, 0)
        groups: dict[UUID, list[Record]] = {}
        for row in rows:
            if (version := version_of(row)) is not None:
                groups.setdefault(version, []).append(row)
        latest = [group[0] for group in groups.values()]
        runs = await self._runs.render(latest, {job_id: _name(job)}, {})
        return [_version(job, version, group, run) for (version, group), run in zip(groups.items(), runs, strict=True)]

    async def version(self, job_id: UUID, version: UUID) -> Json:
        found = next((item for item in await self.versions(job_id) if item["version"] == version), None)
        if found is None:
            raise NotFound(f"no version '{version}' of this job", hint="list them at the same path without the id")
        return found

    async def _latest_runs(
        self, jobs: Sequence[Record], count: int, *, with_facets: bool
    ) -> dict[UUID, list[tuple[Record, Json]]]:
        rows = await self._tenant.fetch(Q.list_latest_runs, [job["id"] for job in jobs], count)
        facets = await self._runs.facets([row["run_id"] for row in rows]) if with_facets else {}
        runs = await self._runs.render(rows, {job["id"]: _name(job) for job in jobs}, facets)
        found: dict[UUID, list[tuple[Record, Json]]] = {}
        for row, run in zip(rows, runs, strict=True):
            found.setdefault(row["job_id"], []).append((row, run))
        return found

    async def _nodes(
        self, rows: Sequence[Record], runs: Mapping[UUID, Sequence[tuple[Record, Json]]]
    ) -> dict[UUID, Json]:
        uses: dict[tuple[UUID, str], list[Json]] = {}
        for use in await self.uses([row["id"] for row in rows]):
            uses.setdefault((use.job_id, use.role), []).append({"namespace": use.namespace, "name": use.name})
        return {
            row["id"]: _node(row, runs.get(row["id"], ()))
            | {"inputs": uses.get((row["id"], "input"), []), "outputs": uses.get((row["id"], "output"), [])}
            for row in rows
        }


def _node(row: Record, runs: Sequence[tuple[Record, Json]]) -> Json:
    facets = _facets(row)
    parent = _parent(runs)
    times = [row["first_seen_at"], row["facets_at"], *(run["updatedAt"] for _, run in runs)]
    versions = (version for record, _ in runs if (version := version_of(record)) is not None)
    return {
        "id": _name(row),
        "type": _TYPES.get((row["processing_type"] or "").upper(), "BATCH"),
        "name": row["name"],
        "simpleName": row["name"].removeprefix(f"{parent}.") if parent else row["name"],
        "parentJobName": parent,
        "createdAt": row["first_seen_at"],
        "updatedAt": max(at for at in times if at is not None),
        "namespace": row["namespace"],
        "location": read.location(facets),
        "description": read.description(facets),
        "latestRun": runs[0][1] if runs else None,
        "tags": read.tags(facets),
        "labels": [],
        "currentVersion": next(versions, None),
    }


def _parent(runs: Sequence[tuple[Record, Json]]) -> str | None:
    told = next((record["parent_job"] for record, _ in runs if record["parent_job"]), None)
    return msgspec.json.decode(told)["name"] if told else None


def _version(job: Record, version: UUID, runs: Sequence[Record], latest: Json) -> Json:
    return {
        "id": {**_name(job), "version": version},
        "name": job["name"],
        "createdAt": min(row["started_at"] for row in runs),
        "version": version,
        "namespace": job["namespace"],
        "location": read.location(_facets(job)),
        "inputs": _names(latest["inputDatasetVersions"]),
        "outputs": _names(latest["outputDatasetVersions"]),
        "latestRun": latest,
    }


def _names(uses: Sequence[Json]) -> list[Json]:
    ids = (use["datasetVersionId"] for use in uses)
    return [{"namespace": id_["namespace"], "name": id_["name"]} for id_ in ids]


def _name(row: Record) -> dict[str, str]:
    return {"namespace": row["namespace"], "name": row["name"]}


def _facets(row: Record) -> dict[str, Raw]:
    return msgspec.json.decode(row["facets"], type=dict[str, Raw])
