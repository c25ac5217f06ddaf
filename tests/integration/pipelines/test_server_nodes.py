"""What the next run of a node asks the server: what was published last, and how far it has read."""

from __future__ import annotations

import asyncio
import json
from itertools import permutations

import asyncpg
import pytest

from headgate.cli.main import run as run_command
from headgate.client import AsyncHeadgateClient
from headgate.errors import NotFound
from headgate.pipelines.record import Status
from tests.conftest import Cluster
from tests.integration.pipelines.test_server_runs import ask, get, walked
from tests.support.events import a_run_id, at
from tests.support.live import live_server
from tests.support.pipeline_events import (
    TARGET,
    a_batch,
    a_full_record,
    a_labelled,
    a_node_end,
    a_node_start,
    a_run,
    moment,
)
from tests.support.server import Server, Tenant

NODE = "pipelines/shop/sales/nodes/orders"


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def watermark(tenant: Tenant) -> tuple[str, str] | None:
    mark = (await get(tenant, f"{NODE}/last"))["watermark"]
    return None if mark is None else (mark["column"], mark["value"])


async def test_the_last_published_run_is_told_with_its_columns_and_watermark(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(a_node_end(run, seconds=60, **a_full_record()))

    assert await get(tenant, f"{NODE}/last") == {
        "run_id": run,
        "ended_at": at(60),
        "rows_in": 100,
        "rows_published": 97,
        "fields": [
            {"name": "id", "type": "bigint", "nullable": False},
            {"name": "total", "type": "decimal(10,2)", "nullable": True},
        ],
        "watermark": {"column": "updated_at", "value": "2026-03-01", "run_id": run, "updated_at": at(60)},
    }


async def test_only_published_runs_are_history(tenant: Tenant) -> None:
    for place, status in enumerate(("published", "stopped", "failed", "published", "skipped")):
        await tenant.send_ok(a_node_end(a_run_id(), seconds=60 + place, status=Status(status), rows_in=place))
    await tenant.send_ok(a_node_start(a_run_id(), seconds=100))

    items = (await get(tenant, f"{NODE}/history"))["items"]

    assert [(item["ended_at"], item["rows_in"]) for item in items] == [(at(63), 3), (at(60), 0)]
    assert (await get(tenant, f"{NODE}/last"))["rows_in"] == 3


async def test_history_is_by_when_runs_ended_and_in_pages(tenant: Tenant) -> None:
    for seconds in (80, 60, 70, 90, 65):
        await tenant.send_ok(a_node_end(a_run_id(), seconds=seconds))

    assert await walked(tenant, f"{NODE}/history", "ended_at") == [at(s) for s in (90, 80, 70, 65, 60)]
    assert len((await get(tenant, f"{NODE}/history", limit=1))["items"]) == 1


async def test_a_node_that_was_never_published_has_no_last_run(tenant: Tenant) -> None:
    await tenant.send_ok(a_node_end(a_run_id(), a_run_id(), status=Status.stopped))

    response = await ask(tenant, f"{NODE}/last")

    assert response.status_code == 404
    assert "was never published" in response.json()["detail"]
    assert (await get(tenant, f"{NODE}/history"))["items"] == []


async def test_the_watermark_of_the_run_that_ended_last_counts(server: Server) -> None:
    for place, order in enumerate(permutations([60, 70, 80])):
        tenant = await server.add_tenant(f"Order {place}")
        for seconds in order:
            mark = {"column": "id", "value": seconds}
            await tenant.send_ok(a_node_end(a_run_id(), seconds=seconds, watermark=mark))

        assert await watermark(tenant) == ("id", "80")


async def test_a_run_that_did_not_publish_moves_no_watermark(tenant: Tenant) -> None:
    await tenant.send_ok(a_node_end(a_run_id(), seconds=60, watermark={"id": 5}))
    for place, status in enumerate((Status.stopped, Status.failed, Status.skipped)):
        mark = {"column": "id", "value": 100 + place}
        await tenant.send_ok(a_node_end(a_run_id(), seconds=70 + place, status=status, watermark=mark))

    assert await watermark(tenant) == ("id", "5")


async def test_a_published_run_without_a_watermark_leaves_it(tenant: Tenant) -> None:
    await tenant.send_ok(a_node_end(a_run_id(), seconds=60, watermark={"id": 5}), a_node_end(a_run_id(), seconds=70))

    assert await watermark(tenant) == ("id", "5")
    assert (await get(tenant, f"{NODE}/last"))["ended_at"] == at(70)


async def test_a_start_with_a_watermark_moves_none(tenant: Tenant) -> None:
    start = a_node_start(a_run_id(), seconds=90, watermark={"id": 9})
    await tenant.send_ok(a_node_end(a_run_id(), seconds=60), start)

    assert await watermark(tenant) is None


async def test_a_run_that_deals_with_an_old_batch_is_no_history(tenant: Tenant) -> None:
    """Few rows of a replay would make the next whole run look like a leap."""
    await tenant.send_ok(
        a_node_end(a_run_id(), seconds=60, **a_full_record()),
        a_node_end(a_run_id(), seconds=90, rows_in=3, quarantine=a_batch("batch-1", "replayed")),
    )

    assert [item["rows_in"] for item in (await get(tenant, f"{NODE}/history"))["items"]] == [100]
    assert (await get(tenant, f"{NODE}/last"))["rows_in"] == 100


async def test_a_file_says_how_old_a_target_may_become(tenant: Tenant, db: asyncpg.Connection) -> None:
    async def asked(seconds: float, hours: float) -> None:
        output = a_labelled(TARGET.name, TARGET.label)
        end = a_node_end(a_run_id(), seconds=seconds, freshness={"max_age_hours": hours}, outputs=[output])
        await tenant.send_ok(end)

    await asked(70, 36)
    await asked(60, 12)
    rows = await db.fetch("SELECT sla_hours::float AS hours, source, told_at FROM freshness_sla")
    assert [tuple(row) for row in rows] == [(36.0, "pipeline", moment(70))]

    await asked(80, 1.5)
    assert await db.fetchval("SELECT sla_hours::float FROM freshness_sla") == 1.5


async def test_what_a_person_has_set_stays(tenant: Tenant, db: asyncpg.Connection) -> None:
    output = a_labelled(TARGET.name, TARGET.label)
    await tenant.send_ok(a_node_end(a_run_id(), outputs=[output]))
    await db.execute(
        "INSERT INTO freshness_sla (organization_id, dataset_id, sla_hours) "
        "SELECT organization_id, id, 5 FROM datasets WHERE name = 'silver/orders'"
    )

    await tenant.send_ok(a_node_end(a_run_id(), seconds=90, freshness={"max_age_hours": 36}, outputs=[output]))

    assert [tuple(row) for row in await db.fetch("SELECT sla_hours::int, source FROM freshness_sla")] == [(5, "user")]


REFERENCES = ["silver/orders", "headgate:shop/silver/orders", "s3://lake/tables/orders", "lake:orders"]


@pytest.mark.parametrize("reference", REFERENCES)
async def test_a_dataset_is_found_by_what_the_file_calls_it(tenant: Tenant, reference: str) -> None:
    await tenant.send_ok(a_node_end(a_run_id(), outputs=[a_labelled("tables/orders", "silver/orders")]))

    found = await get(tenant, f"datasets/{reference.replace('/', '%2F')}")

    assert found["urn"] == "s3://lake/tables/orders"


async def test_a_table_is_found_by_connection_and_name(tenant: Tenant) -> None:
    output = a_labelled("shop.public.customers", "crm.customers", "postgres://db:5432")
    await tenant.send_ok(a_node_end(a_run_id(), outputs=[output]))

    assert (await get(tenant, "datasets/crm.customers"))["urn"] == "postgres://db/shop.public.customers"


async def test_the_same_words_in_two_projects_mean_two_datasets(tenant: Tenant) -> None:
    for project, bucket in (("shop", "s3://one"), ("crm", "s3://two")):
        output = a_labelled("silver/orders", "silver/orders", bucket, project)
        await tenant.send_ok(a_node_end(a_run_id(), project=project, outputs=[output]))

    assert (await ask(tenant, "datasets/silver%2Forders")).status_code == 409
    assert (await get(tenant, "datasets/headgate:crm%2Fsilver%2Forders"))["urn"] == "s3://two/silver/orders"


async def test_an_input_has_its_label_too(tenant: Tenant) -> None:
    event = a_node_end(a_run_id(), outputs=[a_labelled("tables/orders", "silver/orders")])
    event["inputs"] = [a_labelled("landing/orders", "bronze/orders")]
    await tenant.send_ok(event)

    assert (await get(tenant, "datasets/bronze%2Forders"))["urn"] == "s3://lake/landing/orders"


async def test_both_clients_ask_for_all_of_it(cluster: Cluster) -> None:
    async with live_server(cluster) as live:
        run, events = a_run(**a_full_record())
        answers = await live.replay(*(json.dumps(event).encode() for event in events))
        assert {answer.status_code for answer in answers} == {201}

        async with AsyncHeadgateClient(live.url, live.api_key) as client:
            assert [item["pipeline"] for item in (await client.pipelines()).items] == ["sales"]
            assert (await client.pipeline("shop", "sales"))["run_count"] == 1
            assert [item["run_id"] for item in (await client.pipeline_runs("shop", "sales")).items] == [run]
            assert (await client.pipeline_run(run))["status"] == "published"
            assert (await client.pipeline_story(run)).lstrip().lower().startswith("<!doctype html>")
            assert len((await client.node_history("shop", "sales", "orders", limit=5)).items) == 1
            assert (await client.last_published("shop", "sales", "orders"))["rows_in"] == 100
            assert [batch["state"] for batch in (await client.quarantine_batches(state="open")).items] == ["open"]
            with pytest.raises(NotFound, match="no node 'order'"):
                await client.last_published("shop", "sales", "order")


async def test_the_command_line_takes_what_the_file_calls_a_dataset(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event = a_node_end(a_run_id(), outputs=[a_labelled("tables/orders", "silver/orders")])
    async with live_server(cluster) as live:
        await live.replay(json.dumps(event).encode())
        monkeypatch.setenv("HEADGATE_URL", live.url)
        monkeypatch.setenv("HEADGATE_API_KEY", live.api_key)

        code = await asyncio.to_thread(run_command, ["datasets", "show", "silver/orders", "--json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["urn"] == "s3://lake/tables/orders"
