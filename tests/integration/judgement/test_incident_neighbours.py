"""What lies next to each other and is one problem, and what is two: by columns, by reasons, without producers."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event
from tests.support.incidents import DAY, HOUR, Shop, came_from, checked, wrote

NOT_NULL = ("not_null", "c", False)
TABLES = ("marts.all", "staging.t0", "staging.t1", "staging.t2")


async def three_branches(shop: Shop, *, columns: bool) -> None:
    """One table made of three, its column `c` of the first one's."""
    for each in range(3):
        lineage = came_from("c", (f"raw.t{each}", "c")) if columns else None
        await shop.send(*wrote(f"load{each}", 0, f"staging.t{each}", f"raw.t{each}", columns=lineage))
    whence = [came_from(name, (f"staging.t{each}", "c")) for each, name in enumerate(("c", "x1", "x2"))]
    made_of = {name: how for each in whence for name, how in each.items()} if columns else None
    await shop.send(*wrote("all", 600, "marts.all", *(f"staging.t{each}" for each in range(3)), columns=made_of))


async def tables_of(shop: Shop) -> set[frozenset[str]]:
    """The tables of each open incident."""
    return {
        frozenset(each["dataset"]["name"] for each in (await shop.get(f"/{incident['id']}"))["symptoms"])
        for incident in await shop.still_open()
    }


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5], ids=str)
async def test_what_a_failing_column_is_not_made_of_is_another_problem_in_whatever_order_they_fail(
    shop: Shop, order: tuple[int, ...]
) -> None:
    await three_branches(shop, columns=True)
    for second, each in enumerate(order):
        await shop.send_and_work(checked(TABLES[each], 1000 + second, NOT_NULL))

    assert await tables_of(shop) == {
        frozenset({"marts.all", "staging.t0"}), frozenset({"staging.t1"}), frozenset({"staging.t2"})
    }  # fmt: skip


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 0, 2, 3)], ids=["last first", "first first", "mixed"]
)
async def test_three_sources_that_fail_beside_each_other_are_three_problems_in_whatever_order(
    shop: Shop, order: tuple[int, ...]
) -> None:
    """No column tells which of them is behind what fails downstream: that is part of one of them."""
    await three_branches(shop, columns=False)
    for second, each in enumerate(order):
        await shop.send_and_work(checked(TABLES[each], 1000 + second, NOT_NULL))

    found = await tables_of(shop)
    assert len(found) == 3
    assert sorted(len(each) for each in found) == [1, 1, 2]


async def test_what_one_run_wrote_can_be_part_of_two_problems(shop: Shop) -> None:
    made_of = {**came_from("a", ("raw.x", "a")), **came_from("b", ("raw.y", "b"))}
    for day in range(5):
        is_last = day == 4
        await shop.send(*wrote("load_x", day * DAY, "raw.x", fields=["k"] if is_last else ["a", "k"]))
        await shop.send(*wrote("load_y", day * DAY, "raw.y", fields=["k"] if is_last else ["b", "k"]))
        await shop.send(*wrote("build", day * DAY + HOUR, "marts.m", "raw.x", "raw.y", columns=made_of))
    await shop.work()
    assert len(await shop.still_open()) == 2

    failures = [("not_null", column, False) for column in ("a", "b")]
    await shop.send_and_work(checked("marts.m", 4 * DAY + 2 * HOUR, *failures))

    found = [await shop.get(f"/{each['id']}") for each in await shop.still_open()]
    told = {
        each["cause"]["job"]["name"]: {(one["dataset"]["name"], one["column"]) for one in each["symptoms"]}
        for each in found
    }
    assert told["load_x"] >= {("marts.m", "a")}
    assert told["load_y"] >= {("marts.m", "b")}
    assert len(told) == 2


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_what_is_made_of_a_bad_source_is_part_of_its_problem_though_nobody_knows_who_writes_that(
    shop: Shop, order: tuple[int, ...]
) -> None:
    await shop.send(*wrote("stage", 0, "staging.t", "raw.t", columns=came_from("c", ("raw.t", "c"))))
    await shop.send(*wrote("build", 600, "marts.t", "staging.t", columns=came_from("c", ("staging.t", "c"))))
    tables = ("raw.t", "staging.t", "marts.t")
    for second, each in enumerate(order):
        await shop.send_and_work(checked(tables[each], 1000 + second, NOT_NULL))

    (found,) = await shop.still_open()
    assert found["symptom_count"] == 3
    assert found["cause"]["dataset"]["name"] == "raw.t", found["root_cause"]


