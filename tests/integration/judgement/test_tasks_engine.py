"""The engine: claiming, doing, ending; what is urgent, what is due, what may share a batch."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from headgate.server.db.pool import Connection, Database, set_organization
from headgate.server.kinds import kinds_of
from headgate.server.queue import Batch, Kind, NewTask, content_hash, enqueue
from headgate.server.tasks.jobs import KINDS
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.support.server import Server
from tests.support.tasks import (
    Recorder,
    a_task,
    attempts_of,
    effects_of,
    expire_claims,
    ids,
    make,
    make_due,
    tasks_of,
)


async def test_a_task_is_done_once_with_its_attempt_and_its_batch(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    recorder = Recorder()
    await make(database, org, *(a_task(number, payload={"n": number}) for number in range(3)))

    worker = Worker(database, [recorder.kind()])
    assert await worker.drain() == 3
    assert await worker.drain() == 0

    (batch,) = recorder.batches
    assert [(task.resource_id, task.payload, task.attempt) for task in batch.tasks] == [
        ("0", {"n": 0}, 1), ("1", {"n": 1}, 1), ("2", {"n": 2}, 1),
    ]  # fmt: skip
    assert await effects_of(db) == ["0", "1", "2"]
    assert await tasks_of(db, "status", "retry_count", "claim_token") == [("SUCCEEDED", 0, None)] * 3
    attempts = await attempts_of(db, "attempt_no", "status", "worker_id", "input_size", "latency_ms >= 0", "error_type")
    assert attempts == [(1, "SUCCEEDED", worker.id, 3, True, None)] * 3
    row = await db.fetchrow("SELECT * FROM async_batch")
    assert (row["task_type"], row["planned_size"], row["success_count"], row["failed_count"]) == ("WORK", 3, 3, 0)
    assert (row["status"], row["worker_id"], row["finished_at"] >= row["started_at"]) == ("SUCCEEDED", worker.id, True)
    assert await db.fetchval("SELECT count(DISTINCT batch_no) FROM async_task_attempt") == 1


async def test_the_six_parts_of_the_key_make_a_task_what_it_is(database: Database, org: UUID, server: Server) -> None:
    one = a_task("1", model_fingerprint="a:b:1")
    others = [
        one._replace(task_type="OTHER"),
        one._replace(resource_type="OTHER"),
        one._replace(resource_id="2"),
        one._replace(content_hash=content_hash("other")),
        one._replace(model_fingerprint="a:b:2"),
    ]

    assert await make(database, org, one) == 1
    assert await make(database, org, one._replace(payload={"x": 1}, priority=1, delay_s=9), *others, one) == 5
    assert await make(database, (await server.add_tenant("Second")).organization_id, one) == 1


async def test_a_task_that_is_over_is_not_made_again(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    await make(database, org, a_task())
    for status in ("SUCCEEDED", "DEAD", "CANCELED", "RUNNING"):
        await db.execute("UPDATE async_task SET status = $1 WHERE task_type = 'WORK'", status)
        assert await make(database, org, a_task()) == 0


async def test_a_task_exists_if_and_only_if_its_transaction_does(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    async with database.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await set_organization(conn, org)
        assert await enqueue(conn, org, [a_task()]) == 1
        await transaction.rollback()
    assert await tasks_of(db, "id") == []


async def test_the_hash_is_the_same_in_python_and_sql(db: asyncpg.Connection) -> None:
    for parts in (("a",), ("a", "b"), ("ü", ""), ("",)):
        assert await db.fetchval("SELECT content_hash(VARIADIC $1::text[])", list(parts)) == content_hash(*parts)


async def test_what_is_urgent_comes_first_and_then_what_was_due_first(database: Database, org: UUID) -> None:
    recorder = Recorder()
    kinds = [recorder.kind(batch_size=2), recorder.kind("URGENT")]
    await make(database, org, *(a_task(number, delay_s=-10 + number) for number in (3, 1, 2)))
    await make(database, org, a_task("u", "URGENT", priority=10), a_task("sooner", priority=20))

    await Worker(database, kinds).drain()

    assert [sorted(task.resource_id for task in batch.tasks) for batch in recorder.batches] == [
        ["u"], ["sooner"], ["1", "2"], ["3"],
    ]  # fmt: skip


async def test_what_is_not_due_yet_waits(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    recorder = Recorder()
    await make(database, org, a_task(delay_s=3600))
    worker = Worker(database, [recorder.kind()])

    assert await worker.drain() == 0
    await make_due(db)
    assert await worker.drain() == 1


async def test_batches_are_of_one_type_and_one_model(database: Database, org: UUID) -> None:
    recorder = Recorder()
    tasks = [
        a_task(f"{type_}{model}{number}", type_, model_fingerprint=model)
        for number in range(5)
        for model in ("x", "y")
        for type_ in ("WORK", "TOIL")
    ]
    await make(database, org, *tasks)

    await Worker(database, [recorder.kind(batch_size=3), recorder.kind("TOIL", batch_size=10)]).drain()

    by_kind: dict[tuple[str, str], list[int]] = {}
    for batch in recorder.batches:
        by_kind.setdefault((batch.task_type, batch.model_fingerprint), []).append(len(batch.tasks))
        assert {task.resource_id[:5] for task in batch.tasks} == {batch.task_type + batch.model_fingerprint}
    assert by_kind == {("WORK", "x"): [3, 2], ("WORK", "y"): [3, 2], ("TOIL", "x"): [5], ("TOIL", "y"): [5]}


async def test_types_that_a_worker_does_not_know_are_left_to_others(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    await make(database, org, a_task(task_type="NEWER"), a_task())
    assert await Worker(database, [Recorder().kind()]).drain() == 1
    assert await tasks_of(db, "status", type_="NEWER") == [("PENDING",)]


async def test_workers_at_the_same_time_never_share_a_task(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    recorder = Recorder()
    await make(database, org, *(a_task(number) for number in range(200)))

    await asyncio.gather(*(Worker(database, [recorder.kind(batch_size=7)]).drain() for _ in range(4)))

    assert len(ids(recorder.batches)) == 200
    assert await effects_of(db) == sorted(str(number) for number in range(200))
    assert await attempts_of(db, "attempt_no") == [(1,)] * 200


async def test_a_claim_that_ran_out_is_taken_over_and_the_late_worker_has_no_effect(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def hang(_: Batch) -> None:
        begun.set()
        await go_on.wait()

    slow, quick = Recorder(hang), Recorder()
    await make(database, org, a_task("1"), a_task("2"))
    hanging = asyncio.create_task(Worker(database, [slow.kind()]).step())
    await begun.wait()
    await expire_claims(db)

    assert await Worker(database, [quick.kind()]).drain() == 2
    go_on.set()
    await hanging

    assert await effects_of(db) == ["1", "2"]
    assert await tasks_of(db, "status", "retry_count") == [("SUCCEEDED", 1)] * 2
    assert await attempts_of(db, "attempt_no", "status", "error_type") == [
        (1, "FAILED", "ClaimExpired"), (2, "SUCCEEDED", None),
    ] * 2  # fmt: skip
    assert await db.fetchval("SELECT status FROM async_batch ORDER BY id LIMIT 1") == "FAILED"


async def test_a_claim_is_renewed_while_the_work_goes_on(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    async def linger(_: Batch) -> None:
        await asyncio.sleep(2.5)

    await make(database, org, a_task())
    working = asyncio.create_task(Worker(database, [Recorder(linger).kind(claim_s=1)]).step())
    await asyncio.sleep(1.5)
    assert await Worker(database, [Recorder().kind()]).drain() == 0
    await working

    assert await tasks_of(db, "status", "attempts") == [("SUCCEEDED", 1)]


async def test_what_a_task_makes_is_done_too(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    recorder = Recorder()

    async def follow(conn: Connection, batch: Batch) -> None:
        await enqueue(conn, batch.organization_id, [a_task(f"after {task.resource_id}") for task in batch.tasks])

    await make(database, org, a_task("1", "FIRST"), a_task("2", "FIRST"))
    assert await Worker(database, [Kind("FIRST", handle=follow), recorder.kind()]).drain() == 4
    assert await effects_of(db) == ["after 1", "after 2"]


async def test_recurring_work_is_given_to_every_organisation_once_and_comes_again(
    server: Server, database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    second = (await server.add_tenant("Second")).organization_id
    recorder = Recorder()
    worker = Worker(database, [recorder.kind("CHORE", every_s=60)])
    await worker.schedule()
    await worker.schedule()
    assert await worker.drain() == 2
    assert {*recorder.organizations} == {org, second}
    rows = await db.fetch("SELECT status, next_run_at > now() + interval '50 seconds' FROM async_task")
    assert [tuple(row) for row in rows] == [("PENDING", True)] * 2
    # Only what went wrong is worth a row a minute.
    assert (await attempts_of(db, "id"), await db.fetchval("SELECT count(*) FROM async_batch")) == ([], 0)

    await make_due(db)
    assert await worker.drain() == 2
    later = Worker(database, [recorder.kind("CHORE", every_s=30)])
    await later.schedule()
    assert await db.fetchval("SELECT array_agg(repeat_s) FROM async_task") == [30, 30]


async def test_recurring_work_that_fails_is_never_given_up(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    async def fail(_: Batch) -> None:
        raise ValueError("not today")

    worker = Worker(database, [Recorder(fail).kind("CHORE", every_s=3600)])
    await worker.schedule()
    for _ in range(8):
        await make_due(db)
        assert await worker.drain() == 1
    row = await db.fetchrow("SELECT status, next_run_at - now() AS wait, last_error FROM async_task")
    assert (row["status"], row["last_error"], 3500 < row["wait"].total_seconds() <= 3600) == (
        "FAILED",
        "not today",
        True,
    )
    assert len(await attempts_of(db, "id")) == 8


async def test_housekeeping_removes_what_is_over_and_keeps_the_dead(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    recorder = Recorder()
    await make(database, org, *(a_task(number) for number in range(6)))
    await Worker(database, [recorder.kind(batch_size=1)]).drain()
    await db.execute("UPDATE async_task SET status = 'DEAD' WHERE resource_id = '1'")
    await db.execute("UPDATE async_task SET status = 'CANCELED' WHERE resource_id = '2'")
    await db.execute("UPDATE async_task SET updated_at = now() - interval '80 hours' WHERE resource_id < '4'")
    await db.execute("UPDATE async_batch SET started_at = now() - interval '80 hours' WHERE id <= 4")
    await db.execute("UPDATE async_batch SET status = 'RUNNING', started_at = now() - interval '1 hour' WHERE id = 5")

    worker = Worker(database, KINDS)
    await worker.schedule()
    await worker.drain()

    assert await tasks_of(db, "resource_id", "status") == [("1", "DEAD"), ("4", "SUCCEEDED"), ("5", "SUCCEEDED")]
    assert len(await attempts_of(db, "id")) == 3
    rows = await db.fetch("SELECT id, status FROM async_batch ORDER BY id")
    assert [tuple(row) for row in rows] == [(5, "FAILED"), (6, "SUCCEEDED")]


async def test_the_dead_are_removed_when_nobody_took_them_up_for_long(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    assert Settings(_env_file=None).tasks_dead_days == 90
    await make(database, org, *(a_task(number) for number in range(4)))
    await db.execute(
        """UPDATE async_task SET status = CASE WHEN resource_id = '3' THEN 'PENDING' ELSE 'DEAD' END,
               next_run_at = now() + interval '1 day',
               updated_at = now() - (ARRAY[91, 89, 29, 400])[1 + resource_id::integer] * interval '1 day'"""
    )
    left = []
    for kinds in (KINDS, kinds_of(Settings(tasks_dead_days=30, _env_file=None))):
        worker = Worker(database, [kind for kind in kinds if kind.task_type == "CLEAN_TASKS"])
        await worker.schedule()
        await db.execute("UPDATE async_task SET next_run_at = now() WHERE repeat_s IS NOT NULL")
        await worker.drain()
        left.append([row[0] for row in await tasks_of(db, "resource_id")])
    assert left == [["1", "2", "3"], ["2", "3"]]


async def test_partitions_of_the_months_ahead_are_made(database: Database, db: asyncpg.Connection, org: UUID) -> None:
    last = await db.fetchval(
        "SELECT max(relname) FROM pg_class WHERE relname LIKE 'lineage_events_2%' AND relkind = 'r'"
    )
    await db.execute(f"DROP TABLE {last}")
    stop = asyncio.Event()
    running = asyncio.create_task(Worker(database, []).run(stop))
    await asyncio.sleep(0.5)
    stop.set()
    await running
    assert await db.fetchval("SELECT count(*) FROM pg_class WHERE relname = $1", last) == 1


async def test_made_tasks_carry_their_tenant(
    server: Server, database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    before = datetime.now(UTC)
    await make(database, org, NewTask("WORK", "THING", "1", content_hash(1)))
    me = (await server.client.get("/api/v1/organization")).json()
    row = await db.fetchrow("SELECT * FROM async_task WHERE task_type = 'WORK'")
    assert (row["tenant_id"], row["tenant_code"]) == (me["tenant_id"], me["tenant_code"])
    assert (row["status"], row["priority"], row["max_retry"], row["retry_count"]) == ("PENDING", 100, 5, 0)
    assert row["next_run_at"] >= before
