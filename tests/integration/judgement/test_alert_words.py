"""What alerts say: that something is over and who ended it, how sure a cause is, and nothing twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from headgate.server.queue import NewTask, content_hash
from tests.support.alerts import EMAIL, Json, Telling, a_channel, bodies
from tests.support.mailboxes import Mailbox, a_mailbox

NIGHT = {"from": "22:00", "to": "07:00", "timezone": "UTC", "critical_passes": True}
ENDED = datetime(2026, 3, 2, 11, 30, tzinfo=UTC)


async def went_on(
    telling: Telling, incident: UUID, event: str, *, by: str = "headgate", why: str | None = None
) -> None:
    """Have it told that an incident was resolved or is open again."""
    kind = event.removeprefix("Incident").lower()
    await telling.db.execute(
        "INSERT INTO incident_events (organization_id, incident_id, actor, kind, detail)"
        " VALUES ($1, $2, $3, $4, jsonb_build_object('reason', $5::text))",
        *(telling.org, incident, by, kind, why),
    )
    payload = {"incident_id": str(incident), "event": event}
    await telling.make(NewTask("ALERT", "INCIDENT", str(incident), content_hash(incident, event), payload))
    await telling.work()


async def an_end(telling: Telling, **fields: Any) -> UUID:
    """An incident of a failed run that is over."""
    given = {"status": "resolved", "resolved_at": ENDED, "title": "a run of load failed: no disk"} | fields
    return await telling.an_incident(await telling.a_dataset("orders"), **given)


async def configure(telling: Telling, box: Mailbox) -> None:
    body = {"backend": "smtp", "host": "127.0.0.1", "port": box.port, "tls": "none", "from": "headgate@example.org"}
    response = await telling.tenant.client.put(EMAIL, json=body | {"email_to": ["data@example.org"]})
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("by", "why", "said"),
    [
        ("headgate", "the job completed", "is resolved: the job completed. It was: a run of load failed: no disk"),
        ("ann", "a holiday.", "is resolved by ann: a holiday. It was: a run of load failed: no disk"),
        ("ann", None, "is resolved by ann. It was: a run of load failed: no disk"),
    ],
    ids=["by itself", "with a reason", "without a reason"],
)
async def test_an_end_says_who_ended_it_why_and_when(telling: Telling, by: str, why: str | None, said: str) -> None:
    with a_channel() as hook:
        await telling.a_rule(hook.url, channel_type="WEBHOOK", anomaly_type="IncidentResolved")
        await went_on(telling, await an_end(telling), "IncidentResolved", by=by, why=why)
    [body] = bodies(hook)
    assert body["message"] == f"Incident #1 {said}"
    assert (body["severity"], body["at"]) == ("INFO", ENDED.isoformat())
    told = body["incident"]
    assert (told["resolved_by"], told["resolution"], told["resolved_at"]) == (by, why, ENDED.isoformat())


async def test_a_mail_of_an_end_is_good_news(telling: Telling) -> None:
    async with a_mailbox() as box:
        await configure(telling, box)
        await telling.a_rule(channel_type="EMAIL", channel_config={}, anomaly_type="IncidentResolved")
        await went_on(telling, await an_end(telling), "IncidentResolved", why="the job completed")
    [mail] = box.mails
    assert mail["Subject"] == "[RESOLVED] IncidentResolved on orders"
    text = mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    assert "Resolved by: headgate" in text
    assert "the job completed" in text
    assert "CRITICAL" not in mail.as_string()


async def test_an_end_wakes_nobody_and_is_still_chosen_by_how_bad_it_was(telling: Telling) -> None:
    telling.clock.now = datetime(2026, 3, 2, 23, 0, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, anomaly_type="Incident*", severity="CRITICAL", quiet_hours=NIGHT)
        await telling.a_rule(slack.url, anomaly_type="Incident*", severity="WARNING")
        await went_on(telling, await an_end(telling), "IncidentResolved")
    assert slack.asked == []
    assert await telling.outcomes() == [("DEDUPLICATED", "quiet_hours")]


async def test_whoever_opens_an_incident_again_is_named(telling: Telling) -> None:
    with a_channel() as hook:
        await telling.a_rule(hook.url, channel_type="WEBHOOK", anomaly_type="IncidentReopened")
        incident = await telling.an_incident(title="too few rows", last_seen_at=ENDED - timedelta(days=3))
        await went_on(telling, incident, "IncidentReopened", by="ann", why="it is not")
    [body] = bodies(hook)
    assert body["message"] == "Incident #1 is open again, says ann (it is not): too few rows"
    assert body["severity"] == "CRITICAL"
    assert body["at"] > ENDED.isoformat()


CAUSE = {
    "candidate": {"job": {"name": "ingest", "namespace": "shop"}, "dataset": None},
    "evidence": [{"sentence": "failed: no disk"}, {"sentence": "wrote 70% fewer bytes than expected"}],
}


async def told(telling: Telling, kind: str, incident: Json, symptom: Json) -> str:
    """What such a channel is sent of a symptom."""
    dataset = await telling.a_dataset()
    with a_channel() as channel:
        await telling.a_rule(channel.url, channel_type=kind)
        found = await telling.an_incident(dataset, **incident)
        await telling.tell(await telling.a_symptom(found, dataset, **symptom))
    [body] = bodies(channel)
    return json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize(
    ("metric", "expected", "actual", "said"),
    [
        ("byte_size", {"value": 1e5, "low": 91_410.3, "high": 109_512.8}, {"value": 1e4}, "10 kB|91.4 kB to 109.5 kB"),
        ("duration_ms", {"value": 6e4, "low": 5e4, "high": 2e5}, {"value": 4e6}, "66.7 min|50 s to 3.3 min"),
        ("row_count", {"value": 1e5, "low": 91_410.3, "high": 109_512.8}, {"value": 1e4}, "10,000|91,410 to 109,513"),
        ("null_share", {"value": 0.01, "low": 0, "high": 0.02}, {"value": 0.5}, "50 %|0 % to 2 %"),
        ("row_count", {"value": 5, "low": 5, "high": 5}, {"value": 9}, "9|5"),
        ("their_own", {"low": 0.00015, "high": 123_456.7}, 2, "2|0.00015 to 123,457"),
        (
            None,
            {"written_by": "2026-03-02T10:00:00+00:00", "sla_hours": 1},
            {"last_write_at": "2026-03-02T11:30:00+02:00"},
            "last written 2026-03-02 09:30 UTC|written by 2026-03-02 10:00 UTC, at most 1 h old",
        ),
        (None, {"ended_by": "2026-03-02T10:00:00+00:00"}, {"{odd}": True}, "{odd} True|ended by 2026-03-02 10:00 UTC"),
        (
            None,
            {"written_by": "2026-03-02T10:00:00+00:00"},
            {"last_write_at": None, "known_since": "2026-03-01T10:00:00+00:00"},
            "never written, known since 2026-03-01 10:00 UTC|written by 2026-03-02 10:00 UTC",
        ),
    ],
    ids=["bytes", "duration", "rows", "share", "no band", "unknown", "times", "words", "never"],
)
async def test_figures_are_said_as_the_anomalies_say_them(
    telling: Telling, metric: str | None, expected: Json, actual: Any, said: str
) -> None:
    dataset = await telling.a_dataset()
    figures = {"expected_value": json.dumps(expected), "actual_value": json.dumps(actual)}
    anomaly = await telling.an_anomaly(dataset, metric=metric, **figures)
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(dataset, anomaly_id=anomaly)
    [body] = bodies(slack)
    fields = [each["text"] for block in body["attachments"][0]["blocks"] for each in block.get("fields", ())]
    found = dict(each.split(":*\n", 1) for each in fields)
    assert f"{found['*Found']}|{found['*Expected']}" == said


@pytest.mark.parametrize("kind", ["SLACK", "TEAMS"])
async def test_people_hear_how_sure_a_cause_is(telling: Telling, kind: str) -> None:
    assert "Likely Cause (98% sure)" in await told(telling, kind, {"confidence": 0.98}, {})


async def test_a_mail_says_how_sure_a_cause_is(telling: Telling) -> None:
    async with a_mailbox() as box:
        await configure(telling, box)
        await telling.a_rule(channel_type="EMAIL", channel_config={})
        incident = await telling.an_incident(confidence=0.4)
        await telling.tell(await telling.a_symptom(incident))
    [mail] = box.mails
    assert "Likely Cause (40% sure):" in mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]


async def test_a_cause_that_nobody_found_is_not_called_unsure(telling: Telling) -> None:
    assert "% sure" not in await told(telling, "SLACK", {"confidence": 0.0}, {})


async def test_programs_hear_how_sure_a_cause_is_as_the_api_says_it(telling: Telling) -> None:
    assert '"confidence": 0.98,' in await told(telling, "WEBHOOK", {"confidence": 0.98}, {})


@pytest.mark.parametrize(
    ("confidence", "is_manual", "is_own"),
    [(0.9, False, True), (0.2, False, False), (0.9, True, False)],
    ids=["sure", "unsure", "a person said otherwise"],
)
async def test_a_symptom_says_its_own_cause_if_that_is_sure(
    telling: Telling, confidence: float, is_manual: bool, is_own: bool
) -> None:
    incident = {"root_cause": "ingest failed", "confidence": 0.7, "cause": json.dumps(CAUSE)}
    own = {"root_cause": "Job 'other' wrote nothing.", "confidence": confidence}
    found = json.loads(await told(telling, "WEBHOOK", incident | {"root_is_manual": is_manual}, own))["incident"]
    assert (found["root_cause"] == "Job 'other' wrote nothing.") is is_own
    assert found["confidence"] == (0.9 if is_own else 0.7)
    assert (found["evidence"] == []) is is_own


async def test_an_error_is_said_once(telling: Telling) -> None:
    incident = {"root_cause": "Job 'ingest' at 10:00 failed: no disk.", "cause": json.dumps(CAUSE)}
    sentence = "a run of ingest failed: no disk"
    text = await told(telling, "SLACK", incident | {"title": sentence}, {"type": "RunFailed", "sentence": sentence})
    assert "Job 'ingest' at 10:00 failed." in text
    assert text.count("no disk") == 1


async def test_evidence_says_whose_it_is(telling: Telling) -> None:
    text = await told(telling, "SLACK", {"root_cause": "Job 'ingest' failed.", "cause": json.dumps(CAUSE)}, {})
    assert "• Job 'ingest' wrote 70% fewer bytes than expected" in text


@pytest.mark.parametrize(
    ("kind", "words"),
    [("TestFailed", {"*Written by:*", "View Test Run"}), ("RowCountDrop", {"*Job:*", "View Run"})],
)
async def test_a_failed_test_is_not_said_to_be_of_the_job_that_wrote_the_data(
    telling: Telling, kind: str, words: set[str]
) -> None:
    dataset = await telling.a_dataset()
    job = await telling.db.fetchval(
        "INSERT INTO jobs (organization_id, namespace, name, first_seen_at)"
        " VALUES ($1, 'shop', 'load', now()) RETURNING id",
        telling.org,
    )
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(dataset, type=kind, job_id=job, run_id=uuid4())
    [body] = bodies(slack)
    text = json.dumps(body, ensure_ascii=False)
    assert {each for each in ("*Written by:*", "View Test Run", "*Job:*", "View Run") if each in text} == words
