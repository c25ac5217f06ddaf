"""Two servers on one database: what one of them remembers is never wrong because of what the other has stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import httpx
import pytest

from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, an_event, at, with_schema
from tests.support.ingest import unlimited
from tests.support.server import Server, Tenant
from tests.support.stored import Stored, eventually, moment

NS = "postgres://db:5432"


@asynccontextmanager
async def another_server(cluster: Cluster, database_name: str, tenant: Tenant) -> AsyncIterator[Tenant]:
    """The same organisation, through a server of its own."""
    database = Database(cluster.app_dsn(database_name), max_size=4)
    settings: Settings = unlimited()
    app = create_app(settings, database)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    headers = {"authorization": f"Bearer {tenant.api_key}"}
    async with (
        app.api.router.lifespan_context(app.api),  # type: ignore[attr-defined]  # FastAPI's own
        httpx.AsyncClient(transport=transport, base_url="http://other.test", headers=headers, timeout=60) as client,
    ):
        yield replace(tenant, client=client)
    await database.close()


@pytest.fixture
async def one(server: Server) -> Tenant:
    return server.tenant


@pytest.fixture
async def other(cluster: Cluster, database_name: str, one: Tenant) -> AsyncIterator[Tenant]:
    async with another_server(cluster, database_name, one) as tenant:
        yield tenant


@pytest.fixture
async def stored(one: Tenant, db: asyncpg.Connection) -> Stored:
    return Stored(db, one.organization_id)


def shown(second: float, *columns: str, job: str = "writer") -> Json:
    return an_event(job=job, time=at(second), outputs=[a_dataset("t", facets=with_schema(*columns))])


def traced(second: float, source: str) -> Json:
    field = {"inputFields": [{"namespace": NS, "name": "src", "field": source}]}
    facet = {"columnLineage": a_facet(fields={"a": field})}
    return an_event(time=at(second), inputs=[a_dataset("src")], outputs=[a_dataset("out", facets=facet)])


async def columns_of(stored: Stored) -> list[str]:
    return ["".join(version["columns"]) for version in await stored.versions("t")]


async def epoch(stored: Stored) -> int:
    rows = await stored.rows("SELECT epoch FROM content_epochs WHERE organization_id = $1")
    return rows[0]["epoch"] if rows else 0


async def test_a_return_to_the_old_schema_is_seen_after_another_server_changed_it(
    one: Tenant, other: Tenant, stored: Stored
) -> None:
    await one.send_ok(shown(1, "a"), shown(2, "a"), shown(3, "a"))
    await other.send_ok(shown(4, "b"))
    await one.send_ok(shown(5, "a"))
    assert await columns_of(stored) == ["a", "b", "a"]


async def test_two_servers_that_disagree_make_a_version_each_time(one: Tenant, other: Tenant, stored: Stored) -> None:
    for second in range(0, 12, 2):
        await one.send_ok(shown(second, "a"))
        await other.send_ok(shown(second + 1, "b"))
    assert await columns_of(stored) == ["a", "b"] * 6


async def test_a_return_to_old_column_lineage_is_seen_after_another_server_changed_it(
    one: Tenant, other: Tenant, stored: Stored
) -> None:
    await one.send_ok(traced(1, "x"), traced(2, "x"), traced(3, "x"))
    await other.send_ok(traced(4, "y"))
    await one.send_ok(traced(5, "x"))
    assert [row["source_column"] for row in await stored.columns() if row["is_current"]] == ["x"]


async def test_a_job_that_changes_what_it_says_through_both_servers_is_heard(
    one: Tenant, other: Tenant, stored: Stored
) -> None:
    def said(second: float, text: str) -> Json:
        return an_event(time=at(second), outputs=[a_dataset("t", facets={"documentation": a_facet(description=text)})])

    await one.send_ok(said(1, "old"), said(2, "old"))
    await other.send_ok(said(3, "new"), said(4, "new"))
    assert (await stored.facet("t", "documentation") or {})["description"] == "new"


async def test_only_what_misleads_others_moves_the_epoch(one: Tenant, stored: Stored) -> None:
    await one.send_ok(shown(1, "a"), traced(1, "x"))
    first = await epoch(stored)
    await one.send_ok(*(shown(second, "a") for second in (2, 3, 4)), *(traced(second, "x") for second in (2, 3, 4)))
    await one.send_ok(an_event(inputs=[a_dataset("new")], outputs=[a_dataset("newer")]))
    assert await epoch(stored) == first

    await one.send_ok(shown(5, "b"))
    assert await epoch(stored) == first + 1
    await one.send_ok(traced(5, "y"))
    assert await epoch(stored) == first + 2


async def test_a_servers_own_change_does_not_make_it_forget_names(one: Tenant, stored: Stored) -> None:
    await one.send_ok(shown(1, "a"), shown(2, "b"), shown(3, "c"), shown(4, "a"))
    assert await columns_of(stored) == ["a", "b", "c", "a"]
    assert len(await stored.dataset_names()) == 1


async def test_datasets_merged_through_one_server_are_one_for_the_other(
    one: Tenant, other: Tenant, stored: Stored
) -> None:
    path, table = a_dataset("gold/orders", "s3://lake"), a_dataset("shop.orders", "hive://meta")
    await one.send_ok(an_event(inputs=[path], outputs=[a_dataset("x")]))
    for second in range(3):
        await other.send_ok(an_event(job="reader", time=at(second), inputs=[table], outputs=[a_dataset("y")]))
    links = {"symlinks": a_facet(identifiers=[{"namespace": "hive://meta", "name": "shop.orders", "type": "TABLE"}])}
    await one.send_ok(an_event(job="writer", outputs=[path | {"facets": links}]))

    # The other server still has the id that is gone.
    await other.send_ok(an_event(job="reader", time=at(9), inputs=[table], outputs=[a_dataset("y")]))
    await other.send_ok(an_event(job="new reader", time=at(9), inputs=[table], outputs=[a_dataset("z")]))

    survivor = (await stored.dataset("gold/orders"))["id"]
    assert (await stored.dataset("shop.orders"))["id"] == survivor
    assert await stored.edge_pairs() == {("gold/orders", "x"), ("gold/orders", "y"), ("gold/orders", "z")}
    reads = await stored.rows(
        "SELECT DISTINCT input_ids[1] AS id FROM job_runs WHERE organization_id = $1 AND input_ids <> '{}'"
    )
    assert [row["id"] for row in reads] == [survivor]


async def test_what_one_server_still_has_to_touch_survives_a_merge_by_the_other(
    one: Tenant, other: Tenant, stored: Stored
) -> None:
    path, table = a_dataset("gold/orders", "s3://lake"), a_dataset("shop.orders", "hive://meta")
    await one.send_ok(an_event(time=at(0), inputs=[path], outputs=[a_dataset("x")]))
    for second in range(4):
        await other.send_ok(an_event(job="reader", time=at(second), inputs=[table], outputs=[a_dataset("y")]))
    links = {"symlinks": a_facet(identifiers=[{"namespace": "hive://meta", "name": "shop.orders", "type": "TABLE"}])}
    await one.send_ok(an_event(job="writer", outputs=[path | {"facets": links}]))
    await asyncio.sleep(0.3)
    assert await stored.edge_pairs("reader") == {("gold/orders", "y")}


async def test_jobs_and_datasets_made_by_both_at_once_are_made_once(one: Tenant, other: Tenant, stored: Stored) -> None:
    async def sent(tenant: Tenant) -> list[int]:
        events = [
            an_event(job=f"job {n}", inputs=[a_dataset(f"in {n}")], outputs=[a_dataset(f"out {n}")]) for n in range(20)
        ]
        return [response.status_code for response in await asyncio.gather(*(tenant.send(event) for event in events))]

    codes = await asyncio.gather(sent(one), sent(other))
    assert {code for found in codes for code in found} == {201}
    assert (await stored.count("jobs"), len(await stored.dataset_names())) == (20, 40)
    assert len(await stored.edge_pairs()) == 20


async def test_one_run_through_two_servers_is_one_run(one: Tenant, other: Tenant, stored: Stored) -> None:
    run = "0195a3f0-0000-7000-8000-000000000001"
    starts = [an_event("RUNNING", run=run, time=at(n), inputs=[a_dataset(f"in {n}")]) for n in range(10)]
    responses = await asyncio.gather(*((one if n % 2 else other).send(event) for n, event in enumerate(starts)))
    await other.send_ok(an_event("COMPLETE", run=run, time=at(20), outputs=[a_dataset("out")]))

    assert {response.status_code for response in responses} == {201}
    found = await one.run(run)
    assert (found["state"], found["event_count"], len(found["inputs"])) == ("COMPLETE", 11, 10)
    assert len(await stored.edge_pairs()) == 10


async def test_an_edge_known_to_both_is_touched_by_both(one: Tenant, other: Tenant, stored: Stored) -> None:
    def io(second: float) -> Json:
        return an_event(time=at(second), inputs=[a_dataset("a")], outputs=[a_dataset("x")])

    await one.send_ok(io(10), io(11), io(12))
    await other.send_ok(io(20), io(21), io(5))
    (edge,) = await eventually(stored.edges, lambda edges: edges[0]["first_seen_at"] == moment(5))
    assert (edge["first_seen_at"], edge["last_seen_at"]) == (moment(5), moment(21))
