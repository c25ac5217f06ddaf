"""Every way to say which dataset is meant, and what is answered when it is none or several."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from tests.support.events import a_dataset, a_facet, an_event, at
from tests.support.server import Server, Tenant

Json = dict[str, Any]


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def ask(tenant: Tenant, reference: str) -> httpx.Response:
    return await tenant.client.get(f"/api/v1/datasets/{quote(reference, safe='')}")


async def urn_of(tenant: Tenant, reference: str) -> str:
    response = await ask(tenant, reference)
    assert response.status_code == 200, response.text
    urn: str = response.json()["urn"]
    return urn


async def written(tenant: Tenant, *datasets: Json) -> None:
    await tenant.send_ok(an_event(outputs=list(datasets)))


async def add_rule(tenant: Tenant, pattern: str, canonical: str) -> None:
    response = await tenant.client.post("/api/v1/aliases", json={"pattern": pattern, "canonical": canonical})
    assert response.status_code == 201, response.text


async def test_by_id_in_any_spelling(tenant: Tenant) -> None:
    await written(tenant, a_dataset("shop.orders"))
    (item,) = (await tenant.client.get("/api/v1/datasets")).json()["items"]

    assert await urn_of(tenant, item["id"]) == "postgres://db/shop.orders"
    assert await urn_of(tenant, item["id"].upper()) == "postgres://db/shop.orders"


async def test_a_name_that_looks_like_an_id_is_a_name(tenant: Tenant) -> None:
    name = str(uuid4())
    await written(tenant, a_dataset(name))

    assert await urn_of(tenant, name) == f"postgres://db/{name}"


@pytest.mark.parametrize(
    ("stored", "references"),
    [
        (
            a_dataset("shop.orders", "postgres://db:5432"),
            [
                "postgres://db/shop.orders",
                "postgres://db:5432/shop.orders",
                "postgresql://DB:5432/shop.orders",
                "  postgres://db/shop.orders ",
                "shop.orders",
                "orders",
            ],
        ),
        (
            a_dataset("sales/orders", "s3://lake"),
            [
                "s3://lake/sales/orders",
                "s3a://lake/sales/orders",
                "s3n://lake//sales/orders/",
                "s3://lake/sales/orders/dt=2026-03-01/country=DE",
                "sales/orders",
                "lake:orders",
                "orders",
            ],
        ),
        (
            a_dataset("/data/orders", "hdfs://nn:8020"),
            ["hdfs://nn:8020//data/orders", "hdfs://nn:8020/data/orders", "/data/orders", "nn:orders", "orders"],
        ),
        (
            a_dataset("Größe & Maß/naïve file", "gs://eimer"),
            ["gs://eimer/Größe & Maß/naïve file", "Größe & Maß/naïve file", "eimer:naïve file", "naïve file"],
        ),
        (a_dataset("数据.订单", "mysql://db:3306"), ["mysql://db/数据.订单", "数据.订单", "订单"]),
        (a_dataset("a%2Fb?c#d", "custom"), ["custom/a%2Fb?c#d", "a%2Fb?c#d"]),
        (a_dataset("topic", "kafka://broker:9092"), ["kafka://broker:9092/topic", "topic"]),
    ],
    ids=["database", "bucket", "hdfs", "unicode", "chinese", "odd characters", "topic"],
)
async def test_by_any_spelling_of_its_name(tenant: Tenant, stored: Json, references: list[str]) -> None:
    await written(tenant, stored, a_dataset("something.else", "mysql://other"))
    found = {item["urn"] for item in (await tenant.client.get("/api/v1/datasets")).json()["items"]}
    (urn,) = found - {"mysql://other/something.else"}

    assert {reference: await urn_of(tenant, reference) for reference in references} == dict.fromkeys(references, urn)


async def test_by_the_name_of_a_symlink(tenant: Tenant) -> None:
    link = {"namespace": "hive://meta:9083", "name": "shop.orders", "type": "TABLE"}
    await written(tenant, a_dataset("sales/orders", "s3://lake", facets={"symlinks": a_facet(identifiers=[link])}))

    for reference in ("hive://meta:9083/shop.orders", "hive://META:9083/shop.orders", "shop.orders"):
        assert await urn_of(tenant, reference) == "s3://lake/sales/orders"


async def test_by_what_a_merged_dataset_was_called(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("a.new")], time=at(0)), an_event(outputs=[a_dataset("b.old")]))
    items = (await tenant.client.get("/api/v1/datasets")).json()["items"]
    ids = {item["name"]: item["id"] for item in items}
    await tenant.client.post("/api/v1/dataset-merges", json={"one": ids["a.new"], "other": ids["b.old"]})

    for reference in (ids["b.old"], "postgres://db/b.old", "b.old"):
        assert await urn_of(tenant, reference) == "postgres://db/a.new"


async def test_by_a_spelling_that_a_rule_leads_on(tenant: Tenant) -> None:
    """Events under such a name land in the dataset without the name being kept anywhere."""
    await add_rule(tenant, "mysql://{host}/{table}", "postgres://dwh/{table}")
    await written(tenant, a_dataset("shop.orders", "mysql://replica-7:3306"))

    assert await urn_of(tenant, "postgres://dwh/shop.orders") == "postgres://dwh/shop.orders"
    for host in ("replica-7", "replica-7:3306", "replica-8"):
        assert await urn_of(tenant, f"mysql://{host}/shop.orders") == "postgres://dwh/shop.orders"
    assert (await ask(tenant, "mysql://replica-7/shop.other")).status_code == 404


async def test_a_rule_counts_for_names_from_before_it(tenant: Tenant) -> None:
    await written(tenant, a_dataset("shop.orders", "mysql://replica"))
    await add_rule(tenant, "mysql://replica/{table}", "postgres://dwh/{table}")

    assert await urn_of(tenant, "mysql://replica/shop.orders") == "postgres://dwh/shop.orders"


async def test_partitions_are_cut_as_the_organisation_says(tenant: Tenant) -> None:
    pattern = {"regex": "batch-[0-9]+", "kind": "time", "enabled": True}
    assert (await tenant.client.put("/api/v1/name-patterns/batch", json=pattern)).is_success
    await written(tenant, a_dataset("sales/orders/batch-17", "s3://lake"))

    assert await urn_of(tenant, "s3://lake/sales/orders/batch-99") == "s3://lake/sales/orders"
    assert await urn_of(tenant, "s3://lake/sales/orders") == "s3://lake/sales/orders"


async def test_a_pattern_that_is_off_keeps_datasets_apart(tenant: Tenant) -> None:
    (pattern,) = [
        item
        for item in (await tenant.client.get("/api/v1/name-patterns")).json()["items"]
        if item["kind"] == "key_value"
    ]
    body = {"regex": pattern["regex"], "kind": "key_value", "enabled": False}
    assert (await tenant.client.put(f"/api/v1/name-patterns/{pattern['name']}", json=body)).is_success
    await written(tenant, a_dataset("orders", "s3://lake"), a_dataset("orders/layer=gold", "s3://lake"))

    assert await urn_of(tenant, "s3://lake/orders/layer=gold") == "s3://lake/orders/layer=gold"


async def test_the_longer_namespace_wins(tenant: Tenant) -> None:
    await written(tenant, a_dataset("b/c", "custom/a"), a_dataset("a/b/c", "custom"))
    assert await urn_of(tenant, "custom/a/b/c") == "custom/a/b/c"

    (first, second) = (await tenant.client.get("/api/v1/datasets")).json()["items"]
    found = (await ask(tenant, "custom/a/b/c")).json()
    assert found["namespace"] == "custom/a"
    assert {first["namespace"], second["namespace"]} == {"custom", "custom/a"}


async def test_a_name_in_several_namespaces_is_a_conflict_that_names_them(tenant: Tenant) -> None:
    await written(tenant, *(a_dataset("shop.orders", f"postgres://db{place}") for place in range(3)))

    for reference in ("shop.orders", "orders"):
        response = await ask(tenant, reference)
        assert response.status_code == 409
        candidates = response.json()["context"]["candidates"]
        assert [candidate["urn"] for candidate in candidates] == [f"postgres://db{n}/shop.orders" for n in range(3)]
        assert await urn_of(tenant, candidates[1]["id"]) == "postgres://db1/shop.orders"


async def test_of_very_many_candidates_some_are_named(tenant: Tenant) -> None:
    await written(tenant, *(a_dataset("orders", f"postgres://db{place}") for place in range(30)))

    response = await ask(tenant, "orders")

    assert response.status_code == 409
    assert len(response.json()["context"]["candidates"]) == 10


async def test_a_full_name_comes_before_the_last_part_of_others(tenant: Tenant) -> None:
    await written(tenant, a_dataset("orders"), a_dataset("shop.orders"), a_dataset("x/orders", "s3://lake"))

    assert await urn_of(tenant, "orders") == "postgres://db/orders"


async def test_an_unknown_name_is_answered_with_the_nearest(tenant: Tenant) -> None:
    await written(tenant, a_dataset("shop.orders"), a_dataset("shop.order_items"), a_dataset("geo.countries"))

    response = await ask(tenant, "shop.oders")

    assert response.status_code == 404
    assert response.json()["context"]["nearest"][0] == "postgres://db/shop.orders"
    assert "did you mean 'postgres://db/shop.orders'" in response.json()["hint"]


NOTHING = [
    "nothing",
    "postgres://db/nothing",
    "s3://",
    "://",
    "...",
    "%",
    "a:b",
    " ",
    "/" * 50,
    "x" * 4000,
    "ü" * 1300,
    "\U0001f600",
    "\x01\x02",
    "\ufffd",
]


async def test_what_names_nothing_is_not_found(tenant: Tenant) -> None:
    for reference in NOTHING:
        response = await ask(tenant, reference)

        assert response.status_code == 404, (reference, response.text)
        assert response.json()["context"]["nearest"] == []


async def test_a_reference_beyond_any_name_is_refused(tenant: Tenant) -> None:
    response = await ask(tenant, "x" * 10_000)

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "path.dataset"


async def test_bytes_that_are_no_text_name_nothing(tenant: Tenant) -> None:
    assert (await tenant.client.get("/api/v1/datasets/%ff%fe")).status_code == 404
    assert (await tenant.client.get("/api/v1/datasets/%ed%a0%80")).status_code == 404


async def test_names_of_others_are_neither_found_nor_near(server: Server) -> None:
    other = await server.add_tenant("Second")
    await written(server.tenant, a_dataset("shop.orders"))
    (mine,) = (await server.client.get("/api/v1/datasets")).json()["items"]

    for reference in (mine["id"], mine["urn"], "shop.orders", "orders", "shop.oders"):
        response = await ask(other, reference)
        assert response.status_code == 404
        assert response.json()["context"]["nearest"] == []
