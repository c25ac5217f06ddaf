"""Incidents: what is wrong, why, whom it hits, and what people do about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final
from uuid import UUID

from fastapi import Depends, Path, Query, Request

from headgate.domain.anomaly import Severity
from headgate.domain.incident import Status
from headgate.errors import Conflict, NotFound
from headgate.server.auth import Principal
from headgate.server.db.pool import Connection
from headgate.server.deps import Db, Reads, Writer
from headgate.server.incidents import answers, schemas
from headgate.server.incidents.life import Life
from headgate.server.incidents.store import Filters, IncidentStore
from headgate.server.pagination import Numbered, Paged, encode_number
from headgate.server.problems import problems
from headgate.server.references.datasets import find_dataset
from headgate.server.references.jobs import find_job
from headgate.server.routing import new_router

router = new_router("/api/v1", "incidents")

MAX_DEPTH: Final = 10
DEFAULT_HOURS: Final = 168
DEFAULT_IMPACT: Final = 200
_NOBODY: Final = UUID(int=0)

Ref = Annotated[str, Path(description="Number or id", min_length=1, max_length=64, examples=["12"])]
Name = Annotated[str | None, Query(min_length=1, max_length=4000)]
Hours = Annotated[int, Query(ge=1, le=87_600, description="How far back, in hours")]


class Changing:
    """Opens a transaction for a change; whoever is to hear of it is told after the commit."""

    def __init__(self, request: Request, database: Db, caller: Writer) -> None:
        self.caller: Principal = caller
        self._database = database
        self._bell = request.app.state.bell

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Connection, Life]]:
        organization_id = self.caller.organization_id
        async with self._database.tenant(organization_id) as conn:
            yield conn, Life(conn, organization_id, self.caller.name)
        self._bell.ring(organization_id)

    async def answer(self, conn: Connection, incident_id: UUID) -> schemas.IncidentDetailOut:
        return await _detail(IncidentStore(conn, self.caller.organization_id), incident_id)


Changes = Annotated[Changing, Depends()]


@router.get("/incidents", responses=problems(NotFound, Conflict))
async def list_incidents(
    reads: Reads,
    page: Paged,
    status: Annotated[list[Status] | None, Query(description="May be given several times")] = None,
    severity: Severity | None = None,
    kind: Annotated[
        str | None, Query(max_length=200, description="Type of a symptom, such as TestFailed, in any spelling")
    ] = None,
    dataset: Annotated[Name, Query(description="With a symptom on this dataset: id, urn or any name")] = None,
    job: Annotated[Name, Query(description="With a symptom on this job, or caused by it: id or any name")] = None,
    assignee: Annotated[str | None, Query(min_length=1, max_length=200)] = None,
    hours: Annotated[int | None, Query(ge=1, le=87_600, description="Seen within the last hours")] = None,
    orphan: Annotated[bool | None, Query(description="Only those without a known producer, or with one")] = None,
) -> schemas.IncidentPage:
    """Incidents, the newest first."""
    states = [each.value for each in status] if status else None
    async with reads.open() as conn:
        own = (conn, reads.organization_id)
        dataset_id = (await find_dataset(*own, dataset)).id if dataset else None
        job_id = (await find_job(*own, job)).id if job else None
        store = IncidentStore(*own)
        type_ = await store.kind(kind) if kind is not None else None
        asked = Filters(states, severity, type_, dataset_id, job_id, assignee, hours, orphan)
        rows, cursor = await store.page(asked, page)
    return schemas.IncidentPage(items=[answers.incident_out(row) for row in rows], next_cursor=cursor)


@router.get("/incidents/counts")
async def count_incidents(reads: Reads, hours: Hours = DEFAULT_HOURS) -> schemas.CountsOut:
    """How many incidents go on, by status, severity and kind, and how many ended that were seen of late."""
    async with reads.open() as conn:
        rows = await IncidentStore(conn, reads.organization_id).counts(hours)
    return answers.counts_out(rows, hours)


@router.get("/incidents/orphans")
async def list_orphans(reads: Reads, page: Paged, hours: Hours = DEFAULT_HOURS) -> schemas.OrphanPage:
    """Datasets whose tests failed and that no job is known to write, those that failed last first.

    A dataset may be known under two names: `suggestions` leads to the alias rules that would bring them together.
    """
    async with reads.open() as conn:
        rows, cursor = await IncidentStore(conn, reads.organization_id).orphans(hours, page)
    items = [answers.orphan_out(row) for row in rows]
    return schemas.OrphanPage(items=items, next_cursor=cursor, suggestions=answers.SUGGESTIONS)


@router.get("/incidents/correlation")
async def get_correlation(reads: Reads, hours: Hours = DEFAULT_HOURS) -> schemas.CorrelationOut:
    """Of how many datasets with failed tests the producer is known; 1.0 if none failed."""
    async with reads.open() as conn:
        failed, correlated = await IncidentStore(conn, reads.organization_id).correlated(hours)
    return answers.correlation_out(failed, correlated, hours)


@router.get("/incidents/{incident}", responses=problems(NotFound))
async def get_incident(incident: Ref, reads: Reads) -> schemas.IncidentDetailOut:
    """One incident with its symptoms, and what started the run that it is of."""
    async with reads.open() as conn:
        store = IncidentStore(conn, reads.organization_id)
        return await _detail(store, (await store.find(incident))["id"])


@router.get("/incidents/{incident}/evidence", responses=problems(NotFound))
async def get_evidence(incident: Ref, reads: Reads) -> schemas.IncidentEvidenceOut:
    """Why it came about: the cause, how sure that is, what speaks for it, and what was rejected and why."""
    async with reads.open() as conn:
        store = IncidentStore(conn, reads.organization_id)
        cause = await store.cause((await store.find(incident))["id"])
        return answers.evidence_out(cause, await store.namesakes(cause))


@router.get("/incidents/{incident}/impact", responses=problems(NotFound))
async def get_impact(
    incident: Ref,
    reads: Reads,
    depth: Annotated[int, Query(ge=1, le=MAX_DEPTH)] = MAX_DEPTH,
    limit: Annotated[int, Query(ge=1, le=1000)] = DEFAULT_IMPACT,
) -> schemas.IncidentImpactOut:
    """What lies downstream of it: datasets by depth, the jobs that make them, and the owners of both."""
    async with reads.open() as conn:
        store = IncidentStore(conn, reads.organization_id)
        impact = await store.impact((await store.find(incident))["id"], depth, limit)
    return answers.impact_out(impact, limit)


@router.get("/incidents/{incident}/timeline", responses=problems(NotFound))
async def get_timeline(incident: Ref, reads: Reads, page: Numbered) -> schemas.TimelineOut:
    """What happened to it, in order, and who did it."""
    async with reads.open() as conn:
        store = IncidentStore(conn, reads.organization_id)
        found = await store.find(incident)
        rows = await store.events(found["id"], page.number or 0, page.limit + 1)
    cursor = encode_number(rows[page.limit - 1]["id"], _NOBODY) if len(rows) > page.limit else None
    return schemas.TimelineOut(items=[answers.event_out(row) for row in rows[: page.limit]], next_cursor=cursor)


@router.patch("/incidents/{incident}/status", responses=problems(NotFound, Conflict))
async def set_status(incident: Ref, body: schemas.StatusIn, changes: Changes) -> schemas.IncidentDetailOut:
    """Acknowledges, resolves, mutes or opens it. What is resolved can be opened again, or muted."""
    async with changes.open() as (conn, life):
        found = await life.find(incident)
        await life.set_status(found, body.status, body.reason, body.until)
        return await changes.answer(conn, found["id"])


@router.post("/incidents/{incident}/assign", responses=problems(NotFound, Conflict))
async def assign_incident(incident: Ref, body: schemas.AssignIn, changes: Changes) -> schemas.IncidentDetailOut:
    """Gives it to somebody; null to nobody."""
    async with changes.open() as (conn, life):
        found = await life.find(incident)
        await life.assign(found, body.assignee)
        return await changes.answer(conn, found["id"])


@router.post("/incidents/{incident}/notes", responses=problems(NotFound, Conflict))
async def add_note(incident: Ref, body: schemas.NoteIn, changes: Changes) -> schemas.IncidentDetailOut:
    """Adds a note, which the timeline shows."""
    async with changes.open() as (conn, life):
        found = await life.find(incident)
        await life.note(found, body.text)
        return await changes.answer(conn, found["id"])


@router.post("/incidents/{incident}/merge", responses=problems(NotFound, Conflict))
async def merge_incident(incident: Ref, body: schemas.MergeIn, changes: Changes) -> schemas.IncidentDetailOut:
    """Makes its symptoms another's; answers with that one."""
    async with changes.open() as (conn, life):
        found, into = await life.find(incident), await life.find(str(body.into))
        await life.merge(found, into, body.reason)
        return await changes.answer(conn, into["id"])


