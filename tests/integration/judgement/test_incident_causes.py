"""What opens an incident, and which run is told to have caused it: always one that had ended by then."""

from __future__ import annotations

import pytest

from headgate.server.incidents.jobs import correlate
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.incidents import DAY, HOUR, Shop, came_from, checked, started_by, wrote
from tests.support.pipeline_events import TARGET, a_full_record, a_node_end, a_node_start, a_pipeline_event

NOT_NULL = ("not_null", "email", False)


async def test_each_of_five_daily_failures_is_of_its_own_days_run(shop: Shop) -> None:
    runs = [a_run_id() for _ in range(5)]
    for day, run in enumerate(runs):
        await shop.send(*wrote("load", day * DAY, "marts.orders", "raw.orders", run=run))
    # The results come when all runs are known, the newest first.
    for day in reversed(range(5)):
        await shop.send(checked("marts.orders", day * DAY + 600, NOT_NULL))
    await shop.work()

    found = [symptom for each in await shop.incidents() for symptom in (await shop.get(f"/{each['id']}"))["symptoms"]]
    assert {each["observed_at"]: each["producing_run_id"] for each in found} == {
        at(day * DAY + 600): run for day, run in enumerate(runs)
    }
    for each in found:
        assert each["observed_at"][:10] in each["root_cause"], "the cause is a run of the same day"


async def test_the_cause_is_never_a_run_that_ended_later(shop: Shop) -> None:
    early, late = a_run_id(), a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders", run=early))
    # Began before the test and ended after it.
    await shop.send(*wrote("load", 1200, "marts.orders", run=late, took=900, state="FAIL", error="disk full"))
    await shop.send(checked("marts.orders", 600, NOT_NULL))
    await shop.work()

    failures = [each for each in await shop.incidents() if each["kind"] == "TestFailed"]
    assert [each["run_id"] for each in failures] == [early]
    evidence = await shop.get(f"/{failures[0]['id']}/evidence")
    assert evidence["cause"]["run_id"] == early
    assert late not in {each["run_id"] for each in evidence["rejected"]}


async def test_of_runs_that_overlap_the_last_to_end_has_produced_it(shop: Shop) -> None:
    long, short = a_run_id(), a_run_id()
    await shop.send(*wrote("load", 60, "marts.orders", run=short))
    await shop.send(*wrote("load", 300, "marts.orders", run=long, took=HOUR))
    await shop.send(checked("marts.orders", 200, NOT_NULL), checked("marts.orders", 600, ("unique", "email", False)))
    await shop.work()

    found = [symptom for each in await shop.incidents() for symptom in (await shop.get(f"/{each['id']}"))["symptoms"]]
    assert {each["test_name"]: each["producing_run_id"] for each in found} == {"not_null": short, "unique": long}


async def test_a_parent_that_was_still_at_it_has_not_produced_what_failed(shop: Shop) -> None:
    before, parent = a_run_id(), a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders", run=before))
    await shop.send(*wrote("load", 1200, "marts.orders", run=parent, took=900))
    await shop.send(checked("marts.orders", 600, NOT_NULL, parent=started_by(parent, "load")))
    await shop.work()

    assert (await shop.incident())["run_id"] == before


async def test_a_parent_that_had_ended_has_produced_what_failed(shop: Shop) -> None:
    parent = a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders", run=parent))
    await shop.send(*wrote("other", 60, "marts.orders"))
    await shop.send_and_work(checked("marts.orders", 600, NOT_NULL, parent=started_by(parent, "load")))

    assert (await shop.incident())["run_id"] == parent


async def test_a_column_that_is_back_was_dropped_by_the_run_before(shop: Shop) -> None:
    emails = came_from("email", ("raw.orders", "mail"))
    for day in range(6):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000, fields=["id", "mail"]))
        await shop.send(*wrote("load", day * DAY + 600, "marts.orders", "raw.orders", columns=emails, rows=900))
    await shop.send(*wrote("ingest", 6 * DAY, "raw.orders", rows=1000, fields=["id"]))
    await shop.send(*wrote("ingest", 6 * DAY + HOUR, "raw.orders", rows=1000, fields=["id", "mail"]))
    await shop.send(*wrote("load", 6 * DAY + 2 * HOUR, "marts.orders", "raw.orders", columns=emails, rows=900))
    await shop.send_and_work(checked("marts.orders", 6 * DAY + 3 * HOUR, NOT_NULL))

    found = [symptom for each in await shop.incidents() for symptom in (await shop.get(f"/{each['id']}"))["symptoms"]]
    (told,) = [each["root_cause"] for each in found if each["type"] == "TestFailed"]
    assert told.startswith("Job 'ingest' at 2026-03-07 10:00 dropped the column 'mail'")


