"""Namespaces, the sources that are derived from them, and tags."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path
from fastapi.responses import Response

from headgate.errors import NotFound
from headgate.server.db.pool import Record
from headgate.server.deps import Reads
from headgate.server.marquez.lookup import Q, Tenant, find_namespace
from headgate.server.marquez.requests import MAX_COUNT, MAX_NAME, PREFIX, TAG, NamespaceName, Window, Windowed, answer
from headgate.server.marquez.schemas import NamespaceList, NamespaceOut, SourceList, SourceOut, TagList
from headgate.server.problems import problems
from headgate.server.routing import new_router

router = new_router(PREFIX, TAG)
SourceName = Annotated[
    str, Path(min_length=1, max_length=MAX_NAME, description="A namespace of datasets, percent-encoded")
]


@router.get("/namespaces", response_model=NamespaceList)
async def list_namespaces(reads: Reads, window: Windowed) -> Response:
    """Every namespace of a dataset or a job, by name."""
    async with reads.open() as conn:
        rows, total = await _page(Tenant(conn, reads.organization_id), window, of_data=False)
    return answer({"namespaces": [_namespace(row) for row in rows], "totalCount": total})


@router.get("/namespaces/{namespace}", response_model=NamespaceOut, responses=problems(NotFound))
async def get_namespace(namespace: NamespaceName, reads: Reads) -> Response:
    """One namespace, by any spelling of it."""
    async with reads.open() as conn:
        return answer(_namespace(await find_namespace(Tenant(conn, reads.organization_id), namespace)))


@router.get("/sources", response_model=SourceList)
async def list_sources(reads: Reads, window: Windowed) -> Response:
    """Every namespace that has datasets, as the place where they are kept."""
    async with reads.open() as conn:
        rows, total = await _page(Tenant(conn, reads.organization_id), window, of_data=True)
    return answer({"sources": [_source(row) for row in rows], "totalCount": total})


@router.get("/sources/{source}", response_model=SourceOut, responses=problems(NotFound))
async def get_source(source: SourceName, reads: Reads) -> Response:
    """One source, by any spelling of its namespace."""
    async with reads.open() as conn:
        row = await find_namespace(Tenant(conn, reads.organization_id), source, of_data=True)
    if not row["has_data"]:
        raise NotFound(f"no source {source!r}", hint=f"list them at {PREFIX}/sources")
    return answer(_source(row))


@router.get("/tags", response_model=TagList)
async def list_tags(reads: Reads, window: Windowed) -> Response:
    """Every tag that a dataset or a column has, by name."""
    async with reads.open() as conn:
        rows = await Tenant(conn, reads.organization_id).fetch(Q.list_tags, MAX_COUNT)
    tags = [{"name": row["tag"], "description": None} for row in rows]
    return answer({"tags": window.of(tags), "totalCount": len(tags)})


async def _page(tenant: Tenant, window: Window, *, of_data: bool) -> tuple[list[Record], int]:
    names = [row["namespace"] for row in await tenant.fetch(Q.list_namespaces) if row["has_data"] or not of_data]
    return list(await tenant.fetch(Q.describe_namespaces, window.of(names))), len(names)


def _namespace(row: Record) -> dict[str, Any]:
    return {
        "name": row["namespace"],
        "createdAt": row["first_seen_at"],
        "updatedAt": row["latest_at"],
        "ownerName": "anonymous",
        "description": None,
        "isHidden": False,
    }


def _source(row: Record) -> dict[str, Any]:
    name = row["namespace"]
    scheme, separator, _ = name.partition("://")
    return {
        "type": scheme.upper() if separator else "OTHER",
        "name": name,
        "createdAt": row["first_seen_at"],
        "updatedAt": row["latest_at"],
        "connectionUrl": name,
        "description": None,
    }
