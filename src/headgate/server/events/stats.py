"""Reads what was counted as events came in: by hour, by producer, by reason; and how long events took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from headgate.domain.conformance import producer_version
from headgate.domain.run import producer_name
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.events.schemas import (
    DuplicatesOut,
    HourOut,
    IngestStatsOut,
    LagOut,
    ProducerOut,
    ReasonOut,
    TotalsOut,
)

Q = Queries("headgate.server.events")

HOUR = timedelta(hours=1)
MAX_HOURS = 720
UNKNOWN = "unknown"

# Percentiles need every value; those of the newest events say how things are.
_LAG_EVENTS = 10_000
_MAX_PRODUCERS = 500


class StatsStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def ingest(self, hours: int, now: datetime, duplicates: DuplicatesOut) -> IngestStatsOut:
        """The last hours, the current one included."""
        since = whole_hour(now) - (hours - 1) * HOUR
        counted = await self._conn.fetch(Q.count_by_hour, self._organization_id, since)
        by_hour = list(_filled(counted, since, hours))
        accepted, refused = sum(hour.accepted for hour in by_hour), sum(hour.refused for hour in by_hour)
        return IngestStatsOut(
            hours=hours,
            since=since,
            until=now,
            totals=TotalsOut(events=accepted + refused, accepted=accepted, refused=refused),
            by_hour=by_hour,
            producers=await self._producers(since, now),
            refused=await self._reasons(since),
            duplicates=duplicates,
            lag=await self._lag(since),
        )

    async def _producers(self, since: datetime, now: datetime) -> list[ProducerOut]:
        """Those of the longest window, so that one that has gone silent is still there with its last event."""
        heard_since = whole_hour(now) - MAX_HOURS * HOUR
        rows = await self._conn.fetch(Q.count_by_producer, self._organization_id, heard_since, since, _MAX_PRODUCERS)
        return [_producer(row) for row in rows]

    async def _reasons(self, since: datetime) -> list[ReasonOut]:
        rows = await self._conn.fetch(Q.count_by_reason, self._organization_id, since)
        return [ReasonOut(reason=row["reason"], events=row["events"], last_received_at=row["last_at"]) for row in rows]

    async def _lag(self, since: datetime) -> LagOut:
        span = await self._conn.fetchrow(Q.find_id_range, self._organization_id, since, None, None, None, None)
        if span["first_id"] is None:
            return LagOut(events=0, p50_s=None, p95_s=None, max_s=None)
        row = await self._conn.fetchrow(Q.measure_lag, self._organization_id, span["first_id"], since, _LAG_EVENTS)
        return LagOut(**dict(row))


def whole_hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)


def shown_name(producer: str) -> str:
    return producer_name(producer) if producer else UNKNOWN


def _filled(counted: Sequence[Record], since: datetime, hours: int) -> Iterator[HourOut]:
    """Every hour of the window, those without events too."""
    found = {(row["hour"], row["outcome"]): row["events"] for row in counted}
    for place in range(hours):
        hour = since + place * HOUR
        yield HourOut(hour=hour, accepted=found.get((hour, "accepted"), 0), refused=found.get((hour, "refused"), 0))


def _producer(row: Record) -> ProducerOut:
    return ProducerOut(
        producer=row["producer"],
        name=shown_name(row["producer"]),
        version=producer_version(row["producer"]),
        last_received_at=row["last_at"],
        events=row["accepted"] + row["refused"],
        accepted=row["accepted"],
        refused=row["refused"],
    )
