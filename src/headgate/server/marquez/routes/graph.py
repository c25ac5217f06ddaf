"""Lineage of jobs and datasets, and of columns."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import Query
from fastapi.responses import Response

from headgate.errors import FieldError, InvalidFields, NotFound
from headgate.server.deps import Reads
from headgate.server.marquez import nodes
from headgate.server.marquez.graph.columns import Column, ColumnGraph
from headgate.server.marquez.graph.jobs import JobGraph
from headgate.server.marquez.lookup import Tenant, find_dataset, find_job, search_dataset
from headgate.server.marquez.nodes import NodeId
from headgate.server.marquez.requests import MAX_NAME, PREFIX, TAG, answer
from headgate.server.marquez.runs import RunStore
from headgate.server.marquez.schemas import ColumnGraph as ColumnGraphOut
from headgate.server.marquez.schemas import Graph
from headgate.server.problems import problems
from headgate.server.references.ids import as_id
from headgate.server.routing import new_router

router = new_router(PREFIX, TAG)
NodeParameter = Annotated[
    str,
    Query(alias="nodeId", min_length=1, max_length=2 * MAX_NAME, examples=["dataset:food_delivery:public.orders"]),
]
Depth = Annotated[int, Query(ge=0, le=100, description="How many jobs away")]
_MAX_FIELD_CUTS = 5
ColumnDepth = Annotated[int, Query(ge=0, le=100, description="How many columns away")]


@router.get("/lineage", response_model=Graph, responses=problems(NotFound))
async def get_lineage(reads: Reads, node_id: NodeParameter, depth: Depth = 20) -> Response:
    """Jobs and datasets around a node, both ways."""
    node = nodes.parse(node_id)
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        graph = JobGraph(tenant)
        if node.kind == "dataset":
            return answer(await graph.around_dataset(await find_dataset(tenant, nodes.cuts(node.text)), depth))
        return answer(await graph.around_job(await _job(tenant, node), depth))


@router.get("/column-lineage", response_model=ColumnGraphOut, responses=problems(NotFound))
async def get_column_lineage(
    reads: Reads,
    node_id: NodeParameter,
    depth: ColumnDepth = 20,
    with_downstream: Annotated[bool, Query(alias="withDownstream")] = False,
) -> Response:
    """Where the columns of a node come from and, if wanted, what comes from them."""
    node = nodes.parse(node_id)
    async with reads.open() as conn:
        tenant = Tenant(conn, reads.organization_id)
        columns = await _columns(tenant, node)
        return answer(await ColumnGraph(tenant).around(columns, depth, with_downstream=with_downstream))


async def _job(tenant: Tenant, node: NodeId) -> UUID:
    """The job that a node is, or that a run is one of."""
    if node.kind == "job":
        return await find_job(tenant, nodes.cuts(node.text))
    run_id = as_id(node.text) if node.kind == "run" else None
    if run_id is None:
        raise InvalidFields(
            [FieldError("query.nodeId", "is neither a dataset, a job nor a run", f"{node.kind}:{node.text}"[:120])],
            hint="write dataset:NAMESPACE:NAME, job:NAMESPACE:NAME or run:ID",
        )
    return await RunStore(tenant).job_of(run_id)


async def _columns(tenant: Tenant, node: NodeId) -> list[Column]:
    graph = ColumnGraph(tenant)
    if node.kind == "dataset":
        return await graph.columns_of([await find_dataset(tenant, nodes.cuts(node.text))])
    if node.kind == "datasetField":
        return [await _column(tenant, node.text)]
    return await graph.columns_written_by(await _job(tenant, node))


async def _column(tenant: Tenant, text: str) -> Column:
    """The field that the text names; a name holds colons, so the first reading that exists counts."""
    for name, field in nodes.cuts(text)[:_MAX_FIELD_CUTS]:
        dataset_id = await search_dataset(tenant, nodes.cuts(name))
        if dataset_id and (dataset_id, field) in await ColumnGraph(tenant).columns_of([dataset_id]):
            return dataset_id, field
    raise NotFound(f"no field {text!r}", hint="write datasetField:NAMESPACE:NAME:FIELD, and a field of the dataset")
