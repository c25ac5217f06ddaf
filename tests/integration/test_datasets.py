"""Lists of datasets: what they show of each, and what filters leave."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.catalog import (
    LIST_FIELDS,
    a_shop,
    checked,
    detail,
    listed,
    measured,
    names,
)
from tests.support.events import a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def test_every_field_is_there_in_the_list(tenant: Tenant) -> None:
    await a_shop(tenant)

    items = await listed(tenant)

    assert all(set(item) == LIST_FIELDS for item in items)
    orders = next(item for item in items if item["name"] == "raw.orders")
    assert orders | {"id": None} == {
        "id": None,
        "namespace": "postgres://db",
        "name": "raw.orders",
        "urn": "postgres://db/raw.orders",
        "display_name": "raw.orders",
        "type": "table",
        "location": None,
        "description": None,
        "owners": [],
        "tags": [],
        "last_updated": at(180),
        "row_count": 12,
        "byte_size": 120,
        "upstream_count": 0,
        "downstream_count": 2,
        "column_count": None,
        "schema_version": None,
        "failing_tests": 0,
        "has_incident": False,
        "is_stale": False,
        "sla_hours": None,
        "external": False,
        "dropped": False,
        "first_seen_at": at(0),
    }


async def test_what_is_only_read_is_external_and_was_never_written(tenant: Tenant) -> None:
    await a_shop(tenant)

    geo = await detail(tenant, "geo")

    assert (geo["external"], geo["last_updated"], geo["row_count"], geo["producers"]) == (True, None, None, [])
    assert [job["name"] for job in geo["consumers"]] == ["sell"]


async def test_counts_of_neighbours_are_of_datasets_and_not_of_jobs(tenant: Tenant) -> None:
    await a_shop(tenant)
    again = an_event(job="sell_again", inputs=[a_dataset("raw.orders")], outputs=[a_dataset("mart.sales")])
    await tenant.send_ok(again)

    counts = {item["name"]: (item["upstream_count"], item["downstream_count"]) for item in await listed(tenant)}

    assert counts == {"raw.orders": (0, 2), "clean.orders": (1, 1), "geo": (0, 1), "mart.sales": (3, 0)}


async def test_the_first_write_already_has_its_rows(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[measured("t", 7, 70)]))

    assert [(item["row_count"], item["byte_size"], item["last_updated"]) for item in await listed(tenant)] == [
        (7, 70, at(0))
    ]


async def test_rows_follow_each_later_write(tenant: Tenant) -> None:
    seen = []
    for step in range(4):
        await tenant.send_ok(an_event(outputs=[measured("t", step * 10)], time=at(step)))
        (item,) = await listed(tenant)
        seen.append((item["row_count"], item["last_updated"]))

    assert seen == [(step * 10, at(step)) for step in range(4)]


async def test_a_write_that_arrives_late_changes_nothing(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[measured("t", 2)], time=at(60)),
        an_event(outputs=[measured("t", 2)], time=at(60)),
        an_event(outputs=[measured("t", 1)], time=at(0)),
    )

    (item,) = await listed(tenant)
    assert (item["row_count"], item["last_updated"]) == (2, at(60))


async def test_a_failed_run_does_not_count_as_a_write(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[measured("t", 5)], time=at(0)),
        an_event("FAIL", outputs=[a_dataset("t")], time=at(60)),
    )

    (item,) = await listed(tenant)
    assert (item["row_count"], item["last_updated"]) == (5, at(0))


async def test_rows_of_all_partitions_that_a_run_wrote_add_up(tenant: Tenant) -> None:
    parts = [
        {**measured(f"events/country={country}", rows, rows * 10), "namespace": "s3://lake"}
        for country, rows in (("DE", 3), ("FR", 4))
    ]
    run = a_run_id()
    await tenant.send_ok(
        an_event("RUNNING", run=run, outputs=parts[:1], time=at(0)),
        an_event("COMPLETE", run=run, outputs=parts[1:], time=at(60)),
    )

    (item,) = await listed(tenant)
    assert (item["name"], item["row_count"], item["byte_size"]) == ("events", 7, 70)


async def test_rows_that_no_column_can_hold_do_not_stop_anything(tenant: Tenant) -> None:
    most = 2**63 - 1
    parts = [{**measured(f"events/country={c}", most, most), "namespace": "s3://lake"} for c in ("DE", "FR")]
    await tenant.send_ok(an_event(outputs=parts))

    (item,) = await listed(tenant)
    assert (item["row_count"], item["byte_size"]) == (most, most)


async def test_a_profile_tells_the_rows_only_while_no_writer_does(tenant: Tenant) -> None:
    profile = a_dataset("t", inputFacets={"dataQualityMetrics": a_facet(rowCount=99, bytes=990, columnMetrics={})})
    await tenant.send_ok(an_event(job="check", inputs=[profile], time=at(0)))
    (item,) = await listed(tenant)
    assert (item["row_count"], item["byte_size"]) == (99, 990)

    await tenant.send_ok(
        an_event(job="load", outputs=[measured("t", 5)], time=at(60)),
        an_event(job="check", inputs=[profile], time=at(120)),
    )

    (item,) = await listed(tenant)
    assert (item["row_count"], item["byte_size"]) == (5, None)


async def test_a_later_profile_replaces_an_earlier_one(tenant: Tenant) -> None:
    for rows in (1, 2, 3):
        profile = a_dataset("t", inputFacets={"dataQualityMetrics": a_facet(rowCount=rows, columnMetrics={})})
        await tenant.send_ok(an_event(job="check", inputs=[profile], time=at(rows)))

    assert [item["row_count"] for item in await listed(tenant)] == [3]


async def test_schema_version_and_number_of_columns_are_the_current_ones(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[a_dataset("t", facets=with_schema("a"))], time=at(0)),
        an_event(outputs=[a_dataset("t", facets=with_schema("a", "b"))], time=at(60)),
    )

    (item,) = await listed(tenant)
    assert (item["schema_version"], item["column_count"]) == (2, 2)


async def test_namespace_filter_takes_any_spelling(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("a"), a_dataset("b", "s3a://lake")]))

    assert await names(tenant, namespace="postgres://db:5432") == ["a"]
    assert await names(tenant, namespace="postgres://DB") == ["a"]
    assert await names(tenant, namespace="s3://lake") == ["b"]
    assert await names(tenant, namespace="postgres://other") == []


@pytest.mark.parametrize("parameter", ["type", "dataset_type"])
async def test_type_filter(tenant: Tenant, parameter: str) -> None:
    view = a_dataset("v", facets={"datasetType": a_facet(datasetType="VIEW")})
    await tenant.send_ok(an_event(outputs=[a_dataset("a"), a_dataset("b", "s3://lake"), view]))

    assert await names(tenant, **{parameter: "view"}) == ["v"]
    assert await names(tenant, **{parameter: "S3"}) == ["b"]
    assert await names(tenant, **{parameter: "topic"}) == []


async def test_a_type_of_any_length_is_stored_and_listed(tenant: Tenant) -> None:
    endless = a_dataset("v", facets={"datasetType": a_facet(datasetType="x" * 5000)})
    await tenant.send_ok(an_event(outputs=[endless]))

    assert [(item["name"], len(item["type"])) for item in await listed(tenant)] == [("v", 5000)]


async def test_text_filter_finds_any_part_of_urn_or_display_name(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[a_dataset("shop.Orders"), a_dataset("x/orders_old", "s3://lake"), a_dataset("geo")])
    )

    assert await names(tenant, text="ORDERS") == ["shop.Orders", "x/orders_old"]
    assert await names(tenant, text="db/shop") == ["shop.Orders"]
    assert await names(tenant, text="lake:orders") == ["x/orders_old"]
    assert await names(tenant, text="%") == []
    assert await names(tenant, text="_") == ["x/orders_old"]
    assert await names(tenant, text="") == ["geo", "shop.Orders", "x/orders_old"]


async def test_tag_filter_looks_at_datasets_and_their_columns(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset(name) for name in ("a", "b", "c")]))
    await tenant.client.put("/api/v1/datasets/a/tags/pii")
    await tenant.client.put("/api/v1/datasets/c/columns/email/tags/pii")

    assert await names(tenant, tag="pii") == ["a", "c"]
    assert await names(tenant, tag="pii", sort="-name") == ["c", "a"]
    assert await names(tenant, tag="PII") == []


async def test_incident_filter_follows_the_latest_result_of_each_test(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(
            job="test", inputs=[checked("a", unique=False, not_null=False), checked("b", unique=True)], time=at(0)
        ),
    )
    (a, b) = await listed(tenant)
    assert (a["failing_tests"], a["has_incident"], b["failing_tests"], b["has_incident"]) == (2, True, 0, False)
    assert await names(tenant, has_incident=True) == ["a"]
    assert await names(tenant, has_incident=False) == ["b"]
    assert await names(tenant, has_incident=True, sort="-rows") == ["a"]

    await tenant.send_ok(an_event(job="test", inputs=[checked("a", unique=True)], time=at(60)))
    assert (await detail(tenant, "a"))["failing_tests"] == 1
    await tenant.send_ok(an_event(job="test", inputs=[checked("a", unique=False)], time=at(30)))
    assert (await detail(tenant, "a"))["failing_tests"] == 1
    await tenant.send_ok(an_event(job="test", inputs=[checked("a", not_null=True)], time=at(90)))
    assert await names(tenant, has_incident=True) == []


async def test_warnings_are_no_incident(tenant: Tenant) -> None:
    found = [{"assertion": "unique", "success": False, "severity": "warn"}]
    dataset = a_dataset("a", inputFacets={"dataQualityAssertions": a_facet(assertions=found)})
    await tenant.send_ok(an_event(job="test", inputs=[dataset]))

    assert [item["failing_tests"] for item in await listed(tenant)] == [0]


async def test_filters_add_up(tenant: Tenant) -> None:
    await a_shop(tenant)
    await tenant.client.put("/api/v1/datasets/raw.orders/tags/core")

    found = await names(tenant, namespace="postgres://db", type="table", tag="core", text="orders", has_incident=False)

    assert found == ["raw.orders"]
    assert await names(tenant, tag="core", text="clean") == []


DROP = {"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")}


async def test_dropped_datasets_are_listed_when_asked_for_and_readable_by_id(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[measured("a", 1), measured("b", 2)], time=at(0)),
        an_event(job="drop", outputs=[a_dataset("a", facets=DROP)], time=at(60)),
    )

    assert await names(tenant) == ["b"]
    assert [(item["name"], item["dropped"]) for item in await listed(tenant, dropped=True)] == [
        ("a", True),
        ("b", False),
    ]
    found = await detail(tenant, "a")
    assert (found["dropped"], found["row_count"]) == (True, 1)
    assert (await detail(tenant, found["id"]))["name"] == "a"


async def test_a_dropped_dataset_that_is_written_again_is_back(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(outputs=[a_dataset("a")], time=at(0)),
        an_event(job="drop", outputs=[a_dataset("a", facets=DROP)], time=at(60)),
        an_event(outputs=[a_dataset("a")], time=at(120)),
    )

    assert [(item["name"], item["dropped"]) for item in await listed(tenant)] == [("a", False)]


async def test_merged_datasets_are_never_listed_and_their_ids_lead_on(tenant: Tenant) -> None:
    await tenant.send_ok(
        an_event(job="one", outputs=[measured("a", 1)], time=at(0)),
        an_event(job="two", outputs=[measured("b", 2)], time=at(60)),
        an_event(job="read", inputs=[a_dataset("a"), a_dataset("b")], outputs=[a_dataset("c")], time=at(120)),
    )
    ids = {item["name"]: item["id"] for item in await listed(tenant)}
    merge = await tenant.client.post("/api/v1/dataset-merges", json={"one": ids["a"], "other": ids["b"]})

    assert await names(tenant, dropped=True) == ["a", "c"]
    found = await detail(tenant, ids["b"])
    assert (found["id"], found["merged_ids"]) == (ids["a"], [ids["b"]])
    assert (found["row_count"], found["last_updated"], found["downstream_count"]) == (2, at(60), 1)
    assert (await detail(tenant, "c"))["upstream_count"] == 1
    assert {"namespace": "postgres://db", "name": "b", "urn": "postgres://db/b", "source": "merge"} in found["aliases"]

    await tenant.client.post(f"/api/v1/dataset-merges/{merge.json()['id']}/undo")

    assert await names(tenant) == ["a", "b", "c"]
    parted = {item["name"]: (item["row_count"], item["last_updated"]) for item in await listed(tenant)}
    assert (parted["a"], parted["b"]) == ((1, at(0)), (2, at(60)))
    assert (await detail(tenant, "c"))["upstream_count"] == 2


async def test_an_empty_organisation_has_an_empty_list(tenant: Tenant) -> None:
    response = await tenant.client.get("/api/v1/datasets")

    assert response.json() == {"items": [], "next_cursor": None}


async def test_an_sla_tells_when_a_dataset_is_stale(tenant: Tenant, db: asyncpg.Connection) -> None:
    now = (await db.fetchval("SELECT now()")).isoformat()
    await tenant.send_ok(
        an_event(job="old", outputs=[a_dataset("late"), a_dataset("free")], time=at(0)),
        an_event(job="new", outputs=[a_dataset("fresh")], time=now),
    )
    for name in ("late", "fresh"):
        await an_sla(db, tenant, name, 24)

    found = {item["name"]: (item["is_stale"], item["sla_hours"]) for item in await listed(tenant)}

    assert found == {"late": (True, 24), "fresh": (False, 24), "free": (False, None)}


async def an_sla(db: asyncpg.Connection, tenant: Tenant, name: str, hours: float) -> None:
    await db.execute(
        "INSERT INTO freshness_sla (organization_id, dataset_id, sla_hours) "
        "SELECT organization_id, id, $3 FROM datasets WHERE organization_id = $1 AND name = $2",
        tenant.organization_id,
        name,
        hours,
    )
