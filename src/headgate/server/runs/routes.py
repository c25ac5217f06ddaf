"""Reading runs back."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from headgate.domain.run import RunState
from headgate.errors import Forbidden, NotFound, Unauthenticated
from headgate.server.deps import Db, Reader
from headgate.server.pagination import Paged, encode
from headgate.server.problems import problems
from headgate.server.runs.schemas import RunDetailOut, RunPage
from headgate.server.runs.store import RunStore

router = APIRouter(prefix="/api/v1/runs", tags=["runs"], responses=problems(Unauthenticated, Forbidden))


@router.get("")
async def list_runs(
    database: Db, caller: Reader, page: Paged, state: Annotated[RunState | None, Query()] = None
) -> RunPage:
    """Runs, latest start first."""
    after = (page.at, page.id) if page.at is not None and page.id is not None else None
    async with database.tenant(caller.organization_id) as conn:
        found = await RunStore(conn, caller.organization_id).list(after=after, state=state, limit=page.limit + 1)
    items = found[: page.limit]
    more = len(found) > page.limit
    return RunPage(items=items, next_cursor=encode(items[-1].started_at, items[-1].run_id) if more else None)


@router.get("/{run}", responses=problems(NotFound))
async def get_run(run: UUID, database: Db, caller: Reader) -> RunDetailOut:
    """One run: its state and how it got there, and what it read and wrote."""
    async with database.tenant(caller.organization_id) as conn:
        return await RunStore(conn, caller.organization_id).get(run)
