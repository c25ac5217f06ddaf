"""Datasets that turn out to be one: what was judged of both, and what it was before when that is taken back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from tests.support.anomalies import NOW, Judging, a_load, days_ago
from tests.support.graphs import RandomGraph

USUAL = [1000, 1010, 990, 1005, 995, 1002, 998]


async def merged(judging: Judging) -> UUID:
    """Make one of `orders`, which stays, and `orders_v2`, which goes."""
    kept, gone = await judging.dataset_id(), await judging.dataset_id("orders_v2")
    async with judging.database.tenant(judging.organization_id) as conn:
        merge: UUID = await conn.fetchval(
            "SELECT merge_datasets($1, $2, $3, 'symlink', NULL)", judging.organization_id, kept, gone
        )
    return merge


async def undone(judging: Judging, merge: UUID) -> None:
    async with judging.database.tenant(judging.organization_id) as conn:
        await conn.execute("SELECT undo_dataset_merge($1, $2)", judging.organization_id, merge)


async def of(judging: Judging, table: str) -> dict[str, list[Any]]:
    """Rows of a table by what their dataset is called."""
    rows = await judging.rows(
        f"""SELECT d.name, t.* FROM {table} t JOIN datasets d USING (organization_id)
             WHERE t.organization_id = $1 AND d.id = t.dataset_id"""
    )
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row["name"], []).append(row)
    return found


async def test_anomalies_policies_and_marks_go_with_their_dataset_and_come_back(judging: Judging) -> None:
    await judging.series([*USUAL, 12])
    await judging.series([*USUAL, 90_000], table="orders_v2", job="other")
    client = judging.tenant.client
    await client.post("/api/v1/detection-policies", json={"dataset": "orders_v2", "sigma": 5})
    await client.post("/api/v1/datasets/orders_v2/expected", json={"kind": "weekday", "weekday": 1})
    tables = ("anomalies", "detection_policies", "expected_marks")

    merge = await merged(judging)
    after = {table: {name: len(rows) for name, rows in (await of(judging, table)).items()} for table in tables}
    assert after == {"anomalies": {"orders": 2}, "detection_policies": {"orders": 1}, "expected_marks": {"orders": 1}}

    await undone(judging, merge)
    back = {table: {name: len(rows) for name, rows in (await of(judging, table)).items()} for table in tables}
    assert back == {
        "anomalies": {"orders": 1, "orders_v2": 1},
        "detection_policies": {"orders_v2": 1},
        "expected_marks": {"orders_v2": 1},
    }


async def test_where_both_have_a_policy_for_the_same_the_survivors_counts(judging: Judging) -> None:
    await judging.sent(a_load(days_ago(2), 1), a_load(days_ago(1), 1, table="orders_v2"))
    for dataset, sigma in (("orders", 4), ("orders_v2", 5)):
        policy = {"dataset": dataset, "sigma": sigma, "metric": "row_count"}
        assert (await judging.tenant.client.post("/api/v1/detection-policies", json=policy)).status_code == 201

    merge = await merged(judging)
    assert [row["sigma"] for row in (await of(judging, "detection_policies"))["orders"]] == [4]

    await undone(judging, merge)
    found = await of(judging, "detection_policies")
    assert {name: [row["sigma"] for row in rows] for name, rows in found.items()} == {"orders": [4], "orders_v2": [5]}


async def test_a_run_that_wrote_both_has_one_anomaly_after_the_merge(judging: Judging) -> None:
    for back, rows in enumerate([*USUAL, 12]):
        event = a_load(days_ago(7 - back), rows)
        twin = a_load(days_ago(7 - back), rows, table="orders_v2")
        event["outputs"] += twin["outputs"]
        await judging.detect(await judging.sent(event))
    assert await judging.types() == ["RowCountDrop", "RowCountDrop"]

    merge = await merged(judging)
    assert await judging.types() == ["RowCountDrop"]
    await undone(judging, merge)
    assert await judging.types() == ["RowCountDrop", "RowCountDrop"]


async def test_verdicts_move_with_their_measurements_also_if_they_are_judged_after_the_merge(judging: Judging) -> None:
    await judging.sent(a_load(days_ago(3), 5))
    runs = [await judging.sent(a_load(days_ago(back), 5, table="orders_v2")) for back in (2, 1)]
    await judging.detect(runs[0])

    merge = await merged(judging)
    await judging.detect(runs[1])
    assert {name: len(rows) for name, rows in (await of(judging, "dataset_metrics")).items()} == {"orders": 3}

    await undone(judging, merge)
    found = await of(judging, "dataset_metrics")
    assert {name: len(rows) for name, rows in found.items()} == {"orders": 1, "orders_v2": 2}
    assert "row_count" in await judging.verdicts(runs[0])


async def test_what_a_person_did_to_an_anomaly_meanwhile_stays(judging: Judging) -> None:
    await judging.sent(a_load(days_ago(30), 5))
    await judging.series([*USUAL, 12], table="orders_v2")
    (found,) = await judging.anomalies()
    merge = await merged(judging)
    path = f"/api/v1/anomalies/{found['id']}"
    assert (await judging.tenant.client.patch(path, json={"status": "RESOLVED"})).status_code == 200

    await undone(judging, merge)

    (found,) = await judging.anomalies()
    assert (found["dataset"], found["status"]) == ("orders_v2", "RESOLVED")


async def test_after_a_merge_the_survivor_is_watched_and_after_undo_both_are(judging: Judging) -> None:
    await judging.detect(await judging.sent(a_load(NOW, 5)))
    await judging.detect(await judging.sent(a_load(NOW, 5, table="orders_v2")))

    merge = await merged(judging)
    assert set(await of(judging, "watched_datasets")) == {"orders"}
    await undone(judging, merge)
    assert set(await of(judging, "watched_datasets")) == {"orders", "orders_v2"}


class JudgedGraph(RandomGraph):
    """A graph of which something was judged, so that any two datasets collide in these tables, too."""

    async def write(self) -> None:
        await super().write()
        for dataset_id in self.datasets:
            for run_id in [*self.runs, None]:
                await self._anomaly(dataset_id, run_id)
            for metric in ("", "row_count"):
                if self._chance(0.6):
                    await self._policy(dataset_id, metric)
            if self._chance(0.6):
                await self._insert("expected_marks", dataset_id=dataset_id, kind="weekday", weekday=1)

    async def _anomaly(self, dataset_id: UUID, run_id: UUID | None) -> None:
        if self._chance(0.5):
            await self._insert(
                "anomalies", dataset_id=dataset_id, run_id=run_id, severity="WARNING", source="detector",
                anomaly_type=self._random.choice(["RowCountDrop", "VolumeDrop"]), observed_at=self._time(),
                description="few", column_name=self._maybe("id"), occasion=self._maybe("once") or "",
            )  # fmt: skip

    async def _policy(self, dataset_id: UUID, metric: str) -> None:
        await self._insert(
            "detection_policies", dataset_id=dataset_id, metric=metric, enabled=True, method="sigma", min_points=5,
            sigma=float(self._random.randrange(1, 9)), window_days=30, drop_share=0.5, seasonality="auto",
            small_sample=True,
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
async def test_a_merge_that_is_undone_leaves_everything_as_it_was(judging: Judging, seed: int) -> None:
    graph = JudgedGraph(judging.db, judging.organization_id, seed, prefix=f"s{seed}")
    await graph.write()
    before = await everything(judging)
    kept, gone, third, *_ = graph.datasets

    async with judging.database.tenant(judging.organization_id) as conn:
        merges = [
            await conn.fetchval("SELECT merge_datasets($1, $2, $3, 'manual', NULL)", judging.organization_id, *pair)
            for pair in ((kept, gone), (kept, third))
        ]
    merged = await everything(judging)
    survivors = await judging.rows(
        "SELECT id FROM datasets WHERE organization_id = $1 AND merged_into IS NULL AND id = ANY ($2::uuid[])",
        [kept, gone, third],
    )
    lost = {str(each) for each in (kept, gone, third)} - {str(row["id"]) for row in survivors}
    assert [row for rows in merged.values() for row in rows if any(name in row for name in lost)] == []
    for merge in reversed(merges):
        await undone(judging, merge)

    assert await everything(judging) == before


async def everything(judging: Judging) -> dict[str, list[str]]:
    tables = ("anomalies", "detection_policies", "expected_marks")
    return {
        table: [
            row["row"]
            for row in await judging.rows(
                f"SELECT to_jsonb(t)::text AS row FROM {table} t WHERE organization_id = $1 ORDER BY 1"
            )
        ]
        for table in tables
    }
