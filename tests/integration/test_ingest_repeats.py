"""Runs that do what their job did before take a shorter way: they leave the same rows, and nothing is lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server
from tests.support.stored import eventually, moment

PARENT = {"parent": a_facet(run={"runId": a_run_id()}, job={"namespace": "dags", "name": "nightly"})}
# What differs from run to run, whatever way it took.
OWN = {"run_id", "created_at", "updated_at"}
TIMES = {"started_at", "ended_at", "last_event_at", "last_activity_at", "complete_at", "start_at"}


def a_load(event_type: str = "COMPLETE", *, rows: int = 10, **given: Any) -> Json:
    output = a_dataset("revenue", facets=with_schema("id", "sum"))
    if event_type != "START":
        output["outputFacets"] = {"outputStatistics": a_facet(rowCount=rows, size=rows * 10)}
    inputs = [a_dataset("orders", facets=with_schema("id"))]
    return an_event(event_type, inputs=inputs, outputs=[output], run_facets=PARENT, **given)


async def rows_of(db: asyncpg.Connection, table: str, run: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await db.fetch(f"SELECT * FROM {table} WHERE run_id = $1", UUID(run))]


@pytest.mark.parametrize("event_type", ["START", "COMPLETE"])
async def test_the_tenth_run_of_a_job_leaves_what_the_first_did(
    server: Server, db: asyncpg.Connection, event_type: str
) -> None:
    runs = [a_run_id() for _ in range(10)]
    for second, run in enumerate(runs):
        await server.tenant.send_ok(a_load(event_type, run=run, time=at(second)))

    found = [await rows_of(db, "job_runs", run) for run in runs]
    assert [len(rows) for rows in found] == [1] * 10
    alike = [{name: value for name, value in rows[0].items() if name not in OWN | TIMES} for rows in found]
    assert alike[1:] == alike[:1] * 9
    for second, [row] in enumerate(found):
        state = {"START": "start_at", "COMPLETE": "complete_at"}[event_type]
        activity = row["started_at"] if event_type == "START" else None
        assert [row["started_at"].isoformat(), row["last_event_at"].isoformat()] == [at(second)[:-1] + "+00:00"] * 2
        assert (row[state], row["last_activity_at"]) == (row["started_at"], activity)
    measured = [len(await rows_of(db, "dataset_metrics", run)) for run in runs]
    assert measured == [0 if event_type == "START" else 1] * 10


async def test_every_run_that_ends_is_judged_whatever_way_it_takes(server: Server, db: asyncpg.Connection) -> None:
    runs = [a_run_id() for _ in range(10)]
    events = [a_load(run=run, time=at(second)) for second, run in enumerate(runs)]
    await server.tenant.send_ok(*events)
    again = await server.tenant.client.post("/api/v1/lineage/batch", json=events)
    assert again.json()["summary"]["duplicates"] == 10

    tasks = await db.fetch(
        "SELECT resource_id, priority, payload, tenant_code FROM async_task WHERE task_type = 'DETECT'"
    )
    tenant_code = await db.fetchval("SELECT tenant_code FROM organizations")
    assert sorted(map(tuple, tasks)) == sorted((run, 50, "{}", tenant_code) for run in runs)


async def test_a_run_is_judged_again_when_a_late_event_measures_more(server: Server, db: asyncpg.Connection) -> None:
    run = a_run_id()
    for second in range(3):
        await server.tenant.send_ok(a_load(time=at(second)))
    await server.tenant.send_ok(a_load("START", run=run, time=at(10)), a_load(run=run, time=at(20)))
    number = "SELECT count(*) FROM async_task WHERE task_type = 'DETECT' AND resource_id = $1"
    assert await db.fetchval(number, run) == 1
    late = an_event(
        "RUNNING",
        run=run,
        time=at(15),
        inputs=[a_dataset("orders", inputFacets={"inputStatistics": a_facet(rowCount=3)})],
    )

    await server.tenant.send_ok(late)

    assert await db.fetchval(number, run) == 2


async def test_a_changed_schema_among_repetitions_is_seen_in_order_of_time(
    server: Server, db: asyncpg.Connection
) -> None:
    for second in range(4):
        await server.tenant.send_ok(a_load(time=at(second)))
    other = a_load(time=at(12))
    other["outputs"][0]["facets"] = with_schema("id", "sum", "tax")
    batch = [a_load(time=at(10)), a_load(time=at(14)), other, a_load(time=at(11))]

    response = await server.tenant.client.post("/api/v1/lineage/batch", json=batch)

    assert response.json()["summary"]["successful"] == 4
    versions = await db.fetch(
        """SELECT v.columns_added, v.columns_removed, v.valid_from FROM schema_versions v JOIN datasets d
               ON d.id = v.dataset_id WHERE d.name LIKE '%revenue%' ORDER BY v.version"""
    )
    told = [(added, removed, valid_from.second) for added, removed, valid_from in versions]
    assert told[1:] == [(["tax"], [], 12), ([], ["tax"], 14)]


async def test_a_run_that_another_writer_makes_meanwhile_is_taken_up(
    server: Server, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    first, run = a_run_id(), a_run_id()
    await server.tenant.send_ok(*(a_load(time=at(second)) for second in range(3)))
    await server.tenant.send_ok(a_load("START", run=first, time=at(5)))
    conn = await asyncpg.connect(cluster.admin_dsn(database_name), server_settings={"search_path": "headgate"})
    columns = "organization_id, job_id, job_ids, state, started_at, last_event_at, last_activity_at, start_at, producer"
    try:
        async with conn.transaction():
            await conn.execute(
                f"INSERT INTO job_runs (run_id, {columns}) SELECT $1, {columns} FROM job_runs WHERE run_id = $2",
                UUID(run),
                UUID(first),
            )
            sending = asyncio.create_task(server.tenant.send(a_load(run=run, time=at(20))))
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'store_events'"
            assert await eventually(lambda: db.fetchval(waits), bool)
    finally:
        await conn.close()

    assert (await sending).status_code == 201
    [row] = await rows_of(db, "job_runs", run)
    assert (row["state"], row["start_at"].second, row["complete_at"].second) == ("COMPLETE", 5, 20)


async def test_runs_of_a_server_that_gives_no_hashes_are_stored_and_judged(
    server: Server, db: asyncpg.Connection
) -> None:
    """As while servers are replaced one by one: the older ones give fifty-five arguments."""
    organization_id, run = server.tenant.organization_id, uuid4()
    given: list[Any] = [organization_id, "older", *([] for _ in range(53))]
    row = {10: run, 12: True, 13: uuid4(), 14: "FAIL", 15: moment(0), 16: moment(9), 23: "{}", 24: "{}", 25: "spark"}
    extra = {"fail_at": at(9), "parent_job": {"name": "nightly"}, "application_id": "app-1"}
    for place, value in (row | {26: json.dumps(extra)}).items():
        given[place] = [value]
    async with server.database.tenant(organization_id) as conn:
        await conn.execute(f"SELECT store_events({', '.join(f'${n}' for n in range(1, 56))})", *given)

    [stored] = await rows_of(db, "job_runs", str(run))
    assert (stored["state"], stored["ended_at"], stored["application_id"]) == ("FAIL", moment(9), "app-1")
    assert json.loads(stored["parent_job"]) == {"name": "nightly"}
    tasks = await db.fetch("SELECT task_type FROM async_task WHERE resource_id = $1 ORDER BY task_type", str(run))
    assert [task["task_type"] for task in tasks] == ["CORRELATE", "DETECT"]