async def test_an_upstream_test_that_runs_later_still_tells_the_cause(shop: Shop) -> None:
    source = a_run_id()
    await shop.send(*wrote("ingest", 0, "raw.orders", run=source))
    await shop.send(*wrote("load", 600, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 700, NOT_NULL))
    await shop.send_and_work(checked("raw.orders", 900, NOT_NULL))

    found = await shop.incident()
    assert (found["symptom_count"], found["cause"]["run_id"]) == (2, source)
    assert "wrote what failed the test 'not_null'" in found["root_cause"]


async def test_a_run_that_is_heard_of_after_the_failure_is_its_producer_all_the_same(shop: Shop) -> None:
    before, real = a_run_id(), a_run_id()
    await shop.send(*wrote("load", -DAY, "marts.orders", run=before))
    await shop.send_and_work(checked("marts.orders", 600, NOT_NULL))
    assert (await shop.incident())["run_id"] == before

    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=real))

    found = await shop.incident()
    assert (found["run_id"], found["symptoms"][0]["producing_run_id"]) == (real, real)
    assert found["cause"]["run_id"] == real
    assert found["status"] == "open"


async def test_an_orphan_finds_its_producer_when_that_is_heard_of(shop: Shop) -> None:
    run = a_run_id()
    await shop.send_and_work(checked("marts.orders", 600, NOT_NULL))
    assert (await shop.incident())["is_orphan"]

    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=run))

    found = await shop.incident()
    assert (found["run_id"], found["job_name"], found["is_orphan"]) == (run, "load", False)


async def test_a_stream_that_goes_on_is_the_producer_of_what_it_writes(shop: Shop) -> None:
    run = a_run_id()
    streaming = {"jobType": a_facet(processingType="STREAMING", integration="SPARK", jobType="JOB")}
    written = [a_dataset("marts.clicks")]
    for second, state in ((0, "START"), (DAY, "RUNNING")):
        await shop.send(an_event(state, run=run, job="s", time=at(second), outputs=written, job_facets=streaming))
    await shop.send_and_work(checked("marts.clicks", HOUR, NOT_NULL))

    found = await shop.incident()
    assert (found["run_id"], found["is_orphan"], found["cause"]["run_id"]) == (run, False, run)


async def test_two_tests_of_one_name_on_two_columns_are_two_symptoms(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, NOT_NULL, ("not_null", "customer_id", True)))
    await shop.work()

    (symptom,) = (await shop.incident())["symptoms"]
    assert (symptom["test_name"], symptom["column"], symptom["test_status"]) == ("not_null", "email", "failed")


async def test_two_columns_that_fail_are_one_incident(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, NOT_NULL, ("not_null", "customer_id", False)))
    await shop.work()

    assert {each["column"] for each in (await shop.incident())["symptoms"]} == {"email", "customer_id"}


async def test_an_incident_tells_test_dataset_run_job_and_producer(shop: Shop) -> None:
    run = a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders", run=run))
    await shop.send(checked("marts.orders", 60, NOT_NULL))
    await shop.work()

    (found,) = await shop.incidents()
    assert (found["test_name"], found["test_status"]) == ("not_null", "failed")
    assert (found["dataset_urn"], found["column"]) == ("postgres://db/marts.orders", "email")
    assert (found["run_id"], found["job_name"], found["producer_name"]) == (run, "load", "headgate-tests")
    assert (found["job_started_at"], found["opened_at"]) == (at(-60), at(60))
    assert (found["status"], found["severity"], found["kind"], found["number"]) == ("open", "CRITICAL", "TestFailed", 1)
    assert "load" in found["root_cause"]


