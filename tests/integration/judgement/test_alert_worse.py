"""What gets worse is told, however lately something milder was; what does not is held back as ever."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from headgate.server.queue import NewTask, content_hash
from tests.support.alerts import RULES, Json, Telling, a_channel, bodies, in_turn
from tests.support.bad_servers import answering

REFUSES, TAKES = answering(403, "no_service"), answering(200, "ok")


@pytest.fixture
async def telling(telling: Telling) -> Telling:
    """Previews look back from now."""
    telling.clock.now = datetime.now(UTC)
    return telling


async def joins(telling: Telling, incident: UUID, dataset: UUID, severity: str, **fields: Any) -> None:
    kind = "TestFailed" if severity == "CRITICAL" else "RowCountSpike"
    await telling.tell(await telling.a_symptom(incident, dataset, severity=severity, **{"type": kind, **fields}))


async def told(telling: Telling, rule: Json) -> list[tuple[str, str | None]]:
    """What became of each; a preview has to say the same."""
    found = [(each["severity"], each["reason"]) for each in await telling.history(rule_id=rule["id"])]
    preview = await telling.get(f"{RULES}/{rule['id']}/preview")
    assert [(each["severity"], each["reason"]) for each in reversed(preview["items"])] == found
    return found


async def test_an_incident_that_becomes_critical_is_told_once_more_and_no_more(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset, severity="WARNING")
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        for severity in ("WARNING", "WARNING", "CRITICAL", "WARNING", "CRITICAL"):
            await joins(telling, incident, dataset, severity)
    expected = [("WARNING", None), ("WARNING", "grouped"), ("CRITICAL", None)]
    assert await told(telling, rule) == [*expected, ("WARNING", "grouped"), ("CRITICAL", "grouped")]
    assert [body["attachments"][0]["color"] for body in bodies(slack)] == ["#ffc107", "#dc3545"]


async def test_the_same_that_gets_worse_is_told_within_the_window(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        for severity in ("WARNING", "CRITICAL", "WARNING", "CRITICAL"):
            incident = await telling.an_incident(dataset, severity=severity)
            await joins(telling, incident, dataset, severity, type="RowCountSpike")
    expected = [("WARNING", None), ("CRITICAL", None), ("WARNING", "window"), ("CRITICAL", "window")]
    assert await told(telling, rule) == expected


async def test_what_was_critical_before_the_window_does_not_hold_back(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset)
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        telling.clock.turn(minutes=-90)
        for severity, minutes in (("CRITICAL", 61), ("WARNING", 1), ("CRITICAL", 1)):
            await joins(telling, incident, dataset, severity)
            telling.clock.turn(minutes=minutes)
    assert await told(telling, rule) == [("CRITICAL", None), ("WARNING", None), ("CRITICAL", None)]


async def test_what_gets_worse_passes_quiet_hours_although_it_joins(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset, severity="WARNING")
    now = telling.clock.now
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url)
        await joins(telling, incident, dataset, "WARNING")
        hours = {"from": f"{now:%H:%M}", "to": f"{now.replace(hour=(now.hour + 2) % 24):%H:%M}", "timezone": "UTC"}
        changed = await telling.tenant.client.patch(f"{RULES}/{rule['id']}", json={"quiet_hours": hours})
        assert changed.is_success, changed.text
        await joins(telling, incident, dataset, "CRITICAL")
    assert await telling.outcomes() == [("SENT", None), ("SENT", None)]


async def test_limits_hold_for_what_gets_worse_too(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset, severity="WARNING")
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, max_per_hour=1)
        for severity in ("WARNING", "CRITICAL", "WARNING"):
            await joins(telling, incident, dataset, severity)
    assert await told(telling, rule) == [("WARNING", None), ("CRITICAL", "throttled"), ("WARNING", "grouped")]


async def test_what_is_on_its_way_counts_for_what_is_no_worse(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset, severity="WARNING")
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await joins(telling, incident, dataset, "WARNING")
        await telling.db.execute(
            "UPDATE alert_history SET status = 'FAILED', reason = 'sending' WHERE organization_id = $1", telling.org
        )
        for severity in ("WARNING", "CRITICAL"):
            await joins(telling, incident, dataset, severity)
    assert [each["reason"] for each in await telling.history()] == ["sending", "grouped", None]


async def test_in_the_place_of_what_was_refused_the_worst_is_told(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset, severity="WARNING")
    with a_channel(in_turn(TAKES, REFUSES, TAKES)) as slack:
        await telling.a_rule(slack.url)
        symptoms = [
            await telling.a_symptom(incident, dataset, severity=severity, type="TestFailed", sentence=sentence)
            for severity, sentence in (
                ("WARNING", "first"),
                ("CRITICAL", "refused"),
                ("WARNING", "mild"),
                ("CRITICAL", "bad"),
            )
        ]
        await telling.tell(symptoms[0])
        # One after the other, and done by one batch.
        for each in symptoms[1:]:
            await telling.make(NewTask("ALERT", "SYMPTOM", str(each), content_hash(each), {"symptom_id": str(each)}))
        await telling.work()
    said = [body["attachments"][0]["blocks"][2]["text"]["text"] for body in bodies(slack)]
    assert [each.partition("\n")[2] for each in said] == ["first", "refused", "bad"]
