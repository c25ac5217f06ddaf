"""Orders and pages of lists of datasets, and cursors that lead nowhere."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.support.catalog import (
    all_names,
    an_uneven_catalog,
    listed,
    measured,
    names,
    pages,
)
from tests.support.events import a_dataset, an_event, at
from tests.support.server import Server, Tenant

SORTS = ("name", "-name", "freshness", "-freshness", "rows", "-rows", "downstream", "-downstream")


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


VALUES = {"name": "name", "freshness": "last_updated", "rows": "row_count", "downstream": "downstream_count"}


async def test_pages_of_every_order_show_each_dataset_once(tenant: Tenant) -> None:
    await an_uneven_catalog(tenant)

    for sort in SORTS:
        whole = await names(tenant, sort=sort)
        assert sorted(whole) == [f"d{place:02}" for place in range(12)]
        for limit in (1, 2, 5, 12):
            assert await all_names(tenant, limit, sort=sort) == whole, (sort, limit)


async def test_every_order_is_by_its_value_and_unknown_ones_are_last_both_ways(tenant: Tenant) -> None:
    await an_uneven_catalog(tenant)

    for sort, field in VALUES.items():
        for order, descends in ((sort, False), (f"-{sort}", True)):
            values = [item[field] for item in await listed(tenant, sort=order)]
            known = sorted((value for value in values if value is not None), reverse=descends)
            assert values == known + [None] * (len(values) - len(known)), order


async def test_names_are_ordered_by_their_characters(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset(name) for name in ("b", "B", "a", "ä", "Z", "_", "a b")]))

    assert await names(tenant) == ["B", "Z", "_", "a", "a b", "b", "ä"]


async def test_equal_names_of_several_namespaces_are_each_listed_once(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("same", f"postgres://db{place}") for place in range(7)]))

    found = [item["urn"] async for page in pages(tenant, 2) for item in page]

    assert sorted(found) == [f"postgres://db{place}/same" for place in range(7)]


async def test_filters_hold_over_all_pages(tenant: Tenant) -> None:
    await an_uneven_catalog(tenant)

    assert await all_names(tenant, 2, text="d0", sort="-rows") == await names(tenant, text="d0", sort="-rows")
    assert len(await all_names(tenant, 3, namespace="postgres://db")) == 12


async def test_what_was_there_is_listed_once_while_datasets_are_added(tenant: Tenant) -> None:
    await an_uneven_catalog(tenant)

    for number, sort in enumerate(SORTS):
        before = set(await names(tenant))
        seen: list[str] = []
        async for page in pages(tenant, 5, sort=sort):
            seen += [item["name"] for item in page]
            if len(seen) <= 15:
                new = [measured(f"d{number}{len(seen)}x", number), a_dataset(f"a{number}{len(seen)}")]
                await tenant.send_ok(an_event(job="five", outputs=new, time=at(300 + number)))
        assert len(seen) == len(set(seen)), sort
        assert before <= set(seen), sort


async def test_a_long_name_makes_a_cursor_that_works(tenant: Tenant) -> None:
    long = "ü" * 900
    await tenant.send_ok(an_event(outputs=[a_dataset(f"{long}{place}") for place in range(3)]))

    assert len(await all_names(tenant, 1)) == 3


AN_ID = "00000000-0000-0000-0000-000000000001"


def forged(sort: str, value: Any, row_id: Any = AN_ID) -> str:
    return base64.urlsafe_b64encode(json.dumps([sort, value, row_id]).encode()).decode()


async def test_a_cursor_of_another_order_is_refused(tenant: Tenant) -> None:
    await an_uneven_catalog(tenant)
    first = (await tenant.client.get("/api/v1/datasets", params={"limit": 1, "sort": "rows"})).json()

    response = await tenant.client.get("/api/v1/datasets", params={"sort": "-rows", "cursor": first["next_cursor"]})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.cursor"


BAD_CURSORS = [
    ("name", "garbage"),
    ("name", "%%%"),
    ("name", forged("name", "a")[:-8]),
    ("name", forged("name", None)),
    ("name", forged("name", "a\0b")),
    ("name", forged("name", "\ud800")),
    ("name", forged("name", "a", "not an id")),
    ("name", forged("name", 7)),
    ("name", base64.urlsafe_b64encode(b"[1,2]").decode()),
    ("rows", forged("rows", "many")),
    ("rows", forged("rows", str(2**63))),
    ("rows", forged("rows", "9" * 5000)),
    ("downstream", forged("downstream", str(2**31))),
    ("freshness", forged("freshness", "yesterday")),
    ("freshness", forged("freshness", "-infinity")),
    ("-freshness", forged("-freshness", "infinity")),
    ("freshness", forged("freshness", None)),
    ("freshness", forged("freshness", "0001-01-01T00:00:00+14:00")),
]


async def test_a_cursor_that_is_none_of_ours_is_refused(tenant: Tenant) -> None:
    for sort, cursor in BAD_CURSORS:
        response = await tenant.client.get("/api/v1/datasets", params={"sort": sort, "cursor": cursor})

        assert response.status_code == 422, (cursor, response.text)
        assert response.json()["errors"][0]["path"] == "query.cursor"


BAD_PARAMETERS = [
    ("sort", "size"),
    ("sort", "--name"),
    ("limit", "0"),
    ("limit", "1001"),
    ("limit", "many"),
    ("has_incident", "perhaps"),
    ("dropped", "perhaps"),
    ("type", "x" * 101),
    ("text", "x" * 501),
]


async def test_a_wrong_parameter_is_named(tenant: Tenant) -> None:
    for parameter, value in BAD_PARAMETERS:
        response = await tenant.client.get("/api/v1/datasets", params={parameter: value})

        assert response.status_code == 422, (parameter, response.text)
        assert response.json()["errors"][0]["path"] == f"query.{parameter}"
