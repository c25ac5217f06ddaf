"""Which incident a symptom goes with: the same again, of one run, along the lineage, or of the same cause."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headgate.domain.incident import HEADGATE, SURE, WINDOW, Blamed, is_other_problem, is_unrelated
from headgate.domain.scene import Ranking
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation.causes import blamed_by, blamed_in, uuid_of
from headgate.server.incidents.correlation.judging import Judged, Judging
from headgate.server.incidents.correlation.symptoms import RUN_FAILED, Q, Symptom
from headgate.server.incidents.scene.walk import Run

AGAIN: Final = "the same again"
BEFORE_END: Final = "seen before it was resolved"
REOPENS: Final = "the same again, soon after it was resolved"
SAME_RUN: Final = "of the same run"
STARTED_IT: Final = "of what had started the run"
BESIDE: Final = "started by the same run"
DOWNSTREAM: Final = "downstream of it"
UPSTREAM: Final = "upstream of it"
SAME_CAUSE: Final = "of the same cause"
SAME_DATA: Final = "of the same data, whose producer nobody knows"
OF_ONE_CHAIN: Final = (SAME_RUN, BESIDE, STARTED_IT)
_BAD: Final = frozenset({"FAIL", "ABORT"})


class Found(NamedTuple):
    """The incident that a symptom goes with, and why."""

    incident_id: UUID
    how: str
    # Other incidents that turn out to be part of the same problem.
    others: tuple[UUID, ...] = ()


class Near(NamedTuple):
    """A symptom, the run or else the data that it is of, and what started that run, the nearest first."""

    symptom: Symptom
    own: set[UUID]
    above: Sequence[UUID]
    run: Run | None

    def way(self, row: Record, blamed: Blamed) -> str | None:
        """How an incident with one of these runs, or data, on its path is related to the symptom."""
        run_id, role = row["run_id"], row["role"]
        if run_id in self.own and role != "upstream":
            if self.symptom.own_run_id is None:
                return SAME_DATA if self._is_of_its_time(row) else None
            return SAME_RUN if role == "own" or self.symptom.type != RUN_FAILED else STARTED_IT
        if run_id in self.above:
            # What started the run failed first, as far as we heard, and nothing else is known to be why.
            is_first = role == "own" and row["first_run_id"] == run_id and row["kind"] == RUN_FAILED
            if is_first and self.symptom.type == RUN_FAILED:
                return SAME_RUN
            return BESIDE if self._is_beside(row, blamed) else None
        if abs(self.symptom.observed_at - row["began_at"]) > WINDOW:
            return None
        if run_id in self.own:
            return UPSTREAM
        return DOWNSTREAM if role == "own" else None

    def _is_of_its_time(self, row: Record) -> bool:
        at = self.symptom.observed_at
        return bool(row["began_at"] - WINDOW <= at <= row["last_seen_at"] + WINDOW)

    def _is_beside(self, row: Record, blamed: Blamed) -> bool:
        """Whether an incident is of what started the run, or of another run that this started. A root, such as a DAG,
        starts what has little to do with each other."""
        run = self.run
        is_root = len(self.above) < 2
        if run is None or is_root or self.symptom.type != RUN_FAILED or row["run_id"] != run.parent_run_id:
            return False
        if row["role"] == "own":
            return row["run_state"] in _BAD
        if not _is_of_child(row, run.parent_run_id) or (blamed.is_sure and blamed.run != str(run.run_id)):
            return False
        says_why = bool(run.error and run.error.strip()) or row["first_says_why"]
        return row["run_state"] in _BAD or (not says_why and row["run_state"] != "COMPLETE")

    def is_child(self, row: Record) -> bool:
        """Whether an incident is of a run that this one has started, which is no root itself."""
        return (
            self.symptom.type == RUN_FAILED
            and bool(self.above)
            and row["run_id"] in self.own
            and _is_of_child(row, self.symptom.own_run_id)
        )


class Matching:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID, judging: Judging) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._judging = judging
        self._made_of: dict[UUID, frozenset[UUID]] = {}

    def by_key(self, known: Record | None, symptom: Symptom, judged: Judged) -> Found | None:
        """The incident in which the same thing was wrong before, unless that ended long ago or had another cause."""
        if known is None or _is_long_over(known, symptom):
            return None
        times = (known["last_observed_at"], known["cleared_at"])
        if is_other_problem(blamed_by(known), blamed_in(judged.ranking), *times):
            return None
        if known["status"] != "resolved":
            return Found(known["incident_id"], AGAIN)
        if symptom.observed_at - known["resolved_at"] < WINDOW and not symptom.cleared_at:
            how = BEFORE_END if _was_covered(known, symptom) else REOPENS
            return Found(known["incident_id"], how)
        return None

    async def by_path(self, judged: Judged, *, besides: UUID | None = None) -> Found | None:
        """The incident that has runs or data in common with a symptom, or its cause; not one that it is part of."""
        symptom, scene = judged.symptom, judged.scene
        own = set() if symptom.origin is None else {symptom.origin}
        above = [run for each in own for run in scene.above(each)]
        rows = await self._conn.fetch(Q.find_by_runs, self._organization_id, [*own, *above, *judged.upstream], besides)
        near = Near(symptom, own, above, scene.runs.get(symptom.own_run_id) if symptom.own_run_id else None)
        parts = {row["id"] for row in rows if row["role"] == "own" and _is_blamed(row["run_id"], judged.ranking)}
        ways: dict[str, list[Record]] = {}
        for row in rows:
            way = near.way(row, blamed_in(judged.ranking))
            if way is not None and not await self._is_another(way, row, judged, is_part=row["id"] in parts):
                ways.setdefault(way, []).append(row)
        children = [row["id"] for row in rows if near.is_child(row)]
        return _nearest(ways, parts, children, blamed_in(judged.ranking)) or await self._by_cause(judged, besides)

    async def _is_another(self, way: str, row: Record, judged: Judged, *, is_part: bool) -> bool:
        """Whether an incident next to it is another problem. What is upstream may change what its cause is."""
        if way not in (DOWNSTREAM, UPSTREAM):
            return False
        blamed = blamed_in(judged.ranking)
        is_other = is_unrelated(blamed_by(row), blamed, is_part=is_part)
        if way == DOWNSTREAM:
            return is_other
        if is_other and is_unrelated(blamed_in(await self._now(row)), blamed, is_part=is_part):
            return True
        return await self._has_root_elsewhere(row, judged.symptom)

    async def _has_root_elsewhere(self, row: Record, symptom: Symptom) -> bool:
        """Whether what an incident is known to come from lies beside a symptom, which is not surely its cause."""
        root = row["cause_dataset_id"] or row["dataset_id"]
        if root is None or symptom.dataset_id is None or root in await self._below(symptom.dataset_id):
            return False
        now = await self._now(row)
        return now.confidence < SURE or not _is_blamed(symptom.origin, now)

    async def _now(self, row: Record) -> Ranking:
        """What may have caused an incident, as far as is known by now."""
        return (await self._judging.look(row["id"])).ranking

    async def _below(self, dataset_id: UUID) -> frozenset[UUID]:
        """A dataset and what is made of it; asked for once, however many incidents lie there."""
        if dataset_id not in self._made_of:
            rows = await self._conn.fetch(Q.list_below, self._organization_id, dataset_id)
            self._made_of[dataset_id] = frozenset(row["dataset_id"] for row in rows)
        return self._made_of[dataset_id]

    async def _by_cause(self, judged: Judged, besides: UUID | None) -> Found | None:
        symptom, ranking = judged.symptom, judged.ranking
        cause = ranking.cause
        # What a run did itself is known by the run, but it may have failed as often before.
        if cause is None or (cause.depth == 0 and symptom.type != RUN_FAILED) or ranking.confidence < SURE:
            return None
        run_id, dataset_id = uuid_of(cause.run_id), uuid_of(cause.dataset.id if cause.dataset else None)
        job_id = uuid_of(cause.job.id if cause.job else None)
        what = ranking.evidence[0].kind if ranking.evidence else None
        about = (run_id, dataset_id, symptom.observed_at, SURE, job_id, what, besides)
        found = await self._conn.fetchval(Q.find_by_cause, self._organization_id, *about)
        return None if found is None else Found(found, SAME_CAUSE)


def _nearest(
    ways: Mapping[str, Sequence[Record]], parts: Collection[UUID], children: Sequence[UUID], blamed: Blamed
) -> Found | None:
    """Of the incidents next to a symptom the one that it goes with; `parts` have its cause on their own path."""
    below = [row["id"] for row in ways.get(DOWNSTREAM, ())]
    roots = [each for each in below if each in parts]
    for way in (*OF_ONE_CHAIN, SAME_DATA):
        if way in ways:
            first = ways[way][0]
            if way == SAME_RUN and roots and first["id"] not in roots and is_unrelated(blamed_by(first), blamed):
                # What one run wrote can be wrong for two reasons, and the other one has an incident of its own.
                return Found(roots[0], DOWNSTREAM)
            return _found(first["id"], way, children if way in OF_ONE_CHAIN else ())
    if below:
        return Found((roots or below)[0], DOWNSTREAM)
    above = [row["id"] for row in ways.get(UPSTREAM, ())]
    return _found(above[0], UPSTREAM, above) if above else None


def _found(incident_id: UUID, way: str, all_: Sequence[UUID]) -> Found:
    return Found(incident_id, way, tuple(each for each in dict.fromkeys(all_) if each != incident_id))


def _is_blamed(origin: UUID | None, ranking: Ranking) -> bool:
    """Whether a run is held to be the cause or, of what nobody is known to write, a dataset."""
    cause = ranking.cause
    if cause is None or origin is None:
        return False
    return str(origin) == (cause.run_id or (cause.dataset.id if cause.dataset else None))


def _is_of_child(row: Record, parent: UUID | None) -> bool:
    """Whether an incident is that a run failed which another had started, and nothing else is known to be why."""
    if row["kind"] != RUN_FAILED or row["role"] != "above" or row["first_parent_id"] != parent:
        return False
    return row["cause_run_id"] == row["first_run_id"] or not blamed_by(row).is_sure


def _was_covered(known: Record, symptom: Symptom) -> bool:
    """Whether an incident ended with a symptom that is heard of after its end: it was well by then, or a person who
    resolved it knew of one as late."""
    if symptom.observed_at > known["resolved_at"]:
        return False
    return bool(known["resolved_by"] == HEADGATE or symptom.observed_at <= known["last_observed_at"])


def _is_long_over(known: Record, symptom: Symptom) -> bool:
    """Whether it had been well again for a while, though the rest of its incident was not."""
    return known["cleared_at"] is not None and symptom.observed_at - known["cleared_at"] > WINDOW
