"""Lineage between columns, and what a change would hit."""

from __future__ import annotations

from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec
from fastapi import Depends, Path, Query
from fastapi.responses import Response

from headgate.errors import Conflict, NotFound
from headgate.server.columns import answers, schemas
from headgate.server.columns.edges import Json
from headgate.server.columns.impact import ImpactStore, Question
from headgate.server.columns.reasons import Reason, why_no_source, why_no_use
from headgate.server.columns.store import ColumnStore, Walk
from headgate.server.deps import Reading, Reads
from headgate.server.problems import problems
from headgate.server.references.datasets import Dataset, DatasetRef, find_dataset
from headgate.server.routing import new_router

MAX_DEPTH = 20
DEFAULT_DEPTH = 10
MAX_NODES = 10_000
DEFAULT_NODES = 1000

router = new_router("/api/v1", "columns")
_unknown = problems(NotFound, Conflict)

ColumnName = Annotated[
    str,
    Path(
        description="Name of a column, percent-encoded; nested ones with dots",
        min_length=1,
        max_length=1000,
        examples=["address.city"],
    ),
]
Depth = Annotated[int | None, Query(ge=1, le=MAX_DEPTH, description=f"How many steps to follow; {DEFAULT_DEPTH}")]
DepthAlias = Annotated[int | None, Query(ge=1, le=MAX_DEPTH, description="The same as `depth`, which wins")]
Limit = Annotated[int, Query(ge=1, le=MAX_NODES, description="How many to show at most")]


class Bounds(NamedTuple):
    depth: int
    limit: int


async def bounds_of(depth: Depth = None, max_depth: DepthAlias = None, limit: Limit = DEFAULT_NODES) -> Bounds:
    return Bounds(depth or max_depth or DEFAULT_DEPTH, limit)


Bounded = Annotated[Bounds, Depends(bounds_of)]


@router.get("/datasets/{dataset}/column-lineage", response_model=schemas.ColumnLineageOut, responses=_unknown)
async def get_column_lineage(dataset: DatasetRef, reads: Reads, limit: Limit = DEFAULT_NODES) -> Response:
    """Column edges into and out of a dataset, and for each of its columns without a source, why."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = ColumnStore(conn, reads.organization_id)
        rows = await store.edges(found, limit + 1)
        names = [field["name"] for field in await store.fields(found)]
        counts, writers = await store.counts(found), await store.writers(found)
        losses, _ = await store.losses(found)
    return _json(answers.column_lineage(found, rows, limit, names, counts, writers, losses))


@router.get("/datasets/{dataset}/columns", response_model=schemas.ColumnsOut, responses=_unknown)
async def list_columns(dataset: DatasetRef, reads: Reads) -> Response:
    """Columns of a dataset, all on one page: those of its current schema, then those that only lineage knows."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = ColumnStore(conn, reads.organization_id)
        fields, counts = await store.fields(found), await store.counts(found)
        tags, notes = await store.tags(found), await store.notes(found)
    return _json(answers.columns(found, fields, counts, tags, notes))


@router.get("/datasets/{dataset}/columns/{column}/upstream", response_model=schemas.ColumnGraphOut, responses=_unknown)
async def get_column_upstream(dataset: DatasetRef, column: ColumnName, reads: Reads, bounds: Bounded) -> Response:
    """Columns that a column is made of."""
    return await _graph(reads, dataset, column, ("upstream",), bounds)


@router.get(
    "/datasets/{dataset}/columns/{column}/downstream", response_model=schemas.ColumnGraphOut, responses=_unknown
)
async def get_column_downstream(dataset: DatasetRef, column: ColumnName, reads: Reads, bounds: Bounded) -> Response:
    """Columns that are made of a column."""
    return await _graph(reads, dataset, column, ("downstream",), bounds)


@router.get("/datasets/{dataset}/columns/{column}/lineage", response_model=schemas.ColumnGraphOut, responses=_unknown)
async def get_column_graph(dataset: DatasetRef, column: ColumnName, reads: Reads, bounds: Bounded) -> Response:
    """Columns that a column is made of, and those that are made of it; `limit` holds for each direction."""
    return await _graph(reads, dataset, column, ("upstream", "downstream"), bounds)


