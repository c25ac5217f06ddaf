"""Who may have caused a symptom, and who most likely has: its scene, loaded once, and the ranking of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple
from uuid import UUID

from headgate.domain.cause import on_the_way, rank
from headgate.domain.scene import Candidate, JobRef, Ranking
from headgate.server.db.pool import Connection
from headgate.server.incidents.correlation import symptoms
from headgate.server.incidents.correlation.symptoms import Q, Symptom
from headgate.server.incidents.scene.load import Scene, load_scene

# So many columns of one dataset are looked into on their own; the rest goes by tables.
MAX_COLUMNS: Final = 20


class Judged(NamedTuple):
    """A symptom, its scene and the cause that was found in it."""

    symptom: Symptom
    scene: Scene
    ranking: Ranking
    # Runs that it may come from and, of those that no run is known to have written, datasets.
    upstream: frozenset[UUID] = frozenset()


class Judging:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._scenes: dict[object, Scene] = {}
        self._looked: dict[UUID | None, set[str | None]] = {}

    async def judge(self, symptom: Symptom) -> Judged:
        """Who may have caused a symptom, and who most likely has."""
        scene = await self._scene(symptom)
        run = scene.runs.get(symptom.own_run_id) if symptom.own_run_id else None
        job = None if run is None else JobRef(run.job_namespace, run.job_name, str(run.job_id))
        urn = scene.urns.get(symptom.dataset_id) if symptom.dataset_id else None
        failure = symptom.failure(urn, job)
        ranking = rank(failure, scene.candidates)
        near = [*on_the_way(failure, scene.candidates), *([ranking.cause] if ranking.cause else [])]
        return Judged(symptom, scene, ranking, _origins(near).difference([symptom.origin]))

    async def look(self, incident_id: UUID) -> Judged:
        """What may have caused what an incident began with, as far as is known by now."""
        row = await self._conn.fetchrow(Q.get_telling_symptom, self._organization_id, incident_id)
        return await self.judge(symptoms.of_row(row))

    def forget(self) -> None:
        """What was known before is not all that there is now."""
        self._scenes.clear()

    async def _scene(self, symptom: Symptom) -> Scene:
        """Loaded once for all symptoms of a run on the same column."""
        observed = symptom.observed()
        columns = self._looked.setdefault(symptom.dataset_id, set())
        if observed.column not in columns and len(columns) >= MAX_COLUMNS:
            observed = observed._replace(column=None)
        columns.add(observed.column)
        if observed not in self._scenes:
            self._scenes[observed] = await load_scene(self._conn, self._organization_id, observed)
        return self._scenes[observed]


def _origins(candidates: Iterable[Candidate]) -> frozenset[UUID]:
    told = ((each.run_id, each.dataset.id if each.dataset else None) for each in candidates)
    return frozenset(UUID(origin) for run_id, dataset_id in told if (origin := run_id or dataset_id))
