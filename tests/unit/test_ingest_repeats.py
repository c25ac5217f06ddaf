"""Events that only repeat what is known: which they are, and that the short way leaves what the long way does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from headgate.openlineage.facts import Facts
from headgate.server.ingest.batch import Prepared, prepare
from headgate.server.ingest.edges import fold_edges
from headgate.server.ingest.memory import GroupMemory, Memory, Touches
from headgate.server.ingest.repeats import MAX_USES, part
from headgate.server.ingest.rows import fold_runs, fold_uses
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.facts import facts_of

ORGANIZATION = uuid4()
JOB, ORDERS, REVENUE = uuid4(), uuid4(), uuid4()


def a_repeated(event_type: str = "COMPLETE", **given: Any) -> Json:
    parts = {
        "inputs": [a_dataset("orders", facets=with_schema("id"))],
        "outputs": [a_dataset("revenue", facets=with_schema("id", "sum"))],
    }
    return an_event(event_type, **(parts | given))


def prepared(event: Json) -> Prepared:
    return prepare(ORGANIZATION, facts_of(event))


def memory_of(*events: Json) -> Memory:
    """A memory to which all that these events say is known."""
    memory = Memory()
    group = GroupMemory(memory)
    group.see_epoch(0)
    for facts in map(facts_of, events):
        assert facts.job is not None
        group.jobs[facts.job] = JOB
        ids = {use.key: ORDERS if use.role == "input" else REVENUE for use in facts.uses}
        group.datasets |= ids
        for use in facts.uses:
            is_start = facts.event_type == "START"
            hashes = (use.facets_hash, None) if is_start else (None, use.facets_hash)
            group.remember_use((JOB, ids[use.key], use.role), hashes)
    group.edges[(ORDERS, REVENUE, JOB)] = None
    group.commit()
    return memory


def parted(memory: Memory, *events: Json, held: tuple[str, ...] = ()) -> list[bool]:
    """Whether each is a repetition."""
    group = GroupMemory(memory)
    group.see_epoch(memory.epoch)
    given = [prepared(event) for event in events]
    repeats, others = part(given, {UUID(run) for run in held}, group)
    assert len(repeats) + len(others) == len(given)
    return [any(repeat.event is event for repeat in repeats) for event in given]


def test_a_new_run_that_does_what_the_job_did_before_is_a_repetition() -> None:
    assert parted(memory_of(a_repeated()), a_repeated(), a_repeated()) == [True, True]


def test_what_a_start_says_is_known_apart_from_what_the_end_says() -> None:
    assert parted(memory_of(a_repeated()), a_repeated("START")) == [False]
    assert parted(memory_of(a_repeated(), a_repeated("START")), a_repeated("START")) == [True]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"job": "another"}, id="another job"),
        pytest.param({"inputs": [a_dataset("customers")]}, id="another dataset"),
        pytest.param({"outputs": [a_dataset("revenue", facets=with_schema("id"))]}, id="another schema"),
        pytest.param(
            {"outputs": [a_dataset("revenue", facets={"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")})]},
            id="dropped",
        ),
        pytest.param({"inputs": [a_dataset("orders", facets=with_schema("id"))] * 2}, id="the same twice"),
        pytest.param({"run_facets": {"test": a_facet(tests=[])}}, id="a test"),
        pytest.param({"run_facets": {"headgate_partition": a_facet(context={"day": "1"})}}, id="a partition"),
        pytest.param({"inputs": [a_dataset(f"d{n}") for n in range(MAX_USES + 1)]}, id="very many datasets"),
    ],
)
def test_what_has_news_is_no_repetition(given: Json) -> None:
    event = a_repeated(**given)
    # Even if the server had met the names before.
    memory = memory_of(a_repeated())
    memory.datasets |= {use.key: uuid4() for use in facts_of(event).uses if use.key not in memory.datasets}
    assert parted(memory, event) == [False]


@pytest.mark.parametrize("event_type", ["RUNNING", "OTHER", "FAIL", "ABORT"])
def test_only_ordinary_states_are_repetitions(event_type: str) -> None:
    assert parted(memory_of(a_repeated()), a_repeated(event_type)) == [False]


def test_a_run_that_exists_or_has_two_events_is_no_repetition() -> None:
    run = a_run_id()
    memory = memory_of(a_repeated(), a_repeated("START"))
    assert parted(memory, a_repeated(run=run), held=(run,)) == [False]
    assert parted(memory, a_repeated("START", run=run), a_repeated(run=run), a_repeated()) == [False, False, True]


def test_an_unknown_edge_is_news() -> None:
    memory = memory_of(a_repeated())
    memory.edges.clear()
    assert parted(memory, a_repeated()) == [False]


def other_content(group: GroupMemory) -> None:
    group.remember_use((JOB, REVENUE, "output"), (None, 1))


def dropped(group: GroupMemory) -> None:
    group.dropped_uses.add((JOB, REVENUE, "output"))


def changed(group: GroupMemory) -> None:
    group.changed_schemas.add(REVENUE)


@pytest.mark.parametrize("learn", [other_content, dropped, changed])
def test_what_a_group_finds_changed_is_repeated_no_more(learn: Callable[[GroupMemory], None]) -> None:
    memory = memory_of(a_repeated())
    assert parted(memory, a_repeated()) == [True]
    group = GroupMemory(memory)
    group.see_epoch(memory.epoch)
    learn(group)
    group.commit()
    assert parted(memory, a_repeated()) == [False]


def test_another_epoch_ends_repetition() -> None:
    memory = memory_of(a_repeated())
    assert parted(memory, a_repeated()) == [True]
    memory.epoch = 1
    GroupMemory(memory).see_epoch(2)
    assert parted(memory, a_repeated()) == [False]


@pytest.mark.parametrize("event_type", ["START", "COMPLETE"])
@pytest.mark.parametrize("order", [(3, 1, 2), (1, 2, 3), (2, 3, 1)], ids=str)
def test_a_repetition_is_seen_when_the_long_way_sees_it(event_type: str, order: tuple[int, ...]) -> None:
    events = [prepared(a_repeated(event_type, time=at(second))) for second in order]
    memory = memory_of(a_repeated(), a_repeated("START"))
    group = GroupMemory(memory)
    group.see_epoch(memory.epoch)
    repeats, others = part(events, set(), group)
    short = Touches()
    for repeat in repeats:
        one = Touches()
        repeat.touch(one)
        short.add_all(one)

    assert not others
    assert (short.uses, short.edges) == long_way([event.facts for event in events], group)


def long_way(events: list[Facts], group: GroupMemory) -> tuple[Any, Any]:
    runs = fold_runs(events, {}, group)
    touches = Touches()
    for use in fold_uses(events, runs, group):
        assert use.is_known(group)
        touches.add_use(use.key, use.first_at, use.last_at, use.completed_at, use.columns_at, use.schema_at)
    for key, (span, run_id) in fold_edges(events, runs, group).items():
        touches.add_edge(key, *span, run_id)
    return touches.uses, touches.edges


@pytest.mark.parametrize("event_type", ["START", "COMPLETE"])
def test_a_repetition_has_the_columns_of_the_long_way(event_type: str) -> None:
    facets = {"parent": a_facet(run={"runId": a_run_id()}, job={"namespace": "dags", "name": "nightly"})}
    event = prepared(a_repeated(event_type, run_facets=facets))
    group = GroupMemory(memory_of(a_repeated(), a_repeated("START")))
    group.see_epoch(0)
    [repeat], _ = part([event], set(), group)
    told_by = event.key.hex() if event_type == "COMPLETE" else None
    [run] = fold_runs([event.facts], {}, group).values()

    short, long = repeat.columns(), run.columns(told_by)

    # What the short way leaves out is the time of the event, which it says once.
    times = {place for place in range(len(long)) if short[place] != long[place]}
    assert {long[place] for place in times} == {event.facts.event_time}
    assert [short[place] for place in times] == [None] * len(times)
