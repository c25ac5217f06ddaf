"""The walk over the graph of datasets: against a plain breadth-first search, and where it is easily got wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import NamedTuple
from uuid import UUID

import asyncpg
import pytest

from headgate.server.lineage import graphs
from headgate.server.lineage.graphs import Bounds
from headgate.server.lineage.store import LineageStore
from tests.support.events import T0
from tests.support.graphs import an_organization, insert

Edges = Mapping[UUID, Sequence[UUID]]


class Walked(NamedTuple):
    id: UUID
    depth: int
    hidden: int


def breadth_first(edges: Edges, roots: Sequence[UUID], depth: int, limit: int) -> list[Walked]:
    """What walk_lineage promises, spelled out."""
    depths = dict.fromkeys(sorted(set(roots))[:limit], 0)
    for node in (queue := list(depths)):
        if depths[node] == depth:
            break
        for far in sorted(set(edges.get(node, ()))):
            if far not in depths and len(depths) < limit:
                depths[far] = depths[node] + 1
                queue.append(far)
    return [Walked(node, at, len(set(edges.get(node, ())) - set(depths))) for node, at in depths.items()]


class Graph:
    """Datasets and edges of an organisation, written straight into the tables."""

    def __init__(self, db: asyncpg.Connection, organization_id: UUID) -> None:
        self.db = db
        self.organization_id = organization_id
        self.nodes: list[UUID] = []
        self.edges: list[tuple[UUID, UUID]] = []

    async def add_nodes(self, number: int) -> list[UUID]:
        rows = await self.db.fetch(
            """INSERT INTO datasets (organization_id, namespace, name, display_name, first_seen_at)
               SELECT $1, 'n', n::text, n::text, $2 FROM generate_series($3::integer, $4) AS n RETURNING id""",
            self.organization_id, T0, len(self.nodes), len(self.nodes) + number - 1,
        )  # fmt: skip
        self.nodes += [row["id"] for row in rows]
        return self.nodes

    async def add_job(self, name: str = "job") -> UUID:
        job_id: UUID = await self.db.fetchval(
            "INSERT INTO jobs (organization_id, namespace, name, first_seen_at) VALUES ($1, 'j', $2, $3) RETURNING id",
            self.organization_id, name, T0,
        )  # fmt: skip
        return job_id

    async def add_edges(self, pairs: Sequence[tuple[UUID, UUID]], job_id: UUID) -> None:
        self.edges += pairs
        await self.db.execute(
            """INSERT INTO lineage_edges (organization_id, source_id, target_id, job_id, first_seen_at, last_seen_at)
               SELECT $1, u.source, u.target, $2, $3, $3 FROM unnest($4::uuid[], $5::uuid[]) AS u (source, target)
               ON CONFLICT DO NOTHING""",
            self.organization_id, job_id, T0, [pair[0] for pair in pairs], [pair[1] for pair in pairs],
        )  # fmt: skip

    async def complete(self, job_id: UUID, moment: datetime) -> None:
        await insert(
            self.db, self.organization_id, "job_runs", run_id=UUID(int=1), job_id=job_id, job_ids=[job_id],
            state="COMPLETE", started_at=moment, complete_at=moment, last_event_at=moment, producer="p",
        )  # fmt: skip

    def neighbours(self, direction: str) -> Edges:
        found: dict[UUID, list[UUID]] = {}
        for source, target in self.edges:
            near, far = (source, target) if direction == "down" else (target, source)
            found.setdefault(near, []).append(far)
        return found

    async def walk(
        self, roots: Sequence[UUID], direction: str = "down", depth: int = 20, limit: int | None = 10_000
    ) -> list[Walked]:
        rows = await self.db.fetch(
            "SELECT * FROM walk_lineage($1, $2, $3, $4, $5, NULL, true)",
            self.organization_id, list(roots), direction, depth, limit,
        )  # fmt: skip
        return [Walked(*row) for row in rows]


@pytest.fixture
async def graph(db: asyncpg.Connection) -> Graph:
    return Graph(db, await an_organization(db))


@pytest.mark.parametrize("seed", range(12))
async def test_the_walk_is_a_breadth_first_search(graph: Graph, seed: int) -> None:
    choose = random.Random(seed)
    nodes = await graph.add_nodes(choose.choice([5, 40, 150]))
    for job in range(3):
        pairs = [(choose.choice(nodes), choose.choice(nodes)) for _ in range(choose.choice([1, 2]) * len(nodes))]
        # One chain through all of it, so that there are long ways as well as cycles.
        await graph.add_edges([*pairs, *pairwise(nodes)], await graph.add_job(f"job {job}"))
    for direction in ("up", "down"):
        for depth, limit in ((0, 10), (1, 10_000), (3, 7), (20, 60), (200, 10_000)):
            roots = choose.sample(nodes, choose.choice([1, 1, 3]))
            expected = breadth_first(graph.neighbours(direction), roots, depth, limit)
            assert await graph.walk(roots, direction, depth, limit) == expected
            uncounted = await graph.db.fetch(
                "SELECT dataset_id, depth, hidden FROM walk_lineage($1, $2, $3, $4, $5, NULL)",
                graph.organization_id, roots, direction, depth, limit,
            )  # fmt: skip
            assert [tuple(row) for row in uncounted] == [(node, at, None) for node, at, _ in expected]


async def test_a_walk_without_a_limit_reaches_everything(graph: Graph) -> None:
    nodes = await graph.add_nodes(400)
    await graph.add_edges([(nodes[0], node) for node in nodes[1:]], await graph.add_job())
    assert len(await graph.walk(nodes[:1], limit=None)) == 400


async def test_a_hub_is_read_in_part_and_says_that_there_is_more(graph: Graph) -> None:
    hub, *targets = await graph.add_nodes(25_001)
    await graph.add_edges([(hub, target) for target in targets], await graph.add_job())
    ordered = sorted(targets)
    walked = await graph.walk([hub], limit=4)
    assert [item.id for item in walked] == [hub, *ordered[:3]]
    # 20,000 were read, of which 3 are shown; what was not read counts as one more.
    assert walked[0].hidden == 20_000 - 3 + 1
    assert [item.id for item in await graph.walk([hub], limit=10_000)] == [hub, *ordered[:9_999]]


@pytest.mark.parametrize("is_dropped", [True, False])
@pytest.mark.parametrize("direction", ["down", "up"])
async def test_a_hub_keeps_its_edges_when_the_one_after_the_first_hundred_does_not_count(
    graph: Graph, direction: str, is_dropped: bool
) -> None:
    hub, *others = await graph.add_nodes(151)
    ordered = sorted(others)
    lost = ordered.pop(100)
    pairs = {far: (hub, far) if direction == "down" else (far, hub) for far in others}
    await graph.add_edges([pairs[far] for far in ordered], await graph.add_job())
    retired = await graph.add_job("retired")
    await graph.add_edges([pairs[lost]], retired)
    if is_dropped:
        await graph.db.execute("UPDATE datasets SET dropped_at = $2 WHERE id = $1", lost, T0)
    else:
        await graph.complete(retired, T0 + timedelta(days=31))

    walked = await graph.walk([hub], direction)
    answer = await graphs.lineage(
        LineageStore(graph.db, graph.organization_id), hub, Bounds(20, 20, 1000), with_columns=False
    )

    assert walked == [Walked(hub, 0, 0), *(Walked(far, 1, 0) for far in ordered)]
    assert (await graph.walk([hub], direction, limit=10))[0].hidden == 149 - 9
    assert {(edge["source"], edge["target"]) for edge in answer["edges"]} == {pairs[far] for far in ordered}
    assert (answer["hidden"], answer["truncated"]) == (0, False)


async def test_hubs_on_the_way_do_not_hide_what_a_limit_has_room_for(graph: Graph) -> None:
    nodes = await graph.add_nodes(1000)
    root, hubs, rest = nodes[0], nodes[1:41], nodes[41:]
    pairs = [(root, hub) for hub in hubs] + [(hubs[7], target) for target in rest]
    await graph.add_edges(pairs, await graph.add_job())
    walked = await graph.walk([root], limit=10_000)
    assert walked == breadth_first(graph.neighbours("down"), [root], 20, 10_000)
    assert len(walked) == 1000


async def test_roots_beyond_the_limit_are_left_out(graph: Graph) -> None:
    nodes = await graph.add_nodes(5)
    assert [item.id for item in await graph.walk(nodes, limit=3)] == sorted(nodes)[:3]


async def test_a_walk_of_another_organisation_sees_nothing(graph: Graph) -> None:
    nodes = await graph.add_nodes(2)
    await graph.add_edges([(nodes[0], nodes[1])], await graph.add_job())
    stranger = await an_organization(graph.db)
    rows = await graph.db.fetch("SELECT * FROM walk_lineage($1, $2, 'down', 10, 10, NULL, true)", stranger, nodes[:1])
    assert [tuple(row) for row in rows] == [(nodes[0], 0, 0)]


async def test_named_datasets_are_followed_in_every_namespace(graph: Graph) -> None:
    nodes = await graph.add_nodes(3)
    await graph.add_edges([(nodes[0], nodes[1]), (nodes[1], nodes[2]), (nodes[2], nodes[0])], await graph.add_job())
    for node, name in zip(nodes, "012", strict=True):
        await insert(
            graph.db, graph.organization_id, "dataset_aliases", namespace="n", name=name, dataset_id=node,
            source="primary",
        )  # fmt: skip
    await graph.db.execute("SELECT set_config('headgate.organization_id', $1, false)", str(graph.organization_id))
    down = await graph.db.fetch("SELECT * FROM get_downstream_datasets('0')")
    up = await graph.db.fetch("SELECT * FROM get_upstream_datasets('0')")
    assert [tuple(row) for row in down] == [("1", 1), ("2", 2)]
    assert [tuple(row) for row in up] == [("2", 1), ("1", 2)]
    assert list(down[0].keys()) == ["dataset_name", "depth"]


@pytest.mark.parametrize(("days", "is_shown"), [(30, True), (31, False)])
async def test_an_edge_ends_when_its_job_has_done_without_it_for_more_than_30_days(
    graph: Graph, days: int, is_shown: bool
) -> None:
    nodes = await graph.add_nodes(2)
    job_id = await graph.add_job()
    await graph.add_edges([(nodes[0], nodes[1])], job_id)
    await graph.complete(job_id, T0 + timedelta(days=days))
    assert len(await graph.walk(nodes[:1])) == 1 + is_shown


@pytest.mark.parametrize("seed", range(8))
async def test_an_answer_has_the_edges_between_what_it_shows_and_counts_the_rest(graph: Graph, seed: int) -> None:
    choose = random.Random(seed)
    nodes = await graph.add_nodes(40)
    job_id = await graph.add_job()
    await graph.add_edges([(choose.choice(nodes), choose.choice(nodes)) for _ in range(70)], job_id)
    store = LineageStore(graph.db, graph.organization_id)
    for up, down, limit in ((2, 3, 1000), (1, None, 1000), (None, 2, 1000), (20, 20, 12), (3, 1, 5), (20, 20, 1000)):
        answer = await graphs.lineage(store, nodes[0], Bounds(up, down, limit), with_columns=False)
        shown = {node["id"]: node["depth"] for node in answer["nodes"]}
        ways = {"up": up, "down": down}
        walked = {
            way: breadth_first(graph.neighbours(way), nodes[:1], depth, limit)
            for way, depth in ways.items()
            if depth is not None
        }
        both = sorted(chain.from_iterable(walked.values()), key=lambda item: -item.depth)
        least = {item.id: item.depth for item in both}
        assert sorted(shown.values()) == sorted(least.values())[:limit]
        assert all(least[node] == depth for node, depth in shown.items())
        assert {(edge["source"], edge["target"]) for edge in answer["edges"]} == {
            (source, target) for source, target in graph.edges if source in shown and target in shown
        }
        beyond = {
            far
            for way, items in walked.items()
            for item in items
            if item.id in shown
            for far in graph.neighbours(way).get(item.id, ())
        }
        assert answer["hidden"] == len(beyond - set(shown))
        assert answer["truncated"] == bool(beyond - set(shown))


async def test_no_more_than_a_thousand_hidden_datasets_are_counted_for_sure(graph: Graph) -> None:
    nodes = await graph.add_nodes(2400)
    root, middle, rest = nodes[0], nodes[1:301], nodes[301:]
    pairs = [(root, node) for node in middle] + [(node, far) for far in rest for node in middle[:1]]
    pairs += [(near, rest[place]) for place, near in enumerate(middle)]
    await graph.add_edges(pairs, await graph.add_job())
    store = LineageStore(graph.db, graph.organization_id)
    answer = await graphs.lineage(store, root, Bounds(None, 1, 1000), with_columns=False)
    assert 1000 <= answer["hidden"] <= 2099


async def test_an_answer_full_of_hubs_does_not_take_long(graph: Graph) -> None:
    hub, sink, *between = await graph.add_nodes(22_000)
    pairs = [(hub, node) for node in between] + [(node, sink) for node in between] + [(hub, sink)]
    await graph.add_edges(pairs, await graph.add_job())
    store = LineageStore(graph.db, graph.organization_id)
    async with asyncio.timeout(30):
        answer = await graphs.lineage(store, hub, Bounds(None, 3, 10_000), with_columns=False)
    shown = {node["id"] for node in answer["nodes"]}
    assert len(shown) == 10_000
    assert {edge["target"] for edge in answer["edges"] if edge["source"] == hub} == shown - {hub}
