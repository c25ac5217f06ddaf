"""Jobs: what there is, how they are doing, and everything about one of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query
from fastapi.responses import Response

from headgate.errors import Conflict, NotFound
from headgate.server.deps import Reads
from headgate.server.pagination import DEFAULT_LIMIT, Limit, LongCursor, sorted_page
from headgate.server.problems import problems
from headgate.server.references.jobs import JobRef, find_job
from headgate.server.routing import new_router
from headgate.server.runs.filters import AnyCaseState, Filtered, Hours, Text
from headgate.server.runs.jobs.schemas import CountryPage, JobDetailOut, JobPage, JobsSummaryOut
from headgate.server.runs.jobs.store import JobFilter, JobStore
from headgate.server.runs.jobs.summary import summarize
from headgate.server.runs.order import JobSort, RunsPaged
from headgate.server.runs.schemas import RunPage
from headgate.server.runs.store import RunStore

router = new_router("/api/v1/jobs", "jobs")


@router.get("", response_model=JobPage)
async def list_jobs(
    reads: Reads,
    text: Text = None,
    namespace: Text = None,
    job_type: Annotated[str | None, Query(alias="type", min_length=1, max_length=2000)] = None,
    integration: Text = None,
    state: Annotated[list[AnyCaseState] | None, Query(description="One of these is the latest run's state")] = None,
    sort: JobSort = JobSort.name,
    limit: Limit = DEFAULT_LIMIT,
    cursor: LongCursor = None,
) -> Response:
    """Jobs by name, each with its latest run. A page may be short while there is a `next_cursor`."""
    asked = JobFilter(text, namespace, job_type, integration, tuple(state) if state else None)
    page = sorted_page(sort, limit, cursor)
    async with reads.open() as conn:
        items, next_cursor = await JobStore(conn, reads.organization_id).page(asked, page)
    return _json({"items": items, "next_cursor": next_cursor})


@router.get("/countries")
async def list_countries(reads: Reads) -> CountryPage:
    """Countries in the partition contexts of recent runs."""
    async with reads.open() as conn:
        return CountryPage(items=await JobStore(conn, reads.organization_id).countries(), next_cursor=None)


@router.get("/stats/summary")
async def get_jobs_summary(reads: Reads, hours: Hours = 24) -> JobsSummaryOut:
    """How the runs that started within the last hours went, and what goes on now."""
    async with reads.open() as conn:
        return await summarize(conn, reads.organization_id, hours)


@router.get("/{job}", response_model=JobDetailOut, responses=problems(NotFound, Conflict))
async def get_job(job: JobRef, reads: Reads) -> Response:
    """One job: what it says of itself, what it reads and writes, how its runs go, what it is part of."""
    async with reads.open() as conn:
        found = await find_job(conn, reads.organization_id, job)
        return _json(await JobStore(conn, reads.organization_id).detail(found))


@router.get("/{job}/runs", responses=problems(NotFound, Conflict))
async def list_job_runs(job: JobRef, reads: Reads, page: RunsPaged, asked: Filtered) -> RunPage:
    """Runs of a job by start, the latest first unless asked otherwise."""
    async with reads.open() as conn:
        found = await find_job(conn, reads.organization_id, job)
        return await RunStore(conn, reads.organization_id).page(asked, page, job_id=found.id)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
