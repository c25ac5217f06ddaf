"""Suggested alias rules: found from tested datasets without a producer, and good to be accepted as they are."""

from __future__ import annotations

from typing import Any

import asyncpg

from tests.support.events import Json, a_dataset, a_facet, an_event, at
from tests.support.server import Server, Tenant

RULES = "/api/v1/aliases"
SUGGESTIONS = f"{RULES}/suggestions"


async def checked(tenant: Tenant, *names: str, namespace: str = "postgres://replica") -> None:
    assertion = {"assertion": "not_null", "success": False, "column": "id"}
    facets = {"dataQualityAssertions": a_facet(assertions=[assertion])}
    inputs = [a_dataset(name, namespace, inputFacets=facets) for name in names]
    kind = {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")}
    await tenant.send_ok(an_event(job="checks", inputs=inputs, job_facets=kind, time=at(5)))


async def written(tenant: Tenant, *names: str, namespace: str = "postgres://db") -> None:
    await tenant.send_ok(an_event(job="load", outputs=[a_dataset(name, namespace) for name in names]))


async def suggestions(tenant: Tenant, **params: Any) -> list[Json]:
    response = await tenant.client.get(SUGGESTIONS, params=params)
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


async def test_a_tested_dataset_and_a_written_one_of_the_same_name_are_suggested_to_be_one(server: Server) -> None:
    await checked(server.tenant, "shop.orders")
    await written(server.tenant, "shop.orders", "shop.items")

    [item] = await suggestions(server.tenant)

    orphan, candidate = item.pop("orphan"), item.pop("candidate")
    assert (orphan["urn"], candidate["urn"]) == ("postgres://replica/shop.orders", "postgres://db/shop.orders")
    assert item == {
        "rule": {"pattern": "postgres://replica/shop.orders", "canonical": "postgres://db/shop.orders"},
        "resolves": 1,
        "confidence": "high",
        "reason": "both are named 'shop.orders', unlike any other written dataset",
    }


async def test_an_accepted_suggestion_resolves_its_orphans_and_goes_away(
    server: Server, db: asyncpg.Connection
) -> None:
    await checked(server.tenant, "shop.orders", "shop.items", "crm.people")
    await written(server.tenant, "shop.orders", "shop.items", "crm.people", "crm.visits")
    [item] = await suggestions(server.tenant)
    assert item["rule"] == {"pattern": "postgres://replica/{name}", "canonical": "postgres://db/{name}"}

    preview = (await server.client.post(f"{RULES}/preview", json=item["rule"])).json()
    made = await server.client.post(RULES, json=item["rule"])

    assert made.status_code == 201
    assert preview["orphans_fixed"] == item["resolves"] == 3
    assert [(orphan["urn"], orphan["target_urn"]) for orphan in preview["orphans"]] == [
        (f"postgres://replica/{name}", f"postgres://db/{name}") for name in ("crm.people", "shop.items", "shop.orders")
    ]
    assert await suggestions(server.tenant) == []
    orphans = await db.fetchval(
        """SELECT count(DISTINCT t.dataset_id) FROM test_results t
            WHERE NOT EXISTS (SELECT FROM job_datasets j WHERE j.dataset_id = t.dataset_id AND j.role = 'output')"""
    )
    assert orphans == 0


async def test_the_written_dataset_may_be_the_one_that_fits_the_pattern(server: Server) -> None:
    await checked(server.tenant, "shop.orders", namespace="postgres://db")
    await written(server.tenant, "shop.orders", namespace="postgres://replica")
    rule = {"pattern": "postgres://replica/{name}", "canonical": "postgres://db/{name}"}

    preview = (await server.client.post(f"{RULES}/preview", json=rule)).json()

    assert [orphan["urn"] for orphan in preview["orphans"]] == ["postgres://db/shop.orders"]


async def test_what_has_a_producer_or_no_tests_or_no_namesake_is_no_orphan_to_resolve(server: Server) -> None:
    await checked(server.tenant, "shop.alone")
    await checked(server.tenant, "shop.orders")
    await written(server.tenant, "shop.orders", namespace="postgres://replica")
    await written(server.tenant, "shop.orders")
    await server.tenant.send_ok(an_event(job="read", inputs=[a_dataset("shop.items", "postgres://replica")]))
    await written(server.tenant, "shop.items")

    assert await suggestions(server.tenant) == []


async def test_a_namesake_that_nobody_writes_is_no_candidate(server: Server) -> None:
    await checked(server.tenant, "shop.orders")
    await server.tenant.send_ok(an_event(job="read", inputs=[a_dataset("shop.orders", "postgres://db")]))

    assert await suggestions(server.tenant) == []


async def test_a_namesake_that_was_merged_away_is_no_candidate(server: Server, db: asyncpg.Connection) -> None:
    await checked(server.tenant, "shop.orders")
    await written(server.tenant, "shop.totals")
    await written(server.tenant, "shop.orders")
    ids = [str(row["id"]) for row in await db.fetch("SELECT id FROM datasets WHERE namespace = 'postgres://db'")]
    await server.client.post("/api/v1/dataset-merges", json={"one": ids[0], "other": ids[1]})

    assert await suggestions(server.tenant) == []


async def test_suggestions_come_by_page(server: Server) -> None:
    for number in range(3):
        await checked(server.tenant, f"a{number}.t{number}", namespace=f"postgres://from{number}")
        await written(server.tenant, f"b{number}.t{number}", namespace=f"postgres://to{number}")

    first = (await server.client.get(SUGGESTIONS, params={"limit": 2})).json()
    second = (await server.client.get(SUGGESTIONS, params={"limit": 2, "cursor": first["next_cursor"]})).json()

    shown = [item["orphan"]["name"] for item in first["items"] + second["items"]]
    assert shown == ["a0.t0", "a1.t1", "a2.t2"]
    assert second["next_cursor"] is None
    assert (await server.client.get(SUGGESTIONS, params={"cursor": "x"})).status_code == 422


async def test_suggestions_are_ones_own(server: Server) -> None:
    stranger = await server.add_tenant("Stranger")
    await checked(server.tenant, "shop.orders")
    await written(stranger, "shop.orders")

    assert await suggestions(server.tenant) == await suggestions(stranger) == []
