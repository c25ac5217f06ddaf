"""One dataset with all that is known of it, what people write about it, and who may."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest

from tests.support.catalog import (
    LIST_FIELDS,
    Json,
    detail,
    listed,
    measured,
)
from tests.support.events import a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server, Tenant

DETAIL_FIELDS = {
    "aliases", "facets", "producers", "producer_count", "consumers", "consumer_count", "fields", "latest_run",
    "partition_keys", "merged_ids", "notes",
}  # fmt: skip


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def test_one_dataset_shows_all_that_is_known_of_it(tenant: Tenant) -> None:
    facets = {
        **with_schema(("id", "bigint", False), "country"),
        "documentation": a_facet(description="All orders."),
        "ownership": a_facet(owners=[{"name": "team:sales", "type": "OWNER"}, {"name": "ada"}]),
        "symlinks": a_facet(identifiers=[{"namespace": "hive://meta", "name": "shop.orders", "type": "TABLE"}]),
    }
    run = a_run_id()
    output = {**measured("orders/country=DE", 3, facets=facets), "namespace": "s3://lake"}
    await tenant.send_ok(
        an_event("START", run=run, job="load", time=at(0)),
        an_event("COMPLETE", run=run, job="load", outputs=[output], time=at(60)),
        an_event("FAIL", job="read", inputs=[a_dataset("orders", "s3://lake")], time=at(90)),
    )

    found = await detail(tenant, "lake:orders")

    assert set(found) == LIST_FIELDS | DETAIL_FIELDS
    assert found["description"] == "All orders."
    assert found["owners"] == ["team:sales", "ada"]
    assert [(alias["urn"], alias["source"]) for alias in found["aliases"]] == [("hive://meta/shop.orders", "symlink")]
    assert set(found["facets"]) == set(facets)
    assert found["facets"]["documentation"]["body"]["description"] == "All orders."
    assert found["facets"]["documentation"]["event_time"] == at(60)
    assert found["facets"]["documentation"]["job"]["name"] == "load"
    assert [(job["name"], job["last_seen_at"], job["last_completed_at"]) for job in found["producers"]] == [
        ("load", at(60), at(60))
    ]
    assert [(job["name"], job["last_seen_at"], job["last_completed_at"]) for job in found["consumers"]] == [
        ("read", at(90), None)
    ]
    assert (found["producer_count"], found["consumer_count"]) == (1, 1)
    assert found["fields"] == [
        {"name": "id", "type": "bigint", "nullable": False, "description": None, "tags": []},
        {"name": "country", "type": "string", "nullable": True, "description": None, "tags": []},
    ]
    latest = found["latest_run"]
    assert (latest["run_id"], latest["state"], latest["ended_at"], latest["job"]["name"]) == (
        run, "COMPLETE", at(60), "load",
    )  # fmt: skip
    assert found["partition_keys"] == ["s3://lake/orders/country=DE"]
    assert (found["merged_ids"], found["notes"]) == ([], None)


async def test_the_latest_run_is_the_one_that_tried_last(tenant: Tenant) -> None:
    failed = a_run_id()
    await tenant.send_ok(
        an_event(job="load", outputs=[a_dataset("t")], time=at(0)),
        an_event("START", run=failed, job="load", outputs=[a_dataset("t")], time=at(60)),
        an_event("FAIL", run=failed, job="load", time=at(90)),
        an_event(job="load", outputs=[a_dataset("other")], time=at(120)),
    )

    latest = (await detail(tenant, "t"))["latest_run"]

    assert (latest["run_id"], latest["state"]) == (failed, "FAIL")


@pytest.mark.parametrize("body", [{}, {"owners": "ada"}, {"owners": [1, {"name": 2}, {}, None]}, {"owners": {}}])
async def test_an_odd_ownership_facet_is_no_error(tenant: Tenant, body: Json) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets={"ownership": a_facet(**body)})]))

    assert [item["owners"] for item in await listed(tenant)] in ([[]], [["2"]])


async def test_notes_of_people_come_before_facets_until_they_are_taken_back(tenant: Tenant) -> None:
    facets = {"documentation": a_facet(description="From the facet."), "ownership": a_facet(owners=[{"name": "bot"}])}
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=facets)]))
    path = "/api/v1/datasets/t"

    response = await tenant.client.patch(path, json={"description": "By hand.", "owners": ["ada", "bob"]})
    assert response.status_code == 200
    assert set(response.json()) == LIST_FIELDS
    assert (response.json()["description"], response.json()["owners"]) == ("By hand.", ["ada", "bob"])
    later = facets | {"documentation": a_facet(description="Newer.")}
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=later)], time=at(60)))
    assert [(item["description"], item["owners"]) for item in await listed(tenant)] == [("By hand.", ["ada", "bob"])]

    await tenant.client.patch(path, json={"description": None})
    found = await detail(tenant, "t")
    assert (found["description"], found["owners"]) == ("Newer.", ["ada", "bob"])
    assert (found["notes"]["description"], found["notes"]["owners"]) == (None, ["ada", "bob"])
    await tenant.client.patch(path, json={"owners": []})
    assert (await detail(tenant, "t"))["owners"] == []
    await tenant.client.patch(path, json={"owners": None})
    found = await detail(tenant, "t")
    assert (found["owners"], found["notes"]) == (["bot"], None)


async def test_an_empty_change_changes_nothing(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))

    response = await tenant.client.patch("/api/v1/datasets/t", json={})

    assert response.status_code == 200
    assert (await detail(tenant, "t"))["notes"] is None


BAD_NOTES: list[Json] = [
    {"description": "x" * 10_001},
    {"description": 7},
    {"owners": "ada"},
    {"owners": [""]},
    {"owners": ["x" * 201]},
    {"owners": ["x"] * 101},
    {"color": "red"},
    {"description": "a\0b"},
]


async def test_a_wrong_note_is_refused(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))

    answers = [await tenant.client.patch("/api/v1/datasets/t", json=body) for body in BAD_NOTES]

    assert [answer.status_code for answer in answers] == [422] * len(BAD_NOTES)


async def test_notes_follow_a_merge_and_return(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("a")]), an_event(outputs=[a_dataset("b")]))
    ids = {item["name"]: item["id"] for item in await listed(tenant)}
    await tenant.client.patch("/api/v1/datasets/a", json={"owners": ["ada"]})
    await tenant.client.patch("/api/v1/datasets/b", json={"description": "Of b.", "owners": ["bob"]})
    merge = await tenant.client.post("/api/v1/dataset-merges", json={"one": ids["a"], "other": ids["b"]})

    found = await detail(tenant, "a")
    assert (found["description"], found["owners"]) == ("Of b.", ["ada"])

    await tenant.client.post(f"/api/v1/dataset-merges/{merge.json()['id']}/undo")
    found = [(item["description"], item["owners"]) for item in await listed(tenant)]
    assert found == [(None, ["ada"]), ("Of b.", ["bob"])]


async def test_other_organisations_datasets_are_as_if_there_were_none(server: Server) -> None:
    other = await server.add_tenant("Second")
    await server.tenant.send_ok(an_event(outputs=[a_dataset("mine")]))
    (mine,) = await listed(server.tenant)

    assert await listed(other) == []
    theirs = await other.client.get(f"/api/v1/datasets/{mine['id']}")
    unknown = await other.client.get(f"/api/v1/datasets/{uuid4()}")
    assert (theirs.status_code, unknown.status_code) == (404, 404)
    assert theirs.json()["hint"] == unknown.json()["hint"]
    for path in (f"/api/v1/datasets/{mine['id']}", "/api/v1/datasets/mine"):
        assert (await other.client.patch(path, json={"description": "x"})).status_code == 404
    assert (await detail(server.tenant, "mine"))["description"] is None


async def test_scopes(server: Server) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    reader = await a_key(server, ["read"])
    writer = await a_key(server, ["write"])
    paths = ("/api/v1/datasets", "/api/v1/datasets/t", "/api/v1/tags", f"/api/v1/status?ids={uuid4()}")

    async with server.anonymous() as client:
        assert [(await client.get(path)).status_code for path in paths] == [401] * 4
        assert [(await client.get(path, headers=reader)).status_code for path in paths] == [200] * 4
        assert [(await client.get(path, headers=writer)).status_code for path in paths] == [403] * 4
        change = {"description": "x"}
        assert (await client.patch("/api/v1/datasets/t", json=change, headers=reader)).status_code == 403
        assert (await client.patch("/api/v1/datasets/t", json=change, headers=writer)).status_code == 200
        assert (await client.put("/api/v1/datasets/t/tags/x", headers=reader)).status_code == 403


async def a_key(server: Server, scopes: Sequence[str]) -> dict[str, str]:
    async with server.anonymous() as client:
        login = {"email": server.tenant.email, "password": server.tenant.password}
        token = (await client.post("/api/v1/auth/login", json=login)).json()["token"]
        made = await client.post(
            "/api/v1/auth/api-keys",
            json={"name": "key", "scopes": list(scopes)},
            headers={"authorization": f"Bearer {token}"},
        )
    return {"authorization": f"Bearer {made.json()['key']}"}
