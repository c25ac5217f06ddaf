"""Verdicts follow from those before them, whoever is sooner: later points may be judged first, and by other workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from headgate.pipelines.record import Status
from headgate.server.anomalies import jobs
from headgate.server.db.pool import Connection
from headgate.server.queue import Batch, Kind
from headgate.server.worker import Worker
from tests.support.anomalies import NOW, Judging, NewJudging, a_load, a_profile, days_ago
from tests.support.events import Json, a_run_id, an_event
from tests.support.pipeline_events import a_run

# The last is usual only for whoever takes the one before it for usual.
ODD = [100, 101, 99, 100, 102, 1000, 1000]
Series = Callable[[], list[list[Json]]]


def of_rows(**named: Any) -> list[list[Json]]:
    return [[a_load(days_ago(len(ODD) - day), rows, **named)] for day, rows in enumerate(ODD)]


def of_columns() -> list[list[Json]]:
    nulls = [10, 11, 9, 10, 12, 700, 700]
    return [
        [a_profile(days_ago(len(nulls) - day), 1000, email={"nullCount": count, "distinctCount": 900})]
        for day, count in enumerate(nulls)
    ]


def of_durations() -> list[list[Json]]:
    return [a_timed_run(len(ODD) - day, rows) for day, rows in enumerate(ODD)]


def of_quarantine() -> list[list[Json]]:
    counts = [4, 5, 3, 4, 5, 4, 400, 400]
    return [
        a_run(
            seconds=86_400.0 * day,
            rows_in=1000,
            rows_quarantined=rows,
            rows_published=1000 - rows,
            status=Status.published,
        )[1]
        for day, rows in enumerate(counts)
    ]


def of_months() -> list[list[Json]]:
    """More than a point is compared with."""
    values = [100, 101, 99, 100, 102, 1000, 100, 101, 99, 1000, 100, 102, 1000, 1000, 1000]
    return [[a_load(days_ago(5 * (len(values) - place)), rows)] for place, rows in enumerate(values)]


def a_timed_run(days: float, seconds: float) -> list[Json]:
    run, began = a_run_id(), days_ago(days)
    return [
        an_event(state, run=run, job="load", time=at.isoformat())
        for state, at in (("START", began), ("COMPLETE", began + timedelta(seconds=seconds)))
    ]


SERIES = {
    "rows": of_rows,
    "rows of a partition": lambda: of_rows(table="sales/country=US", namespace="s3://lake"),
    "columns": of_columns,
    "durations": of_durations,
    "rows that were set apart": of_quarantine,
    "months": of_months,
}
every_series = pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)


async def sent(judging: Judging, series: Sequence[Sequence[Json]]) -> list[str]:
    """Gives the runs, in order; a pipeline's events are of several."""
    for events in series:
        await judging.sent(*events)
    return list(dict.fromkeys(event["run"]["runId"] for events in series for event in events))


async def verdicts_of(judging: Judging, runs: Sequence[str]) -> list[dict[str, Any]]:
    return [await judging.verdicts(run) for run in runs]


async def in_order(judging: Judging, series: Sequence[Sequence[Json]]) -> list[dict[str, Any]]:
    runs = []
    for events in series:
        runs += await sent(judging, [events])
        await judging.work()
    found = await verdicts_of(judging, runs)
    odd = [verdict for verdicts in found for verdict in verdicts.values() if verdict["state"] == "anomalous"]
    assert len(odd) > 1, "the order would not matter"
    return found


def a_worker(judging: Judging, handle: Any = jobs.detect) -> Worker:
    """Takes one run at a time, so that two of them share the runs of a series."""
    return Worker(judging.database, [Kind("DETECT", handle, batch_size=1)])


@every_series
async def test_runs_that_are_judged_the_other_way_round_are_judged_the_same(
    new_judging: NewJudging, series: Series
) -> None:
    expected = await in_order(await new_judging(), series())
    judging = await new_judging()
    runs = await sent(judging, series())

    for run in reversed(runs):
        await judging.detect(run)

    assert await verdicts_of(judging, runs) == expected


