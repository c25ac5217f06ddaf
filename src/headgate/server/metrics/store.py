"""Reads and thins out what was measured of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.metrics")

FIGURES = ("row_count", "byte_size", "file_count")

_BATCH = 50_000
_NOBODY = UUID(int=0)


class Place(NamedTuple):
    """Where in the series a page begins: just before this measurement, or before a time."""

    at: datetime | None
    run_id: UUID = _NOBODY
    direction: str = ""
    partition_key: str = ""


class Series(NamedTuple):
    """Which of a dataset's measurements: since a time, of a direction and of a partition or of any."""

    dataset_id: UUID
    begin: datetime
    direction: str | None
    partition_key: str | None


class MetricStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def list(self, series: Series, before: Place, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(
            Q.list_metrics,
            self._organization_id,
            series.dataset_id,
            series.begin,
            *before,
            series.direction,
            series.partition_key,
            limit,
        )
        return rows

    async def latest(self, series: Series) -> datetime | None:
        at: datetime | None = await self._conn.fetchval(
            Q.find_latest, self._organization_id, series.dataset_id, series.direction, series.partition_key
        )
        return at

    async def figures(self, series: Series, end: datetime | None) -> dict[str, dict[str, Record]]:
        """Summaries by direction and figure."""
        found: dict[str, dict[str, Record]] = {}
        for figure in FIGURES:
            rows = await self._conn.fetch(
                Q.summarize_metrics,
                self._organization_id,
                series.dataset_id,
                series.begin,
                end,
                series.direction,
                series.partition_key,
                figure,
            )
            for row in rows:
                found.setdefault(row["direction"], {})[figure] = row
        return found

    async def durations(self, series: Series, end: datetime | None) -> Record:
        return await self._conn.fetchrow(
            Q.summarize_durations,
            self._organization_id,
            series.dataset_id,
            series.begin,
            end,
            series.partition_key,
        )

    async def crowded(self, after: UUID, count: int, keep: int) -> Sequence[Record]:
        """The next datasets in order, and whether one may have more measurements than are to be kept."""
        rows: Sequence[Record] = await self._conn.fetch(Q.list_crowded, self._organization_id, after, count, keep)
        return rows

    async def thin_out(self, dataset_id: UUID, keep: int) -> int:
        """Remove what is older than the latest few; how much that was."""
        deleted = 0
        while True:
            status = await self._conn.execute(Q.delete_old_metrics, self._organization_id, dataset_id, keep, _BATCH)
            count = int(status.split()[-1])
            deleted += count
            if count < _BATCH:
                return deleted
