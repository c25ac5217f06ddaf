"""What lists sort by follows from what was written, and nobody who writes waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.server.db import migrate as migrate_module
from headgate.server.db.migrate import migrate, migrations
from headgate.server.db.pool import Database
from headgate.server.tasks.jobs import KINDS
from headgate.server.worker import Worker
from tests.conftest import Cluster
from tests.support.events import T0, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.graphs import an_organization, insert
from tests.support.server import Server, Tenant

Json = dict[str, Any]
OWN = next(migration.version for migration in migrations() if migration.name.endswith("_catalog.sql"))


def measured(name: str, rows: int) -> Json:
    return a_dataset(name, outputFacets={"outputStatistics": a_facet(rowCount=rows, size=rows * 10)})


def checked(name: str, *, success: bool, test: str = "unique") -> Json:
    found = [{"assertion": test, "success": success}]
    return a_dataset(name, inputFacets={"dataQualityAssertions": a_facet(assertions=found)})


LISTED = "SELECT id FROM datasets WHERE organization_id = $1 AND merged_into IS NULL"


async def stats(db: asyncpg.Connection, organization_id: UUID) -> dict[str, Mapping[str, Any]]:
    rows = await db.fetch(
        "SELECT d.name, s.* FROM dataset_stats s JOIN datasets d ON d.id = s.dataset_id WHERE s.organization_id = $1",
        organization_id,
    )
    return {row["name"]: {key: row[key] for key in row.keys() if key != "name"} for row in rows}  # noqa: SIM118


async def worked_out_anew(db: asyncpg.Connection, organization_id: UUID) -> dict[str, Mapping[str, Any]]:
    """What the stats ought to be, from the tables they follow from."""
    async with db.transaction():
        await db.execute("DELETE FROM dataset_stats WHERE organization_id = $1", organization_id)
        ids = [row["id"] for row in await db.fetch(LISTED, organization_id)]
        await db.execute("SELECT add_dataset_stats($1, $2)", organization_id, ids)
        await db.execute("SELECT refresh_dataset_stats($1, 'all', $2)", organization_id, ids)
        return await stats(db, organization_id)


async def notes(db: asyncpg.Connection) -> int:
    count: int = await db.fetchval("SELECT count(*) FROM dataset_stats_notes")
    return count


async def work_out(database: Database) -> None:
    """What a worker does with them now and then."""
    worker = Worker(database, [kind for kind in KINDS if kind.task_type == "SETTLE_STATS"])
    await worker.schedule()
    assert await worker.step() == 1


async def listed(tenant: Tenant) -> dict[str, Json]:
    response = await tenant.client.get("/api/v1/datasets")
    assert response.status_code == 200, response.text
    return {item["name"]: item for item in response.json()["items"]}


@asynccontextmanager
async def held(db: asyncpg.Connection) -> AsyncIterator[None]:
    """All stats are locked, as by a reader that is working them out."""
    async with db.transaction():
        await db.fetch("SELECT FROM dataset_stats FOR NO KEY UPDATE")
        yield


async def test_writers_do_not_wait_for_the_stats(server: Server, db: asyncpg.Connection) -> None:
    tenant = server.tenant
    await tenant.send_ok(an_event(outputs=[measured("t", 1)], time=at(0)))
    async with held(db):
        sending = tenant.send_ok(
            an_event(outputs=[measured("t", 2)], time=at(30)),
            an_event(job="other", inputs=[a_dataset("t")], outputs=[a_dataset("u")], time=at(40)),
            an_event(job="test", inputs=[checked("t", success=False)], time=at(50)),
        )
        await asyncio.wait_for(sending, timeout=10)

    item = (await listed(tenant))["t"]
    assert (item["row_count"], item["last_updated"]) == (2, at(30))
    assert (item["downstream_count"], item["failing_tests"]) == (1, 1)


@asynccontextmanager
async def being_worked_out(db: asyncpg.Connection, tenant: Tenant) -> AsyncIterator[None]:
    """Another transaction works the stats of the organisation out, and takes its time."""
    async with db.transaction():
        assert await db.fetchval("SELECT take_dataset_stats($1)", tenant.organization_id)
        yield


async def test_readers_at_the_same_time_see_the_same(server: Server) -> None:
    await server.tenant.send_ok(an_event(outputs=[measured("t", 1)]))

    found = await asyncio.gather(*(listed(server.tenant) for _ in range(3)))

    assert [items["t"]["row_count"] for items in found] == [1, 1, 1]


async def test_a_reader_does_not_wait_long_for_another(server: Server, db: asyncpg.Connection) -> None:
    tenant = server.tenant
    await tenant.send_ok(an_event(outputs=[measured("t", 1)]))
    async with being_worked_out(db, tenant):
        found = await asyncio.wait_for(asyncio.gather(*(listed(tenant) for _ in range(3))), timeout=10)
        assert [items["t"]["row_count"] for items in found] == [None, None, None]

    assert (await listed(tenant))["t"]["row_count"] == 1


async def test_the_worker_waits_until_a_reader_has_finished(
    server: Server, database: Database, db: asyncpg.Connection
) -> None:
    """Returning early would mean that the note it has claimed is done."""
    tenant = server.tenant
    await tenant.send_ok(an_event(outputs=[measured("t", 1)]))
    async with being_worked_out(db, tenant):
        working = asyncio.create_task(work_out(database))
        done, _ = await asyncio.wait([working], timeout=0.6)
        assert not done

    await asyncio.wait_for(working, timeout=10)
    assert (await stats(db, tenant.organization_id))["t"]["row_count"] == 1
    assert await notes(db) == 0


async def test_what_was_read_is_not_worked_out_again(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[measured("t", 1)]))
    assert await notes(db) > 0

    await listed(server.tenant)

    assert await notes(db) == 0
    async with held(db):
        await asyncio.wait_for(listed(server.tenant), timeout=10)


async def test_the_worker_works_them_out_when_nobody_reads(
    server: Server, database: Database, db: asyncpg.Connection
) -> None:
    await server.tenant.send_ok(an_event(outputs=[measured("t", 1)]))
    assert (await stats(db, server.tenant.organization_id))["t"]["row_count"] == -1

    await work_out(database)

    assert (await stats(db, server.tenant.organization_id))["t"]["row_count"] == 1
    assert await notes(db) == 0


async def test_a_flood_is_worked_out_in_portions(server: Server, db: asyncpg.Connection) -> None:
    organization_id = server.tenant.organization_id
    await server.tenant.send_ok(
        an_event(inputs=[a_dataset("in")], outputs=[measured(f"t{place}", place + 1) for place in range(5)])
    )

    rounds = 1
    while await db.fetchval("SELECT settle_dataset_stats($1, 2)", organization_id):
        rounds += 1

    assert rounds == 3
    assert await notes(db) == 0
    assert await stats(db, organization_id) == await worked_out_anew(db, organization_id)


async def test_notes_of_one_organisation_are_not_anothers(server: Server, db: asyncpg.Connection) -> None:
    other = await server.add_tenant("Second")
    for tenant in (server.tenant, other):
        await tenant.send_ok(an_event(outputs=[measured("t", 1)]))
    before = await notes(db)

    await listed(other)

    assert await notes(db) == before / 2
    assert (await stats(db, server.tenant.organization_id))["t"]["row_count"] == -1


async def test_measurements_that_arrive_after_the_end_count(server: Server) -> None:
    """The run's last event told nothing of the rows; an earlier one, that comes late, does."""
    run = a_run_id()
    await server.tenant.send_ok(
        an_event("START", run=run, outputs=[a_dataset("t")], time=at(0)),
        an_event("COMPLETE", run=run, outputs=[a_dataset("t")], time=at(60)),
    )
    assert (await listed(server.tenant))["t"]["row_count"] is None

    await server.tenant.send_ok(an_event("RUNNING", run=run, outputs=[measured("t", 4)], time=at(30)))

    assert (await listed(server.tenant))["t"]["row_count"] == 4