@every_series
async def test_runs_that_two_workers_share_are_judged_the_same(new_judging: NewJudging, series: Series) -> None:
    expected = await in_order(await new_judging(), series())
    judging = await new_judging()
    runs = await sent(judging, series())
    # Whoever has one of these is overtaken by the other.
    slow = runs[1::2] if len(runs) % 2 else runs[::2]

    async def detect(conn: Connection, batch: Batch) -> None:
        if batch.tasks[0].resource_id in slow:
            await asyncio.sleep(0.2)
        await jobs.detect(conn, batch)

    await asyncio.gather(*(a_worker(judging, detect).drain() for _ in range(2)))

    assert await verdicts_of(judging, runs) == expected


async def test_a_run_that_another_worker_has_is_judged_before_those_that_follow_it(new_judging: NewJudging) -> None:
    expected = await in_order(await new_judging(), of_rows())
    judging = await new_judging()
    runs = await sent(judging, of_rows())
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def slowly(conn: Connection, batch: Batch) -> None:
        has_begun.set()
        await may_go_on.wait()
        await jobs.detect(conn, batch)

    quick = a_worker(judging)
    for _ in runs[:-2]:
        await quick.step()
    slow = asyncio.create_task(a_worker(judging, slowly).step())
    await has_begun.wait()
    assert await quick.drain() == 1
    assert await verdicts_of(judging, runs) == expected
    may_go_on.set()
    await slow

    assert await verdicts_of(judging, runs) == expected


async def test_what_is_judged_for_others_is_told_once(judging: Judging) -> None:
    runs = await sent(judging, of_rows())
    for run in reversed(runs):
        await judging.detect(run)

    assert await judging.types() == ["RowCountSpike", "RowCountSpike"]
    assert {str(row["run_id"]) for row in await judging.anomalies()} == set(runs[-2:])
    assert len([task for task in await judging.tasks("CORRELATE") if task["resource_type"] == "ANOMALY"]) == 2


async def test_only_what_comes_before_in_the_same_series_is_judged_for_others(judging: Judging) -> None:
    first = await judging.sent(a_load(days_ago(2), 100))
    other_job = await judging.sent(a_load(days_ago(2), 100, job="other"))
    other_table = await judging.sent(a_load(days_ago(2), 100, table="customers"))
    run = await judging.sent(a_load(days_ago(1), 100))
    later = await judging.sent(a_load(NOW, 100))

    await judging.detect(run)

    judged = [bool(verdicts) for verdicts in await verdicts_of(judging, [first, run, other_job, other_table, later])]
    assert judged == [True, True, False, False, False]


async def test_what_a_run_measured_before_it_ended_is_judged_for_others_once_it_has(judging: Judging) -> None:
    await judging.series([1000, 1001, 999, 1000, 1002], until=days_ago(2))
    run = a_run_id()
    await judging.sent(a_load(days_ago(1), 1000, run=run, state="RUNNING"))
    await judging.work()
    assert await judging.outside(run) == ["run"]
    await judging.sent(a_load(days_ago(1) + timedelta(minutes=1), run=run))
    last = await judging.sent(a_load(NOW, 1000))

    await judging.detect(last)

    assert await judging.outside(run) == []
    assert (await judging.verdicts(last))["row_count"]["points"] == 6


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM async_task WHERE organization_id = $1",
        "UPDATE async_task SET status = 'SUCCEEDED' WHERE organization_id = $1",
        "UPDATE async_task SET status = 'FAILED', retry_count = 1 WHERE organization_id = $1",
        "UPDATE async_task SET retry_count = 1 WHERE organization_id = $1",
    ],
    ids=["history", "done", "failed", "tried again"],
)
async def test_what_nobody_will_judge_or_has_failed_counts_as_it_is(judging: Judging, change: str) -> None:
    earlier = await sent(judging, of_rows())
    await judging.db.execute(change, judging.organization_id)
    last = await judging.sent(a_load(NOW, 100))
    # Somebody else waits.
    await judging.sent(a_load(NOW, 100, job="other", table="customers"))

    await judging.detect(last)

    assert await verdicts_of(judging, earlier) == [{}] * len(earlier)
    assert (await judging.verdicts(last))["row_count"]["points"] == len(earlier)


async def test_of_a_very_long_backlog_so_many_are_judged_for_others(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.server.anomalies.judging.waiting.MOST", 3)
    runs = await sent(judging, of_rows())

    await judging.detect(runs[-1])

    assert [bool(verdicts) for verdicts in await verdicts_of(judging, runs)] == [False] * 3 + [True] * 4
