"""Tasks as people see them: lists, one with its attempts, trying again, giving up, and the numbers."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from prometheus_client import CollectorRegistry

from headgate.server.db.pool import Database
from headgate.server.tasks.backlog import Backlog
from headgate.server.tasks.counters import MAX_TENANTS, TaskCounters
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.support.events import an_event
from tests.support.server import Server, Tenant, running_server
from tests.support.tasks import EFFECTS, Recorder, a_task, make, make_due, poison, tasks_of

TASKS = "/api/v1/tasks"


@pytest.fixture
async def tenant(server: Server, db: asyncpg.Connection) -> Tenant:
    await db.execute(EFFECTS)
    return server.tenant


async def ask(tenant: Tenant, path: str = TASKS, **params: Any) -> Any:
    response = await tenant.client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


async def resources(tenant: Tenant, **params: Any) -> list[str]:
    return [item["resource_id"] for item in (await ask(tenant, **params))["items"]]


async def fill(server: Server, tenant: Tenant) -> None:
    """One task in each state: 0 SUCCEEDED, 1 DEAD, 2 CANCELED, 3 PENDING, 4 FAILED, 5 RUNNING."""
    org, database = tenant.organization_id, server.database
    for number in range(6):
        await make(database, org, a_task(number, "OTHER" if number in (3, 5) else "WORK"))
    async with database.tenant(org) as conn:
        for number, status in enumerate(("SUCCEEDED", "DEAD", "CANCELED", "PENDING", "FAILED", "RUNNING")):
            await conn.execute(
                "UPDATE async_task SET status = $1, claimed_at = now(), worker_id = 'w' WHERE resource_id = $2",
                status,
                str(number),
            )


async def test_tasks_are_listed_newest_first_and_by_page(server: Server, tenant: Tenant) -> None:
    await fill(server, tenant)
    assert await resources(tenant) == ["5", "4", "3", "2", "1", "0"]
    every = ["PENDING", "FAILED", "DEAD", "SUCCEEDED", "RUNNING", "CANCELED"]
    wishes: list[dict[str, Any]] = [{}, {"status": every}]
    for wanted in wishes:
        first = await ask(tenant, limit=4, **wanted)
        rest = await ask(tenant, limit=4, cursor=first["next_cursor"], **wanted)
        found = [item["resource_id"] for item in (*first["items"], *rest["items"])]
        assert (found, rest["next_cursor"]) == (["5", "4", "3", "2", "1", "0"], None)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"type": "OTHER"}, ["5", "3"]),
        ({"type": "NONE"}, []),
        ({"status": "DEAD"}, ["1"]),
        ({"status": ["DEAD", "RUNNING"]}, ["5", "1"]),
        ({"status": "PENDING", "type": "OTHER"}, ["3"]),
        ({"status": "PENDING", "type": "WORK"}, []),
        ({"resource": "4"}, ["4"]),
        ({"resource": "4", "resource_type": "THING"}, ["4"]),
        ({"resource": "4", "resource_type": "RUN"}, []),
        ({"resource": "4", "status": "DEAD"}, []),
    ],
    ids=str,
)
async def test_lists_can_be_narrowed(
    server: Server, tenant: Tenant, wanted: dict[str, Any], expected: list[str]
) -> None:
    await fill(server, tenant)
    assert await resources(tenant, **wanted) == expected


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"status": "DONE"}, "query.status[0]"),
        ({"limit": 0}, "query.limit"),
        ({"cursor": "x"}, "query.cursor"),
        ({"type": "x" * 65}, "query.type"),
        ({"resource_type": "RUN"}, "query.resource_type"),
    ],
    ids=["status", "limit", "cursor", "long type", "type without resource"],
)
async def test_a_bad_wish_is_refused(tenant: Tenant, params: dict[str, Any], path: str) -> None:
    response = await tenant.client.get(TASKS, params=params)
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, path)


async def test_a_task_is_shown_with_its_attempts(server: Server, tenant: Tenant, db: asyncpg.Connection) -> None:
    await make(server.database, tenant.organization_id, a_task("1", payload={"a": 1}))
    worker = Worker(server.database, [Recorder(poison("1")).kind()])
    await worker.drain()
    task_id = (await ask(tenant))["items"][0]["id"]

    found = await ask(tenant, f"{TASKS}/{task_id}")

    assert (found["status"], found["retry_count"], found["max_retry"], found["attempts"]) == ("FAILED", 1, 5, 1)
    assert (found["payload"], found["last_error"], found["repeat_s"]) == ({"a": 1}, "bad thing", None)
    assert found["next_run_at"] > found["updated_at"]
    (attempt,) = found["attempt_log"]
    assert (attempt["attempt_no"], attempt["status"], attempt["worker_id"]) == (1, "FAILED", worker.id)
    assert (attempt["error_type"], attempt["error_message"], attempt["input_size"]) == ("ValueError", "bad thing", 1)
    assert attempt["latency_ms"] >= 0

    await make_due(db)
    await worker._claim(tenant.organization_id)
    running = await ask(tenant, f"{TASKS}/{task_id}")
    assert [entry["status"] for entry in running["attempt_log"]] == ["FAILED", "RUNNING"]
    assert (running["next_run_at"], running["attempt_log"][1]["attempt_no"]) == (None, 2)


@pytest.mark.parametrize("path", ["", "/retry", "/cancel"])
async def test_a_task_that_is_not_there_or_another_tenants_is_not_found(
    server: Server, tenant: Tenant, db: asyncpg.Connection, path: str
) -> None:
    second = await server.add_tenant("Second")
    await make(server.database, second.organization_id, a_task())
    theirs = await db.fetchval("SELECT id FROM async_task WHERE task_type = 'WORK'")
    for task_id in (theirs, 2**60):
        method = "POST" if path else "GET"
        response = await tenant.client.request(method, f"{TASKS}/{task_id}{path}")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert await tasks_of(db, "status") == [("PENDING",)]
    assert (await ask(tenant))["items"] == []
    for bad in ("0", "x", str(2**63)):
        assert (await tenant.client.get(f"{TASKS}/{bad}")).status_code == 422


@pytest.mark.parametrize(
    ("number", "status"),
    [(0, 409), (1, 200), (2, 200), (3, 409), (4, 200), (5, 409)],
    ids=["succeeded", "dead", "canceled", "pending", "failed", "running"],
)
async def test_only_what_is_over_badly_or_failed_is_retried(
    server: Server, tenant: Tenant, number: int, status: int
) -> None:
    await fill(server, tenant)
    (item,) = (await ask(tenant, resource=str(number)))["items"]
    response = await tenant.client.post(f"{TASKS}/{item['id']}/retry")
    assert response.status_code == status, response.text
    if status == 200:
        assert (response.json()["status"], response.json()["retry_count"]) == ("PENDING", 0)
    else:
        assert item["status"] in response.json()["detail"]


@pytest.mark.parametrize(
    ("number", "status"),
    [(0, 409), (1, 409), (2, 409), (3, 200), (4, 200), (5, 200)],
    ids=["succeeded", "dead", "canceled", "pending", "failed", "running"],
)
async def test_only_what_is_not_over_is_canceled(server: Server, tenant: Tenant, number: int, status: int) -> None:
    await fill(server, tenant)
    (item,) = (await ask(tenant, resource=str(number)))["items"]
    response = await tenant.client.post(f"{TASKS}/{item['id']}/cancel")
    assert response.status_code == status, response.text
    if status == 200:
        answer = response.json()
        assert (answer["status"], answer["next_run_at"], answer["claim_until"]) == ("CANCELED", None, None)
        assert answer["last_error"].startswith("canceled by ")
        left = await Worker(server.database, [Recorder().kind(), Recorder().kind("OTHER")]).drain()
        assert left == len({3, 4} - {number})


async def test_recurring_work_is_not_canceled(server: Server, tenant: Tenant) -> None:
    await Worker(server.database).schedule()
    (item, *_) = (await ask(tenant))["items"]
    response = await tenant.client.post(f"{TASKS}/{item['id']}/cancel")
    assert (response.status_code, "recurring" in response.json()["detail"]) == (409, True)


async def test_a_dead_task_that_is_retried_has_all_its_tries_again(
    server: Server, tenant: Tenant, db: asyncpg.Connection
) -> None:
    recorder = Recorder(poison("1"))
    worker = Worker(server.database, [recorder.kind()])
    await make(server.database, tenant.organization_id, a_task("1"))
    for _ in range(6):
        await make_due(db)
        await worker.drain()
    assert await tasks_of(db, "status", "attempts") == [("DEAD", 6)]
    (item,) = (await ask(tenant, status="DEAD"))["items"]
    await db.execute("UPDATE async_task SET is_alone = true WHERE id = $1", item["id"])
    response = await tenant.client.post(f"{TASKS}/{item['id']}/retry")
    assert (response.status_code, response.json()["last_error"]) == (200, None)
    assert await tasks_of(db, "status", "retry_count", "is_alone", "last_error") == [("PENDING", 0, False, None)]
    assert await worker.drain() == 1
    assert await tasks_of(db, "status", "retry_count", "attempts") == [("FAILED", 1, 7)]
    recorder.then = None
    await make_due(db)
    await worker.drain()
    log = (await ask(tenant, f"{TASKS}/{item['id']}"))["attempt_log"]
    assert [entry["attempt_no"] for entry in log] == list(range(1, 9))
    assert [entry["status"] for entry in log] == ["FAILED"] * 7 + ["SUCCEEDED"]


async def test_all_dead_or_failed_tasks_of_a_type_are_retried(
    server: Server, tenant: Tenant, db: asyncpg.Connection
) -> None:
    second = await server.add_tenant("Second")
    for org in (tenant.organization_id, second.organization_id):
        await make(server.database, org, *(a_task(n) for n in range(5)), *(a_task(n, "OTHER") for n in range(4)))
    await db.execute(
        """UPDATE async_task SET status = CASE WHEN resource_id < '3' THEN 'DEAD' ELSE 'FAILED' END,
                                 last_error = 'it broke', is_alone = true"""
    )

    async def retry(**body: Any) -> tuple[int, bool]:
        response = await tenant.client.post(f"{TASKS}/retry", json=body)
        assert response.status_code == 200, response.text
        return response.json()["retried"], response.json()["is_more"]

    assert await retry(status="DEAD", task_type="OTHER") == (3, False)
    assert await retry(status="DEAD") == (3, False)
    assert await retry(status="FAILED") == (3, False)
    assert await retry(status="FAILED") == (0, False)
    rows = await db.fetch("SELECT DISTINCT status FROM async_task WHERE organization_id = $1", second.organization_id)
    assert {row[0] for row in rows} == {"DEAD", "FAILED"}
    rows = await db.fetch(
        "SELECT DISTINCT status, last_error, is_alone FROM async_task WHERE organization_id = $1",
        tenant.organization_id,
    )
    assert [tuple(row) for row in rows] == [("PENDING", None, False)]


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "status"),
        ({"status": "SUCCEEDED"}, "status"),
        ({"status": "DEAD", "typ": "x"}, "typ"),
        ({"status": "DEAD", "task_type": "\0"}, "task_type"),
    ],
    ids=["none", "wrong", "unknown field", "null byte"],
)
async def test_a_bad_wish_to_retry_is_refused(tenant: Tenant, body: dict[str, Any], path: str) -> None:
    response = await tenant.client.post(f"{TASKS}/retry", json=body)
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, path)


async def test_retries_beyond_what_may_wait_are_refused_with_the_time_to_come_back(
    database: Database, db: asyncpg.Connection, settings: Settings
) -> None:
    async with running_server(settings.model_copy(update={"tasks_max_backlog": 5}), database) as server:
        tenant = server.tenant
        await make(database, tenant.organization_id, *(a_task(number) for number in range(10)))
        await db.execute("UPDATE async_task SET status = 'DEAD' WHERE resource_id::int >= 3")

        first = await tenant.client.post(f"{TASKS}/retry", json={"status": "DEAD"})
        second = await tenant.client.post(f"{TASKS}/retry", json={"status": "DEAD"})

    assert (first.status_code, first.json()) == (200, {"retried": 2, "is_more": True})
    assert (second.status_code, second.json()["code"]) == (503, "unavailable")
    assert int(second.headers["retry-after"]) >= 1
    assert await db.fetchval("SELECT count(*) FROM async_task WHERE status = 'DEAD'") == 5


@pytest.mark.parametrize("path", ["/1/retry", "/1/cancel", "/retry"])
async def test_changes_need_the_scope_to_write(server: Server, tenant: Tenant, path: str) -> None:
    async with server.anonymous() as client:
        assert (await client.get(TASKS)).status_code == 401
        login = {"email": tenant.email, "password": tenant.password}
        session = (await client.post("/api/v1/auth/login", json=login)).json()["token"]
        wish = {"name": "reader", "scopes": ["read"]}
        made = await client.post("/api/v1/auth/api-keys", json=wish, headers={"authorization": f"Bearer {session}"})
    headers = {"authorization": f"Bearer {made.json()['key']}"}
    response = await tenant.client.post(f"{TASKS}{path}", json={"status": "DEAD"}, headers=headers)
    assert response.status_code == 403
    assert (await tenant.client.get(TASKS, headers=headers)).status_code == 200


async def test_stats_say_what_waits_works_and_is_dead(server: Server, tenant: Tenant) -> None:
    await fill(server, tenant)
    await make(server.database, tenant.organization_id, a_task("later", delay_s=3600))

    found = await ask(tenant, f"{TASKS}/stats")

    assert {key: found[key] for key in ("backlog", "pending", "failed", "running", "dead")} == {
        "backlog": 2, "pending": 2, "failed": 1, "running": 1, "dead": 1,
    }  # fmt: skip
    other, work = found["types"]
    assert (other["task_type"], other["backlog"], other["pending"], other["running"]) == ("OTHER", 1, 1, 1)
    assert (work["task_type"], work["backlog"], work["failed"], work["dead"]) == ("WORK", 1, 1, 1)
    assert found["oldest_due_at"] == min(other["oldest_due_at"], work["oldest_due_at"])


async def test_an_organisation_without_tasks_has_empty_answers(tenant: Tenant) -> None:
    assert (await ask(tenant, f"{TASKS}/stats"))["types"] == []
    assert (await ask(tenant, "/api/v1/task-batches"))["items"] == []
    assert await ask(tenant, status="DEAD") == {"items": [], "next_cursor": None}


async def test_batches_are_listed(server: Server, tenant: Tenant) -> None:
    org: UUID = tenant.organization_id
    await make(server.database, org, *(a_task(number) for number in range(5)), a_task("x", "OTHER"))
    kinds = [Recorder(poison("4")).kind(batch_size=2), Recorder().kind("OTHER")]
    await Worker(server.database, kinds).drain()

    items = (await ask(tenant, "/api/v1/task-batches", type="WORK"))["items"]
    counts = [(item["planned_size"], item["success_count"], item["failed_count"]) for item in items]
    assert counts == [(1, 0, 1), (2, 2, 0), (2, 2, 0)]
    first = await ask(tenant, "/api/v1/task-batches", limit=3)
    rest = await ask(tenant, "/api/v1/task-batches", limit=3, cursor=first["next_cursor"])
    assert (len(first["items"]), len(rest["items"]), rest["next_cursor"]) == (3, 1, None)


async def test_metrics_say_what_workers_did_and_what_is_waiting(server: Server, tenant: Tenant) -> None:
    org = tenant.organization_id
    counters = TaskCounters(server.app.api.state.telemetry.registry)
    await make(server.database, org, *(a_task(number) for number in range(3)), a_task("x", "OTHER"))
    await Worker(server.database, [Recorder(poison("2")).kind()], counters=counters).drain()
    code = (await tenant.client.get("/api/v1/organization")).json()["tenant_code"]

    text = (await tenant.client.get("/api/v1/tasks/metrics")).text

    for line in (
        f'headgate_tasks_claimed_total{{tenant="{code}",type="WORK"}} 3.0',
        f'headgate_tasks_succeeded_total{{tenant="{code}",type="WORK"}} 2.0',
        f'headgate_tasks_retried_total{{tenant="{code}",type="WORK"}} 1.0',
        f'headgate_task_batch_seconds_count{{tenant="{code}",type="WORK"}} 1.0',
        f'headgate_tasks_backlog{{tenant="{code}",type="OTHER"}} 1.0',
    ):
        assert line in text, line
    assert "headgate_tasks_oldest_due_seconds{" in text
    assert f'headgate_tasks_backlog{{tenant="{code}",type="WORK"}}' not in text


async def test_what_is_done_is_a_zero_in_the_backlog(server: Server, tenant: Tenant) -> None:
    registry = CollectorRegistry()
    backlog = Backlog(server.database, registry, fresh_s=0)
    code = (await tenant.client.get("/api/v1/organization")).json()["tenant_code"]
    labels = {"type": "WORK", "tenant": code}
    await make(server.database, tenant.organization_id, a_task(1))
    await backlog.refresh()
    assert registry.get_sample_value("headgate_tasks_backlog", labels) == 1

    await Worker(server.database, [Recorder().kind()]).drain()
    await backlog.refresh()

    assert registry.get_sample_value("headgate_tasks_backlog", labels) == 0
    assert registry.get_sample_value("headgate_tasks_oldest_due_seconds", labels) == 0


async def test_nobody_learns_from_metrics_who_else_is_here(server: Server, tenant: Tenant) -> None:
    other = await server.add_tenant("Second")
    counters = TaskCounters(server.app.api.state.telemetry.registry)
    for each in (tenant, other):
        await each.send_ok(an_event())
        await make(server.database, each.organization_id, a_task(1), a_task(2), a_task("x", "OTHER"))
    await Worker(server.database, [Recorder().kind()], counters=counters).drain()
    codes = [(await each.client.get("/api/v1/organization")).json()["tenant_code"] for each in (tenant, other)]

    async with server.anonymous() as client:
        text = (await client.get("/metrics")).text

    assert "tenant=" not in text
    assert "organization=" not in text
    assert not any(f'"{code}"' in text for code in codes)
    for line in (
        'headgate_tasks_claimed_total{type="WORK"} 4.0',
        'headgate_task_batch_seconds_count{type="WORK"} 2.0',
        'headgate_task_batch_seconds_bucket{le="+Inf",type="WORK"} 2.0',
        'headgate_tasks_backlog{type="OTHER"} 2.0',
    ):
        assert line in text, line
    assert text.count('headgate_tasks_oldest_due_seconds{type="OTHER"}') == 1
    assert re.search(r'headgate_events_accepted_total{route="[^"]+"} 2.0', text)

    own = (await other.client.get("/api/v1/tasks/metrics")).text
    assert f'headgate_tasks_claimed_total{{tenant="{codes[1]}",type="WORK"}} 2.0' in own
    assert f'"{codes[0]}"' not in own


async def test_an_organisations_own_metrics_take_an_admin(server: Server, tenant: Tenant) -> None:
    async with server.anonymous() as client:
        assert (await client.get(f"{TASKS}/metrics")).status_code == 401
        login = {"email": tenant.email, "password": tenant.password}
        session = (await client.post("/api/v1/auth/login", json=login)).json()["token"]
        wish = {"name": "no admin", "scopes": ["read", "write"]}
        made = await client.post("/api/v1/auth/api-keys", json=wish, headers={"authorization": f"Bearer {session}"})
        headers = {"authorization": f"Bearer {made.json()['key']}"}
        assert (await client.get(f"{TASKS}/metrics", headers=headers)).status_code == 403


def test_a_number_of_tenants_is_named_and_the_rest_counted_together() -> None:
    registry = CollectorRegistry()
    counters = TaskCounters(registry)
    for number in range(MAX_TENANTS + 50):
        counters.claimed("WORK", f"t{number}", 1)
        counters.held_back(f"t{number}")
    [metric] = [each for each in registry.collect() if each.name == "headgate_tasks_claimed"]
    told = {each.labels["tenant"]: each.value for each in metric.samples if each.name.endswith("_total")}
    assert len(told) == MAX_TENANTS + 1
    assert told["other"] == 50


async def test_of_the_backlog_too_only_so_many_tenants_are_named(database: Database) -> None:
    registry, now = CollectorRegistry(), datetime.now(UTC)
    backlog = Backlog(database, registry)
    rows: Any = [
        {"task_type": "WORK", "tenant_code": f"t{number}", "number": 2, "oldest_at": now - timedelta(seconds=number)}
        for number in range(MAX_TENANTS + 50)
    ]
    backlog._rows = rows
    due = {each.labels["tenant"]: each.value for each in next(iter(backlog.collect())).samples}
    assert (len(due), due["other"], sum(due.values())) == (MAX_TENANTS + 1, 100, 2 * (MAX_TENANTS + 50))


async def test_work_is_behind_when_something_has_been_due_for_long(
    server: Server, tenant: Tenant, db: asyncpg.Connection
) -> None:
    await make(server.database, tenant.organization_id, a_task())
    assert (await tenant.client.get("/api/v1/tasks/stats")).json()["is_behind"] is False
    await db.execute("UPDATE async_task SET next_run_at = now() - interval '61 seconds'")
    assert (await tenant.client.get("/api/v1/tasks/stats")).json()["is_behind"] is True


async def test_metrics_are_answered_though_the_database_is_gone(settings: Settings) -> None:
    from headgate.server.app import create_app

    database = Database("postgresql://headgate_app@127.0.0.1:1/none", timeout_s=1)
    app = create_app(settings, database)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://headgate.test") as client:
        response = await client.get("/metrics")
    await database.close()
    assert response.status_code == 200
    assert "headgate_build_info" in response.text
