"""Symptoms that are well again, and incidents that end with the last of theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from headgate.domain.incident import HEADGATE
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.incidents.correlation.telling import Telling
from headgate.server.incidents.record.history import History

Q = Queries("headgate.server.incidents.ending")

# As symptom_end says it.
RESOLVED: Final = "the anomaly was resolved"
FALSE_ALARM: Final = "the anomaly was a false alarm"


class Clearing:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._history = History(conn, organization_id)
        self._telling = Telling(conn, organization_id)

    async def of_tests(self, run_id: UUID, dataset_id: UUID | None) -> None:
        """Symptoms of tests that a run has seen pass."""
        await self._check(await self._fetch(Q.list_passed_symptoms, run_id, dataset_id))

    async def of_run(self, job_id: UUID, dataset_ids: Sequence[UUID]) -> None:
        """Symptoms on a job that has run, and on what it has written."""
        await self._check(await self._fetch(Q.list_open_symptoms, job_id, list(dataset_ids)))

    async def of_anomaly(self, anomaly_id: UUID) -> None:
        """Symptoms that an anomaly was before somebody resolved it."""
        await self._check(await self._fetch(Q.list_symptoms_of_anomaly, anomaly_id))

    async def undo_of_anomaly(self, anomaly_id: UUID, incident_id: UUID) -> Sequence[Record]:
        """Symptoms that were well only because somebody had resolved an anomaly, which is open again."""
        rows = await self._fetch(Q.list_revived_symptoms, anomaly_id, incident_id, [RESOLVED, FALSE_ALARM])
        if rows:
            await self._conn.execute(Q.unclear_symptoms, self._organization_id, [row["id"] for row in rows])
        return rows

    async def check(self, symptom_ids: Sequence[UUID]) -> None:
        """Clear those of some symptoms that are well again; what has others left is told by these, the rest ends."""
        ends = await self._fetch(Q.find_ends, list(symptom_ids)) if symptom_ids else []
        told = [end["anomaly_id"] for end in ends if end["anomaly_id"] is not None]
        if told:
            # What a person says of an anomaly comes before this or after it, and is not undone in between.
            await self._fetch(Q.lock_anomalies, told)
            ends = await self._fetch(Q.find_ends, [end["id"] for end in ends])
        if not ends:
            return
        ids, ats = [end["id"] for end in ends], [end["at"] for end in ends]
        await self._conn.execute(Q.clear_symptoms, self._organization_id, ids, ats)
        await self.settle({end["anomaly_id"]: end["reason"] for end in ends if end["anomaly_id"] is not None})
        reasons = {}
        for end in ends:
            reasons[end["incident_id"]] = end["reason"]
            detail = {"symptom_id": end["id"], "at": end["at"], "reason": end["reason"]}
            await self._history.note(end["incident_id"], "symptom_cleared", detail)
        await self.end(reasons)
        for row in await self._fetch(Q.list_retold, list(reasons)):
            await self._telling.tell_by(row["id"], row["symptom_id"])

    async def end(self, reasons: Mapping[UUID, str], *, is_news: bool = True) -> None:
        """End those incidents that have no open symptom left, for the reason that each is given with."""
        ended = await self._fetch(Q.list_ended_incidents, list(reasons))
        for row in ended:
            given = (row["id"], row["ended_at"], reasons[row["id"]], HEADGATE)
            await self._history.resolve(*given, is_news=is_news, was_muted=row["status"] == "muted")
        if ended:
            await self.settle_incidents({row["id"]: reasons[row["id"]] for row in ended})

    async def settle(self, reasons: Mapping[UUID, str]) -> None:
        """Resolve anomalies that nobody has yet, given with why each is well again."""
        if reasons:
            given = (list(reasons), list(reasons.values()), HEADGATE)
            await self._conn.execute(Q.resolve_anomalies, self._organization_id, *given)

    async def settle_incidents(self, reasons: Mapping[UUID, str | None], actor: str = HEADGATE) -> None:
        """Resolve what is left of the anomalies of incidents that ended."""
        given = (list(reasons), list(reasons.values()), actor)
        await self._conn.execute(Q.resolve_anomalies_of, self._organization_id, *given)

    async def reopen_anomalies(self, incident_id: UUID, reason: str | None, actor: str) -> None:
        """What an incident was about is open again, and so are its anomalies."""
        await self._conn.execute(Q.reopen_anomalies, self._organization_id, incident_id, reason, actor)

    async def _check(self, rows: Sequence[Record]) -> None:
        await self.check([row["id"] for row in rows])

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows
