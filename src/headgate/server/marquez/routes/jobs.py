"""Jobs, their versions and their runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated
from uuid import UUID

from fastapi import Path, Query
from fastapi.responses import Response

from headgate.errors import NotFound
from headgate.server.deps import Reads
from headgate.server.marquez.jobs import JobStore
from headgate.server.marquez.lookup import Tenant, find_job, find_namespace
from headgate.server.marquez.requests import PREFIX, TAG, JobName, NamespaceName, Windowed, answer
from headgate.server.marquez.runs import RunStore
from headgate.server.marquez.schemas import (
    JobList,
    JobOut,
    JobVersionList,
    JobVersionOut,
    RunFacets,
    RunList,
    RunOut,
)
from headgate.server.problems import problems
from headgate.server.routing import new_router

router = new_router(PREFIX, TAG)
_JOB = "/namespaces/{namespace}/jobs/{job}"
RunId = Annotated[UUID, Path(description="The OpenLineage runId")]


class FacetKind(StrEnum):
    run = "run"
    job = "job"


@router.get("/jobs", response_model=JobList)
async def list_jobs(reads: Reads, window: Windowed) -> Response:
    """Jobs of every namespace, by namespace and name."""
    async with reads.open() as conn:
        jobs, total = await JobStore(Tenant(conn, reads.organization_id)).page(window)
    return answer({"jobs": jobs, "totalCount": total})


@router.get("/namespaces/{namespace}/jobs", response_model=JobList, responses=problems(NotFound))
async def list_namespace_jobs(namespace: NamespaceName, reads: Reads, window: Windowed) -> Response:
    """Jobs of a namespace, by name."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        found = await find_namespace(tenant, namespace)
        jobs, total = await JobStore(tenant).page_of(found["namespace"], window)
    return answer({"jobs": jobs, "totalCount": total})


@router.get(_JOB, response_model=JobOut, responses=problems(NotFound))
async def get_job(namespace: NamespaceName, job: JobName, reads: Reads) -> Response:
    """One job with its latest runs."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        job_id = await find_job(tenant, [(namespace, job)])
        return answer((await JobStore(tenant).details([job_id], with_run_facets=True))[0])


@router.get(f"{_JOB}/versions", response_model=JobVersionList, responses=problems(NotFound))
async def list_job_versions(namespace: NamespaceName, job: JobName, reads: Reads, window: Windowed) -> Response:
    """The different sets of inputs and outputs that the job's latest 1,000 runs had, latest first."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        versions = await JobStore(tenant).versions(await find_job(tenant, [(namespace, job)]))
    return answer({"versions": window.of(versions), "totalCount": len(versions)})


@router.get(f"{_JOB}/versions/{{version}}", response_model=JobVersionOut, responses=problems(NotFound))
async def get_job_version(namespace: NamespaceName, job: JobName, version: UUID, reads: Reads) -> Response:
    """One set of inputs and outputs that the job had."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        return answer(await JobStore(tenant).version(await find_job(tenant, [(namespace, job)]), version))


@router.get(f"{_JOB}/runs", response_model=RunList, responses=problems(NotFound))
async def list_job_runs(namespace: NamespaceName, job: JobName, reads: Reads, window: Windowed) -> Response:
    """Runs of a job, latest start first."""
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        job_id = await find_job(tenant, [(namespace, job)])
        runs, total = await RunStore(tenant).page(job_id, await JobStore(tenant).name(job_id), window)
    return answer({"runs": runs, "totalCount": total})


@router.get("/jobs/runs/{run}", response_model=RunOut, responses=problems(NotFound))
async def get_job_run(run: RunId, reads: Reads) -> Response:
    """One run."""
    async with reads.open() as conn:
        return answer(await RunStore(Tenant(conn, reads.organization_id)).get(run))


@router.get("/jobs/runs/{run}/facets", response_model=RunFacets, responses=problems(NotFound))
async def get_run_facets(
    run: RunId, kind: Annotated[FacetKind, Query(alias="type", description="Of the run, or of its job")], reads: Reads
) -> Response:
    """What the events of the run say of it, or of its job."""
    async with reads.open() as conn:
        facets = await RunStore(Tenant(conn, reads.organization_id)).facets_of(run)
    return answer({"runId": run, "facets": facets.run if kind is FacetKind.run else facets.job})
