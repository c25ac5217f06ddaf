"""Writes groups of events. One transaction a group; the answer is known only after its commit."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg

from headgate.server.db.pool import DATABASE_GONE, Connection
from headgate.server.db.queries import Queries
from headgate.server.ingest.batch import Batch, Prepared, Written, in_time_order
from headgate.server.ingest.content import store_columns, store_facets, store_job_facets
from headgate.server.ingest.context import Context
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.quality import store_stages, store_tests
from headgate.server.ingest.symlinks import link_symlinks
from headgate.server.ingest.versions import store_schemas

Q = Queries("headgate.server.ingest")
log = logging.getLogger("headgate.ingest")

# Another writer was in the way; the same group will go through on another try.
COLLISION: tuple[type[BaseException], ...] = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.LockNotAvailableError,
)
RUN_MADE_MEANWHILE = "HG002"


class Outcome:
    """Verdicts of `ingest_events`, in its own numbers."""

    STORED = 0
    DUPLICATE = 1
    ENDED_OTHERWISE = 2
    AFTER_END = 3


def is_collision(error: BaseException) -> bool:
    return isinstance(error, COLLISION) or getattr(error, "sqlstate", None) == RUN_MADE_MEANWHILE


class IngestStore:
    """Writes one organisation's events on a connection whose transaction the caller owns."""

    def __init__(self, conn: Connection, organization_id: UUID, counters: IngestCounters) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._counters = counters

    async def write(self, tenant_code: str, events: Sequence[Prepared]) -> list[int]:
        """Store the events and everything they say; the verdict of each, in order."""
        batch = Batch(events)
        row = await self._conn.fetchrow(
            Q.ingest_events, self._organization_id, tenant_code, *batch.arguments(), timeout=120
        )
        written = Written(*row)
        if written.stale_jobs is not None:
            await self._write_secondary(batch, written)
        return written.outcome

    async def known_keys(self, keys: Sequence[bytes]) -> set[bytes]:
        rows = await self._conn.fetch(Q.find_known_keys, self._organization_id, list(keys))
        return {row["key"] for row in rows}

    async def _write_secondary(self, batch: Batch, written: Written) -> None:
        """What the events say beyond runs and lineage. None of it can fail an event."""
        context = Context(self._conn, self._organization_id, batch, written)
        fresh = [place for place, verdict in enumerate(written.outcome, 1) if verdict == Outcome.STORED]
        stale_facets = in_time_order(batch, written.stale_facets)
        steps: list[tuple[str, Sequence[Any], Callable[[Any, Any], Awaitable[None]]]] = [
            ("job facets", written.stale_jobs, store_job_facets),
            ("facets", stale_facets, store_facets),
            ("column lineage", in_time_order(batch, written.stale_columns), store_columns),
            ("schemas", in_time_order(batch, written.stale_schemas), store_schemas),
            ("tests", [place for place in fresh if batch.events[place - 1].facts.tests], store_tests),
            ("stages", [place for place in fresh if batch.events[place - 1].facts.stages], store_stages),
            ("symlinks", [row for row in stale_facets if row.use.symlinks], link_symlinks),
        ]
        for name, rows, step in steps:
            if rows:
                await self._secondary(name, rows, step, context)

    async def _secondary(
        self, name: str, rows: Sequence[Any], step: Callable[[Any, Any], Awaitable[None]], context: Context
    ) -> None:
        try:
            async with self._conn.transaction():
                await step(context, rows)
        except DATABASE_GONE:
            raise
        except (asyncpg.PostgresError, ValueError) as error:
            if is_collision(error):
                raise
            if len(rows) > 1:
                # One of them is the cause; alone, each can only take itself down.
                for row in rows:
                    await self._secondary(name, [row], step, context)
                return
            self._counters.secondary_failed.labels(fact=name).inc()
            log.warning("a secondary fact was left out", extra={"fact": name, "error": str(error)})
