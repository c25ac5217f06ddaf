"""Symptoms become messages: matched by rules, sent by real servers, kept in the history."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from headgate.messages.webhook import encoded
from headgate.pipelines.alerts.payloads import fields_of
from headgate.pipelines.config.alerts import AlertEvent
from headgate.server.queue import NewTask, content_hash
from tests.conftest import Cluster
from tests.support.alerts import PUBLIC, SECRET, Telling, a_channel, a_telling, bodies
from tests.support.bad_servers import answering, dead_url
from tests.support.channels import every_alert, slack_problems, teams_problems


async def test_a_symptom_reaches_slack_with_incident_cause_and_links(telling: Telling) -> None:
    dataset = await telling.a_dataset(owners=["ann"])
    with a_channel() as slack:
        await telling.a_rule(
            slack.url, channel_config={"webhook_url": f"{slack.url}/services/{SECRET}", "channel": "#d"}
        )
        incident = await telling.tell_of(dataset)

    [body] = bodies(slack)
    text = json.dumps(body, ensure_ascii=False)
    assert slack_problems(body) == []
    assert body["channel"] == "#d"
    assert body["attachments"][0]["blocks"][0]["text"]["text"] == "🔴 HEADGATE: shop.orders - RowCountDrop"
    assert "#1 row count of orders fell" in text
    assert "the source batch of orders came without 80 % of its rows" in text
    assert "raw.orders has 200 rows" in text
    assert "*Owner:*\\nann" in text
    assert f"{PUBLIC}/incidents/{incident}" in text
    assert f"{PUBLIC}/datasets/postgres%3A%2F%2Fdb%3A5432/shop.orders" in text


async def test_the_same_reaches_teams_as_a_card(telling: Telling) -> None:
    with a_channel(answering(202)) as teams:
        await telling.a_rule(teams.url, channel_type="TEAMS")
        await telling.tell_of(await telling.a_dataset())

    [body] = bodies(teams)
    assert teams_problems(body) == []
    assert [action["title"] for action in body["attachments"][0]["content"]["actions"]] == [
        "🚨 View Incident",
        "📦 View Dataset",
    ]
    assert await telling.outcomes() == [("SENT", None)]


async def test_a_webhook_gets_signed_json_and_its_headers(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    anomaly = await telling.an_anomaly(dataset)
    with a_channel(answering(204)) as hook:
        config = {
            "webhook_url": f"{hook.url}/x",
            "secret": "signing-s3cret",
            "headers": {"Authorization": "Bearer h3ad3rs3cr3t"},
            "extra": {"team": "a"},
        }
        await telling.a_rule(channel_type="WEBHOOK", channel_config=config)
        await telling.tell_of(dataset, anomaly_id=anomaly)

    [asked] = hook.asked
    body = json.loads(asked.body)
    [kept] = await telling.history()
    assert asked.headers["authorization"] == "Bearer h3ad3rs3cr3t"
    assert asked.headers["x-headgate-delivery"] == kept["id"] == body["delivery_id"]
    stamp, _, signed = asked.headers["x-headgate-signature"].partition(",v1=")
    expected = hmac.new(b"signing-s3cret", stamp.removeprefix("t=").encode() + b"." + asked.body, hashlib.sha256)
    assert signed == expected.hexdigest()
    assert (body["event"], body["severity"], body["source"]) == ("RowCountDrop", "CRITICAL", "headgate")
    assert body["dataset"]["urn"] == "postgres://db:5432/shop.orders"
    assert body["anomaly"]["actual"] == 200
    assert body["incident"]["number"] == 1
    assert body["links"]["incident"].startswith(PUBLIC)
    assert body["extra"] == {"team": "a"}


async def test_what_was_sent_is_in_the_history_with_the_answer_and_without_secrets(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        incident = await telling.tell_of(dataset)

    [kept] = await telling.history()
    assert (kept["status"], kept["reason"], kept["attempts"]) == ("SENT", None, 1)
    assert kept["alert_rule_id"] == rule["id"]
    assert kept["incident_id"] == str(incident)
    assert kept["dataset_id"] == str(dataset)
    assert kept["channel_context"] == {"webhook_url": f"{slack.url}/…", "channel": None, "mention": None}
    assert kept["response_payload"] == {"status_code": 200, "body": "ok"}
    assert (kept["type"], kept["severity"], kept["source"]) == ("RowCountDrop", "CRITICAL", "rule")


async def test_an_open_anomaly_is_alerted_once_somebody_was_told(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    anomaly, seen = await telling.an_anomaly(dataset), await telling.an_anomaly(dataset, status="ACKNOWLEDGED")
    with a_channel() as slack:
        await telling.a_rule(slack.url, deduplication_minutes=0)
        await telling.tell_of(dataset, anomaly_id=anomaly)
        await telling.tell_of(dataset, anomaly_id=seen)

    async def status(anomaly_id: UUID) -> str:
        found: str = await telling.db.fetchval("SELECT status FROM anomalies WHERE id = $1", anomaly_id)
        return found

    assert await status(anomaly) == "ALERTED"
    assert await status(seen) == "ACKNOWLEDGED"
    assert [each["anomaly_id"] for each in await telling.history(anomaly_id=str(anomaly))] == [str(anomaly)]


async def test_an_anomaly_that_nobody_was_told_of_stays_open(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    anomaly = await telling.an_anomaly(dataset)
    with a_channel(answering(404, "no_service")) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(dataset, anomaly_id=anomaly)
    assert await telling.db.fetchval("SELECT status FROM anomalies WHERE id = $1", anomaly) == "OPEN"


async def test_a_cause_is_not_said_twice(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    told = ["The run of load failed.", "raw.orders has 200 rows"]
    cause = json.dumps({"evidence": [{"sentence": each} for each in told]})
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        root = "job load is the cause: the run of load failed"
        incident = await telling.an_incident(dataset, root_cause=root, cause=cause)
        await telling.tell(await telling.a_symptom(incident, dataset))
    [text] = [json.dumps(body, ensure_ascii=False) for body in bodies(slack)]
    assert f"• {root}\\n• raw.orders has 200 rows" in text
    assert "The run of load failed." not in text


async def test_links_are_left_out_where_nobody_knows_how_the_server_is_reached(cluster: Cluster) -> None:
    async with a_telling(cluster, public_url=None) as telling:
        with a_channel() as slack:
            await telling.a_rule(slack.url)
            await telling.tell_of(await telling.a_dataset())
    [body] = bodies(slack)
    assert all(block["type"] != "actions" for block in body["attachments"][0]["blocks"])


@pytest.mark.parametrize(
    ("fields", "is_told"),
    [
        ({}, True),
        ({"dataset_name": "*"}, True),
        ({"dataset_name": "shop.*"}, True),
        ({"dataset_name": "shop.orders"}, True),
        ({"dataset_name": "orders"}, True),
        ({"dataset_name": "postgres://db:5432/shop.orders"}, True),
        ({"dataset_name": "shop"}, False),
        ({"dataset_name": "sales_*"}, False),
        ({"anomaly_type": "ROW_COUNT_DROP"}, True),
        ({"anomaly_type": "RowCount*"}, True),
        ({"anomaly_type": "RowCountSpike"}, False),
        ({"anomaly_type": "on_*"}, False),
        ({"severity": "CRITICAL"}, True),
        ({"severity": "WARNING"}, False),
        ({"owner": "Ann"}, True),
        ({"owner": "bob"}, False),
        ({"tag": "gold"}, True),
        ({"tag": "pii"}, False),
        ({"enabled": False}, False),
    ],
    ids=str,
)
async def test_a_rule_hears_what_it_asks_for(telling: Telling, fields: dict[str, Any], is_told: bool) -> None:
    dataset = await telling.a_dataset(owners=["ann"], tag="gold")
    with a_channel() as slack:
        await telling.a_rule(slack.url, **fields)
        await telling.tell_of(dataset)
    assert len(slack.asked) == int(is_told)


async def test_a_symptom_without_a_dataset_is_heard_by_rules_for_all(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.a_rule(slack.url, dataset_name="orders")
        await telling.tell_of(None, type="RunFailed", sentence="the run of load failed")
    assert len(slack.asked) == 1


async def test_muted_incidents_send_nothing_and_the_history_says_so(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        await telling.a_rule(slack.url, dataset_name="another")
        incident = await telling.an_incident(dataset, status="muted")
        await telling.tell(await telling.a_symptom(incident, dataset))
    assert slack.asked == []
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"], kept["incident_id"]) == ("DEDUPLICATED", "muted", str(incident))
    assert (kept["alert_rule_id"], kept["attempts"]) == (rule["id"], 0)
    assert await telling.task_states() == ["SUCCEEDED"]


async def test_what_was_silent_while_it_was_muted_does_not_hold_back_what_comes_after(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        await telling.a_rule(slack.url, max_per_hour=1)
        incident = await telling.an_incident(dataset, status="muted")
        await telling.tell(await telling.a_symptom(incident, dataset))
        await telling.db.execute("UPDATE incidents SET status = 'open' WHERE id = $1", incident)
        await telling.tell(await telling.a_symptom(incident, dataset))
    assert await telling.outcomes() == [("DEDUPLICATED", "muted"), ("SENT", None)]
    assert "earlier alerts" not in slack.asked[0].body.decode()


async def test_what_quiet_hours_held_back_is_silent_if_it_is_muted_when_they_are_over(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    hours = {"from": "11:00", "to": "13:00", "timezone": "UTC", "critical_passes": False}
    with a_channel() as slack:
        await telling.a_rule(slack.url, quiet_hours=hours)
        incident = await telling.tell_of(dataset)
        await telling.db.execute("UPDATE incidents SET status = 'muted' WHERE id = $1", incident)
        telling.clock.turn(hours=2)
        await telling.hurry()
    assert slack.asked == []
    assert await telling.outcomes() == [("DEDUPLICATED", "quiet_hours"), ("DEDUPLICATED", "muted")]


async def test_a_symptom_that_is_gone_is_no_failure(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell(uuid4())
    assert slack.asked == []
    assert await telling.task_states() == ["SUCCEEDED"]


async def test_news_of_an_incident_go_to_rules_that_name_them(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as all_symptoms, a_channel() as news:
        await telling.a_rule(all_symptoms.url)
        await telling.a_rule(news.url, anomaly_type="Incident*")
        incident = await telling.an_incident(dataset, status="resolved")
        payload = {"incident_id": str(incident), "event": "IncidentResolved"}
        await telling.make(NewTask("ALERT", "INCIDENT", str(incident), content_hash(1), payload))
        await telling.work()
    assert all_symptoms.asked == []
    [body] = bodies(news)
    assert "✅ HEADGATE: shop.orders - IncidentResolved" in json.dumps(body, ensure_ascii=False)


async def pipeline_event(telling: Telling, event: AlertEvent) -> None:
    alert = every_alert(None)[event]
    payload = fields_of(alert) | {"run_id": str(uuid4()), "dataset": None}
    payload = json.loads(encoded(payload))
    await telling.make(NewTask("ALERT", "PIPELINE_EVENT", f"{payload['run_id']}:{event}", content_hash(event), payload))
    await telling.work()


@pytest.mark.parametrize("event", list(AlertEvent))
@pytest.mark.parametrize("kind", ["SLACK", "TEAMS", "WEBHOOK"])
async def test_every_event_of_pipelines_reaches_every_channel(telling: Telling, event: AlertEvent, kind: str) -> None:
    with a_channel() as channel:
        await telling.a_rule(channel.url, channel_type=kind, anomaly_type=str(event))
        await pipeline_event(telling, event)
    [body] = bodies(channel)
    problems = {"SLACK": slack_problems, "TEAMS": teams_problems, "WEBHOOK": lambda found: []}
    assert problems[kind](body) == []
    assert str(event) in json.dumps(body)
    [kept] = await telling.history()
    assert (kept["type"], kept["status"]) == (str(event), "SENT")


async def test_events_of_pipelines_are_not_told_to_those_who_did_not_ask(telling: Telling) -> None:
    with a_channel() as channel:
        await telling.a_rule(channel.url)
        await telling.a_rule(channel.url, anomaly_type="on_failure")
        await pipeline_event(telling, AlertEvent.on_start)
    assert channel.asked == []


async def test_what_a_run_sent_itself_is_in_the_history_and_not_sent_again_by_the_same_kind_of_channel(
    telling: Telling,
) -> None:
    alert = every_alert(None)[AlertEvent.on_gate_block]
    await telling.db.execute(
        "INSERT INTO pipeline_alerts (organization_id, run_id, alert_key, project, pipeline, event, channel, outcome,"
        " message, sent_at) VALUES ($1, gen_random_uuid(), '\\x01', $2, $3, $4, 'slack #data', 'sent', 'blocked', $5)",
        telling.org,
        alert.project,
        alert.pipeline,
        str(alert.event),
        telling.clock.now,
    )
    with a_channel() as slack, a_channel(answering(200)) as hook:
        await telling.a_rule(slack.url, anomaly_type="on_*")
        await telling.a_rule(hook.url, channel_type="WEBHOOK", anomaly_type="on_*")
        telling.clock.turn(minutes=1)
        await pipeline_event(telling, AlertEvent.on_gate_block)
    assert slack.asked == []
    assert len(hook.asked) == 1
    found = {
        (each["source"], each["channel_type"]): (each["status"], each["reason"]) for each in await telling.history()
    }
    assert found == {
        ("pipeline", "SLACK"): ("SENT", None),
        ("rule", "SLACK"): ("DEDUPLICATED", "window"),
        ("rule", "WEBHOOK"): ("SENT", None),
    }


async def test_a_dead_channel_keeps_no_other_from_hearing(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(dead_url())
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
    assert len(slack.asked) == 1
    assert sorted(await telling.outcomes(), key=str) == [("FAILED", "retrying"), ("SENT", None)]
