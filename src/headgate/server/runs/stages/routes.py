"""What the Spark stages of a run cost, by the run or by its job."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Path

from headgate.domain.signals import signals
from headgate.errors import Conflict, NotFound
from headgate.server.db.pool import Connection
from headgate.server.deps import Reads
from headgate.server.pagination import Numbered, NumberedPage, encode_number
from headgate.server.problems import problems
from headgate.server.references.jobs import JobRef, find_job
from headgate.server.routing import new_router
from headgate.server.runs.detail import check_run, signal_out
from headgate.server.runs.filters import RunFilter
from headgate.server.runs.order import RunSlice
from headgate.server.runs.stages.schemas import CostOut, StageDetailOut, StageItemOut, StageOut, StagePage
from headgate.server.runs.stages.store import StageStore
from headgate.server.runs.store import RunStore

router = new_router("/api/v1", "runs")

StageId = Annotated[int, Path(ge=0, le=2_147_483_647)]
_NOBODY = UUID(int=0)


@router.get("/runs/{run}/stages", responses=problems(NotFound))
async def list_run_stages(run: UUID, reads: Reads, page: Numbered) -> StagePage:
    """Stages of a run in their order, each as its latest attempt, and what the whole run cost."""
    async with reads.open() as conn:
        await check_run(conn, reads.organization_id, run)
        return await _page(StageStore(conn, reads.organization_id), run, page)


@router.get("/runs/{run}/stages/{stage_id}", responses=problems(NotFound))
async def get_run_stage(run: UUID, stage_id: StageId, reads: Reads) -> StageDetailOut:
    """One stage: its latest attempt, and all of them."""
    async with reads.open() as conn:
        await check_run(conn, reads.organization_id, run)
        return await _detail(StageStore(conn, reads.organization_id), run, stage_id)


@router.get("/jobs/{job}/stages", responses=problems(NotFound, Conflict))
async def list_job_stages(job: JobRef, reads: Reads, page: Numbered) -> StagePage:
    """Stages of the latest run of a job, or of the run that was named."""
    async with reads.open() as conn:
        run = await _run_of(conn, reads.organization_id, job)
        return await _page(StageStore(conn, reads.organization_id), run, page)


@router.get("/jobs/{job}/stages/{stage_id}", responses=problems(NotFound, Conflict))
async def get_job_stage(job: JobRef, stage_id: StageId, reads: Reads) -> StageDetailOut:
    """One stage of the latest run of a job, or of the run that was named."""
    async with reads.open() as conn:
        run = await _run_of(conn, reads.organization_id, job)
        return await _detail(StageStore(conn, reads.organization_id), run, stage_id)


async def _run_of(conn: Connection, organization_id: UUID, text: str) -> UUID:
    job = await find_job(conn, organization_id, text)
    if job.run_id is not None:
        return job.run_id
    latest = await RunStore(conn, organization_id).page(RunFilter(), RunSlice(1), job_id=job.id)
    if not latest.items:
        raise NotFound(f"job {job.urn!r} has no runs", hint="stages are those of a run")
    return latest.items[0].run_id


async def _page(store: StageStore, run: UUID, page: NumberedPage) -> StagePage:
    after = -1 if page.number is None else max(-1, min(page.number, 2_147_483_647))
    rows = await store.page(run, after=after, limit=page.limit + 1)
    shown = rows[: page.limit]
    totals = await store.totals(run)
    return StagePage(
        run_id=run,
        items=[StageItemOut(**row) for row in shown],
        totals=None if totals is None else CostOut(**totals),
        signals=[signal_out(signal) for signal in signals(totals or {})],
        next_cursor=encode_number(shown[-1]["stage_id"], _NOBODY) if len(rows) > page.limit else None,
    )


async def _detail(store: StageStore, run: UUID, stage_id: int) -> StageDetailOut:
    attempts = await store.attempts(run, stage_id)
    latest = {name: value for name, value in attempts[0].items() if name != "run_id"}
    return StageDetailOut(**latest, run_id=run, attempts=[StageOut(**attempt) for attempt in attempts])