async def test_a_dropped_column_upstream_is_the_cause_along_column_lineage(shop: Shop) -> None:
    emails = came_from("email", ("raw.orders", "mail"))
    for day in range(6):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", "src.orders", rows=1000, fields=["id", "mail"]))
        await shop.send(*wrote("load", day * DAY + 600, "marts.orders", "raw.orders", columns=emails, rows=900))
    dropped = a_run_id()
    await shop.send(*wrote("ingest", 6 * DAY, "raw.orders", "src.orders", run=dropped, rows=1000, fields=["id"]))
    await shop.send(*wrote("load", 6 * DAY + 600, "marts.orders", "raw.orders", columns=emails, rows=900))
    await shop.send(checked("marts.orders", 6 * DAY + 900, NOT_NULL))
    await shop.work()

    (found,) = await shop.incidents(kind="TestFailed")
    evidence = await shop.get(f"/{found['id']}/evidence")
    assert evidence["cause"]["run_id"] == dropped
    assert found["cause"]["job"]["name"] == "ingest"
    assert found["confidence"] > 0.5
    kinds = {each["kind"]: each for each in evidence["evidence"]}
    assert kinds["schema_diff"]["column"] == "mail"
    raw = await shop.dataset("raw.orders")
    assert kinds["schema_diff"]["link"] == f"/api/v1/datasets/{raw['id']}/schema/history"
    assert (await shop.tenant.client.get(kinds["schema_diff"]["link"])).status_code == 200
    assert all(each["reason"] for each in evidence["rejected"])


async def test_a_failed_upstream_run_is_the_cause_of_what_was_built_on_old_data(shop: Shop) -> None:
    for day in range(4):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000))
        await shop.send(*wrote("load", day * DAY + 600, "marts.orders", "raw.orders", rows=900))
    failed = a_run_id()
    await shop.send(*wrote("ingest", 4 * DAY, "raw.orders", run=failed, state="FAIL", error="no route to host"))
    await shop.send(*wrote("load", 4 * DAY + 600, "marts.orders", "raw.orders", rows=900))
    await shop.send(checked("marts.orders", 4 * DAY + 700, ("recent_rows", None, False)))
    await shop.work()

    found = await shop.incident()
    assert found["cause"]["run_id"] == failed
    assert "no route to host" in found["root_cause"]
    assert {each["type"] for each in found["symptoms"]} >= {"RunFailed", "TestFailed"}


async def test_a_run_that_fails_before_it_says_what_it_writes_hits_what_its_job_usually_writes(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"), *wrote("report", HOUR, "reports.daily", "marts.orders"))
    run = a_run_id()
    await shop.send(
        an_event("START", run=run, job="load", time=at(DAY - 60)),
        an_event("FAIL", run=run, job="load", time=at(DAY)),
        *wrote("report", DAY + HOUR / 2, "reports.daily", "marts.orders"),
        checked("reports.daily", DAY + HOUR, ("freshness", None, False)),
    )
    await shop.work()

    incident = await shop.incident()
    assert (incident["kind"], incident["run_id"]) == ("RunFailed", run)
    assert incident["dataset"]["name"] == "marts.orders"
    assert [each["name"] for each in (await shop.get("/1/impact"))["items"]] == ["reports.daily"]


async def test_a_parent_that_came_too_late_is_the_cause(shop: Shop) -> None:
    for day in range(6):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000))
        await shop.send(*wrote("load", day * DAY + HOUR, "marts.orders", "raw.orders", rows=900))
    # On the last day the parent ends long after it was read.
    late = a_run_id()
    await shop.send(*wrote("load", 6 * DAY + HOUR, "marts.orders", "raw.orders", rows=900))
    await shop.send(*wrote("ingest", 6 * DAY + 3 * HOUR, "raw.orders", run=late, rows=1000))
    await shop.send(checked("marts.orders", 6 * DAY + 4 * HOUR, ("recent_rows", None, False)))
    await shop.work()

    found = await shop.incident()
    evidence = await shop.get("/1/evidence")
    assert found["cause"]["job"]["name"] == "ingest"
    assert (evidence["cause"]["run_id"], evidence["cause"]["dataset"]["urn"]) == (None, "postgres://db/raw.orders")
    assert [each["kind"] for each in evidence["evidence"]] == ["run_late"]


