"""Measurements that are judged: against what came before in the same series, and against nothing else."""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import timedelta
from typing import Any

import pytest

from headgate.server.anomalies import jobs
from tests.support.anomalies import NOW, Judging, a_load, a_profile, days_ago, spelled
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id

USUAL = [1000, 1010, 990, 1005, 995, 1002, 998]
# By how much each further event of a run is later.
LATER = itertools.count(1)


async def test_a_value_far_below_what_is_usual_is_an_anomaly_with_its_band_and_a_reason(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["severity"], found["status"]) == ("RowCountDrop", "CRITICAL", "OPEN")
    assert (str(found["run_id"]), found["dataset"], found["job_name"]) == (run, "orders", "load")
    assert found["actual_value"] == {"value": 12.0}
    assert found["expected_value"]["low"] < 1000 < found["expected_value"]["high"]
    assert found["deviation_score"] < -3
    assert "12" in found["description"]
    verdict = (await judging.verdicts(run))["row_count"]
    assert (verdict["state"], verdict["type"], verdict["value"]) == ("anomalous", "RowCountDrop", 12.0)
    assert verdict["reason"] == found["description"]
    assert await judging.outside(run) == ["row_count"]


async def test_a_new_anomaly_has_its_cause_looked_for_once(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])
    await judging.detect(run)
    await judging.detect(run)

    (found,) = await judging.anomalies()
    tasks = await judging.tasks("CORRELATE")
    assert [(task["resource_type"], task["resource_id"]) for task in tasks] == [("ANOMALY", str(found["id"]))]
    assert tasks[0]["payload"] == {"kind": "anomaly", "anomaly_id": str(found["id"])}


async def test_events_that_are_acknowledged_are_judged_by_the_worker(judging: Judging) -> None:
    for back, rows in enumerate([*USUAL, 12]):
        await judging.sent(a_load(days_ago(7 - back), rows))
    await judging.work()

    assert await judging.types() == ["RowCountDrop"]


async def test_runs_of_one_batch_are_each_compared_with_what_came_before_them(judging: Judging) -> None:
    runs = [await judging.sent(a_load(days_ago(9 - back), rows)) for back, rows in enumerate([*USUAL, 12, 1001, 999])]

    await judging.detect(*runs)

    states = [(await judging.verdicts(run))["row_count"]["state"] for run in runs]
    assert states == ["learning"] * 5 + ["normal"] * 2 + ["anomalous", "normal", "normal"]


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "the other way round"])
async def test_an_anomaly_is_not_what_is_usual_for_the_next_run_of_the_same_batch(
    judging: Judging, is_reversed: bool
) -> None:
    values = [100, 101, 99, 100, 102, 1000, 1000]
    runs = [await judging.sent(a_load(days_ago(6 - back), rows)) for back, rows in enumerate(values)]

    await judging.detect(*(runs[::-1] if is_reversed else runs))

    assert await judging.types() == ["RowCountSpike", "RowCountSpike"]


async def test_columns_of_one_batch_are_compared_with_what_was_made_of_those_before(judging: Judging) -> None:
    nulls = [10, 11, 9, 10, 12, 700, 700]
    runs = [
        await judging.sent(a_profile(days_ago(6 - back), 1000, email=figures(count, 900)))
        for back, count in enumerate(nulls)
    ]
    await judging.detect(*runs)

    assert await judging.types() == ["NullShareSpike", "NullShareSpike"]


async def test_a_false_alarm_is_what_is_usual_for_the_next_run_of_the_same_batch(judging: Judging) -> None:
    values = [100, 101, 99, 100, 102, 1000]
    runs = [await judging.sent(a_load(days_ago(6 - back), rows)) for back, rows in enumerate(values)]
    await judging.detect(*runs)
    (found,) = await judging.anomalies()
    path = f"/api/v1/anomalies/{found['id']}"
    assert (await judging.tenant.client.patch(path, json={"status": "FALSE_POSITIVE"})).status_code == 200
    last = await judging.sent(a_load(NOW, 1000))
    await judging.detect(*runs, last)

    assert (await judging.verdicts(last))["row_count"]["state"] == "normal"


