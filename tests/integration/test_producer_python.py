"""The official Python client against a running server, and events that it really sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
import requests
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    Dataset,
    DatasetEvent,
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
    StaticDataset,
)
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
    symlinks_dataset,
    test_run,
)

from tests.conftest import Cluster
from tests.support import produced
from tests.support.events import T0
from tests.support.golden import golden
from tests.support.live import Live, live_server
from tests.support.up import wait_until

PRODUCER = "https://github.com/example/pipelines"
NAMESPACE = "py"
DATABASE, LAKE = "postgres://db:5432", "s3://shop-lake"
# The port is the default one, so it is no part of a dataset's identity.
RAW, VIEW, ORDERS = "postgres://db/shop.public.raw_orders", "postgres://db/shop.public.orders_view", f"{LAKE}/orders"

LOAD, RELOAD, FAILED, STOPPED, WAITING, WORKING, CHECK, DAG, ROOT = (
    UUID(f"01a1e059-0000-7000-8000-{number:012x}") for number in range(9)
)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def run_event(
    state: RunState,
    run: UUID,
    seconds: float,
    *,
    job: str = "load_orders",
    facets: dict[str, Any] | None = None,
    job_facets: dict[str, Any] | None = None,
    inputs: Sequence[Dataset] = (),
    outputs: Sequence[Dataset] = (),
) -> RunEvent:
    return RunEvent(
        eventType=state,
        eventTime=at(seconds).isoformat(),
        run=Run(runId=str(run), facets=facets or {}),
        job=Job(namespace=NAMESPACE, name=job, facets=job_facets or {}),
        inputs=list(inputs),
        outputs=list(outputs),
        producer=PRODUCER,
    )


def schema_of(*columns: tuple[str, str]) -> dict[str, Any]:
    fields = [schema_dataset.SchemaDatasetFacetFields(name=name, type=type_) for name, type_ in columns]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=fields)}


def source(field: str, type_: str, subtype: str, *, masking: bool | None = None) -> column_lineage_dataset.InputField:
    kind = column_lineage_dataset.Transformation(type=type_, subtype=subtype, masking=masking)
    return column_lineage_dataset.InputField(DATABASE, "shop.public.raw_orders", field, [kind])


def column_lineage() -> dict[str, Any]:
    fields = {
        "id": column_lineage_dataset.Fields([source("id", "DIRECT", "IDENTITY")]),
        "total": column_lineage_dataset.Fields([source("amount", "DIRECT", "AGGREGATION")]),
        "email": column_lineage_dataset.Fields([source("email", "DIRECT", "TRANSFORMATION", masking=True)]),
    }
    whole = [source("status", "INDIRECT", "FILTER")]
    return {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields, dataset=whole)}


def raw_orders(**input_facets: Any) -> InputDataset:
    return InputDataset(DATABASE, "shop.public.raw_orders", inputFacets=input_facets)


def orders(facets: dict[str, Any], **output_facets: Any) -> OutputDataset:
    return OutputDataset(LAKE, "orders", facets=facets, outputFacets=output_facets)


def a_load() -> list[RunEvent]:
    """One run from START to COMPLETE, started by a DAG that somebody else runs."""
    parent = parent_run.ParentRunFacet(
        run=parent_run.Run(runId=str(DAG)),
        job=parent_run.Job(namespace="airflow", name="nightly.load"),
        root=parent_run.Root(
            run=parent_run.RootRun(runId=str(ROOT)), job=parent_run.RootJob(namespace="airflow", name="nightly")
        ),
    )
    read = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=120, size=4096, fileCount=1)
    written = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=100, size=2048, fileCount=2)
    facets = schema_of(("id", "bigint"), ("total", "double")) | column_lineage()
    return [
        run_event(RunState.START, LOAD, 0, facets={"parent": parent}, inputs=[raw_orders()]),
        run_event(RunState.RUNNING, LOAD, 5, facets={"parent": parent}),
        run_event(
            RunState.COMPLETE,
            LOAD,
            10,
            facets={"parent": parent},
            inputs=[raw_orders(inputStatistics=read)],
            outputs=[orders(facets, outputStatistics=written)],
        ),
    ]


def a_load_with_another_column() -> list[RunEvent]:
    facets = schema_of(("id", "bigint"), ("total", "double"), ("email", "string")) | column_lineage()
    return [
        run_event(RunState.START, RELOAD, 20),
        run_event(RunState.COMPLETE, RELOAD, 30, inputs=[raw_orders()], outputs=[orders(facets)]),
    ]


def runs_that_do_not_complete() -> list[RunEvent]:
    error = error_message_run.ErrorMessageRunFacet(
        message="disk full", programmingLanguage="python", stackTrace="at load.py:7"
    )
    return [
        run_event(RunState.START, FAILED, 40),
        run_event(RunState.FAIL, FAILED, 41, facets={"errorMessage": error}),
        run_event(RunState.START, STOPPED, 50),
        run_event(RunState.ABORT, STOPPED, 51),
        run_event(RunState.OTHER, WAITING, 60),
        run_event(RunState.START, WORKING, 70),
        run_event(RunState.RUNNING, WORKING, 71),
    ]


def a_check() -> list[RunEvent]:
    """Assertions on what was written, and a test that only the run knows of."""

    def assertion(column: str, success: bool, severity: str) -> data_quality_assertions_dataset.Assertion:
        return data_quality_assertions_dataset.Assertion(
            assertion="not_null", success=success, column=column, severity=severity, expected="0", actual="3"
        )

    asserted = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
        assertions=[assertion("id", True, "error"), assertion("email", False, "warn")]
    )
    execution = test_run.TestExecution(name="totals_add_up", status="fail", severity="error", expected="7", actual="8")
    facets = {"test": test_run.TestRunFacet(tests=[execution])}
    kind = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="CUSTOM", jobType="TEST")
    events = []
    for state, seconds in ((RunState.START, 80), (RunState.FAIL, 81)):
        checked = InputDataset(LAKE, "orders", inputFacets={"dataQualityAssertions": asserted})
        audit = OutputDataset(LAKE, "audit/failures")
        event = run_event(
            state,
            CHECK,
            seconds,
            job="check_orders",
            facets=facets,
            job_facets={"jobType": kind},
            inputs=[checked],
            outputs=[audit],
        )
        events.append(event)
    return events


def static_events() -> list[DatasetEvent | JobEvent]:
    link = symlinks_dataset.Identifier(namespace="hive://metastore:9083", name="marts.customers", type="TABLE")
    facets = schema_of(("customer_id", "bigint")) | {
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[link])
    }
    return [
        DatasetEvent(
            dataset=StaticDataset(LAKE, "customers", facets=facets), eventTime=at(90).isoformat(), producer=PRODUCER
        ),
        JobEvent(
            job=Job(namespace=NAMESPACE, name="orders_view"),
            inputs=[InputDataset(LAKE, "orders")],
            outputs=[OutputDataset(DATABASE, "shop.public.orders_view")],
            eventTime=at(91).isoformat(),
            producer=PRODUCER,
        ),
    ]


def the_story() -> list[Any]:
    return [
        *a_load(),
        *a_load_with_another_column(),
        *runs_that_do_not_complete(),
        *a_check(),
        *static_events(),
    ]


def a_client(live: Live, type_: str = "http", *, api_key: str | None = None, **options: Any) -> OpenLineageClient:
    auth = {"type": "api_key", "apiKey": api_key or live.api_key}
    return OpenLineageClient(config={"transport": {"type": type_, "url": live.url, "auth": auth, **options}})


TRANSPORTS = {
    "sync": {"type_": "http"},
    "sync-gzip": {"type_": "http", "compression": "gzip"},
    "async": {"type_": "async_http"},
    "async-gzip": {"type_": "async_http", "compression": "gzip"},
}


@pytest.fixture(scope="module", params=TRANSPORTS)
async def told(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[Live]:
    """A server that has been told the whole story, once by each transport."""
    async with live_server(cluster) as live:
        client = a_client(live, **TRANSPORTS[request.param])
        for event in the_story():
            client.emit(event)
        assert client.close(timeout=30)
        expected = "gzip" if "gzip" in request.param else ""
        assert {answer.encoding for answer in live.answers} == {expected}
        yield live


@pytest.fixture
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


async def test_every_event_of_the_client_is_stored(told: Live) -> None:
    assert told.statuses == [201] * len(the_story())
    assert await produced.event_count(told.db) == len(the_story())
    assert await produced.refusals(told.db) == []


async def test_runs_have_the_state_and_times_that_the_client_gave(told: Live) -> None:
    found = {run.run_id: (run.state, run.started_at, run.ended_at, run.events) for run in await produced.runs(told.db)}
    assert found == {
        LOAD: ("COMPLETE", at(0), at(10), 3),
        RELOAD: ("COMPLETE", at(20), at(30), 2),
        FAILED: ("FAIL", at(40), at(41), 2),
        STOPPED: ("ABORT", at(50), at(51), 2),
        WAITING: ("OTHER", at(60), None, 1),
        WORKING: ("RUNNING", at(70), None, 2),
        CHECK: ("FAIL", at(80), at(81), 2),
    }


async def test_runs_know_their_parents_and_their_errors(told: Live) -> None:
    found = {run.run_id: run for run in await produced.runs(told.db)}
    load = found[LOAD]
    assert (load.parent_run_id, load.parent_job) == (DAG, "nightly.load")
    assert (load.root_run_id, load.root_job) == (ROOT, "nightly")
    assert found[RELOAD].parent_run_id is None
    assert {run_id: run.error for run_id, run in found.items() if run.error} == {FAILED: "disk full"}


async def test_edges_come_from_runs_and_from_job_events(told: Live) -> None:
    assert await produced.edges(told.db) == {
        (RAW, ORDERS, "load_orders"),
        (ORDERS, VIEW, "orders_view"),
    }


async def test_a_test_run_produces_nothing(told: Live) -> None:
    assert {run.run_id for run in await produced.runs(told.db) if run.is_test} == {CHECK}
    assert await produced.producers(told.db) == {
        ("load_orders", "orders"),
        ("orders_view", "shop.public.orders_view"),
    }


async def test_column_lineage_keeps_every_kind_of_transformation(told: Live) -> None:
    assert await produced.column_edges(told.db) == {
        (f"{RAW}#id", f"{ORDERS}#id", "DIRECT IDENTITY"),
        (f"{RAW}#amount", f"{ORDERS}#total", "DIRECT AGGREGATION"),
        (f"{RAW}#email", f"{ORDERS}#email", "DIRECT TRANSFORMATION masked"),
        (f"{RAW}#status", ORDERS, "INDIRECT FILTER"),
    }


async def test_a_new_column_is_a_new_version_of_the_schema(told: Live) -> None:
    assert await produced.schemas(told.db) == {
        "orders": [
            ("INITIAL", "id bigint, total double"),
            ("ADDED_COLUMN", "id bigint, total double, email string"),
        ],
        "customers": [("INITIAL", "customer_id bigint")],
    }


async def test_statistics_become_metrics_of_both_sides(told: Live) -> None:
    assert await produced.metrics(told.db) == {
        ("shop.public.raw_orders", "input", 120, 4096, 1),
        ("orders", "output", 100, 2048, 2),
    }


async def test_two_assertions_of_one_name_stay_two_and_the_test_facet_adds_its_own(told: Live) -> None:
    assert await produced.test_results(told.db) == [
        ("orders", "not_null", "email", "failed", "warn", "0", "3", "check_orders"),
        ("orders", "not_null", "id", "passed", "error", "0", "3", "check_orders"),
        ("orders", "totals_add_up", None, "failed", "error", "7", "8", "check_orders"),
    ]


async def test_a_symlink_of_a_dataset_event_leads_to_the_dataset(told: Live) -> None:
    found = await told.db.fetchval(
        """
        SELECT d.namespace || '/' || d.name
          FROM dataset_aliases a
          JOIN datasets d ON d.organization_id = a.organization_id AND d.id = a.dataset_id
         WHERE a.name = 'marts.customers'
        """
    )
    assert found == f"{LAKE}/customers"


async def test_the_same_events_from_a_client_without_memory_change_nothing(live: Live) -> None:
    client = a_client(live)
    for _ in range(2):
        for event in the_story():
            client.emit(event)
    assert live.statuses == [201] * len(the_story()) + [200] * len(the_story())
    assert await produced.event_count(live.db) == len(the_story())


async def test_a_reader_with_other_type_names_makes_no_version_once_the_writer_has_spoken(live: Live) -> None:
    client = a_client(live)

    def reader(run: UUID, seconds: float, type_: str) -> RunEvent:
        read = InputDataset(LAKE, "orders", facets=schema_of(("id", type_)))
        return run_event(RunState.COMPLETE, run, seconds, job="report", inputs=[read])

    client.emit(reader(LOAD, 0, "bigint"))
    written = orders(schema_of(("id", "bigint")))
    client.emit(run_event(RunState.COMPLETE, RELOAD, 1, outputs=[written]))
    client.emit(reader(CHECK, 2, "int8"))
    assert await produced.schemas(live.db) == {"orders": [("INITIAL", "id bigint")]}


async def test_the_sync_client_raises_when_its_key_is_wrong(live: Live) -> None:
    client = a_client(live, api_key="hg_live_nobody")
    with pytest.raises(requests.HTTPError) as refused:
        client.emit(the_story()[0])
    assert refused.value.response.status_code == 401
    assert refused.value.response.headers["content-type"] == "application/problem+json"
    assert await produced.event_count(live.db) == 0


async def test_the_async_client_counts_a_wrong_key_as_a_failure_and_does_not_retry(live: Live) -> None:
    client = a_client(live, "async_http", api_key="hg_live_nobody")
    client.emit(the_story()[0])
    client.close(timeout=30)
    assert client.transport.get_stats() == {"pending": 0, "success": 0, "failed": 1}
    assert live.statuses == [401]
    assert await produced.event_count(live.db) == 0


async def test_a_key_made_for_ingest_alone_is_enough_for_a_producer(live: Live) -> None:
    async with httpx.AsyncClient(base_url=live.url) as admin:
        login = {"email": live.email, "password": live.password}
        assert (await admin.post("/api/v1/auth/login", json=login)).status_code == 200
        made = (await admin.post("/api/v1/auth/api-keys", json={"name": "airflow"})).json()
    assert made["scopes"] == ["ingest"]
    a_client(live, api_key=made["key"]).emit(the_story()[0])
    assert await produced.event_count(live.db) == 1


@pytest.mark.parametrize("type_", ["http", "async_http"])
async def test_a_client_outlasts_a_database_that_is_away_for_a_moment(live: Live, type_: str) -> None:
    client = a_client(live, type_)
    client.emit(the_story()[0])
    await asyncio.to_thread(wait_until, lambda: live.statuses == [201], 10, "the first answer")
    await _take_database_away(live)
    sending = asyncio.create_task(asyncio.to_thread(_send_and_close, client, the_story()[1:3]))
    await asyncio.to_thread(wait_until, lambda: 503 in live.statuses, 10, "a refusal for lack of a database")
    await live.db.execute(f"ALTER DATABASE {await _name(live)} CONNECTION LIMIT -1")
    await sending
    assert set(live.statuses) == {201, 503}
    assert [(run.state, run.events) for run in await produced.runs(live.db)] == [("COMPLETE", 3)]
    assert await produced.refusals(live.db) == []


def _send_and_close(client: OpenLineageClient, events: Sequence[RunEvent]) -> None:
    for event in events:
        client.emit(event)
    assert client.close(timeout=30)


async def _take_database_away(live: Live) -> None:
    """No new connections for the application, and the end of those that it has."""
    await live.db.execute(f"ALTER DATABASE {await _name(live)} CONNECTION LIMIT 0")
    await live.db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND usename = 'headgate_app'"
    )


async def _name(live: Live) -> str:
    return str(await live.db.fetchval("SELECT current_database()"))


@pytest.fixture(scope="module")
async def replayed(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        await live.replay(*golden("client-python"))
        yield live


async def test_golden_events_are_accepted(replayed: Live) -> None:
    assert replayed.statuses == [201] * 12
    assert await produced.refusals(replayed.db) == []


async def test_golden_runs_begin_at_their_start_not_at_the_event_before_it(replayed: Live) -> None:
    def clock(microseconds: int) -> datetime:
        return datetime(2026, 11, 15, 17, 55, 55, microseconds, tzinfo=UTC)

    found = [(run.job, run.state, run.started_at, run.ended_at, run.events) for run in await produced.runs(replayed.db)]
    assert found == [
        ("ingest_orders", "COMPLETE", clock(410023), clock(429885), 5),
        ("ingest_orders", "ABORT", clock(441024), clock(450037), 2),
        ("async_job", "COMPLETE", clock(454240), clock(462741), 2),
    ]


async def test_golden_lineage_and_what_was_measured(replayed: Live) -> None:
    raw, view = "postgres://db/shop.public.raw", "postgres://db/shop.public.orders_view"
    assert await produced.edges(replayed.db) == {
        ("kafka://broker/orders", f"{LAKE}/raw/orders", "ingest_orders"),
        (raw, view, "orders_view"),
    }
    assert await produced.column_edges(replayed.db) == {
        (f"{raw}#id", f"{view}#id", "DIRECT IDENTITY"),
        (f"{raw}#amount", f"{view}#total", "DIRECT AGGREGATION"),
        (f"{raw}#status", view, "INDIRECT FILTER"),
    }
    assert await produced.metrics(replayed.db) == {("raw/orders", "output", 1000, 2048, 2)}


async def test_golden_datasets_with_nested_schema_other_names_and_a_dropped_one(replayed: Live) -> None:
    assert await produced.schemas(replayed.db) == {
        "warehouse/marts/orders": [("INITIAL", "id bigint, payload struct, payload.sku string")]
    }
    aliases = await replayed.db.fetch(
        """
        SELECT a.namespace, a.name, d.name AS dataset
          FROM dataset_aliases a
          JOIN datasets d ON d.organization_id = a.organization_id AND d.id = a.dataset_id
         WHERE a.source = 'symlink'
        """
    )
    assert {tuple(alias) for alias in aliases} == {
        ("arn:aws:glue:eu-west-1:123456789012", "table/marts/orders", "warehouse/marts/orders"),
        ("hive://metastore:9083", "marts.orders", "warehouse/marts/orders"),
    }
    dropped = await replayed.db.fetch("SELECT name FROM datasets WHERE dropped_at IS NOT NULL")
    assert [row["name"] for row in dropped] == ["warehouse/marts/orders_old"]
