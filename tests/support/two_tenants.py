"""Two organisations that use the same names and run ids, with rows of both in every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import asyncpg
import httpx

from headgate.server.worker import Worker
from tests.support.events import a_dataset, a_facet, an_event, at, with_schema
from tests.support.full_event import a_full_event, a_full_metadata, a_full_schema
from tests.support.judged_rows import insert_judged_rows
from tests.support.pipeline_events import a_full_record, a_run, an_alert
from tests.support.server import Server, Tenant
from tests.support.sql import tenant_tables

SHARED_RUN = "0190d0a0-0000-7000-8000-00000000000a"
# Stands in names, texts and addresses of the first organisation and nowhere else.
MARK = "onlyfirst"


@dataclass
class TwoTenants:
    server: Server
    first: Tenant
    second: Tenant
    db: asyncpg.Connection
    tables: list[str]

    async def snapshot(self) -> dict[str, str]:
        """A digest of the first organisation's rows, by table."""
        return {
            table: await self.db.fetchval(
                "SELECT md5(coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '')) "
                f"FROM {table} t WHERE {owner(table)} = $1",
                self.first.organization_id,
            )
            for table in self.tables
        }

    async def count(self, table: str, tenant: Tenant | None = None) -> int:
        condition = "" if tenant is None else f"WHERE {owner(table)} = '{tenant.organization_id}'"
        number: int = await self.db.fetchval(f"SELECT count(*) FROM {table} {condition}")
        return number

    async def ids(self, tenant: Tenant) -> dict[str, set[str]]:
        """Every uuid in the organisation's rows, by table and column."""
        columns = await self.db.fetch(
            "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
            "WHERE c.relnamespace = 'headgate'::regnamespace AND c.relname = ANY ($1) AND a.atttypid = 'uuid'::regtype",
            self.tables,
        )
        found = {}
        for table, column in columns:
            rows = await self.db.fetch(
                f"SELECT DISTINCT {column}::text AS id FROM {table} WHERE {owner(table)} = $1", tenant.organization_id
            )
            found[f"{table}.{column}"] = {row["id"] for row in rows if row["id"]}
        return found

    async def secrets(self) -> dict[str, set[str]]:
        """Ids that only the first organisation has, by table and column."""
        common = {SHARED_RUN}.union(*(await self.ids(self.second)).values())
        mine = await self.ids(self.first)
        return {place: ids - common for place, ids in mine.items() if ids - common}


def owner(table: str) -> str:
    return "id" if table == "organizations" else "organization_id"


async def fill(server: Server, db: asyncpg.Connection) -> TwoTenants:
    first, second = server.tenant, await server.add_tenant("Second")
    both = TwoTenants(server, first, second, db, await tenant_tables(db))
    for tenant, mark in ((first, MARK), (second, "second")):
        await _send_events(tenant, mark)
        await _send_pipelines(tenant, mark)
        await _make_names(db, tenant, mark)
        await _make_accounts(server, tenant, mark)
        await _make_notes(tenant, mark)
        await _make_the_rest(db, tenant)
        await _make_work(db, tenant, mark)
        await _make_alerts(tenant, mark)
        await _make_incidents(tenant, mark)
    await Worker(server.database).drain()
    for tenant, mark in ((first, MARK), (second, "second")):
        await insert_judged_rows(db, tenant.organization_id, mark)
    return both


async def _send_events(tenant: Tenant, mark: str) -> None:
    start = an_event("START", run=SHARED_RUN, time=at(-60))
    full = a_full_event(run=SHARED_RUN)
    full["inputs"] += [a_dataset("public.orders"), a_dataset(f"public.{mark}", facets=with_schema("a"))]
    full["outputs"] += [a_dataset("public.totals", facets=with_schema("a", "b"))]
    own = an_event(job=mark, job_facets={"sql": a_facet(query=mark)}, outputs=[a_dataset("public.totals")])
    await tenant.send_ok(start, full, own)
    assert (await tenant.send({"refused": mark})).status_code == 422
    assert (await tenant.send(a_full_metadata(), "/api/v1/ingest/metadata")).status_code == 202
    assert (await tenant.send(a_full_schema(), "/api/v1/ingest/schema")).status_code == 202


async def _send_pipelines(tenant: Tenant, mark: str) -> None:
    for pipeline in ("shared_pipeline", mark):
        _, events = a_run(pipeline=pipeline, **a_full_record())
        events[-1]["run"]["facets"]["headgate_alerts"] = a_facet(alerts=[an_alert(message=mark)])
        await tenant.send_ok(*events)


