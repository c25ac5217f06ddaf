"""From the events of a run to the message: detected, correlated and told by one worker."""

from __future__ import annotations

import json
from typing import Any

from headgate.server.anomalies.jobs import KINDS as ANOMALY_KINDS
from headgate.server.incidents.jobs import KINDS as INCIDENT_KINDS
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from tests.support.alerts import Telling, a_channel, bodies
from tests.support.anomalies import a_load, days_ago
from tests.support.channels import slack_problems
from tests.support.events import a_dataset, a_facet, an_event
from tests.support.pipeline_events import a_full_record, a_run


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
    assert "*Likely Cause:*" in text
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


async def test_a_failed_test_is_told_once(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="TestFailed")
        await telling.tenant.send_ok(an_event(job="load", outputs=[a_dataset("orders")]))
        for _ in range(2):
            await check(telling, "2026-03-01T11:00:00Z")
    [body] = bodies(slack)
    assert "not_null" in json.dumps(body)


async def test_a_blocked_gate_of_a_pipeline_is_told_by_its_event(telling: Telling) -> None:
    _, events = a_run(pipeline="silver", **a_full_record())
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="on_*", deduplication_minutes=0)
        await telling.tenant.send_ok(*events)
        await work(telling)
    kinds = {each["type"] for each in await telling.history()}
    assert {"on_start", "on_quarantine"} <= kinds
    assert [problem for body in bodies(slack) for problem in slack_problems(body)] == []
