"""Which of its symptoms an incident is told by: the one that opened it, unless another says more."""

from __future__ import annotations

from uuid import UUID

from headgate.domain.incident import Ended, is_plainer, is_told_by_child, is_told_by_parent
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation.symptoms import RUN_FAILED, Q, Symptom


class Telling:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def tell_by(self, incident_id: UUID, symptom_id: UUID) -> None:
        """Title, kind, dataset, column, job and run of an incident are those of a symptom."""
        await self._conn.execute(Q.tell_by_symptom, self._organization_id, incident_id, symptom_id)

    async def set_title(self, incident_id: UUID, dataset_id: UUID | None, title: str) -> None:
        """What an incident that was opened by tests on a dataset is called."""
        await self._conn.execute(Q.set_title, self._organization_id, incident_id, dataset_id, title)

    async def renew(self, incident_id: UUID) -> None:
        """An incident that no longer has the symptom it was told by is told by the first that it has."""
        first = await self._conn.fetchrow(Q.find_first_symptom, self._organization_id, incident_id)
        if first is not None and not first["is_told"]:
            await self.tell_by(incident_id, first["id"])

    async def says_why(self, state: Record, symptom: Symptom) -> bool:
        """Whether a run that failed, above or below the one that an incident is told by, says better why."""
        known, new = state["run_id"], symptom.own_run_id
        if (state["kind"], symptom.type) != (RUN_FAILED, RUN_FAILED) or None in (known, new) or known == new:
            return False
        rows = await self._conn.fetch(Q.list_kin, self._organization_id, [known, new])
        kin = {row["run_id"]: row for row in rows}
        if len(kin) < 2:
            return False
        if new in kin[known]["above"]:
            return is_told_by_parent(_ended(kin[known]), _ended(kin[new]))
        return known in kin[new]["above"] and is_told_by_child(_ended(kin[new]), _ended(kin[known]))

    def says_it_plainer(self, state: Record, symptom: Symptom) -> bool:
        """Whether another symptom of the same run on the same dataset says in plainer words what is wrong."""
        same = (state["run_id"], state["dataset_id"]) == (symptom.own_run_id, symptom.dataset_id)
        return same and is_plainer(state["kind"], symptom.type)


def _ended(row: Record) -> Ended:
    return Ended(row["says_why"], row["ended_at"])