async def test_many_writers_at_once_leave_what_one_after_another_would(server: Server, db: asyncpg.Connection) -> None:
    """Jobs that read and write the same few datasets in different orders, and tests of them, all at the same time."""
    tenant = server.tenant
    datasets = [f"d{place}" for place in range(6)]
    events = []
    for number in range(60):
        source, target, third = (datasets[(number * step + step) % 6] for step in (1, 5, 2))
        events.append(
            an_event(
                job=f"job{number % 17}",
                inputs=[checked(source, success=number % 3 > 0, test=f"test{number % 4}")],
                outputs=[measured(target, number), measured(third, number + 1)] if target != third else [],
                time=at(number),
            )
        )

    answers = await asyncio.gather(*(tenant.send(event) for event in events))

    assert {answer.status_code for answer in answers} == {201}
    await listed(tenant)
    assert await notes(db) == 0
    assert await stats(db, tenant.organization_id) == await worked_out_anew(db, tenant.organization_id)


async def test_stats_follow_from_the_tables_whatever_happened(server: Server, db: asyncpg.Connection) -> None:
    tenant = server.tenant
    dropped = a_dataset("raw", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tenant.send_ok(
        an_event(job="load", outputs=[measured("raw", 5)], time=at(0)),
        an_event("START", job="clean", inputs=[a_dataset("raw")], outputs=[a_dataset("clean")], time=at(10)),
        an_event("FAIL", job="clean", inputs=[a_dataset("raw")], outputs=[measured("clean", 3)], time=at(20)),
        an_event(job="load", outputs=[measured("raw", 6)], time=at(30)),
        an_event(job="load", outputs=[dropped], time=at(40)),
        an_event(job="test", inputs=[checked("clean", success=False)], time=at(50)),
    )
    await listed(tenant)

    found = await stats(db, tenant.organization_id)

    assert found == await worked_out_anew(db, tenant.organization_id)
    assert (found["raw"]["row_count"], found["clean"]["row_count"]) == (6, 3)
    assert (found["clean"]["failing_tests"], found["clean"]["upstream_count"]) == (1, 0)


async def write_model(db: asyncpg.Connection, organization_id: UUID) -> None:
    """A job that reads `a`, which has tags, and writes `b`, of which a test fails."""
    a, b, job, run = (uuid4() for _ in range(4))
    seen = {"first_seen_at": T0, "last_seen_at": T0, "last_completed_at": T0, "job_id": job}
    rows: list[tuple[str, Json]] = [
        ("datasets", {"id": a, "namespace": "n", "name": "a", "display_name": "a", "first_seen_at": T0}),
        ("datasets", {"id": b, "namespace": "n", "name": "b", "display_name": "b", "first_seen_at": T0}),
        ("jobs", {"id": job, "namespace": "n", "name": "j", "first_seen_at": T0}),
        ("job_datasets", {"dataset_id": b, "role": "output", **seen}),
        ("lineage_edges", {"source_id": a, "target_id": b, **seen}),
        ("dataset_metrics", {"dataset_id": b, "measured_at": T0, "run_id": run, "direction": "output", "row_count": 7}),
        ("dataset_facets", {"dataset_id": a, "name": "tags", "body": '{"tags": [{"key": "gold"}]}', "event_time": T0}),
        ("test_results", {"dataset_id": b, "run_id": run, "test_key": "k", "name": "k", "status": "failed",
                          "severity": "error", "observed_at": T0}),
        ("schema_versions", {"dataset_id": b, "version": 1, "schema_hash": b"h", "fields": '[{"name": "x"}]',
                             "columns_added": [], "columns_removed": [], "columns_type_changed": [],
                             "change_type": "INITIAL", "description": "", "breaking": False, "valid_from": T0}),
    ]  # fmt: skip
    for table, values in rows:
        await insert(db, organization_id, table, **values)


async def test_a_database_from_before_gets_its_stats_and_tags(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are there when the migration comes, hidden from its owner by row-level security."""
    every = migrations()
    admin = await asyncpg.connect(cluster.admin_dsn("postgres"))
    await admin.execute("CREATE DATABASE before_stats")
    dsn = cluster.admin_dsn("before_stats")
    try:
        monkeypatch.setattr(migrate_module, "migrations", lambda: [known for known in every if known.version < OWN])
        await migrate(dsn)
        db = await asyncpg.connect(dsn, server_settings={"search_path": "headgate"})
        organizations = [await an_organization(db) for _ in range(2)]
        for organization_id in organizations:
            await write_model(db, organization_id)
        monkeypatch.undo()
        assert await migrate(dsn)

        for organization_id in organizations:
            found = await stats(db, organization_id)
            assert (found["b"]["last_written_at"], found["b"]["row_count"], found["a"]["row_count"]) == (T0, 7, -1)
            assert (found["a"]["downstream_count"], found["b"]["failing_tests"]) == (1, 1)
            assert found == await worked_out_anew(db, organization_id)
            tags = await db.fetch("SELECT tag FROM dataset_tags WHERE organization_id = $1", organization_id)
            assert [row["tag"] for row in tags] == ["gold"]
        assert [row[0] for row in await db.fetch("SELECT column_count FROM schema_versions")] == [1, 1]
        await db.close()
    finally:
        await admin.execute("DROP DATABASE before_stats WITH (FORCE)")
        await admin.close()
