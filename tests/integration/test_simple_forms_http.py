"""The simple JSON forms over HTTP: accepted with 202, and stored like any other event."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from headgate.openlineage.packing import unpack
from tests.conftest import Cluster
from tests.support.events import Json, a_run_id, at
from tests.support.ingest import METADATA, SCHEMA, an_observed_server, post
from tests.support.server import Server, Tenant
from tests.support.stored import Stored, moment


@pytest.fixture(scope="module")
async def observed(cluster: Cluster) -> AsyncIterator[tuple[Server, Stored]]:
    async with an_observed_server(cluster) as observed:
        yield observed


@pytest.fixture
async def tenant(observed: tuple[Server, Stored]) -> Tenant:
    """An organisation of the test's own."""
    return await observed[0].add_tenant(f"Org {a_run_id()}")


@pytest.fixture
async def stored(observed: tuple[Server, Stored], tenant: Tenant) -> Stored:
    return Stored(observed[1].db, tenant.organization_id)


async def send(tenant: Tenant, **payload: Any) -> Json:
    response = await post(tenant, METADATA, {"job_id": "app-1", **payload})
    assert response.status_code == 202, response.text
    answer: Json = response.json()
    return answer


async def send_schema(tenant: Tenant, table: str, *fields: Json, **payload: Any) -> Json:
    schemas = [{"dataset_name": table, "fields": list(fields)}]
    response = await post(tenant, SCHEMA, {"job_id": "capture", "schemas": schemas, **payload})
    assert response.status_code == 202, response.text
    answer: Json = response.json()
    return answer


async def runs(stored: Stored) -> list[dict[str, Any]]:
    return await stored.rows(
        """SELECT r.*, j.name AS job FROM job_runs r JOIN jobs j ON j.id = r.job_id
            WHERE r.organization_id = $1 ORDER BY r.started_at"""
    )


async def events_of(stored: Stored) -> list[Json]:
    return [json.loads(unpack(row["raw"])) for row in await stored.log()]


async def test_a_payload_of_nothing_but_a_job_id_is_a_run(tenant: Tenant, stored: Stored) -> None:
    answer = await send(tenant)
    assert (answer["datasets_processed"], answer["edges_created"]) == (0, 0)
    (run,) = await runs(stored)
    assert (run["job"], run["state"]) == ("app-1", "COMPLETE")


@pytest.mark.parametrize(
    ("status", "state"),
    [("Success", "COMPLETE"), ("Failed", "FAIL"), ("running", "RUNNING"), ("Killed", "ABORT"), (None, "COMPLETE")],
)
async def test_a_status_is_the_state_of_the_run(tenant: Tenant, stored: Stored, status: str | None, state: str) -> None:
    await send(tenant, status=status, job_name="nightly", started_at=at(0), ended_at=at(60), error_message="boom")
    (run,) = await runs(stored)
    assert (run["job"], run["state"], run["started_at"]) == ("nightly", state, moment(0))
    assert run["ended_at"] == (None if state == "RUNNING" else moment(60))
    assert run["error"] == ("boom" if state in ("FAIL", "ABORT") else None)


async def test_payloads_of_one_application_are_one_run(tenant: Tenant, stored: Stored) -> None:
    same = {"application_id": "application_1", "started_at": at(0)}
    await send(tenant, status="Running", timestamp=at(10), inputs=[{"name": "a"}], **same)
    await send(tenant, status="Success", ended_at=at(60), outputs=[{"name": "x"}], **same)
    (run,) = await runs(stored)
    assert (run["state"], run["application_id"]) == ("COMPLETE", "application_1")
    assert (len(run["input_ids"]), len(run["output_ids"])) == (1, 1)


async def test_a_payload_sent_twice_is_one_run_and_still_202(tenant: Tenant, stored: Stored) -> None:
    payload = {"application_id": "a-1", "ended_at": at(5), "inputs": [{"name": "a"}], "outputs": [{"name": "x"}]}
    first, again = await send(tenant, **payload), await send(tenant, **payload)
    assert (first["edges_created"], again["edges_created"]) == (1, 1)
    assert (len(await runs(stored)), len(await stored.log())) == (1, 1)


async def test_a_run_that_has_ended_otherwise_is_still_202(tenant: Tenant, stored: Stored) -> None:
    await send(tenant, application_id="a-1", status="Success", ended_at=at(5))
    await send(tenant, application_id="a-1", status="Failed", ended_at=at(9))
    (run,) = await runs(stored)
    assert run["state"] == "COMPLETE"
    assert [row["outcome"] for row in await stored.log()] == ["accepted", "refused"]


async def test_edges_are_stored_exactly_as_listed(tenant: Tenant, stored: Stored) -> None:
    answer = await send(
        tenant,
        job_name="nightly",
        inputs=[{"name": "a"}, {"name": "b"}],
        outputs=[{"name": "x"}, {"name": "y"}],
        lineage_edges=[
            {"source": "a", "target": "x"},
            {"source": "b", "target": "y", "job_name": "hourly"},
            {"source": "y", "target": "z"},
        ],
    )
    assert answer["edges_created"] == 3
    assert await stored.edge_pairs("nightly") == {("a", "x"), ("y", "z")}
    assert await stored.edge_pairs("hourly") == {("b", "y")}