@pytest.mark.parametrize("table", ["orders", "sales/country=US"], ids=["of a job", "of a partition"])
async def test_nobody_judges_a_series_while_another_does(judging: Judging, table: str) -> None:
    values = [100, 101, 99, 100, 102, 1000, 1000]
    runs = [
        await judging.sent(a_load(days_ago(6 - back), rows, table=table, namespace="s3://lake"))
        for back, rows in enumerate(values)
    ]
    async with judging.database.tenant(judging.organization_id) as conn:
        await jobs.detect(conn, judging.batch(*runs[:-1]))
        waiting = asyncio.create_task(judging.detect(runs[-1]))
        await asyncio.sleep(0.5)
        assert not waiting.done()
    await waiting

    assert await judging.types() == ["RowCountSpike", "RowCountSpike"]


async def test_series_of_two_jobs_are_judged_at_the_same_time(judging: Judging) -> None:
    first = await judging.sent(a_load(NOW, 100, job="one", table="a"))
    second = await judging.sent(a_load(NOW, 100, job="two", table="b"))
    async with judging.database.tenant(judging.organization_id) as conn:
        await jobs.detect(conn, judging.batch(first))
        await asyncio.wait_for(judging.detect(second), 30)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([*USUAL, 90_000], ("RowCountSpike", "WARNING")),
        ([*USUAL, 12], ("RowCountDrop", "CRITICAL")),
        # Within three standard deviations of a restless series, and still less than half of its mean.
        ([900, 1500, 1100, 700, 1300, 1000, 1400, 800, 1200, 990, 300], ("RowCountDrop", "CRITICAL")),
        ([100] * 15 + [1000], ("RowCountSpike", "WARNING")),
    ],
    ids=["spike", "drop", "half is gone", "constant"],
)
async def test_what_is_far_off_has_a_type_and_a_severity(
    judging: Judging, values: list[int], expected: tuple[str, str]
) -> None:
    await judging.series(values)

    assert [(row["anomaly_type"], row["severity"]) for row in await judging.anomalies()] == [expected]


@pytest.mark.parametrize(
    "values", [[100, 100, 100, 1], [100] * 15 + [101], USUAL, [0] * 10], ids=["few points", "constant", "usual", "none"]
)
async def test_what_is_usual_or_too_new_to_tell_is_none(judging: Judging, values: list[int]) -> None:
    await judging.series(values)

    assert await judging.anomalies() == []


async def test_bytes_are_judged_like_rows(judging: Judging) -> None:
    for back in range(8, 0, -1):
        await judging.detect(await judging.sent(a_load(days_ago(back), 100, size=1_000_000 + back)))
    await judging.detect(await judging.sent(a_load(NOW, 100, size=10_000)))

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["metric"]) == ("VolumeDrop", "byte_size")


async def test_bytes_of_a_few_rows_are_told_only_with_the_rows(judging: Judging) -> None:
    for back, rows in enumerate([3, 4, 2, 3, 5, 3, 4, 0]):
        load = a_load(days_ago(7 - back), rows, size=1000 * rows, table="sales/country=IS", namespace="s3://lake")
        await judging.detect(await judging.sent(load))

    assert await judging.anomalies() == []


async def test_a_partition_of_very_many_is_judged(judging: Judging) -> None:
    """A month of a thousand partitions a day is more than is read of one dataset."""
    run = await judging.sent(a_load(NOW, 12, table="sales/country=AA", namespace="s3://lake"))
    await judging.db.execute(
        """INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction, job_id, row_count,
                                        partition_key, created_at)
           SELECT m.organization_id, m.dataset_id, m.measured_at - make_interval(days => day, secs => number),
                  gen_random_uuid(), m.direction, m.job_id, 1000 + day,
                  CASE number WHEN 1000 THEN m.partition_key ELSE 'country=' || number END, now() - interval '1 day'
             FROM dataset_metrics m, generate_series(1, 29) AS day, generate_series(1, 1000) AS number
            WHERE m.organization_id = $1""",
        judging.organization_id,
    )
    await judging.detect(run)

    assert await judging.types() == ["RowCountDrop"]
    assert await points_of(judging, run) == 29


async def test_hours_of_nothing_are_not_what_is_usual(judging: Judging) -> None:
    def an_hour(back: int, rows: int) -> Json:
        return a_load(NOW - timedelta(hours=back), rows)

    for back in range(40, 8, -1):
        await judging.sent(an_hour(back, 1000 + back % 5))
    for back in range(8, 0, -1):
        await judging.sent(an_hour(back, 0))
    await judging.work()

    assert await judging.types() == ["RowCountDrop"] * 8


