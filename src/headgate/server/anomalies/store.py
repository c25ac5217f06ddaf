"""Anomalies of one organisation in the database: lists, one of them, what people make of it, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from headgate.domain.anomaly import Status
from headgate.domain.verdict import Metric
from headgate.errors import NotFound
from headgate.server.anomalies.judging.series import name_of
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page

Q = Queries("headgate.server.anomalies")

_NO_RUN: Final = UUID(int=0)
_OF_RUNS: Final = frozenset({Metric.duration_ms.value, Metric.rows_quarantined.value})


class Filters(NamedTuple):
    """Which anomalies a list shows; None, and none of several, is any."""

    dataset_id: UUID | None = None
    types: Sequence[str] = ()
    severities: Sequence[str] = ()
    statuses: Sequence[str] = ()
    run_id: UUID | None = None
    incident_id: UUID | None = None
    job_id: UUID | None = None
    column: str | None = None
    source: str | None = None
    begin: datetime | None = None
    end: datetime | None = None


class AnomalyStore:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def page(self, filters: Filters, page: Page) -> tuple[Sequence[Record], str | None]:
        """Anomalies, those that were found last first, and the cursor of the next page."""
        rows = await self._conn.fetch(
            Q.list_anomalies, self._organization_id, *filters, page.at, page.id, page.limit + 1
        )
        return page.cut(rows, "detected_at")

    async def get(self, anomaly_id: UUID) -> Record:
        row = await self._conn.fetchrow(Q.get_anomaly, self._organization_id, anomaly_id)
        if row is None:
            raise _unknown(anomaly_id)
        return row

    async def lock(self, anomaly_id: UUID) -> Record:
        """What is known of an anomaly that is about to change."""
        row = await self._conn.fetchrow(Q.lock_anomaly, self._organization_id, anomaly_id)
        if row is None:
            raise _unknown(anomaly_id)
        return row

    async def change(self, anomaly_id: UUID, before: Record, status: Status, notes: str | None, by: str) -> None:
        """Set the status; what is called a false alarm counts as usual again, and what no longer is, does not."""
        await self._conn.execute(Q.change_anomaly, self._organization_id, anomaly_id, status.value, notes, by)
        was_false, is_false = (each == Status.FALSE_POSITIVE for each in (before["status"], status))
        if was_false != is_false and before["metric"] is not None:
            await self._set_outside(before, not is_false)

    async def _set_outside(self, anomaly: Record, is_outside: bool) -> None:
        name = name_of(anomaly["metric"], anomaly["column_name"])
        if anomaly["metric"] in _OF_RUNS:
            given: tuple[Any, ...] = (anomaly["run_id"], name, is_outside)
            await self._conn.execute(Q.set_run_outside, self._organization_id, *given)
        elif anomaly["dataset_id"] is not None:
            run_id = anomaly["run_id"] or _NO_RUN
            given = (anomaly["dataset_id"], anomaly["observed_at"], run_id, anomaly["partition_key"], name, is_outside)
            await self._conn.execute(Q.set_outside, self._organization_id, *given)

    async def remove_closed(self, before: datetime, limit: int) -> int:
        """Remove so many of what was closed, and not changed, before a time; how many there were."""
        done: str = await self._conn.execute(Q.delete_closed_anomalies, self._organization_id, before, limit)
        return int(done.split()[-1])

    async def counts(self, since: datetime) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.count_anomalies, self._organization_id, since)
        return rows

    async def open_counts(self) -> Record:
        return await self._conn.fetchrow(Q.count_open, self._organization_id)


def _unknown(anomaly_id: UUID) -> NotFound:
    return NotFound(f"no anomaly {str(anomaly_id)!r}", hint="list them at /api/v1/anomalies")
