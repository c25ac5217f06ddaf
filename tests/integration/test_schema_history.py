"""Schemas read back: now, at a time, and as a history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import uuid4

import pytest

from headgate.domain.schema import Field, schema_hash
from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, T0, Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.ingest import a_server
from tests.support.schemas import EVENTS, ask, customers, difference, history, names, schema, seen
from tests.support.server import Server, Tenant


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Server]:
    async with a_server(cluster) as server:
        yield server


@pytest.fixture
async def tenant(shared: Server) -> Tenant:
    """An organisation of the test's own."""
    return await shared.add_tenant(f"Org {a_run_id()}")


async def test_the_current_schema_is_told_with_where_it_comes_from(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(seen(1, ("id", "int", False), ("name", "string"), run=run))
    found = await schema(tenant)

    assert found["fields"] == [
        {"name": "id", "type": "int", "nullable": False, "description": None, "path": ["id"]},
        {"name": "name", "type": "string", "nullable": True, "description": None, "path": ["name"]},
    ]
    assert (found["version"], found["change_type"], found["breaking"]) == (1, "INITIAL", False)
    assert (found["valid_from"], found["valid_to"]) == (at(1), None)
    assert (found["run_id"], found["job"]["namespace"], found["job"]["name"]) == (run, "tests", "writer")
    assert found["hash"] == schema_hash([Field("id", "int", False), Field("name", "string")]).hex()
    assert (found["summary"], found["column_count"]) == ("Initial schema (2 columns)", 2)
    assert (found["dataset"]["name"], found["dataset"]["urn"]) == ("t", "postgres://db/t")


async def test_nested_fields_and_comments_are_told(tenant: Tenant) -> None:
    street = {"name": "street", "type": "string", "description": "and number"}
    address = {"name": "address", "type": "struct", "fields": [street]}
    facet = {"schema": a_facet(fields=[address, {"name": "a.b", "type": "int"}])}
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=facet)]))
    found = await schema(tenant)
    assert [(field["name"], field["path"], field["description"]) for field in found["fields"]] == [
        ("address", ["address"], None),
        ("address.street", ["address", "street"], "and number"),
        ("a.b", ["a.b"], None),
    ]
    assert found["column_count"] == 2


@pytest.mark.parametrize(
    ("second", "version"),
    [(10, 1), (14.999999, 1), (15, 2), (19.999999, 2), (20, 3), (1e8, 3)],
    ids=["first instant", "just before a change", "at a change", "before the next", "at the last", "far ahead"],
)
async def test_a_version_is_valid_from_its_first_instant_until_the_next_one_begins(
    tenant: Tenant, second: float, version: int
) -> None:
    await tenant.send_ok(seen(10, "a"), seen(15, "a", "b"), seen(20, "a"))
    found = await schema(tenant, at=at(second))
    assert (found["version"], found["valid_from"]) == (version, at({1: 10, 2: 15, 3: 20}[version]))
    assert names(found) == ("ab" if version == 2 else "a")


async def test_a_time_may_have_any_zone_and_an_unescaped_plus(tenant: Tenant) -> None:
    await tenant.send_ok(seen(10, "a"), seen(15, "a", "b"))
    ahead = (T0 + timedelta(seconds=12, hours=2)).strftime("%Y-%m-%dT%H:%M:%S+02:00")
    assert (await schema(tenant, at=ahead))["version"] == 1
    response = await tenant.client.get(f"/api/v1/datasets/t/schema?at={ahead}")
    assert (response.status_code, response.json()["version"]) == (200, 1)


async def test_before_the_first_version_the_hint_names_its_time(tenant: Tenant) -> None:
    await tenant.send_ok(seen(10, "a"))
    response = await ask(tenant, at=at(9.999999))
    assert response.status_code == 404
    assert at(10) in response.json()["hint"]


async def test_a_dataset_without_a_schema_says_why(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    for response in (await ask(tenant), await ask(tenant, at=at()), await ask(tenant, "/diff")):
        assert response.status_code == 404
        assert response.json()["detail"] == "no schema of 'postgres://db/t' is known"
        assert "schema facet" in response.json()["hint"]
    assert await history(tenant) == {"items": [], "next_cursor": None}


@pytest.mark.parametrize(
    "time", ["yesterday", "2026-03-01", "2026-03-01T10:00:00", "1772359200", "", "0001-01-01T00:00:00+14:00", "x" * 999]
)
async def test_what_is_no_time_with_a_zone_is_refused_by_name(tenant: Tenant, time: str) -> None:
    await tenant.send_ok(seen(1, "a"))
    response = await ask(tenant, at=time)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == ["query.at"]


async def test_a_schema_event_without_a_run_has_no_run_and_no_job(tenant: Tenant) -> None:
    dataset = a_dataset("t", facets=with_schema("a"))
    await tenant.send_ok({"eventTime": at(1), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset})
    found = await schema(tenant)
    assert (found["run_id"], found["job"]) == (None, None)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (2, 0, 4, 1, 3)], ids=["in", "reversed", "mixed"])
