"""The stream: what happens is told within seconds over a real socket, to those it concerns, until one has enough."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import asyncpg
import httpx
import pytest

from headgate.server.accounts.store import bootstrap
from headgate.server.db.pool import Database
from headgate.server.events.hub import Hub
from tests.conftest import Cluster
from tests.support.asgi import an_exchange
from tests.support.events import a_dataset, a_facet, a_run_id, an_event, at
from tests.support.live import Live, live_server
from tests.support.server import Server, Tenant

STREAM = "/api/v1/stream"
SOON_S = 8.0


class Told(NamedTuple):
    type: str
    id: str
    data: dict[str, Any]


class Stream:
    """What a client hears, as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self.comments: list[str] = []
        self._lines = response.aiter_lines()

    async def next(self, type_: str, within_s: float = SOON_S) -> Told:
        """The next message of a type; others are passed over."""
        async with asyncio.timeout(within_s):
            while True:
                told = await self._message()
                if told.type == type_:
                    return told

    async def settled(self, event_id: int) -> str:
        """The id to resume with, once it covers an event."""
        async with asyncio.timeout(SOON_S):
            while int(self.last_id or 0) < event_id:
                await self._block()
        return self.last_id

    async def silent(self, type_: str, for_s: float) -> bool:
        """Whether nothing of a type comes for a while."""
        try:
            await self.next(type_, for_s)
        except TimeoutError:
            return True
        return False

    async def ended(self) -> None:
        async for _ in self._lines:
            pass

    async def _message(self) -> Told:
        while True:
            block = await self._block()
            if "data" in block:
                return Told(block.get("event", "message"), self.last_id, json.loads(block["data"]))

    async def _block(self) -> dict[str, str]:
        block: dict[str, str] = {}
        async for line in self._lines:
            if not line:
                self.last_id = block.get("id", self.last_id)
                return block
            name, _, value = line.partition(": ")
            if name:
                block[name] = value
            else:
                self.comments.append(value)
        raise AssertionError("the stream has ended")


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@asynccontextmanager
async def listening(live: Live, query: str = "", *, key: str | None = None, **headers: str) -> AsyncIterator[Stream]:
    given = {"authorization": f"Bearer {key or live.api_key}"} | {n.replace("_", "-"): v for n, v in headers.items()}
    async with (
        httpx.AsyncClient(base_url=live.url, headers=given, trust_env=False, timeout=30) as client,
        client.stream("GET", f"{STREAM}{query}") as response,
    ):
        yield Stream(response)


async def send(live: Live, *events: dict[str, Any]) -> None:
    for answer in await live.replay(*(json.dumps(event).encode() for event in events)):
        assert answer.status_code == 201, answer.text


async def newest_id(live: Live) -> int:
    found: int = await live.db.fetchval("SELECT max(id) FROM lineage_events")
    return found


async def test_a_run_is_told_within_seconds(live: Live) -> None:
    run = a_run_id()
    async with listening(live) as stream:
        assert stream.response.status_code == 200
        assert stream.response.headers["content-type"].startswith("text/event-stream")
        assert stream.response.headers["cache-control"] == "no-store"
        await send(live, an_event("START", run=run, job="load", namespace="shop", time=at(1)))
        started = await stream.next("run")
        await send(live, an_event("COMPLETE", run=run, job="load", namespace="shop", time=at(2)))
        ended = await stream.next("run")

    assert set(started.data) == {"run_id", "job", "state", "started_at", "ended_at", "at"}
    assert (started.data["run_id"], started.data["state"], started.data["ended_at"]) == (run, "START", None)
    assert (started.data["job"]["namespace"], started.data["job"]["name"]) == ("shop", "load")
    assert (ended.data["state"], ended.data["ended_at"]) == ("COMPLETE", "2026-03-01T10:00:02Z")


async def test_what_was_there_before_is_not_told(live: Live) -> None:
    await send(live, an_event("START", job="before"))
    async with listening(live, "?types=run") as stream:
        await send(live, an_event("START", job="after"))
        assert (await stream.next("run")).data["job"]["name"] == "after"


async def test_a_failed_test_is_told_as_an_incident(live: Live) -> None:
    run = a_run_id()
    checks = [
        {"assertion": "not_null", "success": False, "column": "id"},
        {"assertion": "unique", "success": True, "column": "id"},
    ]
    tested = a_dataset("public.orders", inputFacets={"dataQualityAssertions": a_facet(assertions=checks)})
    async with listening(live, "?types=incident") as stream:
        await send(live, an_event("START", run=run), an_event("COMPLETE", run=run, time=at(5), inputs=[tested]))
        told = (await stream.next("incident")).data
        assert await stream.silent("incident", 2)

    assert told["dataset"]["urn"] == "postgres://db/public.orders"
    told["dataset"] = told["dataset"]["name"]
    assert told == {
        "kind": "test_failed",
        "dataset": "public.orders",
        "test": "not_null",
        "assertion": "not_null",
        "column": "id",
        "status": "failed",
        "severity": "error",
        "run_id": run,
        "at": "2026-03-01T10:00:05Z",
    }


