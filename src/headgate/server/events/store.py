"""Reads the log of events, and what was refused before it could become one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from headgate.domain.run import producer_name
from headgate.errors import NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.events")

# So many rows are looked at for one page; a page of what is rare goes on where the one before it stopped.
MAX_LOOKED_AT = 200_000
COUNTED_CHARS = 500
ALWAYS = datetime(1, 1, 1, tzinfo=UTC)
NEVER = datetime(9999, 12, 31, tzinfo=UTC)

_TOP = 2**63 - 1


class Wanted(NamedTuple):
    """Which events of the log are asked for; None leaves a choice open."""

    since: datetime | None = None
    until: datetime | None = None
    producer: str | None = None
    outcome: str | None = None
    kind: str | None = None
    event_type: str | None = None
    run_id: UUID | None = None
    job_id: UUID | None = None

    @property
    def is_selective(self) -> bool:
        """Whether rows of the period may be passed over."""
        return any(part is not None for part in self[2:])


class EventStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def page(self, wanted: Wanted, *, below: int | None, limit: int) -> tuple[list[Record], int | None]:
        """Events without their bodies, newest first; and the id to go on below, if there may be more."""
        producers = None if wanted.producer is None else await self.producers(wanted.producer)
        if producers == []:
            return [], None
        first, last = await self._range(wanted, producers, below)
        if first > last:
            return [], None
        period = (first, last, wanted.since or ALWAYS, wanted.until or NEVER)
        choice = (producers, wanted.outcome, wanted.kind, wanted.event_type, wanted.job_id and [wanted.job_id])
        found = await self._conn.fetch(
            Q.list_events if wanted.run_id is None else Q.list_run_events,
            *(self._organization_id, *period, *choice, limit + 1, wanted.run_id or MAX_LOOKED_AT),
        )
        if len(found) > limit:
            return found[:limit], found[limit - 1]["id"]
        if not wanted.is_selective or wanted.run_id is not None:
            return found, None
        return found, await self._conn.fetchval(Q.find_last_looked_at, self._organization_id, *period, MAX_LOOKED_AT)

    async def get(self, event_id: int) -> Record:
        row = await self._conn.fetchrow(Q.get_event, self._organization_id, event_id)
        if row is None:
            raise NotFound(f"no event {event_id}", hint="list them at /api/v1/events")
        return row

    async def raws(self, ids: Sequence[int]) -> dict[int, bytes]:
        """Events as they came, packed; those that are gone are left out."""
        return {row["id"]: row["raw"] for row in await self._conn.fetch(Q.list_raws, self._organization_id, ids)}

    async def producers(self, text: str) -> list[str]:
        """Producers, as they are counted, that have this URL or this name."""
        rows = await self._conn.fetch(Q.list_producers, self._organization_id)
        counted = text[:COUNTED_CHARS]
        return [row["producer"] for row in rows if row["producer"] == counted or producer_name(row["producer"]) == text]

    async def refused(
        self,
        wanted: Wanted,
        *,
        code: str | None,
        correlation_id: str | None,
        after: tuple[datetime, int] | None,
        limit: int,
    ) -> list[Record]:
        """What was refused, without the bodies, newest first."""
        producers = None if wanted.producer is None else await self.producers(wanted.producer)
        at, row_id = after or (None, None)
        rows: list[Record] = await self._conn.fetch(
            Q.list_refused,
            *(self._organization_id, at, row_id, wanted.since or ALWAYS, wanted.until or NEVER),
            *(producers, code, correlation_id, limit),
        )
        return rows

    async def bodies(self, ids: Sequence[int]) -> dict[int, bytes]:
        """What is kept of refused bodies."""
        return {row["id"]: row["body"] for row in await self._conn.fetch(Q.list_bodies, self._organization_id, ids)}

    async def _range(self, wanted: Wanted, producers: list[str] | None, below: int | None) -> tuple[int, int]:
        """Between which ids to look. Hours that hold nothing of what is wanted are jumped over."""
        top = _TOP if below is None else below - 1
        if wanted.since is None and wanted.until is None and producers is None and wanted.outcome is None:
            return 0, top
        row = await self._conn.fetchrow(
            Q.find_id_range, self._organization_id, wanted.since, wanted.until, wanted.outcome, producers, below
        )
        if row["first_id"] is None:
            return 1, 0
        return row["first_id"], min(row["last_id"], top)
