"""Runs that measure something, sent as their producers would, and judged as the worker does."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from headgate.server.anomalies import jobs
from headgate.server.anomalies.watching.watch import Watch
from headgate.server.db.pool import Database
from headgate.server.queue import Batch, Task
from headgate.server.worker import Worker
from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event
from tests.support.ingest import an_observed_server
from tests.support.server import Tenant

NAMESPACE = "postgres://db:5432"
# Where series end.
NOW = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def spelled(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def a_load(
    at: datetime,
    rows: int | None = None,
    *,
    run: str | None = None,
    job: str = "load",
    table: str = "orders",
    namespace: str = NAMESPACE,
    state: str = "COMPLETE",
    facets: Json | None = None,
    run_facets: Json | None = None,
    **statistics: Any,
) -> Json:
    """The end of a run that wrote a table, with what it wrote."""
    told = statistics | ({} if rows is None else {"rowCount": rows})
    parts: Json = {"facets": facets or {}}
    if told:
        parts["outputFacets"] = {"outputStatistics": a_facet(**told)}
    written = a_dataset(table, namespace, **parts)
    return an_event(
        state, run=run or a_run_id(), job=job, time=spelled(at), outputs=[written], run_facets=run_facets or {}
    )


def a_profile(at: datetime, rows: int, **columns: Any) -> Json:
    """The end of a run that looked at a table."""
    profile = {"dataQualityMetrics": a_facet(rowCount=rows, columnMetrics=columns)}
    return a_load(at, facets=profile)


NewJudging = Callable[[], Awaitable["Judging"]]


@dataclass
class Judging:
    """An organisation whose runs are judged, and a look at what is kept of that."""

    tenant: Tenant
    database: Database
    db: asyncpg.Connection

    @property
    def organization_id(self) -> UUID:
        return self.tenant.organization_id

    async def sent(self, *events: Json) -> str:
        """Send events, and give the run of the last."""
        await self.tenant.send_ok(*events)
        return str(events[-1]["run"]["runId"])

    async def series(self, values: Sequence[int], *, until: datetime = NOW, table: str = "orders", **more: Any) -> str:
        """One run a day, the last at a time; each is judged before the next one ends."""
        run = ""
        for back, rows in zip(range(len(values) - 1, -1, -1), values, strict=True):
            run = await self.sent(a_load(until - timedelta(days=back), rows, table=table, **more))
            await self.detect(run)
        return run

    def batch(self, *runs: str, datasets: Sequence[UUID] = ()) -> Batch:
        tasks = [("RUN", run) for run in runs] + [("DATASET", str(dataset)) for dataset in datasets]
        return Batch(
            self.organization_id,
            "DETECT",
            "",
            tuple(
                Task(number, self.organization_id, "DETECT", kind, name, {}, 1, datetime.now(UTC))
                for number, (kind, name) in enumerate(tasks)
            ),
        )

    async def detect(self, *runs: str, datasets: Sequence[UUID] = ()) -> None:
        async with self.database.tenant(self.organization_id) as conn:
            await jobs.detect(conn, self.batch(*runs, datasets=datasets))

    async def work(self) -> int:
        """What a worker does with all that is due of judging; how many tasks that were."""
        return await Worker(self.database, [kind for kind in jobs.KINDS if kind.every_s is None]).drain()

    async def watch(self, now: datetime | None = None) -> None:
        async with self.database.tenant(self.organization_id) as conn:
            await Watch(conn, self.organization_id, now or datetime.now(UTC)).look()

    async def rows(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        return [dict(row) for row in await self.db.fetch(sql, self.organization_id, *arguments)]

    async def anomalies(self, **wanted: Any) -> list[dict[str, Any]]:
        """Anomalies as they are stored, in the order in which they were found."""
        found = await self.rows(
            """SELECT a.*, d.name AS dataset FROM anomalies a LEFT JOIN datasets d ON d.id = a.dataset_id
                WHERE a.organization_id = $1 ORDER BY a.observed_at, a.anomaly_type, a.column_name"""
        )
        for row in found:
            for name in ("expected_value", "actual_value", "metadata", "changes"):
                row[name] = None if row[name] is None else json.loads(row[name])
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    async def types(self) -> list[str]:
        return [row["anomaly_type"] for row in await self.anomalies()]

    async def verdicts(self, run: str) -> dict[str, Any]:
        """Verdicts on what a run measured and on the run itself."""
        rows = await self.rows(
            """SELECT verdicts FROM dataset_metrics WHERE organization_id = $1 AND run_id = $2::uuid
               UNION ALL SELECT verdicts FROM job_runs WHERE organization_id = $1 AND run_id = $2::uuid""",
            run,
        )
        return {name: value for row in rows if row["verdicts"] for name, value in json.loads(row["verdicts"]).items()}

    async def outside(self, run: str) -> list[str]:
        rows = await self.rows(
            "SELECT anomalous FROM dataset_metrics WHERE organization_id = $1 AND run_id = $2::uuid", run
        )
        return [name for row in rows for name in row["anomalous"]]

    async def tasks(self, task_type: str) -> list[dict[str, Any]]:
        rows = await self.rows(
            "SELECT * FROM async_task WHERE organization_id = $1 AND task_type = $2 ORDER BY id", task_type
        )
        return [row | {"payload": json.loads(row["payload"])} for row in rows]

    async def dataset_id(self, name: str = "orders") -> UUID:
        (row,) = await self.rows(
            "SELECT dataset_id FROM dataset_aliases WHERE organization_id = $1 AND name = $2", name
        )
        found: UUID = row["dataset_id"]
        return found


@asynccontextmanager
async def judging_server(cluster: Cluster) -> AsyncIterator[NewJudging]:
    """A server on a database of its own; each call gives an organisation of its own."""
    async with an_observed_server(cluster) as (server, stored):

        async def an_organization() -> Judging:
            return Judging(await server.add_tenant(f"Org {a_run_id()}"), server.database, stored.db)

        yield an_organization
