"""Facets of pipelines with every field replaced and left out: each is taken, and everything can still be read."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from headgate.client.paths import segment
from headgate.pipelines.record import DriftRecord
from tests.integration.pipelines.test_server_runs import ask, get
from tests.support.broken import paths_of, replaced, without
from tests.support.events import Json, a_run_id
from tests.support.pipeline_events import SOURCE, a_full_record, a_node_end, a_pipeline_event, an_alert
from tests.support.server import Server, Tenant

JUNK: tuple[Any, ...] = (None, True, -1, 2**63, 2**70, 1e308, "", "x" * 5000, "9999-12-31T23:59:59-23:59", [], [1], {})
FACETS = ("headgate_pipeline", "headgate_node", "headgate_alerts")


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def a_whole_event(run: str, parent: str) -> Json:
    """A node's end that also says what only a pipeline's run says: every facet in one event."""
    parts = a_full_record(drift=DriftRecord(added=("total",)), inputs=(SOURCE,), notes=("slow",), error="none")
    event = a_node_end(run, parent, freshness={"max_age_hours": 24}, **parts)
    own = a_pipeline_event(run, "published", alerts=[an_alert()])
    event["run"]["facets"] |= own["run"]["facets"]
    return event


def variants() -> Iterator[Json]:
    """The event with one field of its facets gone or replaced, each under a run of its own."""
    whole = a_whole_event(a_run_id(), a_run_id())
    for facet in FACETS:
        body = whole["run"]["facets"][facet]
        for path in paths_of(body):
            if not path or str(path[0]).startswith("_"):
                continue
            for changed in (without(body, path), *(replaced(body, path, junk) for junk in JUNK)):
                event = copy.deepcopy(a_whole_event(a_run_id(), a_run_id()))
                event["run"]["facets"][facet] = changed
                yield event


@pytest.mark.slow
async def test_no_body_stops_an_event_or_what_is_read_after_it(
    tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    events = list(variants())
    assert len(events) > 1000

    for begin in range(0, len(events), 100):
        body = json.dumps(events[begin : begin + 100]).encode()
        answer = await tenant.client.post("/api/v1/lineage/batch", content=body)
        assert answer.status_code == 200, answer.text[:2000]

    runs = await read_everything(tenant)
    assert len(runs) > 300
    for run in runs:
        assert (await ask(tenant, f"pipeline-runs/{run}/story")).status_code == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def read_everything(tenant: Tenant) -> list[str]:
    """Every list and every run; the ids of the runs."""
    await get(tenant, "quarantine-batches", limit=1000)
    runs = []
    for item in (await get(tenant, "pipelines", limit=1000))["items"]:
        client, path = tenant.client, f"/api/v1/pipelines/{segment(item['project'])}/{segment(item['pipeline'])}"
        detail = await client.get(path)
        assert detail.status_code == 200, detail.text
        for node in detail.json()["nodes"]:
            for question in ("history", "last"):
                answer = await client.get(f"{path}/nodes/{segment(node['node'])}/{question}")
                assert answer.status_code in (200, 404), answer.text
        page = (await client.get(f"{path}/runs", params={"limit": 1000})).json()
        runs += [run["run_id"] for run in page["items"]]
    for run in runs:
        await get(tenant, f"pipeline-runs/{run}")
    return runs
