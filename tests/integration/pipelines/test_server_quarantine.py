"""Batches in quarantine: what is in them, and what became of them, whatever the order in which that is told."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from headgate.pipelines.record import Status
from tests.integration.pipelines.test_server_runs import ask, get, walked
from tests.support.events import Json, a_run_id, at
from tests.support.pipeline_events import a_batch, a_node_end
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


async def batches(tenant: Tenant, **asked: Any) -> list[Json]:
    found: list[Json] = (await get(tenant, "quarantine-batches", **asked))["items"]
    return found


async def test_a_batch_is_told_with_what_it_holds(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(a_node_end(run, seconds=60, quarantine=a_batch(run, rows=7, retention_days=1)))

    (batch,) = await batches(tenant)

    assert (batch["project"], batch["pipeline"], batch["node"], batch["batch_id"]) == ("shop", "sales", "orders", run)
    assert (batch["run_id"], batch["changed_by"], batch["rows"], batch["state"]) == (run, run, 7, "open")
    assert (batch["dataset_urn"], batch["location"]) == (
        "s3://lake/rejects/orders",
        f"s3://lake/rejects/orders/{run}",
    )
    assert batch["failed_tests"] == {"ids": 3}
    assert (batch["rejected_at"], batch["expires_at"]) == (at(60), at(60 + 86_400))


async def test_a_batch_may_be_kept_for_ever(tenant: Tenant) -> None:
    await tenant.send_ok(a_node_end(a_run_id(), quarantine=a_batch("b", retention_days=None)))

    assert (await batches(tenant))[0]["expires_at"] is None


async def test_the_latest_run_to_deal_with_a_batch_says_what_became_of_it(server: Server) -> None:
    """In every order: the batch, its replay, and that it was discarded in the end."""
    steps = [(60, "gate_aborted", 3), (90, "replayed", 0), (120, "discarded", 0)]
    runs = [a_run_id() for _ in steps]
    for place, order in enumerate(permutations(range(3))):
        tenant = await server.add_tenant(f"Order {place}")
        for step in order:
            seconds, state, rows = steps[step]
            batch = a_batch("batch-1", state, rows=rows)
            await tenant.send_ok(a_node_end(runs[step], seconds=seconds, quarantine=batch))

        (found,) = await batches(tenant)

        assert (found["state"], found["changed_at"], found["changed_by"]) == ("discarded", at(120), runs[2])
        assert (found["rows"], found["run_id"], found["rejected_at"]) == (3, runs[0], at(60))


async def test_a_batch_that_is_written_again_holds_what_was_written_last(tenant: Tenant) -> None:
    """A retry replaces its own batch."""
    runs = [a_run_id(), a_run_id()]
    await tenant.send_ok(
        a_node_end(runs[1], seconds=90, attempt=2, quarantine=a_batch("b", rows=5)),
        a_node_end(runs[0], seconds=60, quarantine=a_batch("b", rows=3), status=Status.failed),
    )

    (found,) = await batches(tenant)

    assert (found["rows"], found["run_id"], found["rejected_at"]) == (5, runs[1], at(90))


async def test_changes_of_one_request_are_taken_in_their_order(tenant: Tenant) -> None:
    made, changed = a_run_id(), a_run_id()
    events = [
        a_node_end(changed, seconds=90, quarantine=a_batch("b", "replayed", rows=0)),
        a_node_end(made, seconds=60, quarantine=a_batch("b", rows=3)),
    ]
    answer = await tenant.client.post("/api/v1/lineage/batch", json=events)
    assert answer.status_code == 200, answer.text

    (found,) = await batches(tenant)

    assert (found["state"], found["rows"], found["run_id"]) == ("replayed", 3, made)


async def test_a_start_sets_nothing_apart(tenant: Tenant) -> None:
    event = a_node_end(a_run_id(), quarantine=a_batch("b"))
    event["eventType"] = "START"
    await tenant.send_ok(event)

    assert await batches(tenant) == []


async def test_batches_are_found_by_where_they_are_from_and_how_they_are(tenant: Tenant) -> None:
    for place, (pipeline, node, state) in enumerate(
        [("sales", "orders", "open"), ("sales", "items", "open"), ("returns", "orders", "expired")]
    ):
        batch = a_batch(f"b{place}", state)
        await tenant.send_ok(a_node_end(a_run_id(), seconds=60 + place, pipeline=pipeline, node=node, quarantine=batch))

    async def ids(**asked: Any) -> list[str]:
        return [batch["batch_id"] for batch in await batches(tenant, **asked)]

    assert await ids() == ["b2", "b1", "b0"]
    assert await ids(project="shop", pipeline="sales") == ["b1", "b0"]
    assert await ids(node="orders") == ["b2", "b0"]
    assert await ids(state="open", node="orders") == ["b0"]
    assert await ids(state="discarded") == []
    assert await ids(project="other") == []
    assert (await ask(tenant, "quarantine-batches", state="lost")).status_code == 422


async def test_batches_are_walked_page_by_page(tenant: Tenant) -> None:
    for place in range(5):
        await tenant.send_ok(a_node_end(a_run_id(), seconds=60 + place // 2, quarantine=a_batch(f"b{place}")))

    found = await walked(tenant, "quarantine-batches", "batch_id")

    assert sorted(found) == [f"b{place}" for place in range(5)]
    assert found[0] == "b4"
