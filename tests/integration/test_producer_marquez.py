"""Marquez's own Python client, unmodified, against a running server."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.conftest import Cluster
from tests.support.absent import lacking
from tests.support.golden import golden
from tests.support.live import Live, live_server

FOOD = "food_delivery"
ORDERS = "public.orders_7_days"
LOAD = "etl_orders_7_days"
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    """A server that has Marquez's own sample events."""
    async with live_server(cluster) as live:
        answers = await live.replay(*golden("marquez"), path="/marquez/api/v1/lineage")
        assert {answer.status_code for answer in answers} == {201}
        yield live


@pytest.fixture
def client(live: Live, monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        marquez = importlib.import_module("marquez_client")
    except ModuleNotFoundError:
        lacking("marquez-python is not installed: pip install marquez-python")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # The client keeps its headers for the whole process.
    monkeypatch.setattr(marquez.client, "_HEADERS", dict(marquez.client._HEADERS))
    return marquez.MarquezClient(url=f"{live.url}/marquez", api_key=live.api_key)


async def ask(method: Ask, *arguments: Any, **more: Any) -> Any:
    """The client blocks, and the server's database is looked after by this loop."""
    return await asyncio.to_thread(method, *arguments, **more)


async def test_it_lists_namespaces(client: Any) -> None:
    found = await ask(client.list_namespaces)

    assert [namespace["name"] for namespace in found["namespaces"]] == [FOOD]
    assert (await ask(client.get_namespace, FOOD))["name"] == FOOD


async def test_it_lists_datasets(client: Any) -> None:
    found = await ask(client.list_datasets, FOOD)

    names = [dataset["name"] for dataset in found["datasets"]]
    assert len(names) == 14
    assert names[:3] == ["public.categories", "public.customers", "public.delivery_7_days"]
    one = await ask(client.get_dataset, FOOD, ORDERS)
    assert [field["name"] for field in one["fields"]][:2] == ["order_id", "placed_on"]
    versions = (await ask(client.list_dataset_versions, FOOD, ORDERS))["versions"]
    assert [version["version"] for version in versions] == [one["currentVersion"]]
    version = await ask(client.get_dataset_version, FOOD, ORDERS, one["currentVersion"])
    assert version == versions[0]


async def test_it_lists_jobs_and_runs(client: Any) -> None:
    jobs = (await ask(client.list_jobs, FOOD, limit=5))["jobs"]

    assert [job["name"] for job in jobs] == [
        "delivery_times_7_days",
        "email_discounts",
        "etl_categories",
        "etl_customers",
        "etl_delivery_7_days",
    ]
    job = await ask(client.get_job, FOOD, LOAD)
    runs = (await ask(client.list_job_runs, FOOD, LOAD))["runs"]
    assert [(run["id"], run["state"]) for run in runs] == [("ffba2c14-4170-48da-bec3-ab5fd4ec9a3f", "COMPLETED")]
    assert job["latestRun"] == runs[0] == await ask(client.get_job_run, runs[0]["id"])


async def test_it_reads_column_lineage_sources_and_tags(client: Any) -> None:
    graph = await ask(client.get_column_lineage_by_dataset_field, FOOD, ORDERS, "menu_id")

    assert {node["data"]["dataset"] for node in graph["graph"]} == {
        "public.categories",
        "public.menus",
        ORDERS,
    }
    assert [source["name"] for source in (await ask(client.list_sources))["sources"]] == [FOOD]
    assert (await ask(client.list_tags))["tags"] == []


async def test_it_lists_events(client: Any) -> None:
    everything = await ask(client.list_events, limit=1000)

    assert everything["totalCount"] == len(everything["events"]) == len(golden("marquez"))
    assert await ask(client.list_events, FOOD, limit=1000) == everything
    assert len((await ask(client.list_events, limit=2, offset=1))["events"]) == 2


async def test_it_can_call_every_method_that_reads(client: Any, live: Live) -> None:
    version = (await ask(client.get_dataset, FOOD, ORDERS))["currentVersion"]
    run = (await ask(client.list_job_runs, FOOD, LOAD))["runs"][0]["id"]
    arguments: dict[str, tuple[str, ...]] = {
        "list_namespaces": (),
        "get_namespace": (FOOD,),
        "list_events": (FOOD,),
        "list_sources": (),
        "get_source": (FOOD,),
        "list_datasets": (FOOD,),
        "get_dataset": (FOOD, ORDERS),
        "list_dataset_versions": (FOOD, ORDERS),
        "get_dataset_version": (FOOD, ORDERS, version),
        "list_jobs": (FOOD,),
        "get_job": (FOOD, LOAD),
        "list_job_runs": (FOOD, LOAD),
        "get_job_run": (run,),
        "get_column_lineage_by_dataset": (FOOD, ORDERS),
        "get_column_lineage_by_dataset_field": (FOOD, ORDERS, "menu_id"),
        "get_column_lineage_by_job": (FOOD, LOAD),
        "list_tags": (),
    }
    assert set(arguments) == {name for name in dir(client) if name.startswith(("list_", "get_"))}

    answers = {name: await ask(getattr(client, name), *each) for name, each in arguments.items()}

    assert live.statuses[-len(arguments) :] == [200] * len(arguments)
    assert [name for name, answer in answers.items() if not answer] == []


async def test_what_it_cannot_do_is_an_error_of_its_own(client: Any, live: Live) -> None:
    errors = importlib.import_module("marquez_client.errors")

    for wrong in (
        lambda: client.get_dataset(FOOD, "public.unknown"),
        lambda: client.list_datasets("unknown"),
        lambda: client.create_namespace("mine", "me"),
    ):
        with pytest.raises(errors.APIError):
            await ask(wrong)
    assert live.statuses[-3:] == [404, 404, 405]