async def test_a_failed_test_of_a_dataset_alone_is_told(live: Live) -> None:
    check = {"assertion": "row_count", "success": False}
    dataset = a_dataset("alone", facets={"dataQualityAssertions": a_facet(assertions=[check])})
    event = {"eventTime": at(), "producer": "https://e.org/x", "schemaURL": "https://e.org/s", "dataset": dataset}
    async with listening(live, "?types=incident") as stream:
        await send(live, event)
        told = (await stream.next("incident")).data
    assert (told["dataset"]["name"], told["test"], told["run_id"]) == ("alone", "row_count", None)


async def test_whoever_comes_back_hears_what_it_missed(live: Live) -> None:
    async with listening(live, "?types=run") as stream:
        await send(live, an_event("START", job="heard"))
        await stream.next("run")
        last = await stream.settled(await newest_id(live))
    await send(live, an_event("START", job="missed-1"), an_event("START", job="missed-2"))

    async with listening(live, "?types=run", last_event_id=last) as stream:
        await send(live, an_event("START", job="live"))
        names = [(await stream.next("run")).data["job"]["name"] for _ in range(3)]
        assert await stream.silent("run", 2.5)

    assert names == ["missed-1", "missed-2", "live"]


async def test_whoever_comes_back_too_late_is_told_of_the_gap(live: Live) -> None:
    last = str(await newest_id(live))
    await send(live, an_event("START", job="long-ago"), an_event("START", job="lately"))
    await live.db.execute(
        "UPDATE lineage_events SET received_at = received_at - interval '20 minutes' WHERE id = $1", int(last) + 1
    )
    async with listening(live, "?types=run", last_event_id=last) as stream:
        assert (await stream.next("gap")).data == {"missed": None}
        assert (await stream.next("run")).data["job"]["name"] == "lately"


async def test_an_event_that_commits_late_is_not_missed(live: Live, cluster: Cluster) -> None:
    """Its id was drawn before that of an event that is told already."""
    database = await live.db.fetchval("SELECT current_database()")
    slow = await asyncpg.connect(cluster.admin_dsn(database), server_settings={"search_path": "headgate"})
    transaction = slow.transaction()
    await transaction.start()
    organization = await live.db.fetchval("SELECT id FROM organizations ORDER BY created_at LIMIT 1")
    run = await live.db.fetchval("SELECT run_id FROM job_runs WHERE organization_id = $1 LIMIT 1", organization)
    await slow.execute(
        "INSERT INTO lineage_events (organization_id, kind, event_time, run_id, producer, tenant_code, outcome, raw) "
        "VALUES ($1, 'run', now(), $2, 'urn:slow', 't', 'accepted', '')",
        *(organization, run),
    )
    async with listening(live, "?types=run") as stream:
        await send(live, an_event("START", job="quick"))
        assert (await stream.next("run")).data["job"]["name"] == "quick"
        await transaction.commit()
        late = await stream.next("run")
        assert await stream.silent("run", 2.5)
    await slow.close()

    assert late.data["run_id"] == str(run)


async def test_nothing_of_another_organisation_is_told(live: Live, cluster: Cluster) -> None:
    key = f"hg_live_{secrets.token_urlsafe(32)}"
    database = Database(cluster.app_dsn(await live.db.fetchval("SELECT current_database()")), max_size=2)
    await bootstrap(database, organization="Foreign", email="f@x.example", password="correct horse", api_key=key)
    await database.close()
    failing = a_dataset(
        "t", inputFacets={"dataQualityAssertions": a_facet(assertions=[{"assertion": "a", "success": False}])}
    )

    async with listening(live) as ours, listening(live, key=key) as theirs:
        await send(live, an_event("COMPLETE", job="ours", inputs=[failing]))
        assert (await ours.next("run")).data["job"]["name"] == "ours"
        assert (await ours.next("incident")).data["test"] == "a"
        first = await theirs.next("ingest")
        assert first.data["events"] == 0
        assert await theirs.silent("run", 1)
    async with listening(live, "?types=run,incident", key=key, last_event_id="0") as theirs:
        assert await theirs.silent("run", 2)


