"""What the worker does for each kind of follow-up. Handlers are idempotent: a claim may run out and return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from headgate.server.db.pool import Connection, Record, set_organization
from headgate.server.db.queries import Queries
from headgate.server.index.writer import catch_up

Q = Queries("headgate.server.tasks")
CLEANUP_BATCH = 10_000
# Readers wait meanwhile, or see the stats as they were.
SETTLE_BATCH = 2000
# Other follow-ups wait meanwhile; what is left is done the next time.
INDEXING_S = 20.0

Handler = Callable[[Connection, Record], Awaitable[None]]


async def clean_idempotency(conn: Connection, task: Record) -> None:
    """Remove keys older than a day, a batch at a time so that no transaction holds many rows."""
    await _in_batches(conn, Q.delete_expired_keys, task)


async def clean_refused(conn: Connection, task: Record) -> None:
    """Remove refused events older than a week."""
    await _in_batches(conn, Q.delete_old_refused, task)


async def index_search(conn: Connection, task: Record) -> None:
    """Index names that came in and were not searched for yet."""
    await catch_up(conn, task["organization_id"], seconds=INDEXING_S)


async def settle_stats(conn: Connection, task: Record) -> None:
    """Work out the stats of datasets that were written since somebody read them."""
    is_left = True
    while is_left:
        async with conn.transaction():
            await set_organization(conn, task["organization_id"])
            is_left = await conn.fetchval(Q.settle_stats, task["organization_id"], SETTLE_BATCH)


async def take_note(conn: Connection, task: Record) -> None:
    """Follow-ups that nothing acts on yet: they are claimed, counted and done."""


async def _in_batches(conn: Connection, query: str, task: Record) -> None:
    while True:
        async with conn.transaction():
            await set_organization(conn, task["organization_id"])
            status = await conn.execute(query, task["organization_id"], CLEANUP_BATCH)
        if int(status.split()[-1]) < CLEANUP_BATCH:
            return


HANDLERS: Mapping[str, Handler] = {
    "cleanup_idempotency": clean_idempotency,
    "cleanup_refused": clean_refused,
    "index_search": index_search,
    "dataset_stats": settle_stats,
    "run_finished": take_note,
    "metrics_recorded": take_note,
    "test_failed": take_note,
    "schema_changed": take_note,
}