@pytest.mark.parametrize("facet", ["dataQualityMetrics", "inputStatistics"])
async def test_what_readers_find_in_a_source_that_nobody_is_known_to_write_is_evidence(shop: Shop, facet: str) -> None:
    for day in range(10):
        rows = 100 if day == 9 else 1000 + day
        events = wrote("build", day * DAY, "marts.t", "raw.t", rows=rows - 10)
        events[-1]["inputs"] = [a_dataset("raw.t", inputFacets={facet: a_facet(rowCount=rows)})]
        await shop.send_and_work(*events)

    (found,) = await shop.still_open()
    assert found["cause"]["dataset"]["name"] == "raw.t", found["root_cause"]


async def test_what_nobody_had_seen_when_a_person_resolved_it_is_told(shop: Shop) -> None:
    now = datetime.now(UTC)

    def loaded(at: datetime, rows: int) -> Json:
        target = a_dataset("raw.t", outputFacets={"outputStatistics": a_facet(rowCount=rows)})
        return an_event(run=a_run_id(), job="load", time=at.isoformat(), outputs=[target])

    for day in range(20, 0, -1):
        await shop.send(loaded(now - timedelta(days=day), 1000 + day))
    await shop.send(loaded(now - timedelta(hours=2), 2500))
    await shop.work()
    first = await shop.incident()
    await shop.set_status(first, "resolved", reason="a reload")

    # It had ended before that, and is heard of after it.
    await shop.send_and_work(loaded(now - timedelta(minutes=5), 0))

    found = await shop.incident()
    assert found["status"] == "open"
    assert found["kind"] == "RowCountDrop"
    assert [each for each in await shop.alerts() if each[1] == "RowCountDrop"] == [("SYMPTOM", "RowCountDrop")]


async def test_an_incident_is_told_by_what_is_still_wrong(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.t"))
    both = [("not_null", column, False) for column in ("x", "y")]
    await shop.send_and_work(checked("marts.t", 60, *both))
    assert "column 'x'" in (await shop.incident())["title"]

    await shop.send_and_work(checked("marts.t", 120, ("not_null", "x", True), ("not_null", "y", False)))

    found = await shop.incident()
    assert (found["status"], found["column"]) == ("open", "y")
    assert "column 'y'" in found["title"]
    sentences = [each["sentence"] for each in (await shop.get("/1/timeline"))["items"]]
    assert "well again: test 'not_null' of column 'x' failed on marts.t (the test passes again)" in sentences


async def test_a_source_is_found_by_its_name_of_now(shop: Shop) -> None:
    """Though nobody is known to write it, and something failed on it under another name."""
    rule = {"pattern": "postgres://db/old.{t}", "canonical": "postgres://db/raw.{t}"}
    await shop.send(*wrote("stage", 0, "staging.t", "raw.t"))
    await shop.send_and_work(checked("old.t", 600, NOT_NULL))
    made = await shop.tenant.client.post("/api/v1/aliases", json=rule)
    assert made.status_code == 201, made.text
    await shop.work()

    await shop.send_and_work(checked("raw.t", 700, ("unique", "c", False)), checked("staging.t", 800, NOT_NULL))

    assert await tables_of(shop) == {frozenset({"raw.t", "staging.t"})}