async def test_nulls_in_a_source_batch_are_the_cause_four_levels_down(shop: Shop) -> None:
    def measured(job: str, second: float, table: str, column: str, nulls: int, *source: tuple[str, str]) -> list[Json]:
        start, end = wrote(
            job, second, table, *(name for name, _ in source), columns=came_from(column, *source), rows=1000
        )
        profile = a_facet(rowCount=1000, columnMetrics={column: {"nullCount": nulls}})
        end["outputs"][0]["facets"]["dataQualityMetrics"] = profile
        return [start, end]

    tables = [("land.c", "m0"), ("raw.c", "m1"), ("staging.c", "m2"), ("core.c", "m3"), ("marts.c", "m4")]
    bad = a_run_id()
    for day in range(8):
        nulls = 400 if day == 7 else 10 + day
        for level, (table, column) in enumerate(tables):
            source = tables[level - 1 : level]
            events = measured(f"j{level}", day * DAY + level * 600, table, column, nulls, *source)
            if day == 7 and level == 0:
                for event in events:
                    event["run"]["runId"] = bad
            await shop.send(*events)
    await shop.send(checked("marts.c", 7 * DAY + HOUR, ("not_null", "m4", False)))
    await shop.work()

    (found,) = await shop.incidents()
    assert found["cause"]["run_id"] == bad, found["root_cause"]
    assert found["cause"]["dataset"]["name"] == "land.c"
    kinds = {each["kind"] for each in (await shop.get(f"/{found['id']}/evidence"))["evidence"]}
    assert "null_share" in kinds


@pytest.mark.parametrize(("nulls", "is_told"), [(2, False), (16, True)], ids=["by chance", "for a reason"])
async def test_a_share_of_few_rows_is_held_against_what_chance_makes_of_so_many(
    shop: Shop, nulls: int, is_told: bool
) -> None:
    """Also if the cause is looked for before the measurement was judged."""
    for day, count in enumerate((0, 1, 0, 1, 0, 1, 1, nulls)):
        start, end = wrote("ingest", day * DAY, "raw.c", rows=20)
        profile = a_facet(rowCount=20, columnMetrics={"email": {"nullCount": count}})
        end["outputs"][0]["facets"]["dataQualityMetrics"] = profile
        await shop.send(start, end)
    await shop.send(checked("raw.c", 7 * DAY + HOUR, NOT_NULL))
    await Worker(shop.server.database, [Kind("CORRELATE", correlate)]).drain()

    evidence = (await shop.get("/1/evidence"))["evidence"]
    assert ("null_share" in {each["kind"] for each in evidence}) == is_told


async def test_changed_sql_is_evidence(shop: Shop) -> None:
    for day in range(4):
        sql = f"insert into marts.orders select * from raw.orders where day = '2026-03-0{day + 1}'"
        await shop.send(*wrote("load", day * DAY, "marts.orders", "raw.orders", rows=900, sql=sql))
    sql = "insert into marts.orders select * from raw.orders left join raw.customers using (id)"
    await shop.send(*wrote("load", 4 * DAY, "marts.orders", "raw.orders", rows=1800, sql=sql))
    await shop.send(checked("marts.orders", 4 * DAY + 600, ("unique", "id", False)))
    await shop.work()

    found = next(each for each in await shop.incidents() if each["kind"] == "TestFailed")
    evidence = await shop.get(f"/{found['id']}/evidence")
    assert "code_changed" in {each["kind"] for each in evidence["evidence"]}
    versions = await shop.rows("SELECT version, changed FROM job_versions WHERE organization_id = $1 ORDER BY version")
    assert versions == [{"version": 1, "changed": []}, {"version": 2, "changed": ["sql"]}], "dates in SQL are no change"


