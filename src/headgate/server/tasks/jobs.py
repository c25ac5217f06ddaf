"""Housekeeping: work that every organisation needs done again and again, whatever comes in.

All of it can be done twice and interrupted anywhere, so each part has a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from uuid import UUID

from headgate.server.db.pool import Connection, Database, set_organization
from headgate.server.index.writer import catch_up
from headgate.server.queue import Batch, Kind, Send
from headgate.server.tasks.store import Q

CLEANUP_BATCH = 10_000
# Readers wait meanwhile, or see the stats as they were.
SETTLE_BATCH = 2000
# Other tasks of the lane wait meanwhile; what is left is done the next time.
INDEXING_S = 20.0
# How long tasks that are over can be looked at; those that were given up wait for a person, unless nobody comes.
KEPT_H = 72
DEAD_DAYS = 90

Chore = Callable[[Connection, UUID], Awaitable[None]]


async def clean_keys(conn: Connection, organization_id: UUID) -> None:
    """Remove idempotency keys older than a day, a batch at a time so that no transaction holds many rows."""
    await _in_batches(conn, organization_id, Q.delete_expired_keys)


async def clean_refused(conn: Connection, organization_id: UUID) -> None:
    """Remove refused events older than a week."""
    await _in_batches(conn, organization_id, Q.delete_old_refused)


async def clean_tasks(conn: Connection, organization_id: UUID, dead_days: int = DEAD_DAYS) -> None:
    """Remove tasks that were done or canceled a while ago, those that nobody took up for long, and batches."""
    await _in_batches(conn, organization_id, Q.close_left_batches)
    await _in_batches(conn, organization_id, Q.delete_old_tasks, KEPT_H, dead_days)
    await _in_batches(conn, organization_id, Q.delete_old_batches, KEPT_H)


async def index_search(conn: Connection, organization_id: UUID) -> None:
    """Index names that came in and were not searched for yet."""
    await catch_up(conn, organization_id, seconds=INDEXING_S)


async def settle_stats(conn: Connection, organization_id: UUID) -> None:
    """Work out the stats of datasets that were written since somebody read them."""
    is_left = True
    while is_left:
        async with conn.transaction():
            await set_organization(conn, organization_id)
            is_left = await conn.fetchval(Q.settle_stats, organization_id, SETTLE_BATCH)


async def _in_batches(conn: Connection, organization_id: UUID, query: str, *arguments: object) -> None:
    while True:
        async with conn.transaction():
            await set_organization(conn, organization_id)
            status = await conn.execute(query, organization_id, CLEANUP_BATCH, *arguments)
        if int(status.split()[-1]) < CLEANUP_BATCH:
            return


def _as_task(chore: Chore) -> Send:
    async def send(database: Database, batch: Batch) -> Mapping[int, BaseException]:
        async with database.connection() as conn:
            await chore(conn, batch.organization_id)
        return {}

    return send


def kinds(dead_days: int = DEAD_DAYS) -> tuple[Kind, ...]:
    return (
        Kind("CLEAN_KEYS", send=_as_task(clean_keys), every_s=600),
        Kind("CLEAN_REFUSED", send=_as_task(clean_refused), every_s=3600),
        Kind("CLEAN_TASKS", send=_as_task(partial(clean_tasks, dead_days=dead_days)), every_s=600),
        Kind("INDEX_SEARCH", send=_as_task(index_search), every_s=60),
        Kind("SETTLE_STATS", send=_as_task(settle_stats), every_s=60),
    )


KINDS = kinds()
