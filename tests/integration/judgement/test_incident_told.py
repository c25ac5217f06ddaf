"""What is told of an incident is true of it: title, test, causes of symptoms, evidence, counts and what is left out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.server.incidents import jobs
from headgate.server.incidents.correlation.symptoms import MAX_FAILURES
from headgate.server.kinds import kinds_of
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.support.events import Json, a_run_id, at
from tests.support.incidents import DAY, HOUR, Shop, checked, wrote

FAILS, PASSES = ("not_null", "id", False), ("not_null", "id", True)


def told_by(incident: Json) -> tuple[Any, ...]:
    dataset = incident["dataset"]["name"] if incident["dataset"] else None
    return incident["kind"], incident["title"], dataset, incident["column"], incident["run_id"], incident["test_name"]


# --- what an incident is told by ---


async def test_an_incident_that_loses_what_opened_it_is_told_by_what_it_has_left(shop: Shop) -> None:
    source, load = a_run_id(), a_run_id()
    await shop.send(*wrote("ingest", 0, "raw.orders", run=source))
    await shop.send(*wrote("load", 600, "marts.orders", "raw.orders", run=load))
    await shop.send_and_work(checked("raw.orders", 700, FAILS), checked("marts.orders", 800, ("unique", "key", False)))
    before = await shop.incident()

    new = await shop.change(f"{before['number']}/split", symptoms=[before["symptoms"][0]["id"]])

    old = await shop.get(f"/{before['number']}")
    title = "test 'unique' of column 'key' failed on marts.orders"
    assert told_by(old) == ("TestFailed", title, "marts.orders", "key", load, "unique")
    assert told_by(new) == told_by(before)
    assert old["job_name"] == "load"
    assert new["cause"]["run_id"] == source


TRACE = """Traceback (most recent call last):
  File "load.py", line 9, in <module>
    connect(url)
OperationalError: postgres://u:secretpw@h/db refused password=hunter2"""


async def test_an_error_is_told_by_the_line_that_says_it_and_without_credentials(shop: Shop) -> None:
    run = a_run_id()
    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=run, state="FAIL", error=TRACE))

    found = await shop.incident()
    said = "OperationalError: postgres://u:***@h/db refused password=***"
    assert found["title"] == f"a run of load failed: {said}"
    evidence = await shop.get("/1/evidence")
    assert evidence["evidence"][0]["sentence"] == f"failed: {said}"
    everything = str([found, evidence, await shop.get("/1/timeline")])
    assert "secretpw" not in everything
    assert "hunter2" not in everything
    (kept,) = await shop.rows("SELECT error FROM job_runs WHERE organization_id = $1")
    assert kept["error"] == TRACE, "what was sent is as it was sent"


async def test_an_orphan_that_is_split_off_is_an_orphan(shop: Shop) -> None:
    await shop.send_and_work(checked("marts.unknown", 60, FAILS, ("unique", "key", False)))
    before = await shop.get("/1")
    new = await shop.change("1/split", symptoms=[before["symptoms"][0]["id"]])

    assert (new["is_orphan"], new["run_id"], new["test_name"]) == (True, None, before["symptoms"][0]["test_name"])


async def test_a_named_cause_stays_when_symptoms_are_split_off(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 60, FAILS, ("unique", "key", False)))
    before = await shop.incident()
    await shop.change("1/root", dataset="raw.orders")
    await shop.change("1/split", symptoms=[before["symptoms"][0]["id"]])

    assert "is the cause, says" in (await shop.get("/1"))["root_cause"]


async def test_the_test_of_an_incident_is_one_of_its_dataset_and_run(shop: Shop) -> None:
    run = a_run_id()
    await shop.send(*wrote("ingest", 0, "raw.orders", run=run, state="FAIL", error="gone"))
    await shop.send(*wrote("load", 600, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 700, ("recent_rows", None, False)))

    found = await shop.incident()
    assert (found["kind"], found["run_id"], found["symptom_count"]) == ("RunFailed", run, 2)
    assert (found["test_name"], found["test_status"]) == (None, None)