@router.get("/datasets/{dataset}/columns/{column}/impact", response_model=schemas.ColumnImpactOut, responses=_unknown)
async def get_column_impact(dataset: DatasetRef, column: ColumnName, reads: Reads, bounds: Bounded) -> Response:
    """What a change of a column would hit, by dataset, and how critical that is."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        store = ColumnStore(conn, reads.organization_id)
        await store.check(found, column)
        walk = await store.walk(found, [column], "down", *bounds)
        edges = await store.edges_between(walk.rows)
        reason = None if walk.reached() else await _why_no_use(store, found, column)
        readers = await store.possible_readers(walk, bounds.depth)
    return _json(answers.column_impact(found, column, walk, edges, reason, readers))


@router.get("/datasets/{dataset}/impact", response_model=schemas.DatasetImpactOut, responses=_unknown)
async def get_dataset_impact(
    dataset: DatasetRef,
    reads: Reads,
    bounds: Bounded,
    if_schema_changes: Annotated[
        bool, Query(description="Only what a change of the schema would hit, as far as column lineage tells")
    ] = False,
    column: Annotated[str | None, Query(min_length=1, max_length=1000, description="The column that changes")] = None,
) -> Response:
    """Tables downstream of a dataset, the pipelines that make them and who owns them."""
    question = Question(column, if_schema_changes, *bounds)
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        if column is not None:
            await ColumnStore(conn, reads.organization_id).check(found, column)
        store = ImpactStore(conn, reads.organization_id)
        answer = await store.describe(await store.of_dataset(found, question), [found.id])
    asked = {"column": column, "if_schema_changes": if_schema_changes}
    return _json({"dataset": answers.dataset_ref(found._asdict()), **asked, **answer})


@router.get("/runs/{run}/impact", response_model=schemas.RunImpactOut, responses=problems(NotFound))
async def get_run_impact(
    run: UUID,
    reads: Reads,
    max_depth: Annotated[int, Query(ge=1, le=MAX_DEPTH, description="How many steps to follow")] = DEFAULT_DEPTH,
    limit: Limit = DEFAULT_NODES,
) -> Response:
    """What lies downstream of all that a run has written."""
    async with reads.open() as conn:
        store = ImpactStore(conn, reads.organization_id)
        outputs = await store.outputs(run)
        answer = await store.describe(await store.downstream(outputs, max_depth, limit), outputs)
        refs = await store.refs(outputs)
    return _json({"run_id": run, "outputs": refs, **answer})


async def _graph(reads: Reading, reference: str, column: str, directions: tuple[str, ...], bounds: Bounds) -> Response:
    async with reads.open() as conn:
        dataset = await find_dataset(conn, reads.organization_id, reference)
        store = ColumnStore(conn, reads.organization_id)
        names = await store.check(dataset, column)
        walks = {
            direction: await store.walk(dataset, [column], direction.removesuffix("stream"), *bounds)
            for direction in directions
        }
        edges = await store.edges_between(answers.merged(list(walks.values())))
        reasons = await _reasons(store, dataset, column, names, walks)
        down = walks.get("downstream")
        readers = await store.possible_readers(down, bounds.depth) if down else []
    return _json(answers.graph(dataset, column, list(walks.values()), edges, reasons, readers))


async def _reasons(
    store: ColumnStore, dataset: Dataset, column: str, names: list[str], walks: dict[str, Walk]
) -> dict[str, Reason | None]:
    """Why there is nothing, for each direction in which there is nothing."""
    found: dict[str, Reason | None] = {}
    if "upstream" in walks and not walks["upstream"].reached():
        losses, _ = await store.losses(dataset)
        found["upstream"] = why_no_source(column, names, await store.writers(dataset), losses)
    if "downstream" in walks and not walks["downstream"].reached():
        found["downstream"] = await _why_no_use(store, dataset, column)
    return found


async def _why_no_use(store: ColumnStore, dataset: Dataset, column: str) -> Reason:
    _, losses = await store.losses(dataset)
    return why_no_use(column, await store.readers(dataset), losses)


def _json(answer: Json) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")
