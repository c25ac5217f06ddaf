"""Whose turn it is: tenants beside each other, kinds beside each other, and those who send events before all."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from headgate.server.db.pool import Database
from headgate.server.notices import Notices
from headgate.server.queue import CHANNEL, Batch, Bell
from headgate.server.tasks.counters import TaskCounters
from headgate.server.worker import MAX_YIELD_S, Worker
from headgate.settings import Rate
from tests.conftest import Cluster
from tests.support.events import an_event
from tests.support.ingest import unlimited
from tests.support.server import Server, running_server
from tests.support.tasks import EFFECTS, Recorder, a_task, make, running, until

LARGE = 100_000
FETCHED = """SELECT pg_stat_get_xact_tuples_fetched('async_task'::regclass)
                    + pg_stat_get_xact_tuples_returned('async_task_open'::regclass)"""


@pytest.fixture
async def other(server: Server) -> UUID:
    return (await server.add_tenant("Second")).organization_id


async def fill(db: asyncpg.Connection, org: UUID, number: int, types: tuple[str, ...] = ("WORK",)) -> None:
    await db.execute(
        """INSERT INTO async_task (organization_id, task_type, tenant_id, tenant_code, resource_type, resource_id,
                                   content_hash)
           SELECT o.id, ($3::text[])[1 + g % cardinality($3::text[])], o.tenant_id, o.tenant_code, 'THING', g::text, ''
             FROM organizations o, generate_series(1, $2::integer) g WHERE o.id = $1""",
        org, number, list(types),
    )  # fmt: skip


async def test_a_hundred_thousand_tasks_of_one_tenant_delay_another_by_one_batch(
    database: Database, db: asyncpg.Connection, org: UUID, other: UUID
) -> None:
    """By the order in which batches begin: whatever comes in meanwhile waits for one batch of the large tenant."""
    recorder = Recorder()
    await fill(db, org, LARGE)
    worker = Worker(database, [recorder.kind()])
    for _ in range(3):
        await worker.step()
    for number in range(5):
        await make(database, other, a_task(number))
        worker.hear(str(other))
        await worker.step()
        await worker.step()
        assert other in recorder.organizations[-2:], number

    assert recorder.organizations.count(other) == 5
    assert recorder.organizations.count(org) == 8


async def test_a_tenant_that_no_bell_told_of_waits_no_longer(
    database: Database, db: asyncpg.Connection, org: UUID, other: UUID
) -> None:
    recorder = Recorder()
    await fill(db, org, 1000)
    await make(database, other, a_task())
    worker = Worker(database, [recorder.kind(batch_size=10)], look_s=0)
    for _ in range(2):
        await worker.step()
    assert set(recorder.organizations) == {org, other}


async def test_lanes_take_turns_too(database: Database, db: asyncpg.Connection, org: UUID, other: UUID) -> None:
    recorder = Recorder()
    await fill(db, org, 400)
    await fill(db, other, 40)
    async with running(Worker(database, [recorder.kind(batch_size=10)], lanes=2)):
        await until(lambda: recorder.organizations.count(other) == 4)
    last = max(place for place, each in enumerate(recorder.organizations) if each == other)
    assert recorder.organizations[: last + 1].count(org) <= 6


async def test_a_kind_that_never_ends_does_not_hold_up_the_others(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    recorder = Recorder()
    await fill(db, org, 1000)
    await db.execute("UPDATE async_task SET priority = 50 WHERE task_type = 'WORK'")
    await make(database, org, a_task("a", "LATER", priority=200), a_task("b", "LAST", priority=300))
    kinds = [recorder.kind(batch_size=10), recorder.kind("LATER"), recorder.kind("LAST")]
    worker = Worker(database, kinds)
    for _ in range(12):
        await worker.step()

    types = [batch.task_type for batch in recorder.batches]
    assert {"LATER", "LAST"} < {*types}
    assert types.count("WORK") == 10


async def test_claims_cost_the_same_however_much_is_waiting(
    database: Database, db: asyncpg.Connection, org: UUID, other: UUID
) -> None:
    """Not the time, but what is read: by the index of open tasks, and of it only what is claimed."""

    async def read(organization_id: UUID) -> int:
        async with database.tenant(organization_id) as conn:
            before = await conn.fetchval(FETCHED)
            await conn.execute(
                "SELECT claim_tasks($1, '{WORK,TOIL,ODD}', '{50,50,50}', '{60,60,60}', 'me', 0, $2)",
                organization_id,
                uuid4(),
            )
            return int(await conn.fetchval(FETCHED) - before)

    await fill(db, other, 300, ("WORK", "TOIL", "ODD"))
    few = await read(other)
    await fill(db, org, 200_000, ("WORK", "TOIL", "ODD"))
    assert 50 <= await read(org) <= few * 1.1
    plan = json.loads(
        await db.fetchval(
            """EXPLAIN (FORMAT json) SELECT t.id FROM async_task t
            WHERE t.organization_id = (SELECT id FROM organizations LIMIT 1) AND t.status IN ('PENDING', 'FAILED')
              AND (t.task_type, t.priority, t.model_fingerprint, t.is_alone) > ('WORK', 1, '', false)
            ORDER BY t.task_type, t.priority, t.model_fingerprint, t.is_alone LIMIT 1"""
        )
    )
    assert "async_task_open" in json.dumps(plan)
    assert "Sort" not in json.dumps(plan)


async def test_a_tenant_over_its_rate_is_passed_over(
    database: Database, db: asyncpg.Connection, org: UUID, other: UUID
) -> None:
    recorder, registry = Recorder(), CollectorRegistry()
    await fill(db, org, 60)
    await fill(db, other, 5)
    counters, rate = TaskCounters(registry), Rate(per_second=20, burst=10)
    began = time.monotonic()
    async with running(Worker(database, [recorder.kind(batch_size=10)], rate=rate, counters=counters)):
        await until(lambda: recorder.organizations.count(org) >= 4)
    # The burst at once, and then a batch of ten whenever the one before has been paid for.
    assert time.monotonic() - began >= 1.0
    assert recorder.organizations[:2].count(other) == 1
    code = await db.fetchval("SELECT tenant_code FROM organizations WHERE id = $1", org)
    assert (registry.get_sample_value("headgate_tasks_held_back_total", {"tenant": code}) or 0) >= 3


async def test_work_holds_back_while_ingest_is_pressed_but_not_for_ever(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    recorder, bell = Recorder(), Bell(database)
    is_pressed = True
    bell.is_pressed = lambda: is_pressed
    await fill(db, org, 30)
    async with running(Worker(database, [recorder.kind(batch_size=10)], bell=bell, lanes=1)):
        await asyncio.sleep(0.5)
        assert recorder.batches == []
        await until(lambda: len(recorder.batches) == 1)
        is_pressed = False
        await until(lambda: len(recorder.batches) == 3)


@asynccontextmanager
async def pressed(server: Server, db: asyncpg.Connection) -> AsyncIterator[None]:
    """Meanwhile events come, and none can be written."""
    sends: list[asyncio.Task[Any]] = []

    async def keep_sending() -> None:
        while True:
            sends.append(asyncio.create_task(server.tenant.send(an_event())))
            await asyncio.sleep(0.05)

    held = db.transaction()
    await held.start()
    await db.execute("LOCK TABLE lineage_events IN EXCLUSIVE MODE")
    sending = asyncio.create_task(keep_sending())
    try:
        yield
    finally:
        sending.cancel()
        await held.rollback()
        assert {response.status_code for response in await asyncio.gather(*sends)} == {201}


async def test_workers_of_other_processes_hold_back_while_events_wait(
    cluster: Cluster, database_name: str, database: Database, db: asyncpg.Connection
) -> None:
    times: list[float] = []

    async def note(_: Batch) -> None:
        times.append(time.monotonic())

    await db.execute(EFFECTS)
    elsewhere, registry, recorder = (
        Database(cluster.app_dsn(database_name), max_size=4),
        CollectorRegistry(),
        Recorder(note),
    )
    worker = Worker(elsewhere, [recorder.kind(batch_size=10)], lanes=1, counters=TaskCounters(registry))
    notices = Notices(elsewhere)
    notices.subscribe(CHANNEL, worker.hear)
    await notices.start()
    try:
        async with running_server(unlimited(tasks_yield_events=3), database) as server, running(worker):
            async with pressed(server, db):
                await until(worker._pressure.is_on)
                await make(database, server.tenant.organization_id, *(a_task(number) for number in range(60)))
                # It is held back, and goes on all the same.
                await until(lambda: len(times) == 3)
            await until(lambda: len(times) == 6)
    finally:
        await notices.stop()
        await elsewhere.close()
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps[:2]) >= MAX_YIELD_S * 0.9
    assert min(gaps[2:]) < MAX_YIELD_S * 0.9
    assert (registry.get_sample_value("headgate_tasks_yielded_seconds_total") or 0) >= 2 * MAX_YIELD_S


async def test_recurring_work_is_put_off_first(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    chores, recorder, bell = Recorder(), Recorder(), Bell(database)
    worker = Worker(database, [chores.kind("CHORE", every_s=600), recorder.kind(batch_size=10)], bell=bell)
    bell.is_pressed = lambda: True
    await worker.schedule()
    await fill(db, org, 80)
    for _ in range(8):
        assert await worker.step() == 10
    assert await worker.step() == 0
    bell.is_pressed = lambda: False
    await worker.drain()
    assert (len(recorder.batches), len(chores.batches)) == (8, 1)


async def test_recurring_work_leaves_a_lane_to_what_somebody_waits_for(
    database: Database, db: asyncpg.Connection, org: UUID, other: UUID
) -> None:
    go_on = asyncio.Event()

    async def hang(_: Batch) -> None:
        await go_on.wait()

    chores, recorder, bell = Recorder(hang), Recorder(), Bell(database)
    kinds = [chores.kind("CHORE", every_s=600), recorder.kind()]
    async with running(Worker(database, kinds, bell=bell, lanes=2, look_s=0.05)):
        await until(lambda: len(chores.batches) == 1)
        await asyncio.sleep(0.2)
        await make(database, other, a_task())
        bell.ring(other)
        await until(lambda: len(recorder.batches) == 1)
        assert len(chores.batches) == 1
        go_on.set()
        await until(lambda: len(chores.batches) == 2)
