"""Reading runs back: lists, single runs, and the runs of a dataset. Their events, stages and jobs have own modules."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated
from uuid import UUID

import msgspec
from fastapi import Query
from fastapi.responses import Response

from headgate.errors import Conflict, NotFound
from headgate.server.deps import Reads
from headgate.server.pagination import DEFAULT_LIMIT, Limit, LongCursor
from headgate.server.problems import problems
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.routing import new_router
from headgate.server.runs.detail import RunDetail
from headgate.server.runs.filters import Filtered, Text
from headgate.server.runs.jobs.routes import router as jobs_router
from headgate.server.runs.log.routes import router as log_router
from headgate.server.runs.order import RunSort, RunsPaged, run_slice
from headgate.server.runs.schemas import RunDetailOut, RunPage
from headgate.server.runs.stages.routes import router as stages_router
from headgate.server.runs.store import RunStore

router = new_router("", "runs")


class Role(StrEnum):
    read = "read"
    write = "write"
    any = "any"


_ROLES = {Role.read: ("input",), Role.write: ("output",), Role.any: ("input", "output")}


@router.get("/api/v1/runs", responses=problems(NotFound, Conflict))
async def list_runs(
    reads: Reads,
    page: RunsPaged,
    asked: Filtered,
    job: Annotated[str | None, Query(min_length=1, max_length=4000, description="Id or `namespace/name`")] = None,
    job_name: Text = None,
) -> RunPage:
    """Runs by start, the latest first unless asked otherwise.

    A page may be short while there is a `next_cursor`: the search goes on from there.
    """
    wanted = replace(asked, job=job, job_name=job_name)
    async with reads.open() as conn:
        return await RunStore(conn, reads.organization_id).page(wanted, page)


@router.get("/api/v1/runs/{run}", response_model=RunDetailOut, responses=problems(NotFound))
async def get_run(run: UUID, reads: Reads) -> Response:
    """One run: its state and how it got there, what it read and wrote, what is above and below it, its facets."""
    async with reads.open() as conn:
        detail = await RunDetail(conn, reads.organization_id).read(run)
    return Response(msgspec.json.encode(detail), media_type="application/json")


@router.get("/api/v1/datasets/{dataset}/runs", responses=problems(NotFound, Conflict))
async def list_dataset_runs(
    dataset: DatasetRef,
    reads: Reads,
    role: Annotated[Role, Query()] = Role.any,
    limit: Limit = DEFAULT_LIMIT,
    cursor: LongCursor = None,
) -> RunPage:
    """Runs that read or wrote a dataset, latest start first."""
    page = await run_slice(RunSort.latest_first, limit, cursor)
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        return await RunStore(conn, reads.organization_id).of_dataset(found, _ROLES[role], page)


for part in (log_router, stages_router, jobs_router):
    router.include_router(part)
