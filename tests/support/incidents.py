"""Pipelines that go wrong, sent as their producers would, and looked into by a real worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import asyncpg
import httpx

from headgate.server.anomalies.jobs import KINDS as ANOMALY_KINDS
from headgate.server.incidents.jobs import KINDS
from headgate.server.incidents.schemas import TimelineOut
from headgate.server.worker import Worker
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.server import Server, Tenant

HOUR = 3600
DAY = 24 * HOUR
FAILS, PASSES = ("not_null", "id", False), ("not_null", "id", True)


@dataclass
class Shop:
    """An organisation with a worker of its own and a look at what is stored."""

    server: Server
    tenant: Tenant
    db: asyncpg.Connection

    async def send(self, *events: Json) -> None:
        await self.tenant.send_ok(*events)

    async def work(self) -> None:
        """Do all that is due in the background."""
        await Worker(self.server.database, [*KINDS, *ANOMALY_KINDS]).drain()

    async def send_and_work(self, *events: Json) -> None:
        """Each event with all that follows from it before the next one comes."""
        for event in events:
            await self.send(event)
            await self.work()

    async def ask(self, path: str = "", **query: Any) -> httpx.Response:
        return await self.tenant.client.get(f"/api/v1/incidents{path}", params=query)

    async def get(self, path: str = "", **query: Any) -> Json:
        response = await self.ask(path, **query)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    async def incidents(self, **query: Any) -> list[Json]:
        """Incidents, the oldest first."""
        return list(reversed((await self.get(**query))["items"]))

    async def still_open(self) -> list[Json]:
        return await self.incidents(status="open")

    async def incident(self) -> Json:
        """The only incident, with all that is known of it."""
        (found,) = await self.incidents()
        return await self.get(f"/{found['number']}")

    async def change(self, path: str, method: str = "POST", **body: Any) -> Json:
        response = await self.tenant.client.request(method, f"/api/v1/incidents/{path}", json=body)
        assert response.is_success, response.text
        found: Json = response.json()
        return found

    async def set_status(self, incident: Json, status: str, **more: Any) -> Json:
        return await self.change(f"{incident['id']}/status", "PATCH", status=status, **more)

    async def rows(self, sql: str, *arguments: Any) -> list[Json]:
        """Rows of a query whose first parameter is the organisation."""
        return [dict(row) for row in await self.db.fetch(sql, self.tenant.organization_id, *arguments)]

    async def select(self, sql: str) -> list[Json]:
        """What the organisation's own session sees."""
        async with self.server.database.tenant(self.tenant.organization_id) as conn:
            return [dict(row) for row in await conn.fetch(sql)]

    async def alerts(self) -> list[tuple[str, str]]:
        """Tasks that were made for alerts: of what, and which event."""
        rows = await self.rows(
            "SELECT resource_type, payload ->> 'event' AS event FROM async_task "
            "WHERE organization_id = $1 AND task_type = 'ALERT' ORDER BY id"
        )
        return [(row["resource_type"], row["event"]) for row in rows]

    async def dataset(self, name: str) -> Json:
        response = await self.tenant.client.get(f"/api/v1/datasets/{quote(name, safe='')}")
        found: Json = response.json()
        return found


def wrote(
    job: str,
    second: float,
    output: str,
    *inputs: str,
    run: str | None = None,
    state: str = "COMPLETE",
    took: float = 60,
    rows: int | None = None,
    columns: Json | None = None,
    fields: list[str] | None = None,
    parent: Json | None = None,
    error: str | None = None,
    sql: str | None = None,
) -> list[Json]:
    """The start and the end of a run that wrote a table; `second` is when it ended."""
    run = run or a_run_id()
    facets: Json = {} if parent is None else {"parent": parent}
    ended = facets | ({} if error is None else {"errorMessage": a_facet(message=error, programmingLanguage="sql")})
    written: Json = {}
    if columns is not None:
        written["columnLineage"] = a_facet(fields=columns)
    if fields is not None:
        written["schema"] = a_facet(fields=[{"name": name, "type": "string"} for name in fields])
    measured = {} if rows is None else {"outputStatistics": a_facet(rowCount=rows)}
    sources = [a_dataset(name) for name in inputs]
    of_job = {} if sql is None else {"sql": a_facet(query=sql)}
    target = a_dataset(output, facets=written, outputFacets=measured)
    return [
        an_event("START", run=run, job=job, time=at(second - took), inputs=sources, run_facets=facets),
        an_event(
            state, run=run, job=job, time=at(second), inputs=sources, outputs=[target], run_facets=ended,
            job_facets=of_job,
        ),
    ]  # fmt: skip


def came_from(column: str, *sources: tuple[str, str]) -> Json:
    """Column lineage of one column: tables and columns that it is made of."""
    inputs = [{"namespace": "postgres://db:5432", "name": table, "field": field} for table, field in sources]
    return {column: {"inputFields": inputs}}


def checked(
    table: str,
    second: float,
    *results: tuple[str, str | None, bool],
    run: str | None = None,
    state: str = "COMPLETE",
    severity: str | None = None,
    parent: Json | None = None,
) -> Json:
    """A run of tests on a table: their names, columns and whether they passed."""
    more = {} if severity is None else {"severity": severity}
    assertions = [
        {"assertion": name, "success": success, **({} if column is None else {"column": column}), **more}
        for name, column, success in results
    ]
    target = a_dataset(table, inputFacets={"dataQualityAssertions": a_facet(assertions=assertions)})
    return an_event(
        state,
        run=run,
        job=f"test.{table}",
        time=at(second),
        inputs=[target],
        run_facets={} if parent is None else {"parent": parent},
        job_facets={"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")},
    )


def started_by(run: str, job: str) -> Json:
    return a_facet(run={"runId": run}, job={"namespace": "tests", "name": job})


async def events(shop: Shop, number: int = 1) -> list[tuple[str, str]]:
    """What happened to an incident, and who did it."""
    items = TimelineOut.model_validate(await shop.get(f"/{number}/timeline")).items
    return [(each.kind, each.actor) for each in items]


async def a_key(shop: Shop, name: str, scope: str) -> str:
    async with shop.server.anonymous() as visitor:
        login = {"email": shop.tenant.email, "password": shop.tenant.password}
        session = (await visitor.post("/api/v1/auth/login", json=login)).json()
        admin = {"authorization": f"Bearer {session['token']}"}
        made = await visitor.post("/api/v1/auth/api-keys", json={"name": name, "scopes": [scope]}, headers=admin)
    key: str = made.json()["key"]
    return key
