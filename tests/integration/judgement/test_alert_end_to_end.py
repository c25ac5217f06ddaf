"""From the events of a run to the message: detected, correlated and told by one worker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.record import DriftRecord, GateRecord, RowCountRecord, Status
from headgate.pipelines.record import TestRecord as OneTest
from headgate.server.anomalies.jobs import KINDS as ANOMALY_KINDS
from headgate.server.incidents.jobs import KINDS as INCIDENT_KINDS
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from tests.support.alerts import EMAIL, Telling, a_channel, bodies
from tests.support.anomalies import a_load, days_ago
from tests.support.channels import slack_problems, teams_problems
from tests.support.events import Json, a_dataset, a_facet, an_event
from tests.support.mailboxes import Mailbox, a_mailbox
from tests.support.pipeline_events import a_batch as a_quarantine
from tests.support.pipeline_events import a_run


async def work(telling: Telling) -> None:
    alerts = Kind("ALERT", send=telling.alerting.send, batch_size=20)
    await Worker(telling.database, [*ANOMALY_KINDS, *INCIDENT_KINDS, alerts]).drain()


async def test_a_drop_of_rows_is_found_and_told_with_its_figures(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="RowCountDrop")
        for day, rows in enumerate([1000, 1010, 990, 1005, 995, 1002, 998]):
            await telling.tenant.send_ok(a_load(days_ago(8 - day), rows))
        await telling.tenant.send_ok(a_load(days_ago(0), 100))
        await work(telling)
    [body] = bodies(slack)
    text = json.dumps(body, ensure_ascii=False)
    assert slack_problems(body) == []
    assert "HEADGATE: orders - RowCountDrop" in text
    assert "*Found:*\\n100" in text
    assert "*Deviation:*\\n-" in text
    assert "*Likely Cause (" in text
    [kept] = await telling.history(status="SENT")
    assert await telling.db.fetchval("SELECT status FROM anomalies WHERE id = $1", kept["anomaly_id"]) == "ALERTED"
    assert kept["incident_id"] is not None


def checked(success: bool) -> dict[str, Any]:
    tests = [{"assertion": "not_null", "success": success, "column": "id"}]
    return a_dataset("orders", inputFacets={"dataQualityAssertions": a_facet(assertions=tests)})


async def check(telling: Telling, time: str, *, success: bool = False) -> None:
    await telling.tenant.send_ok(an_event(job="check", time=time, inputs=[checked(success)]))
    await work(telling)


async def test_a_test_that_fails_again_on_the_same_data_is_told_when_the_window_is_over(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tenant.send_ok(an_event(job="load", outputs=[a_dataset("orders")]))
        await check(telling, "2026-03-01T11:00:00Z")
        telling.clock.turn(minutes=30)
        await check(telling, "2026-03-01T11:30:00Z")
        assert await telling.outcomes() == [("SENT", None), ("DEDUPLICATED", "grouped")]
        telling.clock.turn(minutes=31)
        await check(telling, "2026-03-01T12:01:00Z")
    assert (await telling.outcomes())[2:] == [("SENT", None)]
    assert "2026-03-01T12:01:00" in slack.asked[1].body.decode()


async def test_an_incident_that_is_open_again_is_told_to_rules_without_a_type(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tenant.send_ok(an_event(job="load", outputs=[a_dataset("orders")]))
        await check(telling, "2026-03-01T11:00:00Z")
        await check(telling, "2026-03-01T11:30:00Z", success=True)
        assert await telling.db.fetchval("SELECT status FROM incidents WHERE organization_id = $1", telling.org) == (
            "resolved"
        )
        telling.clock.turn(minutes=90)
        await check(telling, "2026-03-01T12:30:00Z")
    assert await telling.outcomes() == [("SENT", None)] * 2
    assert len(slack.asked) == 2


async def mute(telling: Telling) -> None:
    (incident,) = (await telling.get("/api/v1/incidents"))["items"]
    path = f"/api/v1/incidents/{incident['id']}/status"
    response = await telling.tenant.client.patch(path, json={"status": "muted"})
    assert response.is_success, response.text
    # The worker's clock is ours, and stands far in the past.
    telling.clock.now = datetime.now(UTC)


async def test_what_a_muted_incident_would_have_told_is_in_the_history(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.a_rule(slack.url, anomaly_type="Incident*")
        await telling.tenant.send_ok(an_event(job="load", outputs=[a_dataset("orders")]))
        await check(telling, "2026-03-01T11:00:00Z")
        await mute(telling)
        await check(telling, "2026-03-01T12:30:00Z")
        telling.clock.turn(minutes=1)
        await check(telling, "2026-03-01T13:30:00Z", success=True)
    assert len(slack.asked) == 1
    kept = [(each["type"], each["status"], each["reason"]) for each in await telling.history()]
    assert kept == [
        ("TestFailed", "SENT", None),
        ("TestFailed", "DEDUPLICATED", "muted"),
        ("IncidentResolved", "DEDUPLICATED", "muted"),
    ]


async def test_a_failed_test_is_told_once(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="TestFailed")
        await telling.tenant.send_ok(an_event(job="load", outputs=[a_dataset("orders")]))
        for _ in range(2):
            await check(telling, "2026-03-01T11:00:00Z")
    [body] = bodies(slack)
    assert "not_null" in json.dumps(body)


# --- events of pipelines ---


def a_failed_test(name: str, kind: str, **more: Any) -> Json:
    return {"tests": (OneTest(name, kind, "warn", "failed", 3, ("id",), 100, **more),)}


GATE = GateRecord(False, 0.4, 0.95, "abort", 100, 40, 60, {"ids": 0.4}, RowCountRecord(100, None, None), ("too few",))
# For each event what a node has to report, and what people are told then.
TOLD: dict[AlertEvent, tuple[Json, str]] = {
    AlertEvent.on_start: ({}, "Pipeline sales has started."),
    AlertEvent.on_success: ({}, "Pipeline sales has published its nodes."),
    AlertEvent.on_failure: ({"status": Status.failed}, "Pipeline sales ended as failed."),
    AlertEvent.on_validation_fail: (a_failed_test("ids", "not_null"), "1 test of sales.orders failed: ids."),
    AlertEvent.on_gate_block: (
        {"gate": GATE, "status": Status.stopped},
        "The gate of sales.orders blocked the batch and nothing was published: 60 of 100 rows failed.",
    ),
    AlertEvent.on_quarantine: (
        {"quarantine": a_quarantine("batch-1")},
        "3 rows of sales.orders went to quarantine rejects/orders.",
    ),
    AlertEvent.on_threshold_breach: (
        a_failed_test("size", "row_count", detail="3 rows are fewer than 50"),
        "sales.orders is beyond 1 limit: ",
    ),
    AlertEvent.on_schema_drift: (
        {"drift": DriftRecord(added=("currency",), removed=("price",))},
        "The columns of silver/orders have changed: 1 added, 1 removed.",
    ),
    AlertEvent.on_freshness_fail: (
        a_failed_test("recent", "freshness", observed="30 hours", limit="24 hours"),
        "The rows of sales.orders are too old: ",
    ),
}


def test_each_event_of_pipelines_has_its_case() -> None:
    assert set(TOLD) == set(AlertEvent)


async def mails_go_to(telling: Telling, box: Mailbox) -> None:
    settings = {"backend": "smtp", "host": "127.0.0.1", "port": box.port, "tls": "none", "from": "a@example.org"}
    assert (await telling.tenant.client.put(EMAIL, json=settings)).status_code == 200


@pytest.mark.parametrize("event", TOLD)
async def test_an_event_of_a_pipeline_that_comes_in_is_told_once_by_every_channel(
    telling: Telling, event: AlertEvent
) -> None:
    record, sentence = TOLD[event]
    _, events = a_run(**record)
    async with a_mailbox() as box:
        with a_channel() as slack, a_channel() as teams, a_channel() as webhook:
            await mails_go_to(telling, box)
            for kind, channel in (("SLACK", slack), ("TEAMS", teams), ("WEBHOOK", webhook)):
                await telling.a_rule(channel.url, channel_type=kind, anomaly_type=str(event))
            mail = {"email_to": ["data@example.org"]}
            await telling.a_rule(channel_type="EMAIL", channel_config=mail, anomaly_type=str(event))

            await telling.tenant.send_ok(*events)
            await work(telling)

    [in_slack], [in_teams], [posted], [mail] = bodies(slack), bodies(teams), bodies(webhook), box.mails
    assert (slack_problems(in_slack), teams_problems(in_teams)) == ([], [])
    assert (posted["event"], posted["message"].startswith(sentence)) == (str(event), True)
    assert str(event) in mail["Subject"]
    plain = mail.get_body(("plain",))
    assert plain is not None
    for text in (json.dumps(in_slack), json.dumps(in_teams), " ".join(plain.get_content().split())):
        assert (str(event) in text, sentence in text) == (True, True)
    kept = [(each["type"], each["status"], each["channel_type"]) for each in await telling.history()]
    assert sorted(kept) == [(str(event), "SENT", kind) for kind in ("EMAIL", "SLACK", "TEAMS", "WEBHOOK")]
