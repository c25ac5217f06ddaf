"""Runs of pipelines as the server tells them, whatever the order in which their events come."""

from __future__ import annotations

import asyncio
from itertools import permutations
from typing import Any

import httpx
import pytest

from headgate.pipelines.record import Status
from headgate.server.app import create_app
from headgate.settings import Settings
from tests.support.events import Json, a_facet, a_run_id, at
from tests.support.pipeline_events import (
    NODE,
    PROJECT,
    a_full_record,
    a_node_end,
    a_node_start,
    a_pipeline_event,
    a_run,
    an_alert,
)
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def ask(tenant: Tenant, path: str, **params: Any) -> httpx.Response:
    return await tenant.client.get(f"/api/v1/{path}", params=params)


async def get(tenant: Tenant, path: str, **params: Any) -> Json:
    response = await ask(tenant, path, **params)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def test_a_run_is_told_with_the_record_of_its_node(tenant: Tenant) -> None:
    run, events = a_run(**a_full_record())
    await tenant.send_ok(*events)

    found = await get(tenant, f"pipeline-runs/{run}")

    assert (found["project"], found["pipeline"], found["status"]) == (PROJECT, "sales", "published")
    assert (found["environment"], found["file"], found["planned_nodes"]) == ("test", "shop.yaml", [NODE])
    assert (found["started_at"], found["ended_at"]) == (at(0), at(61))
    assert found["node_counts"] == {"published": 1, "stopped": 0, "failed": 0, "skipped": 0, "running": 0}
    assert (found["rows_in"], found["rows_quarantined"], found["rows_published"]) == (100, 3, 97)
    (node,) = found["nodes"]
    assert (node["node"], node["status"], node["attempt"]) == (NODE, "published", 1)
    assert node["tests"] == {"total": 2, "passed": 1, "failed": 1}
    assert node["target"] == {"urn": "s3://lake/silver/orders", "label": "silver/orders"}
    assert node["gate"]["pass_rate"] == 0.97
    assert node["record"]["quarantine"]["batch_id"] == "batch-1"
    assert "_producer" not in node["record"]


async def test_a_run_that_has_only_begun_is_running(tenant: Tenant) -> None:
    run, node = a_run_id(), a_run_id()
    await tenant.send_ok(a_pipeline_event(run), a_node_start(node, run, seconds=1))

    found = await get(tenant, f"pipeline-runs/{run}")

    assert (found["status"], found["ended_at"]) == ("running", None)
    assert found["node_counts"]["running"] == 1
    assert (found["nodes"][0]["status"], found["nodes"][0]["started_at"]) == ("running", at(1))


async def test_the_order_in_which_events_come_makes_no_difference(tenant: Tenant) -> None:
    told = []
    for order in permutations(range(4)):
        run, node = a_run_id(), a_run_id()
        events = [
            a_pipeline_event(run),
            a_node_start(node, run, seconds=1, attempt=1),
            a_node_end(node, run, seconds=60, status=Status.stopped, **a_full_record()),
            a_pipeline_event(run, "stopped", seconds=61),
        ]
        await tenant.send_ok(*(events[step] for step in order))
        found = await get(tenant, f"pipeline-runs/{run}")
        for part in (found, *found["nodes"]):
            part.pop("run_id"), part.pop("pipeline_run_id", None)
        found["nodes"][0]["record"].pop("run_id")
        told.append(found)

    assert len(told) == 24
    assert all(found == told[0] for found in told)
    assert (told[0]["status"], told[0]["node_counts"]["stopped"]) == ("stopped", 1)
    assert told[0]["nodes"][0]["started_at"] == at(0)


async def test_events_of_one_request_are_taken_together(tenant: Tenant) -> None:
    run, events = a_run(**a_full_record())
    answer = await tenant.client.post("/api/v1/lineage/batch", json=[*reversed(events), *a_run(seconds=300)[1]])

    assert answer.status_code == 200, answer.text
    assert (await get(tenant, f"pipeline-runs/{run}"))["status"] == "published"
    assert [item["run_count"] for item in (await get(tenant, "pipelines"))["items"]] == [2]


async def test_the_same_events_again_change_nothing(tenant: Tenant) -> None:
    run, events = a_run(**a_full_record())
    await tenant.send_ok(*events)
    before = await get(tenant, f"pipeline-runs/{run}")

    # Told apart by their bytes, so that they are no duplicates to the log.
    for event in events:
        event["run"]["facets"]["again"] = a_facet(said="twice")
    answers = [await tenant.send(event) for event in events]

    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert await get(tenant, f"pipeline-runs/{run}") == before


