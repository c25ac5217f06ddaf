"""Reads jobs: lists of them, and one with everything that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.names import MAX_NAME_BYTES
from headgate.domain.run import RunState
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import SortedPage, encode_sorted
from headgate.server.references.jobs import Job
from headgate.server.runs.filters import RunFilter
from headgate.server.runs.jobs.schemas import JobDatasetOut, RunSummaryOut
from headgate.server.runs.order import JobSort, RunSlice
from headgate.server.runs.schemas import ParentJobOut
from headgate.server.runs.store import RunStore, duration_ms
from headgate.server.shapes import JobOut

Q = Queries("headgate.server.runs.jobs")

# A look at so many jobs takes a fraction of a second; less of them where each needs its latest run looked at.
MAX_LOOKED_AT: Final = 200_000
MAX_JUDGED: Final = 20_000
MAX_DATASETS: Final = 1000
SUMMARY_DAYS: Final = 30
SUMMARY_RUNS: Final = 10_000
LATEST_RUNS: Final = 10
_SHORT_LOOK: Final = 2_000
_FAMILY_RUNS: Final = 50
_FAMILY: Final = 200
_BEFORE_ALL: Final = "", UUID(int=0)
# No name of the allowed length sorts after as many of the last character.
_AFTER_ALL: Final = chr(0x10FFFF) * MAX_NAME_BYTES, UUID(int=2**128 - 1)


class _Way(NamedTuple):
    """Queries that look through jobs: for those that fit, and for the last that was looked at."""

    pick: str
    find_end: str


_ALL: Final = _Way(Q.pick_jobs, Q.find_place)
_ALL_FALLING: Final = _Way(Q.pick_jobs_falling, Q.find_place_falling)
_NAMESPACE: Final = _Way(Q.pick_namespace_jobs, Q.find_namespace_place)
_NAMESPACE_FALLING: Final = _Way(Q.pick_namespace_jobs_falling, Q.find_namespace_place_falling)


class JobFilter(NamedTuple):
    """Jobs that are asked for; what is None is not asked for."""

    text: str | None = None
    namespace: str | None = None
    job_type: str | None = None
    integration: str | None = None
    states: tuple[str, ...] | None = None


class JobStore:
    def __init__(
        self,
        conn: Connection,
        organization_id: UUID,
        *,
        max_looked_at: int = MAX_LOOKED_AT,
        max_judged: int = MAX_JUDGED,
    ) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._max_looked_at = max_looked_at
        self._max_judged = max_judged

    async def page(self, asked: JobFilter, page: SortedPage) -> tuple[list[dict[str, Any]], str | None]:
        """Jobs by name, as `JobItemOut` has them, and the cursor of the next page."""
        picked, cursor = await self._pick(asked, page)
        return await self.read([row["id"] for row in picked]), cursor

    async def read(self, job_ids: Sequence[UUID]) -> list[dict[str, Any]]:
        rows = await self._conn.fetch(Q.list_jobs, self._organization_id, job_ids) if job_ids else []
        return [_item(row) for row in rows]

    async def detail(self, job: Job) -> dict[str, Any]:
        """A `JobDetailOut` as values; facets are JSON as it is stored."""
        own = (self._organization_id, job.id)
        (item,) = await self.read([job.id])
        datasets = await self._conn.fetch(Q.list_datasets, *own, MAX_DATASETS)
        counts = {row["role"]: row["datasets"] for row in await self._conn.fetch(Q.count_datasets, *own)}
        runs = RunStore(self._conn, self._organization_id)
        latest = await runs.page(RunFilter(), RunSlice(LATEST_RUNS), job_id=job.id)
        parents = await self._conn.fetch(Q.list_parent_jobs, *own, _FAMILY_RUNS, _FAMILY)
        children = await self._conn.fetch(Q.list_child_jobs, *own, _FAMILY_RUNS, _FAMILY)
        return item | {
            "facets": msgspec.Raw((await self._conn.fetchval(Q.get_facets, *own)).encode()),
            "inputs": _datasets(datasets, "input"),
            "input_count": counts.get("input", 0),
            "outputs": _datasets(datasets, "output"),
            "output_count": counts.get("output", 0),
            "runs": (await self._summary(job.id)).model_dump(mode="json"),
            "latest_runs": [run.model_dump(mode="json") for run in latest.items],
            "parents": [ParentJobOut(**dict(row)).model_dump(mode="json") for row in parents],
            "children": [JobOut(**dict(row)).model_dump(mode="json") for row in children],
        }

    async def countries(self) -> list[str]:
        rows = await self._conn.fetch(Q.list_countries, self._organization_id, self._max_looked_at)
        return [row["country"] for row in rows]

    async def _pick(self, asked: JobFilter, page: SortedPage) -> tuple[Sequence[Record], str | None]:
        longest = self._max_judged if asked.states else self._max_looked_at
        # Most looks end soon; one that is told so is not planned as if it had to sort everything.
        picked, cursor = await self._look(asked, page, min(_SHORT_LOOK, longest))
        if cursor is None or len(picked) == page.limit:
            return picked, cursor
        return await self._look(asked, page, longest)

    async def _look(self, asked: JobFilter, page: SortedPage, look: int) -> tuple[Sequence[Record], str | None]:
        """What fits among the next `look` jobs, and a cursor that goes on from there."""
        begin = (self._organization_id, *_begin(page), look)
        wanted = (asked.text, asked.job_type, asked.integration, asked.states, page.limit + 1)
        way, key = _way(asked.namespace, page)
        rows = await self._conn.fetch(way.pick, *begin, *wanted, *key)
        picked, cursor = page.cut(rows, "name")
        if cursor is None:
            # The look may have been given up before it came to the last job.
            end = await self._conn.fetchrow(way.find_end, *begin, *key)
            cursor = None if end is None else encode_sorted(page.sort, end["name"], end["id"])
        return picked, cursor

    async def _summary(self, job_id: UUID) -> RunSummaryOut:
        since = datetime.now(UTC) - timedelta(days=SUMMARY_DAYS)
        row = await self._conn.fetchrow(Q.summarize_runs, self._organization_id, job_id, since, SUMMARY_RUNS)
        p50, p99 = row["percentiles_ms"] or (None, None)
        return RunSummaryOut(
            days=SUMMARY_DAYS,
            total=row["total"],
            by_state={state: row[state] for state in RunState if row[state]},
            mean_duration_ms=row["mean_ms"],
            p50_duration_ms=p50,
            p99_duration_ms=p99,
            truncated=row["total"] == SUMMARY_RUNS,
        )


def _begin(page: SortedPage) -> tuple[str, UUID]:
    if page.id is not None:
        return page.value or "", page.id
    return _AFTER_ALL if page.sort == JobSort.name_descending else _BEFORE_ALL


def _way(namespace: str | None, page: SortedPage) -> tuple[_Way, tuple[str, ...]]:
    """The queries to look with, and what they take besides the rest."""
    falls = page.sort == JobSort.name_descending
    if namespace is None:
        return (_ALL_FALLING if falls else _ALL), ()
    return (_NAMESPACE_FALLING if falls else _NAMESPACE), (namespace,)


def _item(row: Record) -> dict[str, Any]:
    item = dict(row)
    latest = {name: item.pop(name) for name in ("run_id", "state", "started_at", "ended_at")}
    del item["start_at"]
    item["latest_run"] = None if row["run_id"] is None else latest | {"duration_ms": duration_ms(row)}
    return item


def _datasets(rows: Sequence[Record], role: str) -> list[dict[str, Any]]:
    found = (dict(row) for row in rows if row["role"] == role)
    return [JobDatasetOut(**row, urn=f"{row['namespace']}/{row['name']}").model_dump(mode="json") for row in found]
