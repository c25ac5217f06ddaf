"""What a run read and wrote, and the runs before and after it, each at its time."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.events import T0, Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.server import Server, Tenant

TEST_JOB = {"jobType": a_facet(jobType="TEST", integration="DBT", processingType="BATCH")}


@pytest.fixture
def tenant(server: Server) -> Tenant:
    return server.tenant


def a_run(job: str, start: float, end: float, **parts: Any) -> tuple[str, list[Json]]:
    """A run that began and completed at these seconds; `reads`, `writes` and `state` say what it did."""
    run, state = a_run_id(), parts.pop("state", "COMPLETE")
    used: Json = {
        "inputs": [a_dataset(name) for name in parts.pop("reads", ())],
        "outputs": [a_dataset(name) for name in parts.pop("writes", ())],
    }
    return run, [
        an_event("START", run=run, job=job, time=at(start), **parts),
        an_event(state, run=run, job=job, time=at(end), **used, **parts),
    ]


async def lineage(tenant: Tenant, run: str, **params: Any) -> Json:
    response = await tenant.client.get(f"/api/v1/runs/{run}/lineage", params=params)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def producers(found: Json) -> dict[str, str | None]:
    made = {item["dataset"]["name"]: item["produced_by"] for item in found["inputs"]}
    return {name: run and run["run_id"] for name, run in made.items()}


async def test_an_input_was_written_by_the_last_run_that_ended_before_the_reader_began(tenant: Tenant) -> None:
    """Whatever the order in which the events arrived, and never by a run that ended later."""
    _, old_events = a_run("load", 0, 10, writes=["orders"])
    last, last_events = a_run("load", 20, 30, writes=["orders"])
    _, other_events = a_run("fix", 12, 18, writes=["orders"])
    _, across_events = a_run("load", 35, 45, writes=["orders"])
    _, later_events = a_run("load", 50, 60, writes=["orders"])
    reader, reader_events = a_run("report", 40, 41, reads=["orders", "rates"], writes=["revenue"])
    groups = [old_events, last_events, other_events, across_events, later_events, reader_events]
    random.Random(3).shuffle(groups)
    await tenant.send_ok(*(event for group in groups for event in group))

    found = await lineage(tenant, reader)

    assert producers(found) == {"orders": last, "rates": None}
    (orders, _) = found["inputs"]
    assert orders["produced_by"]["job"]["name"] == "load"
    assert (orders["produced_by"]["state"], orders["produced_by"]["ended_at"]) == ("COMPLETE", at(30))
    assert (found["run"]["run_id"], found["run"]["job"]["name"]) == (reader, "report")


async def test_a_run_that_ends_when_the_reader_begins_is_its_producer(tenant: Tenant) -> None:
    writer, events = a_run("load", 0, 10, writes=["orders"])
    reader, more = a_run("report", 10, 11, reads=["orders"])
    await tenant.send_ok(*events, *more)

    assert producers(await lineage(tenant, reader)) == {"orders": writer}


async def test_of_overlapping_runs_the_one_that_ended_last_counts(tenant: Tenant) -> None:
    long, events = a_run("load", 0, 30, writes=["orders"])
    _, more = a_run("load", 10, 20, writes=["orders"])
    reader, rest = a_run("report", 40, 41, reads=["orders"])
    await tenant.send_ok(*events, *more, *rest)

    assert producers(await lineage(tenant, reader)) == {"orders": long}


async def test_tests_and_runs_that_wrote_something_else_are_no_producers(tenant: Tenant) -> None:
    writer, events = a_run("load", 0, 10, writes=["orders"])
    _, audit = a_run("check", 12, 13, reads=["orders"], writes=["orders"], job_facets=TEST_JOB)
    _, elsewhere = a_run("load", 14, 15, writes=["payments"])
    reader, rest = a_run("report", 20, 21, reads=["orders"])
    await tenant.send_ok(*events, *audit, *elsewhere, *rest)

    assert producers(await lineage(tenant, reader)) == {"orders": writer}


async def test_a_failed_run_that_wrote_is_shown_with_its_state(tenant: Tenant) -> None:
    writer, events = a_run("load", 0, 10, writes=["orders"], state="FAIL")
    reader, rest = a_run("report", 20, 21, reads=["orders"])
    await tenant.send_ok(*events, *rest)

    (orders,) = (await lineage(tenant, reader))["inputs"]

    assert (orders["produced_by"]["run_id"], orders["produced_by"]["state"]) == (writer, "FAIL")


async def test_a_run_that_updates_a_dataset_read_what_the_run_before_it_left(tenant: Tenant) -> None:
    first, events = a_run("update", 0, 10, reads=["orders"], writes=["orders"])
    second, more = a_run("update", 20, 30, reads=["orders"], writes=["orders"])
    await tenant.send_ok(*events, *more)

    assert producers(await lineage(tenant, first)) == {"orders": None}
    assert producers(await lineage(tenant, second)) == {"orders": first}


async def test_a_late_end_changes_who_had_written_by_then(tenant: Tenant) -> None:
    """The first end of a run counts, and it may become known late."""
    early, events = a_run("load", 0, 5, writes=["orders"])
    writer, more = a_run("load", 10, 50, writes=["orders"])
    reader, rest = a_run("report", 30, 31, reads=["orders"])
    await tenant.send_ok(*events, *more, *rest)
    assert producers(await lineage(tenant, reader)) == {"orders": early}

    await tenant.send_ok(an_event("FAIL", run=writer, job="load", time=at(20)))

    assert producers(await lineage(tenant, reader)) == {"orders": writer}


async def test_outputs_are_consumed_until_they_are_written_again(tenant: Tenant) -> None:
    writer, events = a_run("load", 0, 10, writes=["orders"])
    before, early = a_run("report", 5, 6, reads=["orders"])
    one, first = a_run("report", 10, 11, reads=["orders"])
    two, second = a_run("check", 29, 32, reads=["orders"], job_facets=TEST_JOB)
    again, rewrite = a_run("load", 8, 30, writes=["orders"])
    after, late = a_run("report", 30, 31, reads=["orders"])
    await tenant.send_ok(*(e for group in (events, early, first, second, rewrite, late) for e in group))

    (orders,) = (await lineage(tenant, writer))["outputs"]
    (newer,) = (await lineage(tenant, again))["outputs"]

    assert [run["run_id"] for run in orders["consumed_by"]] == [one, two]
    assert [run["is_test"] for run in orders["consumed_by"]] == [False, True]
    assert orders["consumed_by_truncated"] is False
    assert [run["run_id"] for run in newer["consumed_by"]] == [after]
    for reader in (before, one, two, after):
        (read,) = (await lineage(tenant, reader))["inputs"]
        assert (read["produced_by"] or {}).get("run_id") == {before: None, after: again}.get(reader, writer)


async def test_more_consumers_than_are_shown_are_said_to_be_more(tenant: Tenant) -> None:
    writer, events = a_run("load", 0, 10, writes=["orders"])
    readers = [a_run(f"report_{i % 3}", 20 + i, 21 + i, reads=["orders"]) for i in range(21)]
    await tenant.send_ok(*events, *(event for _, group in readers for event in group))

    (orders,) = (await lineage(tenant, writer))["outputs"]

    assert [run["run_id"] for run in orders["consumed_by"]] == [run for run, _ in readers[:20]]
    assert orders["consumed_by_truncated"] is True


async def test_a_run_that_goes_on_has_left_nothing_yet(tenant: Tenant) -> None:
    run = a_run_id()
    _, rest = a_run("report", 20, 21, reads=["orders"])
    await tenant.send_ok(an_event("RUNNING", run=run, job="load", outputs=[a_dataset("orders")]), *rest)

    (orders,) = (await lineage(tenant, run))["outputs"]

    assert orders["consumed_by"] == []


async def test_row_counts_are_those_of_this_run(tenant: Tenant) -> None:
    run = a_run_id()
    read = a_dataset("orders", inputFacets={"inputStatistics": a_facet(rowCount=5)})
    written = a_dataset("revenue", outputFacets={"outputStatistics": a_facet(rowCount=2)})
    await tenant.send_ok(an_event(run=run, inputs=[read], outputs=[written]))

    found = await lineage(tenant, run)

    assert [item["row_count"] for item in found["inputs"] + found["outputs"]] == [5, 2]
    assert found["inputs"][0]["dataset"]["urn"] == "postgres://db/orders"
    assert (found["input_count"], found["output_count"], found["truncated"]) == (1, 1, False)


async def test_row_counts_beyond_all_numbers_are_the_largest(tenant: Tenant) -> None:
    run = a_run_id()
    parts = [
        a_dataset(f"sales/day={day}", "s3://lake", outputFacets={"outputStatistics": a_facet(rowCount=2**63 - 1)})
        for day in ("2026-03-01", "2026-03-02")
    ]
    await tenant.send_ok(an_event(run=run, outputs=parts))

    assert [item["row_count"] for item in (await lineage(tenant, run))["outputs"]] == [2**63 - 1]


async def add_writers(db: asyncpg.Connection, first: float, last: float) -> None:
    """As many other jobs as are looked at, which all have written `orders` from one second to another."""
    await db.execute(
        """WITH added AS (INSERT INTO jobs (organization_id, namespace, name, first_seen_at)
                          SELECT d.organization_id, 'others', n::text, $1 FROM datasets d, generate_series(1, 500) n
                           WHERE d.name = 'orders' RETURNING organization_id, id)
           INSERT INTO job_datasets (organization_id, job_id, dataset_id, role, first_seen_at, last_seen_at)
           SELECT a.organization_id, a.id, d.id, 'output', $1, $2 FROM added a, datasets d WHERE d.name = 'orders'""",
        T0 + timedelta(seconds=first), T0 + timedelta(seconds=last),
    )  # fmt: skip


async def test_of_very_many_writers_the_newest_are_asked_who_wrote(tenant: Tenant, db: asyncpg.Connection) -> None:
    _, old_events = a_run("load", 0, 10, writes=["orders"])
    writer, events = a_run("fix", 20, 30, writes=["orders"])
    reader, more = a_run("report", 40, 41, reads=["orders"])
    await tenant.send_ok(*old_events)
    await add_writers(db, 11, 12)
    await tenant.send_ok(*events, *more)

    assert producers(await lineage(tenant, reader)) == {"orders": writer}


async def test_of_very_many_writers_the_next_are_asked_who_wrote_again(tenant: Tenant, db: asyncpg.Connection) -> None:
    writer, events = a_run("load", 0, 10, writes=["orders"])
    _, rewrite = a_run("fix", 20, 30, writes=["orders"])
    _, late = a_run("report", 40, 41, reads=["orders"])
    await tenant.send_ok(*events)
    await add_writers(db, 1000, 2000)
    await tenant.send_ok(*rewrite, *late)

    (orders,) = (await lineage(tenant, writer))["outputs"]

    assert orders["consumed_by"] == []


async def test_the_runs_that_led_to_a_run_go_back_in_time(tenant: Tenant) -> None:
    """raw -> clean -> report, with newer runs of each that came too late for this report."""
    runs: dict[str, str] = {}
    for name, job, start, reads, writes in [
        ("raw 1", "raw", 0, [], ["raw"]),
        ("clean 1", "clean", 10, ["raw"], ["clean"]),
        ("raw 2", "raw", 12, [], ["raw"]),
        ("report", "report", 20, ["clean", "raw"], ["report"]),
        ("clean 2", "clean", 21, ["raw"], ["clean"]),
    ]:
        runs[name], events = a_run(job, start, start + 1, reads=reads, writes=writes)
        await tenant.send_ok(*events)
    names = {run: name for name, run in runs.items()}

    near = await lineage(tenant, runs["report"])
    far = await lineage(tenant, runs["report"], depth=5)

    assert [(names[run["run_id"]], run["depth"]) for run in near["runs"]] == [("clean 1", 1), ("raw 2", 1)]
    assert [(names[run["run_id"]], run["depth"]) for run in far["runs"]] == [
        ("clean 1", 1),
        ("raw 2", 1),
        ("raw 1", 2),
    ]
    assert [(names[e["source"]], names[e["target"]], e["dataset"]["name"]) for e in far["edges"]] == [
        ("clean 1", "report", "clean"),
        ("raw 2", "report", "raw"),
        ("raw 1", "clean 1", "raw"),
    ]


async def test_going_back_through_runs_of_one_job_ends(tenant: Tenant) -> None:
    chain = [a_run("update", 10 * i, 10 * i + 5, reads=["orders"], writes=["orders"]) for i in range(8)]
    await tenant.send_ok(*(event for _, events in chain for event in events))

    found = await lineage(tenant, chain[-1][0], depth=5)

    assert [run["run_id"] for run in found["runs"]] == [run for run, _ in chain[-2:-7:-1]]


async def test_a_run_under_several_jobs_is_found_as_a_producer(tenant: Tenant) -> None:
    run = a_run_id()
    reader, rest = a_run("report", 20, 21, reads=["orders"])
    await tenant.send_ok(
        an_event("START", run=run, job="one", time=at(0)),
        an_event("RUNNING", run=run, job="two", time=at(1), outputs=[a_dataset("orders")]),
        an_event("COMPLETE", run=run, job="one", time=at(2)),
        *rest,
    )

    assert producers(await lineage(tenant, reader)) == {"orders": run}


async def test_runs_of_others_are_unknown(server: Server) -> None:
    other = await server.add_tenant("Second")
    writer, events = a_run("load", 0, 1, writes=["orders"])
    await other.send_ok(*events)
    reader, more = a_run("report", 5, 6, reads=["orders"])
    await server.tenant.send_ok(*more)

    assert (await server.client.get(f"/api/v1/runs/{writer}/lineage")).status_code == 404
    assert producers(await lineage(server.tenant, reader)) == {"orders": None}


@pytest.mark.parametrize("depth", ["0", "6", "deep", "1e3", str(10**30)])
async def test_a_wrong_depth_is_named(tenant: Tenant, depth: str) -> None:
    response = await tenant.client.get(f"/api/v1/runs/{a_run_id()}/lineage", params={"depth": depth})

    assert response.status_code == 422
    assert response.json()["errors"][0]["path"] == "query.depth"