async def test_an_anomaly_does_not_become_what_is_usual(judging: Judging) -> None:
    await judging.series([*USUAL, 90_000, 1003, 90_000])

    assert await judging.types() == ["RowCountSpike", "RowCountSpike"]


async def test_after_five_in_a_row_on_one_side_that_is_the_level(judging: Judging) -> None:
    run = await judging.series([*USUAL, 5000, 5010, 4990, 5005, 5002, 5001, 4999])

    assert await judging.types() == ["RowCountSpike"] * 4
    assert (await judging.verdicts(run))["row_count"]["state"] in ("normal", "learning")


async def test_two_countries_are_judged_apart(judging: Judging) -> None:
    for back in range(8, 0, -1):
        for country, rows in (("US", 100_000), ("IN", 50)):
            day = days_ago(back)
            name = f"sales/country={country}/date={day:%Y-%m-%d}"
            await judging.detect(await judging.sent(a_load(day, rows + back, table=name, namespace="s3://lake")))
    name = f"sales/country=US/date={NOW:%Y-%m-%d}"
    await judging.detect(await judging.sent(a_load(NOW, 50, table=name, namespace="s3://lake")))

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["dataset"]) == ("RowCountDrop", "sales")
    assert "country=US" in found["partition_key"]


async def test_without_partitions_two_jobs_are_judged_apart(judging: Judging) -> None:
    await judging.series(USUAL, job="daily")
    await judging.series([5] * 7, job="corrections")
    run = await judging.sent(a_load(NOW + timedelta(hours=1), 6, job="corrections"))
    await judging.detect(run)

    assert await judging.anomalies() == []
    assert (await judging.verdicts(run))["row_count"]["state"] == "normal"


async def test_points_older_than_the_window_do_not_count_where_it_has_enough(judging: Judging) -> None:
    await judging.series([5] * 7, until=days_ago(31))
    run = await judging.series(USUAL)

    verdict = (await judging.verdicts(run))["row_count"]
    assert (verdict["points"], verdict["expected"]) == (6, pytest.approx(1000, abs=1))


@pytest.mark.parametrize(("gap", "state"), [(7, "anomalous"), (30, "anomalous"), (90, "learning")])
async def test_a_table_that_is_written_seldom_is_compared_with_older_points(
    judging: Judging, gap: int, state: str
) -> None:
    for back in range(7, 0, -1):
        await judging.detect(await judging.sent(a_load(days_ago(gap * back), 1000 + back)))
    run = await judging.sent(a_load(NOW, 12))
    await judging.detect(run)

    verdicts = await judging.verdicts(run)
    assert verdicts["row_count"]["state"] == state


async def test_what_a_run_has_measured_so_far_is_not_judged(judging: Judging) -> None:
    await judging.series(USUAL)
    run, at = a_run_id(), NOW + timedelta(hours=1)
    await judging.detect(await judging.sent(a_load(at, 12, run=run, state="RUNNING")))
    assert (await judging.verdicts(run)) == {}

    await judging.detect(await judging.sent(a_load(at + timedelta(minutes=5), 1001, run=run)))
    assert (await judging.verdicts(run))["row_count"]["state"] == "normal"
    assert await judging.anomalies() == []


async def test_what_a_failed_run_has_written_says_nothing_of_what_is_usual(judging: Judging) -> None:
    await judging.series([1000] * 4)
    for hour in range(1, 4):
        run = await judging.sent(a_load(NOW + timedelta(hours=hour), 3, state="FAIL"))
        await judging.detect(run)
    last = await judging.sent(a_load(NOW + timedelta(hours=5), 1000))
    await judging.detect(last)

    assert await judging.anomalies() == []
    assert await judging.outside(run) == ["run"]
    assert (await judging.verdicts(last))["row_count"]["points"] == 4


async def test_a_run_that_is_measured_again_takes_back_what_was_told_of_it(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])
    # The last word on a run is that of its latest event.
    await judging.sent(a_load(NOW - timedelta(hours=1), 12, run=run, state="RUNNING"))
    await judging.db.execute(
        "UPDATE dataset_metrics SET row_count = 1001 WHERE organization_id = $1 AND run_id = $2::uuid",
        judging.organization_id,
        run,
    )
    await judging.detect(run)

    (found,) = await judging.anomalies()
    assert (found["status"], found["resolved_by"]) == ("RESOLVED", "headgate")
    assert await judging.outside(run) == []


