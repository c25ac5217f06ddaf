"""What a not-found answer suggests: the names that come nearest."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from headgate.errors import NotFound
from headgate.server.references.datasets import find_dataset
from headgate.server.references.nearest import likest, nearest_datasets, nearest_jobs
from tests.support.events import a_dataset, an_event
from tests.support.server import Server, Tenant

ORDERS = "postgres://shop-db/shop.public.orders"


async def send(tenant: Tenant, *names: str) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset(name, "postgres://shop-db") for name in names]))


async def suggested(server: Server, text: str) -> list[str]:
    async with server.database.tenant(server.tenant.organization_id) as conn:
        return await nearest_datasets(conn, server.tenant.organization_id, text)


@pytest.mark.parametrize(
    "text",
    ["oders", "ordrs", "shop.public.odrers", "postgres://shop-db/shop.public.order", "postgres://shop/public.orders"],
)
async def test_a_name_that_came_in_just_now_is_suggested(server: Server, text: str) -> None:
    await send(server.tenant, "shop.public.orders", "shop.public.people")

    assert ORDERS in await suggested(server, text)


@pytest.mark.parametrize("text", ["ORDERS", "SHOP.PUBLIC.ORDERS", "ODERS", "Postgres://Shop-DB/SHOP.PUBLIC.ORDERS"])
async def test_case_makes_no_difference(server: Server, text: str) -> None:
    await send(server.tenant, "shop.public.orders", "shop.public.people")

    answer = await server.client.get(f"/api/v1/datasets/{quote(text, safe='')}")

    assert (answer.status_code, answer.json()["context"]["nearest"][0]) == (404, ORDERS)


async def test_names_in_upper_case_are_suggested_for_lower_case(server: Server) -> None:
    await send(server.tenant, "SHOP.PUBLIC.ORDERS")

    assert await suggested(server, "orders") == ["postgres://shop-db/SHOP.PUBLIC.ORDERS"]


async def test_a_wrong_first_letter_is_forgiven_once_the_name_is_indexed(server: Server) -> None:
    await send(server.tenant, "shop.public.orders", "shop.public.people")
    await server.client.get("/api/v1/search", params={"q": "orders"})

    assert (await suggested(server, "prders"))[0] == ORDERS


async def test_the_nearest_is_found_among_thousands_that_begin_alike(server: Server) -> None:
    await send(server.tenant, *(f"shop.a{number:04}" for number in range(1500)), "shop.zebras", "shop.avocados")
    while (await server.client.get("/api/v1/search", params={"q": "zebras"})).json()["indexing"]:
        pass

    assert (await suggested(server, "avocadso"))[0] == "postgres://shop-db/shop.avocados"


async def test_nothing_alike_is_not_suggested(server: Server) -> None:
    await send(server.tenant, "shop.public.orders")

    for text in ("completely_different_thing", "", "   ", "\0", "!!!", "x" * 4000, "/" * 4000, "\U0001f600"):
        assert await suggested(server, text) == [], text


async def test_jobs_are_suggested_too(server: Server) -> None:
    await server.tenant.send_ok(an_event(job="nightly.load_orders", namespace="airflow"))

    async with server.database.tenant(server.tenant.organization_id) as conn:
        near = [
            await nearest_jobs(conn, server.tenant.organization_id, text)
            for text in ("nightly.load_oders", "NIGHTLY.LOAD_ORDERS")
        ]

    assert near == [["airflow/nightly.load_orders"]] * 2


async def test_another_organisations_names_are_not_suggested(server: Server) -> None:
    stranger = await server.add_tenant("Stranger")
    await send(stranger, "shop.public.orders")
    await stranger.client.get("/api/v1/search", params={"q": "orders"})

    assert await suggested(server, "shop.public.oders") == []


async def test_the_error_names_them(server: Server) -> None:
    await send(server.tenant, "shop.public.orders")

    async with server.database.tenant(server.tenant.organization_id) as conn:
        with pytest.raises(NotFound) as raised:
            await find_dataset(conn, server.tenant.organization_id, "shop.public.oders")

    assert raised.value.hint == f"did you mean {ORDERS!r}?"
    assert raised.value.context == {"nearest": [ORDERS]}


def test_at_most_three_are_suggested_and_always_the_same() -> None:
    names = [(f"postgres://db{number}", "orders") for number in range(10)]

    assert likest("orderz", names) == likest("orderz", reversed(names)) == ["postgres://db0/orders"]
    assert len(likest("order", [("ns", f"orders{number}") for number in range(10)])) == 3


def test_names_that_differ_only_in_case_are_both_suggested() -> None:
    assert likest("ORDERS", [("ns", "orders"), ("ns", "Orders")]) == ["ns/Orders", "ns/orders"]
