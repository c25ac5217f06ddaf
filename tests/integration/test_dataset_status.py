"""The state of many datasets in one request."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.support.events import a_dataset, a_facet, a_run_id, an_event, at
from tests.support.server import Server, Tenant

Json = dict[str, Any]


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def ids_of(tenant: Tenant) -> dict[str, str]:
    items = (await tenant.client.get("/api/v1/datasets", params={"dropped": True})).json()["items"]
    return {item["name"]: item["id"] for item in items}


async def status(tenant: Tenant, *ids: str) -> Json:
    response = await tenant.client.get("/api/v1/status", params={"ids": ",".join(ids)})
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def state(tenant: Tenant, name: str) -> str:
    (item,) = (await status(tenant, (await ids_of(tenant))[name]))["items"]
    found: str = item["state"]
    return found


def checked(name: str, *, success: bool) -> Json:
    found = [{"assertion": "unique", "success": success}]
    return a_dataset(name, inputFacets={"dataQualityAssertions": a_facet(assertions=found)})


async def test_every_field_is_there(tenant: Tenant) -> None:
    run = a_run_id()
    statistics = {"outputStatistics": a_facet(rowCount=3)}
    await tenant.send_ok(an_event(run=run, outputs=[a_dataset("t", outputFacets=statistics)]))
    dataset_id = (await ids_of(tenant))["t"]

    assert await status(tenant, dataset_id) == {
        "items": [
            {
                "id": dataset_id,
                "current_id": dataset_id,
                "state": "ok",
                "dropped": False,
                "last_updated": at(0),
                "failing_tests": 0,
                "last_run": {"run_id": run, "state": "COMPLETE", "ended_at": at(0)},
                "row_count": 3,
            }
        ],
        "missing": [],
    }


async def test_what_was_never_written_or_tested_is_unknown(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(inputs=[a_dataset("t")]))

    (item,) = (await status(tenant, (await ids_of(tenant))["t"]))["items"]

    assert (item["state"], item["last_updated"], item["last_run"], item["row_count"]) == ("unknown", None, None, None)


async def test_what_was_dropped_says_so_and_is_unknown_until_it_is_written_again(tenant: Tenant) -> None:
    dropped = a_dataset("t", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})
    await tenant.send_ok(
        an_event(job="load", outputs=[a_dataset("t")], time=at(0)),
        an_event(job="test", inputs=[checked("t", success=False)], time=at(10)),
        an_event(job="drop", outputs=[dropped], time=at(20)),
    )
    dataset_id = (await ids_of(tenant))["t"]

    (gone,) = (await status(tenant, dataset_id))["items"]
    await tenant.send_ok(an_event(job="load", outputs=[a_dataset("t")], time=at(30)))
    (back,) = (await status(tenant, dataset_id))["items"]

    assert (gone["state"], gone["dropped"], gone["last_updated"]) == ("unknown", True, at(0))
    assert (back["state"], back["dropped"], back["last_updated"]) == ("failing", False, at(30))


async def test_a_failing_test_makes_it_failing_until_it_passes(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(job="test", inputs=[checked("t", success=False)], time=at(0)))
    assert await state(tenant, "t") == "failing"

    await tenant.send_ok(an_event(job="test", inputs=[checked("t", success=True)], time=at(60)))
    assert await state(tenant, "t") == "ok"


async def test_a_run_that_failed_makes_it_failing_until_the_next(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[a_dataset("t")], time=at(0)), an_event("FAIL", outputs=[a_dataset("t")], time=at(60))
    )
    assert await state(tenant, "t") == "failing"

    await tenant.send_ok(an_event("START", outputs=[a_dataset("t")], time=at(120)))
    assert await state(tenant, "t") == "ok"
    await tenant.send_ok(an_event(outputs=[a_dataset("t")], time=at(180)))
    assert await state(tenant, "t") == "ok"


async def test_what_is_older_than_its_sla_is_stale(tenant: Tenant, db: asyncpg.Connection) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    await db.execute(
        "INSERT INTO freshness_sla (organization_id, dataset_id, sla_hours) SELECT organization_id, id, 1 FROM datasets"
    )
    assert await state(tenant, "t") == "stale"

    await tenant.send_ok(an_event("FAIL", outputs=[a_dataset("t")], time=at(60)))
    assert await state(tenant, "t") == "failing"


async def test_the_order_of_the_request_is_kept_and_each_id_answered_once(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset(name) for name in "abcdef"]))
    ids = await ids_of(tenant)
    wanted = [ids[name] for name in "fbdace"]

    given = {"ids": [",".join(wanted[:2]), wanted[2], f" {wanted[3]} ,,{wanted[0]}", ",".join(wanted[4:])]}
    response = await tenant.client.get("/api/v1/status", params=given)

    assert [item["id"] for item in response.json()["items"]] == wanted


async def test_unknown_and_foreign_ids_are_missing(server: Server) -> None:
    other = await server.add_tenant("Second")
    for tenant in (server.tenant, other):
        await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    mine, theirs, unknown = (await ids_of(server.tenant))["t"], (await ids_of(other))["t"], str(uuid4())

    found = await status(server.tenant, theirs, mine, unknown)

    assert [item["id"] for item in found["items"]] == [mine]
    assert found["missing"] == [theirs, unknown]


async def test_the_id_of_a_merged_dataset_shows_what_it_has_become(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(job="one", outputs=[a_dataset("a")], time=at(0)),
        an_event(job="two", outputs=[a_dataset("b")], time=at(60)),
    )
    ids = await ids_of(tenant)
    await tenant.client.post("/api/v1/dataset-merges", json={"one": ids["a"], "other": ids["b"]})

    (item,) = (await status(tenant, ids["b"]))["items"]

    assert (item["id"], item["current_id"], item["last_updated"]) == (ids["b"], ids["a"], at(60))


async def test_a_thousand_ids_are_answered_and_more_are_refused(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    known = (await ids_of(tenant))["t"]
    ids = [str(UUID(int=number)) for number in range(1, 1000)]

    found = await status(tenant, *ids, known)
    assert ([item["id"] for item in found["items"]], len(found["missing"])) == ([known], 999)
    response = await tenant.client.get("/api/v1/status", params={"ids": ",".join([*ids, known, known])})
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.ids"


async def test_what_is_no_id_is_refused(tenant: Tenant) -> None:
    for given in ({}, {"ids": ""}, {"ids": ","}, {"ids": "orders"}, {"ids": f"{uuid4()},x"}, {"ids": ["a"] * 50}):
        response = await tenant.client.get("/api/v1/status", params=given)
        assert response.status_code == 422, given
        assert response.json()["errors"][0]["path"] == "query.ids"