async def test_the_chain_above_the_run_is_told(shop: Shop) -> None:
    dag, task, query = a_run_id(), a_run_id(), a_run_id()
    await shop.send(
        an_event("START", run=dag, job="dag", time=at(-300)),
        an_event("START", run=task, job="dag.task", time=at(-200), run_facets={"parent": started_by(dag, "dag")}),
    )
    await shop.send(*wrote("app.query", 0, "marts.orders", run=query, parent=started_by(task, "dag.task")))
    await shop.send(checked("marts.orders", 60, NOT_NULL))
    await shop.work()

    found = await shop.incident()
    assert [(each["run_id"], each["job_name"]) for each in found["parents"]] == [(task, "dag.task"), (dag, "dag")]
    assert (await shop.get("/1/evidence"))["chain"] == ["dag", "dag.task"]


async def test_a_test_of_severity_warn_opens_nothing(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, NOT_NULL, severity="warn"))
    await shop.work()

    assert await shop.incidents() == []


@pytest.mark.parametrize("state", ["START", "RUNNING"])
async def test_what_is_said_of_tests_opens_nothing_before_the_run_has_ended(shop: Shop, state: str) -> None:
    run = a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, NOT_NULL, run=run, state=state))
    await shop.work()
    assert await shop.incidents() == []

    await shop.send(checked("marts.orders", 90, NOT_NULL, run=run))
    await shop.work()
    assert len(await shop.incidents()) == 1


@pytest.mark.parametrize("state", ["START", "RUNNING"])
async def test_what_failed_at_first_and_passed_at_the_end_opens_nothing(shop: Shop, state: str) -> None:
    run = a_run_id()
    await shop.send(checked("marts.orders", 60, NOT_NULL, run=run, state=state))
    await shop.work()
    await shop.send(checked("marts.orders", 90, ("not_null", "email", True), run=run))
    await shop.work()

    assert await shop.incidents() == []


async def test_an_end_that_says_nothing_of_tests_lets_what_was_said_before_count(shop: Shop) -> None:
    run = a_run_id()
    await shop.send(checked("marts.orders", 60, NOT_NULL, run=run, state="RUNNING"))
    await shop.work()
    await shop.send(an_event("COMPLETE", run=run, job="test.marts.orders", time=at(90)))
    await shop.db.execute("UPDATE async_task SET next_run_at = now() WHERE task_type = 'CORRELATE'")
    await shop.work()

    assert len(await shop.incidents()) == 1


async def test_a_run_that_tests_what_it_writes_is_the_producer(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    run = a_run_id()
    assertions = {"dataQualityAssertions": a_facet(assertions=[{"assertion": "unique", "success": False}])}
    await shop.send(
        an_event(
            run=run,
            job="load",
            time=at(HOUR),
            inputs=[a_dataset("marts.orders", inputFacets=assertions)],
            outputs=[a_dataset("marts.orders")],
        )
    )
    await shop.work()

    assert [each["run_id"] for each in await shop.incidents()] == [run]


async def test_a_blocked_gate_and_the_tests_behind_it_are_one_incident(shop: Shop) -> None:
    pipeline, node, tests = a_run_id(), a_run_id(), a_run_id()
    target = {"namespace": TARGET.namespace, "name": TARGET.name}
    failed = a_facet(assertions=[{"assertion": "not_null", "success": False, "column": "id"}])
    await shop.send(
        a_pipeline_event(pipeline),
        a_node_start(node, pipeline) | {"outputs": [target]},
        an_event(
            run=tests,
            job="sales.orders.tests",
            namespace="shop",
            time=at(60),
            inputs=[{**target, "inputFacets": {"dataQualityAssertions": failed}}],
            run_facets={"parent": started_by(node, "sales.orders")},
            job_facets={"jobType": a_facet(processingType="BATCH", integration="HEADGATE", jobType="TEST")},
        ),
        a_node_end(node, pipeline, status="stopped", outputs=[target], **a_full_record()),
        a_pipeline_event(pipeline, "stopped", seconds=61),
    )
    await shop.work()

    found = await shop.incident()
    told = {each["type"]: each["sentence"] for each in found["symptoms"]}
    assert set(told) == {"TestFailed", "GateBlocked", "RunFailed"}
    assert told["GateBlocked"] == "the gate of sales.orders kept 100 rows from being published"
    assert found["run_id"] == node, "the node's own run produced it, published or not"
    told_of = {event for what, event in await shop.alerts() if what == "SYMPTOM"}
    assert told_of == {"TestFailed", "GateBlocked"}, "that the pipeline ended badly is no news then"


@pytest.mark.parametrize("status", ["skipped", "published"])
async def test_nodes_that_did_nothing_wrong_open_nothing(shop: Shop, status: str) -> None:
    await shop.send(a_node_end(a_run_id(), status=status, event_type="ABORT"))
    await shop.work()

    assert await shop.incidents() == []


async def test_a_test_run_that_failed_with_its_tests_is_no_symptom_of_its_own(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, NOT_NULL, state="FAIL"))
    await shop.work()

    assert [each["type"] for each in (await shop.incident())["symptoms"]] == ["TestFailed"]


