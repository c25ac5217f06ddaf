"""What people do with incidents. Who did it is kept with each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from headgate.domain.incident import MAX_MUTE, Status, check_move
from headgate.domain.scene import Candidate, DatasetRef, JobRef, Ranking, Rejected
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.correlation.causes import Causes
from headgate.server.incidents.correlation.correlate import Correlator
from headgate.server.incidents.correlation.judging import Judging
from headgate.server.incidents.correlation.symptoms import get_run
from headgate.server.incidents.correlation.telling import Telling
from headgate.server.incidents.ending.clearing import Clearing
from headgate.server.incidents.record.history import History
from headgate.server.incidents.record.history import Q as Paths
from headgate.server.incidents.record.merging import Merging
from headgate.server.incidents.store import IncidentStore, Q
from headgate.server.references.datasets import Dataset

DEFAULT_MUTE: Final = timedelta(days=30)
ENDED_BY_SPLIT: Final = "nothing that is left in it was open when it was split"


class Life:
    """Changes by one actor, on a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID, actor: str) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._actor = actor
        self._history = History(conn, organization_id)

    async def find(self, text: str) -> Record:
        """The incident to change, with nobody else changing any; one that was merged is not for changing."""
        await self._history.lock()
        store = IncidentStore(self._conn, self._organization_id)
        row = await store.find(text)
        if row["merged_into"] is not None:
            (into,) = await store.read([row["merged_into"]])
            raise Conflict(
                f"incident {row['number']} was merged into {into['number']}", hint=f"change incident {into['number']}"
            )
        return row

    async def set_status(self, incident: Record, status: Status, reason: str | None, until: datetime | None) -> None:
        """What stays as it is is no change, but for the end of a mute; a reason that is given is kept all the same."""
        before = Status(incident["status"])
        if before is status and status is not Status.muted:
            if reason is not None:
                await self.note(incident, reason)
            return
        check_move(before, status)
        match status:
            case Status.resolved:
                await self._resolve(incident["id"], reason)
            case Status.muted:
                await self._mute(incident["id"], reason, until)
            case Status.acknowledged:
                await self._execute(Q.acknowledge_incident, incident["id"], self._actor)
                await self._note(incident["id"], "acknowledged", reason=reason)
            case Status.open if before is Status.resolved:
                await self._reopen(incident["id"], reason)
            case Status.open:
                await self._execute(Q.open_incident, incident["id"])
                kind = "unmuted" if before is Status.muted else "unacknowledged"
                await self._note(incident["id"], kind, reason=reason)

    async def assign(self, incident: Record, assignee: str | None) -> None:
        await self._execute(Q.assign_incident, incident["id"], assignee)
        await self._note(incident["id"], "assigned", assignee=assignee)

    async def note(self, incident: Record, text: str) -> None:
        await self._note(incident["id"], "note", text=text)

    async def merge(self, incident: Record, into: Record, reason: str | None) -> None:
        if incident["id"] == into["id"]:
            raise Conflict(f"incident {incident['number']} cannot be merged into itself", hint="name another one")
        if into["status"] == Status.resolved:
            raise Conflict(f"incident {into['number']} is resolved", hint="open it again first, or merge the other way")
        merging = Merging(self._conn, self._organization_id)
        await merging.merge(incident["id"], into["id"], self._actor, reason)

    async def split(self, incident: Record, symptom_ids: Sequence[UUID], reason: str | None) -> UUID:
        """Some symptoms become an incident of their own, whose cause is looked for anew; its id."""
        wanted = list(dict.fromkeys(symptom_ids))
        known = await self._conn.fetch(Q.list_symptom_ids, self._organization_id, incident["id"])
        _check_split(incident, {row["id"] for row in known}, wanted)
        made = await self._conn.fetchrow(Q.split_incident, self._organization_id, incident["id"], wanted[0])
        new: UUID = made["id"]
        await Merging(self._conn, self._organization_id).move(incident["id"], new, wanted)
        correlator = Correlator(self._conn, self._organization_id)
        telling = Telling(self._conn, self._organization_id)
        for each in (incident["id"], new):
            await telling.renew(each)
            await correlator.renew(each)
        await self._note(incident["id"], "split_into", incident_id=new, reason=reason)
        await self._note(new, "split_from", incident_id=incident["id"], reason=reason)
        for each in (incident["id"], new):
            await correlator.rerank(each)
        await self._end_parts(incident, new, was_open=any(row["is_open"] for row in known))
        return new

    async def _end_parts(self, incident: Record, new: UUID, *, was_open: bool) -> None:
        """Of the parts of a split those end that have nothing open, but not what was muted as it was over already."""
        clearing = Clearing(self._conn, self._organization_id)
        if incident["status"] == Status.resolved:
            for each in (incident["id"], new):
                await self._execute(Paths.delete_paths, each)
        elif was_open or incident["status"] != Status.muted:
            await clearing.end({incident["id"]: ENDED_BY_SPLIT})
            # Nobody was told of it by its own number.
            await clearing.end({new: ENDED_BY_SPLIT}, is_news=False)

    async def set_root(
        self, incident: Record, run_id: UUID | None, dataset: Dataset | None, reason: str | None
    ) -> None:
        """A person knows the cause: the run, or the dataset, and what speaks for it as far as anything does."""
        judged = await Judging(self._conn, self._organization_id).look(incident["id"])
        chosen = next((each for each in judged.scene.candidates if _is_chosen(each, run_id, dataset)), None)
        if chosen is None:
            chosen = await self._unexpected(run_id, dataset)
        others = [each for each in judged.scene.candidates if each.key != chosen.key]
        ranking = Ranking(
            cause=chosen,
            confidence=1.0,
            sentence=f"{_named(chosen, dataset)} is the cause, says {self._actor}.",
            evidence=chosen.evidence,
            rejected=tuple(Rejected(each, f"{self._actor} has named another", 0.0) for each in others),
            chain=chosen.chain,
        )
        causes = Causes(self._conn, self._organization_id)
        await causes.keep(incident["id"], ranking, self._actor, is_manual=True)
        if reason is not None:
            await self._note(incident["id"], "note", text=reason)

    async def forget_root(self, incident: Record, reason: str | None) -> None:
        """What a person has said is the cause no longer counts: it is looked for as of any other incident."""
        own = (self._organization_id, incident["id"])
        if await self._conn.fetchval(Q.forget_root, *own) is None:
            return
        await self._note(incident["id"], "root_forgotten", reason=reason)
        await Correlator(self._conn, self._organization_id).rerank(incident["id"])

    async def _unexpected(self, run_id: UUID | None, dataset: Dataset | None) -> Candidate:
        """A cause that no lineage leads to."""
        ref = None if dataset is None else DatasetRef(str(dataset.id), dataset.urn)
        bare = Candidate(key="chosen", dataset=ref, depth=0)
        if run_id is None:
            return bare
        run = await get_run(self._conn, self._organization_id, run_id)
        if run is None:
            raise NotFound(f"no run {str(run_id)!r}", hint="run is the OpenLineage runId; list them at /api/v1/runs")
        job = JobRef(run["job_namespace"], run["job_name"], str(run["job_id"]))
        ends = {"started_at": run["started_at"], "ended_at": run["ended_at"], "state": run["state"]}
        return replace(bare, run_id=str(run_id), job=job, **ends)

    async def _resolve(self, incident_id: UUID, reason: str | None) -> None:
        at = datetime.now(UTC)
        await self._history.clear(incident_id, at)
        await self._history.resolve(incident_id, at, reason, self._actor, is_news=True)
        await Clearing(self._conn, self._organization_id).settle_incidents({incident_id: reason}, self._actor)

    async def _reopen(self, incident_id: UUID, reason: str | None) -> None:
        await self._history.unclear(incident_id)
        await Clearing(self._conn, self._organization_id).reopen_anomalies(incident_id, reason, self._actor)
        correlator = Correlator(self._conn, self._organization_id)
        await correlator.reopen(incident_id, datetime.now(UTC), reason, self._actor)

    async def _mute(self, incident_id: UUID, reason: str | None, until: datetime | None) -> None:
        now = datetime.now(UTC)
        over = until or now + DEFAULT_MUTE
        if over > now + MAX_MUTE:
            error = FieldError("until", f"is more than {MAX_MUTE.days} days away", over.isoformat())
            raise InvalidFields([error], hint="mute it for a year at most, and again then")
        await self._execute(Q.mute_incident, incident_id, over)
        await self._note(incident_id, "muted", until=over, reason=reason)

    async def _note(self, incident_id: UUID, kind: str, /, **detail: object) -> None:
        await self._history.note(incident_id, kind, detail, self._actor)

    async def _execute(self, query: str, incident_id: UUID, *arguments: object) -> None:
        await self._conn.execute(query, self._organization_id, incident_id, *arguments)


def _named(chosen: Candidate, dataset: Dataset | None) -> str:
    """The cause as the person has named it."""
    if dataset is not None or chosen.job is None:
        return f"Dataset '{dataset.urn if dataset else chosen.dataset.urn if chosen.dataset else ''}'"
    when = f" at {chosen.ended_at:%Y-%m-%d %H:%M}" if chosen.ended_at else ""
    return f"Job '{chosen.job.name}'{when}"


def _check_split(incident: Record, known: set[UUID], wanted: Sequence[UUID]) -> None:
    foreign = [str(each) for each in wanted if each not in known]
    if foreign:
        error = FieldError("symptoms", f"is no symptom of incident {incident['number']}", foreign[0])
        raise InvalidFields([error], hint="symptoms are listed with the incident")
    if len(wanted) == len(known):
        raise Conflict(
            f"incident {incident['number']} has no other symptoms", hint="leave at least one of them where it is"
        )


def _is_chosen(candidate: Candidate, run_id: UUID | None, dataset: Dataset | None) -> bool:
    if run_id is not None:
        return candidate.run_id == str(run_id)
    return dataset is not None and candidate.dataset is not None and candidate.dataset.id == str(dataset.id)