async def test_without_edges_inputs_feed_outputs(tenant: Tenant, stored: Stored) -> None:
    answer = await send(tenant, inputs=[{"name": "a"}, {"name": "b"}], outputs=[{"name": "x"}])
    assert answer["edges_created"] == 2
    assert await stored.edge_pairs() == {("a", "x"), ("b", "x")}


async def test_an_edge_sent_again_is_the_same_edge(tenant: Tenant, stored: Stored) -> None:
    for second in (1, 2):
        await send(tenant, ended_at=at(second), lineage_edges=[{"source": "a", "target": "x"}])
    assert len(await stored.edges()) == 1


async def test_columns_are_stored_with_kind_and_expression(tenant: Tenant, stored: Stored) -> None:
    pair = {"source_table": "s", "source_column": "amount", "target_table": "t", "target_column": "total"}
    await send(
        tenant,
        column_lineage=[
            pair | {"transformation_type": "AGGREGATE", "expression": 'sum("amount")'},
            pair | {"source_column": "country", "target_column": "country"},
            pair | {"source_column": "id", "transformation_type": "JOIN"},
        ],
    )
    rows = {(row["source_column"], row["target_column"]): row for row in await stored.columns()}
    assert set(rows) == {("amount", "total"), ("country", "country"), ("id", "total")}
    kinds = {key: (row["kinds"][0]["type"], row["kinds"][0]["subtype"]) for key, row in rows.items()}
    assert kinds == {
        ("amount", "total"): ("DIRECT", "AGGREGATION"),
        ("country", "country"): ("DIRECT", "IDENTITY"),
        ("id", "total"): ("INDIRECT", "JOIN"),
    }
    assert rows[("amount", "total")]["expression"] == 'sum("amount")'
    assert await stored.edge_pairs() == {("s", "t")}


async def test_metrics_are_stored_with_their_partition(tenant: Tenant, stored: Stored) -> None:
    await send(
        tenant,
        ended_at=at(60),
        inputs=[{"name": "raw"}],
        outputs=[
            {"name": "lake:orders", "type": "File", "location": "s3a://lake/gold/orders/country=DE/dt=2026-03-01"}
        ],
        metrics={
            "lake:orders": {"row_count": 5, "byte_size": 50, "file_count": 2, "partition_count": 3},
            "raw": {"row_count": 9},
            "unnamed": {"partition_count": 4},
        },
    )
    rows = await stored.metrics()
    assert [
        (r["name"], r["direction"], r["row_count"], r["byte_size"], r["file_count"], r["partition_count"]) for r in rows
    ] == [
        ("gold/orders", "output", 5, 50, 2, 3),
        ("raw", "input", 9, None, None, None),
        ("unnamed", "output", None, None, None, 4),
    ]
    assert rows[0]["partition_key"] == "s3://lake/gold/orders/country=DE/dt=*"
    assert rows[0]["measured_at"] == moment(60)


async def test_execution_metrics_are_the_whole_runs_stage(tenant: Tenant, stored: Stored) -> None:
    await send(
        tenant,
        application_id="application_7",
        execution_metrics={
            "execution_time_ms": 900,
            "total_tasks": 8,
            "rows_read": 10,
            "jvm_gc_time_ms": 7,
            "odd": "x",
        },
        executor_memory_mb=2048,
        executor_cores=4,
    )
    (row,) = await stored.rows("SELECT * FROM stage_metrics WHERE organization_id = $1")
    (run,) = await runs(stored)
    assert (row["run_id"], row["stage_id"], row["attempt"]) == (run["run_id"], -1, 0)
    assert (row["duration_ms"], row["num_tasks"], row["input_records"], row["jvm_gc_time_ms"]) == (900, 8, 10, 7)
    assert json.loads(row["extra"]) == {"odd": "x", "executor_memory_mb": 2048, "executor_cores": 4}
    assert row["application_id"] == run["application_id"] == "application_7"


async def test_anomalies_travel_along_in_the_log(tenant: Tenant, stored: Stored) -> None:
    anomaly = {
        "dataset_name": "x",
        "anomaly_type": "RowCountDrop",
        "current_value": 1,
        "expected_value": 100.5,
        "threshold": 3,
        "message": "too few",
        "severity": "VERY BAD",
        "unheard_of": [1],
    }
    await send(tenant, outputs=[{"name": "x"}], anomalies=[anomaly])
    (event,) = await events_of(stored)
    (kept,) = event["run"]["facets"]["headgate_anomalies"]["anomalies"]
    assert kept == anomaly | {"dataset": {"namespace": "default", "name": "x"}}