async def test_a_session_may_listen_as_a_key_may(live: Live) -> None:
    async with httpx.AsyncClient(base_url=live.url, trust_env=False) as client:
        login = await client.post("/api/v1/auth/login", json={"email": live.email, "password": live.password})
        assert login.status_code == 200
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        async with client.stream("GET", STREAM, headers={"cookie": cookie}) as response:
            assert response.status_code == 200
        assert (await httpx.AsyncClient(base_url=live.url, trust_env=False).get(STREAM)).status_code == 401


@pytest.mark.parametrize(
    ("query", "headers", "field"),
    [
        ("?types=everything", {}, "query.types"),
        ("?types=run,,jobs", {}, "query.types"),
        ("?types=", {}, "query.types"),
        ("?types=,", {}, "query.types"),
        ("", {"last_event_id": "x"}, "header.last-event-id"),
        ("", {"last_event_id": "-1"}, "header.last-event-id"),
        ("", {"last_event_id": "9" * 30}, "header.last-event-id"),
    ],
)
async def test_wrong_parameters_are_named(live: Live, query: str, headers: dict[str, str], field: str) -> None:
    async with listening(live, query, **headers) as stream:
        problem = json.loads(await stream.response.aread())
    assert (stream.response.status_code, problem["errors"][0]["path"]) == (422, field)


async def test_a_server_with_listeners_stops_at_once(cluster: Cluster) -> None:
    async with AsyncExitStack() as clients:
        async with live_server(cluster) as stopping:
            streams = [await clients.enter_async_context(listening(stopping)) for _ in range(3)]
            await streams[0].next("ingest")
            began = time.monotonic()
        assert time.monotonic() - began < 3
        for stream in streams:
            await asyncio.wait_for(stream.ended(), 1)


async def test_listeners_that_leave_leave_nothing_behind(live: Live) -> None:
    for _ in range(3):
        async with listening(live, "?types=run") as stream:
            await send(live, an_event("START"))
            await stream.next("run")
    async with asyncio.timeout(SOON_S):
        while await live.db.fetchval(LOOKS):  # noqa: ASYNC110 - the database tells nobody that it is left alone
            await asyncio.sleep(0.2)


LOOKS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
    "AND query LIKE '%pg_current_snapshot%' AND query_start > now() - interval '2 seconds'"
)


@pytest.fixture
async def hurried(server: Server) -> AsyncIterator[Server]:
    """A server in this process that looks and beats often, with room for two listeners and for three messages each."""
    hub = Hub(server.database, poll_s=0.05, health_s=0.4, heartbeat_s=0.2, max_listeners=2, max_waiting=3)
    server.app.api.state.hub = hub
    yield server
    await hub.stop()


def hears(server: Server, tenant: Tenant, **options: Any) -> Any:
    return an_exchange(server.app, STREAM, tenant.api_key, **options)


async def test_a_heartbeat_keeps_a_quiet_stream_alive(hurried: Server) -> None:
    async with hears(hurried, hurried.tenant, query="types=run") as exchange:
        body = await exchange.until(b": heartbeat\n\n: heartbeat\n\n")
    assert body.startswith(b"retry: 2000\nid: 0\n\n")


