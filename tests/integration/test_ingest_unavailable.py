"""When the database is away or slow: 503 that says so, and service that returns by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from headgate.errors import Unavailable
from headgate.server.db.pool import Connection, Database
from tests.conftest import Cluster
from tests.support.events import an_event
from tests.support.ingest import (
    BATCH,
    EVENTS,
    METADATA,
    SCHEMA,
    SINGLE,
    SINK,
    assert_problem,
    body_for,
    post,
    unlimited,
)
from tests.support.server import Tenant, running_server
from tests.support.stored import eventually


class Unpluggable(Database):
    """A database that a test can take away."""

    is_gone = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self.is_gone:
            raise Unavailable("the database does not answer: ConnectionRefusedError", hint="retry after a moment")
        async with super().connection() as conn:
            yield conn


@pytest.fixture
async def database(cluster: Cluster, database_name: str) -> AsyncIterator[Unpluggable]:
    database = Unpluggable(cluster.app_dsn(database_name), max_size=8)
    yield database
    await database.close()


@pytest.fixture
async def tenant(database: Unpluggable, db: asyncpg.Connection) -> AsyncIterator[Tenant]:
    """Somebody whom the server knows, so that the database is only missed where events are written."""
    settings = unlimited(max_queue_events=3, group_size=1, group_writers=1)
    async with running_server(settings, database) as server:
        # What a server knows it forgets once it begins to listen.
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%organization%'"
        await eventually(lambda: db.fetchval(listening), bool)
        await asyncio.sleep(0.05)
        await server.tenant.send_ok(an_event())
        yield server.tenant
        database.is_gone = False


async def test_without_a_database_every_route_is_503_and_retriable(tenant: Tenant, database: Unpluggable) -> None:
    database.is_gone = True
    for route in (SINGLE, SINK, METADATA, SCHEMA):
        response = await post(tenant, route, body_for(route))
        assert_problem(response, 503, "unavailable", route)
        assert int(response.headers["retry-after"]) >= 1
    batch = await post(tenant, BATCH, [an_event(), {}, an_event()])
    events = await post(tenant, EVENTS, [an_event()])

    assert (batch.status_code, events.status_code) == (422, 503)
    assert [(f["index"], f["retriable"]) for f in batch.json()["failed_events"]] == [(0, True), (1, False), (2, True)]
    assert (batch.json()["summary"]["retriable"], batch.json()["summary"]["non_retriable"]) == (2, 1)
    assert events.headers["retry-after"] == "1"
    assert events.json()["results"][0]["status"] == 503


async def test_service_returns_with_the_database(tenant: Tenant, database: Unpluggable, db: asyncpg.Connection) -> None:
    event = an_event()
    database.is_gone = True
    assert (await tenant.send(event)).status_code == 503
    database.is_gone = False
    assert (await tenant.send(event)).status_code == 201
    assert await db.fetchval("SELECT count(*) FROM refused_events") == 0


async def test_too_many_waiting_events_are_pushed_back(tenant: Tenant, db: asyncpg.Connection) -> None:
    async with db.transaction():
        await db.execute("LOCK TABLE idempotency_keys")
        sent = [asyncio.create_task(tenant.send(an_event()))]
        await asyncio.sleep(0.05)
        # The writer has taken that one; three more may wait.
        sent += [asyncio.create_task(tenant.send(an_event())) for _ in range(3)]
        await asyncio.sleep(0.05)
        refused = await asyncio.wait_for(tenant.send(an_event()), timeout=5)

    assert_problem(refused, 503, "unavailable", SINGLE)
    assert "waiting" in refused.json()["detail"]
    assert [response.status_code for response in await asyncio.gather(*sent)] == [201] * 4


async def test_an_event_is_acknowledged_only_after_its_commit(tenant: Tenant, db: asyncpg.Connection) -> None:
    async with db.transaction():
        await db.execute("LOCK TABLE async_task")
        sent = asyncio.create_task(tenant.send(an_event()))
        await asyncio.sleep(0.1)
        assert not sent.done()
    assert (await sent).status_code == 201
