"""The graph of jobs and datasets around a node: from job to job over the datasets between them.

A job's neighbours are those that write what it reads or read what it writes. Nearest first, each once, until the
depth or the bound on nodes is reached.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from headgate.server.db.queries import Queries
from headgate.server.marquez.datasets import DatasetStore
from headgate.server.marquez.jobs import JobStore, Use
from headgate.server.marquez.lookup import Tenant
from headgate.server.marquez.nodes import dataset_node, job_node

Q = Queries("headgate.server.marquez.graph")
Json = dict[str, Any]
# A job, the dataset that led to it, and what the job does with it.
Reached = tuple[UUID, UUID, str]

MAX_NODES: Final = 2000
_MAX_USERS: Final = 10_000
_OPPOSITE: Final = {"input": "output", "output": "input"}


@dataclass
class Walk:
    """What has been reached: jobs with what they read and write, and datasets."""

    jobs: dict[UUID, list[Use]] = field(default_factory=dict)
    datasets: dict[UUID, None] = field(default_factory=dict)
    truncated: bool = False

    def add(self, job_id: UUID, uses: Sequence[Use]) -> bool:
        """Take in a job with its datasets, if there is room for them."""
        new = {use.dataset_id for use in uses} - self.datasets.keys()
        if self.jobs and len(self.jobs) + len(self.datasets) + len(new) >= MAX_NODES:
            self.truncated = True
            return False
        self.jobs[job_id] = list(uses)
        self.datasets |= dict.fromkeys(use.dataset_id for use in uses)
        return True


class JobGraph:
    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._jobs = JobStore(tenant)
        self._datasets = DatasetStore(tenant)

    async def around_dataset(self, dataset_id: UUID, depth: int) -> Json:
        walk = Walk(datasets={dataset_id: None})
        reached = await self._users(walk, [(dataset_id, None)])
        return await self._follow(walk, reached, depth)

    async def around_job(self, job_id: UUID, depth: int) -> Json:
        walk = Walk()
        walk.add(job_id, await self._jobs.uses([job_id]))
        return await self._follow(walk, await self._users(walk, _outward(walk.jobs[job_id])), depth - 1)

    async def _follow(self, walk: Walk, reached: Collection[Reached], depth: int) -> Json:
        """Go on from the jobs reached, which are one step away; depth says how many steps may follow."""
        while depth >= 0:
            frontier = await self._enter(walk, reached)
            if not frontier or depth == 0 or walk.truncated:
                break
            reached = await self._users(walk, dict.fromkeys(_outward(frontier)))
            depth -= 1
        return await self._render(walk)

    async def _enter(self, walk: Walk, reached: Collection[Reached]) -> list[Use]:
        """Take in those jobs that still use the dataset they were reached by; what they read and write."""
        candidates = {job_id for job_id, _, _ in reached} - walk.jobs.keys()
        by_job: dict[UUID, list[Use]] = {}
        for use in await self._jobs.uses(candidates):
            by_job.setdefault(use.job_id, []).append(use)
        entered: list[Use] = []
        for job_id, uses in sorted(by_job.items()):
            is_current = any((job_id, use.dataset_id, use.role) in reached for use in uses)
            if is_current and walk.add(job_id, uses):
                entered += uses
        return entered

    async def _users(self, walk: Walk, wanted: Iterable[tuple[UUID, str | None]]) -> set[Reached]:
        """Job, dataset and role of those that use these datasets in these roles."""
        pairs = list(wanted)
        ids, roles = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        rows = await self._tenant.fetch(Q.list_users, ids, roles, _MAX_USERS)
        walk.truncated = walk.truncated or len(rows) == _MAX_USERS
        return {(row["job_id"], row["dataset_id"], row["role"]) for row in rows}

    async def _render(self, walk: Walk) -> Json:
        datasets = await self._datasets.nodes(list(walk.datasets))
        jobs = await self._jobs.nodes(list(walk.jobs))
        read: dict[UUID, list[str]] = {}
        written: dict[UUID, list[str]] = {}
        for job_id, uses in walk.jobs.items():
            for use in uses:
                (read if use.role == "input" else written).setdefault(use.dataset_id, []).append(_id(jobs[job_id]))
        graph = [
            _node("DATASET", dataset_node(**data["id"]), data, sorted(written.get(id_, ())), sorted(read.get(id_, ())))
            for id_, data in datasets.items()
        ]
        graph += [
            _node("JOB", _id(data), data, _dataset_ids(data["inputs"]), _dataset_ids(data["outputs"]))
            for data in jobs.values()
        ]
        return {"graph": sorted(graph, key=lambda node: str(node["id"])), "truncated": walk.truncated}


def _outward(uses: Iterable[Use]) -> list[tuple[UUID, str | None]]:
    """Where to look for neighbours: who writes what is read here, and who reads what is written."""
    return [(use.dataset_id, _OPPOSITE[use.role]) for use in uses]


def _id(job: Json) -> str:
    return job_node(**job["id"])


def _dataset_ids(names: Iterable[dict[str, str]]) -> list[str]:
    return [dataset_node(**name) for name in names]


def _node(type_: str, node_id: str, data: Json, sources: Iterable[str], targets: Iterable[str]) -> Json:
    return {
        "id": node_id,
        "type": type_,
        "data": data,
        "inEdges": [{"origin": source, "destination": node_id} for source in sources],
        "outEdges": [{"origin": node_id, "destination": target} for target in targets],
    }
