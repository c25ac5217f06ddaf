"""Lineage that ends: retired edges, dropped and renamed datasets, and the graph as it was at a moment."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.events import T0, Json, a_dataset, a_facet, an_event, at
from tests.support.lineage import (
    DAY,
    a_change,
    a_dataset_event,
    a_flow,
    changed,
    dataset_id,
    depths,
    edges,
    flows,
    lineage,
)
from tests.support.server import Server, Tenant


async def upstream(tenant: Tenant, name: str, second: float | None = None) -> set[str]:
    """The edges above a dataset, now or as of some second."""
    query: dict[str, Any] = {} if second is None else {"as_of": at(second)}
    return edges(await lineage(tenant, name, "upstream", **query))


async def test_an_edge_that_its_job_no_longer_shows_is_retired_after_30_days(server: Server) -> None:
    send = server.tenant.send_ok
    await send(a_flow("a, b > c", job="j"), a_flow("b > c", job="j", second=30 * DAY))
    assert await upstream(server.tenant, "c") == {"a>c", "b>c"}
    await send(a_flow("b > c", job="j", second=30 * DAY + 1))
    assert await upstream(server.tenant, "c") == {"b>c"}
    assert depths(await lineage(server.tenant, "a", "downstream")) == {"a": 0}


async def test_a_job_that_only_fails_retires_nothing(server: Server) -> None:
    await server.tenant.send_ok(a_flow("a > c", job="j"), a_flow("b > c", job="j", second=40 * DAY, event_type="FAIL"))
    assert await upstream(server.tenant, "c") == {"a>c", "b>c"}


async def test_a_retired_edge_comes_back_when_it_is_seen_again(server: Server) -> None:
    await server.tenant.send_ok(
        a_flow("a > c", job="j"), a_flow("b > c", job="j", second=40 * DAY), a_flow("a > c", job="j", second=41 * DAY)
    )
    assert await upstream(server.tenant, "c") == {"a>c", "b>c"}


async def test_as_of_shows_what_had_been_seen_by_then(server: Server) -> None:
    await server.tenant.send_ok(a_flow("a > c", job="j"), a_flow("b > c", job="j", second=40 * DAY))
    assert await upstream(server.tenant, "c", -1) == set()
    assert await upstream(server.tenant, "c", 0) == {"a>c"}
    assert await upstream(server.tenant, "c", 40 * DAY - 1) == {"a>c"}
    assert await upstream(server.tenant, "c", 40 * DAY) == {"b>c"}
    past = await lineage(server.tenant, "c", "upstream", as_of=at(-1))
    assert [(node["name"], node["external"]) for node in past["nodes"]] == [("c", True)]


async def test_a_dropped_dataset_takes_its_edges_along(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c", "c > d")
    await server.tenant.send_ok(a_change(changed("b", "DROP"), second=10))
    assert depths(await lineage(server.tenant, "a", "downstream")) == {"a": 0}
    assert depths(await lineage(server.tenant, "d", "upstream")) == {"d": 0, "c": 1}
    root = await lineage(server.tenant, "b")
    assert (depths(root), root["edges"], root["hidden"]) == ({"b": 0}, [], 0)


async def test_a_dropped_datasets_past_can_be_read_by_name_and_id(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c")
    known_as = await dataset_id(server.tenant, "b")
    await server.tenant.send_ok(a_change(changed("b", "DROP"), second=10))
    for name in ("b", known_as):
        before = await lineage(server.tenant, name, as_of=at(9))
        assert (depths(before), edges(before)) == ({"b": 0, "a": 1, "c": 1}, {"a>b", "b>c"})
        assert depths(await lineage(server.tenant, name, as_of=at(10))) == {"b": 0}
    assert depths(await lineage(server.tenant, "a", "downstream", as_of=at(9))) == {"a": 0, "b": 1, "c": 2}


async def test_a_dataset_that_is_written_again_is_there_again(server: Server) -> None:
    await flows(server.tenant, "a > b", "b > c")
    await server.tenant.send_ok(a_change(changed("b", "DROP"), second=10), a_flow("a > b", second=20))
    assert depths(await lineage(server.tenant, "a", "downstream")) == {"a": 0, "b": 1, "c": 2}
    assert depths(await lineage(server.tenant, "a", "downstream", as_of=at(15))) == {"a": 0}
    assert depths(await lineage(server.tenant, "a", "downstream", as_of=at(25))) == {"a": 0, "b": 1, "c": 2}


async def test_a_drop_that_arrives_late_does_not_undo_a_later_write(server: Server) -> None:
    await server.tenant.send_ok(a_flow("a > b", second=20), a_change(changed("b", "DROP"), second=10))
    assert await upstream(server.tenant, "b") == {"a>b"}


async def test_a_renamed_dataset_keeps_what_it_was_made_of(server: Server) -> None:
    await flows(server.tenant, "raw > old", "older > raw", "old > report")
    old = await dataset_id(server.tenant, "old")
    await server.tenant.send_ok(a_change(changed("new", "RENAME", "old"), second=10))
    answer = await lineage(server.tenant, "new", "upstream")
    assert depths(answer) == {"new": 0, "raw": 1, "older": 2}
    assert {edge["job"]["name"] for edge in answer["edges"]} == {"raw>old", "older>raw"}
    assert not answer["nodes"][0]["external"]
    assert depths(await lineage(server.tenant, "raw", "downstream")) == {"raw": 0, "new": 1}
    assert depths(await lineage(server.tenant, old)) == {"old": 0}


async def test_before_a_rename_the_old_name_has_the_lineage(server: Server) -> None:
    await flows(server.tenant, "raw > old", "old > report")
    await server.tenant.send_ok(a_change(changed("new", "RENAME", "old"), second=10))
    before = await lineage(server.tenant, "old", as_of=at(9))
    assert depths(before) == {"old": 0, "raw": 1, "report": 1}
    assert await upstream(server.tenant, "new", 9) == set()
    assert await upstream(server.tenant, "new", 10) == {"raw>new"}


async def test_a_rename_carries_columns_over(server: Server) -> None:
    fields = {"total": {"inputFields": [{"namespace": "postgres://db:5432", "name": "raw", "field": "amount"}]}}
    old = a_dataset("old", facets={"columnLineage": a_facet(fields=fields)})
    await server.tenant.send_ok(
        an_event(inputs=[a_dataset("raw")], outputs=[old]), a_change(changed("new", "RENAME", "old"), second=10)
    )
    answer = await lineage(server.tenant, "new", "upstream", columns=True)
    assert [(column["source"], column["target"]) for column in answer["edges"][0]["columns"]] == [("amount", "total")]


async def test_a_rename_told_twice_is_one(server: Server) -> None:
    await flows(server.tenant, "raw > old")
    renamed = changed("new", "RENAME", "old")
    await server.tenant.send_ok(
        a_change(renamed, second=10, event_type="RUNNING"), a_change(renamed, second=11), a_change(renamed, second=12)
    )
    assert await upstream(server.tenant, "new") == {"raw>new"}


async def test_of_two_renames_of_one_dataset_at_once_the_first_counts(server: Server, db: asyncpg.Connection) -> None:
    await flows(server.tenant, "raw > old", "one > x", "two > x")
    old, one, two = [await dataset_id(server.tenant, name) for name in ("old", "one", "two")]
    own, carry = server.tenant.organization_id, "SELECT carry_lineage($1, ARRAY[$2::uuid], ARRAY[$3::uuid], $4)"
    moment = T0 + timedelta(seconds=10)
    async with server.database.tenant(own) as second:
        async with server.database.tenant(own) as first:
            await first.execute(carry, own, old, one, moment)
            waiting = asyncio.create_task(second.execute(carry, own, old, two, moment))
            async with asyncio.timeout(30):
                while not await db.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await waiting
    written = await db.fetch(
        """SELECT d.name FROM job_datasets h JOIN datasets d ON d.id = h.dataset_id JOIN jobs j ON j.id = h.job_id
            WHERE h.role = 'output' AND j.name = 'raw>old' ORDER BY 1"""
    )
    assert [row["name"] for row in written] == ["old", "one"]
    assert await upstream(server.tenant, "one") == {"raw>one"}


async def test_an_old_name_that_is_written_again_is_a_dataset_of_its_own(server: Server) -> None:
    await flows(server.tenant, "raw > old", "old > report")
    await server.tenant.send_ok(a_change(changed("new", "RENAME", "old"), second=10), a_flow("other > old", second=20))
    assert await upstream(server.tenant, "old") == {"other>old"}
    assert await upstream(server.tenant, "new") == {"raw>new"}
    assert await upstream(server.tenant, "report") == {"other>old", "old>report"}


@pytest.mark.parametrize("event_type", ["START", "FAIL", "ABORT"])
async def test_a_rename_that_is_only_tried_moves_nothing(server: Server, event_type: str) -> None:
    await flows(server.tenant, "raw > old")
    await server.tenant.send_ok(a_change(changed("new", "RENAME", "old"), second=10, event_type=event_type))
    assert await upstream(server.tenant, "old") == {"raw>old"}
    assert await upstream(server.tenant, "new") == set()


async def test_a_rename_of_a_name_that_nobody_knows_says_nothing(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(
        a_change(changed("new", "RENAME", "never seen"), second=10),
        a_change(changed("same", "RENAME", "same"), second=1),
    )
    assert sorted(row["name"] for row in await db.fetch("SELECT name FROM datasets")) == ["new", "same"]
    assert depths(await lineage(server.tenant, "same")) == {"same": 0}


def a_day(day: int, source: str) -> list[Json]:
    """A new version is written beside the table, the table is put away, and the new one takes its place."""
    start = day * DAY
    return [
        a_flow(f"{source} > x_tmp", second=start, job="writer"),
        a_change(changed("x_backup", "RENAME", "x"), second=start + 10),
        a_change(changed("x", "RENAME", "x_tmp"), second=start + 20),
    ]


async def test_a_swap_leaves_each_name_with_what_it_now_holds(server: Server) -> None:
    await flows(server.tenant, "first > x", "x > report")
    await server.tenant.send_ok(*a_day(1, "second"))
    assert await upstream(server.tenant, "x") == {"second>x"}
    assert await upstream(server.tenant, "x_backup") == {"first>x_backup"}
    assert await upstream(server.tenant, "x_tmp") == set()
    assert depths(await lineage(server.tenant, "second", "downstream")) == {"second": 0, "x": 1, "report": 2}
    assert depths(await lineage(server.tenant, "first", "downstream")) == {"first": 0, "x_backup": 1}


async def test_a_swap_every_day_comes_out_right_every_day(server: Server) -> None:
    await flows(server.tenant, "s0 > x")
    for day in range(1, 4):
        await server.tenant.send_ok(*a_day(day, f"s{day}"))
        assert await upstream(server.tenant, "x") == {f"s{day}>x"}
        assert await upstream(server.tenant, "x_backup") == {f"s{day - 1}>x_backup"}
        assert await upstream(server.tenant, "x_tmp") == set()
    await server.tenant.send_ok(*a_day(4, "s3"))
    assert await upstream(server.tenant, "x") == {"s3>x"}
    assert await upstream(server.tenant, "x_backup") == {"s3>x_backup"}


async def test_a_swap_in_one_batch_comes_out_right(server: Server) -> None:
    batch = [a_flow("first > x"), *a_day(1, "second"), *a_day(2, "second")]
    response = await server.client.post("/api/v1/lineage/batch", json=batch)
    assert response.status_code == 200, response.text
    assert await upstream(server.tenant, "x") == {"second>x"}
    assert await upstream(server.tenant, "x_backup") == {"second>x_backup"}
    assert await upstream(server.tenant, "x_tmp") == set()


async def test_a_swap_told_by_one_event_comes_out_right(server: Server) -> None:
    await flows(server.tenant, "first > x", "second > x_tmp")
    both = [changed("x_backup", "RENAME", "x"), changed("x", "RENAME", "x_tmp")]
    await server.tenant.send_ok(a_change(*both, second=10))
    assert await upstream(server.tenant, "x") == {"second>x"}
    assert await upstream(server.tenant, "x_backup") == {"first>x_backup"}
    assert await upstream(server.tenant, "x_tmp") == set()


async def test_two_datasets_may_trade_names(server: Server) -> None:
    await flows(server.tenant, "first > a", "second > b")
    await server.tenant.send_ok(a_change(changed("a", "RENAME", "b"), changed("b", "RENAME", "a"), second=10))
    assert await upstream(server.tenant, "a") == {"second>a"}
    assert await upstream(server.tenant, "b") == {"first>b"}


async def test_a_swap_whose_halves_arrive_in_the_wrong_order_comes_out_right(server: Server) -> None:
    await flows(server.tenant, "first > x")
    written, put_away, put_in_place = a_day(1, "second")
    await server.tenant.send_ok(written, put_in_place, put_away)
    assert await upstream(server.tenant, "x") == {"second>x"}
    assert await upstream(server.tenant, "x_backup") == {"first>x_backup"}


async def test_dataset_events_rename_too(server: Server) -> None:
    await flows(server.tenant, "first > x", "second > x_tmp")
    await server.tenant.send_ok(
        a_change(changed("x", "DROP"), second=5), a_dataset_event(changed("x", "RENAME", "x_tmp"), 10)
    )
    assert await upstream(server.tenant, "x") == {"second>x"}
    assert depths(await lineage(server.tenant, "second", "downstream")) == {"second": 0, "x": 1}


async def test_what_only_takes_the_name_of_a_dropped_dataset_is_there(server: Server) -> None:
    await flows(server.tenant, "x > report", "read only > other")
    await server.tenant.send_ok(
        a_change(changed("x", "DROP"), second=5), a_dataset_event(changed("x", "RENAME", "read only"), 10)
    )
    assert await upstream(server.tenant, "report") == {"x>report"}


async def test_a_swap_brings_its_own_columns(server: Server) -> None:
    def written(day: int, column: str) -> Json:
        field = {"namespace": "postgres://db:5432", "name": "raw", "field": column}
        facet = a_facet(fields={"total": {"inputFields": [field]}})
        out = a_dataset("x_tmp", facets={"columnLineage": facet})
        return an_event(job="writer", time=at(day * DAY), inputs=[a_dataset("raw")], outputs=[out])

    for day, column in enumerate(["amount", "price", "price"], 1):
        _, put_away, put_in_place = a_day(day, "raw")
        await server.tenant.send_ok(written(day, column), put_away, put_in_place)
        held = {}
        for name in ("x", "x_backup"):
            answer = await lineage(server.tenant, name, "upstream", columns=True)
            held[name] = [found["source"] for edge in answer["edges"] for found in edge["columns"]]
        assert held == {"x": [column], "x_backup": [[], ["amount"], ["price"]][day - 1]}


async def test_drops_that_come_together_count_up_to_the_last(server: Server) -> None:
    dropped = changed("b", "DROP")
    batch = [a_flow("a > b"), a_change(dropped, second=10), a_flow("a > b", second=15), a_change(dropped, second=20)]
    response = await server.client.post("/api/v1/lineage/batch", json=batch)
    assert response.status_code == 200, response.text
    assert depths(await lineage(server.tenant, "a", "downstream")) == {"a": 0}
