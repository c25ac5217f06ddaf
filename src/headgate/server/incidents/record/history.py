"""The history of incidents: what happened, who did it, and which news of it others are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from headgate.domain.incident import HEADGATE
from headgate.server.db.pool import Connection
from headgate.server.db.queries import Queries
from headgate.server.queue import NewTask, content_hash, enqueue

Q = Queries("headgate.server.incidents.record")

_NOTHING: Final[Mapping[str, Any]] = {}


class History:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def lock(self) -> None:
        """Nobody else changes incidents, or what datasets are, until the transaction ends."""
        await self._conn.execute(Q.hold_names, self._organization_id)
        await self._conn.execute(Q.lock_incidents, self._organization_id)

    async def note(
        self, incident_id: UUID, kind: str, detail: Mapping[str, Any] = _NOTHING, actor: str = HEADGATE
    ) -> int:
        """Keep what happened; its number."""
        body = msgspec.json.encode(detail).decode()
        number: int = await self._conn.fetchval(Q.insert_event, self._organization_id, incident_id, actor, kind, body)
        return number

    async def count(
        self, incident_id: UUID, kind: str, key: str, detail: Mapping[str, Any], at: datetime, *, within_s: float
    ) -> str:
        """Keep what happened or, if it has happened not long before, how often it did and when it last did; which time
        it was, told apart from all others."""
        last = msgspec.json.encode({"last_at": at}).decode()
        row = await self._conn.fetchrow(
            Q.count_event, self._organization_id, incident_id, kind, key, last, timedelta(seconds=within_s)
        )
        if row is not None:
            return f"{row['id']}/{row['count']}"
        return f"{await self.note(incident_id, kind, {**detail, 'key': key, 'count': 1})}/1"

    async def tell_symptom(self, symptom_id: UUID, event: str, time: str | None = None) -> None:
        """Let alerts know of a new symptom, or that it is there again: which time that was."""
        payload = {"symptom_id": str(symptom_id), "event": event}
        key = content_hash(symptom_id, *(() if time is None else (time,)))
        await self._enqueue(NewTask("ALERT", "SYMPTOM", str(symptom_id), key, payload=payload))

    async def tell_anomaly(self, anomaly_id: UUID, event: str) -> None:
        """Let alerts know of an anomaly that is no symptom: there may be somebody who asked for such."""
        payload = {"anomaly_id": str(anomaly_id), "event": event}
        await self._enqueue(NewTask("ALERT", "ANOMALY", str(anomaly_id), content_hash(anomaly_id), payload=payload))

    async def tell_incident(self, incident_id: UUID, event: str, number: int, *, is_muted: bool = False) -> None:
        """Let alerts know how an incident went on; of one that is muted they keep that nobody was told."""
        payload = {"incident_id": str(incident_id), "event": event} | ({"is_muted": True} if is_muted else {})
        key = content_hash(incident_id, event, number)
        await self._enqueue(NewTask("ALERT", "INCIDENT", str(incident_id), key, payload=payload))

    async def resolve(
        self,
        incident_id: UUID,
        at: datetime,
        reason: str | None,
        actor: str,
        *,
        is_news: bool,
        was_muted: bool = False,
    ) -> None:
        """End an incident; nothing joins it any more."""
        own = (self._organization_id, incident_id)
        await self._conn.execute(Q.resolve_incident, *own, at, actor, reason)
        await self._conn.execute(Q.delete_paths, *own)
        # A preview of alerts goes by this, too.
        unheard = {} if is_news else {"is_news": False}
        number = await self.note(incident_id, "resolved", {"reason": reason} | unheard, actor)
        if is_news:
            await self.tell_incident(incident_id, "IncidentResolved", number, is_muted=was_muted)

    async def reopen(self, incident_id: UUID, at: datetime, reason: str | None, actor: str) -> None:
        """An incident goes on; only what is observed after `at` can end it by itself."""
        own = (self._organization_id, incident_id)
        await self._conn.execute(Q.reopen_incident, *own, at)
        await self._conn.execute(Q.restore_paths, *own)
        number = await self.note(incident_id, "reopened", {"reason": reason}, actor)
        await self.tell_incident(incident_id, "IncidentReopened", number)

    async def clear(self, incident_id: UUID, at: datetime) -> None:
        """Whatever is open of an incident counts as well."""
        await self._conn.execute(Q.clear_incident, self._organization_id, incident_id, at)

    async def unclear(self, incident_id: UUID) -> None:
        """What an incident was about is open again."""
        await self._conn.execute(Q.unclear_incident, self._organization_id, incident_id)

    async def renew(self, incident_id: UUID) -> None:
        """Sum an incident up by the symptoms that it has now; of its path only their own runs are left."""
        own = (self._organization_id, incident_id)
        await self._conn.execute(Q.sum_up_incident, *own)
        await self._conn.execute(Q.delete_paths, *own)
        await self._conn.execute(Q.restore_paths, *own)

    async def _enqueue(self, task: NewTask) -> None:
        await enqueue(self._conn, self._organization_id, [task])
