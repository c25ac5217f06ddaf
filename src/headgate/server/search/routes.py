"""Search over datasets, columns, jobs, pipelines and runs."""

from __future__ import annotations

import asyncio
from typing import Annotated
from uuid import UUID
from weakref import WeakValueDictionary

from fastapi import Query

from headgate.server.db.pool import Database
from headgate.server.deps import Db, Reader
from headgate.server.index.writer import catch_up
from headgate.server.pagination import MAX_LIMIT
from headgate.server.routing import new_router
from headgate.server.search.describe import Item
from headgate.server.search.ranking import Kind
from headgate.server.search.schemas import ItemOut, SearchOut
from headgate.server.search.store import SearchStore

DEFAULT_LIMIT = 20
# A search waits this long for names that came in just now; the worker does the rest.
PATIENCE_S = 0.2
BATCH = 250

router = new_router("/api/v1", "search")
_indexing: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

Text = Annotated[
    str,
    Query(
        min_length=1, max_length=200, description="Part of a name, several words, a urn or an id", examples=["orders"]
    ),
]
Kinds = Annotated[list[Kind] | None, Query(description="What to look for; may be repeated. Left out: everything")]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]


@router.get("/search")
async def search(q: Text, caller: Reader, database: Db, kind: Kinds = None, limit: Limit = DEFAULT_LIMIT) -> SearchOut:
    """What fits a text, best first: whole names, beginnings of names and of words, text inside words, words alike."""
    kinds = kind or list(Kind)
    organization_id = caller.organization_id
    async with database.tenant(organization_id) as conn:
        store = SearchStore(conn, organization_id)
        if not await store.is_behind():
            results = await store.search(q.strip(), kinds, limit)
            return _answer(q, results.items, truncated=results.is_cut, indexing=False)
    is_done = await _catch_up(database, organization_id)
    async with database.tenant(organization_id) as conn:
        store = SearchStore(conn, organization_id)
        await store.is_behind()
        results = await store.search(q.strip(), kinds, limit)
    return _answer(q, results.items, truncated=results.is_cut, indexing=not is_done)


async def _catch_up(database: Database, organization_id: UUID) -> bool:
    # Searches of one organisation wait for each other here, where they hold no connection.
    async with _indexing.setdefault(organization_id, asyncio.Lock()), database.connection() as conn:
        return await catch_up(conn, organization_id, seconds=PATIENCE_S, batch=BATCH)


def _answer(q: str, items: list[Item], *, truncated: bool, indexing: bool) -> SearchOut:
    return SearchOut(query=q, items=[_item(item) for item in items], truncated=truncated, indexing=indexing)


def _item(item: Item) -> ItemOut:
    found, dataset = item.found, item.dataset
    return ItemOut(
        kind=found.kind,
        id=item.id,
        namespace=item.namespace,
        name=item.name,
        urn=dataset.urn if dataset and found.kind is Kind.dataset else None,
        display=dataset.display_name if dataset and found.kind is Kind.dataset else item.name,
        dataset=dataset.out() if dataset and found.kind is Kind.column else None,
        dropped=item.is_dropped,
        match=found.match,
        score=found.score,
    )
