"""What is told of datasets that were dropped or renamed, and of those next to them."""

from __future__ import annotations

import pytest

from tests.support.catalog import Json, detail, measured
from tests.support.events import a_dataset, a_run_id, an_event, at
from tests.support.lineage import changed
from tests.support.server import Server, Tenant


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def a_copy(source: str, target: str, second: float) -> Json:
    return an_event(job=f"make {target}", inputs=[a_dataset(source)], outputs=[a_dataset(target)], time=at(second))


def a_drop(name: str, second: float, job: str = "drop", event_type: str = "COMPLETE", run: str | None = None) -> Json:
    return an_event(event_type, job=job, run=run or a_run_id(), outputs=[changed(name, "DROP")], time=at(second))


def a_rename(old: str, new: str, second: float) -> Json:
    return an_event(job="rename", outputs=[changed(new, "RENAME", old)], time=at(second))


async def neighbours(tenant: Tenant, name: str) -> tuple[int, int]:
    found = await detail(tenant, name)
    return found["upstream_count"], found["downstream_count"]


async def shown(tenant: Tenant, name: str) -> tuple[int, int]:
    """How many neighbours lineage shows."""
    found = []
    for direction in ("upstream", "downstream"):
        response = await tenant.client.get(f"/api/v1/datasets/{name}/{direction}", params={"depth": 1})
        assert response.status_code == 200, response.text
        found.append(sum(node["depth"] == 1 for node in response.json()["nodes"]))
    return found[0], found[1]


async def test_neighbours_that_are_gone_do_not_count(tenant: Tenant) -> None:
    await tenant.send_ok(*(a_copy("src", name, 0) for name in ("one", "two", "three")))
    assert await neighbours(tenant, "src") == (0, 3)

    await tenant.send_ok(a_drop("one", 10), a_drop("two", 10))

    assert await neighbours(tenant, "src") == (0, 1) == await shown(tenant, "src")


async def test_a_renamed_neighbour_counts_under_its_new_name_alone(tenant: Tenant) -> None:
    await tenant.send_ok(a_copy("src", "old", 0))
    assert await neighbours(tenant, "src") == (0, 1)

    await tenant.send_ok(a_rename("old", "new", 10))

    assert await neighbours(tenant, "src") == (0, 1) == await shown(tenant, "src")
    assert await neighbours(tenant, "old") == (0, 0) == await shown(tenant, "old")
    assert await neighbours(tenant, "new") == (1, 0) == await shown(tenant, "new")


async def test_a_dataset_that_is_gone_has_no_neighbours(tenant: Tenant) -> None:
    await tenant.send_ok(a_copy("a", "b", 0), a_copy("b", "c", 1))
    assert await neighbours(tenant, "b") == (1, 1)

    await tenant.send_ok(a_drop("b", 10))

    assert [await neighbours(tenant, name) for name in "abc"] == [(0, 0)] * 3


async def test_a_dataset_that_is_written_again_has_its_neighbours_back(tenant: Tenant) -> None:
    await tenant.send_ok(a_copy("a", "b", 0), a_copy("b", "c", 1), a_drop("b", 10))
    assert [await neighbours(tenant, name) for name in "abc"] == [(0, 0)] * 3

    await tenant.send_ok(a_copy("a", "b", 20))

    assert [await neighbours(tenant, name) for name in "abc"] == [(0, 1), (1, 1), (1, 0)]


async def test_another_job_that_writes_it_brings_its_neighbours_back(tenant: Tenant) -> None:
    await tenant.send_ok(a_copy("a", "b", 0), a_copy("b", "c", 1), a_drop("b", 10))
    assert await neighbours(tenant, "c") == (0, 0)

    await tenant.send_ok(an_event(job="other", outputs=[a_dataset("b")], time=at(20)))

    assert await neighbours(tenant, "c") == (1, 0) == await shown(tenant, "c")


async def test_a_renamed_dataset_that_is_made_again_counts_beside_its_new_name(tenant: Tenant) -> None:
    await tenant.send_ok(a_copy("src", "t", 0), a_rename("t", "t_old", 10))
    assert await neighbours(tenant, "src") == (0, 1)

    await tenant.send_ok(a_copy("src", "t", 20))

    assert await neighbours(tenant, "src") == (0, 2) == await shown(tenant, "src")


async def test_to_drop_a_dataset_is_not_to_write_it(tenant: Tenant) -> None:
    writing = a_run_id()
    await tenant.send_ok(
        an_event(job="load", run=writing, outputs=[measured("t", 7)], time=at(0)),
        a_drop("t", 60),
    )

    found = await detail(tenant, "t")

    assert (found["dropped"], found["last_updated"], found["row_count"]) == (True, at(0), 7)
    assert [job["name"] for job in found["producers"]] == ["load"]
    assert (found["producer_count"], found["latest_run"]["run_id"]) == (1, writing)
    assert found["facets"]["lifecycleStateChange"]["job"]["name"] == "drop"


async def test_a_job_that_drops_what_it_wrote_has_written_it_before(tenant: Tenant) -> None:
    writing, dropping = a_run_id(), a_run_id()
    await tenant.send_ok(
        an_event(job="load", run=writing, outputs=[a_dataset("t")], time=at(0)),
        a_drop("t", 50, "load", "START", run=dropping),
        a_drop("t", 60, "load", run=dropping),
    )

    found = await detail(tenant, "t")

    assert (found["dropped"], found["last_updated"], found["latest_run"]["run_id"]) == (True, at(0), writing)
    assert [(job["name"], job["last_seen_at"]) for job in found["producers"]] == [("load", at(0))]


async def test_what_was_only_ever_dropped_was_never_written(tenant: Tenant) -> None:
    await tenant.send_ok(a_drop("t", 0))

    found = await detail(tenant, "t")

    assert (found["dropped"], found["external"], found["last_updated"], found["latest_run"]) == (True, True, None, None)
