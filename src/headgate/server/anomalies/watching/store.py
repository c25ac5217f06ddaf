"""How fresh datasets are to be, in the database."""

from __future__ import annotations

from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.anomalies.watching")


class FreshnessStore:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def get(self, dataset_id: UUID) -> Record:
        return await self._conn.fetchrow(Q.get_freshness, self._organization_id, dataset_id)

    async def set(self, dataset_id: UUID, sla_hours: float) -> None:
        await self._conn.execute(Q.set_freshness, self._organization_id, dataset_id, sla_hours)
        await self._conn.execute(Q.look_again, self._organization_id, dataset_id)

    async def remove(self, dataset_id: UUID) -> None:
        await self._conn.execute(Q.delete_freshness, self._organization_id, dataset_id)
        await self._conn.execute(Q.look_again, self._organization_id, dataset_id)
