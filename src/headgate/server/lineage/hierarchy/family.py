"""What jobs consist of and are part of, as their latest runs show it: DAG, task, application, query."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final
from uuid import UUID

from headgate.server.db.pool import Connection
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.lineage.hierarchy")

MAX_LEVELS: Final = 10
_RUNS_OF_A_JOB: Final = 20
_MAX_CHILD_RUNS: Final = 10_000


class Family:
    """The job in the middle with its parts, and the parents of any job that is asked about."""

    def __init__(self, conn: Connection, organization_id: UUID, root: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self.root = root
        # Below the root: each part once, under the job that it was first met under.
        self.parent_of: dict[UUID, UUID] = {}
        self.is_cut = False
        self.members: frozenset[UUID] = frozenset({root})
        self._parents: dict[UUID, UUID | None] = {}
        self._tops: dict[UUID, UUID] = {}

    @classmethod
    async def of(cls, conn: Connection, organization_id: UUID, root: UUID, *, limit: int) -> Family:
        """A job with at most `limit` of its parts, and what it is part of itself."""
        family = cls(conn, organization_id, root)
        await family._descend(limit)
        await family.learn([root])
        family.members = frozenset({root, *family.parent_of})
        return family

    async def _descend(self, limit: int) -> None:
        """Find the parts of the root, level by level, from its latest runs down."""
        rows = await self._conn.fetch(Q.list_latest_runs, self._organization_id, [self.root], _RUNS_OF_A_JOB)
        runs = {row["run_id"]: row["job_id"] for row in rows}
        seen = set(runs)
        for _ in range(MAX_LEVELS):
            if not runs:
                break
            rows = await self._conn.fetch(
                Q.list_child_runs, self._organization_id, list(runs), _RUNS_OF_A_JOB, _MAX_CHILD_RUNS
            )
            self.is_cut = self.is_cut or len(rows) == _MAX_CHILD_RUNS
            for row in rows:
                self._take_in(row["job_id"], runs[row["parent_run_id"]], limit)
            runs = {row["run_id"]: row["job_id"] for row in rows if row["run_id"] not in seen}
            seen |= set(runs)

    async def learn(self, jobs: Collection[UUID]) -> None:
        """Look up what these jobs are part of, up to the top."""
        wanted = set(jobs)
        for _ in range(MAX_LEVELS):
            unknown = [job for job in wanted if job not in self._parents]
            if not unknown:
                return
            rows = await self._conn.fetch(Q.list_parents, self._organization_id, unknown)
            self._parents |= dict.fromkeys(unknown)
            self._parents |= {row["id"]: row["parent_id"] for row in rows}
            wanted = {row["parent_id"] for row in rows}

    def above(self, job: UUID) -> Iterator[UUID]:
        """The jobs that a job is part of, nearest first, as far as they were learnt."""
        seen = {job}
        parent = self._parents.get(job)
        while parent is not None and parent not in seen and len(seen) <= MAX_LEVELS:
            yield parent
            seen.add(parent)
            parent = self._parents.get(parent)

    def top_of(self, job: UUID) -> UUID:
        """What stands for a job when parts are rolled up: the highest job above it that does not hold the root too."""
        if job not in self._tops:
            self._tops[job] = self._find_top(job)
        return self._tops[job]

    def _find_top(self, job: UUID) -> UUID:
        if job in self.members:
            return self.root
        shared = set(self.above(self.root))
        top = job
        for parent in self.above(job):
            if parent in self.members:
                return self.root
            if parent in shared:
                break
            top = parent
        return top

    def _take_in(self, job: UUID, parent: UUID, limit: int) -> None:
        if job == self.root or job in self.parent_of:
            return
        if len(self.parent_of) >= limit:
            self.is_cut = True
        elif parent == self.root or parent in self.parent_of:
            self.parent_of[job] = parent
