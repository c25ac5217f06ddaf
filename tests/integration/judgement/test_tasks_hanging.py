"""Nothing waits for ever: not for work that hangs, and not for a cancellation that a broken connection swallows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from headgate.cli import launch
from headgate.errors import Unavailable
from headgate.server import execution
from headgate.server.app import create_app
from headgate.server.db.pool import Connection, Database
from headgate.server.queue import CHANNEL, Batch, Bell, Kind
from headgate.server.tasks.counters import TaskCounters
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.tasks import Recorder, a_task, make, tasks_of


class Stubborn(Database):
    """Connections that hang, if told to, and that say they broke when they are canceled."""

    hangs = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self.hangs:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise Unavailable("the connection broke") from None
        async with super().connection() as conn:
            yield conn


@pytest.fixture
async def stubborn(cluster: Cluster, database_name: str) -> AsyncIterator[Stubborn]:
    found = Stubborn(cluster.app_dsn(database_name), max_size=4)
    yield found
    await found.close()


async def test_a_batch_ends_though_its_claim_cannot_be_renewed(
    stubborn: Stubborn, db: asyncpg.Connection, org: UUID
) -> None:
    async def linger(_: Batch) -> None:
        stubborn.hangs = True
        await asyncio.sleep(0.6)
        stubborn.hangs = False

    await make(stubborn, org, a_task())
    async with asyncio.timeout(5):
        assert await Worker(stubborn, [Recorder(linger).kind(claim_s=1)]).step() == 1
    assert await tasks_of(db, "status") == [("SUCCEEDED",)]


async def test_a_stop_is_heard_though_the_connection_breaks_of_it(
    database: Database, db: asyncpg.Connection, org: UUID
) -> None:
    began = asyncio.Event()

    async def hang(_: Batch) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise OSError("reset by peer") from None

    await make(database, org, a_task("1"), a_task("2"))
    working = asyncio.create_task(Worker(database, [Recorder(hang).kind()]).step())
    await began.wait()
    working.cancel()
    await asyncio.wait([working], timeout=5)
    assert working.cancelled()
    assert await tasks_of(db, "status") == [("PENDING",)] * 2


@pytest.mark.parametrize("is_send", [False, True], ids=["handled", "sent"])
async def test_work_that_hangs_is_given_up_and_tried_again(
    database: Database, db: asyncpg.Connection, org: UUID, monkeypatch: pytest.MonkeyPatch, is_send: bool
) -> None:
    async def hang(_: Connection, __: Batch) -> None:
        await asyncio.sleep(60)

    async def send(_: Database, __: Batch) -> dict[int, BaseException]:
        await asyncio.sleep(60)
        return {}

    monkeypatch.setattr(execution, "MAX_WORK_S", 0.3)
    await make(database, org, a_task("1"), a_task("2"))
    kind = Kind("WORK", send=send) if is_send else Kind("WORK", handle=hang)
    async with asyncio.timeout(5):
        assert await Worker(database, [kind]).step() == 2
    said = "it did not end within 0.3 s"
    assert await tasks_of(db, "status", "last_error") == [("FAILED", said)] * 2


async def test_the_worker_of_up_hears_other_processes(
    database: Database, db: asyncpg.Connection, settings: Settings, org: UUID
) -> None:
    bell = Bell(database)
    app = create_app(settings, database, bell=bell)
    worker = launch.worker_inside(app, settings, database, bell, TaskCounters())
    api: Any = app.api
    async with api.router.lifespan_context(api):

        async def told() -> bool:
            await db.execute("SELECT pg_notify($1, $2)", CHANNEL, str(org))
            await asyncio.sleep(0.05)
            return not worker._rotation.is_empty

        async with asyncio.timeout(5):
            while not await told():
                pass
    assert worker._rotation.next() == org