@pytest.mark.parametrize("is_bytes_first", [True, False], ids=["bytes_first", "rows_first"])
async def test_of_rows_and_bytes_the_rows_are_told(shop: Shop, is_bytes_first: bool) -> None:
    def sized(day: int, rows: int, run: str) -> list[Json]:
        start, end = wrote("load", day * DAY, "marts.orders", rows=rows, run=run)
        end["outputs"][0]["outputFacets"]["outputStatistics"]["size"] = rows * 100
        return [start, end]

    for day in range(8):
        await shop.send(*sized(day, 1000, a_run_id()))
    run = a_run_id()
    await shop.send(*sized(8, 100, run))
    await Worker(shop.server.database, [each for each in kinds() if each.task_type == "DETECT"]).drain()
    # One worker takes them one by one, in the order in which it is asked to.
    order = "metric = 'byte_size'" if is_bytes_first else "metric = 'row_count'"
    await shop.db.execute(
        f"UPDATE anomalies SET observed_at = observed_at - interval '1 ms' WHERE organization_id = $1 AND {order}",
        shop.tenant.organization_id,
    )
    await shop.work()

    found = await shop.incident()
    assert found["kind"] == "RowCountDrop"
    assert {each["type"] for each in found["symptoms"]} == {"RowCountDrop", "VolumeDrop"}
    assert found["cause"]["run_id"] == run


def kinds() -> tuple[Kind, ...]:
    return kinds_of(Settings(_env_file=None))


# --- causes of symptoms ---


async def test_what_was_of_another_run_than_was_known_has_its_cause_told_anew(shop: Shop) -> None:
    await shop.send(*wrote("load", -DAY, "marts.orders"))
    await shop.send_and_work(checked("marts.orders", 600, FAILS))
    before = (await shop.incident())["symptoms"][0]["root_cause"]
    await shop.send_and_work(*wrote("load", 0, "marts.orders"))

    found = await shop.incident()
    (row,) = await shop.select("SELECT root_cause FROM incident_correlation_view")
    assert "2026-02-28" in before
    assert "2026-03-01" in row["root_cause"]
    assert row["root_cause"] == found["symptoms"][0]["root_cause"] == found["root_cause"]


async def test_the_view_tells_the_cause_that_a_person_named(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 60, FAILS))
    named = await shop.change("1/root", dataset="raw.orders")

    (row,) = await shop.select("SELECT root_cause FROM incident_correlation_view")
    assert row["root_cause"] == named["root_cause"]
    assert "says" in row["root_cause"]


async def test_a_run_that_a_person_named_has_its_job_in_full(shop: Shop) -> None:
    other = a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders"), *wrote("elsewhere", 0, "marts.else", run=other))
    await shop.send_and_work(checked("marts.orders", 60, FAILS))
    await shop.change("1/root", run=other)

    cause = (await shop.get("/1/evidence"))["cause"]
    assert (cause["job"]["namespace"], cause["job"]["name"]) == ("tests", "elsewhere")


# --- evidence ---


async def test_what_a_cause_explains_says_of_what(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000))
        await shop.send(*wrote("load", day * DAY + 600, "marts.orders", "raw.orders", rows=900))
    await shop.send(*wrote("ingest", 8 * DAY, "raw.orders", rows=100))
    await shop.send(*wrote("load", 8 * DAY + 600, "marts.orders", "raw.orders", rows=90))
    await shop.send(checked("marts.orders", 8 * DAY + 700, ("row_count", None, False)))
    # Nobody looks into the figures here but those who look for the cause.
    await Worker(shop.server.database, [Kind("CORRELATE", jobs.correlate)]).drain()

    explained = (await shop.get("/1/evidence"))["explains"]
    told = {(each["dataset"]["urn"], each["job"]["name"], each["kind"]) for each in explained}
    assert told == {("postgres://db/marts.orders", "load", "row_count")}