async def test_of_two_ends_the_one_counts_that_ends_the_run(tenant: Tenant) -> None:
    """As in the state of the run itself: the earlier, though it comes later."""
    run, node = a_run_id(), a_run_id()
    await tenant.send_ok(a_node_end(node, run, seconds=90), a_pipeline_event(run, "published", seconds=91))
    await tenant.send_ok(
        a_node_end(node, run, seconds=60, status=Status.failed, error="out of memory"),
        a_pipeline_event(run, "failed", seconds=61),
    )

    found = await get(tenant, f"pipeline-runs/{run}")

    assert (found["status"], found["ended_at"], found["node_counts"]["failed"]) == ("failed", at(61), 1)
    assert found["nodes"][0]["record"]["error"] == "out of memory"
    assert (await tenant.run(run))["state"] == "FAIL"


async def test_the_latest_attempt_speaks_for_a_node(tenant: Tenant) -> None:
    run, first, second = a_run_id(), a_run_id(), a_run_id()
    await tenant.send_ok(
        a_node_end(second, run, seconds=90, attempt=2),
        a_node_start(first, run, seconds=1, attempt=1),
        a_pipeline_event(run, "published", seconds=91),
    )

    found = await get(tenant, f"pipeline-runs/{run}")

    assert [(node["run_id"], node["attempt"]) for node in found["nodes"]] == [(second, 2)]
    assert found["node_counts"] == {"published": 1, "stopped": 0, "failed": 0, "skipped": 0, "running": 0}
    assert found["rows_published"] == 97


