"""What a preview shows is what was sent: of anomalies that open no incident, and of chains of runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from headgate.server.anomalies.jobs import KINDS as ANOMALY_KINDS
from headgate.server.anomalies.judging.findings import correlation
from headgate.server.incidents.jobs import KINDS as INCIDENT_KINDS
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from tests.support.alerts import RULES, Json, Telling, a_channel, bodies
from tests.support.events import a_dataset, a_facet, a_run_id, an_event

QUIET = "https://hooks.example"


@pytest.fixture
async def telling(telling: Telling) -> Telling:
    """Previews look back from now."""
    telling.clock.now = datetime.now(UTC)
    return telling


async def work(telling: Telling) -> None:
    telling.clock.now = datetime.now(UTC)
    alerts = Kind("ALERT", send=telling.alerting.send, batch_size=20)
    await Worker(telling.database, [*ANOMALY_KINDS, *INCIDENT_KINDS, alerts]).drain()


async def found_odd(telling: Telling, dataset: UUID, kind: str, severity: str, **fields: Any) -> UUID:
    """An anomaly, with all that follows from it."""
    made = {"anomaly_type": kind, "severity": severity, "detected_at": datetime.now(UTC)} | fields
    anomaly = await telling.an_anomaly(dataset, **made)
    await telling.make(correlation(anomaly))
    await work(telling)
    return anomaly


async def sent(telling: Telling, rule: Json) -> list[tuple[str, str | None]]:
    return [(each["type"], each["reason"]) for each in await telling.history(rule_id=rule["id"])]


async def previewed(telling: Telling, rule: Json) -> list[tuple[str, str | None]]:
    found = await telling.get(f"{RULES}/{rule['id']}/preview")
    return [(each["type"], each["reason"]) for each in reversed(found["items"])]


ADDED, FASTER, DROP = ("SchemaChange", "WARNING"), ("DurationDrop", "INFO"), ("RowCountDrop", "CRITICAL")


@pytest.mark.parametrize(
    ("asked", "heard"),
    [
        ({"anomaly_type": "SchemaChange"}, ["SchemaChange"]),
        ({"anomaly_type": "Duration*"}, ["DurationDrop"]),
        ({"severity": "INFO"}, ["DurationDrop"]),
        ({"severity": "WARNING"}, ["SchemaChange"]),
        ({"anomaly_type": "*", "severity": "CRITICAL"}, ["RowCountDrop"]),
        ({"anomaly_type": "SchemaChange", "severity": "CRITICAL"}, []),
        ({}, ["RowCountDrop"]),
    ],
    ids=["type", "beginning", "informs", "severity", "worse", "both", "neither"],
)
async def test_what_opens_no_incident_is_told_to_those_who_ask_for_it(
    telling: Telling, asked: Json, heard: list[str]
) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, **asked)
        for kind, severity in (ADDED, FASTER, DROP):
            await found_odd(telling, dataset, kind, severity)
    assert await sent(telling, rule) == [(kind, None) for kind in heard]
    assert await previewed(telling, rule) == [(kind, None) for kind in heard]
    assert len(slack.asked) == len(heard)


async def test_an_anomaly_without_an_incident_is_told_with_its_figures(telling: Telling) -> None:
    with a_channel() as hook:
        await telling.a_rule(hook.url, channel_type="WEBHOOK", anomaly_type="DurationDrop")
        anomaly = await found_odd(telling, await telling.a_dataset("orders"), *FASTER, description="took 2 s")
    [body] = bodies(hook)
    assert (body["source_kind"], body["event"], body["severity"]) == ("anomaly", "DurationDrop", "INFO")
    assert (body["message"], body["dataset"]["name"]) == ("orders: took 2 s", "orders")
    assert (body["incident"], body["anomaly"]["id"]) == (None, str(anomaly))
    [kept] = await telling.history()
    assert (kept["anomaly_id"], kept["incident_id"], kept["symptom_id"]) == (str(anomaly), None, None)
    assert await telling.db.fetchval("SELECT status FROM anomalies WHERE id = $1", anomaly) == "ALERTED"


async def test_the_window_holds_for_what_opens_no_incident(telling: Telling) -> None:
    one, other = await telling.a_dataset("one"), await telling.a_dataset("other")
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, anomaly_type="SchemaChange")
        for dataset in (one, one, other):
            await found_odd(telling, dataset, *ADDED)
    expected = [("SchemaChange", None), ("SchemaChange", "window"), ("SchemaChange", None)]
    assert await sent(telling, rule) == expected
    assert await previewed(telling, rule) == expected


async def test_what_was_resolved_in_the_night_is_not_told_in_the_morning(telling: Telling) -> None:
    now = datetime.now(UTC)
    hours = {"from": f"{now - timedelta(hours=2):%H:%M}", "to": f"{now + timedelta(hours=2):%H:%M}"}
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="SchemaChange", quiet_hours=hours)
        one, other = await telling.a_dataset("one"), await telling.a_dataset("other")
        over = await found_odd(telling, one, *ADDED)
        await found_odd(telling, other, *ADDED)
        assert slack.asked == []
        path = f"/api/v1/anomalies/{over}"
        assert (await telling.tenant.client.patch(path, json={"status": "RESOLVED"})).is_success
        telling.clock.turn(hours=3)
        await telling.hurry()
    [asked] = slack.asked
    assert "other" in asked.body.decode()


async def test_a_person_who_looks_at_what_opens_no_incident_is_not_told_of_it(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    anomaly = await found_odd(telling, dataset, *ADDED)
    await telling.db.execute("DELETE FROM async_task WHERE organization_id = $1", telling.org)
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="SchemaChange")
        path = f"/api/v1/anomalies/{anomaly}"
        assert (await telling.tenant.client.patch(path, json={"status": "ACKNOWLEDGED"})).is_success
        await work(telling)
    assert slack.asked == []


def seconds_ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()


def started_by(run: str, job: str) -> Json:
    return {"parent": a_facet(run={"runId": run}, job={"namespace": "tests", "name": job})}


async def test_a_chain_of_runs_that_failed_is_previewed_as_it_was_told(telling: Telling) -> None:
    dag, task, app = a_run_id(), a_run_id(), a_run_id()
    chain = [
        ("spark_app", app, started_by(task, "dag.task")),
        ("dag.task", task, started_by(dag, "dag")),
        ("dag", dag, {}),
    ]
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, deduplication_minutes=0)
        for place, (job, run, facets) in enumerate(chain):
            time = seconds_ago(60 - place)
            error = {"errorMessage": a_facet(message="no disk", programmingLanguage="java")} if run == app else {}
            event = an_event("FAIL", run=run, job=job, time=time, run_facets=facets | error)
            await telling.tenant.send_ok(event)
            await work(telling)
    symptoms = await telling.db.fetchval(
        "SELECT count(*) FROM incident_symptoms WHERE organization_id = $1", telling.org
    )
    assert symptoms == 3
    assert await sent(telling, rule) == [("RunFailed", None)]
    assert await previewed(telling, rule) == [("RunFailed", None)]


async def test_what_was_over_before_anybody_heard_is_in_no_preview(telling: Telling) -> None:
    await telling.tenant.send_ok(an_event(job="load", time=seconds_ago(90), outputs=[a_dataset("orders")]))
    for success, ago in ((False, 60), (True, 30)):
        tests = [{"assertion": "not_null", "success": success, "column": "id"}]
        checked = a_dataset("orders", inputFacets={"dataQualityAssertions": a_facet(assertions=tests)})
        await telling.tenant.send_ok(an_event(job="check", time=seconds_ago(ago), inputs=[checked]))
    rules = [await telling.a_rule(QUIET, anomaly_type=kind) for kind in (None, "Incident*")]
    await work(telling)
    assert (await telling.get("/api/v1/incidents"))["items"][0]["status"] == "resolved"
    for rule in rules:
        assert (await previewed(telling, rule), await sent(telling, rule)) == ([], [])


async def test_symptoms_of_one_transaction_are_previewed_in_the_order_in_which_they_are_told(telling: Telling) -> None:
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, max_per_hour=2, deduplication_minutes=0)
        now = seconds_ago(60)
        for number in range(5):
            await telling.tenant.send_ok(an_event("FAIL", job=f"load_{number}", time=now))
        await work(telling)
    told = [each["run_id"] for each in await telling.history(rule_id=rule["id"], status="SENT")]
    found = (await telling.get(f"{RULES}/{rule['id']}/preview"))["items"]
    jobs = [each["message"] for each in reversed(found) if each["status"] == "SENT"]
    rows = await telling.db.fetch(
        "SELECT sentence FROM incident_symptoms WHERE run_id = ANY ($1::uuid[]) ORDER BY created_at", told
    )
    assert jobs == [row["sentence"] for row in rows]
    assert len(jobs) == 2
