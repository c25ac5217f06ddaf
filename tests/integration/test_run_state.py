"""Runs over HTTP: their state does not depend on arrival, ends are final, and impossible batches leave nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from itertools import permutations

import asyncpg
import pytest

from tests.conftest import Cluster
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.ingest import BATCH, EVENTS, an_observed_server, assert_problem, post
from tests.support.server import Server, Tenant
from tests.support.stored import Stored, moment

SINGLE = "/api/v1/lineage"
Step = tuple[float, str]


@pytest.fixture(scope="module")
async def observed(cluster: Cluster) -> AsyncIterator[tuple[Server, Stored]]:
    """One server for all of these: every test has runs of its own."""
    async with an_observed_server(cluster) as observed:
        yield observed


@pytest.fixture(scope="module")
async def tenant(observed: tuple[Server, Stored]) -> Tenant:
    return observed[0].tenant


@pytest.fixture(scope="module")
async def stored(observed: tuple[Server, Stored]) -> Stored:
    return observed[1]


def steps(run: str, *wanted: Step) -> list[Json]:
    return [an_event(state, run=run, time=at(second)) for second, state in wanted]


async def send_all(tenant: Tenant, events: list[Json]) -> list[int]:
    return [(await tenant.send(event)).status_code for event in events]


async def state_after(tenant: Tenant, *wanted: Step) -> Json:
    run = a_run_id()
    await send_all(tenant, steps(run, *wanted))
    return await tenant.run(run)


def seconds(text: str | None) -> float | None:
    return None if text is None else (moment_of(text) - moment(0)).total_seconds()


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


COURSES: list[tuple[list[Step], str, float, float | None]] = [
    ([(0, "START"), (5, "COMPLETE")], "COMPLETE", 0, 5),
    ([(0, "START"), (3, "RUNNING"), (5, "FAIL")], "FAIL", 0, 5),
    ([(2, "START"), (2, "COMPLETE")], "COMPLETE", 2, 2),
    ([(2, "START"), (2, "RUNNING"), (2, "OTHER"), (2, "ABORT")], "ABORT", 2, 2),
    ([(0, "OTHER"), (2, "START"), (4, "RUNNING")], "RUNNING", 2, None),
    ([(5, "RUNNING"), (10, "START"), (20, "OTHER")], "RUNNING", 10, None),
    ([(1, "OTHER"), (3, "OTHER")], "OTHER", 1, None),
    ([(4, "RUNNING"), (5, "COMPLETE")], "COMPLETE", 4, 5),
    ([(0, "START"), (5, "COMPLETE"), (5, "FAIL")], "FAIL", 0, 5),
    ([(0, "START"), (5, "COMPLETE"), (7, "FAIL")], "COMPLETE", 0, 5),
    ([(0, "START"), (6, "COMPLETE"), (5, "ABORT"), (6, "FAIL")], "ABORT", 0, 5),
    ([(0, "START"), (3, "COMPLETE"), (8, "COMPLETE")], "COMPLETE", 0, 3),
]


@pytest.mark.parametrize(
    ("course", "state", "started", "ended"), COURSES, ids=[" ".join(s for _, s in course) for course, *_ in COURSES]
)
async def test_a_run_ends_up_the_same_in_whatever_order_its_events_arrive(
    tenant: Tenant, course: list[Step], state: str, started: float, ended: float | None
) -> None:
    for order in permutations(course):
        run = await state_after(tenant, *order)
        found = (run["state"], seconds(run["started_at"]), seconds(run["ended_at"]))
        assert found == (state, started, ended), order


async def test_the_history_of_states_is_kept(tenant: Tenant) -> None:
    run = await state_after(tenant, (5, "COMPLETE"), (0, "START"), (3, "RUNNING"), (2, "RUNNING"), (1, "OTHER"))
    assert [(item["state"], seconds(item["at"])) for item in run["state_history"]] == [
        ("START", 0),
        ("OTHER", 1),
        ("RUNNING", 2),
        ("COMPLETE", 5),
    ]


async def test_start_and_end_of_one_instant_are_a_finished_run(tenant: Tenant) -> None:
    run = await state_after(tenant, (2, "COMPLETE"), (2, "START"))
    assert (run["state"], run["duration_ms"]) == ("COMPLETE", 0)
    assert [item["state"] for item in run["state_history"]] == ["START", "COMPLETE"]


async def test_a_terminal_without_start_is_a_whole_run(tenant: Tenant) -> None:
    run = await state_after(tenant, (4, "COMPLETE"))
    assert (run["state"], seconds(run["started_at"]), seconds(run["ended_at"])) == ("COMPLETE", 4, 4)


async def test_a_late_start_moves_the_beginning_back(tenant: Tenant) -> None:
    run = await state_after(tenant, (9, "COMPLETE"), (1, "START"))
    assert (run["duration_ms"], run["event_count"]) == (8000, 2)


async def test_an_unfinished_run_has_no_end(tenant: Tenant) -> None:
    run = await state_after(tenant, (0, "START"), (3, "RUNNING"))
    assert (run["ended_at"], run["duration_ms"], seconds(run["last_event_at"])) == (None, None, 3)


async def test_a_late_other_does_not_reopen_a_finished_run(tenant: Tenant) -> None:
    run = a_run_id()
    codes = await send_all(tenant, steps(run, (0, "START"), (5, "COMPLETE"), (3, "OTHER"), (4, "RUNNING")))
    assert codes == [201] * 4
    assert (await tenant.run(run))["state"] == "COMPLETE"


@pytest.mark.parametrize("state", ["START", "RUNNING", "OTHER"])
async def test_what_comes_after_the_end_is_refused_and_logged(tenant: Tenant, stored: Stored, state: str) -> None:
    run = a_run_id()
    await tenant.send_ok(*steps(run, (0, "START"), (5, "COMPLETE")))
    response = await tenant.send(an_event(state, run=run, time=at(6)))

    problem = assert_problem(response, 422, "run.state", SINGLE)
    assert run in problem["detail"]
    assert [(row["outcome"], row["reason"]) for row in await stored.log(run)] == [
        ("accepted", None),
        ("accepted", None),
        ("refused", "run.after_end"),
    ]
    found = await tenant.run(run)
    assert (found["state"], found["event_count"], found["is_late"]) == ("COMPLETE", 2, False)


@pytest.mark.parametrize(
    ("loser", "second"), [("FAIL", 6), ("ABORT", 6), ("COMPLETE", 6)], ids=["FAIL", "ABORT", "the same again"]
)
async def test_a_losing_terminal_is_refused_and_logged(
    tenant: Tenant, stored: Stored, loser: str, second: float
) -> None:
    run = a_run_id()
    await tenant.send_ok(*steps(run, (0, "START"), (5, "COMPLETE")))
    response = await tenant.send(an_event(loser, run=run, time=at(second)))

    last = (await stored.log(run))[-1]
    if loser == "COMPLETE":
        assert (response.status_code, last["outcome"]) == (201, "accepted")
    else:
        assert_problem(response, 422, "run.state", SINGLE)
        assert (last["outcome"], last["reason"]) == ("refused", "run.ended_otherwise")
    assert ((await tenant.run(run))["state"], seconds((await tenant.run(run))["ended_at"])) == ("COMPLETE", 5)


async def test_a_refused_event_adds_no_facts(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run, time=at(5), inputs=[a_dataset("kept")]))
    late = an_event("FAIL", run=run, time=at(6), job="never", outputs=[a_dataset("never_stored")])
    assert (await tenant.send(late)).status_code == 422

    found = await tenant.run(run)
    assert ([d["name"] for d in found["inputs"]], found["outputs"], found["other_jobs"]) == (["kept"], [], [])
    assert "never_stored" not in {name for _, name in await stored.dataset_names()}
    assert await stored.rows("SELECT 1 FROM jobs WHERE organization_id = $1 AND name = 'never'") == []


async def test_an_event_that_came_before_the_end_was_known_stays_and_is_late(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    codes = await send_all(tenant, steps(run, (0, "START"), (9, "RUNNING"), (5, "COMPLETE")))

    found = await tenant.run(run)
    assert codes == [201] * 3
    assert (found["state"], seconds(found["ended_at"]), found["is_late"]) == ("COMPLETE", 5, True)
    assert [row["outcome"] for row in await stored.log(run)] == ["accepted"] * 3


@pytest.mark.parametrize(
    ("first", "second"),
    [((9, "COMPLETE"), (5, "FAIL")), ((9, "FAIL"), (5, "COMPLETE")), ((5, "COMPLETE"), (5, "FAIL"))],
    ids=["FAIL came earlier", "COMPLETE came earlier", "FAIL at the same instant"],
)
async def test_an_earlier_terminal_corrects_the_end(tenant: Tenant, stored: Stored, first: Step, second: Step) -> None:
    run = a_run_id()
    assert await send_all(tenant, steps(run, (0, "START"), first, second)) == [201] * 3

    found = await tenant.run(run)
    assert (found["state"], seconds(found["ended_at"])) == (second[1], second[0])
    ends = [row["task_type"] for row in await stored.follow_ups() if row["resource_id"] == run]
    told = {"COMPLETE": ["DETECT"], "FAIL": ["DETECT", "CORRELATE"]}
    assert sorted(ends) == sorted([*told[first[1]], *told[second[1]]])


async def test_a_repeated_end_is_one_follow_up(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    await send_all(tenant, steps(run, (5, "COMPLETE"), (6, "COMPLETE"), (2, "RUNNING")))
    ends = [row for row in await stored.follow_ups() if row["resource_id"] == run]
    assert len(ends) == 1


def parent_facet(parent: str, root: str | None = None) -> Json:
    facet = a_facet(run={"runId": parent}, job={"namespace": "airflow", "name": "dag.task"})
    if root:
        facet["root"] = {"run": {"runId": root}, "job": {"namespace": "airflow", "name": "dag"}}
    return {"parent": facet}


async def test_a_parent_may_arrive_after_its_child_or_never(tenant: Tenant) -> None:
    child, parent, root = a_run_id(), a_run_id(), a_run_id()
    await tenant.send_ok(an_event("START", run=child, run_facets=parent_facet(parent, root)))
    found = await tenant.run(child)
    assert (found["parent_run_id"], found["root_run_id"]) == (parent, root)
    assert (await tenant.client.get(f"/api/v1/runs/{parent}")).status_code == 404

    await tenant.send_ok(an_event("START", run=parent, run_facets=parent_facet(root)))
    assert (await tenant.run(parent))["parent_run_id"] == root
    assert (await tenant.run(child))["parent_run_id"] == parent


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["with the first event", "with a later event"])
async def test_parent_and_root_may_come_with_any_event_of_a_run(tenant: Tenant, order: tuple[int, int]) -> None:
    run, parent, root = a_run_id(), a_run_id(), a_run_id()
    events = [
        an_event("START", run=run, time=at(0), run_facets=parent_facet(parent, root)),
        an_event("COMPLETE", run=run, time=at(1)),
    ]
    await tenant.send_ok(*(events[place] for place in order))
    found = await tenant.run(run)
    assert (found["parent_run_id"], found["root_run_id"]) == (parent, root)


async def test_one_run_id_may_have_several_jobs(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, job="one", time=at(0)),
        an_event("RUNNING", run=run, job="two", time=at(1)),
        an_event("COMPLETE", run=run, job="one", time=at(2)),
    )
    found = await tenant.run(run)
    assert (found["job"]["name"], [job["name"] for job in found["other_jobs"]]) == ("one", ["two"])
    assert (found["state"], found["event_count"]) == ("COMPLETE", 3)


async def test_a_streaming_job_shows_its_lineage_without_an_end(tenant: Tenant, stored: Stored) -> None:
    facets = {"jobType": a_facet(processingType="STREAMING", integration="FLINK", jobType="JOB")}
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, job="stream", job_facets=facets),
        an_event("RUNNING", run=run, job="stream", time=at(60), job_facets=facets,
                 inputs=[a_dataset("topic", "kafka://broker:9092")], outputs=[a_dataset("sink")]),
    )  # fmt: skip
    found = await tenant.run(run)
    assert (found["state"], found["processing_type"], found["ended_at"]) == ("RUNNING", "STREAMING", None)
    assert await stored.edge_pairs("stream") == {("topic", "sink")}


@pytest.mark.parametrize("state", ["START", "RUNNING", "FAIL"])
async def test_nobody_changes_the_state_of_a_finished_run_by_hand(tenant: Tenant, stored: Stored, state: str) -> None:
    run = a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=run))
    with pytest.raises(asyncpg.PostgresError, match=f"has ended as COMPLETE and cannot become {state}") as refused:
        await stored.db.execute("UPDATE job_runs SET state = $2 WHERE run_id = $1::uuid", run, state)
    assert refused.value.sqlstate == "HG001"
    await stored.db.execute("UPDATE job_runs SET state = 'COMPLETE' WHERE run_id = $1::uuid", run)
    assert (await tenant.run(run))["state"] == "COMPLETE"


async def test_a_correction_does_not_open_other_runs_of_the_transaction(stored: Stored, tenant: Tenant) -> None:
    one, other = a_run_id(), a_run_id()
    await tenant.send_ok(an_event("COMPLETE", run=one), an_event("COMPLETE", run=other))
    async with stored.db.transaction():
        await stored.db.execute("SELECT set_config('headgate.correcting_runs', $1, true)", f"{{{one}}}")
        await stored.db.execute("UPDATE job_runs SET state = 'FAIL' WHERE run_id = $1::uuid", one)
        with pytest.raises(asyncpg.PostgresError, match="has ended as COMPLETE"):
            async with stored.db.transaction():
                await stored.db.execute("UPDATE job_runs SET state = 'FAIL' WHERE run_id = $1::uuid", other)


IMPOSSIBLE = [
    ([(0, "START"), (1, "START")], "duplicate START"),
    ([(0, "RUNNING"), (1, "START")], "backward step"),
    ([(0, "START"), (1, "COMPLETE"), (2, "RUNNING")], "follows the terminal state COMPLETE"),
    ([(0, "COMPLETE"), (1, "FAIL")], "follows the terminal state COMPLETE"),
    ([(1, "START"), (0, "FAIL")], "follows the terminal state FAIL"),
]


@pytest.mark.parametrize(("course", "reason"), IMPOSSIBLE, ids=[" ".join(s for _, s in c) for c, _ in IMPOSSIBLE])
@pytest.mark.parametrize("route", [BATCH, EVENTS])
async def test_an_impossible_batch_of_one_run_is_refused_as_a_whole(
    tenant: Tenant, stored: Stored, route: str, course: list[Step], reason: str
) -> None:
    run = a_run_id()
    response = await post(tenant, route, steps(run, *course))

    answer = response.json()
    assert response.status_code == 422
    errors = answer.get("failed_events") or answer["results"]
    assert [error["index"] for error in errors] == list(range(len(course)))
    assert all(reason in (error.get("reason") or error["error"]) for error in errors)
    assert await stored.log(run) == []
    assert (await tenant.client.get(f"/api/v1/runs/{run}")).status_code == 404


async def test_a_refused_batch_is_not_remembered(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    batch = steps(run, (0, "START"), (1, "START"), (2, "COMPLETE"))
    assert (await post(tenant, BATCH, batch)).status_code == 422
    answer = await post(tenant, BATCH, [batch[0], batch[2]])
    assert (answer.status_code, answer.json()["summary"]["duplicates"]) == (200, 0)
    assert len(await stored.log(run)) == 2


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_a_possible_batch_is_stored_in_any_order(tenant: Tenant, order: tuple[int, ...]) -> None:
    run = a_run_id()
    events = steps(run, (0, "START"), (1, "RUNNING"), (2, "COMPLETE"))
    response = await post(tenant, BATCH, [events[place] for place in order])
    assert response.status_code == 200
    assert (await tenant.run(run))["state"] == "COMPLETE"


async def test_a_batch_of_several_runs_is_not_checked_as_a_sequence(tenant: Tenant) -> None:
    one, other = a_run_id(), a_run_id()
    batch = [*steps(one, (0, "START"), (1, "START"), (2, "COMPLETE")), *steps(other, (0, "START"))]
    response = await post(tenant, BATCH, batch)
    assert (response.status_code, response.json()["summary"]["successful"]) == (200, 4)


async def test_duplicates_are_set_aside_before_the_sequence_is_checked(tenant: Tenant) -> None:
    run = a_run_id()
    start, running, complete = (
        json.dumps(e).encode() for e in steps(run, (0, "START"), (1, "RUNNING"), (2, "COMPLETE"))
    )
    assert (await post(tenant, BATCH, b"[" + start + b"]")).status_code == 200
    again = b"[" + b",".join([start, start, running, running, complete]) + b"]"

    response = await post(tenant, BATCH, again)

    assert (response.status_code, response.json()["summary"]["duplicates"]) == (200, 3)
    assert (await tenant.run(run))["event_count"] == 3


async def test_what_was_stored_before_does_not_make_a_batch_impossible(tenant: Tenant) -> None:
    run = a_run_id()
    known = steps(run, (0, "START"), (1, "START"))
    for event in known:
        assert (await post(tenant, SINGLE, event)).status_code == 201
    batch = [*known, *steps(run, (2, "COMPLETE"))]
    response = await post(tenant, BATCH, batch)
    assert (response.status_code, response.json()["summary"]["duplicates"]) == (200, 2)


async def test_a_wrong_event_does_not_hide_the_sequence_of_the_others(tenant: Tenant) -> None:
    run = a_run_id()
    batch = [an_event("DONE", run=run), *steps(run, (0, "START"), (1, "COMPLETE"))]
    response = await post(tenant, BATCH, batch)
    assert (response.status_code, [f["index"] for f in response.json()["failed_events"]]) == (207, [0])
    assert (await tenant.run(run))["state"] == "COMPLETE"


async def test_concurrent_ends_leave_one_winner(tenant: Tenant, stored: Stored) -> None:
    run = a_run_id()
    ends = [an_event(state, run=run, time=at(s)) for s in range(1, 11) for state in ("COMPLETE", "FAIL", "ABORT")]
    responses = await asyncio.gather(*(tenant.send(event) for event in ends))

    found = await tenant.run(run)
    assert {response.status_code for response in responses} <= {201, 422}
    assert (found["state"], seconds(found["ended_at"])) == ("FAIL", 1)
    log = await stored.log(run)
    assert sum(row["outcome"] == "accepted" for row in log) == sum(r.status_code == 201 for r in responses)
    assert found["event_count"] == sum(row["outcome"] == "accepted" for row in log)


async def test_inputs_and_outputs_add_up_over_the_events_of_a_run(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(
        an_event("START", run=run, time=at(0), inputs=[a_dataset("a"), a_dataset("b")]),
        an_event("RUNNING", run=run, time=at(1), outputs=[a_dataset("x")]),
        an_event("COMPLETE", run=run, time=at(2), inputs=[a_dataset("c")], outputs=[a_dataset("x"), a_dataset("y")]),
    )
    found = await tenant.run(run)
    assert [dataset["name"] for dataset in found["inputs"]] == ["a", "b", "c"]
    assert [dataset["name"] for dataset in found["outputs"]] == ["x", "y"]