async def test_a_run_is_known_from_its_nodes_alone(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(a_node_end(a_run_id(), run), a_node_end(a_run_id(), run, node="items", rows_published=3))

    found = await get(tenant, f"pipeline-runs/{run}")

    assert (found["status"], found["planned_nodes"], found["file"]) == ("running", [], None)
    assert (found["node_counts"]["published"], found["rows_published"]) == (2, 100)
    assert [node["node"] for node in found["nodes"]] == ["items", NODE]


@pytest.mark.parametrize(
    ("event_type", "status"), [("COMPLETE", "published"), ("FAIL", "failed"), ("ABORT", "failed")], ids=str
)
async def test_an_end_without_a_status_is_what_its_event_says(tenant: Tenant, event_type: str, status: str) -> None:
    run, node = a_run_id(), a_run_id()
    end = a_pipeline_event(run, seconds=60, event_type=event_type)
    node_end = a_node_start(node, run, seconds=59)
    node_end["eventType"] = event_type
    await tenant.send_ok(node_end, end)

    found = await get(tenant, f"pipeline-runs/{run}")

    assert (found["status"], found["nodes"][0]["status"]) == (status, status)
    assert found["ended_at"] == at(60)


async def test_nodes_that_end_at_the_same_time_are_all_counted(server: Server) -> None:
    run = a_run_id()
    events = [a_node_end(a_run_id(), run, node=f"n{place:02}", rows_published=1) for place in range(30)]
    events.append(a_pipeline_event(run, "published", seconds=61))

    answers = await asyncio.gather(*(server.tenant.send(event) for event in events))

    assert {answer.status_code for answer in answers} == {201}
    found = await get(server.tenant, f"pipeline-runs/{run}")
    assert (found["node_counts"]["published"], found["rows_published"], len(found["nodes"])) == (30, 30, 30)


async def test_nodes_that_end_on_several_servers_are_all_counted(server: Server, settings: Settings) -> None:
    """Each server writes in transactions of its own, and none may miss what another has just written."""
    run = a_run_id()
    app = create_app(settings, server.database)
    async with app.api.router.lifespan_context(app.api):
        headers = {"authorization": f"Bearer {server.tenant.api_key}"}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://other.test", headers=headers) as other:
            events = [a_node_end(a_run_id(), run, node=f"n{place:02}", rows_published=1) for place in range(40)]
            clients = (server.client, other)
            answers = await asyncio.gather(
                *(clients[place % 2].post("/api/v1/lineage", json=event) for place, event in enumerate(events))
            )

    assert {answer.status_code for answer in answers} == {201}
    found = await get(server.tenant, f"pipeline-runs/{run}")
    assert (found["node_counts"]["published"], found["rows_published"]) == (40, 40)


async def test_rows_beyond_all_numbers_together_are_as_many_as_there_can_be(tenant: Tenant) -> None:
    run, most = a_run_id(), 2**63 - 1
    await tenant.send_ok(*(a_node_end(a_run_id(), run, node=node, rows_in=most) for node in ("a", "b")))

    assert (await get(tenant, f"pipeline-runs/{run}"))["rows_in"] == most


async def test_alerts_are_told_once_however_often_they_are_sent(tenant: Tenant) -> None:
    run = a_run_id()
    first, second = an_alert(), an_alert(90, channel="mail", node=None, outcome="throttled", reason="10 an hour")
    await tenant.send_ok(
        a_pipeline_event(run, "stopped", seconds=120, alerts=[first, second]),
        a_pipeline_event(run, alerts=[first]),
    )

    alerts = (await get(tenant, f"pipeline-runs/{run}"))["alerts"]

    assert [(alert["channel"], alert["outcome"], alert["at"]) for alert in alerts] == [
        ("slack", "sent", at(60)),
        ("mail", "throttled", at(90)),
    ]
    assert alerts[1]["reason"] == "10 an hour"


WRONG = {
    "headgate_pipeline": {"status": "fine"},
    "headgate_node": {"rows_in": -1},
    "headgate_alerts": {"alerts": 7},
}


@pytest.mark.parametrize("facet", WRONG)
async def test_a_wrong_facet_is_counted_and_refuses_nothing(tenant: Tenant, facet: str) -> None:
    run, node = a_run_id(), a_run_id()
    event = a_pipeline_event(run, "published", alerts=[]) if facet != "headgate_node" else a_node_end(node, run)
    event["run"]["facets"][facet] |= WRONG[facet]

    await tenant.send_ok(event)

    (producer,) = (await get(tenant, "conformance"))["items"]
    assert [found["facet"] for found in producer["invalid_facets"]] == [facet]
    status = (await ask(tenant, f"pipeline-runs/{run}")).status_code
    assert status == (200 if facet == "headgate_alerts" else 404)


async def test_a_record_that_is_too_large_is_kept_without_its_heaviest_parts(tenant: Tenant) -> None:
    run = a_run_id()
    profile = {f"column_{place}": {"nulls": 0, "min": "x" * 100} for place in range(10_000)}
    event = a_node_end(a_run_id(), run, **a_full_record())
    event["run"]["facets"]["headgate_node"]["profile"] = profile
    await tenant.send_ok(event)

    (node,) = (await get(tenant, f"pipeline-runs/{run}"))["nodes"]

    assert "profile" not in node["record"]
    assert "left out" in node["record"]["notes"][0]
    assert (node["rows_in"], node["tests"]["total"]) == (100, 2)


async def test_pipelines_are_listed_by_name_with_their_latest_runs(tenant: Tenant) -> None:
    for place, pipeline in enumerate(("sales", "returns", "sales", "Zebra", "sales")):
        await tenant.send_ok(*a_run(seconds=60 + 100 * place, pipeline=pipeline)[1])

    items = (await get(tenant, "pipelines"))["items"]

    assert [(item["pipeline"], item["run_count"]) for item in items] == [("Zebra", 1), ("returns", 1), ("sales", 3)]
    assert items[2]["last_run"]["started_at"] == at(400)
    assert items[2]["last_run"]["rows_published"] == 97


async def test_lists_are_walked_page_by_page(tenant: Tenant) -> None:
    for place in range(7):
        await tenant.send_ok(*a_run(seconds=60 + place, pipeline=f"p{place % 4}")[1])
    for _ in range(6):
        await tenant.send_ok(*a_run(seconds=1000, pipeline="same")[1])

    assert await walked(tenant, "pipelines", "pipeline") == ["p0", "p1", "p2", "p3", "same"]
    runs = await walked(tenant, f"pipelines/{PROJECT}/same/runs", "run_id")
    assert len(runs) == len(set(runs)) == 6
    started = await walked(tenant, f"pipelines/{PROJECT}/p0/runs", "started_at")
    assert started == [at(4), at(0)]


async def walked(tenant: Tenant, path: str, field: str) -> list[Any]:
    found, params = [], {"limit": 2}
    while True:
        page = await get(tenant, path, **params)
        assert len(page["items"]) <= 2
        found += [item[field] for item in page["items"]]
        if page["next_cursor"] is None:
            return found
        params["cursor"] = page["next_cursor"]


@pytest.mark.parametrize(
    "cursor", ["nonsense", "bnVsbA==", "WyJuYW1lIiwgIltdIiwgIjAwMDAwMDAwLTAwMDAtMDAwMC0wMDAwLTAwMDAwMDAwMDAwMCJd"]
)
async def test_a_cursor_of_something_else_is_refused(tenant: Tenant, cursor: str) -> None:
    response = await ask(tenant, "pipelines", cursor=cursor)

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.cursor"


@pytest.mark.parametrize("limit", [0, 1001])
async def test_limits_have_limits(tenant: Tenant, limit: int) -> None:
    assert (await ask(tenant, "pipelines", limit=limit)).status_code == 422


async def test_a_pipeline_is_told_with_its_nodes_and_targets(tenant: Tenant) -> None:
    run, _ = a_run()
    await tenant.send_ok(
        a_pipeline_event(run, nodes=["orders", "items", "later"]),
        a_node_end(a_run_id(), run, seconds=60),
        a_node_end(a_run_id(), run, seconds=70, node="items", status=Status.stopped, output=None),
    )

    found = await get(tenant, f"pipelines/{PROJECT}/sales")

    assert found["run_count"] == 1
    nodes = {node["node"]: node for node in found["nodes"]}
    assert [node["node"] for node in found["nodes"]] == ["items", "orders", "later"]
    assert nodes["orders"]["latest_run"]["status"] == "published"
    assert nodes["orders"]["last_published"]["rows_published"] == 97
    assert nodes["items"]["last_published"] is None
    assert (nodes["later"]["latest_run"], nodes["later"]["in_last_run"]) == (None, True)
    assert found["targets"] == [{"urn": "s3://lake/silver/orders", "label": "silver/orders"}]


async def test_a_node_that_the_last_run_no_longer_has_says_so(tenant: Tenant) -> None:
    await tenant.send_ok(*a_run()[1], a_pipeline_event(a_run_id(), seconds=500, nodes=["items"]))

    nodes = (await get(tenant, f"pipelines/{PROJECT}/sales"))["nodes"]

    assert [(node["node"], node["in_last_run"]) for node in nodes] == [(NODE, False), ("items", True)]


async def test_names_are_read_segment_by_segment(tenant: Tenant) -> None:
    run = a_run_id()
    event = a_pipeline_event(run, "published", seconds=60, project="a/b ü", pipeline="c/d%2F")
    await tenant.send_ok(event)

    found = await get(tenant, "pipelines/a%2Fb%20%C3%BC/c%2Fd%252F")

    assert (found["project"], found["pipeline"]) == ("a/b ü", "c/d%2F")
    assert (await ask(tenant, "pipelines/a/b%20%C3%BC/c%2Fd%252F")).status_code == 404


async def test_what_is_unknown_is_not_found_with_the_nearest_names(tenant: Tenant) -> None:
    await tenant.send_ok(*a_run()[1])

    for path in ("pipelines/shop/salse", "pipelines/shop/salse/runs", "pipelines/shop/salse/nodes/orders/last"):
        response = await ask(tenant, path)
        assert response.status_code == 404
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["context"]["nearest"] == ["shop/sales"]
    response = await ask(tenant, "pipelines/shop/sales/nodes/order/history")
    assert response.status_code == 404
    assert response.json()["context"]["nearest"] == ["orders"]
    assert "did you mean 'orders'?" in response.json()["hint"]
    for path in ("", "/story"):
        assert (await ask(tenant, f"pipeline-runs/{a_run_id()}{path}")).status_code == 404
    assert (await ask(tenant, "pipeline-runs/none")).status_code == 422


async def test_another_organisation_sees_nothing_of_it(server: Server) -> None:
    other = await server.add_tenant("Second")
    run, events = a_run(**a_full_record())
    await server.tenant.send_ok(*events)

    for path in ("pipelines", "quarantine-batches"):
        assert (await get(server.tenant, path))["items"]
        assert (await get(other, path))["items"] == []
    for path in (f"pipeline-runs/{run}", f"pipeline-runs/{run}/story", "pipelines/shop/sales"):
        response = await ask(other, path)
        assert response.status_code == 404
        assert response.json().get("context", {}).get("nearest", []) == []


async def test_two_organisations_may_have_the_same_runs(server: Server) -> None:
    other = await server.add_tenant("Second")
    run, events = a_run()
    await server.tenant.send_ok(*events)
    await other.send_ok(a_pipeline_event(run, "failed", seconds=9))

    assert (await get(server.tenant, f"pipeline-runs/{run}"))["status"] == "published"
    assert (await get(other, f"pipeline-runs/{run}"))["status"] == "failed"
