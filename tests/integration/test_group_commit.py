"""Group commit: answers wait for the commit, one bad event is alone with its trouble, and writers do not collide."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from headgate.domain.run import TERMINAL, Course, RunState
from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_run_id, an_event, at, with_schema
from tests.support.server import Server, Tenant, running_server
from tests.support.stored import eventually

Sending = asyncio.Task[httpx.Response]


@pytest.fixture
async def patient(settings: Settings, database: Database) -> AsyncIterator[Server]:
    """A server with one writer: what comes while it is busy has to share the next transaction."""
    async with running_server(settings.model_copy(update={"group_writers": 1}), database) as server:
        yield server


@asynccontextmanager
async def held(cluster: Cluster, name: str, *statements: str) -> AsyncIterator[None]:
    """Another session, in the middle of a transaction that has taken these locks."""
    conn = await asyncpg.connect(cluster.admin_dsn(name), server_settings={"search_path": "headgate"})
    try:
        async with conn.transaction():
            for statement in statements:
                await conn.execute(statement)
            yield
    finally:
        await conn.close()


async def until(condition: Callable[[], Awaitable[Any]]) -> None:
    assert await eventually(condition, bool)


def sending(tenant: Tenant, events: Sequence[Json | bytes]) -> list[Sending]:
    return [asyncio.create_task(tenant.send(event)) for event in events]


async def statuses(tasks: Sequence[Sending]) -> list[int]:
    return [response.status_code for response in await asyncio.gather(*tasks)]


def waits_in(db: asyncpg.Connection, query: str) -> Callable[[], Awaitable[Any]]:
    """Whether a connection of the application waits for a lock in a statement like this."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = $1 AND query ~ $2"
    return lambda: db.fetchval(sql, "headgate_app", query)