async def test_a_test_without_a_dataset_opens_an_incident_too(shop: Shop) -> None:
    test = {"name": "orders_are_recent", "type": "freshness", "status": "fail", "severity": "error"}
    await shop.send(an_event(job="tests", run_facets={"test": a_facet(tests=[test])}))
    await shop.work()

    found = await shop.incident()
    assert (found["test_name"], found["dataset"], found["is_orphan"]) == ("orders_are_recent", None, False)


async def test_work_done_twice_changes_nothing(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders", state="FAIL"))
    await shop.send(checked("marts.orders", 60, NOT_NULL))
    await shop.work()
    before = [await shop.get(f"/{each['id']}") for each in await shop.incidents()]

    await shop.db.execute("UPDATE async_task SET status = 'PENDING', next_run_at = now() WHERE task_type = 'CORRELATE'")
    await shop.work()

    assert [await shop.get(f"/{each['id']}") for each in await shop.incidents()] == before


def profiled(job: str, second: float, table: str, rows: int, output: str | None = None) -> Json:
    """A run that reads a table and says how many rows it has, where OpenLineage puts that: beside the input."""
    told = {"dataQualityMetrics": a_facet(rowCount=rows, columnMetrics={})}
    outputs = [] if output is None else [a_dataset(output)]
    return an_event(job=job, time=at(second), inputs=[a_dataset(table, inputFacets=told)], outputs=outputs)


@pytest.mark.parametrize("output", [None, "marts.report"], ids=["that only looks", "that writes something else"])
async def test_whoever_reads_a_table_and_tells_what_is_in_it_is_not_the_cause(shop: Shop, output: str | None) -> None:
    for day in range(10):
        await shop.send(*wrote("load", day * DAY, "marts.orders"))
        await shop.send(profiled("look", day * DAY + 600, "marts.orders", 1000 + day, output))
    bad = a_run_id()
    await shop.send(*wrote("load", 10 * DAY, "marts.orders", run=bad))
    await shop.send(profiled("look", 10 * DAY + 600, "marts.orders", 300, output))
    await shop.work()

    found = await shop.incident()
    assert (found["kind"], found["run_id"], found["job_name"]) == ("RowCountDrop", bad, "load")
    assert found["confidence"] >= 0.6
    assert [each["kind"] for each in (await shop.get("/1/evidence"))["evidence"]] == ["row_count"]


async def test_what_writer_and_reader_tell_of_one_drop_is_one_incident(shop: Shop) -> None:
    for day in range(10):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
        await shop.send(profiled("use", day * DAY + 600, "marts.orders", 1000 + day, "marts.report"))
    bad = a_run_id()
    await shop.send_and_work(*wrote("load", 10 * DAY, "marts.orders", run=bad, rows=300))
    await shop.send_and_work(profiled("use", 10 * DAY + 600, "marts.orders", 300, "marts.report"))

    found = await shop.incident()
    assert (found["run_id"], found["job_name"]) == (bad, "load")


async def test_a_reader_of_a_table_that_nobody_is_known_to_write_is_no_cause(shop: Shop) -> None:
    for day in range(10):
        await shop.send(profiled("look", day * DAY, "raw.orders", 1000 + day))
    await shop.send(profiled("look", 10 * DAY, "raw.orders", 300))
    await shop.work()

    found = await shop.incident()
    assert (found["run_id"], found["job_name"]) == (None, None)
    assert "raw.orders" in found["root_cause"]
