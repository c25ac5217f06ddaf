"""What is judged of runs themselves: how long they took, what they set apart, how they changed a schema."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from headgate.pipelines.record import Status
from tests.support.anomalies import NOW, Judging, a_load, days_ago, spelled
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, with_schema
from tests.support.pipeline_events import a_run


def a_timed_run(start: datetime, minutes: float, *, job: str = "load", state: str = "COMPLETE") -> list[Json]:
    run, outputs = a_run_id(), [a_dataset("orders")]
    return [
        an_event("START", run=run, job=job, time=spelled(start), outputs=outputs),
        an_event(state, run=run, job=job, time=spelled(start + timedelta(minutes=minutes)), outputs=outputs),
    ]


async def a_history(judging: Judging, minutes: list[float]) -> str:
    run = ""
    for back, took in zip(range(len(minutes), 0, -1), minutes, strict=True):
        run = await judging.sent(*a_timed_run(days_ago(back), took))
        await judging.detect(run)
    return run


async def test_a_run_that_takes_much_longer_than_its_job_does_is_an_anomaly(judging: Judging) -> None:
    run = await a_history(judging, [10, 11, 9, 10, 10.5, 9.5, 10, 55])

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["severity"], found["metric"]) == ("DurationSpike", "WARNING", "duration_ms")
    assert (str(found["run_id"]), found["job_name"], found["dataset"]) == (run, "load", "orders")
    assert found["actual_value"] == {"value": 55 * 60_000}
    (row,) = await judging.rows("SELECT anomalous FROM job_runs WHERE organization_id = $1 AND run_id = $2::uuid", run)
    assert row["anomalous"] == ["duration_ms"]


async def test_slow_runs_do_not_become_what_is_usual(judging: Judging) -> None:
    await a_history(judging, [10, 11, 9, 10, 10.5, 9.5, 10, 55, 10, 50])

    assert await judging.types() == ["DurationSpike", "DurationSpike"]


async def test_slow_runs_of_one_batch_do_not_either(judging: Judging) -> None:
    minutes = [10, 11, 9, 10, 10.5, 9.5, 10, 55, 50]
    runs = [
        await judging.sent(*a_timed_run(days_ago(back), took))
        for back, took in zip(range(len(minutes), 0, -1), minutes, strict=True)
    ]
    await judging.detect(*reversed(runs))

    assert await judging.types() == ["DurationSpike", "DurationSpike"]


async def test_failed_runs_and_runs_of_other_jobs_are_not_compared_with(judging: Judging) -> None:
    for back in range(9, 3, -1):
        await judging.sent(*a_timed_run(days_ago(back), 1, state="FAIL"))
        await judging.sent(*a_timed_run(days_ago(back), 2, job="other"))
    run = await judging.sent(*a_timed_run(days_ago(1), 60))
    await judging.detect(run)

    verdict = (await judging.verdicts(run))["duration_ms"]
    assert (verdict["state"], verdict["points"]) == ("learning", 0)


async def test_a_run_of_which_only_the_end_is_known_has_no_duration(judging: Judging) -> None:
    run = await judging.sent(a_load(NOW, 5))
    await judging.detect(run)

    assert set(await judging.verdicts(run)) == {"row_count"}


async def test_a_slow_run_that_is_a_false_alarm_counts_again(judging: Judging) -> None:
    run = await a_history(judging, [10, 11, 9, 10, 10.5, 9.5, 10, 55])
    (found,) = await judging.anomalies()

    await judging.tenant.client.patch(f"/api/v1/anomalies/{found['id']}", json={"status": "FALSE_POSITIVE"})

    (row,) = await judging.rows("SELECT anomalous FROM job_runs WHERE organization_id = $1 AND run_id = $2::uuid", run)
    assert row["anomalous"] == []


async def test_a_node_that_sets_apart_many_more_rows_than_before_is_an_anomaly(judging: Judging) -> None:
    for number, rows in enumerate([4, 5, 3, 4, 5, 4, 3, 400]):
        seconds = 86_400.0 * number
        _, events = a_run(
            seconds=seconds, rows_in=1000, rows_quarantined=rows, rows_published=1000 - rows, status=Status.published
        )
        for event in events:
            event["outputs"] = [a_dataset("rejects/orders", "s3://lake"), a_dataset("silver/orders", "s3://lake")]
        await judging.sent(*events)
        await judging.work()

    found = [row for row in await judging.anomalies() if row["metric"] == "rows_quarantined"]
    assert [(row["anomaly_type"], row["severity"]) for row in found] == [("QuarantineSpike", "WARNING")]
    assert (found[0]["dataset"], found[0]["actual_value"]) == ("silver/orders", {"value": 400})


async def test_many_rows_set_apart_by_two_runs_of_one_batch_are_two_anomalies(judging: Judging) -> None:
    for number, rows in enumerate([4, 5, 3, 4, 5, 4, 3, 400, 400]):
        seconds = 86_400.0 * number
        _, events = a_run(
            seconds=seconds, rows_in=1000, rows_quarantined=rows, rows_published=1000 - rows, status=Status.published
        )
        await judging.sent(*events)
    await judging.work()

    assert (await judging.types()).count("QuarantineSpike") == 2


async def schemas(judging: Judging, *columns: tuple[str, ...]) -> list[str]:
    """A run for each schema, each judged before the next."""
    runs = []
    for back, names in zip(range(len(columns), 0, -1), columns, strict=True):
        dataset = a_dataset("orders", facets=with_schema(*names))
        runs.append(await judging.sent(an_event(time=spelled(days_ago(back)), outputs=[dataset])))
        await judging.work()
    return runs


async def test_a_column_that_is_gone_is_critical_and_one_that_came_is_not(judging: Judging) -> None:
    runs = await schemas(judging, ("id", "email"), ("id", "email", "name"), ("id", "name"))

    added, removed = await judging.anomalies()
    assert (added["anomaly_type"], added["severity"], str(added["run_id"])) == ("SchemaChange", "WARNING", runs[1])
    assert (removed["anomaly_type"], removed["severity"], str(removed["run_id"])) == (
        "SchemaChange",
        "CRITICAL",
        runs[2],
    )
    assert "'email'" in removed["description"]
    assert removed["metadata"]["removed"] == ["email"]
    assert (removed["expected_value"], removed["actual_value"]) == ({"version": 2}, {"version": 3})
    assert (added["deviation_score"], removed["deviation_score"]) == (None, None)


async def test_a_first_schema_and_a_known_one_are_no_change(judging: Judging) -> None:
    await schemas(judging, ("id", "email"), ("id", "email"))

    assert await judging.anomalies() == []


async def test_a_change_is_told_once_however_often_it_is_looked_at(judging: Judging) -> None:
    await schemas(judging, ("id", "email"), ("id",))
    await judging.db.execute(
        """UPDATE async_task SET status = 'PENDING', next_run_at = now()
            WHERE organization_id = $1 AND task_type = 'DETECT'""",
        judging.organization_id,
    )
    assert await judging.work() > 0

    assert await judging.types() == ["SchemaChange"]
    tasks = [task for task in await judging.tasks("CORRELATE") if task["resource_type"] == "ANOMALY"]
    assert len(tasks) == 1


async def ends(judging: Judging) -> list[tuple[str, str, str | None]]:
    rows = await judging.db.fetch(
        """SELECT severity, status, resolution_notes FROM anomalies
            WHERE organization_id = $1 AND (status <> 'RESOLVED' OR resolved_by = 'headgate') ORDER BY observed_at""",
        judging.organization_id,
    )
    return [tuple(row) for row in rows]


async def test_columns_that_are_back_end_what_was_told_and_are_no_change(judging: Judging) -> None:
    await schemas(judging, ("id", "email"), ("id",), ("id", "email"))

    assert await ends(judging) == [("CRITICAL", "RESOLVED", "the columns are back")]
    (found,) = await judging.anomalies()
    tasks = [task for task in await judging.tasks("CORRELATE") if task["resource_type"] == "ANOMALY"]
    assert [task["resource_id"] for task in tasks] == [str(found["id"])] * 2


async def test_what_breaks_and_is_back_by_the_time_it_is_judged_is_told_and_over(judging: Judging) -> None:
    for back, names in ((3, ("id", "email")), (2, ("id",)), (1, ("id", "email"))):
        dataset = a_dataset("orders", facets=with_schema(*names))
        await judging.sent(an_event(time=spelled(days_ago(back)), outputs=[dataset]))
    await judging.work()

    assert await ends(judging) == [("CRITICAL", "RESOLVED", "the columns are back")]


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ([("id", "a"), ("id",), ("id", "a", "b")], [("CRITICAL", "RESOLVED"), ("WARNING", "OPEN")]),
        (
            [("id", "a"), ("id",), ("id", "b"), ("id", "a")],
            [("CRITICAL", "RESOLVED"), ("WARNING", "RESOLVED"), ("CRITICAL", "OPEN")],
        ),
        ([("id", "a"), ("id",), ("id", "b")], [("CRITICAL", "OPEN"), ("WARNING", "OPEN")]),
        ([("id",), ("id", "a"), ("id",)], [("WARNING", "RESOLVED")]),
    ],
    ids=["with another", "after another change", "something else", "the other way round"],
)
async def test_a_change_is_over_when_readers_of_what_was_before_can_read_on(
    judging: Judging, columns: list[tuple[str, ...]], found: list[tuple[str, str]]
) -> None:
    await schemas(judging, *columns)

    assert [each[:2] for each in await ends(judging)] == found


async def test_what_came_long_ago_and_is_taken_away_again_is_a_change_of_its_own(judging: Judging) -> None:
    for back, names in ((9, ("id",)), (7, ("id", "a")), (1, ("id",))):
        dataset = a_dataset("orders", facets=with_schema(*names))
        await judging.sent(an_event(time=spelled(days_ago(back)), outputs=[dataset]))
        await judging.work()

    assert [each[:2] for each in await ends(judging)] == [("WARNING", "RESOLVED"), ("CRITICAL", "OPEN")]


async def arrived(judging: Judging, *columns: tuple[int, tuple[str, ...]]) -> None:
    """Schemas by how many days ago they were seen, each judged before the next is heard of."""
    for back, names in columns:
        dataset = a_dataset("orders", facets=with_schema(*names))
        await judging.sent(an_event(time=spelled(days_ago(back)), outputs=[dataset]))
        await judging.work()


async def test_a_change_is_told_though_what_was_before_is_heard_of_later(judging: Judging) -> None:
    await arrived(judging, (1, ("id", "email")))
    assert await judging.anomalies() == []

    await arrived(judging, (3, ("id", "email", "amount")), (4, ("id", "email", "amount")))

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["severity"], found["status"]) == ("SchemaChange", "CRITICAL", "OPEN")
    assert found["metadata"]["removed"] == ["amount"]
    assert found["observed_at"] == days_ago(1)
    assert found["run_id"] is not None


async def test_a_change_that_is_heard_of_later_and_undone_by_then_is_not_told(judging: Judging) -> None:
    await arrived(judging, (2, ("id",)), (1, ("id", "email")))
    assert [each[:2] for each in await ends(judging)] == [("WARNING", "OPEN")]

    await arrived(judging, (3, ("id", "email")))

    assert [each[:2] for each in await ends(judging)] == [("WARNING", "OPEN")]


async def test_another_name_of_a_type_that_is_heard_of_later_is_no_change(judging: Judging) -> None:
    for back, type_ in ((1, "int"), (3, "integer")):
        dataset = a_dataset("orders", facets={"schema": a_facet(fields=[{"name": "id", "type": type_}])})
        await judging.sent(an_event(time=spelled(days_ago(back)), outputs=[dataset]))
        await judging.work()

    versions = await judging.rows("SELECT change_type FROM schema_versions WHERE organization_id = $1")
    assert len(versions) == 2
    assert await judging.anomalies() == []


async def test_two_changes_by_one_run_are_two(judging: Judging) -> None:
    await schemas(judging, ("id",))
    run = a_run_id()
    for seconds, names in ((0, ("id", "a")), (5, ("id", "a", "b"))):
        dataset = a_dataset("orders", facets=with_schema(*names))
        at = spelled(NOW + timedelta(seconds=seconds))
        await judging.sent(an_event("RUNNING", run=run, time=at, outputs=[dataset]))
    await judging.work()

    assert await judging.types() == ["SchemaChange", "SchemaChange"]


async def test_an_incident_that_waits_for_a_job_hears_of_its_next_run(judging: Judging) -> None:
    first = await judging.sent(a_load(days_ago(1), 5))
    await judging.detect(first)
    assert await judging.tasks("CORRELATE") == []
    dataset_id = await judging.dataset_id()
    await an_open_symptom(judging, dataset_id)

    run = await judging.sent(a_load(NOW, 5))
    await judging.detect(run)

    (task,) = await judging.tasks("CORRELATE")
    assert (task["resource_type"], task["resource_id"], task["payload"]) == ("RUN", run, {"kind": "judged"})


async def an_open_symptom(judging: Judging, dataset_id: object) -> None:
    async with judging.db.transaction():
        incident = await judging.db.fetchval(
            """INSERT INTO incidents (organization_id, number, title, severity, kind, dataset_id, opened_at,
                                      last_seen_at)
               VALUES ($1, 1, 'x', 'CRITICAL', 'RowCountDrop', $2, now(), now()) RETURNING id""",
            judging.organization_id,
            dataset_id,
        )
        await judging.db.execute(
            """INSERT INTO incident_symptoms (organization_id, incident_id, type, key, dataset_id, severity, sentence,
                                              observed_at, last_observed_at)
               VALUES ($1, $2, 'RowCountDrop', 'k', $3, 'CRITICAL', 's', now(), now())""",
            judging.organization_id,
            incident,
            dataset_id,
        )
