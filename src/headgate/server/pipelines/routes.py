"""Pipelines: what there is, how their runs went, what is in quarantine, and the story of a run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final
from uuid import UUID

from fastapi import Path, Query, Request
from fastapi.responses import HTMLResponse

from headgate.errors import NotFound
from headgate.server.deps import Reads
from headgate.server.pagination import DEFAULT_LIMIT, Limit, LongCursor, Paged, sorted_page
from headgate.server.pipelines import answers, schemas, telling
from headgate.server.pipelines.store import Filters, PipelineStore
from headgate.server.problems import problems
from headgate.server.routing import new_router
from headgate.story import Story, render

router = new_router("/api/v1", "pipelines")

# Three of these, percent-encoded, have to fit into what a request line may be.
_MAX_NAME = 500
Name = Annotated[str, Path(min_length=1, max_length=_MAX_NAME)]
Asked = Annotated[str | None, Query(min_length=1, max_length=_MAX_NAME)]
# A story is one file that needs nothing but itself, and text in it may come from anywhere.
_STORY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
}


@router.get("/pipelines")
async def list_pipelines(reads: Reads, limit: Limit = DEFAULT_LIMIT, cursor: LongCursor = None) -> schemas.PipelinePage:
    """Pipelines by project and name, each with its latest run."""
    page = sorted_page("name", limit, cursor)
    async with reads.open() as conn:
        rows, next_cursor = await PipelineStore(conn, reads.organization_id).pipelines(page)
    return schemas.PipelinePage(items=[answers.pipeline_out(row) for row in rows], next_cursor=next_cursor)


@router.get("/pipelines/{project}/{pipeline}", responses=problems(NotFound))
async def get_pipeline(project: Name, pipeline: Name, reads: Reads) -> schemas.PipelineDetailOut:
    """One pipeline: its nodes with their latest runs, and what it writes."""
    async with reads.open() as conn:
        store = PipelineStore(conn, reads.organization_id)
        return answers.detail_out(await store.pipeline(project, pipeline), await store.nodes(project, pipeline))


@router.get("/pipelines/{project}/{pipeline}/runs", responses=problems(NotFound))
async def list_pipeline_runs(project: Name, pipeline: Name, reads: Reads, page: Paged) -> schemas.PipelineRunPage:
    """Runs of a pipeline, the latest first."""
    async with reads.open() as conn:
        rows, cursor = await PipelineStore(conn, reads.organization_id).runs(project, pipeline, page)
    return schemas.PipelineRunPage(items=[answers.run_out(row) for row in rows], next_cursor=cursor)


@router.get("/pipelines/{project}/{pipeline}/nodes/{node}/history", responses=problems(NotFound))
async def list_node_history(
    project: Name, pipeline: Name, node: Name, reads: Reads, page: Paged
) -> schemas.PublishedPage:
    """Published runs of a node, the latest first."""
    async with reads.open() as conn:
        rows, cursor = await PipelineStore(conn, reads.organization_id).published((project, pipeline, node), page)
    return schemas.PublishedPage(items=[answers.published_out(row) for row in rows], next_cursor=cursor)


@router.get("/pipelines/{project}/{pipeline}/nodes/{node}/last", responses=problems(NotFound))
async def get_last_published(project: Name, pipeline: Name, node: Name, reads: Reads) -> schemas.LastPublishedOut:
    """The last published run of a node: what the next one is compared with, and where it goes on reading."""
    async with reads.open() as conn:
        row = await PipelineStore(conn, reads.organization_id).last_published((project, pipeline, node))
    return answers.last_out(row)


@router.get("/pipeline-runs/{run}", responses=problems(NotFound))
async def get_pipeline_run(run: UUID, reads: Reads) -> schemas.PipelineRunDetailOut:
    """One run of a pipeline with the records of its nodes and the alerts it sent."""
    async with reads.open() as conn:
        store = PipelineStore(conn, reads.organization_id)
        found = await store.run(run)
        return answers.run_detail_out(found, await store.run_nodes(run), await store.alerts(run))


@router.get("/pipeline-runs/{run}/story", response_class=HTMLResponse, responses=problems(NotFound))
async def get_pipeline_story(run: UUID, reads: Reads, request: Request) -> HTMLResponse:
    """The story of a run as one HTML page: what it did, what has changed since the last one that published, and why."""
    async with reads.snapshot() as conn:
        store = PipelineStore(conn, reads.organization_id)
        found = await store.run(run)
        before = await store.previous(found)
        record = await telling.record_of(store, found)
        story = Story(
            run=record,
            generated_at=datetime.now(UTC),
            previous=None if before is None else await telling.record_of(store, before),
            upstream=await telling.lineage_of(store, telling.inputs_of(record.nodes), "up"),
            downstream=await telling.lineage_of(store, telling.outputs_of(record.nodes), "down"),
            server_url=request.app.state.settings.public_url,
        )
    return HTMLResponse(await asyncio.to_thread(render, story), headers=_STORY_HEADERS)


@router.get("/quarantine-batches")
async def list_quarantine_batches(
    reads: Reads,
    page: Paged,
    project: Asked = None,
    pipeline: Asked = None,
    node: Asked = None,
    state: Annotated[schemas.BatchState | None, Query(description="Only batches in this state")] = None,
) -> schemas.BatchPage:
    """Batches of rows that were set apart, the latest first."""
    async with reads.open() as conn:
        asked = Filters(project, pipeline, node, state)
        rows, cursor = await PipelineStore(conn, reads.organization_id).batches(asked, page)
    return schemas.BatchPage(items=[answers.batch_out(row) for row in rows], next_cursor=cursor)
