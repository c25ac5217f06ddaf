"""What a server remembers between groups of events, and when it must not believe it any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID, uuid4

import pytest

from headgate.server.ingest import memory as module
from headgate.server.ingest.memory import GroupMemory, Memory, Touches
from tests.support.events import T0

JOB, TABLE, OTHER = uuid4(), uuid4(), uuid4()
NAME = ("postgres://db", "t")
USE = (JOB, TABLE, "output")
EDGE = (OTHER, TABLE, JOB)


def a_group(memory: Memory, epoch: int) -> GroupMemory:
    group = GroupMemory(memory)
    group.see_epoch(epoch)
    return group


def learned(memory: Memory, epoch: int = 0) -> Memory:
    """A memory after a group that has met one of everything."""
    group = a_group(memory, epoch)
    group.datasets[NAME] = TABLE
    group.jobs[NAME] = JOB
    group.job_hashes[JOB] = 7
    group.edges[EDGE] = None
    group.remember_use(USE, (1, 2))
    group.commit()
    return memory


def knows(memory: Memory, epoch: int) -> dict[str, bool]:
    group = a_group(memory, epoch)
    return {
        "names": not group.missing_datasets([NAME]) and not group.missing_jobs([NAME]),
        "use": group.use(USE) == (1, 2),
        "edge": group.has_edge(EDGE),
        "facets": group.has_job_facets(JOB, 7),
    }


def test_what_a_group_learns_is_known_to_the_next() -> None:
    assert set(knows(learned(Memory()), 0).values()) == {True}


def test_what_a_group_learns_is_not_known_before_its_commit() -> None:
    memory = Memory()
    group = a_group(memory, 0)
    group.edges[EDGE] = None
    group.remember_use(USE, (1, 2))
    assert not any(knows(memory, 0).values())


def test_another_epoch_makes_a_server_forget_everything() -> None:
    assert not any(knows(learned(Memory()), 1).values())


def test_a_group_that_another_writer_overtook_teaches_nothing() -> None:
    memory = Memory()
    slow = a_group(memory, 0)
    slow.remember_use(USE, (1, 2))
    slow.edges[EDGE] = None
    a_group(memory, 1)
    slow.commit()
    assert not any(knows(memory, 1).values())


def test_a_servers_own_change_moves_its_epoch_and_keeps_the_rest() -> None:
    memory = learned(Memory())
    group = a_group(memory, 0)
    group.changed_schemas.add(OTHER)
    assert group.misleads_others
    group.commit()
    assert set(knows(memory, 1).values()) == {True}


def test_a_changed_schema_makes_the_uses_of_its_dataset_doubtful() -> None:
    memory = learned(Memory())
    group = a_group(memory, 0)
    group.changed_schemas.add(TABLE)
    group.commit()
    found = knows(memory, 1)
    assert found.pop("use") is False
    assert set(found.values()) == {True}


def test_two_changes_at_once_leave_nothing_to_believe() -> None:
    memory = learned(Memory())
    one, other = a_group(memory, 0), a_group(memory, 0)
    one.changed_schemas.add(OTHER)
    other.has_changed_columns = True
    one.commit()
    other.commit()
    # The database's epoch is at 2 now; the server has followed only one of the changes.
    assert not any(knows(memory, 2).values())


def test_a_use_that_was_changed_is_looked_at_once_more() -> None:
    memory = learned(Memory())
    group = a_group(memory, 0)
    group.dropped_uses.add(USE)
    group.commit()
    assert a_group(memory, 0).use(USE) is None


@pytest.mark.parametrize(
    ("first", "then", "known"),
    [((1, None), (None, 2), (1, 2)), ((1, 2), (3, None), (3, 2)), ((1, 2), (None, 4), (1, 4))],
    ids=["both parts", "another start", "another end"],
)
def test_a_start_and_what_follows_are_remembered_apart(
    first: tuple[int | None, int | None], then: tuple[int | None, int | None], known: tuple[int, int]
) -> None:
    memory = Memory()
    for hashes in (first, then):
        group = a_group(memory, 0)
        group.remember_use(USE, hashes)
        group.commit()
    assert a_group(memory, 0).use(USE) == known


def test_a_memory_that_has_grown_too_large_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = learned(Memory())
    monkeypatch.setattr(module, "MAX_REMEMBERED", 1)
    group = a_group(memory, 0)
    group.datasets[("n", "new")] = OTHER
    group.commit()
    assert a_group(memory, 0).missing_datasets([NAME, ("n", "new")]) == [NAME]


def test_names_that_are_missing_come_in_the_order_of_locks() -> None:
    wanted = [("b", "z"), ("a", "z"), ("a", "b"), NAME]
    assert a_group(learned(Memory()), 0).missing_datasets(wanted) == [("a", "b"), ("a", "z"), ("b", "z")]


def second(offset: float) -> datetime:
    return T0 + timedelta(seconds=offset)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_touches_add_up_in_any_order(order: tuple[int, ...]) -> None:
    runs = [UUID(int=n) for n in range(3)]
    sightings = [(second(5), second(6), None), (second(1), second(2), second(2)), (second(8), second(9), None)]
    whole = Touches()
    for place in order:
        one = Touches()
        first, last, completed = sightings[place]
        one.add_use(USE, first, last, completed)
        one.add_edge(EDGE, first, last, completed, runs[place])
        whole.add_all(one)
    assert whole.uses[USE][:3] == (second(1), second(9), second(2))
    assert whole.edges[EDGE] == (second(1), second(9), second(2), runs[2])