async def test_the_state_of_ingest_is_told_every_so_often(hurried: Server) -> None:
    async with hears(hurried, hurried.tenant, query="types=ingest") as exchange:
        await exchange.until(b"event: ingest")
        late = datetime.now(UTC) - timedelta(hours=2)
        await hurried.tenant.send_ok(an_event("START", time=late.isoformat()), an_event("START", time=late.isoformat()))
        await hurried.tenant.send({})
        await exchange.until(b'"refused":1')
        body = await exchange.until(b'"lag_s":7')

    told = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    assert set(told[0]) == {"at", "interval_s", "events", "accepted", "refused", "lag_s"}
    assert [sum(health[count] for health in told) for count in ("events", "accepted", "refused")] == [3, 2, 1]
    assert (told[0]["events"], told[0]["lag_s"]) == (0, None)
    assert {health["lag_s"] // 100 for health in told if health["lag_s"]} == {72}


async def test_a_slow_client_is_told_what_it_missed_and_goes_on(hurried: Server) -> None:
    async with hears(hurried, hurried.tenant, query="types=run") as exchange:
        await exchange.until(b"retry: 2000")
        exchange.taking.clear()
        for number in range(8):
            await hurried.tenant.send_ok(an_event("START", job=f"job-{number}"))
            await asyncio.sleep(0.15)
        exchange.taking.set()
        await exchange.until(b"event: gap")
        await hurried.tenant.send_ok(an_event("START", job="afterwards"))
        body = await exchange.until(b"afterwards")

    told = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    names = [message["job"]["name"] if "job" in message else message["missed"] for message in told]
    missed = next(name for name in names if isinstance(name, int))
    heard = names.index(missed)
    assert names == [*(f"job-{number}" for number in range(heard)), missed, "afterwards"]
    assert heard + missed == 8
    assert missed > 0


async def test_a_slow_client_does_not_keep_others_waiting(hurried: Server) -> None:
    async with hears(hurried, hurried.tenant, taking=False), hears(hurried, hurried.tenant) as quick:
        await quick.until(b"retry")
        await hurried.tenant.send_ok(an_event("START", job="seen"))
        await quick.until(b"seen", 3)


async def test_an_organisation_has_only_so_many_streams(hurried: Server) -> None:
    other = await hurried.add_tenant("Other")
    async with hears(hurried, hurried.tenant) as first, hears(hurried, hurried.tenant) as second:
        await first.until(b"retry")
        await second.until(b"retry")
        refused = await hurried.client.get(STREAM)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate.limited")
        assert int(refused.headers["retry-after"]) > 0
        async with hears(hurried, other) as elsewhere:
            await elsewhere.until(b"retry")
        first.hang_up()
        await asyncio.wait_for(first.task, 5)
        async with hears(hurried, hurried.tenant) as third:
            await third.until(b"retry")


async def test_a_revoked_key_loses_its_stream(hurried: Server) -> None:
    async with hurried.anonymous() as client:
        tenant = hurried.tenant
        await client.post("/api/v1/auth/login", json={"email": tenant.email, "password": tenant.password})
        key = (await client.post("/api/v1/auth/api-keys", json={"name": "reads", "scopes": ["read"]})).json()
        async with an_exchange(hurried.app, STREAM, key["key"]) as exchange:
            await exchange.until(b": heartbeat")
            assert (await client.delete(f"/api/v1/auth/api-keys/{key['id']}")).status_code == 204
            await asyncio.wait_for(exchange.task, 5)
            assert exchange.ended


async def test_a_stream_needs_the_scope_read(hurried: Server) -> None:
    async with hurried.anonymous() as client:
        tenant = hurried.tenant
        await client.post("/api/v1/auth/login", json={"email": tenant.email, "password": tenant.password})
        key = (await client.post("/api/v1/auth/api-keys", json={"name": "sends", "scopes": ["ingest"]})).json()["key"]
        client.cookies.clear()
        assert (await client.get(STREAM, headers={"authorization": f"Bearer {key}"})).status_code == 403


async def test_a_stream_outlives_a_database_that_goes_away(hurried: Server) -> None:
    async with hears(hurried, hurried.tenant) as exchange:
        await exchange.until(b"retry")
        await hurried.database.close()
        await exchange.until(b": heartbeat")
        await hurried.tenant.send_ok(an_event("START", job="afterwards"))
        await exchange.until(b"afterwards")


async def test_a_stream_is_one_request_in_the_metrics(hurried: Server) -> None:
    async with hears(hurried, hurried.tenant) as exchange:
        await exchange.until(b"retry")
        exchange.hang_up()
        await asyncio.wait_for(exchange.task, 5)
    metrics = (await hurried.client.get("/metrics")).text
    assert 'headgate_http_requests_total{method="GET",route="/api/v1/stream",status="200"} 1.0' in metrics


async def test_a_flood_is_told_of_in_part(hurried: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.events.feed.MAX_RUNS", 2)
    async with hears(hurried, hurried.tenant, query="types=run") as exchange:
        await exchange.until(b"retry")
        batch = [an_event("START", job=f"job-{number}") for number in range(10)]
        assert (await hurried.client.post("/api/v1/lineage/batch", json=batch)).status_code == 200
        body = await exchange.until(b"job-9")
    assert b'event: gap\nid: 0\ndata: {"missed":8}' in body
    assert _names(body) == ["job-8", "job-9"]


async def test_more_than_one_look_takes_is_told_all_the_same(hurried: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.server.events.feed.MAX_ARRIVALS", 3)
    async with hears(hurried, hurried.tenant, query="types=run") as exchange:
        await exchange.until(b"retry")
        batch = [an_event("START", job=f"job-{number}") for number in range(10)]
        assert (await hurried.client.post("/api/v1/lineage/batch", json=batch)).status_code == 200
        body = await exchange.until(b"job-9")
    assert _names(body) == [f"job-{number}" for number in range(10)]


def _names(body: bytes) -> list[str]:
    told = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    return [message["job"]["name"] for message in told if "job" in message]
