"""Which incident a symptom belongs to, and what caused it: one problem, one incident.

A symptom goes with what it was before; with others on what the same run produced; with the open incident whose root
it lies downstream of, or upstream of; with one that has the same cause. Else it opens an incident of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID

from headgate.domain.incident import HEADGATE, WINDOW, tells_more
from headgate.domain.scene import Ranking
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation import symptoms
from headgate.server.incidents.correlation.causes import Causes, blamed_by, blamed_in, cause_columns
from headgate.server.incidents.correlation.judging import Judged, Judging
from headgate.server.incidents.correlation.matching import (
    AGAIN,
    BEFORE_END,
    OF_ONE_CHAIN,
    STARTED_IT,
    UPSTREAM,
    Found,
    Matching,
)
from headgate.server.incidents.correlation.symptoms import Q, Symptom
from headgate.server.incidents.correlation.telling import Telling
from headgate.server.incidents.ending.clearing import Clearing
from headgate.server.incidents.record.history import History
from headgate.server.incidents.record.merging import Merging
from headgate.server.incidents.scene.load import Scene

# So many symptoms are looked into again when an incident goes on, for the runs on its path.
MAX_AGAIN: Final = 10
# So many incidents are looked into again when a run is heard of late.
MAX_LATE: Final = 20
# Within so long what is seen again is one event with a count: a preview of alerts goes by these, too. What is the same
# on another run has a symptom of its own.
REPEATS_S: Final = 3600.0
AGAIN_S: Final = 366 * 86_400.0

OVER: Final = "it was well again before anybody was told"


class Correlator:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._history = History(conn, organization_id)
        self._telling = Telling(conn, organization_id)
        self._judging = Judging(conn, organization_id)
        self._causes = Causes(conn, organization_id)
        self._matching = Matching(conn, organization_id, self._judging)
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
        judged = await self._judging.judge(symptom)
        found = self._matching.by_key(known, symptom, judged) or await self._matching.by_path(judged)
        if found is None:
            return await self._open(symptom, judged)
        await self._join(found, symptom, judged)
        return found.incident_id

    async def rerank(self, incident_id: UUID) -> Judged:
        """Look again for the cause of an incident: more may be known by now."""
        row = await self._conn.fetchrow(Q.get_telling_symptom, self._organization_id, incident_id)
        judged = await self._judging.judge(symptoms.of_row(row))
        await self._causes.keep(incident_id, judged.ranking, of=judged.symptom.type)
        await self._causes.explain(row["id"], judged.ranking)
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
        self._judging.forget()
        over: set[UUID] = set()
        for row in rows:
            if row["id"] not in over:
                judged = await self.rerank(row["id"])
                await self._add_paths(row["id"], judged)
                over.update(await self._unite(row["id"], judged))

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
        over: set[UUID] = set()
        for incident_id in dict.fromkeys(row["incident_id"] for row in rows):
            if incident_id not in over:
                await self.renew(incident_id)
                over.update(await self._unite(incident_id, await self.rerank(incident_id)))

    async def rename(self, dataset_ids: Sequence[UUID]) -> None:
        """Datasets are others now: what is wrong with those that nobody is known to write is found by their new ids."""
        for row in await self._fetch(Q.list_on_data, list(dataset_ids)):
            await self.renew(row["id"])

    async def _unite(self, incident_id: UUID, judged: Judged) -> Sequence[UUID]:
        """By what is known now, an incident may be part of another problem: then both are one. Those that are over."""
        found = await self._matching.by_path(judged, besides=incident_id)
        if found is None:
            return ()
        parts = [incident_id, found.incident_id, *found.others]
        oldest, *others = [row["id"] for row in await self._fetch(Q.list_parts, parts)] or [incident_id]
        for other in others:
            reason = f"by what is known now, it is {found.how}"
            await Merging(self._conn, self._organization_id).merge(other, oldest, HEADGATE, reason)
        if others:
            await self.rerank(oldest)
        return others

    async def _explain(self, symptom_id: UUID) -> None:
        """Look again for the cause of a symptom."""
        own = (self._organization_id, symptom_id)
        judged = await self._judging.judge(symptoms.of_row(await self._conn.fetchrow(Q.get_symptom, *own)))
        await self._causes.explain(symptom_id, judged.ranking)

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
            judged = await self._judging.judge(symptoms.of_row(row))
            await self._add_paths(incident_id, judged)
            await self._causes.explain(row["id"], judged.ranking)

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
        unheard = {} if symptom.cleared_at is None else {"is_news": False}
        detail = {"symptom_id": known["id"], "at": symptom.observed_at} | unheard
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
            *cause_columns(ranking, symptom.type),
            symptom.is_orphan,
        )
        detail = {"symptom": symptom.sentence, "cause": ranking.sentence, "confidence": round(ranking.confidence, 3)}
        await self._history.note(incident_id, "opened", detail)
        await self._add(incident_id, symptom, judged, is_news=symptom.cleared_at is None)
        return incident_id

    async def _join(self, found: Found, symptom: Symptom, judged: Judged) -> None:
        incident_id = found.incident_id
        state = await self._conn.fetchrow(Q.get_state, self._organization_id, incident_id)
        is_reopened = state["status"] == "resolved" and found.how != BEFORE_END
        if found.how == BEFORE_END:
            symptom = replace(symptom, cleared_at=state["resolved_at"])
        elif is_reopened:
            await self.reopen(incident_id, symptom.observed_at, symptom.sentence)
        is_news = symptom.cleared_at is None and found.how != STARTED_IT
        await self._touch(incident_id, symptom)
        symptom_id = await self._add(incident_id, symptom, judged, is_news=is_news, how=found.how)
        for other in found.others:
            await Merging(self._conn, self._organization_id).merge(other, incident_id, HEADGATE, symptom.sentence)
        if is_reopened and symptom_id is not None:
            # What it was before is over: title, run and cause are of what is wrong now.
            await self._telling.tell_by(incident_id, symptom_id)
            await self._causes.keep(incident_id, judged.ranking, of=symptom.type)
        elif found.how == UPSTREAM:
            await self.rerank(incident_id)
        elif found.how in OF_ONE_CHAIN and symptom_id is not None:
            await self._retell(incident_id, state, symptom_id, judged)

    async def _retell(self, incident_id: UUID, state: Record, symptom_id: UUID, judged: Judged) -> None:
        """A symptom of the same run, or of one that it started or was started by, may say more than what is known."""
        symptom, ranking = judged.symptom, judged.ranking
        says_why = await self._telling.says_why(state, symptom)
        if says_why or self._telling.says_it_plainer(state, symptom):
            await self._telling.tell_by(incident_id, symptom_id)
        known = blamed_by(state), state["cause_of"], state["opened_at"]
        is_of_run = symptom.own_run_id == state["run_id"]
        if says_why or (is_of_run and tells_more(*known, blamed_in(ranking), symptom.type)):
            await self._causes.keep(incident_id, ranking, of=symptom.type)

    async def _add(
        self, incident_id: UUID, symptom: Symptom, judged: Judged, *, is_news: bool, how: str | None = None
    ) -> UUID | None:
        symptom_id: UUID | None = await self._conn.fetchval(
            Q.insert_symptom, self._organization_id, incident_id, *_columns(symptom, judged.ranking), is_news
        )
        if symptom_id is None:
            return None
        if how is not None:
            await self._note_joined(incident_id, symptom_id, symptom, how)
        if symptom.anomaly_id is not None:
            await self._conn.execute(Q.link_anomaly, self._organization_id, symptom.anomaly_id, incident_id)
        await self._add_paths(incident_id, judged)
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

    async def _add_paths(self, incident_id: UUID, judged: Judged) -> None:
        symptom, own = judged.symptom, judged.symptom.own_run_id
        roles: list[tuple[UUID, str]] = [] if symptom.origin is None else [(symptom.origin, "own")]
        # The run of a test is above nothing, but what started it may fail because of it.
        for run in (own, symptom.run_id):
            roles += [(above, "above") for above in await self._above(run, judged.scene)]
        roles += [(each, "upstream") for each in sorted(judged.upstream)]
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

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows


def _identity(symptom: Symptom) -> UUID | None:
    return symptom.producing_run_id or symptom.run_id


def _is_history(known: Record, symptom: Symptom) -> bool:
    return bool(known["status"] == "resolved" and symptom.observed_at <= known["resolved_at"])


def _columns(symptom: Symptom, ranking: Ranking) -> tuple[object, ...]:
    return (
        symptom.type, symptom.key, symptom.dataset_id, symptom.column, symptom.job_id, symptom.run_id,
        symptom.producing_run_id, symptom.anomaly_id, symptom.test_key, symptom.test_name, symptom.test_status,
        symptom.severity, symptom.sentence, ranking.sentence, ranking.confidence, symptom.observed_at,
        symptom.cleared_at,
    )  # fmt: skip
