"""Goes from a job through its datasets to the jobs around it, step by step, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.lineage.hierarchy.family import Family

Q = Queries("headgate.server.lineage.hierarchy")

_EACH: Final = 1000


class Edge(NamedTuple):
    source: UUID
    target: UUID
    kind: str


class Direction(NamedTuple):
    """Which way to go: what jobs do with the datasets of the next step, and what the jobs beyond do with them."""

    near: str
    far: str


DOWN: Final = Direction("output", "input")
UP: Final = Direction("input", "output")


class Walk:
    """What was met so far. A job stands for all that are rolled up into it, and they are at the same depth."""

    def __init__(
        self, conn: Connection, organization_id: UUID, family: Family, *, limit: int, stands_for: Callable[[UUID], UUID]
    ) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._family = family
        self._limit = limit
        self._stands_for = stands_for
        self.jobs: dict[UUID, int] = {}
        self.datasets: dict[UUID, int] = {}
        self.edges: dict[Edge, datetime] = {}
        self.parts: dict[UUID, set[UUID]] = {}
        self.hidden: set[UUID] = set()
        self.is_cut = False
        self._start: list[UUID] = []

    def begin(self, jobs: Sequence[UUID]) -> None:
        self._start = [job for job in jobs if self._meet_job(job, 0)]

    async def go(self, direction: Direction, depth: int) -> None:
        """Take in what lies in one direction, up to so many jobs away."""
        frontier = set(self._start)
        seen = set(self._start)
        levels = {self._stands_for(job): 0 for job in self._start}
        for level in range(1, depth + 1):
            here, frontier = frontier, set()
            while here:
                met = await self._step(here, direction, level) - seen
                seen |= met
                # A part of what is already there is no step away from it.
                here = {job for job in met if levels.setdefault(self._stands_for(job), level) < level}
                frontier |= met - here

    async def _step(self, jobs: Collection[UUID], direction: Direction, level: int) -> set[UUID]:
        """From jobs through their datasets to the jobs beyond; those that were met."""
        datasets = set()
        for use in await self._uses(Q.list_uses, jobs, direction.near):
            if self._meet(self.datasets, use["dataset_id"], level):
                datasets.add(use["dataset_id"])
                self._connect(use, direction.near)
        users = await self._uses(Q.list_users, datasets, direction.far)
        await self._family.learn({use["job_id"] for use in users})
        met = set()
        for use in users:
            if self._meet_job(use["job_id"], level):
                met.add(use["job_id"])
                self._connect(use, direction.far)
        return met

    async def _uses(self, query: str, ids: Collection[UUID], role: str) -> list[Record]:
        if not ids:
            return []
        bound = 10 * self._limit + _EACH
        rows: list[Record] = await self._conn.fetch(query, self._organization_id, list(ids), role, _EACH, bound)
        self.is_cut = self.is_cut or len(rows) == bound
        return rows

    def _meet_job(self, job: UUID, level: int) -> bool:
        stand_in = self._stands_for(job)
        if not self._meet(self.jobs, stand_in, level):
            return False
        self.parts.setdefault(stand_in, set()).add(job)
        return True

    def _meet(self, met: dict[UUID, int], thing: UUID, level: int) -> bool:
        if thing in met:
            met[thing] = min(met[thing], level)
            return True
        if len(self.jobs) + len(self.datasets) >= self._limit:
            self.hidden.add(thing)
            return False
        met[thing] = level
        return True

    def _connect(self, use: Record, role: str) -> None:
        job, dataset = self._stands_for(use["job_id"]), use["dataset_id"]
        edge = Edge(job, dataset, "writes") if role == "output" else Edge(dataset, job, "reads")
        self.edges[edge] = max(use["last_seen_at"], self.edges.get(edge, use["last_seen_at"]))