async def test_the_payload_is_kept_in_full(tenant: Tenant, stored: Stored) -> None:
    payload = {"job_id": "j", "api_version": "1.0", "unknown": {"x": [1, None]}, "partition_key": "geo=DE"}
    await post(tenant, METADATA, payload)
    (event,) = await events_of(stored)
    assert event["run"]["facets"]["headgate_simple"]["payload"] == payload


async def test_the_partition_context_is_the_runs(tenant: Tenant, stored: Stored) -> None:
    await send(tenant, partition_key="country=DE", partition_context={"country": "DE", "hour": 7})
    (run,) = await runs(stored)
    assert json.loads(run["partition_context"]) == {"country": "DE", "hour": "7"}


async def test_types_and_locations_are_kept_when_less_is_told(tenant: Tenant, stored: Stored) -> None:
    declared = {"name": "orders", "type": "View", "catalog": "prod", "database": "shop"}
    await send(tenant, outputs=[declared], ended_at=at(1))
    name = (await stored.rows("SELECT name FROM datasets WHERE organization_id = $1"))[0]["name"]
    await send(tenant, outputs=[{"name": "orders", "catalog": "prod", "database": "shop"}], ended_at=at(2))
    assert (await stored.dataset(name))["type"] == "view"


async def test_a_schema_form_stores_a_version_with_its_run(tenant: Tenant, stored: Stored) -> None:
    answer = await send_schema(
        tenant,
        "crm.customers",
        {"name": "id", "data_type": "bigint", "nullable": False, "description": "key"},
        {"name": "name", "data_type": "string"},
        application_id="application_3",
        timestamp=at(5),
    )
    (version,) = await stored.versions("crm.customers")
    assert (answer["datasets_processed"], answer["edges_created"]) == (1, 0)
    assert json.loads(version["fields"]) == [
        {"name": "id", "type": "bigint", "nullable": False, "description": "key"},
        {"name": "name", "type": "string", "nullable": True, "description": None},
    ]
    assert (version["change_type"], version["valid_from"]) == ("INITIAL", moment(5))
    assert version["run_id"] is not None


async def test_schema_forms_tell_the_evolution_of_a_table(tenant: Tenant, stored: Stored) -> None:
    def field(name: str, kind: str = "string", nullable: bool = True) -> Json:
        return {"name": name, "data_type": kind, "nullable": nullable}

    steps: list[list[Json]] = [
        [field("id", "int", False), field("name"), field("age", "int", False)],
        [field("id", "int", False), field("name"), field("age", "int", False), field("email"), field("city")],
        [field("id", "int"), field("name"), field("age"), field("email"), field("city")],
        [field("id", "int", False), field("name"), field("age"), field("city")],
        [field("id", "int", False), field("name", nullable=False), field("age"), field("city")],
        [field("id", "int", False), field("name"), field("age", "int", False)],
    ]
    for second, fields in enumerate(steps):
        await send_schema(tenant, "demo_customers", *fields, timestamp=at(second))

    versions = await stored.versions("demo_customers")
    assert [(version["change_type"], version["breaking"]) for version in versions] == [
        ("INITIAL", False),
        ("ADDED_COLUMN", False),
        ("MIXED", True),
        ("MIXED", True),
        ("NULLABILITY", True),
        ("MIXED", True),
    ]
    assert versions[0]["schema_hash"] == versions[5]["schema_hash"]
    assert len([row for row in await stored.follow_ups("DETECT") if "schema_version" in row["payload"]]) == 5


async def test_a_schema_and_its_metadata_are_about_one_dataset(tenant: Tenant, stored: Stored) -> None:
    await send_schema(tenant, "s3a://lake/gold/orders/dt=2026-03-01", {"name": "id", "data_type": "int"})
    await send(tenant, outputs=[{"name": "orders", "location": "s3://lake/gold/orders/dt=2026-03-02"}])
    assert await stored.dataset_names() == {("s3://lake", "gold/orders")}


async def test_a_wrong_form_is_refused_with_every_reason_and_kept(tenant: Tenant, stored: Stored) -> None:
    body = {"inputs": [{"type": "Table"}], "metrics": {"x": {"row_count": -1}}, "ended_at": "soon"}
    response = await post(tenant, METADATA, body)
    paths = {error["path"] for error in response.json()["errors"]}
    assert (response.status_code, paths) == (422, {"job_id", "inputs[0].name", "metrics.x.row_count", "ended_at"})
    (kept,) = await stored.rows("SELECT route, body FROM refused_events WHERE organization_id = $1")
    assert (kept["route"], json.loads(kept["body"])) == (METADATA, body)
    assert await stored.log() == []


async def test_names_without_a_place_take_the_organisations_namespace(tenant: Tenant, stored: Stored) -> None:
    changed = await tenant.client.patch("/api/v1/organization", json={"settings": {"default_namespace": "warehouse"}})
    assert changed.status_code == 200, changed.text
    await send(tenant, outputs=[{"name": "orders"}])
    assert await stored.dataset_names() == {("warehouse", "orders")}
