"""What a rule would have sent, with the same decisions as if it had been there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.alerts import RULES, Telling
from tests.support.pipeline_events import a_full_record, a_run

QUIET = "https://hooks.example"


@pytest.fixture
async def telling(telling: Telling) -> Telling:
    """Previews look back from now."""
    telling.clock.now = datetime.now(UTC).replace(microsecond=0)
    return telling


async def preview(telling: Telling, rule: dict[str, Any], days: int = 30) -> dict[str, Any]:
    return await telling.get(f"{RULES}/{rule['id']}/preview", days=days)


async def happened(telling: Telling, dataset: Any, *minutes_ago: float, **fields: Any) -> None:
    """Incidents with one symptom each, so many minutes ago."""
    now = telling.clock.now
    for minutes in minutes_ago:
        at = now - timedelta(minutes=minutes)
        incident = await telling.an_incident(dataset)
        await telling.a_symptom(incident, dataset, created_at=at, observed_at=at, last_observed_at=at, **fields)


async def test_the_window_holds_back_in_a_preview_as_it_does_in_life(telling: Telling) -> None:
    await happened(telling, await telling.a_dataset(), 200, 170, 130, 10)
    found = await preview(telling, await telling.a_rule(QUIET))
    assert (found["matched"], found["would_send"], found["held_back"]) == (4, 3, {"window": 1})
    assert [each["status"] for each in found["items"]] == ["SENT", "SENT", "DEDUPLICATED", "SENT"]
    assert found["items"][2]["reason"] == "window"
    assert found["items"][0]["dataset"]["name"] == "shop.orders"
    assert (found["truncated"], found["days"]) == (False, 30)


async def test_symptoms_of_an_incident_are_grouped(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset)
    for kind in ("RowCountDrop", "TestFailed", "RunFailed"):
        await telling.a_symptom(incident, dataset, type=kind)
    found = await preview(telling, await telling.a_rule(QUIET))
    assert (found["would_send"], found["held_back"]) == (1, {"grouped": 2})


async def test_a_preview_shows_only_what_the_rule_wants(telling: Telling) -> None:
    await happened(telling, await telling.a_dataset("sales_daily"), 10)
    await happened(telling, await telling.a_dataset("other"), 10, severity="WARNING")
    rule = await telling.a_rule(QUIET, dataset_name="sales_*", enabled=False)
    assert [each["dataset"]["name"] for each in (await preview(telling, rule))["items"]] == ["sales_daily"]


async def test_a_preview_looks_as_far_back_as_asked(telling: Telling) -> None:
    await happened(telling, await telling.a_dataset(), 60 * 24 * 10, 5)
    rule = await telling.a_rule(QUIET)
    assert (await preview(telling, rule))["matched"] == 2
    assert (await preview(telling, rule, days=7))["matched"] == 1


async def test_limits_and_quiet_hours_are_played_too(telling: Telling) -> None:
    for number in range(4):
        await happened(telling, await telling.a_dataset(f"t{number}"), 5)
    limited = await preview(telling, await telling.a_rule(QUIET, max_per_hour=3))
    assert (limited["would_send"], limited["held_back"]) == (3, {"throttled": 1})
    now = telling.clock.now
    hours = {"from": f"{now - timedelta(hours=2):%H:%M}", "to": f"{now + timedelta(hours=2):%H:%M}"}
    silent = await preview(telling, await telling.a_rule(QUIET, quiet_hours=hours | {"critical_passes": False}))
    assert (silent["would_send"], silent["held_back"]) == (0, {"quiet_hours": 4})


async def test_what_quiet_hours_held_back_is_told_when_they_are_over_unless_it_is(telling: Telling) -> None:
    now = telling.clock.now
    hours = {"from": f"{now - timedelta(hours=6):%H:%M}", "to": f"{now - timedelta(hours=2):%H:%M}"}
    one, other, third = [await telling.a_dataset(name) for name in ("one", "other", "third")]
    await happened(telling, one, 180, 60)
    await happened(telling, other, 180, cleared_at=now - timedelta(minutes=170))
    await happened(telling, third, 180, cleared_at=now - timedelta(minutes=10))
    rule = await telling.a_rule(QUIET, quiet_hours=hours | {"critical_passes": False}, deduplication_minutes=90)
    found = await preview(telling, rule)
    assert (found["matched"], found["would_send"]) == (4, 2)
    assert found["held_back"] == {"window": 1, "quiet_hours": 3}
    told = [each for each in found["items"] if each["reason"] is None]
    assert sorted(each["dataset"]["name"] for each in told) == ["one", "third"]
    since = [now - datetime.fromisoformat(each["at"]) for each in told]
    assert all(timedelta(minutes=119) < each < timedelta(minutes=121) for each in since)


async def test_what_failed_again_is_played_too(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset)
    at = telling.clock.now - timedelta(minutes=200)
    symptom = await telling.a_symptom(incident, dataset, created_at=at, observed_at=at)
    for minutes in (190, 100):
        await telling.db.execute(
            "INSERT INTO incident_events (organization_id, incident_id, at, actor, kind, detail)"
            " VALUES ($1, $2, $3, 'headgate', 'symptom_repeated', jsonb_build_object('symptom_id', $4::uuid))",
            *(telling.org, incident, telling.clock.now - timedelta(minutes=minutes), symptom),
        )
    found = await preview(telling, await telling.a_rule(QUIET))
    assert [each["reason"] for each in found["items"]] == [None, "grouped", None]


async def test_events_of_pipelines_are_told_from_their_records(telling: Telling) -> None:
    _, events = a_run(pipeline="silver", **a_full_record())
    await telling.tenant.send_ok(*events)
    await telling.db.execute("UPDATE node_runs SET ended_at = now() WHERE organization_id = $1", telling.org)
    await telling.db.execute(
        "UPDATE pipeline_runs SET started_at = now(), ended_at = now() WHERE organization_id = $1", telling.org
    )
    rule = await telling.a_rule(QUIET, anomaly_type="on_*")
    kinds = {each["type"] for each in (await preview(telling, rule))["items"]}
    assert {"on_start", "on_quarantine"} <= kinds
    assert all(kind.startswith("on_") for kind in kinds)


async def went_on(telling: Telling, incident: Any, kind: str, minutes_ago: float) -> None:
    await telling.db.execute(
        "INSERT INTO incident_events (organization_id, incident_id, at, actor, kind) VALUES ($1, $2, $3, 'me', $4)",
        *(telling.org, incident, telling.clock.now - timedelta(minutes=minutes_ago), kind),
    )


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("Incident*", ["IncidentResolved", "IncidentReopened", "IncidentResolved"]),
        ("IncidentReopened", ["IncidentReopened"]),
        ("RowCount*", []),
    ],
)
async def test_news_of_incidents_are_played(telling: Telling, kind: str, told: list[str]) -> None:
    dataset = await telling.a_dataset()
    incident = await telling.an_incident(dataset, severity="WARNING")
    for word, minutes in (("opened", 400), ("resolved", 300), ("reopened", 200), ("resolved", 100)):
        await went_on(telling, incident, word, minutes)
    found = await preview(telling, await telling.a_rule(QUIET, anomaly_type=kind))
    assert [each["type"] for each in found["items"]] == told
    severities = {"IncidentResolved": "INFO", "IncidentReopened": "WARNING"}
    assert [each["severity"] for each in found["items"]] == [severities[each] for each in told]
    assert {each["incident_id"] for each in found["items"]} <= {str(incident)}
    assert found["would_send"] == len(told)


async def test_a_merge_is_no_news(telling: Telling) -> None:
    kept = await telling.an_incident()
    gone = await telling.an_incident(merged_into=kept, status="resolved")
    await went_on(telling, gone, "resolved", 10)
    assert (await preview(telling, await telling.a_rule(QUIET, anomaly_type="Incident*")))["matched"] == 0


async def test_a_preview_sends_nothing_and_leaves_no_trace(telling: Telling) -> None:
    await happened(telling, await telling.a_dataset(), 10)
    await preview(telling, await telling.a_rule(QUIET))
    assert await telling.history() == []


@pytest.mark.parametrize("days", [0, 91, "x"])
async def test_a_number_of_days_that_makes_no_sense_is_refused(telling: Telling, days: Any) -> None:
    rule = await telling.a_rule(QUIET)
    response = await telling.tenant.client.get(f"{RULES}/{rule['id']}/preview", params={"days": days})
    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.days"
