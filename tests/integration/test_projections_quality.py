"""What ingest makes of measurements and tests, what it leaves for the worker, and that the log keeps every byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any

import pytest

from headgate.openlineage.packing import unpack
from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.full_event import a_full_dataset_event, a_full_event, a_full_job_event
from tests.support.ingest import BATCH, an_observed_server, post
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


def measured(run: str, second: float, rows: int | None, event_type: str = "COMPLETE", name: str = "t") -> Json:
    facets = {"outputStatistics": a_facet(rowCount=rows, size=10, fileCount=1)} if rows is not None else {}
    return an_event(event_type, run=run, time=at(second), outputs=[a_dataset(name, outputFacets=facets)])


async def test_every_kind_of_statistics_is_stored(tenant: Tenant, stored: Stored) -> None:
    columns = {"id": {"nullCount": 0, "distinctCount": 7}}
    event = an_event(
        inputs=[
            a_dataset(
                "a",
                inputFacets={
                    "inputStatistics": a_facet(rowCount=3, size=30, fileCount=1),
                    "dataQualityMetrics": a_facet(rowCount=7, bytes=70, columnMetrics=columns),
                },
            )
        ],
        outputs=[a_dataset("x", outputFacets={"outputStatistics": a_facet(rowCount=5, size=50, fileCount=2)})],
        time=at(4),
    )
    await tenant.send_ok(event)

    job_id = (await stored.run(event["run"]["runId"]))["job_id"]
    rows = await stored.metrics()
    assert [(r["name"], r["direction"], r["row_count"], r["byte_size"], r["file_count"]) for r in rows] == [
        ("a", "input", 3, 30, 1),
        ("a", "profile", 7, 70, None),
        ("x", "output", 5, 50, 2),
    ]
    assert {(row["job_id"], str(row["run_id"]), row["measured_at"]) for row in rows} == {
        (job_id, event["run"]["runId"], moment(4))
    }
    assert json.loads(rows[1]["columns"]) == columns


async def test_metrics_know_the_partition_they_measure(tenant: Tenant, stored: Stored) -> None:
    def written(country: str) -> Json:
        facets = {"outputStatistics": a_facet(rowCount=1)}
        return a_dataset(f"orders/country={country}/dt=2026-03-01", "s3://lake", outputFacets=facets)

    await tenant.send_ok(an_event(outputs=[written("DE")]), an_event(outputs=[written("FR")]))
    assert {row["partition_key"] for row in await stored.metrics()} == {
        "s3://lake/orders/country=DE/dt=*",
        "s3://lake/orders/country=FR/dt=*",
    }
    assert len(await stored.dataset_names()) == 1


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_of_one_run_the_latest_figures_stay(tenant: Tenant, stored: Stored, order: tuple[int, ...]) -> None:
    run = a_run_id()
    events = [measured(run, 1, 10, "RUNNING"), measured(run, 2, 20, "RUNNING"), measured(run, 3, 30)]
    await tenant.send_ok(*(events[place] for place in order))
    assert [(row["row_count"], row["measured_at"]) for row in await stored.metrics()] == [(30, moment(3))]
    assert (await tenant.run(run))["outputs"][0]["row_count"] == 30


async def test_of_one_batch_the_latest_figures_stay(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await post(tenant, BATCH, [measured(run, 3, 30), measured(run, 1, 10, "RUNNING")])
    assert [row["row_count"] for row in await stored.metrics()] == [30]


async def test_an_event_without_figures_takes_none_away(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(measured(run, 1, 10, "RUNNING"), measured(run, 2, None))
    assert [row["row_count"] for row in await stored.metrics()] == [10]


async def test_two_runs_are_two_measurements(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(measured(a_run_id(), 1, 10), measured(a_run_id(), 1, 20))
    assert sorted(row["row_count"] for row in await stored.metrics()) == [10, 20]


async def test_a_dataset_event_measures_without_a_run(tenant: Tenant, stored: Stored) -> None:
    dataset = a_dataset("t", facets={"dataQualityMetrics": a_facet(rowCount=5)})
    await tenant.send_ok(
        {"eventTime": at(1), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset},
        {"eventTime": at(2), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset},
    )
    assert [(row["direction"], row["measured_at"]) for row in await stored.metrics()] == [
        ("profile", moment(1)),
        ("profile", moment(2)),
    ]


def a_profile(second: float, rows: int) -> Json:
    dataset = a_dataset("t", facets={"dataQualityMetrics": a_facet(rowCount=rows)})
    return {"eventTime": at(second), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}


async def test_every_time_at_which_a_dataset_was_measured_without_a_run_is_kept(tenant: Tenant, stored: Stored) -> None:
    await post(tenant, BATCH, [a_profile(second, second) for second in range(300)])
    assert [row["row_count"] for row in await stored.metrics()] == list(range(300))

    # One transaction may hold many of these.
    await asyncio.gather(*(tenant.send_ok(a_profile(second, second)) for second in range(300, 360)))
    assert [row["row_count"] for row in await stored.metrics()] == list(range(360))


@pytest.mark.parametrize("is_batch", [True, False])
async def test_a_later_event_of_the_same_time_says_what_was_measured_then(
    tenant: Tenant, stored: Stored, is_batch: bool
) -> None:
    events = [a_profile(1, 10), a_profile(2, 20), a_profile(1, 11)]
    if is_batch:
        await post(tenant, BATCH, events)
    else:
        await tenant.send_ok(*events)
    assert [row["row_count"] for row in await stored.metrics()] == [11, 20]


async def test_partitions_of_one_event_are_one_measurement_however_often_it_comes(
    tenant: Tenant, stored: Stored
) -> None:
    run = a_run_id()
    parts = [
        a_dataset(f"bf/date=2026-01-0{day}", "s3://lake", outputFacets={"outputStatistics": a_facet(rowCount=rows)})
        for day, rows in enumerate([100, 70, 1], 1)
    ]
    events = [
        an_event(state, run=run, time=at(second), outputs=parts) for state, second in (("RUNNING", 1), ("COMPLETE", 2))
    ]
    await tenant.send_ok(events[1])
    await tenant.send_ok(events[0])
    assert (await tenant.send(events[1])).status_code == 200
    # As if it came again after more than a day.
    await stored.db.execute("DELETE FROM idempotency_keys")
    await tenant.send(events[1])

    assert [(row["row_count"], row["measured_at"]) for row in await stored.metrics()] == [(171, moment(2))]


@pytest.mark.parametrize("year", [1970, 2019, 2026, 2199])
async def test_measurements_of_any_year_are_kept(tenant: Tenant, stored: Stored, year: int) -> None:
    facets = {"outputStatistics": a_facet(rowCount=1)}
    event = an_event(time=f"{year}-03-01T10:00:00Z", outputs=[a_dataset("t", outputFacets=facets)])
    await tenant.send_ok(event)
    assert [row["measured_at"].year for row in await stored.metrics()] == [year]


def checked(run: str, second: float, *assertions: Json, event_type: str = "COMPLETE", **facets: Any) -> Json:
    group = {"dataQualityAssertions": a_facet(assertions=list(assertions))}
    return an_event(event_type, run=run, time=at(second), inputs=[a_dataset("t", inputFacets=group)], **facets)


def not_null(column: str, success: bool, **more: Any) -> Json:
    return {"assertion": "not_null", "success": success, "column": column, **more}


async def test_the_same_check_on_two_columns_stays_two(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(checked(a_run_id(), 1, not_null("email", False), not_null("customer_id", True)))
    rows = await stored.tests()
    assert [(row["dataset"], row["name"], row["column_name"], row["status"]) for row in rows] == [
        ("t", "not_null", "customer_id", "passed"),
        ("t", "not_null", "email", "failed"),
    ]


async def test_everything_a_test_says_is_stored(tenant: Tenant, stored: Stored) -> None:
    item = not_null("id", False, severity="warn", name="orders_id", description="no holes", expected="0", actual="3",
                    content="select 1", contentType="SQL", params={"where": "x"})  # fmt: skip
    event = checked(a_run_id(), 2, item)
    await tenant.send_ok(event)
    (row,) = await stored.tests()
    assert (row["name"], row["assertion"], row["severity"], row["status"]) == (
        "orders_id",
        "not_null",
        "warn",
        "failed",
    )
    assert (row["expected"], row["actual"], row["description"]) == ("0", "3", "no holes")
    assert json.loads(row["detail"]) == {"content": "select 1", "content_type": "SQL", "params": {"where": "x"}}
    assert (str(row["run_id"]), row["observed_at"]) == (event["run"]["runId"], moment(2))


async def test_a_start_brings_no_results(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(checked(run, 1, not_null("id", False), event_type="START"))
    assert (await stored.tests(), await stored.follow_ups("CORRELATE")) == ([], [])
    await tenant.send_ok(checked(run, 2, not_null("id", True)))
    assert [row["status"] for row in await stored.tests()] == ["passed"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "late"])
async def test_of_one_run_the_latest_result_stays(tenant: Tenant, stored: Stored, order: tuple[int, int]) -> None:
    run = a_run_id()
    events = [checked(run, 1, not_null("id", True), event_type="RUNNING"), checked(run, 2, not_null("id", False))]
    await tenant.send_ok(*(events[place] for place in order))
    assert [row["status"] for row in await stored.tests()] == ["failed"]


async def test_each_run_has_its_own_results(tenant: Tenant, stored: Stored) -> None:
    await tenant.send_ok(checked(a_run_id(), 1, not_null("id", True)), checked(a_run_id(), 2, not_null("id", False)))
    assert [row["status"] for row in await stored.tests()] == ["passed", "failed"]


async def test_the_test_facet_brings_results_also_without_a_dataset(tenant: Tenant, stored: Stored) -> None:
    test = {"name": "no_negative_amount", "status": "fail", "severity": "warn", "type": "singular"}
    await tenant.send_ok(
        an_event("FAIL", run_facets={"test": a_facet(tests=[test])}, inputs=[a_dataset("t")]),
        an_event("FAIL", run_facets={"test": a_facet(tests=[test])}),
    )
    rows = await stored.tests()
    assert [(row["dataset"], row["name"], row["severity"], row["status"]) for row in rows] == [
        ("t", "no_negative_amount", "warn", "failed"),
        (None, "no_negative_amount", "warn", "failed"),
    ]


async def test_great_expectations_results_are_stored(tenant: Tenant, stored: Stored) -> None:
    facet = a_facet(assertions=[{"assertion": "expect_column_values_to_not_be_null", "success": False, "column": "id"}])
    await tenant.send_ok(an_event(inputs=[a_dataset("t", inputFacets={"greatExpectations_assertions": facet})]))
    assert [row["name"] for row in await stored.tests()] == ["expect_column_values_to_not_be_null"]


async def test_results_in_the_datasets_own_facets_are_stored(tenant: Tenant, stored: Stored) -> None:
    facet = {"dataQualityAssertions": a_facet(assertions=[not_null("id", False)])}
    job_type = {"jobType": a_facet(processingType="BATCH", integration="DBT", jobType="TEST")}
    event = an_event(job_facets=job_type, inputs=[a_dataset("t", facets=facet)], outputs=[a_dataset("audit.t")])
    await tenant.send_ok(event)
    assert [(row["dataset"], row["status"]) for row in await stored.tests()] == [("t", "failed")]
    assert await stored.edges() == []


async def test_stages_are_stored_and_added_to(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()

    def staged(second: float, event_type: str, *stages: Json) -> Json:
        facets = {"headgate_stages": a_facet(stages=list(stages), applicationId="app-1")}
        return an_event(event_type, run=run, time=at(second), run_facets=facets)

    await tenant.send_ok(
        staged(1, "RUNNING", {"stage_id": 0, "num_tasks": 4, "name": "scan"}, {"stage_id": 0, "attempt": 1}),
        staged(2, "COMPLETE", {"stage_id": 0, "duration_ms": 90, "custom": "x"}),
    )
    rows = await stored.rows("SELECT * FROM stage_metrics WHERE organization_id = $1 ORDER BY stage_id, attempt")
    assert [(row["stage_id"], row["attempt"], row["num_tasks"], row["duration_ms"]) for row in rows] == [
        (0, 0, 4, 90),
        (0, 1, None, None),
    ]
    assert (rows[0]["name"], rows[0]["application_id"], json.loads(rows[0]["extra"])) == (
        "scan",
        "app-1",
        {"custom": "x"},
    )


async def test_each_follow_up_is_a_task(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    facets = {
        "dataQualityAssertions": a_facet(assertions=[not_null("id", False, severity="warn"), not_null("b", True)])
    }
    event = an_event(
        run=run,
        inputs=[a_dataset("t", inputFacets=facets)],
        outputs=[a_dataset("x", outputFacets={"outputStatistics": a_facet(rowCount=1)})],
    )
    await tenant.send_ok(event)
    failed = an_event("FAIL")
    await tenant.send_ok(failed)

    found = [
        (row["task_type"], row["resource_type"], row["resource_id"], row["payload"], row["status"])
        for row in await stored.follow_ups()
    ]
    expected = [
        ("CORRELATE", "RUN", failed["run"]["runId"], {"kind": "run_failed"}, "PENDING"),
        ("CORRELATE", "TEST", run, {"kind": "tests"}, "PENDING"),
        ("DETECT", "RUN", failed["run"]["runId"], {}, "PENDING"),
        ("DETECT", "RUN", run, {}, "PENDING"),
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)


async def test_measurements_without_a_run_are_judged_by_dataset(tenant: Tenant, stored: Stored) -> None:
    statistics = {"dataQualityMetrics": a_facet(rowCount=7, columnMetrics={})}
    base = {"eventTime": at(8), "producer": PRODUCER, "schemaURL": SCHEMA_URL}
    await tenant.send_ok(base | {"dataset": a_dataset("t", facets=statistics)})
    (row,) = await stored.follow_ups()
    assert (row["task_type"], row["resource_type"]) == ("DETECT", "DATASET")
    assert row["resource_id"] == str((await stored.dataset("t"))["id"])


@pytest.mark.parametrize(
    "event",
    [a_full_event(), a_full_dataset_event(), a_full_job_event()],
    ids=["run", "dataset", "job"],
)
@pytest.mark.parametrize("spelling", [{}, {"indent": 3, "ensure_ascii": False}], ids=["plain", "indented"])
async def test_the_log_keeps_an_event_byte_by_byte(
    tenant: Tenant, stored: Stored, event: Json, spelling: dict[str, Any]
) -> None:
    raw = b" \n" + json.dumps(event | {"odd": "ü\u2028 \U0001f600"}, **spelling).encode() + b"\t"
    assert (await tenant.send(raw)).status_code == 201
    (row,) = await stored.log()
    assert unpack(row["raw"]) == raw


async def test_the_log_says_what_an_event_is(tenant: Tenant, stored: Stored) -> None:
    run, job = an_event(None, time=at(7)), {"job": {"namespace": "n", "name": "j"}}
    base = {"eventTime": at(8), "producer": PRODUCER, "schemaURL": SCHEMA_URL}
    await tenant.send_ok(run, base | job, base | {"dataset": a_dataset("t")})
    first, second, third = await stored.log()
    code = (await tenant.client.get("/api/v1/organization")).json()["tenant_code"]
    assert (first["kind"], first["event_type"], first["event_time"]) == ("run", "OTHER", moment(7))
    assert (str(first["run_id"]), first["producer"]) == (run["run"]["runId"], PRODUCER)
    assert first["job_id"] == (await stored.run(run["run"]["runId"]))["job_id"]
    assert [(row["kind"], row["event_type"], row["run_id"]) for row in (second, third)] == [
        ("job", None, None),
        ("dataset", None, None),
    ]
    assert {(row["outcome"], row["tenant_code"]) for row in (first, second, third)} == {("accepted", code)}


async def test_elements_of_a_batch_are_kept_as_they_stood_in_it(tenant: Tenant, stored: Stored) -> None:
    one, other = json.dumps(an_event(), indent=2).encode(), json.dumps(an_event()).encode()
    await post(tenant, BATCH, b"[ " + one + b" ,\n" + other + b" ]")
    assert [unpack(row["raw"]) for row in await stored.log()] == [one, other]


async def test_a_number_beyond_bigint_costs_the_facet_and_not_the_event(tenant: Tenant, stored: Stored) -> None:
    huge = a_facet(rowCount=2**63)
    good = a_facet(rowCount=5)
    event = an_event(
        outputs=[
            a_dataset("x", outputFacets={"outputStatistics": huge}),
            a_dataset("y", outputFacets={"outputStatistics": good}),
        ]
    )
    await tenant.send_ok(event)
    assert [(row["name"], row["row_count"]) for row in await stored.metrics()] == [("y", 5)]
    assert {name for _, name in await stored.dataset_names()} == {"x", "y"}


async def test_wrong_facets_are_counted(observed: tuple[Server, Stored], tenant: Tenant) -> None:
    async def counted() -> float:
        lines = (await tenant.client.get("/metrics")).text.splitlines()
        found = [line for line in lines if line.startswith('headgate_facets_invalid_total{facet="symlinks"}')]
        return float(found[0].split()[-1]) if found else 0

    before = await counted()
    wrong = {"symlinks": a_facet(identifiers="none")}
    await tenant.send_ok(*(an_event(inputs=[a_dataset("a", facets=wrong)]) for _ in range(3)))
    assert await counted() == before + 3