async def _make_names(db: asyncpg.Connection, tenant: Tenant, mark: str) -> None:
    rule = {"pattern": "postgres://db/public.old_{table}", "canonical": "postgres://db/public.{table}"}
    await _ok(tenant.client.post("/api/v1/aliases", json=rule))
    for name in ("shared_pattern", f"{mark}_pattern"):
        body = {"regex": f"{mark}[0-9]+", "kind": "time"}
        await _ok(tenant.client.put(f"/api/v1/name-patterns/{name}", json=body))
    rows = await db.fetch(
        "SELECT id FROM datasets WHERE organization_id = $1 AND name IN ('public.orders', 'public.totals')",
        tenant.organization_id,
    )
    one, other = (str(row["id"]) for row in rows)
    await _ok(tenant.client.post("/api/v1/dataset-merges", json={"one": one, "other": other}))


async def _make_notes(tenant: Tenant, mark: str) -> None:
    """What people say of datasets, and what reading leaves behind: the search index and the counts by hour."""
    dataset = f"/api/v1/datasets/public.{mark}"
    await _ok(tenant.client.put(f"{dataset}/tags/{mark}"))
    await _ok(tenant.client.patch(dataset, json={"description": mark, "owners": [mark]}))
    await _ok(tenant.client.get("/api/v1/search", params={"q": "public"}))
    await _ok(tenant.client.get("/api/v1/stats/ingest"))
    # Waits to be indexed until somebody searches again.
    await tenant.send_ok(an_event(job=f"later_{mark}"))


async def _make_accounts(server: Server, tenant: Tenant, mark: str) -> None:
    async with server.anonymous() as client:
        login = {"email": tenant.email, "password": tenant.password}
        for _ in range(2):
            session = (await _ok(client.post("/api/v1/auth/login", json=login))).json()
        headers = {"authorization": f"Bearer {session['token']}"}
        key = {"name": mark, "scopes": ["read"]}
        await _ok(client.post("/api/v1/auth/api-keys", json=key, headers=headers))
        await _ok(client.post("/api/v1/auth/logout", headers=headers))
    invite = {"email": f"{mark}@guest.example.org", "role": "viewer"}
    await _ok(tenant.client.post("/api/v1/auth/invites", json=invite))


async def _make_the_rest(db: asyncpg.Connection, tenant: Tenant) -> None:
    """Rows of tables that no route writes yet."""
    await db.execute(
        "INSERT INTO freshness_sla (organization_id, dataset_id, sla_hours) "
        "SELECT organization_id, id, 24 FROM datasets WHERE organization_id = $1 LIMIT 1",
        tenant.organization_id,
    )
    await db.execute("SELECT bump_epoch($1)", tenant.organization_id)


async def _make_work(db: asyncpg.Connection, tenant: Tenant, mark: str) -> None:
    """A batch and an attempt of a task, as a worker leaves them."""
    await db.execute(
        """INSERT INTO async_batch (organization_id, batch_no, task_type, tenant_id, model_fingerprint, worker_id,
                                    planned_size, started_at, status)
           SELECT o.id, gen_random_uuid()::text, 'DETECT', o.tenant_id, '', $2, 1, now(), 'RUNNING'
             FROM organizations o WHERE o.id = $1""",
        tenant.organization_id,
        mark,
    )
    await db.execute(
        """INSERT INTO async_task_attempt (organization_id, task_id, attempt_no, worker_id, started_at, status,
                                           error_type, error_message)
           SELECT t.organization_id, t.id, 1, $2, now(), 'FAILED', 'ValueError', $2
             FROM async_task t WHERE t.organization_id = $1 LIMIT 1""",
        tenant.organization_id,
        mark,
    )


async def _make_alerts(tenant: Tenant, mark: str) -> None:
    to = {"email_to": [f"{mark}@guest.example.org"]}
    rule = {"name": mark, "channel_type": "EMAIL", "channel_config": to}
    made = (await _ok(tenant.client.post("/api/v1/alert-rules", json=rule))).json()
    await _ok(tenant.client.post("/api/v1/test-alert", json={"rule_id": made["id"]}))
    await _ok(tenant.client.put("/api/v1/email-settings", json={"backend": "console", **to}))


async def _make_incidents(tenant: Tenant, mark: str) -> None:
    """A run that writes, and a test of what it wrote that fails; whoever works on tasks makes an incident of it."""
    sql = {"sql": a_facet(query=f"SELECT 1 AS {mark}")}
    written = an_event(job=f"load_{mark}", time=at(60), job_facets=sql, outputs=[a_dataset(f"tested_{mark}")])
    failing = {"assertion": f"not_null_{mark}", "success": False, "column": "id"}
    facets = {"dataQualityAssertions": a_facet(assertions=[failing])}
    tested = an_event(job=f"test_{mark}", time=at(120), inputs=[a_dataset(f"tested_{mark}", inputFacets=facets)])
    await tenant.send_ok(written, tested)


async def _ok(sending: Any) -> httpx.Response:
    response: httpx.Response = await sending
    assert response.is_success, response.text
    return response
