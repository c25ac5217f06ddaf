"""Anomalies that producers find themselves: kept as they see them, whenever they saw them, in whatever words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headgate.server.anomalies.watching import earlier
from tests.support.anomalies import Judging
from tests.support.events import Json, a_dataset, a_facet, an_event, at
from tests.support.ingest import METADATA, post


def an_anomaly(**changes: Any) -> Json:
    told = {
        "dataset_name": "daily",
        "anomaly_type": "ROW_COUNT_DROP",
        "current_value": 1,
        "expected_value": 10.5,
        "threshold": 3,
        "message": "too few rows",
    }
    return told | changes


async def told(judging: Judging, *anomalies: Json, **payload: Any) -> None:
    body = {"job_id": "spark-7", "outputs": [{"name": "daily"}], "ended_at": at(60), "anomalies": list(anomalies)}
    response = await post(judging.tenant, METADATA, body | payload)
    assert response.status_code == 202, response.text


async def listed(judging: Judging) -> list[Json]:
    response = await judging.tenant.client.get("/api/v1/anomalies")
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


async def test_what_a_client_found_is_listed_like_our_own(judging: Judging) -> None:
    await told(judging, an_anomaly(severity="CRITICAL"), job_name="daily orders")

    (found,) = await listed(judging)
    assert (found["type"], found["severity"], found["source"]) == ("RowCountDrop", "CRITICAL", "client")
    assert (found["dataset"]["name"], found["job"]["name"]) == ("daily", "daily orders")
    assert (found["actual_value"], found["expected_value"]) == ({"value": 1}, {"value": 10.5})
    assert found["description"] == "too few rows"
    assert found["detected_at"] == at(60)
    (row,) = await judging.anomalies()
    assert (row["job_id"], row["job_name"]) == ("spark-7", "daily orders")
    assert row["metadata"] == {"type_told": "ROW_COUNT_DROP", "threshold": 3}


async def test_its_cause_is_looked_for(judging: Judging) -> None:
    await told(judging, an_anomaly())

    (found,) = await judging.anomalies()
    tasks = [task for task in await judging.tasks("CORRELATE") if task["resource_type"] == "ANOMALY"]
    assert [task["payload"] for task in tasks] == [{"kind": "anomaly", "anomaly_id": str(found["id"])}]


@pytest.mark.parametrize("severity", [None, "MEDIUM", "very bad", "", "🔥"], ids=repr)
async def test_a_severity_of_another_scale_is_a_warning_and_can_be_read(judging: Judging, severity: str | None) -> None:
    await told(judging, an_anomaly(severity=severity))

    (found,) = await listed(judging)
    assert found["severity"] == "WARNING"
    (row,) = await judging.anomalies()
    assert row["metadata"]["severity_told"] == (severity or "MEDIUM")


async def test_a_type_that_is_not_ours_stays_as_it_is_and_can_be_asked_for(judging: Judging) -> None:
    await told(judging, an_anomaly(anomaly_type="ModelDrift"), an_anomaly(anomaly_type="schema_change"))

    assert {found["type"] for found in await listed(judging)} == {"ModelDrift", "SchemaChange"}
    response = await judging.tenant.client.get("/api/v1/anomalies", params={"type": "ModelDrift"})
    assert [found["type"] for found in response.json()["items"]] == ["ModelDrift"]
    summary = (await judging.tenant.client.get("/api/v1/anomalies/stats/summary", params={"days": 365})).json()
    assert summary["by_type"] == {"ModelDrift": 1, "SchemaChange": 1}


async def test_one_that_was_found_long_ago_keeps_its_time(judging: Judging) -> None:
    await told(judging, an_anomaly(detected_at="2019-05-01T10:00:00+02:00"), an_anomaly(message="and now"))

    assert [found["detected_at"] for found in await listed(judging)] == [at(60), "2019-05-01T08:00:00Z"]


async def test_one_of_the_future_was_found_when_it_came_in(judging: Judging) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=3)
    await told(judging, an_anomaly(detected_at="2999-01-01T00:00:00Z"), an_anomaly(detected_at=soon.isoformat()))
    for _ in range(2):
        await judging.watch()

    found = {row["metadata"].get("detected_at_told"): row["detected_at"] for row in await judging.anomalies()}
    assert found.keys() == {"2999-01-01T00:00:00+00:00", None}
    assert abs(found["2999-01-01T00:00:00+00:00"] - datetime.now(UTC)) < timedelta(minutes=1)
    assert found[None] == soon, "clocks differ a little"


async def test_one_of_the_future_in_the_log_was_found_when_it_came_in(judging: Judging) -> None:
    await told(judging, an_anomaly(detected_at="2999-01-01T00:00:00Z"))
    await judging.db.execute("DELETE FROM anomalies WHERE organization_id = $1", judging.organization_id)
    (event,) = await judging.rows("SELECT id, received_at FROM lineage_events WHERE organization_id = $1")
    await judging.db.execute(
        "INSERT INTO earlier_anomalies (organization_id, last_id) VALUES ($1, $2)", judging.organization_id, event["id"]
    )
    await judging.watch()

    assert [row["detected_at"] for row in await judging.anomalies()] == [event["received_at"]]


@pytest.mark.parametrize("spelling", ["ModelDrift", "modeldrift", "MODEL_DRIFT", "model-drift", "model drift"])
async def test_a_clients_own_type_is_found_in_any_spelling(judging: Judging, spelling: str) -> None:
    await told(judging, an_anomaly(anomaly_type="ModelDrift"), an_anomaly(anomaly_type="ModelDrifts"))

    response = await judging.tenant.client.get("/api/v1/anomalies", params={"type": spelling})

    assert [found["type"] for found in response.json()["items"]] == ["ModelDrift"]


async def test_the_same_one_sent_twice_is_kept_once(judging: Judging) -> None:
    await told(judging, an_anomaly(), an_anomaly(), an_anomaly(message="another"))
    await told(judging, an_anomaly(), started_at=at(0), ended_at=None, timestamp=at(60), application_id="a")
    await told(judging, an_anomaly(), started_at=at(0), ended_at=at(61), timestamp=at(60), application_id="a")

    assert len(await listed(judging)) == 3


async def test_one_in_an_openlineage_event_counts_too(judging: Judging) -> None:
    facet = a_facet(anomalies=[{"anomaly_type": "VolumeSpike", "dataset": a_dataset("elsewhere")}])
    await judging.sent(an_event(outputs=[a_dataset("orders")], run_facets={"headgate_anomalies": facet}))

    (found,) = await listed(judging)
    assert (found["type"], found["dataset"]["name"]) == ("VolumeSpike", "elsewhere")
    assert (found["actual_value"], found["description"]) == (None, "the producer reports VolumeSpike")


@pytest.mark.parametrize(
    "anomalies",
    ["none", [{"anomaly_type": "X"}], [{"anomaly_type": 7, "dataset": {"namespace": "a", "name": "b"}}], [None]],
    ids=repr,
)
async def test_a_facet_that_makes_no_sense_is_left_out_and_the_event_kept(judging: Judging, anomalies: Any) -> None:
    facets = {"headgate_anomalies": a_facet(anomalies=anomalies)}
    run = await judging.sent(an_event(outputs=[a_dataset("orders")], run_facets=facets))

    assert (await judging.tenant.run(run))["state"] == "COMPLETE"
    assert await listed(judging) == []


async def test_what_was_sent_before_anybody_read_it_is_read_from_the_log(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier, "EVENTS", 2)
    for number in range(3):
        await told(judging, an_anomaly(message=f"no {number}"), ended_at=at(60 + number), job_id=f"j{number}")
        await judging.sent(an_event(outputs=[a_dataset("orders")]))
    kept = await listed(judging)
    await judging.db.execute("DELETE FROM anomalies WHERE organization_id = $1", judging.organization_id)
    await judging.db.execute(
        "INSERT INTO earlier_anomalies (organization_id, last_id) SELECT $1, max(id) FROM lineage_events",
        judging.organization_id,
    )

    for _ in range(4):
        await judging.watch()

    def without_ids(items: list[Json]) -> list[Json]:
        return [{name: item[name] for name in item if name not in ("id", "updated_at")} for item in items]

    assert without_ids(await listed(judging)) == without_ids(kept)
    assert await judging.rows("SELECT * FROM earlier_anomalies WHERE organization_id = $1") == []
