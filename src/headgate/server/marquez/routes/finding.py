"""Search by name, and the events as they were received."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response, StreamingResponse

from headgate.errors import NotFound
from headgate.server.deps import Reading, Reads
from headgate.server.marquez.finding.events import Direction, EventLog, Wanted
from headgate.server.marquez.finding.search import Filter, Search, Sort, search
from headgate.server.marquez.lookup import Tenant, find_namespace
from headgate.server.marquez.requests import (
    MAX_LIMIT,
    MAX_NAME,
    PREFIX,
    TAG,
    NamespaceName,
    Time,
    Window,
    Windowed,
    answer,
)
from headgate.server.marquez.schemas import EventList, SearchResults
from headgate.server.problems import problems
from headgate.server.routing import new_router

router = new_router(PREFIX, TAG)
Text = Annotated[str, Query(min_length=1, max_length=500, description="Any part of a name; `%` and `_` as in SQL")]
NamespaceFilter = Annotated[str | None, Query(max_length=MAX_NAME)]
SortDirection = Annotated[Direction, Query(alias="sortDirection")]


@router.get("/search", response_model=SearchResults)
async def search_names(
    reads: Reads,
    q: Text,
    filter_: Annotated[Filter | None, Query(alias="filter")] = None,
    sort: Sort = Sort.name_,
    limit: Annotated[int, Query(ge=0, le=MAX_LIMIT)] = 10,
    namespace: NamespaceFilter = None,
    after: Time = None,
    before: Time = None,
) -> Response:
    """Datasets and jobs by a part of their name."""
    wanted = Search(q, filter_, sort, limit, namespace or None, after, before)
    async with reads.open() as conn:
        results, total = await search(Tenant(conn, reads.organization_id), wanted)
    return answer({"totalCount": total, "results": results})


@router.get("/events/lineage", response_model=EventList)
@router.get("/events", response_model=EventList)
async def list_lineage_events(
    reads: Reads,
    window: Windowed,
    after: Time = None,
    before: Time = None,
    direction: SortDirection = Direction.desc,
) -> Response:
    """Accepted events byte for byte, the last received first."""
    return await _listed(reads, Wanted.of(after, before), direction, window)


@router.get("/events/{namespace}", response_model=EventList, responses=problems(NotFound))
async def list_namespace_events(
    namespace: NamespaceName,
    reads: Reads,
    window: Windowed,
    after: Time = None,
    before: Time = None,
    direction: SortDirection = Direction.desc,
) -> Response:
    """Accepted events of the jobs of a namespace, byte for byte, the last received first."""
    async with reads.open() as conn:
        found = await find_namespace(Tenant(conn, reads.organization_id), namespace)
    return await _listed(reads, Wanted.of(after, before, found["namespace"]), direction, window)


async def _listed(reads: Reading, wanted: Wanted, direction: Direction, window: Window) -> Response:
    log = EventLog(reads)
    body = log.body(wanted, direction, window, await log.count(wanted))
    return StreamingResponse(body, media_type="application/json")
