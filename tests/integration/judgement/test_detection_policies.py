"""How series are judged where an organisation says so: for a dataset, for names that begin alike, for all."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from headgate.server.anomalies.judging.rules import load_rules
from tests.support.anomalies import NOW, Judging, NewJudging, a_load, days_ago
from tests.support.events import Json, a_dataset, an_event, with_schema

USUAL = [1000, 1010, 990, 1005, 995, 1002, 998]
POLICIES = "/api/v1/detection-policies"
DEFAULTS = {
    "enabled": True, "method": "sigma", "sigma": 3.0, "min_points": 5, "window_days": 30, "drop_share": None,
    "floor_share": None, "seasonality": "auto", "small_sample": True, "spike_severity": None, "drop_severity": None,
}  # fmt: skip


@pytest.fixture
async def judging(new_judging: NewJudging) -> Judging:
    """An organisation with a dataset."""
    judging = await new_judging()
    await judging.sent(a_load(days_ago(40), 1))
    return judging


async def post(judging: Judging, **policy: Any) -> httpx.Response:
    return await judging.tenant.client.post(POLICIES, json=policy)


async def set_policy(judging: Judging, **policy: Any) -> Json:
    response = await post(judging, **policy)
    assert response.status_code == 201, response.text
    made: Json = response.json()
    return made


async def effective(judging: Judging, metric: str = "row_count", dataset: str = "orders") -> Json:
    response = await judging.tenant.client.get(f"/api/v1/datasets/{dataset}/detection-policy")
    assert response.status_code == 200, response.text
    found: Json = response.json()["metrics"][metric]
    return found


@pytest.mark.parametrize("share", [None, 0.5])
async def test_a_drop_share_that_is_set_counts_without_exceptions_and_none_is_told_as_such(
    judging: Judging, share: float | None
) -> None:
    made = await set_policy(judging, dataset="orders", metric="row_count", drop_share=share)
    assert (made["drop_share"], (await effective(judging))["drop_share"]) == (share, share)
    # What chance makes of a few rows.
    await judging.series([8, 3, 5, 9, 4, 6, 7, 2])

    assert await judging.types() == ([] if share is None else ["RowCountDrop"])


async def test_without_a_policy_the_defaults_count(judging: Judging) -> None:
    assert await effective(judging) == DEFAULTS | {"policy_id": None, "policy": None}


async def test_a_policy_can_be_read_changed_and_removed(judging: Judging) -> None:
    made = await set_policy(judging, dataset="sales_*", metric="row_count", sigma=4, description="noisy")
    assert {name: made[name] for name in DEFAULTS} == DEFAULTS | {"sigma": 4.0}
    assert (made["dataset"], made["dataset_id"], made["metric"]) == ("sales_*", None, "row_count")
    assert (made["description"], made["created_by"] is not None) == ("noisy", True)

    client, path = judging.tenant.client, f"{POLICIES}/{made['id']}"
    assert (await client.get(path)).json() == made
    assert [item["id"] for item in (await client.get(POLICIES)).json()["items"]] == [made["id"]]
    changed = (await client.put(path, json={"dataset": "*", "enabled": False})).json()
    assert (changed["dataset"], changed["metric"], changed["enabled"], changed["sigma"]) == ("*", None, False, 3.0)
    assert (await client.delete(path)).status_code == 204
    assert (await client.delete(path)).status_code == 404
    assert (await client.get(path)).status_code == 404
    assert (await client.put(path, json={"dataset": "*"})).status_code == 404


async def test_the_most_specific_policy_counts(judging: Judging) -> None:
    settings = [
        {"dataset": "*"},
        {"dataset": "*", "metric": "row_count"},
        {"dataset": "ord*"},
        {"dataset": "order*", "metric": "byte_size"},
        {"dataset": "orders", "metric": "byte_size"},
        {"dataset": "customers_*", "metric": "row_count"},
    ]
    ids = [(await set_policy(judging, **each))["id"] for each in settings]

    assert (await effective(judging, "row_count"))["policy_id"] == ids[2]
    assert (await effective(judging, "byte_size"))["policy_id"] == ids[4]
    assert (await effective(judging, "null_share"))["policy"] == "ord*"
    assert (await effective(judging, "byte_size"))["policy"].endswith("/orders")


@pytest.mark.parametrize("pattern", ["ORD*", "postgres://db/ord*", "postgres://*"])
async def test_a_pattern_is_the_beginning_of_a_name_or_of_a_urn_in_any_case(judging: Judging, pattern: str) -> None:
    made = await set_policy(judging, dataset=pattern, sigma=9)

    assert (await effective(judging))["policy_id"] == made["id"]


async def test_two_policies_for_the_same_are_one_too_many(judging: Judging) -> None:
    await set_policy(judging, dataset="orders", metric="row_count")
    response = await post(judging, dataset="postgres://db:5432/orders", metric="row_count")

    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    await set_policy(judging, dataset="*")
    assert (await post(judging, dataset="*")).status_code == 409


async def test_patterns_that_differ_in_case_only_are_the_same(judging: Judging) -> None:
    made = await set_policy(judging, dataset="sales_*", metric="row_count")
    await set_policy(judging, dataset="SALES_*", metric="byte_size")
    other = await set_policy(judging, dataset="returns_*", metric="row_count")
    client = judging.tenant.client

    assert (await post(judging, dataset="SALES_*", metric="row_count")).status_code == 409
    again = {"dataset": "Sales_*", "metric": "row_count"}
    assert (await client.put(f"{POLICIES}/{other['id']}", json=again)).status_code == 409
    assert (await client.put(f"{POLICIES}/{made['id']}", json=again)).json()["dataset"] == "Sales_*"


async def test_of_two_patterns_that_say_as_much_the_older_counts(judging: Judging) -> None:
    older = await set_policy(judging, dataset="post*", sigma=7)
    await set_policy(judging, dataset="orde*", sigma=8)
    assert (await effective(judging))["policy_id"] == older["id"]

    # Rows that are changed are stored behind the others.
    changed = {"dataset": "post*", "sigma": 9}
    assert (await judging.tenant.client.put(f"{POLICIES}/{older['id']}", json=changed)).status_code == 200

    assert (await effective(judging))["sigma"] == 9


@pytest.mark.parametrize("metric", ["freshness", "schema", "stuck"])
async def test_what_is_judged_without_a_band_can_only_be_switched_off(judging: Judging, metric: str) -> None:
    response = await post(judging, dataset="*", metric=metric, sigma=5, min_points=9)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == ["sigma", "min_points"]
    assert metric in response.json()["errors"][0]["message"]

    made = await set_policy(judging, dataset="*", metric=metric, enabled=False, description="loud")
    # What an answer says can be sent back.
    body = {name: made[name] for name in ("dataset", "metric", "description", *DEFAULTS)}
    response = await judging.tenant.client.put(f"{POLICIES}/{made['id']}", json=body)
    assert response.status_code == 200, response.text


@pytest.mark.parametrize(
    ("policy", "status"),
    [
        ({"dataset": "*", "sigma": 0}, 422),
        ({"dataset": "*", "sigma": "NaN"}, 422),
        ({"dataset": "*", "min_points": 1}, 422),
        ({"dataset": "*", "window_days": 366}, 422),
        ({"dataset": "*", "window_days": True}, 422),
        ({"dataset": "*", "sigma": True}, 422),
        ({"dataset": "*", "drop_share": 0}, 422),
        ({"dataset": "*", "method": "magic"}, 422),
        ({"dataset": "*", "metric": "mood"}, 422),
        ({"dataset": "*", "spike_severity": "MEDIUM"}, 422),
        ({"dataset": "*", "unknown": 1}, 422),
        ({"dataset": "a*b"}, 422),
        ({"dataset": ""}, 422),
        ({}, 422),
        ({"dataset": "no such dataset"}, 404),
    ],
    ids=str,
)
async def test_a_policy_that_makes_no_sense_is_refused(judging: Judging, policy: Json, status: int) -> None:
    response = await post(judging, **policy)

    assert response.status_code == status, response.text
    assert (await judging.tenant.client.get(POLICIES)).json()["items"] == []


async def test_what_is_switched_off_is_not_judged(judging: Judging) -> None:
    await set_policy(judging, dataset="orders", metric="row_count", enabled=False)
    run = await judging.series([*USUAL, 12])

    assert await judging.anomalies() == []
    assert (await judging.verdicts(run))["row_count"]["state"] == "off"


async def test_a_wider_band_lets_more_pass_and_a_severity_is_taken_over(judging: Judging) -> None:
    await judging.series(USUAL, until=days_ago(1))
    await set_policy(judging, dataset="orders", sigma=20, small_sample=False, spike_severity="INFO")
    mild = await judging.sent(a_load(NOW, 1400))
    wild = await judging.sent(a_load(NOW + timedelta(hours=1), 90_000))
    await judging.detect(mild, wild)

    assert (await judging.verdicts(mild))["row_count"]["state"] == "normal"
    assert [(row["anomaly_type"], row["severity"]) for row in await judging.anomalies()] == [("RowCountSpike", "INFO")]


async def test_a_percentile_band_can_be_asked_for(judging: Judging) -> None:
    await judging.series(USUAL, until=days_ago(1))
    await set_policy(judging, dataset="*", metric="row_count", method="percentile")
    run = await judging.sent(a_load(NOW, 1001))
    await judging.detect(run)

    assert (await judging.verdicts(run))["row_count"]["method"].startswith("percentile")


async def test_a_longer_window_reaches_further_back(judging: Judging) -> None:
    await judging.series(USUAL, until=days_ago(60))
    await set_policy(judging, dataset="*", window_days=90)
    run = await judging.sent(a_load(NOW, 12))
    await judging.detect(run)

    assert (await judging.verdicts(run))["row_count"]["state"] == "anomalous"


async def test_changes_of_schemas_can_be_switched_off(judging: Judging) -> None:
    await set_policy(judging, dataset="orders", metric="schema", enabled=False)
    for columns in (("id", "email"), ("id",)):
        for table in ("orders", "returns"):
            await judging.sent(an_event(outputs=[a_dataset(table, facets=with_schema(*columns))], job=table))
            await judging.work()

    assert [row["dataset"] for row in await judging.anomalies()] == ["returns"]


async def test_nobody_sees_or_changes_policies_of_another_organisation(
    judging: Judging, new_judging: NewJudging
) -> None:
    made = await set_policy(judging, dataset="*", enabled=False)
    other = await new_judging()
    client, path = other.tenant.client, f"{POLICIES}/{made['id']}"

    assert (await client.get(POLICIES)).json()["items"] == []
    assert (await client.get(path)).status_code == 404
    assert (await client.delete(path)).status_code == 404
    run = await other.series([*USUAL, 12])
    assert (await other.verdicts(run))["row_count"]["state"] == "anomalous"


async def expected(judging: Judging, **mark: Any) -> httpx.Response:
    return await judging.tenant.client.post("/api/v1/datasets/orders/expected", json=mark)


@pytest.mark.parametrize(
    "mark",
    [
        {"kind": "once", "at": NOW.isoformat()},
        {"kind": "weekday", "weekday": NOW.weekday()},
        {"kind": "until", "until": (NOW + timedelta(days=1)).isoformat()},
        {"kind": "once", "at": NOW.isoformat(), "metric": "row_count"},
    ],
    ids=["once", "weekday", "until", "of a metric"],
)
async def test_what_a_person_expects_is_no_anomaly(judging: Judging, mark: Json) -> None:
    await judging.series(USUAL, until=days_ago(8))
    response = await expected(judging, **mark)
    assert response.status_code == 201, response.text
    run = await judging.sent(a_load(NOW, 12))
    await judging.detect(run)

    assert (await judging.verdicts(run))["row_count"]["state"] == "expected"
    assert await judging.anomalies() == []


@pytest.mark.parametrize(
    "mark",
    [
        {"kind": "once", "at": days_ago(2).isoformat()},
        {"kind": "weekday", "weekday": days_ago(1).weekday()},
        {"kind": "until", "until": (NOW + timedelta(days=2)).isoformat(), "at": (NOW + timedelta(days=1)).isoformat()},
        {"kind": "once", "at": NOW.isoformat(), "metric": "byte_size"},
        {"kind": "once", "at": NOW.isoformat(), "partition_key": "elsewhere"},
    ],
    ids=["another day", "another weekday", "later", "another metric", "another partition"],
)
async def test_what_is_expected_elsewhere_says_nothing(judging: Judging, mark: Json) -> None:
    await judging.series(USUAL, until=days_ago(8))
    assert (await expected(judging, **mark)).status_code == 201
    await judging.detect(await judging.sent(a_load(NOW, 12)))

    assert await judging.types() == ["RowCountDrop"]


@pytest.mark.parametrize(
    "mark",
    [
        {"kind": "once"},
        {"kind": "weekday"},
        {"kind": "weekday", "weekday": 7},
        {"kind": "until"},
        {"kind": "sometimes", "at": NOW.isoformat()},
        {"kind": "once", "at": NOW.isoformat(), "weekday": 1},
        {"kind": "once", "at": "2026-01-01"},
        {"kind": "once", "at": NOW.isoformat(), "metric": "mood"},
        {"kind": "weekday", "weekday": True},
    ],
    ids=str,
)
async def test_a_mark_that_makes_no_sense_is_refused(judging: Judging, mark: Json) -> None:
    assert (await expected(judging, **mark)).status_code == 422


@pytest.mark.parametrize(
    ("mark", "path"),
    [
        ({"metric": "row_count", "column": "x"}, "column"),
        ({"metric": "duration_ms", "partition_key": "day=1"}, "partition_key"),
        ({"metric": "rows_quarantined", "side": "drop"}, "side"),
    ],
    ids=["a column of a table's metric", "a partition of a run's metric", "a side that is never told"],
)
async def test_a_mark_that_no_value_can_fit_is_refused(judging: Judging, mark: Json, path: str) -> None:
    await judging.sent(a_load(NOW, 12))
    response = await expected(judging, kind="weekday", weekday=1, **mark)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [path]
    assert "leave" in response.json()["hint"]


@pytest.mark.parametrize(
    "mark",
    [{"column": "x"}, {"metric": "null_share", "column": "x"}, {"metric": "duration_ms", "partition_key": ""}],
    ids=str,
)
async def test_a_mark_that_some_value_can_fit_is_taken(judging: Judging, mark: Json) -> None:
    await judging.sent(a_load(NOW, 12))
    assert (await expected(judging, kind="weekday", weekday=1, **mark)).status_code == 201


@pytest.mark.parametrize(("side", "told"), [("drop", []), ("spike", ["RowCountDrop"]), (None, [])])
async def test_a_mark_may_be_of_one_side(judging: Judging, side: str | None, told: list[str]) -> None:
    await judging.series(USUAL, until=days_ago(8))
    made = await expected(judging, kind="once", at=NOW.isoformat(), side=side)
    assert made.json()["side"] == side
    await judging.detect(await judging.sent(a_load(NOW, 12)))

    assert await judging.types() == told


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ({"until": days_ago(1).isoformat()}, "past"),
        ({"until": days_ago(1).isoformat(), "at": days_ago(3).isoformat()}, "past"),
        ({"until": (NOW + timedelta(days=1)).isoformat(), "at": (NOW + timedelta(days=2)).isoformat()}, "before `at`"),
    ],
    ids=["over", "begun and over", "before it begins"],
)
async def test_an_end_that_cannot_be_is_refused(judging: Judging, mark: Json, told: str) -> None:
    response = await expected(judging, kind="until", **mark)

    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["path"] == "until"
    assert told in error["message"]


async def test_only_marks_that_can_still_matter_are_loaded(judging: Judging) -> None:
    past: dict[str, Json] = {"once": {"at": days_ago(450)}, "until": {"until": days_ago(450), "at": days_ago(460)}}
    near: dict[str, Json] = {"once": {"at": days_ago(20)}, "until": {"until": days_ago(20)}, "weekday": {"weekday": 0}}
    orders = await judging.dataset_id()
    for kind, mark in (*past.items(), *near.items()):
        values = {"organization_id": judging.organization_id, "dataset_id": orders, "kind": kind, **mark}
        places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
        await judging.db.execute(
            f"INSERT INTO expected_marks ({', '.join(values)}) VALUES ({places})", *values.values()
        )

    async def loaded(since: datetime | None = None) -> list[str]:
        async with judging.database.tenant(judging.organization_id) as conn:
            rules = await load_rules(conn, judging.organization_id, [orders], since)
        return sorted(mark.kind for mark in rules.marks(orders, "row_count", None, ""))

    assert await loaded() == sorted(near)
    assert await loaded(days_ago(60)) == sorted([*past, *near]), "history is judged with what was said of it"


async def test_a_mark_of_long_ago_counts_for_what_is_judged_of_then(judging: Judging) -> None:
    await judging.series(USUAL, until=days_ago(101))
    assert (await expected(judging, kind="once", at=days_ago(100).isoformat())).status_code == 201
    run = await judging.sent(a_load(days_ago(100), 12))
    await judging.detect(run)

    assert (await judging.verdicts(run))["row_count"]["state"] == "expected"


async def test_what_a_person_expected_of_a_weekly_table_does_not_become_usual(new_judging: NewJudging) -> None:
    judging, weeks = await new_judging(), [days_ago(7 * back) for back in range(19, -1, -1)]
    usual = [1000 + 7 * week % 19 for week in range(18)]
    for at, rows in zip(weeks[:13], usual, strict=False):
        await judging.sent(a_load(at, rows))
    assert (await expected(judging, kind="once", at=weeks[13].isoformat())).status_code == 201
    for at, rows in zip(weeks[13:], [50_000, *usual[13:], 50_500], strict=True):
        run = await judging.sent(a_load(at, rows))
        await judging.work()

    verdict = (await judging.verdicts(run))["row_count"]
    assert (verdict["state"], verdict["type"]) == ("anomalous", "RowCountSpike"), verdict["reason"]


async def test_what_a_person_expected_stays_out_of_what_is_usual_when_the_mark_is_taken_back(judging: Judging) -> None:
    await judging.series([1000, 1010, 990, 1005, 995, 1002, 998, 1004] * 2, until=days_ago(8))
    mark = (await expected(judging, kind="weekday", weekday=days_ago(7).weekday())).json()
    run = await judging.sent(a_load(days_ago(7), 10))
    await judging.detect(run)
    assert (await judging.verdicts(run))["row_count"]["state"] == "expected"
    assert await judging.outside(run) == ["row_count"]

    path = f"/api/v1/datasets/orders/expected/{mark['id']}"
    assert (await judging.tenant.client.delete(path)).status_code == 204
    last = await judging.series([1000, 1001, 999, 1002, 998, 1000, 11])

    assert (await judging.verdicts(last))["row_count"]["state"] == "anomalous"
    assert await judging.types() == ["RowCountDrop"]


async def test_a_mark_can_be_listed_and_taken_back(judging: Judging) -> None:
    made = (await expected(judging, kind="weekday", weekday=0, note="closed on Mondays")).json()
    client, path = judging.tenant.client, "/api/v1/datasets/orders/expected"

    assert (await client.get(path)).json() == {"items": [made], "next_cursor": None}
    assert (made["note"], made["weekday"], made["metric"]) == ("closed on Mondays", 0, None)
    assert (await client.delete(f"{path}/{made['id']}")).status_code == 204
    assert (await client.delete(f"{path}/{uuid4()}")).status_code == 404
    assert (await client.get(path)).json()["items"] == []
