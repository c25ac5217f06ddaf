"""The worker: claims follow-ups, runs their handlers, and keeps partitions ahead of time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from uuid import UUID

import asyncpg

from headgate.errors import Unavailable
from headgate.server.db.pool import Connection, Database, Record, set_organization
from headgate.server.tasks.jobs import HANDLERS, Handler, Q

log = logging.getLogger("headgate.worker")

CLAIM_S = 300
BATCH = 500
IDLE_S = 1.0
PARTITIONS_S = 3600.0


class Worker:
    """Runs until told to stop. Any number of them may run, in any number of processes."""

    def __init__(
        self, database: Database, handlers: Mapping[str, Handler] = HANDLERS, *, idle_s: float = IDLE_S
    ) -> None:
        self._database = database
        self._handlers = handlers
        self._idle_s = idle_s
        self._partitions_at = float("-inf")

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            done = 0
            try:
                await self._keep_partitions()
                done = await self.step()
            except Unavailable as error:
                log.info("the worker waits for the database", extra={"error": str(error)})
            except asyncpg.PostgresError:
                # The boundary of a worker's round: logged, and tried again after a pause.
                log.exception("a round of the worker failed")
            if done < BATCH:
                await _pause(stop, self._idle_s)

    async def step(self) -> int:
        """Claim one batch and finish it; how many there were."""
        async with self._database.connection() as conn:
            async with conn.transaction():
                tasks = await conn.fetch(Q.claim_outbox, BATCH, CLAIM_S)
            finished: dict[UUID, list[Record]] = defaultdict(list)
            for task in tasks:
                if await self._handle(conn, task):
                    finished[task["organization_id"]].append(task)
            for organization_id, done in finished.items():
                await _complete(conn, organization_id, done)
        return len(tasks)

    async def _handle(self, conn: Connection, task: Record) -> bool:
        handler = self._handlers.get(task["kind"])
        try:
            if handler is None:
                raise LookupError(f"no handler for {task['kind']!r}")
            await handler(conn, task)
        except (asyncpg.PostgresError, LookupError, ValueError) as error:
            log.warning("a follow-up failed", extra={"kind": task["kind"], "error": str(error)})
            async with conn.transaction():
                await set_organization(conn, task["organization_id"])
                await conn.execute(
                    Q.fail_follow_up, task["organization_id"], task["id"], task["claim_token"], str(error)[:1000]
                )
            return False
        return True

    async def _keep_partitions(self) -> None:
        if time.monotonic() - self._partitions_at < PARTITIONS_S:
            return
        async with self._database.transaction() as conn:
            await conn.execute(Q.ensure_partitions)
        self._partitions_at = time.monotonic()


async def _complete(conn: Connection, organization_id: UUID, tasks: list[Record]) -> None:
    ids, tokens = [task["id"] for task in tasks], [task["claim_token"] for task in tasks]
    async with conn.transaction():
        await set_organization(conn, organization_id)
        await conn.execute(Q.complete_follow_ups, organization_id, ids, tokens)
        await conn.execute(Q.reschedule_recurring, organization_id, ids, tokens)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), timeout=seconds)
    except TimeoutError:
        return
