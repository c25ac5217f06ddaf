"""Events of Airflow's OpenLineage provider, replayed over HTTP in several orders: the runs come out the same.

A DAG of three tasks; two of them run SQL, whose runs begin and end in one instant. The DAG itself is only known
by its end. No event of this DAG is later than its run's end, so no order of arrival refuses any.
"""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from tests.conftest import Cluster
from tests.support import produced
from tests.support.golden import golden
from tests.support.live import Live, live_server

EVENTS = golden("airflow")
ORDERS = {
    "as sent": EVENTS,
    "reversed": EVENTS[::-1],
    "shuffled": random.Random(11).sample(EVENTS, len(EVENTS)),
}


def at(clock: str) -> datetime:
    """A time of the day on which the events were captured."""
    return datetime.fromisoformat(f"2026-11-15T{clock}+00:00")


# Job, type, state, start, end and number of events of every run, by its start.
RUNS = [
    ("shop_etl.extract", "TASK", "COMPLETE", "17:53:49.188133", "17:53:59.135543", 2),
    ("shop_etl.load_orders", "TASK", "COMPLETE", "17:53:59.222292", "17:53:59.517422", 2),
    ("shop_etl.load_orders.query.1", "QUERY", "COMPLETE", "17:53:59.592721", "17:53:59.592721", 2),
    ("shop_etl.load_orders.query.2", "QUERY", "COMPLETE", "17:53:59.602808", "17:53:59.602808", 2),
    ("shop_etl.load_orders.query.3", "QUERY", "COMPLETE", "17:53:59.604857", "17:53:59.604857", 2),
    ("shop_etl.check_quality", "TASK", "FAIL", "17:53:59.766286", "17:54:00.011128", 2),
    ("shop_etl.check_quality.query.1", "QUERY", "COMPLETE", "17:53:59.872157", "17:53:59.872157", 2),
    ("shop_etl.check_quality.query.2", "QUERY", "COMPLETE", "17:53:59.874009", "17:53:59.874009", 2),
    ("shop_etl.check_quality.query.3", "QUERY", "COMPLETE", "17:53:59.876008", "17:53:59.876008", 2),
    ("shop_etl.check_quality.query.1", "QUERY", "FAIL", "17:54:00.124243", "17:54:00.124243", 2),
    ("shop_etl.check_quality.query.2", "QUERY", "FAIL", "17:54:00.131805", "17:54:00.131805", 2),
    ("shop_etl.check_quality.query.3", "QUERY", "FAIL", "17:54:00.137063", "17:54:00.137063", 2),
    ("shop_etl", "DAG", "FAIL", "17:54:00.483040", "17:54:00.483040", 1),
]


@pytest.fixture(scope="module", params=ORDERS)
async def replayed(request: pytest.FixtureRequest, cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        await live.replay(*ORDERS[request.param])
        yield live


@pytest.fixture
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


async def test_every_event_is_accepted_in_every_order(replayed: Live) -> None:
    assert replayed.statuses == [201] * 25
    assert await produced.event_count(replayed.db) == 25
    assert await produced.refusals(replayed.db) == []


async def test_states_and_times_do_not_depend_on_the_order(replayed: Live) -> None:
    found = await produced.runs(replayed.db)
    assert [(run.job, run.job_type, run.state, run.started_at, run.ended_at, run.events) for run in found] == [
        (job, type_, state, at(start), at(end), events) for job, type_, state, start, end, events in RUNS
    ]


async def test_queries_belong_to_their_task_and_all_to_the_dag(replayed: Live) -> None:
    found = await produced.runs(replayed.db)
    ids = {run.job: run.run_id for run in found if run.job_type != "QUERY"}
    for run in found:
        parent = run.job.rpartition(".query.")[0] or ("shop_etl" if run.job != "shop_etl" else None)
        assert (run.job, run.parent_job, run.parent_run_id) == (run.job, parent, ids.get(parent or ""))
        root = "shop_etl" if parent else None
        assert (run.job, run.root_job, run.root_run_id) == (run.job, root, ids.get(root or ""))


async def test_errors_stay_with_the_runs_that_had_them(replayed: Live) -> None:
    assert {run.job: run.error for run in await produced.runs(replayed.db) if run.error} == {
        "shop_etl.check_quality": "row count check failed: expected >= 100, got 3",
        "shop_etl": "task_failure",
    }


async def test_jobs_are_of_the_airflow_integration_and_keep_their_facets(replayed: Live) -> None:
    rows = await replayed.db.fetch("SELECT name, integration, processing_type, facets FROM jobs")
    assert {row["name"] for row in rows} == {job for job, *_ in RUNS}
    assert {(row["integration"], row["processing_type"]) for row in rows} == {("AIRFLOW", "BATCH")}
    facets = {row["name"]: set(json.loads(row["facets"])) for row in rows}
    assert facets["shop_etl"] == {"documentation", "jobType", "ownership", "tags"}
    assert facets["shop_etl.check_quality.query.1"] == {"jobType", "sql"}


async def test_one_batch_of_all_events_gives_the_same_runs(live: Live) -> None:
    (answer,) = await live.replay(b"[" + b",".join(EVENTS) + b"]", path="/api/v1/lineage/batch")
    assert (answer.status_code, answer.json()["summary"]["successful"]) == (200, 25)
    found = [(run.job, run.state, run.started_at, run.ended_at) for run in await produced.runs(live.db)]
    assert found == [(job, state, at(start), at(end)) for job, _, state, start, end, _ in RUNS]


@pytest.mark.parametrize("event_type", ["START", "RUNNING", "OTHER"])
async def test_what_comes_after_the_end_is_refused_only_once_the_end_is_known(live: Live, event_type: str) -> None:
    """The DAG's one event is its end at 17:54:00.483040; a sign of life from a second later is too late."""
    late = json.loads(EVENTS[-1])
    late["eventType"] = event_type
    late["eventTime"] = (datetime.fromisoformat(late["eventTime"]) + timedelta(seconds=1)).isoformat()
    answers = await live.replay(EVENTS[-1], json.dumps(late).encode())
    assert [answer.status_code for answer in answers] == [201, 422]
    assert "comes too late" in answers[1].json()["detail"]
    assert [(run.state, run.events) for run in await produced.runs(live.db)] == [("FAIL", 1)]