async def measured_again(judging: Judging, run: str, *rows: int) -> dict[str, Any]:
    """The anomaly of a run that said so many rows in further events, each of them judged."""
    for count in rows:
        await judging.sent(a_load(NOW + timedelta(milliseconds=next(LATER)), count, run=run))
        await judging.work()
    (found,) = await judging.anomalies()
    return found


@pytest.mark.parametrize("rows", [3, 12], ids=["another value", "the same value"])
async def test_what_was_taken_back_is_open_again_when_the_run_is_measured_as_odd_as_before(
    judging: Judging, rows: int
) -> None:
    run = await judging.series([*USUAL, 12])
    first = await measured_again(judging, run, 1000)
    assert (first["status"], first["resolved_by"]) == ("RESOLVED", "headgate")

    again = await measured_again(judging, run, rows)

    assert again["id"] == first["id"]
    assert (again["status"], again["actual_value"]) == ("OPEN", {"value": rows})
    assert (again["resolved_at"], again["resolved_by"], again["resolution_notes"]) == (None, None, None)
    assert [(change["by"], change["to"]) for change in again["changes"]] == [
        ("headgate", "RESOLVED"), ("headgate", "OPEN"),
    ]  # fmt: skip
    tasks = [task for task in await judging.tasks("CORRELATE") if task["resource_type"] == "ANOMALY"]
    assert [task["resource_id"] for task in tasks] == [str(first["id"])] * 2
    assert (await judging.verdicts(run))["row_count"]["state"] == "anomalous"


@pytest.mark.parametrize("status", ["RESOLVED", "FALSE_POSITIVE"])
async def test_what_a_person_has_closed_stays_closed_when_the_run_is_measured_again(
    judging: Judging, status: str
) -> None:
    run = await judging.series([*USUAL, 12])
    (found,) = await judging.anomalies()
    path = f"/api/v1/anomalies/{found['id']}"
    assert (await judging.tenant.client.patch(path, json={"status": status})).status_code == 200

    found = await measured_again(judging, run, 1000, 3)

    assert found["status"] == status
    assert found["resolved_at"] is not None


async def test_what_was_resolved_for_another_reason_stays_so_when_the_run_is_measured_again(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])
    await judging.db.execute(
        """UPDATE anomalies SET status = 'RESOLVED', resolved_by = 'headgate', resolved_at = now()
            WHERE organization_id = $1""",
        judging.organization_id,
    )

    found = await measured_again(judging, run, 3)

    assert (found["status"], found["resolved_by"], found["actual_value"]) == ("RESOLVED", "headgate", {"value": 3.0})
    assert found["resolved_at"] is not None


async def test_what_is_measured_by_no_run_is_judged_by_dataset(judging: Judging) -> None:
    for back, rows in enumerate([*USUAL, 12]):
        dataset = a_dataset("t", facets={"dataQualityMetrics": a_facet(rowCount=rows)})
        at = spelled(days_ago(7 - back))
        event = {"eventTime": at, "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}
        response = await judging.tenant.send(event)
        assert response.status_code == 201, response.text
        await judging.work()

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["dataset"], found["run_id"]) == ("RowCountDrop", "t", None)