async def test_a_failed_test_is_evidence_of_when_it_was_seen(shop: Shop) -> None:
    await shop.send(*wrote("ingest", 0, "raw.orders"))
    await shop.send(*wrote("load", 600, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("raw.orders", 650, FAILS), checked("marts.orders", 700, FAILS))

    (symptom,) = [each for each in (await shop.incident())["symptoms"] if each["dataset"]["name"] == "marts.orders"]
    assert "wrote what failed the test 'not_null'" in symptom["root_cause"]
    split = await shop.change("1/split", symptoms=[symptom["id"]])
    (evidence,) = (await shop.get(f"/{split['number']}/evidence"))["evidence"]
    assert (evidence["kind"], evidence["at"]) == ("test_failed", at(650))


# --- how much there is ---


async def test_failures_beyond_what_is_listed_are_counted(shop: Shop) -> None:
    many = MAX_FAILURES + 500
    await shop.send(*wrote("load", 0, "x.t"))
    await shop.send(checked("x.t", 60, *(("not_null", f"c{number:04}", False) for number in range(many))))
    await shop.work()

    found = await shop.incident()
    assert (found["title"], found["symptom_count"]) == ("1,500 tests failed on x.t", MAX_FAILURES)
    assert (found["test_name"], found["column"]) == ("not_null", "c0000")
    columns = {each["column"] for each in found["symptoms"]}
    assert columns == {f"c{number:04}" for number in range(500)}, "the first by name"
    first = await shop.get("/1/timeline", limit=1000)
    items = (await shop.get("/1/timeline", limit=1000, cursor=first["next_cursor"]))["items"]
    sentences = [each["sentence"] for each in items[-1:]]
    assert sentences == ["500 more tests failed on x.t, and are not listed"]


async def test_what_is_the_same_again_is_one_event_with_a_count(shop: Shop) -> None:
    for hour in range(5):
        await shop.send(*wrote("load", hour * HOUR, "marts.orders"))
        for attempt in range(3):
            await shop.send_and_work(checked("marts.orders", hour * HOUR + 60 + attempt, FAILS))

    found = await shop.incident()
    items = (await shop.get("/1/timeline"))["items"]
    assert [each["count"] for each in found["symptoms"]] == [3] * 5
    joined = [each["sentence"] for each in items if each["kind"] == "symptom_joined"]
    assert joined == ["test 'not_null' of column 'id' failed on marts.orders (the same again, 4 times)"]
    repeated = [each["sentence"] for each in items if each["kind"] == "symptom_repeated"]
    told = "the same was seen 2 times more: test 'not_null' of column 'id' failed on marts.orders"
    assert repeated == [told] * 5


async def test_the_summary_counts_failed_tests_as_failures(shop: Shop) -> None:
    now = datetime.now(UTC)
    await shop.send(*wrote("load", 0, "marts.orders", state="FAIL"))
    await shop.send_and_work(checked("marts.orders", 60, FAILS), checked("marts.orders", 61, FAILS))
    for table in ("incidents", "incident_symptoms"):
        seen = "last_seen_at" if table == "incidents" else "last_observed_at"
        await shop.db.execute(
            f"UPDATE {table} SET {seen} = $2 WHERE organization_id = $1", shop.tenant.organization_id, now
        )

    (row,) = await shop.select("SELECT failed_tests, failures FROM recent_incidents_summary")
    assert (row["failed_tests"], row["failures"]) == (1, 2)


# --- how long it is kept ---


async def test_what_ended_long_ago_is_removed_with_all_that_is_kept_of_it(shop: Shop) -> None:
    for place, table in enumerate(("marts.old", "marts.new", "marts.open", "marts.last")):
        await shop.send(*wrote(f"load{place}", 0, table))
        await shop.send_and_work(checked(table, 60 + place, FAILS))
    for number in (1, 2, 4):
        await shop.change(f"{number}/status", "PATCH", status="resolved")
    org = shop.tenant.organization_id
    await shop.db.execute(
        "UPDATE incidents SET updated_at = now() - interval '366 days' WHERE organization_id = $1 AND number <> 2", org
    )
    kind = next(each for each in kinds() if each.task_type == "CLEAN_INCIDENTS")
    worker = Worker(shop.server.database, [kind])
    await worker.schedule()
    await worker.drain()

    left = await shop.rows("SELECT number FROM incidents WHERE organization_id = $1 ORDER BY number")
    assert [each["number"] for each in left] == [2, 3, 4], "nor what is open, and numbers are not given twice"
    for table in ("incident_symptoms", "incident_events"):
        sql = f"SELECT count(DISTINCT incident_id) AS of FROM {table} WHERE organization_id = $1"
        assert await shop.rows(sql) == [{"of": 3}]


async def test_so_many_that_it_takes_several_transactions_are_removed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "CLEANUP_BATCH", 2)
    for place in range(6):
        await shop.send(*wrote(f"load{place}", 0, f"marts.t{place}", state="FAIL", error="gone"))
    await shop.work()
    for number in range(1, 7):
        await shop.change(f"{number}/status", "PATCH", status="resolved")
    later = jobs.IncidentCleaning(365, clock=lambda: datetime.now(UTC) + timedelta(days=366))
    worker = Worker(shop.server.database, [Kind("CLEAN_INCIDENTS", send=later.send, every_s=3600)])
    await worker.schedule()
    await worker.drain()

    assert len(await shop.rows("SELECT 1 FROM incidents WHERE organization_id = $1")) == 1


@pytest.mark.parametrize("days", [30, 36_501])
def test_how_long_incidents_are_kept_has_its_bounds(days: int) -> None:
    assert Settings(_env_file=None).incident_days == 365
    with pytest.raises(ValueError, match="incident_days"):
        Settings(incident_days=days, _env_file=None)