async def test_the_answer_waits_for_the_commit(
    patient: Server, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    await patient.tenant.send_ok(an_event(inputs=[a_dataset("orders")]))
    event = an_event(job="another", inputs=[a_dataset("orders")])
    # The deferred foreign key of the new edge needs the dataset's row when everything else is written.
    async with held(cluster, database_name, "SELECT FROM datasets FOR UPDATE"):
        [task] = sending(patient.tenant, [event])
        await until(waits_in(db, "^COMMIT"))
        await asyncio.sleep(0.2)

        assert not task.done()
        assert await db.fetchval("SELECT count(*) FROM lineage_events") == 1

    assert await statuses([task]) == [201]
    assert await db.fetchval("SELECT count(*) FROM lineage_events") == 2


@asynccontextmanager
async def one_group(server: Server, cluster: Cluster, name: str, db: asyncpg.Connection) -> AsyncIterator[None]:
    """What is sent inside waits behind one blocked event, and is then written together."""
    async with held(cluster, name, "LOCK TABLE lineage_events IN ACCESS EXCLUSIVE MODE"):
        blocked = sending(server.tenant, [an_event()])
        await until(waits_in(db, "store_events"))
        yield
    assert await statuses(blocked) == [201]


async def all_wait(server: Server, number: int) -> None:
    async def are_there() -> bool:
        return f"headgate_queue_events {number}.0\n" in (await server.client.get("/metrics")).text

    await until(are_there)


async def test_a_group_may_mix_organisations(
    patient: Server, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    first, second = patient.tenant, await patient.add_tenant("Second")
    run = a_run_id()
    async with one_group(patient, cluster, database_name, db):
        tasks = [
            task
            for tenant in (first, second, first, second)
            for task in sending(tenant, [an_event("RUNNING", run=run, inputs=[a_dataset("orders")])])
        ]
        await all_wait(patient, 4)

    # Each organisation has sent the same event twice.
    assert sorted(await statuses(tasks)) == [200, 200, 201, 201]
    rows = await db.fetch("SELECT organization_id, xmin::text FROM lineage_events WHERE run_id = $1", UUID(run))
    assert {row["organization_id"] for row in rows} == {first.organization_id, second.organization_id}
    assert len({row["xmin"] for row in rows}) == 1
    for tenant in (first, second):
        assert (await tenant.run(run))["inputs"][0]["name"] == "orders"


@pytest.mark.parametrize(
    ("state", "status"), [("22000", 422), ("P0001", 500)], ids=["data that cannot be held", "an unexpected error"]
)
async def test_one_event_that_cannot_be_stored_leaves_its_group_alone(
    patient: Server, cluster: Cluster, database_name: str, db: asyncpg.Connection, state: str, status: int
) -> None:
    await db.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END $$; "
        "CREATE TRIGGER refuse BEFORE INSERT ON lineage_events FOR EACH ROW "
        "WHEN (NEW.producer = 'https://bad.example') EXECUTE FUNCTION refuse()"
    )
    bad = an_event() | {"producer": "https://bad.example"}
    good = [an_event() for _ in range(6)]
    async with one_group(patient, cluster, database_name, db):
        tasks = sending(patient.tenant, [*good[:3], bad, *good[3:]])
        await all_wait(patient, 7)

    assert await statuses(tasks) == [201, 201, 201, status, 201, 201, 201]
    stored = {row["run_id"] for row in await db.fetch("SELECT run_id FROM job_runs")}
    assert {UUID(event["run"]["runId"]) for event in good} <= stored
    assert UUID(bad["run"]["runId"]) not in stored
    # A refused event may be sent again once it can be stored.
    await db.execute("DROP TRIGGER refuse ON lineage_events")
    assert (await patient.tenant.send(bad)).status_code == 201


async def test_one_event_that_cannot_be_stored_leaves_its_batch_alone(server: Server, db: asyncpg.Connection) -> None:
    await db.execute("ALTER TABLE lineage_events ADD CHECK (producer <> 'https://bad.example')")
    events = [an_event() for _ in range(5)]
    events[2]["producer"] = "https://bad.example"

    response = await server.client.post("/api/v1/lineage/batch", json=events)

    assert response.status_code == 207
    assert [failed["index"] for failed in response.json()["failed_events"]] == [2]
    assert await db.fetchval("SELECT count(*) FROM lineage_events") == 4


async def test_a_full_queue_says_come_back_later(
    settings: Settings, database: Database, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    small = settings.model_copy(update={"group_writers": 1, "max_queue_events": 5})
    async with running_server(small, database) as server:
        async with one_group(server, cluster, database_name, db):
            waiting = sending(server.tenant, [an_event() for _ in range(5)])
            await all_wait(server, 5)
            late = an_event()

            refused = await server.tenant.send(late)
            batch = await server.client.post("/api/v1/lineage/batch", json=[an_event(), an_event()])

            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["code"] == "unavailable"
            assert batch.status_code == 503
            assert int(batch.headers["retry-after"]) >= 1
            assert batch.json()["summary"] | {"received": 2} == batch.json()["summary"]
            assert [failed["retriable"] for failed in batch.json()["failed_events"]] == [True, True]
        assert await statuses(waiting) == [201] * 5
        assert (await server.tenant.send(late)).status_code == 201
        # What came too early is not among the refused: nothing is wrong with it.
        assert await db.fetchval("SELECT count(*) FROM refused_events") == 0


async def test_a_full_queue_of_bytes_says_come_back_later(
    settings: Settings, database: Database, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    small = settings.model_copy(update={"group_writers": 1, "max_queue_bytes": 10_000})
    async with running_server(small, database) as server:
        async with one_group(server, cluster, database_name, db):
            assert (await server.tenant.send(an_event(job="x" * 1900) | {"extra": "x" * 9000})).status_code == 503
        # With nothing else waiting, an event larger than the whole queue is still taken.
        assert (await server.tenant.send(an_event() | {"extra": "x" * 20_000})).status_code == 201


async def test_a_stopping_server_writes_what_waits(
    settings: Settings, database: Database, cluster: Cluster, database_name: str, db: asyncpg.Connection
) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(running_server(settings, database))
        async with held(cluster, database_name, "LOCK TABLE lineage_events IN ACCESS EXCLUSIVE MODE"):
            tasks = sending(server.tenant, [an_event() for _ in range(10)])
            await until(waits_in(db, "store_events"))
            stopping = asyncio.create_task(stack.aclose())
            await asyncio.sleep(0.1)
            assert not stopping.done()
        await stopping

    assert await statuses(tasks) == [201] * 10
    assert await db.fetchval("SELECT count(*) FROM lineage_events") == 10


@pytest.mark.parametrize("seed", range(3))
async def test_two_servers_that_write_the_same_runs_agree_with_the_rules(
    server: Server, settings: Settings, cluster: Cluster, database_name: str, db: asyncpg.Connection, seed: int
) -> None:
    dice = random.Random(seed)
    runs = [a_run_id() for _ in range(25)]
    events = [_an_event_of(dice, run) for run in runs for _ in range(dice.randint(1, 9))]
    dice.shuffle(events)
    other_database = Database(cluster.app_dsn(database_name), max_size=8)
    async with running_server(settings, other_database) as other:
        assert other.tenant.organization_id == server.tenant.organization_id
        answers = await _delivered(dice, events, (server.tenant, other.tenant))
    await other_database.close()

    assert set(answers) <= {"stored", "duplicate", "refused"}
    for run in runs:
        sent = [(event, a) for event, a in zip(events, answers, strict=True) if event["run"]["runId"] == run]
        await _assert_follows_the_rules(db, run, sent)


async def _delivered(dice: random.Random, events: list[Json], tenants: Sequence[Tenant]) -> list[str]:
    """What became of each event; alone or in arrays, by way of any of the tenants, forty requests at a time."""
    slots = asyncio.Semaphore(40)

    async def deliver(tenant: Tenant, part: list[Json]) -> list[str]:
        async with slots:
            return await _outcomes(tenant, part)

    sends, place = [], 0
    while place < len(events):
        size = dice.choice((1, 1, 1, 7))
        sends.append(deliver(dice.choice(tenants), events[place : place + size]))
        place += size
    return [outcome for outcomes in await asyncio.gather(*sends) for outcome in outcomes]


async def _outcomes(tenant: Tenant, events: list[Json]) -> list[str]:
    words = {200: "duplicate", 201: "stored", 422: "refused"}
    # An array of one run is checked as a sequence, which is not the subject here.
    if len({event["run"]["runId"] for event in events}) == 1:
        return [words[(await tenant.send(event)).status_code] for event in events]
    response = await tenant.client.post("/api/v1/lineage/events", json=events)
    assert response.status_code in {200, 207, 422}, response.text
    return [result.get("message") or words[result["status"]] for result in response.json()["results"]]


def _an_event_of(dice: random.Random, run: str) -> Json:
    kinds = ["START", "RUNNING", "OTHER", "COMPLETE", "FAIL", "ABORT"]
    names = dice.sample(["a", "b", "c", "d"], 3)
    columns = dice.sample(["x", "y", "z"], dice.randint(1, 3))
    return an_event(
        dice.choice(kinds),
        run=run,
        job=dice.choice(["one", "two"]),
        time=at(dice.randint(0, 5)),
        inputs=[a_dataset(name) for name in names[:2]],
        outputs=[a_dataset(names[2], facets=with_schema(*columns))],
    )


async def _assert_follows_the_rules(db: asyncpg.Connection, run: str, sent: list[tuple[Json, str]]) -> None:
    rows = await db.fetch("SELECT event_type, event_time, outcome FROM lineage_events WHERE run_id = $1", UUID(run))
    accepted = [(row["event_time"], RunState(row["event_type"])) for row in rows if row["outcome"] == "accepted"]
    outcomes = [outcome for _, outcome in sent]
    assert len(accepted) == outcomes.count("stored")
    assert len(rows) - len(accepted) == outcomes.count("refused")
    course = Course()
    for moment in accepted:
        course.add(moment)
    # The earliest terminal event wins whatever the order of arrival, so it must be among the accepted.
    ends = [event["eventTime"] for event, _ in sent if event["eventType"] in TERMINAL]
    assert (course.end[0] if course.end else None) == (datetime.fromisoformat(min(ends)) if ends else None)
    record = await db.fetchrow("SELECT * FROM job_runs WHERE run_id = $1", UUID(run))
    assert record["state"] == course.state[1]
    assert record["started_at"] == course.started_at
    assert record["ended_at"] == (course.end[0] if course.end else None)
    assert record["last_event_at"] == course.last_event_at
