"""Alias rules: what they would merge, what they merge, and how that is taken back. And name patterns."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from headgate.domain.names import DEFAULT_PATTERNS
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.graphs import dump
from tests.support.server import Server

RULES = "/api/v1/aliases"
PATTERNS = "/api/v1/name-patterns"
MERGES = "/api/v1/dataset-merges"
REPLICA = {"pattern": "postgres://replica/shop.{table}", "canonical": "postgres://db/shop.{table}"}


def replica(table: str, **parts: Json) -> Json:
    return a_dataset(f"shop.{table}", "postgres://replica", **parts)


def master(table: str, **parts: Json) -> Json:
    return a_dataset(f"shop.{table}", "postgres://db", **parts)


def a_failed_test() -> Json:
    assertion = {"assertion": "not_null", "success": False, "column": "id"}
    return {"dataQualityAssertions": a_facet(assertions=[assertion])}


async def names_of(db: asyncpg.Connection) -> dict[str, tuple[UUID, str]]:
    rows = await db.fetch("SELECT namespace || '/' || name AS urn, dataset_id, source FROM dataset_aliases")
    return {row["urn"]: (row["dataset_id"], row["source"]) for row in rows}


async def urns_of(db: asyncpg.Connection) -> set[str]:
    """Own names of the datasets that were not merged away."""
    rows = await db.fetch("SELECT namespace || '/' || name AS urn FROM datasets WHERE merged_into IS NULL")
    return {row["urn"] for row in rows}


async def create(client: httpx.AsyncClient, **rule: Any) -> Any:
    response = await client.post(RULES, json=rule)
    assert response.status_code == 201, response.text
    return response.json()


async def test_preview_tells_what_a_rule_would_do_and_changes_nothing(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(job="load", outputs=[master("orders")], time=at(0)),
        an_event(job="test", inputs=[replica("orders", inputFacets=a_failed_test())], time=at(1)),
        an_event(job="read", inputs=[replica("items"), a_dataset("crm.people", "postgres://replica")], time=at(2)),
    )
    before = await dump(db, server.tenant.organization_id)

    response = await server.client.post(f"{RULES}/preview", json=REPLICA)

    body = response.json()
    assert response.status_code == 200
    counts = {name: body[name] for name in ("total", "datasets", "merges", "renames", "aliases", "orphans_fixed")}
    assert counts == {"total": 2, "datasets": 2, "merges": 1, "renames": 1, "aliases": 0, "orphans_fixed": 1}
    assert body["truncated"] is False
    assert [(orphan["urn"], orphan["target_urn"]) for orphan in body["orphans"]] == [
        ("postgres://replica/shop.orders", "postgres://db/shop.orders")
    ]
    assert [(change["kind"], change["urn"], change["target_urn"]) for change in body["changes"]] == [
        ("rename", "postgres://replica/shop.items", "postgres://db/shop.items"),
        ("merge", "postgres://replica/shop.orders", "postgres://db/shop.orders"),
    ]
    assert await dump(db, server.tenant.organization_id) == before
    assert (await server.client.get(RULES)).json() == {"items": [], "next_cursor": None}


async def test_rule_merges_datasets_into_the_one_that_has_the_target(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(job="read", inputs=[replica("orders")], outputs=[a_dataset("report")], time=at(0)),
        an_event(job="load", outputs=[master("orders")], time=at(1)),
    )
    older = (await names_of(db))["postgres://replica/shop.orders"][0]

    made = await create(server.client, **REPLICA)

    [change] = made["changes"]
    assert (change["kind"], made["merges"], made["rule"]["position"]) == ("merge", 1, 1)
    names = await names_of(db)
    assert names["postgres://db/shop.orders"] == (older, "primary")
    assert names["postgres://replica/shop.orders"] == (older, "rule")
    assert await urns_of(db) == {"postgres://db/shop.orders", "postgres://db/report"}
    [listed] = (await server.client.get(MERGES)).json()["items"]
    assert (listed["id"], listed["reason"], listed["rule_id"]) == (change["merge_id"], "rule", made["rule"]["id"])
    assert listed["survivor_urn"] == "postgres://db/shop.orders"


async def test_rule_gives_a_dataset_a_target_that_nobody_has(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[replica("orders")]))
    [(dataset_id, _)] = (await names_of(db)).values()

    made = await create(server.client, **REPLICA)

    assert (made["renames"], made["merges"]) == (1, 0)
    assert await names_of(db) == {
        "postgres://replica/shop.orders": (dataset_id, "rule"),
        "postgres://db/shop.orders": (dataset_id, "primary"),
    }
    assert await urns_of(db) == {"postgres://db/shop.orders"}
    [listed] = (await server.client.get(MERGES)).json()["items"]
    assert (listed["kind"], listed["merged_urn"]) == ("rename", "postgres://replica/shop.orders")


async def test_several_datasets_become_one_under_a_new_name(server: Server, db: asyncpg.Connection) -> None:
    for place, host in enumerate(("one", "two", "three")):
        await server.tenant.send_ok(an_event(outputs=[a_dataset("orders", f"postgres://{host}")], time=at(place)))

    made = await create(server.client, pattern="postgres://{host}/orders", canonical="warehouse/orders")

    assert (made["renames"], made["merges"]) == (1, 2)
    assert await urns_of(db) == {"warehouse/orders"}
    assert len({dataset_id for dataset_id, _ in (await names_of(db)).values()}) == 1


async def test_rule_holds_for_events_that_come_later(server: Server, db: asyncpg.Connection) -> None:
    await create(server.client, **REPLICA)

    await server.tenant.send_ok(an_event(outputs=[replica("orders")]), an_event(outputs=[master("orders")]))

    assert await urns_of(db) == {"postgres://db/shop.orders"}


async def test_name_that_a_rule_took_still_leads_to_the_dataset(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[replica("orders")]))
    made = await create(server.client, **REPLICA)
    await server.client.delete(f"{RULES}/{made['rule']['id']}")

    run = a_run_id()
    await server.tenant.send_ok(an_event(run=run, outputs=[replica("orders")], time=at(9)))

    dataset_id = (await names_of(db))["postgres://db/shop.orders"][0]
    assert await db.fetchval("SELECT output_ids FROM job_runs WHERE run_id = $1", UUID(run)) == [dataset_id]


async def test_removed_rule_takes_back_what_it_did(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(job="read", inputs=[replica("orders"), replica("items")], outputs=[a_dataset("out")], time=at(0)),
        an_event(job="load", outputs=[master("orders")], time=at(1)),
    )
    before = await dump(db, server.tenant.organization_id)
    made = await create(server.client, **REPLICA)
    assert made["total"] == 2

    response = await server.client.delete(f"{RULES}/{made['rule']['id']}", params={"undo": "true"})

    assert response.json() == {"id": made["rule"]["id"], "undone": 2}
    assert await dump(db, server.tenant.organization_id) == before
    assert (await server.client.get(RULES)).json()["items"] == []


async def test_removed_rule_leaves_no_gap(server: Server) -> None:
    rules = [(await create(server.client, pattern=f"a/{letter}", canonical=f"b/{letter}"))["rule"] for letter in "xyz"]

    assert (await server.client.delete(f"{RULES}/{rules[1]['id']}")).status_code == 200

    left = (await server.client.get(RULES)).json()["items"]
    assert [(rule["position"], rule["pattern"]) for rule in left] == [(1, "a/x"), (2, "a/z")]


async def test_rule_is_untouched_while_its_removal_waits_for_events(server: Server, db: asyncpg.Connection) -> None:
    rule_id = (await create(server.client, **REPLICA))["rule"]["id"]
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock(merge_lock($1))", server.tenant.organization_id)
        removing = asyncio.create_task(server.client.delete(f"{RULES}/{rule_id}"))
        done, _ = await asyncio.wait([removing], timeout=0.5)
        assert not done
        await db.execute("SELECT FROM alias_rules WHERE id = $1 FOR UPDATE NOWAIT", UUID(rule_id))

    assert (await asyncio.wait_for(removing, timeout=10)).status_code == 200


async def test_undone_rule_is_gone_with_what_it_did(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[replica("orders")]))
    before = await dump(db, server.tenant.organization_id)
    made = await create(server.client, **REPLICA)

    response = await server.client.post(f"{RULES}/{made['rule']['id']}/undo")

    assert response.json() == {"id": made["rule"]["id"], "undone": 1}
    assert await dump(db, server.tenant.organization_id) == before
    assert (await server.client.get(f"{RULES}/{made['rule']['id']}")).status_code == 404
    assert (await server.client.post(f"{RULES}/{made['rule']['id']}/undo")).status_code == 404


async def test_one_rule_can_be_read(server: Server) -> None:
    made = await create(server.client, **REPLICA)

    response = await server.client.get(f"{RULES}/{made['rule']['id']}")

    assert (response.status_code, response.json()) == (200, made["rule"])


async def test_changed_rule_takes_back_what_it_did_and_does_something_else(
    server: Server, db: asyncpg.Connection
) -> None:
    await server.tenant.send_ok(
        an_event(outputs=[replica("orders")], time=at(0)), an_event(inputs=[master("orders")], time=at(1))
    )
    made = await create(server.client, **REPLICA)
    assert await urns_of(db) == {"postgres://db/shop.orders"}

    body = {"pattern": "postgres://replica/{name}", "canonical": "postgres://copy/{name}"}
    response = await server.client.put(f"{RULES}/{made['rule']['id']}", json=body)

    changed = response.json()
    assert response.status_code == 200
    assert (changed["undone"], changed["merges"], changed["renames"]) == (1, 0, 1)
    assert changed["rule"] == {**made["rule"], **body}
    assert await urns_of(db) == {"postgres://db/shop.orders", "postgres://copy/shop.orders"}
    assert (await server.client.get(RULES)).json()["items"] == [changed["rule"]]


async def test_changed_rule_can_be_undone(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(outputs=[replica("orders")], time=at(0)), an_event(inputs=[master("orders")], time=at(1))
    )
    before = await dump(db, server.tenant.organization_id)
    made = await create(server.client, **REPLICA)
    other = {"pattern": "postgres://replica/{name}", "canonical": "postgres://copy/{name}"}
    for body in (other, REPLICA):
        await server.client.put(f"{RULES}/{made['rule']['id']}", json=body)

    undone = (await server.client.post(f"{RULES}/{made['rule']['id']}/undo")).json()["undone"]

    assert undone == 1
    assert await dump(db, server.tenant.organization_id) == before


async def test_rule_that_cannot_be_changed_stays_with_all_it_did(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(outputs=[replica("orders")]), an_event(outputs=[a_dataset("copy")], time=at(1))
    )
    made = await create(server.client, **REPLICA)
    ids = [str(row["id"]) for row in await db.fetch("SELECT id FROM datasets")]
    await server.client.post(MERGES, json={"one": ids[0], "other": ids[1]})
    before = await dump(db, server.tenant.organization_id)

    body = {"pattern": "postgres://replica/{name}", "canonical": "postgres://copy/{name}"}
    response = await server.client.put(f"{RULES}/{made['rule']['id']}", json=body)

    assert response.status_code == 409
    assert await dump(db, server.tenant.organization_id) == before
    assert (await server.client.get(RULES)).json()["items"] == [made["rule"]]


@pytest.mark.parametrize(
    ("moved", "position", "order"),
    [(0, 3, "bca"), (2, 1, "cab"), (1, None, "abc"), (0, 2, "bac"), (0, 999, "bca"), (2, 2, "acb")],
)
async def test_rule_can_be_moved(server: Server, moved: int, position: int | None, order: str) -> None:
    made = [await create(server.client, pattern=f"{name}/{{x}}", canonical=f"to/{name}/{{x}}") for name in "abc"]
    rule = made[moved]["rule"]

    body = {"pattern": rule["pattern"], "canonical": rule["canonical"], "position": position}
    response = await server.client.put(f"{RULES}/{rule['id']}", json=body)

    assert response.status_code == 200, response.text
    rules = (await server.client.get(RULES)).json()["items"]
    assert "".join(rule["pattern"][0] for rule in rules) == order
    assert [rule["position"] for rule in rules] == [1, 2, 3]


async def test_changed_rule_leaves_names_to_the_rules_before_it(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("x", "a"), a_dataset("y", "a")]))
    await create(server.client, pattern="a/x", canonical="first/x")
    made = await create(server.client, pattern="other/{name}", canonical="second/{name}")

    body = {"pattern": "a/{name}", "canonical": "second/{name}"}
    changed = (await server.client.put(f"{RULES}/{made['rule']['id']}", json=body)).json()

    assert [change["urn"] for change in changed["changes"]] == ["a/y"]
    assert await urns_of(db) == {"first/x", "second/y"}


async def test_rule_cannot_take_the_pattern_of_another(server: Server) -> None:
    first = await create(server.client, pattern="a/{x}", canonical="b/{x}")
    second = await create(server.client, pattern="c/{x}", canonical="d/{x}")

    body = {"pattern": "a/{x}", "canonical": "d/{x}"}
    response = await server.client.put(f"{RULES}/{second['rule']['id']}", json=body)

    assert response.status_code == 409
    assert first["rule"]["id"] in response.json()["hint"]


async def test_rule_that_is_not_there_can_be_neither_read_nor_changed(server: Server) -> None:
    stranger = await server.add_tenant("Stranger")
    theirs = (await create(stranger.client, **REPLICA))["rule"]["id"]

    for rule_id in (uuid4(), theirs):
        path = f"{RULES}/{rule_id}"
        answers = [
            await server.client.get(path),
            await server.client.put(path, json=REPLICA),
            await server.client.post(f"{path}/undo"),
        ]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert (await server.client.get(f"{RULES}/nonsense")).status_code == 422


async def test_rule_stays_when_what_it_did_cannot_be_undone(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        an_event(outputs=[replica("orders")]), an_event(outputs=[a_dataset("copy")], time=at(1))
    )
    made = await create(server.client, **REPLICA)
    ids = [str(row["id"]) for row in await db.fetch("SELECT id FROM datasets")]
    later = (await server.client.post(MERGES, json={"one": ids[0], "other": ids[1]})).json()

    response = await server.client.delete(f"{RULES}/{made['rule']['id']}", params={"undo": "true"})

    assert response.status_code == 409
    assert later["id"] in response.json()["hint"]
    assert len((await server.client.get(RULES)).json()["items"]) == 1


async def test_symlink_name_that_fits_a_rule_joins_its_dataset_to_the_target(
    server: Server, db: asyncpg.Connection
) -> None:
    link = {"namespace": "postgres://replica", "name": "shop.orders", "type": "TABLE"}
    path = a_dataset("orders", "s3://lake", facets={"symlinks": a_facet(identifiers=[link])})
    await server.tenant.send_ok(an_event(outputs=[path], time=at(0)), an_event(inputs=[master("orders")], time=at(1)))

    made = await create(server.client, **REPLICA)

    assert (made["merges"], made["renames"], made["aliases"]) == (1, 0, 0)
    assert len({dataset_id for dataset_id, _ in (await names_of(db)).values()}) == 1


async def test_symlink_name_that_fits_a_rule_adds_a_name_when_the_target_is_new(
    server: Server, db: asyncpg.Connection
) -> None:
    link = {"namespace": "postgres://replica", "name": "shop.orders", "type": "TABLE"}
    path = a_dataset("orders", "s3://lake", facets={"symlinks": a_facet(identifiers=[link])})
    await server.tenant.send_ok(an_event(outputs=[path]))

    made = await create(server.client, **REPLICA)

    assert made["aliases"] == 1
    assert await urns_of(db) == {"s3://lake/orders"}
    assert (await names_of(db))["postgres://db/shop.orders"][1] == "rule"


async def test_catalog_name_can_be_preferred_over_the_path(server: Server, db: asyncpg.Connection) -> None:
    link = {"namespace": "hive://meta", "name": "shop.orders", "type": "TABLE"}
    path = a_dataset("warehouse/orders", "s3://lake", facets={"symlinks": a_facet(identifiers=[link])})
    await server.tenant.send_ok(an_event(inputs=[a_dataset("shop.orders", "hive://meta")], time=at(0)))
    await server.tenant.send_ok(an_event(outputs=[path], time=at(1)))
    before = await dump(db, server.tenant.organization_id)

    made = await create(server.client, pattern="s3://lake/warehouse/{table}", canonical="hive://meta/shop.{table}")

    assert await urns_of(db) == {"hive://meta/shop.orders"}
    await server.client.delete(f"{RULES}/{made['rule']['id']}", params={"undo": "true"})
    assert await dump(db, server.tenant.organization_id) == before


async def test_first_rule_that_fits_decides(server: Server, db: asyncpg.Connection) -> None:
    await create(server.client, pattern="a/{name}", canonical="late/{name}")
    await create(server.client, pattern="a/x", canonical="early/x", position=1)

    rules = (await server.client.get(RULES)).json()["items"]
    await server.tenant.send_ok(an_event(outputs=[a_dataset("x", "a"), a_dataset("y", "a")]))

    assert [(rule["position"], rule["pattern"]) for rule in rules] == [(1, "a/x"), (2, "a/{name}")]
    assert await urns_of(db) == {"early/x", "late/y"}


async def test_rule_leaves_names_to_the_rules_before_it(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("x", "a"), a_dataset("y", "a")]))
    await create(server.client, pattern="a/x", canonical="first/x")

    made = await create(server.client, pattern="a/{name}", canonical="second/{name}")

    assert [change["urn"] for change in made["changes"]] == ["a/y"]
    assert await urns_of(db) == {"first/x", "second/y"}


async def test_rules_are_listed_by_page_in_their_order(server: Server) -> None:
    for number in range(5):
        await create(server.client, pattern=f"a/{number}", canonical=f"b/{number}", position=1)

    first = (await server.client.get(RULES, params={"limit": 3})).json()
    second = (await server.client.get(RULES, params={"limit": 3, "cursor": first["next_cursor"]})).json()

    assert [rule["pattern"] for rule in first["items"] + second["items"]] == [f"a/{n}" for n in (4, 3, 2, 1, 0)]
    assert second["next_cursor"] is None


async def test_same_pattern_twice_is_a_conflict(server: Server) -> None:
    made = await create(server.client, **REPLICA)

    response = await server.client.post(RULES, json={**REPLICA, "canonical": "other/{table}"})

    assert response.status_code == 409
    assert made["rule"]["id"] in response.json()["hint"]


@pytest.mark.parametrize("path", [RULES, f"{RULES}/preview"], ids=["create", "preview"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"pattern": "a/{x", "canonical": "b/x"}, "pattern"),
        ({"pattern": "a/{x}", "canonical": "b/{y}"}, "canonical"),
        ({"pattern": "a/{x}"}, "canonical"),
        ({**REPLICA, "position": 0}, "position"),
        ({"pattern": "a\0/{x}", "canonical": "b/{x}"}, "pattern"),
        ({"pattern": "x" * 501, "canonical": "b/x"}, "pattern"),
        ({**REPLICA, "more": 1}, "more"),
    ],
    ids=["bad pattern", "unknown variable", "no canonical", "no position", "NUL", "too long", "unknown field"],
)
async def test_rule_that_is_wrong_is_refused_with_the_field(server: Server, path: str, body: Json, field: str) -> None:
    response = await server.client.post(path, json=body)

    problem = response.json()
    assert response.status_code == 422
    assert [error["path"] for error in problem["errors"]] == [field]
    assert problem["hint"]


async def test_rule_that_is_not_there_cannot_be_removed(server: Server) -> None:
    assert (await server.client.delete(f"{RULES}/{uuid4()}")).status_code == 404


async def test_rules_of_one_organisation_mean_nothing_to_another(server: Server, db: asyncpg.Connection) -> None:
    stranger = await server.add_tenant("Stranger")
    await stranger.send_ok(an_event(outputs=[replica("orders")]))
    made = await create(server.client, **REPLICA)
    await stranger.send_ok(an_event(outputs=[replica("items")], time=at(1)))

    assert made["total"] == 0
    assert (await stranger.client.get(RULES)).json()["items"] == []
    assert (await stranger.client.delete(f"{RULES}/{made['rule']['id']}")).status_code == 404
    assert await urns_of(db) == {"postgres://replica/shop.orders", "postgres://replica/shop.items"}


async def test_long_preview_is_cut_but_counted(server: Server) -> None:
    outputs = [replica(f"t{number}") for number in range(1100)]
    await server.tenant.send_ok(an_event(outputs=outputs))

    body = (await server.client.post(f"{RULES}/preview", json=REPLICA)).json()

    assert (body["total"], len(body["changes"]), body["truncated"]) == (1100, 1000, True)


async def key_with(server: Server, *scopes: str) -> httpx.AsyncClient:
    """A client with a key of just these scopes."""
    anyone = server.anonymous()
    login = {"email": server.tenant.email, "password": server.tenant.password}
    token = (await anyone.post("/api/v1/auth/login", json=login)).json()["token"]
    anyone.cookies.clear()
    made = await anyone.post(
        "/api/v1/auth/api-keys",
        json={"name": "k", "scopes": scopes},
        headers={"authorization": f"Bearer {token}"},
    )
    anyone.headers["authorization"] = f"Bearer {made.json()['key']}"
    return anyone


ROUTES = [
    ("GET", RULES, None, "read"),
    ("POST", f"{RULES}/preview", REPLICA, "read"),
    ("POST", RULES, REPLICA, "write"),
    ("GET", f"{RULES}/suggestions", None, "read"),
    ("GET", f"{RULES}/{UUID(int=1)}", None, "read"),
    ("PUT", f"{RULES}/{UUID(int=1)}", REPLICA, "write"),
    ("POST", f"{RULES}/{UUID(int=1)}/undo", None, "write"),
    ("DELETE", f"{RULES}/{UUID(int=1)}", None, "write"),
    ("GET", MERGES, None, "read"),
    ("POST", MERGES, {"one": str(UUID(int=1)), "other": str(UUID(int=2))}, "write"),
    ("POST", f"{MERGES}/{UUID(int=1)}/undo", None, "write"),
    ("GET", PATTERNS, None, "read"),
    ("PUT", f"{PATTERNS}/own", {"regex": "x", "kind": "time"}, "admin"),
    ("DELETE", f"{PATTERNS}/own", None, "admin"),
]


@pytest.mark.parametrize("granted", ["read", "write", "admin", "ingest"])
async def test_every_route_needs_its_scope(server: Server, granted: str) -> None:
    client = await key_with(server, granted)
    for method, path, body, needed in ROUTES:
        response = await client.request(method, path, json=body)
        assert (response.status_code == 403) == (granted != needed), (method, path, response.status_code)

    for method, path, body, _ in ROUTES:
        assert (await server.anonymous().request(method, path, json=body)).status_code == 401


async def test_patterns_are_the_defaults_until_the_organisation_sets_its_own(server: Server) -> None:
    listed = (await server.client.get(PATTERNS)).json()
    assert [item["name"] for item in listed["items"]] == [pattern.name for pattern in DEFAULT_PATTERNS.items]
    assert {item["source"] for item in listed["items"]} == {"default"}

    changed = {"regex": "[A-Z]{2}", "kind": "geo", "enabled": False}
    response = await server.client.put(f"{PATTERNS}/country", json=changed)
    assert (response.status_code, response.json()) == (200, {"name": "country", **changed, "source": "organization"})
    added = (await server.client.put(f"{PATTERNS}/shard", json={"regex": "shard-[0-9]{1,3}", "kind": "region"})).json()

    items = {item["name"]: item for item in (await server.client.get(PATTERNS)).json()["items"]}
    assert len(items) == len(DEFAULT_PATTERNS.items) + 1
    assert items["shard"] == added
    assert items["country"] == response.json()


async def test_pattern_of_the_organisation_decides_what_a_name_is(server: Server, db: asyncpg.Connection) -> None:
    await server.client.put(f"{PATTERNS}/shard", json={"regex": "shard-[0-9]{1,3}", "kind": "region"})
    await server.tenant.send_ok(an_event(outputs=[a_dataset("orders/shard-7", "s3://lake")]))
    assert await urns_of(db) == {"s3://lake/orders"}

    assert (await server.client.delete(f"{PATTERNS}/shard")).status_code == 204
    await server.tenant.send_ok(an_event(outputs=[a_dataset("orders/shard-8", "s3://lake")], time=at(1)))
    assert await urns_of(db) == {"s3://lake/orders", "s3://lake/orders/shard-8"}


async def test_reset_pattern_is_the_default_again(server: Server) -> None:
    await server.client.put(f"{PATTERNS}/country", json={"regex": "X", "kind": "geo"})

    assert [(await server.client.delete(f"{PATTERNS}/country")).status_code for _ in range(2)] == [204, 204]
    assert (await server.client.delete(f"{PATTERNS}/nothing")).status_code == 404
    items = (await server.client.get(PATTERNS)).json()["items"]
    assert {item["source"] for item in items} == {"default"}


async def test_patterns_are_listed_by_page(server: Server) -> None:
    first = (await server.client.get(PATTERNS, params={"limit": 10})).json()
    rest = (await server.client.get(PATTERNS, params={"limit": 10, "cursor": first["next_cursor"]})).json()

    names = [item["name"] for item in first["items"] + rest["items"]]
    assert names == [pattern.name for pattern in DEFAULT_PATTERNS.items]
    assert rest["next_cursor"] is None
    assert (await server.client.get(PATTERNS, params={"cursor": "x"})).status_code == 422


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("own", {"regex": "(", "kind": "time"}, "regex"),
        ("own", {"regex": "(a+)+", "kind": "time"}, "regex"),
        ("own", {"regex": "(?P<x>a)", "kind": "time"}, "regex"),
        ("own", {"regex": "a", "kind": "weather"}, "kind"),
        ("own", {"regex": "", "kind": "time"}, "regex"),
        ("Not%20a%20name", {"regex": "a", "kind": "time"}, "path.name"),
    ],
    ids=["no regex", "slow regex", "named group", "unknown kind", "empty", "bad name"],
)
async def test_pattern_that_is_wrong_is_refused_with_the_field(
    server: Server, name: str, body: Json, field: str
) -> None:
    response = await server.client.put(f"{PATTERNS}/{name}", json=body)

    problem = response.json()
    assert response.status_code == 422
    assert [error["path"] for error in problem["errors"]] == [field]
    assert problem["hint"]
