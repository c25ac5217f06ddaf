"""Tags of datasets and columns: people's, and those of the facet."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from tests.support.events import a_dataset, a_facet, an_event, at, with_schema
from tests.support.server import Server, Tenant

Json = dict[str, Any]


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def path(dataset: str, tag: str, column: str | None = None) -> str:
    of_column = "" if column is None else f"/columns/{quote(column, safe='')}"
    return f"/api/v1/datasets/{quote(dataset, safe='')}{of_column}/tags/{quote(tag, safe='')}"


async def put(tenant: Tenant, dataset: str, tag: str, column: str | None = None) -> int:
    return (await tenant.client.put(path(dataset, tag, column))).status_code


async def delete(tenant: Tenant, dataset: str, tag: str, column: str | None = None) -> int:
    return (await tenant.client.delete(path(dataset, tag, column))).status_code


async def detail(tenant: Tenant, dataset: str) -> Json:
    response = await tenant.client.get(f"/api/v1/datasets/{quote(dataset, safe='')}")
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def tags_of(tenant: Tenant, dataset: str) -> list[str]:
    tags: list[str] = (await detail(tenant, dataset))["tags"]
    return tags


async def column_tags(tenant: Tenant, dataset: str) -> dict[str, list[str]]:
    return {field["name"]: field["tags"] for field in (await detail(tenant, dataset))["fields"]}


async def counts(tenant: Tenant, **params: Any) -> list[tuple[str, int, int]]:
    response = await tenant.client.get("/api/v1/tags", params=params)
    assert response.status_code == 200, response.text
    return [(item["tag"], item["dataset_count"], item["column_count"]) for item in response.json()["items"]]


def tagged(name: str, *tags: Json) -> Json:
    return a_dataset(name, facets={"tags": a_facet(tags=list(tags))})


async def test_tags_come_and_go_and_asking_twice_is_no_error(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))

    assert [await put(tenant, "t", tag) for tag in ("pii", "gold", "pii")] == [204, 204, 204]
    assert await tags_of(tenant, "t") == ["gold", "pii"]
    assert [await delete(tenant, "t", "pii") for _ in range(2)] == [204, 204]
    assert await tags_of(tenant, "t") == ["gold"]


async def test_a_tag_may_hold_anything_that_can_be_read(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    odd = ["a b", "layer:gold", "a/b", "100%", "Größe", "数据", "#1", "?", "x" * 100, "\U0001f600"]

    for tag in odd:
        assert await put(tenant, "t", tag) == 204
    assert sorted(await tags_of(tenant, "t")) == sorted(odd)
    for tag in odd:
        assert [tag for tag, *_ in await counts(tenant)].count(tag) == 1
        assert (await tenant.client.get("/api/v1/datasets", params={"tag": tag})).json()["items"][0]["name"] == "t"
        assert await delete(tenant, "t", tag) == 204
    assert await tags_of(tenant, "t") == []


async def test_what_cannot_be_a_tag_is_refused(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))

    for tag in ("x" * 101, "a\nb", "a\x7f", "a\x85b", " a", "a ", " "):
        for response in (await tenant.client.put(path("t", tag)), await tenant.client.delete(path("t", tag))):
            assert response.status_code == 422, (tag, response.text)
            assert response.json()["errors"][0]["path"] == "path.tag"
    assert await counts(tenant) == []


async def test_columns_have_tags_of_their_own(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=with_schema("email", "a.b/c"))]))

    assert await put(tenant, "t", "pii", "email") == 204
    assert await put(tenant, "t", "odd", "a.b/c") == 204
    assert await column_tags(tenant, "t") == {"email": ["pii"], "a.b/c": ["odd"]}
    assert await tags_of(tenant, "t") == []
    assert await delete(tenant, "t", "pii", "email") == 204
    assert await column_tags(tenant, "t") == {"email": [], "a.b/c": ["odd"]}


async def test_a_column_that_the_schema_does_not_have_is_not_found(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[a_dataset("t", facets=with_schema("email", "name")), a_dataset("without_schema")])
    )

    response = await tenant.client.put(path("t", "pii", "emial"))

    assert response.status_code == 404
    assert response.json()["context"]["nearest"] == ["email"]
    assert await put(tenant, "without_schema", "pii", "anything") == 204


async def test_the_tag_of_a_lost_column_can_be_removed(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=with_schema("old", "new"))], time=at(0)))
    await put(tenant, "t", "pii", "old")
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=with_schema("new"))], time=at(60)))

    assert await delete(tenant, "t", "pii", "old") == 204
    assert await counts(tenant) == []


async def test_tags_of_the_facet_are_shown_as_key_and_value(tenant: Tenant) -> None:
    facet_tags = [
        {"key": "pii"},
        {"key": "gold", "value": "true", "source": "DBT"},
        {"key": "layer", "value": "raw"},
        {"key": "secret", "value": "yes", "field": "email"},
        {"key": "empty", "value": ""},
    ]
    schema = with_schema("email")
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets=schema | {"tags": a_facet(tags=facet_tags)})]))

    assert await tags_of(tenant, "t") == ["empty", "gold", "layer:raw", "pii"]
    assert await column_tags(tenant, "t") == {"email": ["secret:yes"]}


async def test_a_new_facet_replaces_the_old_ones_tags_and_leaves_peoples(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[tagged("t", {"key": "a"}, {"key": "b"})], time=at(0)))
    await put(tenant, "t", "mine")

    await tenant.send_ok(an_event(outputs=[tagged("t", {"key": "b"}, {"key": "c"})], time=at(60)))
    assert await tags_of(tenant, "t") == ["b", "c", "mine"]
    await tenant.send_ok(an_event(outputs=[tagged("t")], time=at(120)))
    assert await tags_of(tenant, "t") == ["mine"]


async def test_a_deleted_facet_takes_its_tags_along(tenant: Tenant) -> None:
    deleted = a_dataset("t", facets={"tags": a_facet(_deleted=True)})
    await tenant.send_ok(
        an_event(outputs=[tagged("t", {"key": "a"})], time=at(0)), an_event(outputs=[deleted], time=at(60))
    )

    assert await tags_of(tenant, "t") == []


async def test_an_older_facet_that_arrives_late_changes_no_tags(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(job="one", outputs=[tagged("t", {"key": "new"})], time=at(60)),
        an_event(job="two", outputs=[tagged("t", {"key": "old"})], time=at(0)),
    )

    assert await tags_of(tenant, "t") == ["new"]


@pytest.mark.parametrize(
    "tags",
    [
        "pii",
        {"key": "pii"},
        [1, None, "pii", []],
        [{"key": 7}, {"value": "x"}, {"key": ""}, {"key": " "}, {"key": None}],
        [{"key": "k" * 2000}, {"key": "k", "field": "f" * 5000}],
    ],
)
async def test_an_odd_facet_has_no_tags_and_stops_nothing(tenant: Tenant, tags: Any) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t", facets={"tags": a_facet(tags=tags)})]))

    found = await detail(tenant, "t")
    assert found["tags"] == []
    assert found["facets"]["tags"]["body"]["tags"] == tags


async def test_a_tag_of_the_facet_cannot_be_removed_here(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[tagged("t", {"key": "pii"}, {"key": "x", "field": "c"})]))

    for column, tag in ((None, "pii"), ("c", "x")):
        response = await tenant.client.delete(path("t", tag, column))
        assert response.status_code == 409
        assert "producer" in response.json()["hint"]
    assert await tags_of(tenant, "t") == ["pii"]


async def test_a_tag_given_by_both_is_one_tag_and_stays_when_the_facet_goes(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[tagged("t", {"key": "pii"})], time=at(0)))
    await put(tenant, "t", "pii")

    assert await tags_of(tenant, "t") == ["pii"]
    assert await counts(tenant) == [("pii", 1, 0)]
    await tenant.send_ok(an_event(outputs=[tagged("t")], time=at(60)))
    assert await tags_of(tenant, "t") == ["pii"]
    assert await delete(tenant, "t", "pii") == 204


async def test_tags_are_listed_with_how_often_they_are_used(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset(name) for name in ("a", "b", "c")]))
    for dataset in ("a", "b"):
        await put(tenant, dataset, "pii")
    for column in ("x", "y"):
        await put(tenant, "c", "pii", column)
    await put(tenant, "a", "Beta")
    await put(tenant, "c", "zeta", "x")

    assert await counts(tenant) == [("Beta", 1, 0), ("pii", 2, 2), ("zeta", 0, 1)]


async def test_pages_of_tags_show_each_once(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    wanted = ["A", "a", "a b", "ä", "b", "ü" * 100, "数"]
    for tag in wanted:
        await put(tenant, "t", tag)

    found, cursor = [], None
    while True:
        params: Json = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await tenant.client.get("/api/v1/tags", params=params)).json()
        found += [item["tag"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert found == sorted(wanted)


async def test_a_cursor_of_another_list_is_refused(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("a"), a_dataset("b")]))
    cursor = (await tenant.client.get("/api/v1/datasets", params={"limit": 1})).json()["next_cursor"]

    for wrong in (cursor, "garbage", cursor[:-4]):
        response = await tenant.client.get("/api/v1/tags", params={"cursor": wrong})
        assert response.status_code == 422
        assert response.json()["errors"][0]["path"] == "query.cursor"


async def test_tags_follow_a_merge_and_return(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(job="one", outputs=[tagged("a", {"key": "old"})], time=at(0)),
        an_event(job="two", outputs=[tagged("b", {"key": "new"})], time=at(60)),
    )
    ids = {name: (await detail(tenant, name))["id"] for name in ("a", "b")}
    for dataset, tag in (("a", "both"), ("b", "both"), ("b", "only_b")):
        await put(tenant, dataset, tag)
    merge = await tenant.client.post("/api/v1/dataset-merges", json={"one": ids["a"], "other": ids["b"]})
    assert merge.status_code == 201, merge.text

    assert await tags_of(tenant, "a") == ["both", "new", "only_b"]
    assert await counts(tenant) == [("both", 1, 0), ("new", 1, 0), ("only_b", 1, 0)]

    undone = await tenant.client.post(f"/api/v1/dataset-merges/{merge.json()['id']}/undo")
    assert undone.status_code == 200, undone.text
    assert await tags_of(tenant, "a") == ["both", "old"]
    assert await tags_of(tenant, "b") == ["both", "new", "only_b"]


async def test_a_tag_by_the_id_of_a_merged_dataset_is_the_survivors(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("a")]), an_event(outputs=[a_dataset("b")]))
    ids = {name: (await detail(tenant, name))["id"] for name in ("a", "b")}
    await tenant.client.post("/api/v1/dataset-merges", json={"one": ids["a"], "other": ids["b"]})

    assert await put(tenant, ids["b"], "pii") == 204
    assert await tags_of(tenant, "a") == ["pii"]


async def test_tags_stay_ones_own(server: Server, db: asyncpg.Connection) -> None:
    other = await server.add_tenant("Second")
    for tenant in (server.tenant, other):
        await tenant.send_ok(an_event(outputs=[tagged("t", {"key": "facet"})]))
    mine = (await detail(server.tenant, "t"))["id"]
    await put(server.tenant, "t", "secret")

    assert await counts(other) == [("facet", 1, 0)]
    assert [await put(other, mine, "x"), await delete(other, mine, "secret")] == [404, 404]
    assert await tags_of(server.tenant, "t") == ["facet", "secret"]
    assert await db.fetchval("SELECT count(*) FROM dataset_tags") == 3


async def test_who_tagged_is_kept_for_people_and_not_for_keys(tenant: Tenant, db: asyncpg.Connection) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    await put(tenant, "t", "by_key")
    login = {"email": tenant.email, "password": tenant.password}
    token = (await tenant.client.post("/api/v1/auth/login", json=login)).json()["token"]
    headers = {"authorization": f"Bearer {token}"}
    assert (await tenant.client.put(path("t", "by_user"), headers=headers)).status_code == 204

    rows = await db.fetch("SELECT tag, created_by IS NOT NULL AS is_known FROM dataset_tags ORDER BY tag")
    assert [tuple(row) for row in rows] == [("by_key", False), ("by_user", True)]
