"""What belongs to one problem although runs are repeated, start each other, or are heard of late."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.golden import golden
from tests.support.incidents import DAY, HOUR, Shop, checked, started_by, wrote

FAILS = ("recent_rows", None, False)
MINUTE = 60
TODAY = 8 * DAY


async def eight_good_days(shop: Shop, rows: int | None = None) -> None:
    for day in range(8):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=rows))
        await shop.send(*wrote("build", day * DAY + 30 * MINUTE, "marts.orders", "raw.orders", rows=rows))
    await shop.work()


def failed_tries(job: str = "ingest", *, error: str = "source refused") -> list[Json]:
    tries = (wrote(job, TODAY + each * 6 * MINUTE, "raw.orders", state="FAIL", error=error) for each in range(3))
    return [event for events in tries for event in events]


def built(rows: int | None = None) -> list[Json]:
    return wrote("build", TODAY + 40 * MINUTE, "marts.orders", "raw.orders", rows=rows)


# --- the same job again ---


async def test_retries_of_a_failed_run_and_what_was_built_on_them_are_one_incident(shop: Shop) -> None:
    await eight_good_days(shop)
    for event in (*failed_tries(), *built(), checked("marts.orders", TODAY + 50 * MINUTE, FAILS)):
        await shop.send_and_work(event)

    found = await shop.incident()
    assert [each["type"] for each in found["symptoms"]] == ["RunFailed"] * 3 + ["TestFailed"]
    assert found["kind"] == "RunFailed"


async def test_a_bad_batch_that_is_run_again_and_is_as_bad_is_one_incident(shop: Shop) -> None:
    await eight_good_days(shop, rows=1000)
    for minute in (0, 20):
        await shop.send_and_work(*wrote("ingest", TODAY + minute * MINUTE, "raw.orders", rows=100))
    await shop.send_and_work(*built(rows=100), checked("marts.orders", TODAY + 50 * MINUTE, FAILS))

    found = await shop.incident()
    assert {each["dataset"]["name"] for each in found["symptoms"]} == {"raw.orders", "marts.orders"}


async def test_what_another_job_surely_caused_next_to_it_stays_another_incident(shop: Shop) -> None:
    await eight_good_days(shop)
    for day in range(8):
        await shop.send(*wrote("rates", day * DAY, "raw.rates"))
        await shop.send(*wrote("report", day * DAY + 3000, "marts.report", "marts.orders", "raw.rates"))
    await shop.send_and_work(*built(), checked("marts.orders", TODAY + 45 * MINUTE, ("unique", "id", False)))
    await shop.send_and_work(*wrote("rates", TODAY, "raw.rates", state="FAIL", error="no rates"))

    assert len(await shop.still_open()) == 2


# --- runs that start each other ---


async def send_in(shop: Shop, order: Sequence[int], events: Sequence[Json]) -> None:
    for place in order:
        await shop.send_and_work(events[place])


AIRFLOW: list[Json] = [json.loads(event) for event in golden("airflow")[17:]]
ORDERS = {
    "as_captured": range(8),
    "task_first": (0, 2, 4, 6, 1, 3, 5, 7),
    "dag_first": (7, 0, 1, 2, 3, 4, 5, 6),
    "children_around_the_task": (0, 1, 2, 4, 6, 3, 5, 7),
    "dag_between": (0, 1, 2, 3, 4, 5, 7, 6),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
async def test_a_failed_task_of_airflow_is_one_incident_that_says_why(shop: Shop, order: Sequence[int]) -> None:
    await send_in(shop, order, AIRFLOW)

    found = await shop.incident()
    assert (found["symptom_count"], found["job_name"]) == (5, "shop_etl.check_quality")
    assert "row count check failed: expected >= 100, got 3" in found["root_cause"]
    assert found["title"].endswith("row count check failed: expected >= 100, got 3")


async def test_queries_that_say_why_are_one_incident_when_their_task_has_failed(shop: Shop) -> None:
    dag, task = a_run_id(), a_run_id()
    above = a_facet(run={"runId": task}, job={"namespace": "tests", "name": "dag.task"})
    above["root"] = {"run": {"runId": dag}, "job": {"namespace": "tests", "name": "dag"}}
    for name in ("one", "two"):
        failed = wrote(f"query.{name}", 0, f"marts.{name}", f"raw.{name}", state="FAIL", error=name, parent=above)
        await shop.send_and_work(*failed)
    assert len(await shop.still_open()) == 2, "until then they may be two problems"

    await shop.send_and_work(
        *wrote("dag.task", 5, "logs.t", run=task, state="FAIL", error="exit 1", parent=started_by(dag, "dag"))
    )

    (found,) = await shop.still_open()
    assert (found["symptom_count"], found["job_name"]) == (3, "query.one")
    assert "failed: one" in found["root_cause"], "who says why is nearer to the cause than who started it"


async def test_two_tasks_stay_two_incidents_when_their_dag_fails(shop: Shop) -> None:
    dag = a_run_id()
    for name in ("one", "two"):
        await shop.send_and_work(
            *wrote(f"dag.{name}", 0, f"marts.{name}", state="FAIL", error=name, parent=started_by(dag, "dag"))
        )
    await shop.send_and_work(an_event("FAIL", run=dag, job="dag", time=at(9)))

    assert sorted(each["symptom_count"] for each in await shop.still_open()) == [1, 2]


async def test_a_dag_that_is_heard_of_before_its_task_is_not_the_cause(shop: Shop) -> None:
    dag, task = a_run_id(), a_run_id()
    await shop.send_and_work(an_event("START", run=dag, job="dag", time=at(-300)))
    await shop.send_and_work(an_event("FAIL", run=dag, job="dag", time=at(9 * MINUTE)))
    error = {"errorMessage": a_facet(message="real reason", programmingLanguage="python")}
    facets = {"parent": started_by(dag, "dag"), **error}
    await shop.send_and_work(an_event("FAIL", run=task, job="dag.task", time=at(5 * MINUTE), run_facets=facets))

    found = await shop.incident()
    assert (found["title"], found["opened_at"]) == ("a run of dag.task failed: real reason", at(5 * MINUTE))
    assert (found["run_id"], found["cause"]["run_id"]) == (task, task)
    assert "real reason" in found["root_cause"]


# --- checks that are no tests by their type ---


async def test_a_check_that_fails_with_its_finding_is_not_blamed_for_it(shop: Shop) -> None:
    model, check = a_run_id(), a_run_id()
    await shop.send(*wrote("model", 0, "marts.orders", run=model))
    event = checked("marts.orders", MINUTE, ("not_null", "id", False), run=check, state="FAIL")
    event["job"]["facets"] = {}
    await shop.send_and_work(event)

    found = await shop.incident()
    assert [each["type"] for each in found["symptoms"]] == ["TestFailed"]
    assert (found["run_id"], found["cause"]["run_id"]) == (model, model)


async def test_a_run_that_fails_over_tests_of_what_it_writes_is_a_symptom(shop: Shop) -> None:
    failed = a_facet(assertions=[{"assertion": "not_null", "success": False, "column": "id"}])
    checks = a_dataset("marts.orders", inputFacets={"dataQualityAssertions": failed})
    await shop.send_and_work(an_event("FAIL", job="load", inputs=[checks], outputs=[a_dataset("marts.orders")]))

    assert {each["type"] for each in (await shop.incident())["symptoms"]} == {"TestFailed", "RunFailed"}


# --- what is heard of late ---


@pytest.mark.parametrize("is_at_once", [True, False], ids=["at_once", "one_by_one"])
async def test_failures_of_a_source_that_are_heard_of_late_are_the_cause(shop: Shop, is_at_once: bool) -> None:
    await eight_good_days(shop)
    await shop.send_and_work(*built(), checked("marts.orders", TODAY + 50 * MINUTE, FAILS))
    assert "had not run by" in (await shop.incident())["root_cause"]

    if is_at_once:
        await shop.send(*failed_tries())
        await shop.work()
    else:
        await shop.send_and_work(*failed_tries())

    found = await shop.incident()
    assert (found["kind"], found["symptom_count"], found["cause"]["job"]["name"]) == ("TestFailed", 4, "ingest")
    assert "failed: source refused" in found["root_cause"]
    (test,) = [each for each in found["symptoms"] if each["type"] == "TestFailed"]
    assert test["root_cause"] == found["root_cause"]


async def test_a_run_that_is_heard_of_late_is_no_longer_told_to_be_missing(shop: Shop) -> None:
    await eight_good_days(shop)
    await shop.send_and_work(
        *wrote("build", TODAY + 30 * MINUTE, "marts.orders", "raw.orders"),
        checked("marts.orders", TODAY + 40 * MINUTE, ("not_null", "id", False)),
    )
    before = await shop.incident()
    await shop.send_and_work(*wrote("ingest", TODAY, "raw.orders"))

    assert "'ingest' had not run" in before["root_cause"]
    assert "had not run" not in (await shop.incident())["root_cause"]


async def test_a_batch_that_is_heard_of_late_is_the_cause(shop: Shop) -> None:
    await eight_good_days(shop, rows=1000)
    await shop.send_and_work(*built(rows=100))
    before = await shop.incident()
    late = a_run_id()

    await shop.send_and_work(*wrote("ingest", TODAY, "raw.orders", run=late, rows=100))

    found = await shop.get(f"/{before['id']}")
    assert before["cause"]["run_id"] != late
    assert found["cause"]["run_id"] == late
    assert len(await shop.still_open()) == 1


async def test_what_fails_on_a_table_that_nobody_is_known_to_write_is_one_incident(shop: Shop) -> None:
    await shop.send_and_work(checked("raw.orders", 700, FAILS, ("unique", "id", False)))
    await shop.send_and_work(checked("raw.orders", 2 * HOUR, ("accepted_values", "state", False)))
    await shop.send_and_work(checked("raw.customers", 2 * HOUR, FAILS))

    first, second = await shop.incidents()
    assert (first["dataset"]["name"], first["symptom_count"], first["is_orphan"]) == ("raw.orders", 3, True)
    assert (second["dataset"]["name"], second["symptom_count"]) == ("raw.customers", 1)


async def test_what_fails_days_later_on_a_table_that_nobody_is_known_to_write_is_another_incident(shop: Shop) -> None:
    await shop.send_and_work(checked("raw.orders", 0, FAILS), checked("raw.orders", 3 * DAY, ("unique", "id", False)))

    assert len(await shop.still_open()) == 2


async def test_failures_are_one_incident_once_the_run_is_heard_of_that_had_written_both(shop: Shop) -> None:
    await shop.send_and_work(checked("marts.left", 700, FAILS), checked("marts.right", 710, FAILS))
    assert len(await shop.still_open()) == 2

    run = a_run_id()
    tables = [a_dataset("marts.left"), a_dataset("marts.right")]
    await shop.send_and_work(an_event("COMPLETE", run=run, job="build", time=at(600), outputs=tables))

    (found,) = await shop.still_open()
    assert (found["number"], found["symptom_count"], found["run_id"]) == (1, 2, run)
    (other,) = await shop.incidents(status="resolved")
    assert other["merged_into"] == 1
    last = (await shop.get("/2/timeline"))["items"][-1]
    assert "of the same run" in last["sentence"]


async def test_failures_are_one_incident_once_the_run_is_heard_of_that_lies_between_them(shop: Shop) -> None:
    await shop.send(*wrote("ingest", 0, "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 700, FAILS), checked("raw.orders", 710, FAILS))
    assert len(await shop.still_open()) == 2

    await shop.send_and_work(*wrote("build", 600, "marts.orders", "raw.orders"))

    (found,) = await shop.still_open()
    assert (found["number"], found["symptom_count"], found["cause"]["job"]["name"]) == (1, 2, "ingest")


async def test_what_a_person_has_made_two_of_stays_two_whatever_is_heard_of_later(shop: Shop) -> None:
    await shop.send_and_work(checked("marts.left", 700, FAILS, ("unique", "id", False)))
    first = await shop.incident()
    await shop.change(f"{first['id']}/split", symptoms=[first["symptoms"][0]["id"]])

    await shop.send_and_work(*wrote("build", 600, "marts.left"))

    assert len(await shop.still_open()) == 2


async def test_what_came_after_a_failure_changes_nothing(shop: Shop) -> None:
    await eight_good_days(shop)
    await shop.send_and_work(*built(), checked("marts.orders", TODAY + 50 * MINUTE, FAILS))
    before = await shop.incident()
    await shop.send_and_work(*wrote("ingest", TODAY + 60 * MINUTE, "raw.orders", state="FAIL", error="later"))

    assert (await shop.get(f"/{before['id']}"))["root_cause"] == before["root_cause"]


# --- downstream tests ---


async def test_a_downstream_test_does_not_take_the_cause_over(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000 + day))
        await shop.send(*wrote("build", day * DAY + 1800, "marts.orders", "raw.orders", rows=1000 + day))
    await shop.send_and_work(*wrote("ingest", TODAY, "raw.orders", rows=100))
    await shop.send_and_work(*wrote("build", TODAY + 1800, "marts.orders", "raw.orders", rows=100))
    before = await shop.incident()
    await shop.send_and_work(checked("marts.orders", TODAY + 2000, ("row_count_between", None, False)))

    found = await shop.incident()
    assert (found["root_cause"], found["title"]) == (before["root_cause"], before["title"])
    timeline = (await shop.get("/1/timeline"))["items"]
    assert "root_changed" not in [each["kind"] for each in timeline]
