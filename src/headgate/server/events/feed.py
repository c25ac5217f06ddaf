"""Looks for what is new in one organisation's log, and puts it into the messages of the stream."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from headgate.server.db.pool import Connection, Database, Record
from headgate.server.db.queries import Queries
from headgate.server.events.stats import HOUR, whole_hour
from headgate.server.events.watermark import Watermark

Q = Queries("headgate.server.events")

# More than this between two looks is not looked at again for what comes late.
MAX_ARRIVALS = 5000
# So many runs are told of at once; of a flood, the latest.
MAX_RUNS = 500
REPLAY = timedelta(minutes=10)

GAP = "gap"

_OVERLAP = 1000
_MAX_FAILURES = 200
# Test results of events without a run are stored under this one.
_NO_RUN = UUID(int=0)


class Message(Struct, frozen=True):
    """One thing to tell. `event_id` is the latest event that it follows from; 0 for what follows from none."""

    type: str
    body: bytes
    subject: str = ""
    event_id: int = 0


class Health(Struct, frozen=True):
    """How ingest fared since the last time it was told."""

    at: datetime
    interval_s: float
    events: int
    accepted: int
    refused: int
    lag_s: float | None


class Feed:
    """Follows the log from where it stands when `begin` is called."""

    def __init__(self, database: Database, organization_id: UUID) -> None:
        self._database = database
        self._organization_id = organization_id
        self._mark = Watermark(0)
        self._counted: dict[tuple[datetime, str], int] = {}
        self._counted_at = datetime.now(UTC)
        self._lags: list[float] = []

    @property
    def floor(self) -> int:
        """The id after which to read again to miss nothing."""
        return self._mark.floor

    async def begin(self) -> None:
        """Whatever is there now is not new. The end of it is read again: a transaction may still be filling it."""
        async with self._database.tenant(self._organization_id) as conn:
            rows = await conn.fetch(Q.find_newest, self._organization_id, _OVERLAP)
            self._mark = Watermark(rows[-1]["id"] - 1 if rows else 0)
            await self._arrivals(conn)
            self._counted = await self._counts(conn)
        self._counted_at = datetime.now(UTC)
        self._lags.clear()

    async def look(self) -> list[Message]:
        """What has come since the last look."""
        async with self._database.tenant(self._organization_id) as conn:
            new = await self._arrivals(conn)
            return await self._messages(conn, new) if new else []

    async def replay(self, after: int) -> tuple[list[Message], bool]:
        """What has come since an event, as far back as is told again; and whether that is all of it."""
        since = datetime.now(UTC) - REPLAY
        async with self._database.tenant(self._organization_id) as conn:
            has_older = await conn.fetchval(Q.has_older, self._organization_id, after, since)
            rows = await conn.fetch(Q.list_recent, self._organization_id, after, since, MAX_ARRIVALS)
            told = await self._messages(conn, rows[::-1])
        is_complete = not has_older and len(rows) < MAX_ARRIVALS and all(message.type != GAP for message in told)
        return told, is_complete

    async def health(self) -> Message:
        """How ingest fares: what was counted since the last time."""
        async with self._database.tenant(self._organization_id) as conn:
            counted = await self._counts(conn)
        now = datetime.now(UTC)
        fresh = {"accepted": 0, "refused": 0}
        for (hour, outcome), events in counted.items():
            fresh[outcome] += events - self._counted.get((hour, outcome), 0)
        told = Health(
            at=now,
            interval_s=round((now - self._counted_at).total_seconds(), 3),
            events=sum(fresh.values()),
            accepted=fresh["accepted"],
            refused=fresh["refused"],
            lag_s=round(statistics.median(self._lags), 3) if self._lags else None,
        )
        self._counted, self._counted_at = counted, now
        self._lags.clear()
        return Message("ingest", msgspec.json.encode(told))

    async def _arrivals(self, conn: Connection) -> list[Record]:
        rows = await conn.fetch(Q.list_arrivals, self._organization_id, self._mark.floor, MAX_ARRIVALS)
        events = [row for row in rows if row["id"] is not None]
        ids = [row["id"] for row in events]
        new = self._mark.look(ids, rows[0]["oldest_open"], rows[0]["next_begin"])
        if len(events) == MAX_ARRIVALS:
            self._mark.skip()
        found = [row for row in events if row["id"] in new]
        self._lags += [(row["received_at"] - row["event_time"]).total_seconds() for row in found]
        del self._lags[:-MAX_ARRIVALS]
        return found

    async def _counts(self, conn: Connection) -> dict[tuple[datetime, str], int]:
        since = whole_hour(datetime.now(UTC)) - HOUR
        rows = await conn.fetch(Q.count_by_hour, self._organization_id, since)
        return {(row["hour"], row["outcome"]): row["events"] for row in rows}

    async def _messages(self, conn: Connection, events: Sequence[Record]) -> list[Message]:
        accepted = [row for row in events if row["outcome"] == "accepted"]
        runs = await self._runs(conn, [row for row in accepted if row["kind"] == "run"])
        return [*runs, *await self._failures(conn, accepted)]

    async def _runs(self, conn: Connection, events: Sequence[Record]) -> list[Message]:
        latest = {row["run_id"]: row for row in sorted(events, key=lambda row: row["id"])}
        told = sorted(latest.values(), key=lambda row: row["id"])[-MAX_RUNS:]
        states = await conn.fetch(Q.list_states, self._organization_id, [row["run_id"] for row in told])
        by_run = {state["run_id"]: state for state in states}
        messages = [_run(row, by_run[row["run_id"]]) for row in told if row["run_id"] in by_run]
        missed = len(latest) - len(told)
        return [gap(missed), *messages] if missed else messages

    async def _failures(self, conn: Connection, events: Iterable[Record]) -> list[Message]:
        moments = {(row["run_id"] or _NO_RUN, row["event_time"]): row["id"] for row in events}
        if not moments:
            return []
        runs, times = [run for run, _ in moments], [at for _, at in moments]
        rows = await conn.fetch(Q.list_failures, self._organization_id, runs, times, _MAX_FAILURES)
        return [_failure(row, moments[(row["run_id"], row["observed_at"])]) for row in rows]


def gap(missed: int | None) -> Message:
    """Says that something was left out, and how much if that is known."""
    return Message(GAP, msgspec.json.encode({"missed": missed}))


def _run(event: Record, state: Record) -> Message:
    body = {
        "run_id": state["run_id"],
        "job": {"id": state["job_id"], "namespace": state["job_namespace"], "name": state["job_name"]},
        "state": state["state"],
        "started_at": state["started_at"],
        "ended_at": state["ended_at"],
        "at": event["received_at"],
    }
    return Message("run", msgspec.json.encode(body), f"run {state['run_id']}", event["id"])


def _failure(row: Record, event_id: int) -> Message:
    body = {
        "kind": "test_failed",
        "dataset": _dataset(row),
        "test": row["name"],
        "assertion": row["assertion"],
        "column": row["column_name"],
        "status": row["status"],
        "severity": row["severity"],
        "run_id": None if row["run_id"] == _NO_RUN else row["run_id"],
        "at": row["observed_at"],
    }
    return Message("incident", msgspec.json.encode(body), f"test {row['id']}", event_id)


def _dataset(row: Record) -> dict[str, Any] | None:
    if row["dataset_id"] is None:
        return None
    return {
        "id": row["dataset_id"],
        "namespace": row["namespace"],
        "name": row["dataset_name"],
        "urn": f"{row['namespace']}/{row['dataset_name']}",
        "display_name": row["display_name"],
        "type": row["type"],
    }
