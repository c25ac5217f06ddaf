"""Pure parts of lineage: layers of a graph, paths through it, and two walks as one."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from itertools import pairwise
from uuid import UUID

import pytest

from headgate.server.lineage.graphs import Bounds, merge
from headgate.server.lineage.paths import Search, find_paths
from headgate.server.lineage.ranks import ranks_of


def ranks(size: int, *edges: tuple[int, int]) -> list[int]:
    sources, targets = array("i", (edge[0] for edge in edges)), array("i", (edge[1] for edge in edges))
    return list(ranks_of(size, sources, targets))


def test_a_rank_is_the_longest_way_to_a_node() -> None:
    assert ranks(5, (0, 1), (1, 2), (2, 3), (0, 3), (4, 3)) == [0, 1, 2, 3, 0]


def test_nodes_without_edges_have_no_rank_to_speak_of() -> None:
    assert ranks(3) == [0, 0, 0]
    assert ranks(0) == []


def test_a_cycle_is_cut_where_something_leads_into_it() -> None:
    # 4 feeds 2, which is part of 1 > 2 > 3 > 1, and 0 comes after.
    assert ranks(5, (4, 2), (1, 2), (2, 3), (3, 1), (1, 0)) == [4, 3, 1, 2, 0]


def test_a_cycle_on_its_own_is_cut_at_its_first_node() -> None:
    assert ranks(4, (1, 2), (2, 1), (2, 3), (0, 0)) == [0, 0, 1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_only_edges_that_close_a_cycle_lead_back(seed: int) -> None:
    choose = random.Random(seed)
    size = 60
    forward = {tuple(sorted(choose.sample(range(size), 2))) for _ in range(150)}
    found = ranks(size, *forward)  # type: ignore[arg-type]
    assert all(found[source] < found[target] for source, target in forward)
    assert all(found[node] == 0 for node in range(size) if node not in {target for _, target in forward})
    cyclic = ranks(size, *((choose.randrange(size), choose.randrange(size)) for _ in range(200)))
    assert len(cyclic) == size


def node(name: str) -> UUID:
    return UUID(int=ord(name))


def paths(edges: str, source: str, target: str, limit: int = 10) -> tuple[list[str], bool]:
    graph: dict[UUID, list[UUID]] = {}
    for edge in edges.split():
        graph.setdefault(node(edge[0]), []).append(node(edge[1]))
    search: Search = find_paths(graph, node(source), node(target), limit)
    return ["".join(chr(step.int) for step in path) for path in search.paths], search.is_cut


def test_paths_come_shortest_first() -> None:
    assert paths("ab bc cd ad bd xa", "a", "d") == (["ad", "abd", "abcd"], False)


def test_a_path_visits_nothing_twice() -> None:
    assert paths("ab bc ca cd db", "a", "d") == (["abcd"], False)


def test_there_may_be_no_path() -> None:
    assert paths("ab cb", "a", "c") == ([], False)
    assert paths("", "a", "b") == ([], False)


def test_from_a_dataset_to_itself_there_is_nothing_to_go() -> None:
    assert paths("ab ba", "a", "a") == (["a"], False)


def test_more_paths_than_asked_for_are_cut() -> None:
    assert paths("ab ac ad bz cz dz", "a", "z", limit=2) == (["abz", "acz"], True)
    assert paths("ab ac ad bz cz dz", "a", "z", limit=3) == (["abz", "acz", "adz"], False)


def test_countless_paths_are_found_at_once() -> None:
    layers: list[Sequence[int]] = [[layer * 100 + place for place in range(50)] for layer in range(15)]
    graph = {UUID(int=near): [UUID(int=far) for far in after] for layer, after in pairwise(layers) for near in layer}
    search = find_paths(graph, UUID(int=0), UUID(int=1400), 100)
    assert (len(search.paths), {len(path) for path in search.paths}, search.is_cut) == (100, {15}, True)


def test_two_walks_are_one_at_the_least_depth() -> None:
    a, b, c, d = (node(name) for name in "abcd")
    reach = merge({a: 0, b: 1, c: 2}, {a: 0, c: 1, d: 1}, Bounds(2, 1, 10))
    assert reach.depths == {a: 0, b: 1, c: 1, d: 1}
    assert (reach.up, reach.down) == ([c], [c, d])


def test_walks_that_ended_by_themselves_hide_nothing() -> None:
    a, b = node("a"), node("b")
    assert merge({a: 0, b: 1}, {a: 0}, Bounds(2, 1, 10))[1:] == ([], [])
    assert merge({a: 0, b: 1}, {}, Bounds(1, None, 10))[1:] == ([b], [])


def test_a_full_answer_may_hide_something_on_its_last_two_levels() -> None:
    a, b, c, d, e = (node(name) for name in "abcde")
    reach = merge({a: 0, b: 1, c: 2, e: 3}, {a: 0, d: 1}, Bounds(9, 9, 4))
    assert list(reach.depths) == [a, b, d, c]
    assert (reach.up, reach.down) == ([b, c], [d])


def test_a_dataset_met_both_ways_does_not_hide_where_the_longer_way_was_cut() -> None:
    a, b, c, d, e = (node(name) for name in "abcde")
    reach = merge({a: 0, b: 1, c: 2, d: 3, e: 4}, {a: 0, e: 1}, Bounds(9, 1, 3))
    assert list(reach.depths) == [a, b, e]
    assert (reach.up, reach.down) == ([a, b, e], [a, e])
