"""Looks after incidents that nobody says anything of any more: mutes that are over, what is well again, what is old."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from headgate.server.db.pool import Connection
from headgate.server.incidents.ending.clearing import Clearing, Q
from headgate.server.incidents.record.history import History

MAX_TENDED: Final = 500
UNMUTED: Final = "nothing was wrong any more when its mute was over"


class Tending:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._history = History(conn, organization_id)
        self._clearing = Clearing(conn, organization_id)

    async def end_mutes(self) -> None:
        """Let go on what was muted for a time."""
        for row in await self._conn.fetch(Q.list_mutes_over, self._organization_id):
            await self._conn.execute(Q.unmute_incident, self._organization_id, row["id"])
            await self._history.note(row["id"], "unmuted", {"reason": "its time is over"})
            await self._clearing.end({row["id"]: UNMUTED})

    async def end_symptoms(self) -> None:
        """End what is well again although nobody said so."""
        rows = await self._conn.fetch(Q.list_some_open_symptoms, self._organization_id, MAX_TENDED)
        await self._clearing.check([row["id"] for row in rows])

    async def delete_old(self, before: datetime, most: int) -> int:
        """Remove incidents that ended before a time, with all that is kept of them; how many."""
        return len(await self._conn.fetch(Q.delete_old_incidents, self._organization_id, before, most))
