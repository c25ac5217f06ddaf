"""Lineage between datasets, of jobs and of single runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import msgspec
from fastapi import Depends, Query
from fastapi.responses import Response

from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.deps import Reads
from headgate.server.lineage import graphs, paths, schemas
from headgate.server.lineage.graphs import MAX_DEPTH, Bounds, Json
from headgate.server.lineage.hierarchy import JobGraphOut, job_graph
from headgate.server.lineage.map import MapStore
from headgate.server.lineage.runs.routes import add_run_lineage
from headgate.server.lineage.store import LineageStore, Q
from headgate.server.lineage.streams import HeldStream
from headgate.server.problems import problems
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.routing import new_router
from headgate.server.times import Moment

DEFAULT_DEPTH = 10
DEFAULT_STEPS = 2
MAX_NODES = 10_000
DEFAULT_NODES = 1000
MAX_PATHS = 100
MAX_MAP = 1_000_000
DEFAULT_MAP = 100_000

router = new_router("/api/v1", "lineage")
add_run_lineage(router)
_unknown = problems(NotFound, Conflict)

Depth = Annotated[int | None, Query(ge=1, le=MAX_DEPTH, description=f"How many steps to follow; {DEFAULT_DEPTH}")]
DepthAlias = Annotated[int | None, Query(ge=1, le=MAX_DEPTH, description="The same as `depth`, which wins")]
Steps = Annotated[int, Query(ge=0, le=MAX_DEPTH, description="How many steps to follow that way")]
Limit = Annotated[int, Query(ge=1, le=MAX_NODES, description="How many datasets to show at most")]
Columns = Annotated[bool, Query(description="Whether each edge tells its columns")]
AsOf = Annotated[Moment | None, Query(description="The graph as it was at this moment")]
From = Annotated[str, Query(alias="from", min_length=1, max_length=4000, description="Where the paths begin")]
To = Annotated[str, Query(alias="to", min_length=1, max_length=4000, description="Where they lead, downstream")]


class View(NamedTuple):
    """What of a dataset's lineage is asked for."""

    depth: int
    limit: int
    columns: bool
    as_of: Moment | None


async def view_of(
    depth: Depth = None,
    max_depth: DepthAlias = None,
    limit: Limit = DEFAULT_NODES,
    columns: Columns = False,
    as_of: AsOf = None,
) -> View:
    return View(depth or max_depth or DEFAULT_DEPTH, limit, columns, as_of)


Viewed = Annotated[View, Depends(view_of)]


@router.get("/datasets/{dataset}/upstream", response_model=schemas.LineageOut, responses=_unknown)
async def get_upstream(dataset: DatasetRef, reads: Reads, view: Viewed) -> Response:
    """Everything that a dataset is made of, nearest first."""
    return await _lineage(dataset, reads, view, Bounds(view.depth, None, view.limit))


@router.get("/datasets/{dataset}/downstream", response_model=schemas.LineageOut, responses=_unknown)
async def get_downstream(dataset: DatasetRef, reads: Reads, view: Viewed) -> Response:
    """Everything that is made of a dataset, nearest first."""
    return await _lineage(dataset, reads, view, Bounds(None, view.depth, view.limit))


@router.get("/datasets/{dataset}/lineage", response_model=schemas.LineageOut, responses=_unknown)
async def get_lineage(dataset: DatasetRef, reads: Reads, view: Viewed) -> Response:
    """Both: what a dataset is made of, and what is made of it."""
    return await _lineage(dataset, reads, view, Bounds(view.depth, view.depth, view.limit))


async def _lineage(dataset: str, reads: Reads, view: View, bounds: Bounds) -> Response:
    async with reads.open() as conn:
        root = await find_dataset(conn, reads.organization_id, dataset)
        store = LineageStore(conn, reads.organization_id, view.as_of)
        answer = await graphs.lineage(store, root.id, bounds, with_columns=view.columns)
    return _json(answer)


@router.get("/lineage", response_model=schemas.NeighbourhoodOut | JobGraphOut, responses=_unknown)
async def get_graph(
    reads: Reads,
    root: Annotated[str | None, Query(max_length=4000, description="A dataset; this or `job`")] = None,
    job: Annotated[str | None, Query(max_length=4000, description="A job; this or `root`")] = None,
    up: Steps = DEFAULT_STEPS,
    down: Steps = DEFAULT_STEPS,
    limit: Limit = DEFAULT_NODES,
    columns: Columns = False,
    as_of: AsOf = None,
    depth: Annotated[int, Query(ge=1, le=MAX_DEPTH, description="How many steps to follow from a job")] = DEFAULT_STEPS,
    rollup: Annotated[bool, Query(description="Whether the parts of a job are shown as the job itself")] = True,
) -> Response:
    """The neighbourhood of a dataset or a job; each dataset tells how many more there are next to it."""
    if not root and not job:
        raise _wrong("root", "is needed, or job")
    if root and job:
        raise _wrong("job", "cannot be given together with root")
    async with reads.open() as conn:
        if job:
            return _json(await job_graph(conn, reads.organization_id, job, depth=depth, limit=limit, rollup=rollup))
        found = await find_dataset(conn, reads.organization_id, root or "")
        store = LineageStore(conn, reads.organization_id, as_of)
        return _json(await graphs.neighbourhood(store, found.id, Bounds(up, down, limit), with_columns=columns))


@router.get("/lineage/paths", response_model=schemas.PathsOut, responses=_unknown)
async def get_paths(
    reads: Reads,
    source: From,
    target: To,
    limit: Annotated[int, Query(ge=1, le=MAX_PATHS, description="How many paths to show at most")] = 10,
    as_of: AsOf = None,
) -> Response:
    """Ways along which data gets from one dataset to another, shortest first."""
    async with reads.open() as conn:
        begin = await find_dataset(conn, reads.organization_id, source)
        end = await find_dataset(conn, reads.organization_id, target)
        store = LineageStore(conn, reads.organization_id, as_of)
        answer = await paths.paths_between(store, begin.id, end.id, limit)
    return _json(answer)


@router.get("/lineage/map", response_model=schemas.MapOut)
async def get_map(
    reads: Reads,
    limit: Annotated[int, Query(ge=1, le=MAX_MAP, description="How many datasets to show, by name")] = DEFAULT_MAP,
) -> Response:
    """The whole graph as columns: arrays of the same length, and edges as pairs of places in them."""
    return HeldStream(_map_parts(reads, limit), media_type="application/json")


@asynccontextmanager
async def _map_parts(reads: Reads, limit: int) -> AsyncIterator[AsyncIterator[bytes]]:
    async with reads.open() as conn:
        await conn.execute(Q.settle_stats, reads.organization_id)
    async with reads.snapshot() as conn:
        store = MapStore(conn, reads.organization_id)
        yield _in_turn(store.stream(await store.count(), limit))


async def _in_turn(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for part in parts:
        yield part
        # Others have their turn even when nothing is waited for.
        await asyncio.sleep(0)


def _json(answer: Json) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _wrong(name: str, message: str) -> InvalidFields:
    return InvalidFields([FieldError(f"query.{name}", message)], hint="give one of root and job")
