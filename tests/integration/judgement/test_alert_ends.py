"""Every alert comes to an end that the history tells truly; what nobody was told of is told by another."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from headgate.server.alerts.jobs import AlertCleaning
from headgate.server.outbound import Guard
from headgate.server.queue import NewTask, content_hash
from headgate.server.worker import Worker
from tests.support.alerts import RULES, Telling, a_channel, channels_by, in_turn
from tests.support.bad_servers import answering

OK, BUSY, NO = answering(200, "ok"), answering(503), answering(404, "no_service")
NIGHT = {"from": "22:00", "to": "07:00", "timezone": "UTC", "critical_passes": False}


async def told_together(telling: Telling, incident: UUID, dataset: UUID, number: int) -> list[UUID]:
    """Have symptoms of one incident told by one batch."""
    symptoms = [await telling.a_symptom(incident, dataset, type=f"Type{each}") for each in range(number)]
    tasks = [NewTask("ALERT", "SYMPTOM", str(s), content_hash(s), {"symptom_id": str(s)}) for s in symptoms]
    await telling.make(*tasks)
    await telling.work()
    return symptoms


async def test_what_breaks_on_the_way_is_in_the_history_and_given_up_in_the_end(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    telling.channels = channels_by(telling, Guard(telling.settings.alert_allow_private))

    async def broken(*_: Any, **__: Any) -> None:
        raise LookupError("s3cr3t")

    monkeypatch.setattr(telling.channels, "send", broken)
    await telling.a_rule("https://hooks.example")
    await telling.tell_of(await telling.a_dataset())
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"], kept["attempts"]) == ("FAILED", "retrying", 1)
    assert kept["error_message"] == "it could not be sent (LookupError)"
    for _ in range(8):
        await telling.hurry()
    assert await telling.outcomes() == [("FAILED", "gave_up")]


async def muted(telling: Telling, rule: str, incident: UUID) -> None:
    await telling.db.execute("UPDATE incidents SET status = 'muted' WHERE id = $1", incident)


async def switched_off(telling: Telling, rule: str, incident: UUID) -> None:
    await telling.tenant.client.patch(f"{RULES}/{rule}", json={"enabled": False})


async def deleted(telling: Telling, rule: str, incident: UUID) -> None:
    await telling.tenant.client.delete(f"{RULES}/{rule}")


async def changed(telling: Telling, rule: str, incident: UUID) -> None:
    await telling.tenant.client.patch(f"{RULES}/{rule}", json={"dataset_name": "other"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (deleted, "the rule is off or gone"),
        (switched_off, "the rule is off or gone"),
        (changed, "the rule does not want to hear of it any more"),
        (muted, "its incident is muted"),
    ],
)
@pytest.mark.parametrize("others", [0, 1], ids=["the only rule", "one of two"])
async def test_what_is_not_tried_again_says_so(telling: Telling, change: Any, error: str, others: int) -> None:
    with a_channel(BUSY) as slack:
        rule = await telling.a_rule(slack.url)
        for _ in range(others):
            await telling.a_rule(slack.url, dataset_name="shop.*")
        incident = await telling.tell_of(await telling.a_dataset())
        await change(telling, rule["id"], incident)
        await telling.hurry()
    [kept] = await telling.history(rule_id=rule["id"])
    assert (kept["status"], kept["reason"], kept["error_message"]) == ("FAILED", "refused", error)


async def test_an_alert_whose_task_was_canceled_is_ended_by_the_cleaning(telling: Telling) -> None:
    with a_channel(BUSY) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset("one"))
        await telling.db.execute("UPDATE async_task SET status = 'CANCELED' WHERE organization_id = $1", telling.org)
        await telling.tell_of(await telling.a_dataset("two"))
        telling.clock.turn(minutes=10)
        cleaning = AlertCleaning(365, clock=telling.clock).kind("CLEAN_ALERTS")
        await Worker(telling.database, [cleaning]).schedule()
        await Worker(telling.database, [cleaning]).drain()
    # The second one is still tried.
    assert await telling.outcomes() == [("FAILED", "gave_up"), ("FAILED", "retrying")]


async def test_what_was_given_up_is_sent_by_whoever_retries_its_task(telling: Telling) -> None:
    with a_channel(in_turn(*[BUSY] * 6, OK)) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
        for _ in range(6):
            await telling.hurry()
        assert await telling.outcomes() == [("FAILED", "gave_up")]
        task = await telling.db.fetchval("SELECT id FROM async_task WHERE organization_id = $1", telling.org)
        await telling.post(f"/api/v1/tasks/{task}/retry", {})
        await telling.work()
    assert await telling.outcomes() == [("SENT", None)]


@pytest.mark.parametrize("failures", [1, 2], ids=["the first", "the first two"])
async def test_what_was_grouped_with_an_alert_that_is_refused_is_told_in_its_place(
    telling: Telling, failures: int
) -> None:
    dataset = await telling.a_dataset()
    with a_channel(in_turn(*[NO] * failures, OK)) as slack:
        await telling.a_rule(slack.url)
        await told_together(telling, await telling.an_incident(dataset), dataset, 4)
    assert len(slack.asked) == failures + 1
    outcomes = await telling.outcomes()
    assert outcomes.count(("SENT", None)) == 1
    assert outcomes.count(("FAILED", "refused")) == failures
    assert outcomes.count(("DEDUPLICATED", "grouped")) == 3


async def test_what_was_grouped_with_an_alert_that_is_given_up_is_told_in_its_place(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel(in_turn(*[BUSY] * 6, OK)) as slack:
        await telling.a_rule(slack.url)
        await told_together(telling, await telling.an_incident(dataset), dataset, 2)
        for _ in range(7):
            await telling.hurry()
    outcomes = await telling.outcomes()
    assert sorted(outcomes, key=str) == [("DEDUPLICATED", "grouped"), ("FAILED", "gave_up"), ("SENT", None)]


async def test_what_would_have_said_the_same_is_told_in_the_place_of_what_was_refused(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel(in_turn(NO, OK)) as slack:
        await telling.a_rule(slack.url)
        symptoms = [await telling.a_symptom(await telling.an_incident(dataset), dataset) for _ in range(2)]
        tasks = [NewTask("ALERT", "SYMPTOM", str(s), content_hash(s), {"symptom_id": str(s)}) for s in symptoms]
        await telling.make(*tasks)
        await telling.work()
    outcomes = sorted(await telling.outcomes(), key=str)
    assert outcomes == [("DEDUPLICATED", "window"), ("FAILED", "refused"), ("SENT", None)]


async def test_a_channel_that_refuses_everything_is_not_asked_without_end(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel(NO) as slack:
        await telling.a_rule(slack.url)
        await told_together(telling, await telling.an_incident(dataset), dataset, 20)
    assert len(slack.asked) == 6
    assert set(await telling.task_states()) == {"SUCCEEDED"}


async def test_what_is_over_is_not_told_in_the_place_of_another(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel(BUSY) as slack:
        await telling.a_rule(slack.url)
        await told_together(telling, await telling.an_incident(dataset), dataset, 2)
        # Which of the two went first is nobody's business.
        await telling.db.execute(
            "UPDATE incident_symptoms SET cleared_at = now() WHERE id IN (SELECT h.symptom_id FROM alert_history h "
            "WHERE h.organization_id = $1 AND h.status = 'DEDUPLICATED')",
            telling.org,
        )
        for _ in range(6):
            await telling.hurry()
    assert len(slack.asked) == 6


async def test_other_rules_hear_nothing_twice_because_one_was_refused(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel(NO) as bad, a_channel() as good:
        await telling.a_rule(bad.url)
        await telling.a_rule(good.url)
        await told_together(telling, await telling.an_incident(dataset), dataset, 3)
    assert (len(bad.asked), len(good.asked)) == (3, 1)


async def test_what_quiet_hours_hold_back_goes_out_when_they_are_removed(telling: Telling) -> None:
    telling.clock.now = datetime(2026, 3, 2, 23, 0, tzinfo=UTC)
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, quiet_hours=NIGHT)
        await telling.tell_of(await telling.a_dataset())
        await telling.work()
        assert slack.asked == []
        await telling.tenant.client.patch(f"{RULES}/{rule['id']}", json={"quiet_hours": None})
        await telling.work()
    assert len(slack.asked) == 1


@pytest.mark.parametrize(("event", "status"), [("IncidentResolved", "resolved"), ("IncidentReopened", "open")])
async def test_news_that_are_still_so_in_the_morning_are_told(telling: Telling, event: str, status: str) -> None:
    telling.clock.now = datetime(2026, 3, 2, 23, 0, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="Incident*", quiet_hours=NIGHT)
        for number, state in enumerate((status, "open" if status == "resolved" else "resolved")):
            incident = await telling.an_incident(status=state)
            payload = {"incident_id": str(incident), "event": event}
            await telling.make(NewTask("ALERT", "INCIDENT", str(incident), content_hash(number), payload))
        await telling.work()
        telling.clock.now = datetime(2026, 3, 3, 7, 1, tzinfo=UTC)
        await telling.hurry()
    assert len(slack.asked) == 1
    assert event in json.dumps(slack.asked[0].body.decode())


@pytest.mark.parametrize(
    ("path", "command", "api"),
    [
        ("/incidents/{id}", "headgate incidents show {id}", "GET /api/v1/incidents/{id}"),
        ("/runs/{id}", "headgate runs show {id}", "GET /api/v1/runs/{id}"),
        (
            "/datasets/postgres%3A%2F%2Fdb/a%2Fb%3Cscript%3E",
            "headgate datasets show &#x27;postgres://db/a/b&lt;script&gt;&#x27;",
            "GET /api/v1/datasets/postgres%3A%2F%2Fdb%2Fa%2Fb%3Cscript%3E",
        ),
        ("/pipelines/silver/stories/{id}", "headgate story {id} --open", "GET /api/v1/pipeline-runs/{id}/story"),
    ],
    ids=["incident", "run", "dataset", "story"],
)
async def test_a_browser_that_follows_a_link_is_told_how_to_look(
    telling: Telling, path: str, command: str, api: str
) -> None:
    key = str(uuid4())
    async with telling.server.anonymous() as client:
        response = await client.get(path.replace("{id}", key))
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert f"<code>{command.replace('{id}', key)}</code>" in response.text
    assert f"<code>{api.replace('{id}', key)}</code>" in response.text
    assert "<script" not in response.text


async def test_a_link_to_nothing_that_could_be_is_an_error(telling: Telling) -> None:
    async with telling.server.anonymous() as client:
        assert (await client.get("/incidents/nonsense")).status_code == 422
        assert (await client.get("/nowhere")).status_code == 404
