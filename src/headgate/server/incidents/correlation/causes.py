"""What is kept of a cause: the sentence, the evidence, who was rejected and why; and whom it blames."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import msgspec

from headgate.domain.incident import HEADGATE, Blamed
from headgate.domain.scene import Candidate, Evidence, Ranking
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation.symptoms import Q
from headgate.server.incidents.record.history import History

MAX_REJECTED: Final = 20
MAX_TOLD: Final = 50


class Causes:
    """On a connection that has the organisation set and holds the lock on its incidents."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._history = History(conn, organization_id)

    async def keep(
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
        columns = cause_columns(ranking, of)
        done = await self._conn.fetchval(Q.set_cause, *own, *columns, actor, is_manual)
        is_said = is_manual and before["root_cause"] != ranking.sentence
        is_other = columns[3:] != tuple(before[name] for name in ("cause_run_id", "cause_job_id", "cause_dataset_id"))
        if done is not None and (is_said or is_other):
            was, sure = before["root_cause"], round(ranking.confidence, 3)
            detail = {"cause": ranking.sentence, "before": was, "confidence": sure}
            await self._history.note(incident_id, "root_changed", detail, actor)

    async def explain(self, symptom_id: UUID, ranking: Ranking) -> None:
        """Keep what caused a symptom."""
        given = (symptom_id, ranking.sentence, ranking.confidence)
        await self._conn.execute(Q.explain_symptom, self._organization_id, *given)


def blamed_in(ranking: Ranking) -> Blamed:
    cause = ranking.cause
    job, dataset = (cause.job, cause.dataset) if cause else (None, None)
    who = job.id if job else dataset.id if dataset else None
    what = ranking.evidence[0].kind if ranking.evidence else None
    ended_at = cause.ended_at if cause else None
    return Blamed(who, cause.run_id if cause else None, ranking.confidence, ended_at, what)


def blamed_by(row: Record) -> Blamed:
    who, run = row["cause_job_id"] or row["cause_dataset_id"], row["cause_run_id"]
    return Blamed(str(who) if who else None, str(run) if run else None, row["confidence"], None, row["cause_what"])


def cause_columns(ranking: Ranking, of: str | None) -> tuple[object, ...]:
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
    run_id = uuid_of(cause.run_id if cause else None)
    return (
        ranking.sentence, msgspec.json.encode(body).decode(), ranking.confidence, run_id,
        uuid_of(job.id if job else None), uuid_of(dataset.id if dataset else None),
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


def uuid_of(text: str | None) -> UUID | None:
    return None if text is None else UUID(text)