async def test_what_is_measured_by_no_run_is_judged_also_by_workers_that_were_away_for_days(judging: Judging) -> None:
    dataset = a_dataset("t", facets={"dataQualityMetrics": a_facet(rowCount=1000)})
    events = [
        {"eventTime": at, "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}
        for at in (spelled(NOW - timedelta(minutes=minutes)) for minutes in range(150))
    ]
    response = await judging.tenant.client.post("/api/v1/lineage/batch", json=events)
    assert response.status_code == 200, response.text
    for table in ("dataset_metrics", "async_task"):
        await judging.db.execute(
            f"UPDATE {table} SET created_at = now() - interval '3 days' WHERE organization_id = $1",
            judging.organization_id,
        )
    await judging.work()

    rows = await judging.rows("SELECT verdicts FROM dataset_metrics WHERE organization_id = $1")
    assert [row["verdicts"] is None for row in rows] == [False] * 150


async def test_what_was_measured_long_before_is_history_that_nobody_judges(judging: Judging) -> None:
    for rows in (1000, 1001):
        dataset = a_dataset("t", facets={"dataQualityMetrics": a_facet(rowCount=rows)})
        at = spelled(NOW + timedelta(minutes=rows))
        await judging.tenant.send_ok(
            {"eventTime": at, "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}
        )
        await judging.db.execute(
            """UPDATE dataset_metrics SET created_at = now() - interval '3 days'
                WHERE organization_id = $1 AND row_count = 1000""",
            judging.organization_id,
        )
        await judging.db.execute(
            "DELETE FROM async_task WHERE organization_id = $1 AND $2 = 1000", judging.organization_id, rows
        )
    await judging.work()

    rows_ = await judging.rows("SELECT row_count, verdicts FROM dataset_metrics WHERE organization_id = $1")
    assert {row["row_count"]: row["verdicts"] is None for row in rows_} == {1000: True, 1001: False}


def figures(nulls: int, distinct: int) -> dict[str, Any]:
    return {"nullCount": nulls, "distinctCount": distinct}


async def test_nulls_and_distinct_values_are_judged_by_column(judging: Judging) -> None:
    for back in range(8, 0, -1):
        columns = {"email": figures(10 + back % 3, 900), "id": figures(0, 1000)}
        await judging.detect(await judging.sent(a_profile(days_ago(back), 1000, **columns)))
    run = await judging.sent(a_profile(NOW, 1000, email=figures(700, 250), id=figures(0, 1000)))
    await judging.detect(run)

    found = [(row["anomaly_type"], row["column_name"], row["metric"]) for row in await judging.anomalies()]
    assert found == [("DistinctCountDrop", "email", "distinct_count"), ("NullShareSpike", "email", "null_share")]
    verdicts = await judging.verdicts(run)
    assert verdicts["null_share:email"]["value"] == 0.7
    assert verdicts["null_share:id"]["state"] == "normal"
    assert sorted(await judging.outside(run)) == ["distinct_count:email", "null_share:email"]


async def test_nulls_of_a_profile_that_does_not_say_how_many_rows_it_saw_are_a_share_of_its_values(
    judging: Judging,
) -> None:
    def looked_at(nulls: int) -> Json:
        columns = {"email": {"nullCount": nulls, "count": 1000 - nulls}, "id": {"nullCount": 0}}
        return {"dataQualityMetrics": a_facet(columnMetrics=columns)}

    for back in range(8, 0, -1):
        await judging.detect(await judging.sent(a_load(days_ago(back), 1000, facets=looked_at(20 + back % 3))))
    run = await judging.sent(a_load(NOW, 1000, facets=looked_at(990)))
    await judging.detect(run)

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["column_name"], found["severity"]) == ("NullShareSpike", "email", "CRITICAL")
    verdicts = await judging.verdicts(run)
    assert verdicts["null_share:email"]["value"] == 0.99
    assert "null_share:id" not in verdicts


@pytest.mark.parametrize(
    "columns",
    [{"a": None}, {"a": {"nullCount": "7"}}, {"a": {"nullCount": True}}, {"a": {"nullCount": -1}}, {"a": []}],
    ids=repr,
)
async def test_a_profile_that_makes_no_sense_is_judged_as_far_as_it_does(judging: Judging, columns: Any) -> None:
    run = await judging.sent(a_load(NOW, 5))
    await judging.db.execute(
        "UPDATE dataset_metrics SET columns = $2::text::jsonb WHERE organization_id = $1",
        judging.organization_id,
        json.dumps(columns),
    )
    await judging.detect(run)

    assert set(await judging.verdicts(run)) == {"row_count"}


async def test_a_wide_table_is_judged_as_far_as_there_is_room(judging: Judging) -> None:
    columns = {f"c{number:04}": figures(1, 5) for number in range(500)}
    run = await judging.sent(a_profile(NOW, 10, **columns))
    await judging.detect(run)

    verdicts = await judging.verdicts(run)
    assert len(verdicts) == 1 + 2 * 200
    assert "null_share:c0000" in verdicts


def wide(number: int, **others: Json) -> Json:
    return {f"c{place:04}": figures(1, 5) for place in range(number)} | others


async def test_a_column_of_a_wide_table_is_judged_wherever_it_is(judging: Judging) -> None:
    for back in range(8, 1, -1):
        await judging.sent(a_profile(days_ago(back), 1000, **wide(260)))
    odd = await judging.sent(a_profile(days_ago(1), 1000, **wide(260, c0250=figures(1000, 5))))
    well = await judging.sent(a_profile(NOW, 1000, **wide(260)))
    await judging.work()

    found = {(row["anomaly_type"], row["column_name"]) for row in await judging.anomalies()}
    assert found == {("NullShareSpike", "c0250")}
    assert (await judging.verdicts(odd))["null_share:c0250"]["state"] == "anomalous"
    # That it is well again is kept, too; of what never moved nothing is.
    verdicts = await judging.verdicts(well)
    assert verdicts["null_share:c0250"]["state"] == "normal"
    assert "null_share:c0240" not in verdicts


async def test_of_many_columns_that_moved_those_are_judged_that_moved_furthest(judging: Judging) -> None:
    for back in range(8, 0, -1):
        await judging.sent(a_profile(days_ago(back), 1000, **wide(700, z=figures(1, 5))))
    little = {name: figures(2, 5) for name in wide(700)}
    run = await judging.sent(a_profile(NOW, 1000, **little, z=figures(900, 5)))
    await judging.work()

    verdicts = await judging.verdicts(run)
    assert verdicts["null_share:z"]["state"] == "anomalous"
    assert len(verdicts) == 1 + 2 * 200 + 200


@pytest.mark.parametrize(("columns", "left_out"), [(3, 0), (2000, 0), (2010, 10)])
async def test_an_answer_says_how_many_columns_are_too_many(judging: Judging, columns: int, left_out: int) -> None:
    await judging.sent(a_profile(NOW, 1000, **wide(columns)))
    (item,) = (await judging.tenant.client.get("/api/v1/datasets/orders/metrics")).json()["items"]
    assert item["columns_left_out"] == left_out


async def test_a_run_that_is_not_there_any_more_is_no_failure(judging: Judging) -> None:
    await judging.detect(a_run_id(), datasets=[await a_known_dataset(judging)])

    assert await judging.anomalies() == []


async def a_known_dataset(judging: Judging) -> Any:
    await judging.sent(a_load(NOW, 5))
    return await judging.dataset_id()


async def test_two_workers_that_judge_the_same_run_find_one_anomaly(judging: Judging) -> None:
    run = await judging.series([*USUAL, 1001])
    runs = [run, await judging.sent(a_load(NOW + timedelta(hours=1), 12))]

    await asyncio.gather(*(judging.detect(*order) for order in (runs, runs[::-1], runs)))

    assert await judging.types() == ["RowCountDrop"]
    assert len([task for task in await judging.tasks("CORRELATE") if task["resource_type"] == "ANOMALY"]) == 1


async def test_runs_of_a_producer_that_names_no_states_are_judged(judging: Judging) -> None:
    for back, rows in enumerate([*USUAL, 12]):
        event = a_load(days_ago(7 - back), rows)
        del event["eventType"]
        await judging.detect(await judging.sent(event))

    assert await judging.types() == ["RowCountDrop"]


async def points_of(judging: Judging, run: str) -> int:
    return int((await judging.verdicts(run))["row_count"]["points"])


async def test_what_is_measured_late_of_a_run_that_has_ended_is_judged(judging: Judging) -> None:
    await judging.series(USUAL, until=days_ago(1))
    run = await judging.sent(a_load(NOW))
    await judging.work()
    await judging.sent(a_load(NOW - timedelta(minutes=5), 12, run=run, state="RUNNING"))
    await judging.work()

    assert await judging.types() == ["RowCountDrop"]
    assert await judging.outside(run) == ["row_count"]


async def test_an_event_that_measures_the_same_again_is_not_judged_again(judging: Judging) -> None:
    run = a_run_id()
    for part in ("first", "second"):
        await judging.sent(a_load(NOW, 12, run=run, run_facets={"part": a_facet(name=part)}))
        await judging.work()

    assert len(await judging.tasks("DETECT")) == 1


async def test_what_is_measured_by_no_run_of_another_partition_at_the_same_time_is_judged(judging: Judging) -> None:
    for country in ("US", "IN"):
        name = f"sales/country={country}"
        dataset = a_dataset(name, "s3://lake", facets={"dataQualityMetrics": a_facet(rowCount=5)})
        event = {"eventTime": spelled(NOW), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset}
        assert (await judging.tenant.send(event)).status_code == 201
        await judging.work()

    verdicts = [
        row["verdicts"] for row in await judging.rows("SELECT * FROM dataset_metrics WHERE organization_id = $1")
    ]
    assert len(verdicts) == 2
    assert None not in verdicts


@pytest.mark.parametrize("state", ["START", "RUNNING", "FAIL", "ABORT"])
async def test_what_a_run_measured_that_goes_on_or_failed_is_left_out_before_it_is_judged_itself(
    judging: Judging, state: str
) -> None:
    await judging.series([1000] * 5, until=days_ago(1))
    await judging.sent(a_load(NOW - timedelta(hours=1), 3, state=state))
    run = await judging.sent(a_load(NOW, 1000))
    await judging.detect(run)

    assert await points_of(judging, run) == 5


@pytest.mark.parametrize("state", ["RUNNING", "FAIL", "ABORT"])
async def test_it_is_left_out_as_well_when_it_was_in_the_same_batch_or_long_ago(judging: Judging, state: str) -> None:
    await judging.series([1000] * 5, until=days_ago(1))
    broken = await judging.sent(a_load(NOW - timedelta(hours=1), 3, state=state))
    await came_long_ago(judging)
    runs = [await judging.sent(a_load(NOW + timedelta(hours=hours), 1000)) for hours in (0, 1)]
    await judging.detect(runs[0], broken)
    await judging.detect(runs[1])

    assert await judging.outside(broken) == ["run"]
    assert [await points_of(judging, run) for run in runs] == [5, 6]


async def came_long_ago(judging: Judging) -> None:
    await judging.db.execute(
        "UPDATE dataset_metrics SET created_at = created_at - interval '1 day' WHERE organization_id = $1",
        judging.organization_id,
    )


@pytest.mark.parametrize("state", ["FAIL", "ABORT"])
async def test_a_run_that_fails_after_it_has_measured_something_is_left_out(judging: Judging, state: str) -> None:
    await judging.series([1000] * 5, until=days_ago(1))
    at, run = NOW - timedelta(hours=2), a_run_id()
    await judging.sent(a_load(at, 3, run=run, state="RUNNING"))
    await judging.work()
    await judging.sent(a_load(at + timedelta(minutes=1), run=run, state=state))
    await judging.work()
    last = await judging.sent(a_load(NOW, 1000))
    await judging.work()

    assert await judging.outside(run) == ["run"]
    assert await points_of(judging, last) == 5


async def test_a_run_that_had_completed_before_it_failed_is_judged_again(judging: Judging) -> None:
    await judging.series(USUAL, until=days_ago(1))
    run = await judging.sent(a_load(NOW, 12, state="FAIL"))
    await judging.work()
    assert await judging.outside(run) == ["run"]
    await judging.sent(a_load(NOW - timedelta(minutes=1), run=run))
    await judging.work()

    assert await judging.types() == ["RowCountDrop"]
    assert await judging.outside(run) == ["row_count"]


async def test_a_run_that_failed_is_judged_though_it_measures_nothing_in_its_last_event(judging: Judging) -> None:
    run = await judging.sent(a_load(NOW, state="FAIL"))

    assert [task["resource_id"] for task in await judging.tasks("DETECT")] == [run]


async def test_what_was_left_out_counts_once_the_run_has_completed(judging: Judging) -> None:
    await judging.series([1000] * 5, until=days_ago(1))
    run, at = a_run_id(), NOW - timedelta(hours=2)
    await judging.sent(a_load(at, 1000, run=run, state="RUNNING"))
    await judging.work()
    assert await judging.outside(run) == ["run"]
    await judging.sent(a_load(at + timedelta(minutes=1), run=run))
    last = await judging.sent(a_load(NOW, 1000))
    await judging.work()

    assert await judging.outside(run) == []
    assert await points_of(judging, last) == 6


@pytest.mark.parametrize("is_known", [True, False], ids=["completed", "unknown"])
async def test_history_that_nobody_judged_counts(judging: Judging, is_known: bool) -> None:
    for back in range(6, 0, -1):
        await judging.sent(a_load(days_ago(back), 1000))
    if not is_known:
        await judging.db.execute("DELETE FROM job_runs WHERE organization_id = $1", judging.organization_id)
    run = await judging.sent(a_load(NOW, 1000))
    await judging.detect(run)

    assert await points_of(judging, run) == 6
