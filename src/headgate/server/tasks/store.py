"""Tasks as they are kept: reading them, and what a person may do to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import NumberedPage, encode_number

Q = Queries("headgate.server.tasks")

# Beyond this, numbers say "at least".
COUNTED = 20_000
SHOWN_ATTEMPTS = 100

_NOBODY = UUID(int=0)
_LAST = 2**63 - 1


class TaskFilter(NamedTuple):
    task_type: str | None = None
    statuses: Sequence[str] | None = None
    resource_type: str | None = None
    resource_id: str | None = None


class TaskStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def list(self, wanted: TaskFilter, page: NumberedPage) -> tuple[Sequence[Record], str | None]:
        """Tasks, newest first, and the cursor of the next page."""
        more: tuple[object, ...]
        begin, limit = _begin(page), page.limit + 1
        if wanted.resource_id is not None:
            query, more = Q.list_tasks_of_resource, (*wanted[:2], wanted.resource_id, wanted.resource_type)
        elif wanted.task_type is not None or wanted.statuses is not None:
            query, more = Q.list_tasks_by_kind, wanted[:2]
        else:
            query, more = Q.list_tasks, ()
        return _cut(await self._conn.fetch(query, self._organization_id, begin, limit, *more), page)

    async def find(self, task_id: int) -> Record | None:
        return await self._conn.fetchrow(Q.find_task, self._organization_id, task_id)

    async def attempts(self, task_id: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.list_attempts, self._organization_id, task_id, SHOWN_ATTEMPTS)
        return rows

    async def retry(self, task_id: int) -> Record | None:
        """The task, now due; None if it is waiting, at work, done or not there."""
        return await self._conn.fetchrow(Q.retry_task, self._organization_id, task_id)

    async def cancel(self, task_id: int, reason: str) -> Record | None:
        """The task, now canceled; None if it is over, recurring or not there."""
        return await self._conn.fetchrow(Q.cancel_task, self._organization_id, task_id, reason)

    async def retry_all(self, status: str, task_type: str | None, limit: int) -> int:
        """Make so many tasks due; how many there were."""
        done: str = await self._conn.execute(Q.retry_tasks, self._organization_id, status, task_type, limit)
        return int(done.split()[-1])

    async def count_open(self, most: int) -> int:
        number: int = await self._conn.fetchval(Q.count_open, self._organization_id, most)
        return number

    async def counts(self) -> tuple[Sequence[Record], Sequence[Record]]:
        """Numbers by type and state, and what is due by type."""
        states = await self._conn.fetch(Q.count_tasks, self._organization_id, COUNTED)
        return states, await self._conn.fetch(Q.count_due, self._organization_id, COUNTED)

    async def batches(self, task_type: str | None, page: NumberedPage) -> tuple[Sequence[Record], str | None]:
        """Batches, newest first, and the cursor of the next page."""
        query, more = (Q.list_batches, ()) if task_type is None else (Q.list_batches_of_type, (task_type,))
        rows = await self._conn.fetch(query, self._organization_id, _begin(page), page.limit + 1, *more)
        return _cut(rows, page)


def _begin(page: NumberedPage) -> int:
    return _LAST if page.number is None else page.number


def _cut(rows: Sequence[Record], page: NumberedPage) -> tuple[Sequence[Record], str | None]:
    kept = rows[: page.limit]
    return kept, encode_number(kept[-1]["id"], _NOBODY) if len(rows) > page.limit else None
