"""Datasets as lists and details show them, and a few to list."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from tests.support.events import a_dataset, a_facet, an_event, at
from tests.support.server import Tenant

Json = dict[str, Any]
LIST_FIELDS = {
    "id", "namespace", "name", "urn", "display_name", "type", "location", "description", "owners", "tags",
    "last_updated", "row_count", "byte_size", "upstream_count", "downstream_count", "column_count", "schema_version",
    "failing_tests", "has_incident", "is_stale", "sla_hours", "external", "dropped", "first_seen_at",
}  # fmt: skip


def measured(name: str, rows: int | None, size: int | None = None, **parts: Any) -> Json:
    """A dataset that was written, with its statistics."""
    return a_dataset(name, outputFacets={"outputStatistics": a_facet(rowCount=rows, size=size)}, **parts)


def checked(name: str, **tests: bool) -> Json:
    """A dataset that was read, with the outcome of each test."""
    found = [{"assertion": test, "success": success} for test, success in tests.items()]
    return a_dataset(name, inputFacets={"dataQualityAssertions": a_facet(assertions=found)})


async def listed(tenant: Tenant, **params: Any) -> list[Json]:
    response = await tenant.client.get("/api/v1/datasets", params=params)
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


async def names(tenant: Tenant, **params: Any) -> list[str]:
    return [item["name"] for item in await listed(tenant, **params)]


async def detail(tenant: Tenant, reference: str) -> Json:
    response = await tenant.client.get(f"/api/v1/datasets/{quote(reference, safe='')}")
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def pages(tenant: Tenant, limit: int, **params: Any) -> AsyncIterator[list[Json]]:
    cursor: str | None = None
    for _ in range(100):
        given = params | {"limit": limit} | ({"cursor": cursor} if cursor else {})
        response = await tenant.client.get("/api/v1/datasets", params=given)
        assert response.status_code == 200, response.text
        body = response.json()
        yield body["items"]
        cursor = body["next_cursor"]
        if cursor is None:
            return
    raise AssertionError("the list has no end")


async def all_names(tenant: Tenant, limit: int, **params: Any) -> list[str]:
    return [item["name"] async for page in pages(tenant, limit, **params) for item in page]


async def a_shop(tenant: Tenant) -> None:
    """raw.orders is written twice, clean.orders and mart.sales are made of it; geo is only read."""
    await tenant.send_ok(
        an_event(job="load", outputs=[measured("raw.orders", 10, 100)], time=at(0)),
        an_event(job="clean", inputs=[a_dataset("raw.orders")], outputs=[measured("clean.orders", 8)], time=at(60)),
        an_event(
            job="sell",
            inputs=[a_dataset("raw.orders"), a_dataset("clean.orders"), a_dataset("geo")],
            outputs=[a_dataset("mart.sales")],
            time=at(120),
        ),
        an_event(job="load", outputs=[measured("raw.orders", 12, 120)], time=at(180)),
    )


async def an_uneven_catalog(tenant: Tenant) -> None:
    """Twelve datasets: some never written, some not measured, several alike in what lists sort by."""
    outputs = [measured(f"d{place:02}", rows) for place, rows in enumerate([5, 5, 5, 0, 9])]
    await tenant.send_ok(
        an_event(job="one", outputs=outputs, time=at(0)),
        an_event(job="two", outputs=[a_dataset("d05"), a_dataset("d06")], time=at(60)),
        an_event(
            job="three",
            inputs=[a_dataset("d00"), a_dataset("d01"), a_dataset("d07"), a_dataset("d08")],
            outputs=[a_dataset("d09"), a_dataset("d10")],
            time=at(60),
        ),
        an_event("START", job="four", inputs=[a_dataset("d00")], outputs=[a_dataset("d11")], time=at(90)),
    )
