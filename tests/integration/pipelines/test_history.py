"""What a node learns of its past: from the server, from this machine's memory, or why nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headgate.pipelines.history import NO_RUN, Counts, History, Last, Memory, Scribe, Unknown, Watermark
from headgate.pipelines.home import Home, Server
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.record import FieldRecord, Status
from tests.conftest import Cluster
from tests.support.bad_servers import answering, bad_server, dead_url, garbage, gate_to, hanging
from tests.support.live import Live, live_server
from tests.support.pipeline_events import a_batch
from tests.support.pipeline_runs import a_plan, a_record, a_run, an_emitter, an_ended, breaks, stops

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.fixture
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return a_plan(tmp_path)


@pytest.fixture
def orders(plan: Plan) -> Node:
    return plan.node(("daily", "orders"))


@pytest.fixture
def home(plan: Plan) -> Home:
    return Home.of(plan.loaded)


@pytest.fixture
def memory(home: Home) -> Memory:
    return Memory(home.nodes, "shop")


def at(live: Live) -> Server:
    return Server(live.url, live.api_key)


async def test_the_server_tells_the_last_published_run_with_columns_and_watermark(
    live: Live, plan: Plan, orders: Node, memory: Memory
) -> None:
    run = await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)])

    found = History(at(live), memory, "shop").last_published(orders)

    assert isinstance(found, Last)
    assert found.run.run_id == next(node.run_id for node in run.nodes if node.name == "orders")
    assert (found.rows_in, found.run.rows_published, found.note) == (100, 97, None)
    assert found.fields == (FieldRecord("id", "bigint", False), FieldRecord("total", "decimal(10,2)", True))
    assert found.watermark == Watermark("updated_at", "2026-03-01")


async def test_a_node_that_was_never_published_has_no_history(
    live: Live, plan: Plan, orders: Node, memory: Memory
) -> None:
    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key)], {"orders": stops})
    history = History(at(live), memory, "shop")

    assert history.last_published(orders) == Unknown(NO_RUN)
    assert history.row_counts(orders, 5) == Unknown(NO_RUN)
    assert (history.for_gate(orders).previous, history.for_gate(orders).note) == (None, NO_RUN)
    assert History(at(live), memory, "another").last_published(orders) == Unknown(NO_RUN)


async def test_row_counts_are_the_latest_first(live: Live, plan: Plan, orders: Node, memory: Memory) -> None:
    for rows in (10, 20, 30):
        await asyncio.to_thread(
            a_run,
            plan,
            [an_emitter(plan, live.url, live.api_key)],
            {"orders": lambda record, rows=rows: setattr(record, "rows_in", rows)},
        )

    history = History(at(live), memory, "shop")

    assert history.row_counts(orders, 2) == Counts((30, 20))
    assert history.row_counts(orders, 9) == Counts((30, 20, 10))


async def test_a_fact_is_asked_for_once_in_a_run(live: Live, orders: Node, memory: Memory) -> None:
    history = History(at(live), memory, "shop")

    threads = [threading.Thread(target=history.last_published, args=(orders,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert live.statuses == [404]


def test_a_server_that_is_gone_is_replaced_by_the_memory_which_says_so(
    plan: Plan, home: Home, orders: Node, memory: Memory
) -> None:
    run = a_run(plan, [Scribe(home, memory)])

    history = History(Server(dead_url(), "key"), memory, "shop")
    found = history.last_published(orders)

    assert isinstance(found, Last)
    assert (found.rows_in, found.watermark) == (100, Watermark("updated_at", "2026-03-01"))
    assert found.fields[0] == FieldRecord("id", "bigint", False)
    assert found.note is not None
    assert "cannot reach" in found.note
    assert "local memory" in found.note
    assert next(node.run_id for node in run.nodes if node.name == "orders") in found.note
    counts = history.row_counts(orders, 5)
    assert isinstance(counts, Counts)
    assert (counts.rows, "local memory" in (counts.note or "")) == ((100,), True)
    assert history.for_gate(orders).previous == 100


def test_without_server_and_memory_the_reason_is_in_words(orders: Node, memory: Memory) -> None:
    found = History(Server(dead_url(), "key"), memory, "shop").last_published(orders)

    assert isinstance(found, Unknown)
    assert "cannot reach" in found.note
    assert "remembers no published run" in found.note


def test_a_run_without_a_server_lives_on_its_memory(plan: Plan, home: Home, orders: Node, memory: Memory) -> None:
    a_run(plan, [Scribe(home, memory)])

    found = History(Server(), memory, "shop").last_published(orders)

    assert isinstance(found, Last)
    assert (found.note or "").startswith("the run has no server")


def test_a_server_that_hangs_is_waited_for_once(plan: Plan, orders: Node, memory: Memory) -> None:
    with bad_server(hanging) as server:
        history = History(Server(server.url, "key"), memory, "shop")
        began = time.monotonic()
        found = [history.last_published(node) for node in plan.nodes]
        history.row_counts(orders, 3)
        took_s = time.monotonic() - began

    assert all(isinstance(each, Unknown) and "did not answer in time" in each.note for each in found)
    assert len(server.asked) == 1
    assert took_s < 9


@pytest.mark.parametrize(
    "behaviour",
    [answering(500, "oops"), answering(401), answering(403), answering(200, "{}"), answering(200, "<html>"), garbage],
    ids=["500", "401", "403", "another-answer", "html", "garbage"],
)
def test_an_answer_that_is_none_has_a_reason(orders: Node, memory: Memory, behaviour: object) -> None:
    with bad_server(behaviour) as server:  # type: ignore[arg-type]
        found = History(Server(server.url, "key"), memory, "shop").last_published(orders)

    assert isinstance(found, Unknown)
    assert len(found.note) > 60


async def test_the_server_is_asked_again_in_the_next_run(
    live: Live, plan: Plan, home: Home, orders: Node, memory: Memory
) -> None:
    await asyncio.to_thread(a_run, plan, [an_emitter(plan, live.url, live.api_key), Scribe(home, memory)])
    with gate_to(live.url) as gate:
        gate.shut()
        assert "local memory" in (History(Server(gate.url, live.api_key), memory, "shop").for_gate(orders).note or "")
        gate.open()

        assert History(Server(gate.url, live.api_key), memory, "shop").for_gate(orders).note is None


def test_only_published_nodes_are_remembered(plan: Plan, home: Home, memory: Memory) -> None:
    a_run(plan, [Scribe(home, memory)])
    a_run(plan, [Scribe(home, memory)], {"orders": stops, "totals": breaks})

    known = memory.recall("daily", "orders")

    assert known is not None
    assert len(known.runs) == 1


def test_a_batch_from_quarantine_is_no_measure_for_the_next_run(
    plan: Plan, home: Home, orders: Node, memory: Memory
) -> None:
    record = an_ended(orders, quarantine=a_batch("batch-1", "replayed"))

    Scribe(home, memory).node_ended(a_record(plan), orders, record)

    assert memory.recall("daily", "orders") is None


def test_the_memory_goes_by_when_runs_ended(orders: Node, memory: Memory) -> None:
    late, early = an_ended(orders, ended_at=AT, rows_in=2), an_ended(orders, ended_at=AT - timedelta(1), rows_in=1)

    memory.remember(late)
    memory.remember(early)
    memory.remember(early)

    known = memory.recall("daily", "orders")
    assert known is not None
    assert [run.rows_in for run in known.runs] == [2, 1]


def test_a_run_that_has_read_nothing_new_leaves_the_watermark(orders: Node, memory: Memory) -> None:
    memory.remember(an_ended(orders, ended_at=AT, watermark={"id": 7}))
    memory.remember(an_ended(orders, ended_at=AT + timedelta(1), watermark=None))

    known = memory.recall("daily", "orders")

    assert known is not None
    assert known.watermark == Watermark("id", "7")


def test_a_broken_memory_is_begun_anew(home: Home, orders: Node, memory: Memory) -> None:
    memory.remember(an_ended(orders))
    (file,) = home.nodes.iterdir()
    file.write_text("{")

    assert memory.recall("daily", "orders") is None
    memory.remember(an_ended(orders))
    assert memory.recall("daily", "orders") is not None


def test_a_record_is_kept_as_soon_as_a_node_has_ended(plan: Plan, home: Home, memory: Memory) -> None:
    seen: list[list[tuple[str, Status]]] = []
    run = a_record(plan)

    def look(record: object) -> None:
        kept = home.load_record(run.run_id)
        seen.append([(node.name, node.status) for node in kept.nodes])

    a_run(plan, [Scribe(home, memory)], {"orders": look, "totals": look}, run)

    assert seen == [[], [("orders", Status.published)]]
    kept = home.load_record(run.run_id)
    assert (kept.status, [node.name for node in kept.nodes]) == (Status.published, ["orders", "totals"])


def test_a_record_that_cannot_be_kept_does_not_end_the_run(
    plan: Plan, home: Home, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    home.runs.rmdir()
    home.runs.write_text("no folder")

    run = a_run(plan, [Scribe(home, memory)])

    assert run.status is Status.published
    assert [record.levelname for record in caplog.records if "is not kept" in record.getMessage()] == ["WARNING"]
