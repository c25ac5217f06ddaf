"""Tasks whose effects can be counted: each leaves a row of a table, in the transaction in which it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg

from headgate.server.db.pool import Connection, Database
from headgate.server.queue import Batch, Kind, NewTask, content_hash, enqueue
from headgate.server.worker import Worker

EFFECTS = "CREATE TABLE effects (organization_id uuid, resource_id text); GRANT ALL ON effects TO headgate_app"


def a_task(resource: object = "1", task_type: str = "WORK", **given: Any) -> NewTask:
    return NewTask(task_type, "THING", str(resource), content_hash(resource), **given)


async def make(database: Database, organization_id: UUID, *tasks: NewTask) -> int:
    async with database.tenant(organization_id) as conn:
        return await enqueue(conn, organization_id, tasks)


async def note_effects(conn: Connection, batch: Batch) -> None:
    await conn.execute(
        "INSERT INTO effects SELECT $1, unnest($2::text[])",
        batch.organization_id,
        [task.resource_id for task in batch.tasks],
    )


@dataclass
class Recorder:
    """A handler that notes what it is given, does `then`, and leaves its effects."""

    then: Callable[[Batch], Awaitable[None]] | None = None
    batches: list[Batch] = field(default_factory=list)

    async def __call__(self, conn: Connection, batch: Batch) -> None:
        self.batches.append(batch)
        await note_effects(conn, batch)
        if self.then is not None:
            await self.then(batch)

    @property
    def sizes(self) -> list[int]:
        return [len(batch.tasks) for batch in self.batches]

    @property
    def organizations(self) -> list[UUID]:
        return [batch.organization_id for batch in self.batches]

    def kind(self, task_type: str = "WORK", **given: Any) -> Kind:
        return Kind(task_type, handle=self, **given)


def poison(*resources: str, error: Callable[[], BaseException] = lambda: ValueError("bad thing")) -> Any:
    """Fails for batches that hold one of these."""

    async def then(batch: Batch) -> None:
        if any(task.resource_id in resources for task in batch.tasks):
            raise error()

    return then


async def tasks_of(db: asyncpg.Connection, *columns: str, type_: str = "WORK") -> list[tuple[Any, ...]]:
    """Columns of the tasks of a type, in the order in which they were made."""
    rows = await db.fetch(f"SELECT {', '.join(columns)} FROM async_task WHERE task_type = $1 ORDER BY id", type_)
    return [tuple(row) for row in rows]


async def attempts_of(db: asyncpg.Connection, *columns: str) -> list[tuple[Any, ...]]:
    rows = await db.fetch(f"SELECT {', '.join(columns)} FROM async_task_attempt ORDER BY task_id, attempt_no")
    return [tuple(row) for row in rows]


async def effects_of(db: asyncpg.Connection) -> list[str]:
    return [row[0] for row in await db.fetch("SELECT resource_id FROM effects ORDER BY resource_id")]


async def make_due(db: asyncpg.Connection) -> None:
    """As if the time to wait had passed."""
    await db.execute("UPDATE async_task SET next_run_at = now() WHERE status IN ('PENDING', 'FAILED')")


async def expire_claims(db: asyncpg.Connection) -> None:
    """As if workers had not been heard of for long."""
    await db.execute("UPDATE async_task SET claim_until = now() - interval '1 second' WHERE status = 'RUNNING'")


async def expire_claims_of(db: asyncpg.Connection, pid: int) -> None:
    """As if a worker, which is gone, had not been heard of for long."""
    await db.execute(
        """UPDATE async_task SET claim_until = now() - interval '1 second'
            WHERE status = 'RUNNING' AND split_part(worker_id, ':', 2)::integer = $1""",
        pid,
    )


@asynccontextmanager
async def running(*workers: Worker) -> AsyncIterator[None]:
    """Workers that run meanwhile."""
    stop = asyncio.Event()
    loops = [asyncio.create_task(worker.run(stop)) for worker in workers]
    try:
        yield
    finally:
        stop.set()
        _, late = await asyncio.wait(loops, timeout=5)
        for loop in late:
            loop.cancel()
        await asyncio.gather(*loops)


async def until(is_so: Callable[[], bool], seconds: float = 30) -> None:
    for _ in range(round(seconds * 100)):
        if is_so():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come so")


def ids(batches: Sequence[Batch]) -> list[str]:
    return [task.resource_id for batch in batches for task in batch.tasks]