async def test_the_history_of_customers_reads_as_it_happened_whatever_arrives_when(
    tenant: Tenant, order: tuple[int, ...]
) -> None:
    await tenant.send_ok(*(customers(*EVENTS[place]) for place in order))
    items = (await history(tenant, dataset="s3://lake/silver/customers"))["items"]

    assert [(item["version"], item["valid_from"], item["summary"]) for item in items] == [
        (5, "2024-01-30T10:15:00Z", "+loyalty_tier (new column)"),
        (4, "2024-01-15T08:30:00Z", "email: VARCHAR→STRING (type change)"),
        (3, "2024-01-01T12:00:00Z", "-legacy_id (removed)"),
        (2, "2023-12-15T09:00:00Z", "+created_at, +updated_at"),
        (1, "2023-12-01T10:00:00Z", "Initial schema (12 columns)"),
    ]
    assert [item["breaking"] for item in items] == [False, False, True, False, False]
    assert [item["column_count"] for item in items] == [14, 13, 13, 14, 12]
    assert items[0]["columns_added"] == ["loyalty_tier"]
    assert items[1]["columns_type_changed"] == ["email"]
    assert items[2]["columns_removed"] == ["legacy_id"]
    assert [item["valid_to"] for item in items] == [None, *(item["valid_from"] for item in items[:-1])]


async def test_a_return_to_an_older_schema_is_a_new_version(tenant: Tenant) -> None:
    await tenant.send_ok(seen(1, "a"), seen(2, "a", "b"), seen(3, "a"))
    items = (await history(tenant))["items"]
    assert [(item["version"], names(item), item["summary"]) for item in items] == [
        (3, "a", "-b (removed)"),
        (2, "ab", "+b (new column)"),
        (1, "a", "Initial schema (1 column)"),
    ]
    assert items[0]["hash"] == items[2]["hash"]
    assert items[0]["id"] != items[2]["id"]
    found = await difference(tenant, **{"from": 1, "to": 3})
    assert (found["breaking"], {field["change"] for field in found["fields"]}) == (False, {"unchanged"})


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_pages_of_a_history_lose_and_repeat_nothing(tenant: Tenant, limit: int) -> None:
    await tenant.send_ok(*(seen(second, *"abcdefg"[: second + 1]) for second in range(7)))
    found: list[Json] = []
    cursor = None
    while True:
        page = await history(tenant, limit=limit, **({"cursor": cursor} if cursor else {}))
        assert len(page["items"]) <= limit
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [item["version"] for item in found] == [7, 6, 5, 4, 3, 2, 1]
    assert found[-1]["summary"] == "Initial schema (1 column)"
    assert {item["summary"] for item in found[:-1]} == {f"+{name} (new column)" for name in "bcdefg"}


async def test_a_version_found_later_shifts_numbers_and_no_page(tenant: Tenant) -> None:
    await tenant.send_ok(*(seen(second, *"abcd"[:second]) for second in (2, 3, 4)))
    first = await history(tenant, limit=1)
    await tenant.send_ok(seen(1, "a"))
    second = await history(tenant, cursor=first["next_cursor"])
    assert [names(item) for item in first["items"] + second["items"]] == ["abcd", "abc", "ab", "a"]


async def test_pages_of_wide_schemas_end_early(tenant: Tenant) -> None:
    wide = [f"column_{n}" for n in range(19_000)]
    await tenant.send_ok(*(seen(second, *wide[second:]) for second in range(4)))
    first = await history(tenant)
    assert [item["version"] for item in first["items"]] == [4]
    rest = await history(tenant, cursor=first["next_cursor"])
    assert rest["items"][0]["version"] == 3
    found = await difference(tenant, **{"from": 1, "to": 4})
    assert found["removed"] == ["column_0", "column_1", "column_2"]


@pytest.mark.parametrize("rest", ["", "/history", "/diff"])
async def test_another_organisation_has_no_such_dataset(shared: Server, tenant: Tenant, rest: str) -> None:
    await tenant.send_ok(seen(1, "a"))
    dataset_id = (await schema(tenant))["dataset"]["id"]
    other = await shared.add_tenant(f"Org {a_run_id()}")
    foreign, unknown = await ask(other, rest, dataset=dataset_id), await ask(other, rest, dataset=str(uuid4()))
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["hint"] == unknown.json()["hint"]


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"cursor": "nonsense"}])
async def test_a_wrong_page_is_refused_by_name(tenant: Tenant, query: Json) -> None:
    await tenant.send_ok(seen(1, "a"))
    response = await ask(tenant, "/history", **query)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [f"query.{name}" for name in query]


async def test_the_history_of_a_dropped_dataset_stays_readable(tenant: Tenant) -> None:
    dropped = a_dataset("t", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tenant.send_ok(seen(1, "a"), seen(2, "a", "b"), an_event(job="writer", time=at(3), outputs=[dropped]))
    dataset_id = (await schema(tenant))["dataset"]["id"]
    assert len((await history(tenant, dataset=dataset_id))["items"]) == 2


async def test_a_new_schema_that_a_batch_shows_twice_is_one_version(server: Server) -> None:
    def wrote(second: int, *columns: str) -> Json:
        fields = [{"name": name, "type": "int"} for name in columns]
        output = a_dataset("shown_twice", facets={"schema": a_facet(fields=fields)})
        return an_event(time=at(second), outputs=[output])

    batch = [wrote(1, "id"), wrote(2, "id", "extra"), wrote(3, "id", "extra")]
    assert (await server.client.post("/api/v1/lineage/batch", json=batch)).status_code == 200

    history = (await server.client.get("/api/v1/datasets/shown_twice/schema/history")).json()
    assert [each["change_type"] for each in history["items"]] == ["ADDED_COLUMN", "INITIAL"]
