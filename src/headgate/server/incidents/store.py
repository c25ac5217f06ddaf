"""Reads incidents: lists, one of them, why it came about, whom it hits, and what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from headgate.domain.incident import SYMPTOMS, read_symptom
from headgate.errors import FieldError, InvalidFields, NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page
from headgate.server.references.ids import as_any_id

Q = Queries("headgate.server.incidents")

MAX_SYMPTOMS: Final = 500
MAX_NOTES: Final = 50
MAX_NAMESAKES: Final = 5
_MAX_NUMBER: Final = 2**63 - 1


class Filters(NamedTuple):
    """Incidents that are asked for; what is None is not asked for."""

    status: list[str] | None = None
    severity: str | None = None
    kind: str | None = None
    dataset_id: UUID | None = None
    job_id: UUID | None = None
    assignee: str | None = None
    hours: int | None = None
    is_orphan: bool | None = None


class Impact(NamedTuple):
    """Datasets downstream of some, the jobs that write them, and those among them that have symptoms."""

    roots: list[UUID]
    rows: Sequence[Record]
    writers: Sequence[Record]
    seen_on: frozenset[UUID]


class IncidentStore:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def find(self, text: str) -> Record:
        """The incident that an id or a number means."""
        number = text.removeprefix("#")
        as_number = int(number) if number.isascii() and number.isdigit() and int(number) <= _MAX_NUMBER else None
        as_id = as_any_id(text) if as_number is None else None
        row = None
        if as_id is not None or as_number is not None:
            row = await self._conn.fetchrow(Q.find_incident, self._organization_id, as_id, as_number)
        if row is None:
            raise NotFound(f"no incident {text!r}", hint="give its number or its id; list them at /api/v1/incidents")
        return row

    async def kind(self, text: str) -> str:
        """The type of symptom that is meant: one of ours in any spelling, or a word of a client that was seen."""
        known = read_symptom(text) or await self._conn.fetchval(Q.find_symptom_type, self._organization_id, text)
        if known is None:
            error = FieldError("query.kind", "is no kind of incident that there is", text)
            raise InvalidFields([error], hint=f"use one of {', '.join(SYMPTOMS)}, or leave it out")
        return str(known)

    async def page(self, asked: Filters, page: Page) -> tuple[Sequence[Record], str | None]:
        """Incidents, the newest first, and the cursor of the next page."""
        rows = await self._fetch(Q.list_incidents, *asked, page.at, page.id, page.limit + 1)
        kept, cursor = page.cut(rows, "opened_at")
        return await self.read([row["id"] for row in kept]), cursor

    async def read(self, ids: Sequence[UUID]) -> Sequence[Record]:
        return await self._fetch(Q.read_incidents, list(ids)) if ids else []

    async def symptoms(self, incident_id: UUID) -> Sequence[Record]:
        return await self._fetch(Q.list_symptoms, incident_id, MAX_SYMPTOMS)

    async def parents(self, run_id: UUID | None) -> Sequence[Record]:
        return [] if run_id is None else await self._fetch(Q.list_parents, run_id)

    async def cause(self, incident_id: UUID) -> Record:
        return await self._conn.fetchrow(Q.get_cause, self._organization_id, incident_id)

    async def events(self, incident_id: UUID, after: int, limit: int) -> Sequence[Record]:
        return await self._fetch(Q.list_events, incident_id, after, limit)

    async def notes(self, incident_id: UUID) -> Sequence[Record]:
        return await self._fetch(Q.list_notes, incident_id, MAX_NOTES)

    async def namesakes(self, incident: Record) -> Sequence[Record]:
        """Of an incident on a dataset without a known producer, the datasets with one that may be the same."""
        return (
            await self._fetch(Q.list_namesakes, incident["dataset_id"], MAX_NAMESAKES) if incident["is_orphan"] else []
        )

    async def counts(self, hours: int) -> Sequence[Record]:
        return await self._fetch(Q.count_incidents, hours)

    async def impact(self, incident_id: UUID, depth: int, limit: int) -> Impact:
        """What is downstream of where an incident came from; the roots count for the walk, and come first."""
        found = await self._conn.fetchrow(Q.get_roots, self._organization_id, incident_id)
        cause, first = found["cause_id"], found["dataset_id"]
        roots = [each for each in (cause or first,) if each is not None]
        rows = await self._fetch(Q.walk_impact, roots, depth, limit + 1) if roots else []
        if first is not None and first not in {row["id"] for row in rows}:
            roots = [*roots, first]
            rows = await self._fetch(Q.walk_impact, roots, depth, limit + 2)
        writers = await self._fetch(Q.list_writers, [row["id"] for row in rows if row["depth"] > 0])
        return Impact(roots, rows, writers, frozenset(found["seen_on"]))

    async def orphans(self, hours: int, page: Page) -> tuple[Sequence[Record], str | None]:
        """Datasets without a known producer whose tests failed, and the cursor of the next page."""
        rows = await self._fetch(Q.list_orphans, hours, page.at, page.id, page.limit + 1)
        return page.cut(rows, "last_observed_at")

    async def correlated(self, hours: int) -> tuple[int, int]:
        """How many datasets had failed tests, and of how many of them a producer is known."""
        row = await self._conn.fetchrow(Q.count_correlated, self._organization_id, hours)
        return row["failed"], row["correlated"]

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows
