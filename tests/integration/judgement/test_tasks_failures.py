"""Tasks that fail, hang, are canceled or take their worker down, and what becomes of those beside them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from headgate.errors import Unavailable
from headgate.server.db.pool import Connection, Database
from headgate.server.queue import Batch, Kind, RetryLater
from headgate.server.tasks.counters import TaskCounters
from headgate.server.worker import Worker
from tests.conftest import Cluster
from tests.support.server import Server
from tests.support.tasks import (
    Recorder,
    a_task,
    attempts_of,
    effects_of,
    expire_claims,
    make,
    make_due,
    poison,
    running,
    tasks_of,
    until,
)


async def test_a_task_is_tried_again_after_longer_and_longer_and_then_is_dead(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    worker = Worker(database, [Recorder(poison("1")).kind()])
    await make(database, org, a_task())
    waits = []
    for _ in range(6):
        assert await worker.drain() == 1
        row = await db.fetchrow("SELECT status, retry_count, next_run_at - updated_at AS wait FROM async_task")
        waits.append((row["status"], row["retry_count"], round(row["wait"].total_seconds() / 60)))
        await make_due(db)

    assert waits[:5] == [("FAILED", 1, 1), ("FAILED", 2, 5), ("FAILED", 3, 15), ("FAILED", 4, 60), ("FAILED", 5, 360)]
    assert waits[5][:2] == ("DEAD", 5)
    assert await worker.drain() == 0
    assert await attempts_of(db, "attempt_no", "status", "error_type", "error_message") == [
        (number, "FAILED", "ValueError", "bad thing") for number in range(1, 7)
    ]
    assert await effects_of(db) == []
    assert await db.fetchval("SELECT array_agg(DISTINCT status) FROM async_batch") == ["FAILED"]


async def test_a_poisoned_task_fails_alone(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    recorder = Recorder(poison("3"))
    await make(database, org, *(a_task(number) for number in range(10)))

    assert await Worker(database, [recorder.kind()]).drain() == 10

    assert await effects_of(db) == [str(number) for number in range(10) if number != 3]
    states = dict(await tasks_of(db, "resource_id", "status"))
    assert {key for key, state in states.items() if state != "SUCCEEDED"} == {"3"}
    batch = await db.fetchrow("SELECT planned_size, success_count, failed_count, status FROM async_batch")
    assert tuple(batch) == (10, 9, 1, "FAILED")


async def test_a_task_that_takes_its_worker_down_each_time_dies_alone(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    """The others of its first batch are done as soon as they are no longer beside it."""
    await make(database, org, *(a_task(number) for number in range(4)))
    sizes = []
    for _ in range(12):
        claims = Worker(database, [Recorder().kind()])
        await claims._look()
        claim = await claims._claim(org)
        if claim is None:
            break
        sizes.append(len(claim.batch.tasks))
        if any(task.resource_id == "2" for task in claim.batch.tasks):
            await expire_claims(db)  # as if the process had gone with it
        else:
            await claims._do(claim)

    assert sizes == [4, 1, 1, 1, 1, 1, 1, 1, 1]
    assert await tasks_of(db, "resource_id", "status") == [
        ("0", "SUCCEEDED"), ("1", "SUCCEEDED"), ("2", "DEAD"), ("3", "SUCCEEDED"),
    ]  # fmt: skip


async def test_claims_that_run_out_are_counted_and_logged(
    database: Database, db: asyncpg.Connection, org: UUID, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    worker = Worker(database, [Recorder().kind()], counters=TaskCounters(registry))
    await make(database, org, *(a_task(number) for number in range(3)))
    assert await worker._claim(org) is not None
    await db.execute("UPDATE async_task SET retry_count = max_retry WHERE resource_id = '2'")
    await expire_claims(db)
    with caplog.at_level("WARNING", "headgate.worker"):
        await worker._look()

    code = await db.fetchval("SELECT tenant_code FROM organizations WHERE id = $1", org)
    labels = {"type": "WORK", "tenant": code}
    assert registry.get_sample_value("headgate_tasks_retried_total", labels) == 2
    assert registry.get_sample_value("headgate_tasks_dead_total", labels) == 1
    said: list[Any] = [record.__dict__ for record in caplog.records if "claims ran out" in record.message]
    told = sorted((each["tenant"], each["type"], each["now"], each["tasks"]) for each in said)
    assert told == [(code, "WORK", "DEAD", 1), (code, "WORK", "FAILED", 2)]
    await worker.drain()
    assert await tasks_of(db, "status") == [("SUCCEEDED",), ("SUCCEEDED",), ("DEAD",)]
    assert registry.get_sample_value("headgate_tasks_retried_total", labels) == 2


async def test_a_canceled_task_has_no_effect_though_it_was_running(
    server: Server, database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hold(_: Batch) -> None:
        begun.set()
        await go_on.wait()

    recorder = Recorder(hold)
    await make(database, org, *(a_task(number) for number in range(3)))
    working = asyncio.create_task(Worker(database, [recorder.kind()]).step())
    await begun.wait()
    task_id = await db.fetchval("SELECT id FROM async_task WHERE resource_id = '1'")
    assert (await server.client.post(f"/api/v1/tasks/{task_id}/cancel")).status_code == 200
    go_on.set()
    await working

    assert await effects_of(db) == ["0", "2"]
    assert await tasks_of(db, "status") == [("SUCCEEDED",), ("CANCELED",), ("SUCCEEDED",)]
    # Those that are still ours are done together again.
    assert recorder.sizes == [3, 2]
    batch = await db.fetchrow("SELECT success_count, failed_count FROM async_batch")
    assert tuple(batch) == (2, 0)
    assert (await attempts_of(db, "status"))[1] == ("CANCELED",)


def _group() -> BaseException:
    return ExceptionGroup("several", [KeyError("inner"), ValueError("other")])


@pytest.mark.parametrize(
    ("error", "type_", "message"),
    [
        (_group, "KeyError", "'inner'"),
        (lambda: ValueError(), "ValueError", "ValueError"),
        (lambda: ValueError("a\x00b\ud800"), "ValueError", "a\\u0000b\\ud800"),
        (lambda: ValueError("x" * 5000), "ValueError", "x" * 1024),
        (lambda: asyncio.CancelledError("mine"), "CancelledError", "mine"),
        (lambda: TimeoutError("too slow"), "TimeoutError", "too slow"),
        (lambda: OSError("no such host"), "OSError", "no such host"),
        (lambda: Unavailable("elsewhere"), "Unavailable", "elsewhere"),
        (lambda: AssertionError("no"), "AssertionError", "no"),
    ],
    ids=["group", "without words", "unstorable", "long", "canceled", "timeout", "network", "unavailable", "assertion"],
)
@pytest.mark.parametrize("is_send", [False, True], ids=["handle", "send"])
async def test_whatever_a_handler_raises_is_its_own_failure(
    database: Database, db: asyncpg.Connection, org: UUID, error: Any, type_: str, message: str, is_send: bool
) -> None:
    async def send(_: Database, batch: Batch) -> Mapping[int, BaseException]:
        raise error()

    kind = Kind("WORK", send=send) if is_send else Recorder(poison("1", error=error)).kind()
    await make(database, org, a_task("1"))

    assert await Worker(database, [kind]).drain() == 1

    assert await tasks_of(db, "status", "last_error") == [("FAILED", message)]
    assert await attempts_of(db, "status", "error_type", "error_message") == [("FAILED", type_, message)]


async def test_an_error_of_the_database_is_a_failure_of_the_task_that_caused_it(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    async def handle(conn: Connection, batch: Batch) -> None:
        for task in batch.tasks:
            await conn.execute("INSERT INTO effects VALUES ($1, (10 / $2::int)::text)", org, int(task.resource_id))

    await make(database, org, a_task("0"), a_task("5"))
    await Worker(database, [Kind("WORK", handle=handle)]).drain()

    assert await tasks_of(db, "status") == [("FAILED",), ("SUCCEEDED",)]
    assert await attempts_of(db, "error_type") == [("DivisionByZeroError",), (None,)]
    assert await effects_of(db) == ["2"]


async def test_sending_says_which_tasks_failed_and_how_long_to_wait(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    async def send(_: Database, batch: Batch) -> Mapping[int, BaseException]:
        first, second, third = batch.tasks[:3]
        return {
            first.id: RetryLater("busy", 1800),
            second.id: RetryLater("odd", float("inf")),
            third.id: RetryLater("soon", -5),
        }

    await make(database, org, *(a_task(number) for number in range(4)))
    await Worker(database, [Kind("WORK", send=send)]).drain()

    rows = await db.fetch(
        "SELECT status, round(extract(epoch FROM next_run_at - updated_at)) AS s FROM async_task ORDER BY id"
    )
    assert [(row["status"], row["s"]) for row in rows[:3]] == [("FAILED", 1800), ("FAILED", 60), ("FAILED", 60)]
    assert rows[3]["status"] == "SUCCEEDED"
    batch = await db.fetchrow("SELECT success_count, failed_count FROM async_batch")
    assert tuple(batch) == (1, 3)


async def test_the_last_attempt_knows_that_it_is(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    recorder = Recorder(poison("1"))
    await make(database, org, a_task("1"))
    await db.execute("UPDATE async_task SET max_retry = 1 WHERE task_type = 'WORK'")
    worker = Worker(database, [recorder.kind()])
    for _ in range(3):
        await worker.drain()
        await make_due(db)

    assert [(batch.tasks[0].attempt, batch.tasks[0].is_last_attempt) for batch in recorder.batches] == [
        (1, False), (2, True),
    ]  # fmt: skip
    assert await tasks_of(db, "status") == [("DEAD",)]


async def test_a_worker_that_is_told_to_stop_finishes_what_it_has_begun(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    begun = asyncio.Event()

    async def linger(_: Batch) -> None:
        begun.set()
        await asyncio.sleep(0.3)

    stop = asyncio.Event()
    await make(database, org, *(a_task(number) for number in range(4)))
    running = asyncio.create_task(Worker(database, [Recorder(linger).kind(batch_size=1)], lanes=1).run(stop))
    await begun.wait()
    stop.set()
    await running

    assert sorted(await tasks_of(db, "status")) == [("PENDING",)] * 3 + [("SUCCEEDED",)]


async def test_what_cannot_be_finished_in_time_is_given_back(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    begun = asyncio.Event()

    async def hang(_: Batch) -> None:
        begun.set()
        await asyncio.sleep(3600)

    await make(database, org, a_task("1"), a_task("2"))
    running = asyncio.create_task(Worker(database, [Recorder(hang).kind()]).run(asyncio.Event()))
    await begun.wait()
    running.cancel()
    await asyncio.wait([running], timeout=5)
    assert running.cancelled()

    assert await tasks_of(db, "status", "retry_count", "claim_token") == [("PENDING", 0, None)] * 2
    assert await attempts_of(db, "status", "error_type") == [("CANCELED", "GivenBack")] * 2
    recorder = Recorder()
    assert await Worker(database, [recorder.kind()]).drain() == 2
    assert recorder.sizes == [2]
    assert await effects_of(db) == ["1", "2"]


class Flaky(Database):
    """A database that is gone, or loses what it has to say after a transaction, whenever a test says so."""

    is_gone = False
    mute: BaseException | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self.is_gone:
            raise Unavailable("gone")
        async with super().connection() as conn:
            yield conn

    @asynccontextmanager
    async def tenant(self, organization_id: UUID) -> AsyncIterator[Connection]:
        async with super().tenant(organization_id) as conn:
            yield conn
        if self.mute is not None:
            error, self.mute = self.mute, None
            raise error


@pytest.fixture
async def flaky(cluster: Cluster, database_name: str) -> AsyncIterator[Flaky]:
    flaky = Flaky(cluster.app_dsn(database_name), max_size=4)
    yield flaky
    await flaky.close()


@pytest.mark.parametrize("is_send", [False, True], ids=["while it is handled", "after it was sent"])
async def test_what_could_not_be_ended_is_given_back_when_the_database_is_there_again(
    flaky: Flaky, db: asyncpg.Connection, org: UUID, is_send: bool
) -> None:
    calls: list[Batch] = []

    async def send(_: Database, batch: Batch) -> Mapping[int, BaseException]:
        calls.append(batch)
        flaky.is_gone = len(calls) == 1
        return {}

    async def handle(conn: Connection, batch: Batch) -> None:
        await send(flaky, batch)
        if flaky.is_gone:
            raise OSError("reset by peer")

    await make(flaky, org, a_task("1"), a_task("2"))
    worker = Worker(flaky, [Kind("WORK", send=send) if is_send else Kind("WORK", handle=handle)])
    with pytest.raises(Unavailable):
        await worker.drain()
    with pytest.raises(Unavailable):
        await worker.drain()
    assert await tasks_of(db, "status") == [("RUNNING",)] * 2
    flaky.is_gone = False

    assert await worker.drain() == 2

    assert [len(batch.tasks) for batch in calls] == [2, 2]
    assert await tasks_of(db, "status", "retry_count", "attempts") == [("SUCCEEDED", 0, 2)] * 2
    assert await attempts_of(db, "status", "error_type") == [("CANCELED", "GivenBack"), ("SUCCEEDED", None)] * 2
    rows = await db.fetch("SELECT status, success_count, failed_count FROM async_batch ORDER BY id")
    assert [tuple(row) for row in rows] == [("FAILED", 0, 2), ("SUCCEEDED", 2, 0)]


async def test_a_claim_whose_answer_was_lost_is_given_back(flaky: Flaky, db: asyncpg.Connection, org: UUID) -> None:
    """The database has committed it and stops before it says so: nobody knows of these tasks but it."""
    recorder = Recorder()
    await make(flaky, org, a_task("1"), a_task("2"))
    worker = Worker(flaky, [recorder.kind()])
    flaky.mute = Unavailable("gone")
    with pytest.raises(Unavailable):
        await worker.drain()
    assert await tasks_of(db, "status") == [("RUNNING",)] * 2

    assert await worker.drain() == 2

    assert await tasks_of(db, "status", "retry_count", "attempts") == [("SUCCEEDED", 0, 2)] * 2
    assert await attempts_of(db, "status", "error_type") == [("CANCELED", "GivenBack"), ("SUCCEEDED", None)] * 2
    rows = await db.fetch("SELECT status, success_count, failed_count FROM async_batch ORDER BY id")
    assert [tuple(row) for row in rows] == [("FAILED", 0, 2), ("SUCCEEDED", 2, 0)]


async def test_a_worker_that_is_stopped_in_the_middle_of_a_claim_gives_it_back(
    flaky: Flaky, db: asyncpg.Connection, org: UUID
) -> None:
    await make(flaky, org, a_task("1"))
    flaky.mute = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await Worker(flaky, [Recorder().kind()]).drain()
    assert await tasks_of(db, "status", "claim_token") == [("PENDING", None)]


async def test_a_connection_that_was_lost_once_is_no_failure(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    """The server has closed it, and is there: the task is tried once more before it is blamed."""
    recorder = Recorder()
    pids: list[int] = []

    async def handle(conn: Connection, batch: Batch) -> None:
        await recorder(conn, batch)
        if not pids:
            pids.append(await conn.fetchval("SELECT pg_backend_pid()"))
            await db.execute("SELECT pg_terminate_backend($1)", pids[0])
            await asyncio.sleep(0.1)

    await make(database, org, a_task("1"))
    assert await Worker(database, [Kind("WORK", handle=handle)]).drain() == 1

    assert (await tasks_of(db, "status", "attempts"), await effects_of(db)) == ([("SUCCEEDED", 1)], ["1"])
    assert recorder.sizes == [1, 1]


async def test_lanes_share_a_small_pool_without_waiting_for_each_other_for_ever(
    cluster: Cluster, database_name: str, db: asyncpg.Connection, org: UUID
) -> None:
    small = Database(cluster.app_dsn(database_name), max_size=2, timeout_s=5)

    async def linger(_: Batch) -> None:
        await asyncio.sleep(0.02)

    recorder = Recorder(linger)
    await make(small, org, *(a_task(number) for number in range(40)))
    async with running(Worker(small, [recorder.kind(batch_size=2, claim_s=1)], lanes=4)):
        await until(lambda: len(recorder.batches) >= 20)
    await small.close()

    assert await tasks_of(db, "status", "attempts") == [("SUCCEEDED", 1)] * 40
