"""Which incident a symptom belongs to, and what caused it: one problem, one incident.

A symptom goes with what it was before; with others on what the same run produced; with the open incident whose root
it lies downstream of, or upstream of; with one that has the same cause. Else it opens an incident of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.cause import rank
from headgate.domain.incident import SURE, WINDOW, Blamed, is_other_problem, is_unrelated, tells_more
from headgate.domain.scene import Candidate, Evidence, JobRef, Ranking
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation import symptoms
from headgate.server.incidents.correlation.clearing import Clearing
from headgate.server.incidents.correlation.history import HEADGATE, History, Q
from headgate.server.incidents.correlation.merging import Merging
from headgate.server.incidents.correlation.symptoms import RUN_FAILED, Symptom
from headgate.server.incidents.correlation.telling import Telling
from headgate.server.incidents.scene.load import Scene, load_scene
from headgate.server.incidents.scene.walk import Run

# So many columns of one dataset are looked into on their own; the rest goes by tables.
MAX_COLUMNS: Final = 20
MAX_REJECTED: Final = 20
# So many symptoms are looked into again when an incident goes on, for the runs on its path.
MAX_AGAIN: Final = 10
MAX_TOLD: Final = 50
# So many incidents are looked into again when a run is heard of late.
MAX_LATE: Final = 20
# Within so long what is seen again is one event with a count: a preview of alerts goes by these, too. What is the same
# on another run has a symptom of its own.
REPEATS_S: Final = 3600.0
AGAIN_S: Final = 366 * 86_400.0

AGAIN: Final = "the same again"
BEFORE_END: Final = "seen before it was resolved"
REOPENS: Final = "the same again, soon after it was resolved"
SAME_RUN: Final = "of the same run"
STARTED_IT: Final = "of what had started the run"
BESIDE: Final = "started by the same run"
DOWNSTREAM: Final = "downstream of it"
UPSTREAM: Final = "upstream of it"
SAME_CAUSE: Final = "of the same cause"
_OF_ONE_CHAIN: Final = (SAME_RUN, BESIDE, STARTED_IT)
_BAD: Final = frozenset({"FAIL", "ABORT"})
OVER: Final = "it was well again before anybody was told"


class Found(NamedTuple):
    """The incident that a symptom goes with, and why."""

    incident_id: UUID
    how: str
    # Other incidents that turn out to be part of the same problem.
    others: tuple[UUID, ...] = ()


class Judged(NamedTuple):
    """A symptom, its scene and the cause that was found in it."""

    symptom: Symptom
    scene: Scene
    ranking: Ranking


class _Near(NamedTuple):
    """A symptom, the run that it is of, and what started that, the nearest first."""

    symptom: Symptom
    own: set[UUID]
    above: Sequence[UUID]
    run: Run | None

    def way(self, row: Record, blamed: Blamed) -> str | None:
        """How an incident with one of these runs on its path is related to the symptom."""
        run_id, role = row["run_id"], row["role"]
        if run_id in self.own and role != "upstream":
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


class Correlator:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._history = History(conn, organization_id)
        self._telling = Telling(conn, organization_id)
        self._scenes: dict[object, Scene] = {}
        self._looked: dict[UUID | None, set[str | None]] = {}
        self._heard: set[UUID] = set()

    async def take(self, symptom: Symptom) -> UUID | None:
        """The incident that a symptom is part of from now on; None if it says nothing new."""
        known = await self._conn.fetchrow(Q.find_key, self._organization_id, symptom.key, _identity(symptom))
        if known is not None and known["is_same_run"]:
            # Told once more, or of a time that is over.
            if known["observed_at"] <= symptom.observed_at <= known["last_observed_at"] or _is_history(known, symptom):
                await self._pass_over(known, symptom)
                return None
            if known["status"] != "resolved" or symptom.observed_at - known["resolved_at"] < WINDOW:
                return await self._repeat(known, symptom)
        judged = await self.judge(symptom)
        found = self._by_key(known, symptom, judged) or await self._by_path(symptom, judged)
        if found is None:
            return await self._open(symptom, judged)
        await self._join(found, symptom, judged)
        return found.incident_id

    async def look(self, incident_id: UUID) -> Judged:
        """What may have caused what an incident began with, as far as is known by now."""
        row = await self._conn.fetchrow(Q.get_telling_symptom, self._organization_id, incident_id)
        return await self.judge(symptoms.of_row(row))

    async def rerank(self, incident_id: UUID) -> Judged:
        """Look again for the cause of an incident: more may be known by now."""
        row = await self._conn.fetchrow(Q.get_telling_symptom, self._organization_id, incident_id)
        judged = await self.judge(symptoms.of_row(row))
        await self.set_cause(incident_id, judged.ranking, of=judged.symptom.type)
        await self._conn.execute(Q.explain_symptom, self._organization_id, row["id"], judged.ranking.sentence)
        return judged

    async def hear_late(self, run: Record) -> None:
        """Look again into what was observed downstream of a run after it had ended, before it was heard of."""
        outputs = run["output_ids"] or [each for each in (run["usual_output_id"],) if each is not None]
        own, at = self._organization_id, run["ended_at"]
        if run["run_id"] in self._heard or not outputs or at is None:
            return
        self._heard.add(run["run_id"])
        if not await self._conn.fetchval(Q.has_later_symptoms, own, at):
            return
        rows = await self._fetch(Q.list_incidents_below, list(outputs), at, MAX_LATE, run["run_id"])
        # What was known before is not all that there is now.
        self._scenes.clear()
        for row in rows:
            judged = await self.rerank(row["id"])
            await self._add_paths(row["id"], judged.symptom, judged.scene)

    async def replace_runs(self, dataset_ids: Sequence[UUID]) -> None:
        """A run that had ended by then may be heard of after the failure of what it wrote: then it is of that run."""
        rows = await self._fetch(Q.list_misplaced, list(dataset_ids)) if dataset_ids else []
        for row in rows:
            run = (row["run_id"], row["job_id"])
            await self._conn.execute(Q.place_symptom, self._organization_id, row["id"], *run)
            if row["is_first"]:
                await self._conn.execute(Q.place_incident, self._organization_id, row["incident_id"], *run)
            await self._explain(row["id"])
            detail = {"symptom_id": row["id"], "run_id": row["run_id"], "reason": "the run was heard of later"}
            await self._history.note(row["incident_id"], "symptom_moved", detail)
        for incident_id in dict.fromkeys(row["incident_id"] for row in rows):
            await self.renew(incident_id)
            await self.rerank(incident_id)

    async def _explain(self, symptom_id: UUID) -> None:
        """Look again for the cause of a symptom."""
        own = (self._organization_id, symptom_id)
        judged = await self.judge(symptoms.of_row(await self._conn.fetchrow(Q.get_symptom, *own)))
        await self._conn.execute(Q.explain_symptom, *own, judged.ranking.sentence)

    async def renew(self, incident_id: UUID) -> None:
        """Sum an incident up by the symptoms that it has now, and find the runs on its path again."""
        await self._history.renew(incident_id)
        await self._restore_paths(incident_id)

    async def reopen(self, incident_id: UUID, at: datetime, reason: str | None, actor: str = HEADGATE) -> None:
        """An incident goes on, and what belongs to it joins it again."""
        await self._history.reopen(incident_id, at, reason, actor)
        await self._restore_paths(incident_id)

    async def _restore_paths(self, incident_id: UUID) -> None:
        for row in await self._fetch(Q.list_path_symptoms, incident_id, MAX_AGAIN):
            judged = await self.judge(symptoms.of_row(row))
            await self._add_paths(incident_id, judged.symptom, judged.scene)
            await self._conn.execute(Q.explain_symptom, self._organization_id, row["id"], judged.ranking.sentence)

    # --- which incident ---

    def _by_key(self, known: Record | None, symptom: Symptom, judged: Judged) -> Found | None:
        """The incident in which the same thing was wrong before, unless that ended long ago or had another cause."""
        if known is None or _is_long_over(known, symptom):
            return None
        times = (known["last_observed_at"], known["cleared_at"])
        if is_other_problem(_blamed_by(known), _blamed(judged.ranking), *times):
            return None
        if known["status"] != "resolved":
            return Found(known["incident_id"], AGAIN)
        if symptom.observed_at - known["resolved_at"] < WINDOW and not symptom.cleared_at:
            how = BEFORE_END if symptom.observed_at <= known["resolved_at"] else REOPENS
            return Found(known["incident_id"], how)
        return None

    async def _by_path(self, symptom: Symptom, judged: Judged) -> Found | None:
        scene = judged.scene
        own = set() if symptom.own_run_id is None else {symptom.own_run_id}
        above = [run for each in own for run in scene.above(each)]
        upstream = scene.runs_at(upstream=True) - own
        rows = await self._fetch(Q.find_by_runs, [*own, *above, *upstream])
        near = _Near(symptom, own, above, scene.runs.get(symptom.own_run_id) if symptom.own_run_id else None)
        blamed = _blamed(judged.ranking)
        parts = {row["id"] for row in rows if row["role"] == "own" and str(row["run_id"]) == blamed.run}
        ways: dict[str, list[UUID]] = {}
        for row in rows:
            way = near.way(row, blamed)
            if way is not None and not await self._is_another(way, row, blamed, is_part=row["id"] in parts):
                ways.setdefault(way, []).append(row["id"])
        for way in (*_OF_ONE_CHAIN, DOWNSTREAM):
            if way in ways:
                children = [row["id"] for row in rows if way in _OF_ONE_CHAIN and near.is_child(row)]
                return _found(ways[way][0], way, children)
        if UPSTREAM in ways:
            return _found(ways[UPSTREAM][0], UPSTREAM, ways[UPSTREAM])
        return await self._by_cause(symptom, judged.ranking)

    async def _is_another(self, way: str, row: Record, blamed: Blamed, *, is_part: bool) -> bool:
        """Whether an incident next to it is another problem. What is upstream may change what its cause is."""
        if way not in (DOWNSTREAM, UPSTREAM) or not is_unrelated(_blamed_by(row), blamed, is_part=is_part):
            return False
        if way == DOWNSTREAM:
            return True
        return is_unrelated(_blamed((await self.look(row["id"])).ranking), blamed, is_part=is_part)

    async def _by_cause(self, symptom: Symptom, ranking: Ranking) -> Found | None:
        cause = ranking.cause
        # What a run did itself is known by the run, but it may have failed as often before.
        if cause is None or (cause.depth == 0 and symptom.type != RUN_FAILED) or ranking.confidence < SURE:
            return None
        run_id, dataset_id = _uuid(cause.run_id), _uuid(cause.dataset.id if cause.dataset else None)
        job_id = _uuid(cause.job.id if cause.job else None)
        what = ranking.evidence[0].kind if ranking.evidence else None
        found = await self._conn.fetchval(
            Q.find_by_cause, self._organization_id, run_id, dataset_id, symptom.observed_at, SURE, job_id, what
        )
        return None if found is None else Found(found, SAME_CAUSE)

    # --- what becomes of it ---

    async def _pass_over(self, known: Record, symptom: Symptom) -> None:
        """An anomaly that says nothing new belongs to the same incident, and is over with it."""
        if symptom.anomaly_id is None:
            return
        pair = (symptom.anomaly_id, known["incident_id"])
        is_new = await self._conn.fetchval(Q.adopt_anomaly, self._organization_id, *pair) is not None
        if is_new and known["status"] == "resolved":
            await Clearing(self._conn, self._organization_id).settle({symptom.anomaly_id: OVER})

    async def _repeat(self, known: Record, symptom: Symptom) -> UUID:
        """The same thing on what the same run had produced: a retry."""
        incident_id: UUID = known["incident_id"]
        own = (self._organization_id, known["id"])
        if known["status"] == "resolved":
            await self.reopen(incident_id, symptom.observed_at, symptom.sentence)
        given = (symptom.observed_at, symptom.test_status, symptom.anomaly_id)
        await self._conn.execute(Q.repeat_symptom, *own, *given)
        if symptom.anomaly_id is not None:
            await self._conn.execute(Q.link_anomaly, self._organization_id, symptom.anomaly_id, incident_id)
        await self._touch(incident_id, symptom)
        detail = {"symptom_id": known["id"], "at": symptom.observed_at}
        time = await self._history.count(
            incident_id, "symptom_repeated", str(known["id"]), detail, symptom.observed_at, within_s=REPEATS_S
        )
        if symptom.cleared_at is None:
            await self._history.tell_symptom(known["id"], symptom.type, time)
        await self._end_if_over(incident_id, symptom)
        return incident_id

    async def _open(self, symptom: Symptom, judged: Judged) -> UUID:
        ranking = judged.ranking
        incident_id: UUID = await self._conn.fetchval(
            Q.insert_incident,
            self._organization_id,
            symptom.sentence,
            symptom.severity,
            symptom.type,
            symptom.dataset_id,
            symptom.column,
            symptom.job_id,
            symptom.own_run_id,
            symptom.observed_at,
            *_cause_columns(ranking, symptom.type),
            symptom.is_orphan,
        )
        detail = {"symptom": symptom.sentence, "cause": ranking.sentence, "confidence": round(ranking.confidence, 3)}
        await self._history.note(incident_id, "opened", detail)
        await self._add(incident_id, symptom, judged, is_news=symptom.cleared_at is None)
        return incident_id

    async def _join(self, found: Found, symptom: Symptom, judged: Judged) -> None:
        incident_id = found.incident_id
        state = await self._conn.fetchrow(Q.get_state, self._organization_id, incident_id)
        if found.how == BEFORE_END:
            symptom = replace(symptom, cleared_at=state["resolved_at"])
        elif state["status"] == "resolved":
            await self.reopen(incident_id, symptom.observed_at, symptom.sentence)
        is_news = state["status"] != "muted" and symptom.cleared_at is None and found.how != STARTED_IT
        await self._touch(incident_id, symptom)
        symptom_id = await self._add(incident_id, symptom, judged, is_news=is_news, how=found.how)
        for other in found.others:
            await Merging(self._conn, self._organization_id).merge(other, incident_id, HEADGATE, symptom.sentence)
        if found.how == UPSTREAM:
            await self.rerank(incident_id)
        elif found.how in _OF_ONE_CHAIN and symptom_id is not None:
            await self._retell(incident_id, state, symptom_id, judged)

    async def _retell(self, incident_id: UUID, state: Record, symptom_id: UUID, judged: Judged) -> None:
        """A symptom of the same run, or of one that it started or was started by, may say more than what is known."""
        symptom, ranking = judged.symptom, judged.ranking
        says_why = await self._telling.says_why(state, symptom)
        if says_why or self._telling.says_it_plainer(state, symptom):
            await self._telling.tell_by(incident_id, symptom_id)
        known = _blamed_by(state), state["cause_of"], state["opened_at"]
        is_of_run = symptom.own_run_id == state["run_id"]
        if says_why or (is_of_run and tells_more(*known, _blamed(ranking), symptom.type)):
            await self.set_cause(incident_id, ranking, of=symptom.type)

    async def _add(
        self, incident_id: UUID, symptom: Symptom, judged: Judged, *, is_news: bool, how: str | None = None
    ) -> UUID | None:
        symptom_id: UUID | None = await self._conn.fetchval(
            Q.insert_symptom, self._organization_id, incident_id, *_columns(symptom, judged.ranking.sentence)
        )
        if symptom_id is None:
            return None
        if how is not None:
            await self._note_joined(incident_id, symptom_id, symptom, how)
        if symptom.anomaly_id is not None:
            await self._conn.execute(Q.link_anomaly, self._organization_id, symptom.anomaly_id, incident_id)
        await self._add_paths(incident_id, symptom, judged.scene)
        if is_news:
            await self._history.tell_symptom(symptom_id, symptom.type)
        await self._end_if_over(incident_id, symptom)
        return symptom_id

    async def _note_joined(self, incident_id: UUID, symptom_id: UUID, symptom: Symptom, how: str) -> None:
        detail = {"symptom_id": symptom_id, "type": symptom.type, "symptom": symptom.sentence, "how": how}
        if how == AGAIN:
            given = (incident_id, "symptom_joined", symptom.key, detail, symptom.observed_at)
            await self._history.count(*given, within_s=AGAIN_S)
        else:
            await self._history.note(incident_id, "symptom_joined", detail)

    async def _add_paths(self, incident_id: UUID, symptom: Symptom, scene: Scene) -> None:
        own = symptom.own_run_id
        # The run of a test is above nothing, but what started it may fail because of it.
        roles: list[tuple[UUID, str]] = [] if own is None else [(own, "own")]
        for run in (own, symptom.run_id):
            roles += [(above, "above") for above in await self._above(run, scene)]
        roles += [(run, "upstream") for run in sorted(scene.runs_at(upstream=True))]
        if roles:
            runs, names = zip(*roles, strict=True)
            await self._conn.execute(Q.add_paths, self._organization_id, incident_id, list(runs), list(names))

    async def _above(self, run_id: UUID | None, scene: Scene) -> Sequence[UUID]:
        if run_id is None or run_id in scene.runs:
            return () if run_id is None else scene.above(run_id)
        return [row["run_id"] for row in await self._fetch(Q.list_above, run_id)]

    async def _touch(self, incident_id: UUID, symptom: Symptom) -> None:
        await self._conn.execute(
            Q.touch_incident, self._organization_id, incident_id, symptom.observed_at, symptom.severity
        )

    async def _end_if_over(self, incident_id: UUID, symptom: Symptom) -> None:
        """What was well again before anybody heard of it is kept, and troubles nobody."""
        if symptom.cleared_at is not None:
            clearing = Clearing(self._conn, self._organization_id)
            if symptom.anomaly_id is not None:
                await clearing.settle({symptom.anomaly_id: OVER})
            await clearing.end({incident_id: OVER}, is_news=False)

    # --- why ---

    async def judge(self, symptom: Symptom) -> Judged:
        """Who may have caused a symptom, and who most likely has."""
        scene = await self._scene(symptom)
        run = scene.runs.get(symptom.own_run_id) if symptom.own_run_id else None
        job = None if run is None else JobRef(run.job_namespace, run.job_name, str(run.job_id))
        urn = scene.urns.get(symptom.dataset_id) if symptom.dataset_id else None
        return Judged(symptom, scene, rank(symptom.failure(urn, job), scene.candidates))

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

    async def set_cause(
        self,
        incident_id: UUID,
        ranking: Ranking,
        actor: str = HEADGATE,
        *,
        of: str | None = None,
        is_manual: bool = False,
    ) -> None:
        """Keep the cause of an incident; what a person said stays until another says otherwise."""
        own = (self._organization_id, incident_id)
        before = await self._conn.fetchrow(Q.get_state, *own)
        columns = _cause_columns(ranking, of)
        done = await self._conn.fetchval(Q.set_cause, *own, *columns, actor, is_manual)
        is_said = is_manual and before["root_cause"] != ranking.sentence
        is_other = columns[3:] != tuple(before[name] for name in ("cause_run_id", "cause_job_id", "cause_dataset_id"))
        if done is not None and (is_said or is_other):
            was, sure = before["root_cause"], round(ranking.confidence, 3)
            detail = {"cause": ranking.sentence, "before": was, "confidence": sure}
            await self._history.note(incident_id, "root_changed", detail, actor)

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows


def _found(incident_id: UUID, way: str, all_: Sequence[UUID]) -> Found:
    return Found(incident_id, way, tuple(each for each in dict.fromkeys(all_) if each != incident_id))


def _is_of_child(row: Record, parent: UUID | None) -> bool:
    """Whether an incident is that a run failed which another had started, and nothing else is known to be why."""
    if row["kind"] != RUN_FAILED or row["role"] != "above" or row["first_parent_id"] != parent:
        return False
    return row["cause_run_id"] == row["first_run_id"] or not _blamed_by(row).is_sure


def _blamed(ranking: Ranking) -> Blamed:
    cause = ranking.cause
    job, dataset = (cause.job, cause.dataset) if cause else (None, None)
    who = job.id if job else dataset.id if dataset else None
    what = ranking.evidence[0].kind if ranking.evidence else None
    ended_at = cause.ended_at if cause else None
    return Blamed(who, cause.run_id if cause else None, ranking.confidence, ended_at, what)


def _blamed_by(row: Record) -> Blamed:
    who, run = row["cause_job_id"] or row["cause_dataset_id"], row["cause_run_id"]
    return Blamed(str(who) if who else None, str(run) if run else None, row["confidence"], None, row["cause_what"])


def _is_long_over(known: Record, symptom: Symptom) -> bool:
    """Whether it had been well again for a while, though the rest of its incident was not."""
    return known["cleared_at"] is not None and symptom.observed_at - known["cleared_at"] > WINDOW


def _identity(symptom: Symptom) -> UUID | None:
    return symptom.producing_run_id or symptom.run_id


def _is_history(known: Record, symptom: Symptom) -> bool:
    return bool(known["status"] == "resolved" and symptom.observed_at <= known["resolved_at"])


def _columns(symptom: Symptom, root_cause: str) -> tuple[object, ...]:
    return (
        symptom.type, symptom.key, symptom.dataset_id, symptom.column, symptom.job_id, symptom.run_id,
        symptom.producing_run_id, symptom.anomaly_id, symptom.test_key, symptom.test_name, symptom.test_status,
        symptom.severity, symptom.sentence, root_cause, symptom.observed_at, symptom.cleared_at,
    )  # fmt: skip


def _cause_columns(ranking: Ranking, of: str | None) -> tuple[object, ...]:
    """root_cause, cause, confidence, and the run, job and dataset of the cause."""
    cause = ranking.cause
    body = {
        "sentence": ranking.sentence,
        "symptom_type": of,
        "confidence": ranking.confidence,
        "chain": ranking.chain,
        "candidate": None if cause is None else _told(cause),
        "evidence": [_evidence(each) for each in ranking.evidence],
        "explains": [_evidence(each) | _whose(each, ranking) for each in ranking.explains],
        "rejected": [
            _told(each.candidate) | {"reason": each.reason, "score": each.score}
            for each in ranking.rejected[:MAX_REJECTED]
        ],
        "rejected_count": len(ranking.rejected),
    }
    job = cause.job if cause else None
    dataset = cause.dataset if cause else None
    run_id = _uuid(cause.run_id if cause else None)
    return (
        ranking.sentence, msgspec.json.encode(body).decode(), ranking.confidence, run_id,
        _uuid(job.id if job else None), _uuid(dataset.id if dataset else None),
    )  # fmt: skip


def _told(candidate: Candidate) -> dict[str, Any]:
    return {
        "run_id": candidate.run_id,
        "job": None if candidate.job is None else candidate.job._asdict(),
        "dataset": None if candidate.dataset is None else candidate.dataset._asdict(),
        "depth": candidate.depth,
        "via": "column" if candidate.via_column else "table",
        "columns": sorted(candidate.columns)[:MAX_TOLD],
        "state": candidate.state,
        "started_at": candidate.started_at,
        "ended_at": candidate.ended_at,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    told = evidence._asdict()
    seen_at = told.pop("seen_at")
    return told | {"at": seen_at or evidence.at}


def _whose(evidence: Evidence, ranking: Ranking) -> dict[str, Any]:
    """The dataset and the job that a fact is about; candidates that were not chosen have their own facts."""
    owners = (each.candidate for each in ranking.rejected if any(one is evidence for one in each.candidate.evidence))
    told = next((_told(each) for each in owners), {"dataset": None, "job": None})
    return {name: told[name] for name in ("dataset", "job")}


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
