"""Ids that become visible out of order: none is missed, none is new twice, and little is read again."""

from __future__ import annotations

import random

from headgate.server.events.watermark import Watermark


def test_what_is_seen_for_the_first_time_is_new() -> None:
    mark = Watermark(0)
    assert mark.look([1, 2], 10, 10) == {1, 2}
    assert mark.look([3], 11, 11) == {3}


def test_without_open_transactions_the_floor_is_the_highest_id() -> None:
    mark = Watermark(4)
    mark.look([7, 9], 20, 20)
    assert mark.floor == 9


def test_an_open_transaction_keeps_the_floor_down_until_it_ends() -> None:
    mark = Watermark(0)
    mark.look([1], 20, 20)
    assert mark.look([3], 20, 22) == {3}
    assert mark.floor == 1
    assert mark.look([2, 3], 22, 22) == {2}
    assert mark.floor == 3


def test_what_is_read_again_is_not_new() -> None:
    mark = Watermark(0)
    mark.look([5], 20, 21)
    assert mark.look([5], 20, 25) == set()
    assert mark.look([5], 30, 30) == set()
    assert mark.floor == 5


def test_the_first_look_at_an_id_decides_how_long_it_is_waited_for() -> None:
    """A later look at the same ids must not put the floor off for ever."""
    mark = Watermark(0)
    mark.look([5], 20, 21)
    for step in range(22, 40):
        mark.look([5], step - 1, step + 5)
    assert mark.floor == 5


def test_skipping_gives_up_on_what_may_come_late() -> None:
    mark = Watermark(0)
    mark.look([5, 6], 20, 25)
    mark.skip()
    assert mark.floor == 6
    assert mark.look([7], 20, 26) == {7}


def test_every_id_of_any_history_is_new_exactly_once() -> None:
    """Transactions that draw ids, commit in any order, and are looked at now and then."""
    for seed in range(50):
        assert _told_of_a_random_history(random.Random(seed)) == 200


def _told_of_a_random_history(chance: random.Random) -> int:
    open_ids: dict[int, list[int]] = {}
    visible: list[int] = []
    mark = Watermark(0)
    told: list[int] = []
    next_id = next_transaction = 1
    while len(told) < 200:
        move = chance.random()
        if move < 0.4 and next_id <= 200:
            ids = list(range(next_id, min(next_id + chance.randint(1, 5), 201)))
            open_ids[next_transaction] = ids
            next_id, next_transaction = ids[-1] + 1, next_transaction + 1
        elif move < 0.7 and open_ids:
            visible += open_ids.pop(chance.choice(list(open_ids)))
        else:
            seen = [id_ for id_ in visible if id_ > mark.floor]
            told += mark.look(seen, min(open_ids, default=next_transaction), next_transaction)
    return len(set(told))
