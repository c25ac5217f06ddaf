"""Anomalies over HTTP: lists by what is asked, one of them, what people make of it, and counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.support.anomalies import NOW, Judging, NewJudging, a_load
from tests.support.events import Json

USUAL = [1000, 1010, 990, 1005, 995, 1002, 998]
LIST = "/api/v1/anomalies"
RUNS = {"bytes": str(uuid4()), "all": str(uuid4())}


async def listed(judging: Judging, **query: Any) -> list[Json]:
    response = await judging.tenant.client.get(LIST, params={name.rstrip("_"): each for name, each in query.items()})
    assert response.status_code == 200, response.text
    items: list[Json] = response.json()["items"]
    return items


async def changed(judging: Judging, anomaly_id: str, **body: Any) -> httpx.Response:
    return await judging.tenant.client.patch(f"{LIST}/{anomaly_id}", json=body)


async def test_a_list_tells_what_was_found_with_its_dataset_job_and_run(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])

    (found,) = await listed(judging)
    assert (found["type"], found["severity"], found["status"]) == ("RowCountDrop", "CRITICAL", "OPEN")
    assert (found["dataset"]["name"], found["job"]["name"], found["run_id"]) == ("orders", "load", run)
    assert (found["metric"], found["column"], found["partition_key"], found["source"]) == (
        "row_count", None, None, "detector",
    )  # fmt: skip
    assert found["actual_value"] == {"value": 12}
    assert set(found["expected_value"]) == {"value", "low", "high"}
    assert found["deviation_score"] < -3
    assert (found["incident_id"], found["resolved_at"], found["resolved_by"]) == (None, None, None)


async def test_a_list_shows_what_is_asked_for(judging: Judging) -> None:
    dropped = await judging.series([*USUAL, 12])
    spiked = await judging.series([*USUAL, 90_000], table="returns", job="load_returns")
    await judging.db.execute("UPDATE anomalies SET column_name = 'amount' WHERE run_id = $1", UUID(spiked))
    wanted: dict[str, dict[str, Any]] = {
        "orders": {"dataset": "orders"},
        "returns": {"dataset_name": "returns"},
        "type": {"type": "row_count_drop"},
        "severity": {"severity": "WARNING"},
        "run": {"run": dropped},
        "status": {"status": "RESOLVED"},
        "hours": {"hours": 1},
        "from": {"from": (datetime.now(UTC) + timedelta(hours=1)).isoformat()},
        "to": {"to": (datetime.now(UTC) - timedelta(hours=1)).isoformat()},
        "incident": {"incident": str(uuid4())},
        "either status": {"status": ["OPEN", "RESOLVED"]},
        "either severity": {"severity": ["WARNING", "CRITICAL"]},
        "either type": {"type": ["row_count_drop", "RowCountSpike"]},
        "none of these types": {"type": ["VolumeDrop", "RowCountSpike"]},
        "job": {"job": "load_returns"},
        "column": {"column": "amount"},
        "other column": {"column": "id"},
        "source": {"source": "detector"},
        "other source": {"source": "client"},
    }

    shown = {name: {item["run_id"] for item in await listed(judging, **query)} for name, query in wanted.items()}

    assert shown == {
        "orders": {dropped},
        "returns": {spiked},
        "type": {dropped},
        "severity": {spiked},
        "run": {dropped},
        "status": set(),
        "hours": {dropped, spiked},
        "from": set(),
        "to": set(),
        "incident": set(),
        "either status": {dropped, spiked},
        "either severity": {dropped, spiked},
        "either type": {dropped, spiked},
        "none of these types": {spiked},
        "job": {spiked},
        "column": {spiked},
        "other column": set(),
        "source": {dropped, spiked},
        "other source": set(),
    }


async def test_pages_follow_each_other(judging: Judging) -> None:
    for table in ("a", "b", "c"):
        await judging.series([*USUAL, 12], table=table, job=table)

    first = (await judging.tenant.client.get(LIST, params={"limit": 2})).json()
    second = (await judging.tenant.client.get(LIST, params={"limit": 2, "cursor": first["next_cursor"]})).json()

    assert [item["dataset"]["name"] for item in first["items"] + second["items"]] == ["c", "b", "a"]
    assert second["next_cursor"] is None


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"severity": "MEDIUM"}, 422),
        ({"status": "DONE"}, 422),
        ({"run": "x"}, 422),
        ({"hours": 0}, 422),
        ({"hours": 3, "from": "2026-01-01T00:00:00Z"}, 422),
        ({"source": "nobody"}, 422),
        ({"job": "nothing"}, 404),
        ({"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"}, 422),
        ({"cursor": "?"}, 422),
        ({"type": ""}, 422),
        ({"type": " _ "}, 422),
        ({"dataset": "nothing"}, 404),
    ],
    ids=lambda value: str(value),
)
async def test_what_cannot_be_asked_is_refused(judging: Judging, query: dict[str, str], status: int) -> None:
    assert (await judging.tenant.client.get(LIST, params=query)).status_code == status


async def test_who_changes_a_status_is_remembered_with_the_time_and_the_notes(judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    (found,) = await listed(judging)

    acknowledged = (await changed(judging, found["id"], status="ACKNOWLEDGED", notes="looking")).json()
    resolved = (await changed(judging, found["id"], status="RESOLVED", notes="source was late")).json()

    assert (acknowledged["status"], acknowledged["resolved_at"]) == ("ACKNOWLEDGED", None)
    assert (resolved["status"], resolved["resolution_notes"]) == ("RESOLVED", "source was late")
    assert resolved["resolved_by"]
    assert resolved["resolved_at"] is not None
    steps = [(change["from"], change["to"], change["notes"], change["by"]) for change in resolved["changes"]]
    by = resolved["resolved_by"]
    assert steps == [
        ("OPEN", "ACKNOWLEDGED", "looking", by),
        ("ACKNOWLEDGED", "RESOLVED", "source was late", by),
    ]
    assert (await judging.tenant.client.get(f"{LIST}/{found['id']}")).json() == resolved


async def test_one_that_is_opened_again_is_resolved_by_nobody(judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    (found,) = await listed(judging)
    await changed(judging, found["id"], status="RESOLVED", notes="fixed")
    assert (await changed(judging, found["id"], status="FALSE_POSITIVE")).json()["resolution_notes"] == "fixed"

    opened = (await changed(judging, found["id"], status="OPEN", notes="not fixed")).json()

    assert (opened["status"], opened["resolved_at"], opened["resolved_by"]) == ("OPEN", None, None)
    assert opened["resolution_notes"] is None
    assert [change["notes"] for change in opened["changes"]] == ["fixed", None, "not fixed"]


async def test_a_false_alarm_becomes_a_part_of_what_is_usual_and_can_be_taken_back(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])
    (found,) = await listed(judging)

    await changed(judging, found["id"], status="FALSE_POSITIVE")
    assert await judging.outside(run) == []
    await changed(judging, found["id"], status="OPEN")
    assert await judging.outside(run) == ["row_count"]


@pytest.mark.parametrize("status", ["OPEN", "ACKNOWLEDGED", "ALERTED", "RESOLVED"])
async def test_what_is_no_false_alarm_after_all_is_no_part_of_what_is_usual(judging: Judging, status: str) -> None:
    run = await judging.series([*USUAL, 12])
    (found,) = await listed(judging)
    await changed(judging, found["id"], status="FALSE_POSITIVE")
    await judging.detect(run)
    assert await judging.outside(run) == []

    await changed(judging, found["id"], status=status)

    assert await judging.outside(run) == ["row_count"]
    tasks = [task for task in await judging.tasks("CORRELATE") if task["resource_id"] == found["id"]]
    assert len(tasks) == 3
    assert {str(task["payload"]) for task in tasks} == {str({"kind": "anomaly", "anomaly_id": found["id"]})}
    await judging.detect(run)
    assert await judging.outside(run) == ["row_count"]


async def test_a_false_alarm_is_of_the_last_measurement_of_a_run_that_measured_the_same_twice(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])
    await judging.sent(a_load(NOW + timedelta(minutes=5), 12, run=run))
    await judging.work()
    (found,) = await listed(judging)

    await changed(judging, found["id"], status="FALSE_POSITIVE")
    assert await judging.outside(run) == []
    await changed(judging, found["id"], status="OPEN")
    assert await judging.outside(run) == ["row_count"]


async def test_a_false_alarm_stays_one_when_the_run_is_judged_again(judging: Judging) -> None:
    run = await judging.series([*USUAL, 12])
    (found,) = await listed(judging)
    await changed(judging, found["id"], status="FALSE_POSITIVE")

    await judging.detect(run)

    assert await judging.outside(run) == []
    (found,) = await listed(judging)
    assert found["status"] == "FALSE_POSITIVE"


@pytest.mark.parametrize(
    "body",
    [{}, {"status": "DONE"}, {"state": "OPEN"}, {"status": None}, {"expect": {"kind": "until"}},
     {"expect": {"kind": "once", "until": "2026-01-01T00:00:00Z"}}, {"notes": "a\0b"},
     {"expect": {"kind": "until", "until": "2001-01-01T00:00:00Z"}}],
    ids=str,
)  # fmt: skip
async def test_a_change_that_says_nothing_or_nonsense_is_refused(judging: Judging, body: Json) -> None:
    await judging.series([*USUAL, 12])
    (found,) = await listed(judging)

    assert (await changed(judging, found["id"], **body)).status_code == 422


async def test_an_anomaly_that_is_not_there_is_not_found(judging: Judging) -> None:
    response = await changed(judging, str(uuid4()), status="OPEN")

    assert (response.status_code, response.json()["code"]) == (404, "not_found")
    assert (await judging.tenant.client.get(f"{LIST}/{uuid4()}")).status_code == 404


async def test_what_a_person_expects_from_an_anomaly_is_no_anomaly_the_next_time(judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    (found,) = await listed(judging)
    until = (NOW + timedelta(days=3)).isoformat()

    response = await changed(judging, found["id"], status="RESOLVED", expect={"kind": "until", "until": until})
    assert response.status_code == 200, response.text
    run = await judging.sent(a_load(NOW + timedelta(hours=1), 11))
    await judging.detect(run)

    assert (await judging.verdicts(run))["row_count"]["state"] == "expected"
    assert len(await listed(judging)) == 1
    marks = (await judging.tenant.client.get("/api/v1/datasets/orders/expected")).json()["items"]
    assert [(mark["kind"], mark["metric"], mark["anomaly_id"]) for mark in marks] == [
        ("until", "row_count", found["id"])
    ]


async def test_that_more_is_expected_says_nothing_of_less(judging: Judging) -> None:
    await judging.series([*USUAL, 90_000])
    (found,) = await listed(judging)
    until = (NOW + timedelta(days=3)).isoformat()
    response = await changed(judging, found["id"], expect={"kind": "until", "until": until})
    assert response.status_code == 200, response.text
    for rows, hours in ((95_000, 1), (0, 2)):
        await judging.detect(await judging.sent(a_load(NOW + timedelta(hours=hours), rows)))

    assert sorted(each["type"] for each in await listed(judging)) == ["RowCountDrop", "RowCountSpike"]
    (mark,) = (await judging.tenant.client.get("/api/v1/datasets/orders/expected")).json()["items"]
    assert (mark["kind"], mark["side"]) == ("until", "spike")


async def test_what_is_expected_of_one_metric_says_nothing_of_the_others_unless_a_person_says_so(
    judging: Judging,
) -> None:
    for size in ("bytes", "all"):
        for day in range(8, 1, -1):
            load = a_load(NOW - timedelta(days=day), 1000 + day, table=size, job=size, size=100_000 + day)
            await judging.detect(await judging.sent(load))
        big = a_load(NOW - timedelta(days=1), 90_000, table=size, job=size, size=9_000_000)
        await judging.detect(await judging.sent(big))
        (rows,) = await listed(judging, dataset=size, type="RowCountSpike")
        expect = {"kind": "until", "until": (NOW + timedelta(days=3)).isoformat(), "all_metrics": size == "all"}
        assert (await changed(judging, rows["id"], expect=expect)).status_code == 200
        await judging.detect(
            await judging.sent(a_load(NOW, 95_000, table=size, job=size, size=9_500_000, run=RUNS[size]))
        )

    told = {size: {item["type"] for item in await listed(judging, run=RUNS[size])} for size in RUNS}
    assert told == {"bytes": {"VolumeSpike"}, "all": set()}
    (mark,) = (await judging.tenant.client.get("/api/v1/datasets/all/expected")).json()["items"]
    assert (mark["metric"], mark["column"], mark["partition_key"]) == (None, None, "")


async def test_the_summary_counts_the_last_hours_or_days_but_not_both(judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    await judging.db.execute(
        "UPDATE anomalies SET detected_at = now() - interval '30 hours' WHERE organization_id = $1",
        judging.organization_id,
    )

    async def asked(**query: int) -> httpx.Response:
        return await judging.tenant.client.get(f"{LIST}/stats/summary", params=query)

    totals = [(await asked(**query)).json() for query in ({"hours": 24}, {"hours": 48}, {"days": 2}, {})]
    assert [(each["days"], each["hours"], each["total"]) for each in totals] == [
        (None, 24, 0), (None, 48, 1), (2, None, 1), (30, None, 1),
    ]  # fmt: skip
    for wrong in ({"hours": 0}, {"hours": 8761}, {"days": 366}, {"hours": 24, "days": 1}):
        assert (await asked(**wrong)).status_code == 422, wrong
    assert (await asked(hours=8760)).status_code == 200


async def test_the_summary_counts_by_type_severity_status_and_day(judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    await judging.series([*USUAL, 90_000], table="returns", job="load_returns")
    (found,) = await listed(judging, dataset="returns")
    await changed(judging, found["id"], status="RESOLVED")

    summary = (await judging.tenant.client.get(f"{LIST}/stats/summary", params={"days": 7})).json()

    assert (summary["days"], summary["total"], summary["open"]) == (7, 2, 1)
    assert (summary["last_24h"], summary["last_7d"]) == (2, 2)
    assert summary["by_type"] == {"RowCountDrop": 1, "RowCountSpike": 1}
    assert summary["by_severity"] == {"INFO": 0, "WARNING": 1, "CRITICAL": 1}
    assert summary["by_status"]["OPEN"] == summary["by_status"]["RESOLVED"] == 1
    assert [day["count"] for day in summary["by_day"]] == [2]


async def test_nobody_sees_anomalies_of_another_organisation(new_judging: NewJudging, judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    (found,) = await listed(judging)
    other = (await new_judging()).tenant

    assert (await other.client.get(LIST)).json()["items"] == []
    assert (await other.client.get(f"{LIST}/{found['id']}")).status_code == 404
    assert (await other.client.patch(f"{LIST}/{found['id']}", json={"status": "RESOLVED"})).status_code == 404


async def test_the_series_of_a_dataset_brings_the_verdict_on_each_point(judging: Judging) -> None:
    await judging.series([*USUAL, 12])

    series = (await judging.tenant.client.get("/api/v1/datasets/orders/metrics")).json()["items"]

    newest, before = series[0], series[1]
    assert (newest["verdicts"]["row_count"]["state"], newest["anomalous"]) == ("anomalous", ["row_count"])
    assert newest["verdicts"]["row_count"]["low"] > 12
    assert "12" in newest["verdicts"]["row_count"]["reason"]
    assert (before["verdicts"]["row_count"]["state"], before["anomalous"]) == ("normal", [])
    assert series[-1]["verdicts"]["row_count"]["state"] == "learning"


async def test_the_view_shows_the_last_seven_days_with_the_columns_of_old(judging: Judging) -> None:
    await judging.series([*USUAL, 12])

    async with judging.database.tenant(judging.organization_id) as conn:
        (row,) = await conn.fetch("SELECT * FROM recent_anomalies")

    assert list(row.keys()) == [
        "dataset_name", "anomaly_type", "severity", "detected_at", "status", "description", "organization_id",
    ]  # fmt: skip
    assert (row["dataset_name"], row["anomaly_type"], row["status"]) == ("orders", "RowCountDrop", "OPEN")


async def test_nothing_can_be_expected_of_what_is_no_metric(judging: Judging) -> None:
    await judging.sent(a_load(datetime.now(UTC) - timedelta(hours=5)))
    await judging.tenant.client.put("/api/v1/datasets/orders/freshness-sla", json={"sla_hours": 1})
    await judging.watch()
    (found,) = await listed(judging)

    response = await changed(judging, found["id"], status="RESOLVED", expect={"kind": "once"})

    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert (await listed(judging))[0]["status"] == "OPEN"
