"""What a real server knows of a run that was told to it by the official client."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid5

import httpx
import pytest

from headgate.client import HeadgateClient
from headgate.errors import ConfigError
from headgate.pipelines.alerts.events import Alert, AlertStatus
from headgate.pipelines.alerts.send import Outcome, Sent
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.plan import Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from tests.conftest import Cluster
from tests.support.bad_servers import dead_url
from tests.support.events import Json
from tests.support.live import Live, live_server
from tests.support.pipeline_runs import TWO_PIPELINES, a_plan, a_record, a_run, an_emitter, breaks, kept_in, stops


@pytest.fixture
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return a_plan(tmp_path)


async def told(live: Live, plan: Plan, deeds: Any = None, run: RunRecord | None = None, **more: Any) -> RunRecord:
    """A run of which every event was stored."""
    emitter = an_emitter(plan, live.url, live.api_key, **more)
    done = await asyncio.to_thread(a_run, plan, [emitter], deeds, run)
    assert {answer.status for answer in live.answers} == {201}
    assert (emitter.standing.kept, emitter.standing.refused, emitter.standing.lost) == (0, 0, 0)
    return done


def client_of(live: Live) -> HeadgateClient:
    return HeadgateClient(live.url, live.api_key)


def detail(live: Live, run_id: str) -> Json:
    with client_of(live) as client:
        return client.pipeline_run(run_id)


async def test_a_run_is_known_with_its_nodes_their_records_and_their_targets(live: Live, plan: Plan) -> None:
    run = await told(live, plan, engine=("spark", "4.2.0"))

    found = detail(live, run.run_id)

    assert (found["status"], found["planned_nodes"]) == ("published", ["orders", "totals"])
    assert found["node_counts"] == {"published": 2, "stopped": 0, "failed": 0, "skipped": 0, "running": 0}
    assert (found["rows_in"], found["rows_quarantined"], found["rows_published"]) == (200, 6, 194)
    orders = next(node for node in found["nodes"] if node["node"] == "orders")
    assert orders["target"] == {"urn": "s3://lake/silver/orders", "label": "silver/orders"}
    assert orders["gate"]["pass_rate"] == 0.97
    assert orders["record"]["quarantine"]["samples"] == [{"id": None, "total": "***"}]
    assert datetime.fromisoformat(found["started_at"]) == run.started_at
    assert datetime.fromisoformat(found["ended_at"]) == run.ended_at
    with client_of(live) as client:
        assert "daily" in client.pipeline_story(run.run_id)


async def test_a_target_is_found_by_the_words_of_the_file_with_its_tests_schema_and_lineage(
    live: Live, plan: Plan
) -> None:
    await told(live, plan)

    with client_of(live) as client:
        target = client.dataset("silver/orders")
        checks = client.checks("silver/orders")
        upstream = client.upstream("silver/totals")
        conformance = client.conformance()
    assert (target["urn"], target["row_count"]) == ("s3://lake/silver/orders", 97)
    assert {(each["name"], each["status"], each["actual"]) for each in checks.items} == {
        ("not_null", "failed", "3 of 100 rows fail"),
        ("row_count", "passed", "100"),
    }
    assert {node.urn for node in upstream.nodes} >= {"s3://lake/silver/orders", "s3://lake/bronze/orders"}
    (producer,) = conformance["items"]
    assert (producer["refused"], producer["invalid_facets"], producer["grade"]) == ([], [], "A")


async def test_events_in_any_order_leave_the_same(live: Live, tmp_path: Path) -> None:
    dice, seen = random.Random(20260301), []
    for place in range(4):
        plan = a_plan(tmp_path / str(place))
        run = a_run(plan, [an_emitter(plan, dead_url())], {"orders": stops})
        events = [line for file in _spooled(plan) for line in file.read_bytes().splitlines()]
        dice.shuffle(events)
        if place == 0:
            events.sort(key=lambda event: b'"eventType":"START"' in event)
        answers = await live.replay(*events)
        assert {answer.status_code for answer in answers} == {201}
        seen.append(_comparable(detail(live, run.run_id)))

    assert seen[1:] == seen[:-1]


def _spooled(plan: Plan) -> list[Path]:
    return sorted((plan.loaded.folder / ".headgate" / "spool").iterdir())


def _comparable(found: Json) -> Json:
    nodes = [(node["node"], node["status"], node["tests"], node["rows_in"]) for node in found["nodes"]]
    return {"status": found["status"], "counts": found["node_counts"], "nodes": sorted(nodes, key=str)}


async def test_each_try_of_a_node_is_told_and_the_last_one_counts(live: Live, plan: Plan) -> None:
    tries: list[str] = []

    def fails_once(record: NodeRecord) -> None:
        tries.append(record.run_id)
        if len(tries) == 1:
            breaks(record)

    run = await told(live, plan, {"orders": fails_once})

    first, second = tries
    found = detail(live, run.run_id)
    assert [(node["attempt"], node["status"]) for node in found["nodes"] if node["node"] == "orders"] == [
        (2, "published")
    ]
    with client_of(live) as client:
        assert client.run(first)["state"] == "FAIL"
        assert client.run(second)["state"] == "COMPLETE"


async def test_a_run_that_fails_says_why_and_what_it_did_not_begin(live: Live, plan: Plan) -> None:
    run = await told(live, plan, {"orders": breaks})

    found = detail(live, run.run_id)

    assert found["status"] == "failed"
    assert {node["node"]: node["status"] for node in found["nodes"]} == {"orders": "failed", "totals": "skipped"}
    errors = await live.db.fetch("SELECT error FROM job_runs WHERE error IS NOT NULL")
    assert len(errors) == 3
    assert all("the network is gone" in row["error"] for row in errors)


async def test_several_pipelines_of_a_run_are_runs_of_their_own(live: Live, tmp_path: Path) -> None:
    plan = a_plan(tmp_path, TWO_PIPELINES)
    run = await told(live, plan, {"clicks": stops})

    daily, hourly = (detail(live, str(uuid5(UUID(run.run_id), name))) for name in ("daily", "hourly"))

    assert (daily["status"], hourly["status"]) == ("published", "stopped")
    assert [node["node"] for node in hourly["nodes"]] == ["clicks"]


async def test_alerts_of_a_run_are_in_its_history(live: Live, plan: Plan) -> None:
    run = a_record(plan)
    at = datetime(2026, 3, 1, tzinfo=UTC)
    alert = Alert(AlertEvent.on_success, AlertStatus.SUCCESS, "shop", "daily", run.run_id, "It went well.", at)

    await told(live, plan, None, run, alerts=lambda: [Sent(alert, "slack", "slack #data", Outcome.sent, at)])

    (found,) = detail(live, run.run_id)["alerts"]
    assert (found["event"], found["channel"], found["outcome"]) == ("on_success", "slack #data", "sent")


async def test_a_run_that_was_broken_off_is_aborted(live: Live, plan: Plan) -> None:
    run = a_record(plan)

    def broken_off(record: NodeRecord) -> None:
        run.is_interrupted = True
        breaks(record)

    await told(live, plan, {"orders": broken_off}, run)

    states = await live.db.fetch("SELECT state FROM job_runs WHERE run_id = $1", UUID(run.run_id))
    assert [row["state"] for row in states] == ["ABORT"]


async def test_the_label_leads_to_the_dataset_over_http(live: Live, plan: Plan) -> None:
    await told(live, plan)

    async with httpx.AsyncClient(base_url=live.url, headers={"Authorization": f"Bearer {live.api_key}"}) as client:
        response = await client.get(f"/api/v1/datasets/{quote('silver/rejects', safe='')}")

    assert response.json()["urn"] == "s3://lake/silver/rejects"


async def test_openlineage_that_is_switched_off_is_told_once(
    live: Live, plan: Plan, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")

    run = await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)])

    assert run.status is Status.published
    assert live.answers == []
    assert [record.getMessage() for record in caplog.records if "OPENLINEAGE_DISABLED" in record.getMessage()] != []
    assert kept_in(plan.loaded.folder) == []


async def test_a_bug_around_the_alerts_does_not_hide_how_the_run_ended(
    live: Live, plan: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[Sent]:
        raise RuntimeError("no such queue")

    run = await told(live, plan, alerts=broken)

    assert detail(live, run.run_id)["status"] == "published"
    assert [record.levelname for record in caplog.records if "alerts of this run" in record.getMessage()] == ["WARNING"]


async def test_a_run_whose_id_is_no_uuid_goes_on(live: Live, plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    run = RunRecord("run-1", "shop", ("daily",))

    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)], None, run)

    assert run.status is Status.published
    assert any("not told all of this run" in record.getMessage() for record in caplog.records)


def test_settings_of_the_client_that_make_no_sense_are_told_before_the_run(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE__FACETS__NONSENSE", "1")

    with pytest.raises(ConfigError, match="the OpenLineage client") as caught:
        an_emitter(plan, "http://127.0.0.1:1")
    assert "OPENLINEAGE__" in (caught.value.hint or "")
