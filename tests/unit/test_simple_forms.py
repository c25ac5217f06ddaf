"""The simple JSON forms: which events a payload becomes, and that nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headgate.openlineage.simple import Translated
from tests.support.simple_forms import (
    CUSTOMERS,
    CUSTOMERS_ID,
    FORMS,
    ORDERS,
    ORDERS_ID,
    RECEIVED,
    anomaly,
    as_body,
    bare,
    columns,
    edges_of,
    events_of,
    ids,
    metadata,
    run_event,
    run_id_of,
    schema,
)


def test_a_job_id_alone_is_a_finished_run_at_the_time_it_was_received() -> None:
    translated = metadata()

    (event,) = events_of(translated)
    assert event["eventType"] == "COMPLETE"
    assert event["eventTime"] == "2026-05-04T12:00:00Z"
    assert (event["job"]["namespace"], event["job"]["name"]) == ("house", "app-7")
    assert (event["inputs"], event["outputs"]) == ([], [])
    assert (translated.job_id, translated.datasets, translated.edges, translated.notes) == ("app-7", 0, 0, [])


def test_every_field_of_the_metadata_form_is_found_in_the_events() -> None:
    translated = metadata(
        api_version="1.0",
        job_name="nightly orders",
        application_id="application_9_0001",
        timestamp="2026-05-01T02:10:00Z",
        started_at="2026-05-01T02:00:00Z",
        ended_at="2026-05-01T02:09:30Z",
        status="Success",
        inputs=[CUSTOMERS],
        outputs=[ORDERS],
        lineage_edges=[{"source": "crm.customers", "target": "lake:orders"}],
        column_lineage=[
            {
                "source_table": "crm.customers",
                "source_column": "id",
                "target_table": "lake:orders",
                "target_column": "customer_id",
            }
        ],
        metrics={"lake:orders": {"row_count": 12, "byte_size": 3400, "file_count": 2, "partition_count": 1}},
        execution_metrics={"rows_written": 12, "jvm_gc_time_ms": 3},
        executor_memory_mb=2048,
        executor_cores=2,
        partition_key="country=DE",
        partition_context={"country": "DE"},
    )

    start, end = events_of(translated)
    assert (start["eventType"], start["eventTime"]) == ("START", "2026-05-01T02:00:00Z")
    assert (end["eventType"], end["eventTime"]) == ("COMPLETE", "2026-05-01T02:09:30Z")
    assert start["run"]["runId"] == end["run"]["runId"]
    assert end["job"]["name"] == "nightly orders"
    assert bare(end["job"]["facets"]["jobType"]) == {
        "processingType": "BATCH",
        "integration": "SPARK",
        "jobType": "JOB",
    }
    assert ids(end["inputs"]) == [CUSTOMERS_ID]
    assert ids(end["outputs"]) == [ORDERS_ID]
    assert edges_of(end) == {(CUSTOMERS_ID[1], ORDERS_ID[1])}
    assert bare(end["outputs"][0]["outputFacets"]["outputStatistics"]) == {
        "rowCount": 12,
        "size": 3400,
        "fileCount": 2,
        "partitionCount": 1,
    }
    assert bare(end["run"]["facets"]["headgate_execution"]) == {
        "metrics": {"rows_written": 12, "jvm_gc_time_ms": 3},
        "executorMemoryMb": 2048,
        "executorCores": 2,
        "applicationId": "application_9_0001",
    }
    assert bare(end["run"]["facets"]["headgate_partition"]) == {
        "key": "country=DE",
        "context": {"country": "DE"},
    }
    assert (translated.datasets, translated.edges, translated.notes) == (2, 1, [])


@FORMS
def test_the_whole_payload_is_kept_with_the_fields_nobody_knows(translate: Callable[..., Translated]) -> None:
    payload = {
        "job_id": "app-7",
        "schemas": [{"dataset_name": "t", "fields": [], "note": None}],
        "team": {"name": "Ärger", "size": 123456789012345678901234567890},
    }
    (event,) = events_of(translate(as_body(payload), default_namespace="house", received_at=RECEIVED))

    owner = event.get("run") or event["dataset"]
    kept = owner["facets"]["headgate_simple"]
    assert kept["payload"] == payload
    assert kept["form"] == ("metadata" if "run" in event else "schema")


def test_a_start_event_is_the_same_for_every_payload_of_a_run() -> None:
    known = {"application_id": "a-1", "started_at": "2026-05-01T02:00:00Z"}

    running = metadata(**known, status="Running", timestamp="2026-05-01T02:01:00Z")
    done = metadata(**known, status="Success", ended_at="2026-05-01T02:09:00Z", outputs=[ORDERS])

    assert running.events[0] == done.events[0]
    assert [e["eventType"] for e in events_of(running)] == ["START", "RUNNING"]
    assert [e["eventType"] for e in events_of(done)] == ["START", "COMPLETE"]


def test_the_end_is_taken_from_ended_at_then_timestamp_then_arrival() -> None:
    times = {"ended_at": "2026-05-01T03:00:00Z", "timestamp": "2026-05-01T04:00:00Z"}

    assert run_event(**times)["eventTime"] == "2026-05-01T03:00:00Z"
    assert run_event(timestamp=times["timestamp"])["eventTime"] == "2026-05-01T04:00:00Z"
    assert run_event(started_at="2026-05-01T01:00:00Z")["eventTime"] == "2026-05-04T12:00:00Z"


def test_a_job_that_ends_before_it_starts_keeps_its_times_and_says_so() -> None:
    translated = metadata(started_at="2026-10-25T02:50:00Z", ended_at="2026-10-25T02:10:00Z")

    assert [e["eventTime"] for e in events_of(translated)] == ["2026-10-25T02:50:00Z", "2026-10-25T02:10:00Z"]
    assert translated.notes == ["the job ends at 2026-10-25T02:10:00Z, before its start at 2026-10-25T02:50:00Z"]


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("2026-05-01T02:00:00", "2026-05-01T02:00:00Z"),
        ("2026-05-01 02:00:00.5", "2026-05-01T02:00:00.500000Z"),
        ("2026-05-01T02:00:00+02:00", "2026-05-01T00:00:00Z"),
        ("2026-05-01T02:00:00.123456789-0130", "2026-05-01T03:30:00.123456Z"),
        ("2026-05-01", "2026-05-01T00:00:00Z"),
    ],
    ids=["no zone is utc", "blank as separator", "offset", "nanoseconds and bare offset", "date"],
)
def test_times_are_read_in_every_iso_spelling(spelled: str, expected: str) -> None:
    assert run_event(ended_at=spelled)["eventTime"] == expected


@pytest.mark.parametrize(
    ("status", "event_type"),
    [
        (None, "COMPLETE"),
        ("Success", "COMPLETE"),
        ("SUCCESS", "COMPLETE"),
        ("succeeded", "COMPLETE"),
        (" Success ", "COMPLETE"),
        ("Failed", "FAIL"),
        ("RUNNING", "RUNNING"),
        ("Cancelled", "ABORT"),
        ("killed", "ABORT"),
    ],
    ids=str,
)
def test_status_becomes_the_event_type(status: str | None, event_type: str) -> None:
    assert run_event(status=status)["eventType"] == event_type


def test_a_failed_job_carries_its_error_message() -> None:
    event = run_event(status="Failed", error_message='Table "x"\nnot found')

    assert bare(event["run"]["facets"]["errorMessage"]) == {
        "message": 'Table "x"\nnot found',
        "programmingLanguage": "JAVA",
    }
    assert "errorMessage" not in run_event(status="Failed")["run"]["facets"]
    assert "errorMessage" not in run_event(status="Success", error_message="warning")["run"]["facets"]


def test_payloads_of_one_application_and_job_share_a_run() -> None:
    first = run_id_of(application_id="a-1", timestamp="2026-05-01T02:00:00Z")

    assert run_id_of(application_id="a-1", ended_at="2026-05-02T02:00:00Z", job_name="x") == first
    assert run_id_of(application_id="a-2", timestamp="2026-05-01T02:00:00Z") != first
    assert run_id_of(application_id="a-1", job_id="app-8") != first


def test_without_an_application_the_start_tells_runs_apart_in_any_spelling() -> None:
    first = run_id_of(started_at="2026-05-01T02:00:00Z", ended_at="2026-05-01T03:00:00Z")

    assert run_id_of(started_at="2026-05-01T04:00:00+02:00", timestamp="2026-05-01T03:30:00Z") == first
    assert run_id_of(started_at="2026-05-01T02:00:01Z", ended_at="2026-05-01T03:00:00Z") != first


def test_a_blank_application_is_none() -> None:
    start = "2026-05-01T02:00:00Z"

    assert run_id_of(application_id=" ", started_at=start) == run_id_of(started_at=start)


def test_a_repeated_job_id_without_application_and_start_is_another_run() -> None:
    by_stamp = run_id_of(job_id="query-7", timestamp="2026-05-01T02:00:00Z")

    assert run_id_of(job_id="query-7", timestamp="2026-05-01T02:00:00Z") == by_stamp
    assert run_id_of(job_id="query-7", timestamp="2026-05-01T02:00:01Z") != by_stamp
    assert run_id_of(job_id="query-7") != run_id_of(job_id="query-7", received_at=RECEIVED.replace(hour=13))


@pytest.mark.parametrize(
    "times",
    [
        {"timestamp": "2026-05-01T02:00:00Z"},
        {"ended_at": "2026-05-01T02:00:00Z"},
        {"started_at": "2026-05-01T01:00:00Z", "ended_at": "2026-05-01T02:00:00Z", "application_id": "a"},
    ],
    ids=["timestamp", "end", "start, end and application"],
)
def test_the_same_payload_gives_the_same_bytes_whenever_it_arrives(times: dict[str, str]) -> None:
    fields = {
        "inputs": [CUSTOMERS],
        "outputs": [ORDERS],
        "lineage_edges": [
            {"source": "crm.customers", "target": "lake:orders"},
            {"source": "a", "target": "b", "job_id": "z"},
        ],
        **times,
    }

    assert metadata(**fields).events == metadata(**fields, received_at=RECEIVED.replace(day=5)).events


def test_declared_datasets_carry_inferred_type_and_what_was_said_of_their_place() -> None:
    event = run_event(outputs=[ORDERS, {"name": "t", "database": "sales", "catalog": "hive", "type": "VIEW"}])

    orders, table = event["outputs"]
    assert orders["facets"]["datasetType"]["datasetType"] == "s3"
    assert bare(orders["facets"]["headgate_location"]) == {
        "location": ORDERS["location"],
        "declaredType": "File",
    }
    assert table["facets"]["datasetType"]["datasetType"] == "view"
    assert bare(table["facets"]["headgate_location"]) == {
        "database": "sales",
        "catalog": "hive",
        "declaredType": "VIEW",
    }


def test_metrics_of_a_name_that_is_neither_read_nor_written_make_it_an_output() -> None:
    event = run_event(inputs=[{"name": "a"}], metrics={"b": {"row_count": 0}, "c": None, "d": {}})

    assert ids(event["outputs"]) == [("house", "b"), ("house", "c"), ("house", "d")]
    assert bare(event["outputs"][0]["outputFacets"]["outputStatistics"]) == {"rowCount": 0}
    assert all("outputFacets" not in dataset for dataset in event["outputs"][1:])


def test_metrics_of_a_source_column_table_are_those_of_an_input() -> None:
    event = run_event(column_lineage=columns("DIRECT"), metrics={"s": {"byte_size": 9}})

    assert bare(event["inputs"][0]["inputFacets"]["inputStatistics"]) == {"size": 9}


def test_anomalies_travel_whole_with_the_dataset_they_mean() -> None:
    sent = [anomaly(severity="SPICY", model="m-1"), anomaly(dataset_name="lake:orders")]
    event = run_event(outputs=[ORDERS], anomalies=sent)

    first, second = event["run"]["facets"]["headgate_anomalies"]["anomalies"]
    assert first == {**sent[0], "dataset": {"namespace": "house", "name": "x"}}
    assert second["severity"] == "MEDIUM"
    assert ids([second["dataset"]]) == [ORDERS_ID]


def test_an_empty_post_has_no_execution_partition_or_anomaly_facet() -> None:
    assert set(run_event(application_id=" ", execution_metrics={})["run"]["facets"]) == {"headgate_simple"}


SCHEMA = {
    "dataset_name": "crm.customers",
    "fields": [
        {"name": "id", "data_type": "bigint", "nullable": False, "description": "key"},
        {"name": "tags", "data_type": "array<struct<k:string>>"},
    ],
    "version_hash": "c0ffee",
}


def test_each_schema_becomes_a_dataset_event() -> None:
    translated = schema(schemas=[SCHEMA, SCHEMA | {"dataset_name": "s3://lake/gold/orders/dt=2026-05-01"}])

    first, second = events_of(translated)
    assert ids([first["dataset"], second["dataset"]]) == [
        CUSTOMERS_ID,
        ("s3://lake", "gold/orders/dt=2026-05-01"),
    ]
    assert bare(first["dataset"]["facets"]["schema"]) == {
        "fields": [
            {"name": "id", "type": "bigint", "description": "key", "nullable": False},
            {"name": "tags", "type": "array<struct<k:string>>", "nullable": True},
        ]
    }
    assert (translated.job_id, translated.datasets, translated.edges) == ("capture-1", 2, 0)


def test_a_schema_knows_the_run_it_came_from_and_the_clients_hash() -> None:
    known = {"job_id": "app-7", "application_id": "a-1"}
    (event,) = events_of(schema(**known, schemas=[SCHEMA]))

    assert bare(event["dataset"]["facets"]["headgate_origin"]) == {
        "jobId": "app-7",
        "runId": run_id_of(**known),
        "clientHash": "c0ffee",
    }


def test_a_schema_event_happens_at_its_timestamp_or_on_arrival() -> None:
    (stamped,) = events_of(schema(schemas=[SCHEMA], timestamp="2026-05-01T02:00:00"))
    (unstamped,) = events_of(schema(schemas=[SCHEMA]))

    assert (stamped["eventTime"], unstamped["eventTime"]) == ("2026-05-01T02:00:00Z", "2026-05-04T12:00:00Z")


def test_a_stamped_schema_gives_the_same_bytes_whenever_it_arrives() -> None:
    fields = {"schemas": [SCHEMA], "timestamp": "2026-05-01T02:00:00Z"}

    assert schema(**fields).events == schema(RECEIVED.replace(day=9), **fields).events


def test_each_schema_event_keeps_its_own_part_of_the_payload() -> None:
    other = {"dataset_name": "other", "fields": [], "extra": 1}
    events = events_of(schema(schemas=[SCHEMA, other], team="x"))

    kept = [event["dataset"]["facets"]["headgate_simple"]["payload"] for event in events]
    assert [part["schemas"] for part in kept] == [[SCHEMA], [other]]
    assert {part["team"] for part in kept} == {"x"}


def test_a_payload_without_schemas_stores_nothing_and_says_so() -> None:
    translated = schema(schemas=[])

    assert (translated.events, translated.datasets) == ([], 0)
    assert len(translated.notes) == 1
