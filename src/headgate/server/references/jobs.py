"""Finds the job that a caller means: by id, `namespace/name`, bare name, or a run or application of it.

What several jobs answer to is a conflict that names them; what none answers to is not found, with the names that
come nearest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from uuid import UUID

from fastapi import Path

from headgate.errors import Conflict, NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.references.ids import as_id
from headgate.server.references.nearest import nearest_jobs
from headgate.server.shapes import JobOut

Q = Queries("headgate.server.references")

MAX_SHOWN = 10
_MAX_CUTS = 50

JobRef = Annotated[
    str,
    Path(
        description="Id, percent-encoded `namespace/name`, bare name, or the id of a run or application of the job",
        min_length=1,
        max_length=4000,
        examples=["airflow-prod%2Fshop_etl"],
    ),
]


class Job(NamedTuple):
    """A job that exists; `run_id` is the run it was found by, if it was."""

    id: UUID
    namespace: str
    name: str
    run_id: UUID | None = None

    @property
    def urn(self) -> str:
        return f"{self.namespace}/{self.name}"

    def out(self) -> JobOut:
        return JobOut(id=self.id, namespace=self.namespace, name=self.name)


async def find_job(conn: Connection, organization_id: UUID, text: str) -> Job:
    """The one job that `text` means; Conflict if there are several, NotFound if there is none."""
    found = await find_jobs(conn, organization_id, text)
    if len(found) == 1:
        return found[0]
    if found:
        shown = found[:MAX_SHOWN]
        raise Conflict(
            f"{text!r} means {len(found)} jobs: {', '.join(job.urn for job in shown)}",
            hint="give `namespace/name` or the id of one of them",
            candidates=[{"id": str(job.id), "namespace": job.namespace, "name": job.name} for job in shown],
        )
    raise await _unknown_job(conn, organization_id, text)


async def find_jobs(conn: Connection, organization_id: UUID, text: str) -> list[Job]:
    """Every job that `text` may mean, by the first way of reading it that fits any."""
    if (by_id := as_id(text)) is not None:
        for query in (Q.find_job_id, Q.find_run_job):
            if rows := await conn.fetch(query, organization_id, by_id):
                return _jobs(rows)
    if cuts := _cuts(text):
        namespaces, names = [cut[0] for cut in cuts], [cut[1] for cut in cuts]
        if rows := await conn.fetch(Q.find_job_names, organization_id, namespaces, names):
            return _jobs(rows[:1])
    for query in (Q.find_jobs_named, Q.find_application_job):
        if rows := await conn.fetch(query, organization_id, text.strip()):
            return _jobs(rows)
    return []


async def _unknown_job(conn: Connection, organization_id: UUID, text: str) -> NotFound:
    near = await nearest_jobs(conn, organization_id, text)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "list them at /api/v1/jobs"
    return NotFound(f"no job {text!r}", hint=hint, nearest=near)


def _cuts(text: str) -> list[tuple[str, str]]:
    """Every way to read `namespace/name`, the longest namespace first."""
    text = text.strip()
    slashes = [place for place, letter in enumerate(text) if letter == "/" and 0 < place < len(text) - 1]
    return [(text[:place], text[place + 1 :]) for place in reversed(slashes)][:_MAX_CUTS]


def _jobs(rows: Sequence[Record]) -> list[Job]:
    return [Job(**dict(row)) for row in rows]
