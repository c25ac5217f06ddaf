"""How much is waiting in the whole installation, for Prometheus: asked of the database when somebody scrapes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import asyncpg
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headgate.errors import HeadgateError
from headgate.server.db.pool import DATABASE_GONE, Database, Record
from headgate.server.tasks.counters import MAX_TENANTS, OTHER
from headgate.server.tasks.store import COUNTED, Q

# Whoever scrapes more often gets the same numbers again: the route is public.
FRESH_S = 5.0
TIMEOUT_S = 2.0
MAX_SERIES = 2000

_UNKNOWN: tuple[type[BaseException], ...] = (HeadgateError, asyncpg.PostgresError, *DATABASE_GONE)
_log = logging.getLogger(__name__)


class Due(NamedTuple):
    """How much of a type is due, and since when."""

    number: int
    oldest_at: datetime


class Backlog(Collector):
    """What is due by type and tenant, the largest first, and a zero for what was; nothing while the database does not
    say."""

    def __init__(self, database: Database, registry: CollectorRegistry, *, fresh_s: float = FRESH_S) -> None:
        self._database = database
        self._fresh_s = fresh_s
        self._rows: Sequence[Record] | None = None
        self._known: dict[tuple[str, str], None] = {}
        self._fresh_until = float("-inf")
        self._asking = asyncio.Lock()
        registry.register(self)

    async def refresh(self) -> None:
        """Ask, unless that was done just now; callers at the same moment share one question."""
        async with self._asking:
            if time.monotonic() >= self._fresh_until:
                self._rows = await self._ask()
                self._fresh_until = time.monotonic() + self._fresh_s

    async def keep_fresh(self, stop: asyncio.Event) -> None:
        """Ask again and again, for whoever scrapes from another thread."""
        while not stop.is_set():
            await self.refresh()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), self._fresh_s)

    async def _ask(self) -> Sequence[Record] | None:
        try:
            async with asyncio.timeout(TIMEOUT_S), self._database.transaction() as conn:
                rows: Sequence[Record] = await conn.fetch(Q.count_due_tasks, COUNTED, MAX_SERIES)
                return rows
        except _UNKNOWN as error:
            _log.debug("the backlog is not known: %s", error)
            return None

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        labels, now = ("type", "tenant"), datetime.now(UTC)
        backlog = GaugeMetricFamily("headgate_tasks_backlog", "Tasks that are due", labels=labels)
        oldest = GaugeMetricFamily("headgate_tasks_oldest_due_seconds", "Since when the oldest is", labels=labels)
        for values, due in self._due(now).items():
            backlog.add_metric(values, due.number)
            oldest.add_metric(values, max(0.0, (now - due.oldest_at).total_seconds()))
        yield from (backlog, oldest)

    def _due(self, now: datetime) -> dict[tuple[str, str], Due]:
        """What is due; what was due before is zero now, so that a graph goes down instead of ending."""
        if self._rows is None:
            return {}
        found = _named(self._rows)
        self._known = dict.fromkeys(list({**found, **self._known})[:MAX_SERIES])
        return {**dict.fromkeys(self._known, Due(0, now)), **found}


def _named(rows: Sequence[Record]) -> dict[tuple[str, str], Due]:
    """By type and tenant; beyond so many tenants the rest, which have the least to do, together."""
    tenants = set(list(dict.fromkeys(row["tenant_code"] for row in rows))[:MAX_TENANTS])
    found: dict[tuple[str, str], Due] = {}
    for row in rows:
        key = (row["task_type"], row["tenant_code"] if row["tenant_code"] in tenants else OTHER)
        before = found.get(key, Due(0, row["oldest_at"]))
        found[key] = Due(before.number + row["number"], min(before.oldest_at, row["oldest_at"]))
    return found
