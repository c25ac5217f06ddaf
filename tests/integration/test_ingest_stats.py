"""What came in, counted: by hour, by producer, by reason; and the counting itself, under every way of writing."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from headgate.openlineage.packing import pack
from headgate.server.db import migrate
from headgate.server.db.migrate import migrations as migrate_all
from tests.conftest import Cluster
from tests.support.events import PRODUCER, a_run_id, an_event, at
from tests.support.ingest import a_server
from tests.support.server import Server, Tenant

STATS = "/api/v1/stats/ingest"
# The migration that began to count.
COUNTING = 13
DBT = "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt"


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Server]:
    async with a_server(cluster) as server:
        yield server


@pytest.fixture
async def tenant(shared: Server) -> Tenant:
    return await shared.add_tenant(f"Counted {a_run_id()}")


async def stats(tenant: Tenant, **params: Any) -> dict[str, Any]:
    response = await tenant.client.get(STATS, params=params)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def came(
    server: Server,
    tenant: Tenant,
    ago: timedelta,
    *,
    events: int = 1,
    producer: str = PRODUCER,
    outcome: str = "accepted",
) -> None:
    """Events that came a while ago, written as ingest writes them."""
    async with server.database.tenant(tenant.organization_id) as conn:
        await conn.execute(
            "INSERT INTO lineage_events (organization_id, received_at, kind, event_time, producer, tenant_code, "
            "outcome, reason, raw) SELECT $1, $2, 'dataset', $2::timestamptz - interval '3 seconds', $3, 't', $4, "
            "CASE WHEN $4 = 'refused' THEN 'run.after_end' END, $5 FROM generate_series(1, $6::integer)",
            *(tenant.organization_id, datetime.now(UTC) - ago, producer, outcome, pack(b"{}"), events),
        )


async def test_every_hour_of_the_window_is_there(tenant: Tenant, shared: Server) -> None:
    await came(shared, tenant, timedelta(hours=3), events=4)
    await came(shared, tenant, timedelta(hours=3), events=2, outcome="refused")
    await tenant.send_ok(an_event())

    found = await stats(tenant, hours=5)

    counts = [(hour["accepted"], hour["refused"]) for hour in found["by_hour"]]
    assert counts == [(0, 0), (4, 2), (0, 0), (0, 0), (1, 0)]
    hours = [datetime.fromisoformat(hour["hour"]) for hour in found["by_hour"]]
    assert [later - hour for hour, later in itertools.pairwise(hours)] == [timedelta(hours=1)] * 4
    assert (hours[0].minute, hours[0].second, hours[0].isoformat()) == (0, 0, found["since"].replace("Z", "+00:00"))
    assert found["totals"] == {"events": 7, "accepted": 5, "refused": 2}


async def test_what_is_older_than_the_window_is_left_out(tenant: Tenant, shared: Server) -> None:
    await came(shared, tenant, timedelta(hours=30))
    assert (await stats(tenant))["totals"]["events"] == 0
    assert (await stats(tenant, hours=48))["totals"]["events"] == 1


async def test_an_organisation_without_events_has_zeros(tenant: Tenant) -> None:
    found = await stats(tenant)

    assert len(found["by_hour"]) == 24
    assert found["totals"] == {"events": 0, "accepted": 0, "refused": 0}
    assert (found["producers"], found["refused"]) == ([], [])
    assert found["lag"] == {"events": 0, "p50_s": None, "p95_s": None, "max_s": None}
    assert found["duplicates"]["events"] == 0


async def test_each_producer_has_its_last_event(tenant: Tenant, shared: Server) -> None:
    await came(shared, tenant, timedelta(days=4), producer="https://example.org/silent/2.0")
    await came(shared, tenant, timedelta(minutes=5), producer=DBT, events=3)
    run = a_run_id()
    await tenant.send_ok(an_event(run=run, time=at(1)))
    await tenant.send(an_event("FAIL", run=run, time=at(2)))

    found = (await stats(tenant))["producers"]

    assert [(p["name"], p["version"], p["events"], p["accepted"], p["refused"]) for p in found] == [
        ("headgate-tests", "1.0", 2, 1, 1),
        ("dbt", "1.54.0", 3, 3, 0),
        ("silent", "2.0", 0, 0, 0),
    ]
    silent = datetime.now(UTC) - datetime.fromisoformat(found[2]["last_received_at"])
    assert timedelta(days=3, hours=23) < silent < timedelta(days=4, hours=1)


async def test_refusals_are_counted_by_reason_and_only_once(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event(run=run, time=at(1)))
    await tenant.send(an_event("FAIL", run=run, time=at(2)))
    await tenant.send(an_event("RUNNING", run=run, time=at(3)))
    for number in range(3):
        await tenant.send({"producer": PRODUCER, "number": number})
    await tenant.send(b"[")
    await tenant.client.post("/api/v1/lineage/batch", json=[an_event("START", run=a_run_id()), {"bad": 1}])

    found = await stats(tenant)

    assert {reason["reason"]: reason["events"] for reason in found["refused"]} == {
        "fields.invalid": 4,
        "body.unparsable": 1,
        "run.ended_otherwise": 1,
        "run.after_end": 1,
    }
    assert found["refused"][0]["reason"] == "fields.invalid"
    assert found["totals"] == {"events": 9, "accepted": 2, "refused": 7}


async def test_duplicates_are_those_of_this_process(tenant: Tenant) -> None:
    event = an_event()
    await tenant.send_ok(event)
    for _ in range(2):
        assert (await tenant.send(event)).status_code == 200

    found = (await stats(tenant))["duplicates"]

    assert found["events"] == 2
    assert datetime.fromisoformat(found["since"]) < datetime.now(UTC)


async def test_lag_is_from_the_events_time_to_its_arrival(tenant: Tenant, shared: Server) -> None:
    await came(shared, tenant, timedelta(minutes=1), events=20)
    late = datetime.now(UTC) - timedelta(seconds=100)
    await tenant.send_ok(an_event(time=late.isoformat()))

    lag = (await stats(tenant))["lag"]

    assert lag["events"] == 21
    assert lag["p50_s"] == pytest.approx(3)
    assert lag["p95_s"] == pytest.approx(3)
    assert lag["max_s"] == pytest.approx(100, abs=20)


async def test_nothing_of_other_organisations_is_counted(tenant: Tenant, shared: Server) -> None:
    other = await shared.add_tenant(f"Other {a_run_id()}")
    await other.send_ok(an_event())
    await other.send(b"[")
    assert (await stats(tenant))["totals"]["events"] == 0


async def test_many_writers_at_once_count_every_event(tenant: Tenant) -> None:
    batches = [[an_event(job=f"job-{number % 5}") for number in range(20)] for _ in range(12)]
    await asyncio.gather(
        *(tenant.client.post("/api/v1/lineage/batch", json=batch) for batch in batches),
        *(tenant.send(an_event()) for _ in range(60)),
    )
    assert (await stats(tenant))["totals"] == {"events": 300, "accepted": 300, "refused": 0}


@pytest.mark.parametrize("hours", ["0", "721", "x", "1.5", "-3", "9" * 40])
async def test_a_wrong_window_is_named(tenant: Tenant, hours: str) -> None:
    response = await tenant.client.get(STATS, params={"hours": hours})
    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, "query.hours")


async def test_the_longest_window_has_all_its_hours(tenant: Tenant, shared: Server) -> None:
    await came(shared, tenant, timedelta(hours=719))
    found = await stats(tenant, hours=720)
    assert (len(found["by_hour"]), found["by_hour"][0]["accepted"]) == (720, 1)


async def test_what_came_before_there_was_a_count_is_counted_by_the_migration(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database of the version before, with events of two organisations, brought to this one."""
    name = f"before_counting_{a_run_id()[:8]}"
    async with connected(cluster.admin_dsn("postgres")) as admin:
        await admin.execute(f"CREATE DATABASE {name}")
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda: [m for m in migrate_all() if m.version < COUNTING])
        await migrate.migrate(cluster.admin_dsn(name))
    async with connected(cluster.admin_dsn(name)) as db:
        few, many = await received(db, "few", events=3), await received(db, "many", events=6)
        await migrate.migrate(cluster.admin_dsn(name))
        rows = await db.fetch(
            "SELECT organization_id, producer, outcome, reason, events, last_id - first_id FROM ingest_hours"
        )
        marks = await db.fetch("SELECT organization_id, mark, events FROM ingest_marks")
    await cluster.drop(name)

    assert {tuple(row) for row in rows} == {
        (few, "urn:p", "accepted", "", 3, 2),
        (few, "", "refused", "body.unparsable", 1, None),
        (many, "urn:p", "accepted", "", 6, 5),
        (many, "", "refused", "body.unparsable", 1, None),
    }
    assert {tuple(row) for row in marks} == {(few, "lenient", 3), (many, "lenient", 6)}


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(dsn, server_settings={"search_path": "headgate"})
    try:
        yield conn
    finally:
        await conn.close()


async def received(db: asyncpg.Connection, name: str, *, events: int) -> UUID:
    """An organisation with some events, and with one body that was refused before it could become an event."""
    organization: UUID = await db.fetchval(
        "INSERT INTO organizations (name, slug, tenant_code) VALUES ($1, $1, $1) RETURNING id", name
    )
    await db.execute(
        "INSERT INTO lineage_events (organization_id, kind, event_time, producer, tenant_code, outcome, marks, raw) "
        "SELECT $1, 'run', now(), 'urn:p', 't', 'accepted', '{lenient}', '' FROM generate_series(1, $2::integer)",
        *(organization, events),
    )
    await db.execute(
        "INSERT INTO refused_events (organization_id, route, code, reason, body, body_size, correlation_id) "
        "VALUES ($1, '/', 'body.unparsable', 'x', '', 0, 'c'), ($1, '/', 'run.state', 'x', '', 0, 'c')",
        organization,
    )
    return organization
