"""Where the points of a lineage are drawn."""

from __future__ import annotations

import random
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headgate.story.layers import layers, without_cycles
from headgate.story.layout import Layout, Point, crossings, lay_out

Edge = tuple[str, str]


def a_graph(size: int, seed: int = 1) -> tuple[list[Point], list[Edge]]:
    chance = random.Random(seed)
    points = [
        Point(f"n{i}", chance.choice(["bronze", "silver", "gold", None]), is_own=chance.random() < 0.8)
        for i in range(size)
    ]
    edges = [(f"n{chance.randrange(i)}", f"n{i}") for i in range(1, size) for _ in range(chance.randint(1, 2))]
    return points, list(dict.fromkeys(edges))


def assert_nothing_overlaps(layout: Layout) -> None:
    for (one, box), (other, against) in combinations(layout.points.items(), 2):
        assert not box.overlaps(against), f"{one} covers {other}"
    for (one, box), (other, against) in combinations(layout.groups.items(), 2):
        assert not box.overlaps(against), f"the box of {one} covers that of {other}"


def test_thirty_points_in_groups_do_not_overlap() -> None:
    for seed in range(10):
        assert_nothing_overlaps(lay_out(*a_graph(30, seed)))


def test_points_stand_inside_the_box_of_their_group_and_others_outside() -> None:
    points, edges = a_graph(30)
    layout = lay_out(points, edges)

    for point in points:
        inside = {name for name, box in layout.groups.items() if layout.points[point.id].overlaps(box)}
        assert inside == ({point.group} if point.group else set())


def test_everything_lies_on_the_ground() -> None:
    layout = lay_out(*a_graph(30))
    ground = layout.ground

    for box in (*layout.points.values(), *layout.groups.values()):
        assert ground.x <= box.x
        assert ground.y <= box.y
        assert box.x + box.width <= ground.x + ground.width
        assert box.y + box.height <= ground.y + ground.height


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40))
def test_any_graph_can_be_drawn_and_data_flows_to_the_right(pairs: list[tuple[int, int]]) -> None:
    ids = [str(i) for i in range(10)]
    edges = [(str(one), str(other)) for one, other in pairs]
    forward, back = without_cycles(ids, edges)
    layout = lay_out([Point(each) for each in ids], edges)

    assert_nothing_overlaps(layout)
    assert {*forward, *back} == {edge for edge in edges if edge[0] != edge[1]}
    assert all(layout.points[source].x < layout.points[target].x for source, target in forward)


def test_a_cycle_is_cut_once() -> None:
    forward, back = without_cycles(["a", "b", "c"], [("a", "b"), ("b", "c"), ("c", "a")])

    assert (forward, back) == ([("a", "b"), ("b", "c")], [("c", "a")])


def test_what_only_feeds_the_run_stands_close_before_its_reader() -> None:
    ids = ["far", "source", "a", "b", "c"]
    edges = [("a", "b"), ("b", "c"), ("source", "c"), ("far", "source")]

    assert layers(ids, edges, movable={"far", "source"}) == {"a": 0, "far": 0, "b": 1, "source": 1, "c": 2}


def test_a_stranger_between_two_own_points_keeps_its_order() -> None:
    edges = [("a", "stranger"), ("stranger", "b")]

    assert layers(["a", "stranger", "b"], edges, movable={"stranger"}) == {"a": 0, "stranger": 1, "b": 2}


def test_crossings_are_taken_out_where_a_few_sweeps_can() -> None:
    left, right = [f"l{i}" for i in range(6)], [f"r{i}" for i in range(6)]
    edges = [(f"l{i}", f"r{5 - i}") for i in range(6)]
    points = [Point(each, "one") for each in left] + [Point(each, "two") for each in right]
    layout = lay_out(points, edges)
    layer = {each: 0 if each.startswith("l") else 1 for each in left + right}

    assert crossings({each: box.y for each, box in layout.points.items()}, edges, layer) == 0


def test_a_long_edge_passes_beside_the_boxes() -> None:
    chain = [Point(f"n{i}", f"group {i}") for i in range(4)]
    edges = [("n0", "n1"), ("n1", "n2"), ("n2", "n3"), ("n0", "n3")]
    layout = lay_out(chain, edges)

    straight = layout.paths[("n0", "n3")].partition("L")[2]
    y = float(straight.split("C")[0].split()[1])
    assert all(not box.y <= y <= box.y + box.height for name, box in layout.groups.items() if name != "group 0")


def test_nothing_to_draw_is_no_drawing() -> None:
    assert lay_out([], []).points == {}