@router.post("/incidents/{incident}/split", status_code=201, responses=problems(NotFound, Conflict))
async def split_incident(incident: Ref, body: schemas.SplitIn, changes: Changes) -> schemas.IncidentDetailOut:
    """Makes an incident of its own of some symptoms, looks for its cause, and answers with it."""
    async with changes.open() as (conn, life):
        new = await life.split(await life.find(incident), body.symptoms, body.reason)
        return await changes.answer(conn, new)


@router.post("/incidents/{incident}/root", responses=problems(NotFound, Conflict))
async def set_root(incident: Ref, body: schemas.RootIn, changes: Changes) -> schemas.IncidentDetailOut:
    """Says what the cause is: a run, or a dataset. It stays, whatever is found later."""
    async with changes.open() as (conn, life):
        found = await life.find(incident)
        own = (conn, changes.caller.organization_id)
        dataset = await find_dataset(*own, body.dataset) if body.dataset is not None else None
        await life.set_root(found, body.run, dataset, body.reason)
        return await changes.answer(conn, found["id"])


@router.delete("/incidents/{incident}/root", responses=problems(NotFound, Conflict))
async def forget_root(
    incident: Ref,
    changes: Changes,
    reason: Annotated[schemas.Reason | None, Query(description="Why; it is kept")] = None,
) -> schemas.IncidentDetailOut:
    """Takes back what somebody said is the cause: it is looked for again. Without such a word nothing changes."""
    async with changes.open() as (conn, life):
        found = await life.find(incident)
        await life.forget_root(found, reason)
        return await changes.answer(conn, found["id"])


async def _detail(store: IncidentStore, incident_id: UUID) -> schemas.IncidentDetailOut:
    (row,) = await store.read([incident_id])
    symptoms, parents = await store.symptoms(incident_id), await store.parents(row["run_id"])
    impact = await store.impact(incident_id, MAX_DEPTH, DEFAULT_IMPACT)
    notes, namesakes = await store.notes(incident_id), await store.namesakes(row)
    return answers.detail_out(row, symptoms, parents, answers.impact_out(impact, DEFAULT_IMPACT), notes, namesakes)
