"""Two incidents that are one problem, and one incident that is two."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from headgate.server.db.pool import Connection
from headgate.server.incidents.record.history import History, Q


class Merging:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._history = History(conn, organization_id)

    async def merge(self, incident_id: UUID, into: UUID, actor: str, reason: str | None) -> None:
        """All symptoms of an incident become another's; the first ends, and says where they went."""
        pair = (self._organization_id, incident_id, into)
        await self.move(incident_id, into, None)
        await self._conn.execute(Q.move_paths, *pair)
        await self._conn.execute(Q.move_left_anomalies, *pair)
        # What the other has already is no longer open here.
        at = datetime.now(UTC)
        await self._history.clear(incident_id, at)
        await self._history.note(into, "merged_from", {"incident_id": incident_id, "reason": reason}, actor)
        await self._history.note(incident_id, "merged_into", {"incident_id": into, "reason": reason}, actor)
        await self._history.resolve(incident_id, at, reason, actor, is_news=False)
        await self._conn.execute(Q.mark_merged, *pair)

    async def move(self, incident_id: UUID, into: UUID, symptom_ids: Sequence[UUID] | None) -> int:
        """Symptoms of an incident, all or some, become another's; how many did."""
        wanted = None if symptom_ids is None else list(symptom_ids)
        moved = await self._conn.fetch(Q.move_symptoms, self._organization_id, incident_id, into, wanted)
        anomalies = [row["anomaly_id"] for row in moved if row["anomaly_id"] is not None]
        if anomalies:
            await self._conn.execute(Q.move_anomalies, self._organization_id, anomalies, into)
        await self._conn.execute(Q.sum_up_incident, self._organization_id, into)
        return len(moved)
