"""Ways from one dataset to another, shortest first.

Both ends are walked towards each other, so that what is read stays small; the search itself is pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from headgate.server.lineage.graphs import Json, jobs_of, node_of
from headgate.server.lineage.store import DOWN, UP, Edge, LineageStore

MAX_NODES = 2000
MAX_DEPTH = 20
MAX_TRIES = 50_000

Path = tuple[UUID, ...]
Graph = Mapping[UUID, Sequence[UUID]]


class Search(NamedTuple):
    paths: list[Path]
    is_cut: bool


async def paths_between(store: LineageStore, source: UUID, target: UUID, limit: int) -> Json:
    """Paths along the edges, with the jobs of each step."""
    ahead = await store.walk(source, DOWN, MAX_DEPTH, MAX_NODES)
    behind = await store.walk(target, UP, MAX_DEPTH, MAX_NODES)
    is_whole = len(ahead) < MAX_NODES and len(behind) < MAX_NODES
    both = [node for node in ahead if node in behind]
    # What lies on a way is led to from both ends. A walk that was cut short may have missed some of it, which the other
    # may have seen: then everything that either has seen is searched, if they meet at all.
    edges = await store.edges(both if is_whole or not both else list(ahead | behind))
    found = find_paths(_graph(edges), source, target, limit)
    return await _answer(store, source, target, edges, found._replace(is_cut=found.is_cut or not is_whole))


def find_paths(graph: Graph, source: UUID, target: UUID, limit: int) -> Search:
    """The shortest paths that visit no node twice; cut if there are more than `limit`, or too many to try."""
    distance = _distances(_reversed(graph), target)
    if source not in distance:
        return Search([], False)
    found: list[Path] = []
    # The least that a path can still come to decides which is tried next, so they come out in order of length; of
    # equals the one that is nearest to the end, so the first is found at once.
    tries: list[tuple[int, int, int, Path]] = [(distance[source], distance[source], 0, (source,))]
    tried = 0
    while tries and tried < MAX_TRIES:
        *_, path = heappop(tries)
        if path[-1] == target:
            found.append(path)
            if len(found) > limit:
                break
            continue
        for node in _steps(graph, path, distance):
            tried += 1
            heappush(tries, (len(path) + distance[node], distance[node], tried, (*path, node)))
    return Search(found[:limit], bool(tries) or len(found) > limit)


def _steps(graph: Graph, path: Path, distance: Mapping[UUID, int]) -> Iterator[UUID]:
    return (node for node in graph.get(path[-1], ()) if node in distance and node not in path)


def _distances(graph: Graph, start: UUID) -> dict[UUID, int]:
    distance = {start: 0}
    frontier = [start]
    while frontier:
        fresh = {node for near in frontier for node in graph.get(near, ()) if node not in distance}
        distance |= dict.fromkeys(fresh, distance[frontier[0]] + 1)
        frontier = list(fresh)
    return distance


def _graph(edges: Sequence[Edge]) -> dict[UUID, list[UUID]]:
    graph: dict[UUID, dict[UUID, None]] = {}
    for edge in edges:
        graph.setdefault(edge.source, {})[edge.target] = None
    return {source: list(targets) for source, targets in graph.items()}


def _reversed(graph: Graph) -> dict[UUID, list[UUID]]:
    turned: dict[UUID, list[UUID]] = {}
    for source, targets in graph.items():
        for target in targets:
            turned.setdefault(target, []).append(source)
    return turned


async def _answer(store: LineageStore, source: UUID, target: UUID, edges: Sequence[Edge], found: Search) -> Json:
    steps = {step for path in found.paths for step in pairwise(path)}
    between: dict[tuple[UUID, UUID], list[Edge]] = {}
    for edge in edges:
        if edge[:2] in steps:
            between.setdefault(edge[:2], []).append(edge)
    nodes = {row["id"]: row for row in await store.nodes(list({node for path in found.paths for node in path}))}
    jobs = await store.jobs({edge.job for group in between.values() for edge in group})
    shown = {step: _step(group, jobs) for step, group in between.items()}
    return {
        "from": source,
        "to": target,
        "paths": [_path(path, nodes, shown) for path in found.paths],
        "truncated": found.is_cut,
    }


def _path(path: Path, nodes: Mapping[UUID, Any], steps: Mapping[tuple[UUID, UUID], Json]) -> Json:
    return {
        "length": len(path) - 1,
        "nodes": [node_of(nodes[node], depth) for depth, node in enumerate(path)],
        "edges": [steps[step] for step in pairwise(path)],
    }


def _step(edges: Sequence[Edge], jobs: Mapping[UUID, Any]) -> Json:
    return {
        "source": edges[0].source,
        "target": edges[0].target,
        "jobs": jobs_of([edge.job for edge in edges], jobs),
        "last_seen_at": max(edge.last_seen_at for edge in edges),
    }
