"""Runs that should have ended: found when they are due, told of once, and not looked for among all that ever ran."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.server.anomalies import jobs
from headgate.server.anomalies.watching import watch
from headgate.server.queue import Batch
from headgate.server.worker import Worker
from tests.support.anomalies import Judging, spelled
from tests.support.events import Json, a_dataset, a_facet, an_event


def now() -> datetime:
    return datetime.now(UTC)


async def started(judging: Judging, at: datetime, job: str = "load", kind: str = "START", **job_facets: Json) -> str:
    outputs = [a_dataset("orders")]
    return await judging.sent(an_event(kind, job=job, time=spelled(at), outputs=outputs, job_facets=job_facets))


async def ended(judging: Judging, run: str, at: datetime, job: str = "load", kind: str = "COMPLETE") -> None:
    await judging.sent(an_event(kind, run=run, job=job, time=spelled(at), outputs=[a_dataset("orders")]))


async def a_past(judging: Judging, minutes: float = 5, count: int = 6) -> None:
    """Runs that completed within some minutes each."""
    for hours in range(count + 2, 2, -1):
        start = now() - timedelta(hours=hours)
        await ended(judging, await started(judging, start), start + timedelta(minutes=minutes))


async def test_a_run_that_goes_on_after_almost_all_before_it_ended_is_stuck(judging: Judging) -> None:
    await a_past(judging, minutes=20)
    run = await started(judging, now())

    await judging.watch()
    await judging.watch(now() + timedelta(minutes=15))
    assert await judging.anomalies() == []
    await judging.watch(now() + timedelta(minutes=22))

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["severity"], str(found["run_id"])) == ("StuckRun", "WARNING", run)
    assert (found["job_name"], found["dataset"], found["metric"]) == ("load", "orders", None)
    assert found["description"].startswith("the run of load has not ended: it should have by ")
    assert found["description"].endswith(" UTC, as almost all before it would have")
    tasks = [task["resource_id"] for task in await judging.tasks("CORRELATE")]
    assert tasks == [str(found["id"])]


@pytest.mark.parametrize("count", [0, 4])
async def test_a_run_of_a_job_with_few_before_it_is_stuck_after_a_day_and_says_by_which_rule(
    judging: Judging, count: int
) -> None:
    await a_past(judging, count=count)
    await started(judging, now())

    await judging.watch(now() + timedelta(hours=23))
    assert await judging.anomalies() == []
    await judging.watch(now() + timedelta(hours=25))

    (found,) = await judging.anomalies()
    assert found["description"].endswith(
        " UTC, 24 hours after it began, which counts while fewer than 5 completed runs of its job are known"
    )


async def a_bare_start(judging: Judging) -> str:
    return await judging.sent(an_event("START", job="load", time=spelled(now())))


async def test_a_run_that_does_not_say_what_it_writes_is_of_what_its_job_wrote_last(judging: Judging) -> None:
    await a_past(judging)
    last = now() - timedelta(hours=1)
    await judging.sent(an_event(job="load", time=spelled(last), outputs=[a_dataset("returns")]))
    policy = {"dataset": "orders", "metric": "stuck", "enabled": False}
    assert (await judging.tenant.client.post("/api/v1/detection-policies", json=policy)).status_code == 201
    await a_bare_start(judging)

    await judging.watch(now() + timedelta(hours=30))

    assert [(row["anomaly_type"], row["dataset"]) for row in await judging.anomalies()] == [("StuckRun", "returns")]


async def test_what_was_merged_away_is_not_what_a_job_writes(judging: Judging) -> None:
    await a_past(judging)
    await judging.db.execute(
        "UPDATE datasets SET merged_into = gen_random_uuid() WHERE organization_id = $1", judging.organization_id
    )
    await a_bare_start(judging)

    await judging.watch(now() + timedelta(hours=30))

    assert [(row["anomaly_type"], row["dataset"]) for row in await judging.anomalies()] == [("StuckRun", None)]


async def test_it_is_told_once(judging: Judging) -> None:
    await a_past(judging)
    await started(judging, now())

    for minutes in (0, 30, 60, 24 * 60):
        await judging.watch(now() + timedelta(minutes=minutes))

    assert await judging.types() == ["StuckRun"]


@pytest.mark.parametrize("kind", ["COMPLETE", "FAIL", "ABORT"])
async def test_a_run_that_ended_meanwhile_is_not_stuck(judging: Judging, kind: str) -> None:
    await a_past(judging)
    run = await started(judging, now())
    await judging.watch()
    await ended(judging, run, now() + timedelta(minutes=1), kind=kind)

    await judging.watch(now() + timedelta(hours=2))

    assert await judging.anomalies() == []
    assert await judging.rows("SELECT * FROM watched_runs WHERE organization_id = $1") == []


async def test_without_a_past_a_run_has_a_day(judging: Judging) -> None:
    await started(judging, now())
    await judging.watch()
    await judging.watch(now() + timedelta(hours=23))
    assert await judging.anomalies() == []

    await judging.watch(now() + timedelta(hours=25))
    assert await judging.types() == ["StuckRun"]


async def test_a_stream_need_not_end(judging: Judging) -> None:
    streaming = a_facet(processingType="STREAMING", integration="SPARK", jobType="JOB")
    await started(judging, now(), kind="RUNNING", jobType=streaming)
    await judging.watch()
    await judging.watch(now() + timedelta(days=3))

    assert await judging.anomalies() == []


async def test_starts_of_long_ago_that_are_sent_now_are_history(judging: Judging) -> None:
    await a_past(judging)
    await started(judging, now() - timedelta(days=400))
    await judging.watch()
    await judging.watch(now() + timedelta(hours=1))

    assert await judging.anomalies() == []


async def test_runs_that_came_before_anybody_watched_are_found(judging: Judging) -> None:
    await a_past(judging)
    run = await started(judging, now() - timedelta(minutes=30))

    await judging.watch()

    assert [str(row["run_id"]) for row in await judging.anomalies()] == [run]


async def test_a_run_that_is_committed_late_is_still_seen(judging: Judging) -> None:
    await a_past(judging)
    await judging.watch()
    run = await started(judging, now() - timedelta(minutes=20))
    await judging.db.execute(
        """UPDATE job_runs SET created_at = now() - interval '2 minutes'
            WHERE organization_id = $1 AND run_id = $2::uuid""",
        judging.organization_id,
        run,
    )

    await judging.watch(now() + timedelta(seconds=1))

    assert [str(row["run_id"]) for row in await judging.anomalies()] == [run]


async def test_stuck_runs_can_be_left_alone(judging: Judging) -> None:
    await a_past(judging)
    policy = {"dataset": "*", "metric": "stuck", "enabled": False}
    assert (await judging.tenant.client.post("/api/v1/detection-policies", json=policy)).status_code == 201
    await started(judging, now() - timedelta(minutes=30))

    await judging.watch()

    assert await judging.anomalies() == []


async def test_a_round_looks_at_what_is_due_and_not_at_all_runs(judging: Judging) -> None:
    await a_past(judging)
    job = await judging.db.fetchval("SELECT id FROM jobs WHERE organization_id = $1", judging.organization_id)
    await judging.db.execute(
        """INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, start_at, complete_at,
                                 last_event_at, producer, created_at)
           SELECT $1, gen_random_uuid(), $2::uuid, ARRAY[$2::uuid], 'COMPLETE', at, at, at + interval '1 minute', at,
                  'p', at
             FROM generate_series(1, 50000) AS i, LATERAL (SELECT now() - i * interval '1 minute' AS at) t""",
        judging.organization_id,
        job,
    )
    await judging.db.execute("ANALYZE job_runs")
    await judging.watch()
    began = now()
    for _ in range(10):
        await judging.watch()

    assert (now() - began).total_seconds() / 10 < 0.5


async def many_due(judging: Judging, runs: int = 0, datasets: int = 0) -> None:
    """Runs that have gone on for more than a day, all of one moment, and datasets that are to be looked at."""
    await judging.db.execute(
        """INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, start_at, last_event_at,
                                 producer, created_at)
           SELECT $1, gen_random_uuid(), j.id, ARRAY[j.id], 'START', t.at, t.at, t.at, 'p', t.at
             FROM generate_series(1, $2), (SELECT now() - interval '25 hours' AS at) t,
                  (SELECT id FROM jobs WHERE organization_id = $1 LIMIT 1) j""",
        judging.organization_id,
        runs,
    )
    await judging.db.execute(
        """WITH made AS (
             INSERT INTO datasets (organization_id, id, namespace, name, display_name, type, first_seen_at)
             SELECT $1, gen_random_uuid(), 'n', 'd' || i, 'd' || i, 'table', now() FROM generate_series(1, $2) AS i
             RETURNING id)
           INSERT INTO watched_datasets (organization_id, dataset_id) SELECT $1, id FROM made""",
        judging.organization_id,
        datasets,
    )


async def due_datasets(judging: Judging) -> int:
    due = "SELECT FROM watched_datasets WHERE organization_id = $1 AND due_at <= now()"
    return len(await judging.rows(due))


async def watch_once(judging: Judging) -> None:
    await jobs.watch(judging.database, Batch(judging.organization_id, "WATCH", "", ()))


async def test_all_that_is_due_is_looked_at_in_one_round_however_much_it_is(judging: Judging) -> None:
    await a_past(judging)
    await many_due(judging, runs=2 * watch.MAX_RUNS + 1, datasets=2 * watch.MAX_DATASETS + 1)

    await watch_once(judging)

    assert await judging.types() == ["StuckRun"] * (2 * watch.MAX_RUNS + 1)
    assert await due_datasets(judging) == 0
    assert await judging.tasks("WATCH") == []


async def test_what_takes_too_long_is_gone_on_with_in_another_turn(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "BUDGET_S", 0.0)
    monkeypatch.setattr(watch, "MAX_DATASETS", 4)
    await many_due(judging, datasets=10)

    await watch_once(judging)
    left = await due_datasets(judging)
    # Whoever goes on need not be the one that begins anew every minute.
    await Worker(judging.database, [kind for kind in jobs.KINDS if kind.task_type == "WATCH"]).drain()

    assert (left, await due_datasets(judging)) == (6, 0)
    assert {task["status"] for task in await judging.tasks("WATCH")} == {"SUCCEEDED"}


async def test_two_rounds_at_a_time_look_at_different_things(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_DATASETS", 4)
    await many_due(judging, datasets=8)
    async with (
        judging.database.tenant(judging.organization_id) as one,
        judging.database.tenant(judging.organization_id) as other,
    ):
        for conn in (one, other):
            rows = await conn.fetch(watch.Q.list_due_datasets, judging.organization_id, now(), 4)
            assert len(rows) == 4


async def test_runs_that_came_at_one_moment_are_all_noted(judging: Judging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_NEW_RUNS", 3)
    await a_past(judging, count=5)
    await many_due(judging, runs=10)

    await watch_once(judging)

    assert await judging.types() == ["StuckRun"] * 10


async def test_a_run_that_was_only_told_of_in_passing_at_first_is_found_stuck(judging: Judging) -> None:
    await a_past(judging)
    run = await started(judging, now(), kind="OTHER")
    await judging.watch()
    await judging.watch(now() + timedelta(minutes=15))
    assert await judging.anomalies() == []
    await judging.sent(an_event("START", run=run, job="load", time=spelled(now() + timedelta(minutes=16))))

    for minutes in (30, 45, 60):
        await judging.watch(now() + timedelta(minutes=minutes))

    assert [(row["anomaly_type"], str(row["run_id"])) for row in await judging.anomalies()] == [("StuckRun", run)]


async def test_a_run_that_was_never_more_than_told_of_is_looked_at_ever_later_and_forgotten(judging: Judging) -> None:
    await started(judging, now(), kind="OTHER")
    looks = []
    start = now()
    for hours in range(0, 24 * 24, 3):
        await judging.watch(start + timedelta(hours=hours))
        looks += [row["due_at"] for row in await judging.rows("SELECT * FROM watched_runs WHERE organization_id = $1")]

    assert await judging.anomalies() == []
    assert 5 < len(set(looks)) < 25
    assert await judging.rows("SELECT * FROM watched_runs WHERE organization_id = $1") == []
