"""Search by name, as Marquez does it: any part of the name, any case, `%` and `_` stand for what they do in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from headgate.server.db.queries import Queries
from headgate.server.marquez.datasets import DatasetStore
from headgate.server.marquez.jobs import JobStore
from headgate.server.marquez.lookup import Q as NAMES
from headgate.server.marquez.lookup import Tenant
from headgate.server.marquez.nodes import dataset_node, job_node, namespace_spellings

Q = Queries("headgate.server.marquez.finding")
Json = dict[str, Any]

MAX_LOOKED_AT: Final = 200_000
MAX_FOUND: Final = 1000


class _Word(StrEnum):
    """A choice that is read in any case."""

    @classmethod
    def _missing_(cls, value: object) -> _Word | None:
        wanted = str(value).upper().replace("UPDATED", "UPDATE")
        return next((word for word in cls if word.value == wanted), None)


class Filter(_Word):
    job = "JOB"
    dataset = "DATASET"


class Sort(_Word):
    name_ = "NAME"
    update_at = "UPDATE_AT"


class Search(NamedTuple):
    text: str
    filter: Filter | None
    sort: Sort
    limit: int
    namespace: str | None
    after: datetime | None
    before: datetime | None

    @property
    def needs_times(self) -> bool:
        return self.sort is Sort.update_at or self.after is not None or self.before is not None

    def fits(self, result: Json) -> bool:
        at = result["updatedAt"]
        return (self.after is None or at >= self.after) and (self.before is None or at < self.before)


async def search(tenant: Tenant, wanted: Search) -> tuple[list[Json], int]:
    """The first of what fits, and how many fit; of either kind no more than a thousand are looked at closely."""
    hits = sorted(await _hits(tenant, wanted))
    if not wanted.needs_times:
        return await _results(tenant, hits[: wanted.limit]), len(hits)
    found = [result for result in await _results(tenant, hits) if wanted.fits(result)]
    if wanted.sort is Sort.update_at:
        found.sort(key=lambda result: result["updatedAt"], reverse=True)
    return found[: wanted.limit], len(found)


class _Hit(NamedTuple):
    """Something whose name fits; hits sort by name."""

    name: str
    namespace: str
    kind: Filter
    id: UUID


async def _hits(tenant: Tenant, wanted: Search) -> list[_Hit]:
    namespaces = (
        namespace_spellings(wanted.namespace)
        if wanted.namespace
        else [row["namespace"] for row in await tenant.fetch(NAMES.list_namespaces)]
    )
    bounds = (namespaces, f"%{wanted.text}%", MAX_LOOKED_AT, MAX_FOUND)
    queries = {Filter.dataset: Q.search_datasets, Filter.job: Q.search_jobs}
    return [
        _Hit(row["name"], row["namespace"], kind, row["id"])
        for kind, query in queries.items()
        if wanted.filter in (None, kind)
        for row in await tenant.fetch(query, *bounds)
    ]


async def _results(tenant: Tenant, hits: Sequence[_Hit]) -> list[Json]:
    datasets = await DatasetStore(tenant).nodes([hit.id for hit in hits if hit.kind is Filter.dataset])
    jobs = await JobStore(tenant).nodes([hit.id for hit in hits if hit.kind is Filter.job])
    data = datasets | jobs
    return [_result(hit, data[hit.id]["updatedAt"]) for hit in hits]


def _result(hit: _Hit, updated_at: datetime) -> Json:
    node = dataset_node if hit.kind is Filter.dataset else job_node
    return {
        "type": hit.kind.value,
        "name": hit.name,
        "updatedAt": updated_at,
        "namespace": hit.namespace,
        "nodeId": node(hit.namespace, hit.name),
    }
