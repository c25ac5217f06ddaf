"""Anomalies as symptoms: which of them open incidents, what they join, and when they are over."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from headgate.server.incidents.jobs import tend
from headgate.server.queue import Batch, NewTask, content_hash, enqueue
from tests.support.events import Json, a_run_id, an_event, at
from tests.support.incidents import DAY, HOUR, Shop, checked, wrote


async def found_odd(shop: Shop, kind: str, second: float, **more: Any) -> UUID:
    """An anomaly that somebody found, and that is looked into."""
    values: Json = {
        "anomaly_type": kind,
        "severity": "CRITICAL",
        "observed_at": datetime.fromisoformat(at(second)),
        "description": f"{kind} it is",
        "source": "detector",
        "organization_id": shop.tenant.organization_id,
    } | more
    places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
    anomaly_id: UUID = await shop.db.fetchval(
        f"INSERT INTO anomalies ({', '.join(values)}) VALUES ({places}) RETURNING id", *values.values()
    )
    payload = {"kind": "anomaly", "anomaly_id": str(anomaly_id)}
    task = NewTask("CORRELATE", "ANOMALY", str(anomaly_id), content_hash(anomaly_id), payload=payload)
    async with shop.server.database.tenant(shop.tenant.organization_id) as conn:
        await enqueue(conn, shop.tenant.organization_id, [task])
    await shop.work()
    return anomaly_id


async def dataset_id(shop: Shop, name: str) -> UUID:
    return UUID((await shop.dataset(name))["id"])


async def test_a_drop_opens_an_incident_that_the_tests_behind_it_join(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000 + day))
        await shop.send(*wrote("build", day * DAY + 600, "marts.orders", "raw.orders", rows=500 + day))
    bad = a_run_id()
    await shop.send(*wrote("ingest", 8 * DAY, "raw.orders", run=bad, rows=100))
    await shop.send(*wrote("build", 8 * DAY + 600, "marts.orders", "raw.orders", rows=50))
    await shop.send(checked("marts.orders", 8 * DAY + 900, ("enough_rows", None, False)))
    await shop.work()

    found = await shop.incident()
    assert {each["type"] for each in found["symptoms"]} == {"RowCountDrop", "TestFailed"}
    assert len(found["symptoms"]) == 3
    assert (found["cause"]["run_id"], found["cause"]["job"]["name"]) == (bad, "ingest")
    assert {each["kind"] for each in (await shop.get("/1/evidence"))["evidence"]} == {"row_count"}


async def test_a_missed_write_is_over_when_the_dataset_is_written(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", 0, "marts.orders"))
    await found_odd(shop, "FreshnessMissed", DAY, dataset_id=await dataset_id(shop, "marts.orders"))
    found = await shop.incident()
    assert (found["kind"], found["status"], found["dataset"]["name"]) == ("FreshnessMissed", "open", "marts.orders")

    await shop.send_and_work(*wrote("load", DAY + HOUR, "marts.orders"))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the dataset was written")


async def test_a_missed_write_is_caused_by_the_upstream_run_that_failed(shop: Shop) -> None:
    for day in range(4):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders"))
        await shop.send(*wrote("build", day * DAY + 600, "marts.orders", "raw.orders"))
    failed = a_run_id()
    await shop.send(*wrote("ingest", 4 * DAY, "raw.orders", run=failed, state="FAIL", error="source is down"))
    await shop.work()
    await found_odd(shop, "FreshnessMissed", 4 * DAY + HOUR, dataset_id=await dataset_id(shop, "marts.orders"))

    found = await shop.incident()
    assert {each["type"] for each in found["symptoms"]} == {"RunFailed", "FreshnessMissed"}
    assert found["cause"]["run_id"] == failed


@pytest.mark.parametrize("end", ["COMPLETE", "FAIL"])
async def test_a_stuck_run_is_over_when_it_ends(shop: Shop, end: str) -> None:
    run = a_run_id()
    await shop.send(an_event("START", run=run, job="load", time=at(0)))
    await shop.work()
    await found_odd(shop, "StuckRun", HOUR, run_id=UUID(run), severity="WARNING")
    assert [(each["kind"], each["job_name"]) for each in await shop.incidents()] == [("StuckRun", "load")]

    await shop.send_and_work(an_event(end, run=run, job="load", time=at(2 * HOUR)))

    (found,) = await shop.incidents(kind="StuckRun")
    symptoms = {each["type"]: each["cleared_at"] for each in (await shop.get(f"/{found['id']}"))["symptoms"]}
    assert symptoms["StuckRun"] == at(2 * HOUR)
    assert found["status"] == ("resolved" if end == "COMPLETE" else "open"), "a run that failed goes on to be wrong"


@pytest.mark.parametrize(
    ("kind", "severity", "opens"),
    [
        ("SchemaChange", "CRITICAL", True),
        ("SchemaChange", "WARNING", False),
        ("RowCountSpike", "WARNING", True),
        ("RowCountSpike", "INFO", False),
        ("what a client calls it", "WARNING", True),
    ],
    ids=["breaking", "harmless change", "spike", "for information", "a word of its own"],
)
async def test_what_breaks_or_worries_opens_an_incident(shop: Shop, kind: str, severity: str, opens: bool) -> None:
    await shop.send_and_work(*wrote("load", 0, "marts.orders"))
    await found_odd(shop, kind, 60, dataset_id=await dataset_id(shop, "marts.orders"), severity=severity)

    assert [each["kind"] for each in await shop.incidents()] == ([kind] if opens else [])


async def test_the_same_metric_of_two_partitions_is_two_symptoms(shop: Shop) -> None:
    run = a_run_id()
    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=run))
    odd = {"dataset_id": await dataset_id(shop, "marts.orders"), "run_id": UUID(run), "metric": "row_count"}
    for country in ("DE", "FR"):
        await found_odd(shop, "RowCountDrop", 0, **odd, partition_key=f"country={country}")

    assert len((await shop.incident())["symptoms"]) == 2


async def test_an_anomaly_that_is_gone_is_no_symptom(shop: Shop) -> None:
    anomaly = a_run_id()
    task = NewTask("CORRELATE", "ANOMALY", anomaly, content_hash(anomaly), payload={"kind": "anomaly"})
    async with shop.server.database.tenant(shop.tenant.organization_id) as conn:
        await enqueue(conn, shop.tenant.organization_id, [task])
    await shop.work()

    assert await shop.incidents() == []


async def test_a_task_that_says_nothing_fails_and_says_so(shop: Shop) -> None:
    async with shop.server.database.tenant(shop.tenant.organization_id) as conn:
        await enqueue(conn, shop.tenant.organization_id, [NewTask("CORRELATE", "RUN", a_run_id(), content_hash("x"))])
    await shop.work()

    (task,) = await shop.rows("SELECT status, last_error FROM async_task WHERE organization_id = $1")
    assert task["status"] == "FAILED"
    assert "kind is None" in task["last_error"]


# --- when they are over ---


async def odd(shop: Shop) -> list[Json]:
    """Anomalies, the latest first, as they are listed, with their history."""
    listed = (await shop.tenant.client.get("/api/v1/anomalies")).json()["items"]
    return [(await shop.tenant.client.get(f"/api/v1/anomalies/{each['id']}")).json() for each in listed]


async def open_count(shop: Shop) -> int:
    summary = (await shop.tenant.client.get("/api/v1/anomalies/stats/summary")).json()
    return int(summary["open"])


async def tended(shop: Shop) -> None:
    async with shop.server.database.tenant(shop.tenant.organization_id) as conn:
        await tend(conn, Batch(shop.tenant.organization_id, "TEND", "", ()))


async def a_missed_write(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", 0, "marts.orders"))
    await found_odd(shop, "FreshnessMissed", DAY, dataset_id=await dataset_id(shop, "marts.orders"))


async def set_anomaly(shop: Shop, anomaly: Json, status: str) -> None:
    response = await shop.tenant.client.patch(f"/api/v1/anomalies/{anomaly['id']}", json={"status": status})
    assert response.is_success, response.text
    await shop.work()


@pytest.mark.parametrize("status", ["OPEN", "ACKNOWLEDGED", "ALERTED"])
async def test_what_is_well_again_is_resolved_with_its_symptom_and_says_why(shop: Shop, status: str) -> None:
    await a_missed_write(shop)
    (found,) = await odd(shop)
    await set_anomaly(shop, found, status)
    assert await open_count(shop) == 1

    await shop.send_and_work(*wrote("load", DAY + HOUR, "marts.orders"))

    (found,) = await odd(shop)
    assert (found["status"], found["resolved_by"], found["resolution_notes"]) == (
        "RESOLVED", "headgate", "the dataset was written",
    )  # fmt: skip
    assert found["resolved_at"] is not None
    last = found["changes"][-1]
    assert (last["from"], last["to"], last["by"], last["notes"]) == (
        status, "RESOLVED", "headgate", "the dataset was written",
    )  # fmt: skip
    assert await open_count(shop) == 0


async def test_what_is_back_to_normal_is_resolved_and_stays_out_of_what_is_usual(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    await shop.send_and_work(*wrote("load", 8 * DAY, "marts.orders", rows=100))
    await shop.send_and_work(*wrote("load", 9 * DAY, "marts.orders", rows=1005))

    (found,) = await odd(shop)
    assert (found["status"], found["resolution_notes"]) == ("RESOLVED", "the metric is back to normal")
    outside = await shop.rows("SELECT row_count FROM dataset_metrics WHERE organization_id = $1 AND anomalous <> '{}'")
    assert [row["row_count"] for row in outside] == [100]


async def test_a_false_alarm_stays_one_when_its_incident_ends(shop: Shop) -> None:
    await a_missed_write(shop)
    (found,) = await odd(shop)
    await set_anomaly(shop, found, "FALSE_POSITIVE")
    await tended(shop)

    assert (await shop.incident())["status"] == "resolved"
    assert [each["status"] for each in await odd(shop)] == ["FALSE_POSITIVE"]


async def test_who_resolves_an_incident_resolves_its_anomalies_and_who_reopens_it_opens_them(shop: Shop) -> None:
    await a_missed_write(shop)
    await shop.set_status(await shop.incident(), "resolved", reason="a holiday")
    (found,) = await odd(shop)
    assert (found["status"], found["resolved_by"], found["resolution_notes"]) == ("RESOLVED", "first key", "a holiday")

    await shop.set_status(await shop.incident(), "open", reason="no holiday after all")
    await tended(shop)

    (found,) = await odd(shop)
    assert (found["status"], found["resolved_by"], found["resolution_notes"]) == ("OPEN", None, None)
    assert [(each["to"], each["by"], each["notes"]) for each in found["changes"]] == [
        ("RESOLVED", "first key", "a holiday"),
        ("OPEN", "first key", "no holiday after all"),
    ]
    assert (await shop.incident())["status"] == "open", "an anomaly that was resolved with it does not end it again"


async def test_what_opens_an_incident_again_is_an_anomaly_of_its_own(shop: Shop) -> None:
    await a_missed_write(shop)
    await shop.send_and_work(*wrote("load", DAY + HOUR, "marts.orders"))
    orders = await dataset_id(shop, "marts.orders")
    await found_odd(shop, "FreshnessMissed", DAY + 2 * HOUR, dataset_id=orders, occasion="the next")

    assert (await shop.incident())["status"] == "open"
    assert sorted(each["status"] for each in await odd(shop)) == ["OPEN", "RESOLVED"]


async def test_what_an_incident_has_that_is_merged_is_over_with_the_other(shop: Shop) -> None:
    run = a_run_id()
    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=run), *wrote("other", 0, "marts.returns"))
    await found_odd(shop, "ModelDrift", 0, dataset_id=await dataset_id(shop, "marts.orders"), run_id=UUID(run))
    returns = await dataset_id(shop, "marts.returns")
    for occasion in ("first", "the same again"):
        await found_odd(shop, "ModelDrift", 0, dataset_id=returns, occasion=occasion)
    first, second = await shop.incidents()
    await shop.change(f"{second['id']}/merge", into=first["id"])
    assert {each["incident_id"] for each in await odd(shop)} == {first["id"]}

    await shop.set_status(first, "resolved")

    assert await open_count(shop) == 0


async def test_what_is_told_again_of_the_same_run_is_over_with_the_incident(shop: Shop) -> None:
    run = a_run_id()
    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=run))
    of = {"dataset_id": await dataset_id(shop, "marts.orders"), "run_id": UUID(run), "source": "client"}
    for occasion, second in (("first", 0), ("the same again", 0), ("later", 60)):
        await found_odd(shop, "ModelDrift", second, **of, occasion=occasion)
    found = await shop.incident()
    assert await open_count(shop) == 3
    await shop.set_status(found, "resolved")
    await found_odd(shop, "ModelDrift", 30, **of, occasion="too late")

    assert await open_count(shop) == 0
    assert {each["incident_id"] for each in await odd(shop)} == {found["id"]}
    assert (await shop.incident())["status"] == "resolved"


async def test_what_is_told_again_after_the_end_opens_the_incident_and_keeps_it_open(shop: Shop) -> None:
    run = a_run_id()
    await shop.send_and_work(*wrote("load", 0, "marts.orders", run=run))
    of = {"dataset_id": await dataset_id(shop, "marts.orders"), "run_id": UUID(run), "source": "client"}
    await found_odd(shop, "ModelDrift", 0, **of)
    await shop.set_status(await shop.incident(), "resolved")
    for change in ("incidents SET resolved_at", "incident_symptoms SET cleared_at"):
        of_shop = (shop.tenant.organization_id, datetime.fromisoformat(at(30)))
        await shop.db.execute(f"UPDATE {change} = $2 WHERE organization_id = $1", *of_shop)
    await found_odd(shop, "ModelDrift", 60, **of, occasion="again")
    await tended(shop)

    assert (await shop.incident())["status"] == "open"
    assert sorted(each["status"] for each in await odd(shop)) == ["OPEN", "RESOLVED"]
