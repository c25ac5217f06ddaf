"""`make bench-lineage`: measures how fast lineage, lists and search answer; the last line is one JSON object.

Falls short or not, it exits 0: it reports, and whoever reads decides.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote
from uuid import UUID

import asyncpg

from benchmarks.command import run
from benchmarks.graphs import LAYERS, Graph, build
from benchmarks.reading import PING
from benchmarks.report import Report, machine
from benchmarks.stage import Stage, Store, elapsed_s, say
from benchmarks.traffic import Process, process
from headgate.server.db.pool import set_organization

DEPTH, LIMIT = 10, 1000
# The recursive query is stopped after this long, and counted as having taken so long.
CTE_LIMIT_S = 10.0

# Section 3.7 of the design this began with, on our tables: names are joined, every path is walked.
_CTE = """
WITH RECURSIVE downstream AS (
  SELECT dt.name AS dataset_name, 1 AS depth
    FROM datasets ds
    JOIN lineage_edges le ON le.organization_id = $1 AND ds.id = le.source_id
    JOIN datasets dt ON dt.organization_id = $1 AND le.target_id = dt.id
   WHERE ds.organization_id = $1 AND ds.name = $2
   UNION
  SELECT dt.name AS dataset_name, d.depth + 1 AS depth
    FROM downstream d
    JOIN datasets ds ON ds.organization_id = $1 AND d.dataset_name = ds.name
    JOIN lineage_edges le ON le.organization_id = $1 AND ds.id = le.source_id
    JOIN datasets dt ON dt.organization_id = $1 AND le.target_id = dt.id
   WHERE d.depth < 10
)
SELECT DISTINCT dataset_name, min(depth) AS depth
  FROM downstream
 GROUP BY dataset_name
 ORDER BY depth, dataset_name
"""
_WALK = "SELECT dataset_id, depth FROM walk_lineage($1, ARRAY[$2::uuid], 'down', $3, $4, NULL)"
_ROOTS = """
SELECT id, name
  FROM headgate.datasets
 WHERE organization_id = $1
   AND id = ANY ($2::uuid[])
"""


@dataclass(frozen=True)
class Plan:
    """What is measured, and how often."""

    sizes: tuple[tuple[str, int, int], ...] = (
        ("1k", 1_000, 5_000),
        ("100k", 100_000, 500_000),
        ("1m", 1_000_000, 5_000_000),
    )
    rounds: int = 300
    cte_rounds: int = 12
    list_rounds: int = 200


QUICK = Plan(sizes=(("1k", 1_000, 5_000), ("100k", 4_000, 20_000)), rounds=10, cte_rounds=2, list_rounds=10)


class Times:
    """Seconds that each of several things took, by name."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    def add(self, name: str, seconds: float) -> None:
        self._seconds.setdefault(name, []).append(seconds)

    def of(self, name: str) -> list[float]:
        return self._seconds[name]

    def p95(self, name: str) -> float:
        return statistics.quantiles(self._seconds[name], n=20, method="inclusive")[-1]

    def p50(self, name: str) -> float:
        return statistics.median(self._seconds[name])

    def figures(self) -> dict[str, float]:
        found = {}
        for name in self._seconds:
            found[f"{name}_p50_ms"] = self.p50(name) * 1000
            found[f"{name}_p95_ms"] = self.p95(name) * 1000
        return found


class Api:
    """One keep-alive connection to the server; blocking, because the server is another process."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def get(self, graph: Graph, path: str) -> tuple[float, bytes]:
        began = time.perf_counter()
        self._http.request("GET", path, headers={"Authorization": f"Bearer {graph.api_key}"})
        response = self._http.getresponse()
        body = response.read()
        seconds = time.perf_counter() - began
        if response.status != 200:
            raise RuntimeError(f"{path} was answered with {response.status}: {body[:500]!r}")
        return seconds, body


async def measure(plan: Plan, at: Stage, report: Report) -> None:
    report.add(machine())
    store = await at.create("lineage")
    graphs = await _graphs(store, plan)
    await _settle(store)
    async with process("benchmarks.reading", store.application_dsn) as server:
        api = Api((await server.read())["port"])
        times = await _walks(store, graphs, plan, api)
        report.add(times.figures(), _walk_ratios(times, graphs))
        report.add(*await _against_cte(store, graphs["100k_random"], plan))
        report.add({"search_index_s": _index(graphs["100k_random"], api)})
        await _settle(store)
        report.add(*_lists(graphs["100k_random"], plan, api))
        report.add(*_whole_map(graphs, api, server))
    report.add({"database_mib": await store.size() / 2**20, "seconds": elapsed_s()})


async def _graphs(store: Store, plan: Plan) -> dict[str, Graph]:
    graphs = {}
    for name, datasets, edges in plan.sizes:
        for shape in ("random", "local"):
            graphs[f"{name}_{shape}"] = await build(store, f"{name} {shape}", datasets, edges, local=shape == "local")
    return graphs


async def _settle(store: Store) -> None:
    """What autovacuum would have done on a server that grew over months."""
    say("analysing")
    async with store.plain() as conn:
        await conn.execute("VACUUM ANALYZE", timeout=1800)
        await conn.execute("CHECKPOINT", timeout=600)


async def _walks(store: Store, graphs: Mapping[str, Graph], plan: Plan, api: Api) -> Times:
    """Ten levels down from datasets of the upper half, at most a thousand datasets: as SQL, and as users ask for it."""
    say("walking")
    times = Times()
    async with store.application(1) as database, database.connection() as conn:
        roots = {name: _roots(graph, seed=1) for name, graph in graphs.items()}
        for name, graph in graphs.items():
            for _ in range(5):
                api.get(graph, _downstream(next(roots[name])))
        for _ in range(plan.rounds):
            for name, graph in graphs.items():
                root = next(roots[name])
                times.add(f"walk_{name}", await _walk(conn, graph, root))
                times.add(f"downstream_{name}", api.get(graph, _downstream(root))[0])
    return times


async def _walk(conn: asyncpg.Connection, graph: Graph, root: UUID) -> float:
    async with conn.transaction():
        await set_organization(conn, graph.organization_id)
        began = time.perf_counter()
        await conn.fetch(_WALK, graph.organization_id, root, DEPTH, LIMIT)
        return time.perf_counter() - began


def _downstream(root: UUID) -> str:
    return f"/api/v1/datasets/{root}/downstream?depth={DEPTH}&limit={LIMIT}"


def _roots(graph: Graph, seed: int) -> Iterator[UUID]:
    """Datasets of the upper half of the layers, at random, so that ten levels lie below each."""
    chance = random.Random(seed)
    while True:
        yield node(graph, chance.randrange(graph.width * LAYERS // 2))


def node(graph: Graph, number: int) -> UUID:
    from hashlib import md5

    return UUID(md5(f"{graph.organization_id}{number}".encode(), usedforsecurity=False).hexdigest())


def _walk_ratios(times: Times, graphs: Mapping[str, Graph]) -> dict[str, float]:
    if "1m_random" not in graphs:
        return {}
    return {
        "p95_1m_vs_1k": times.p95("downstream_1m_random") / times.p95("downstream_1k_random"),
        "p95_1m_vs_1k_local": times.p95("downstream_1m_local") / times.p95("downstream_1k_local"),
        "walk_p95_1m_vs_1k": times.p95("walk_1m_random") / times.p95("walk_1k_random"),
    }


async def _against_cte(store: Store, graph: Graph, plan: Plan) -> tuple[dict[str, float], dict[str, float]]:
    """The same question to the walk and to the recursive query, in turns, from the same datasets."""
    say("walking against the recursive query")
    times, stopped = Times(), 0
    async with store.application(1) as database, database.connection() as conn:
        roots = _roots(graph, seed=2)
        for _ in range(plan.cte_rounds):
            root = next(roots)
            times.add("bfs", await _walk(conn, graph, root))
            seconds = await _recursive(conn, graph, root)
            stopped += seconds >= CTE_LIMIT_S
            times.add("cte", seconds)
    ratio = sum(times.of("cte")) / sum(times.of("bfs"))
    return {**times.figures(), "cte_stopped": stopped, "cte_rounds": plan.cte_rounds}, {"bfs_vs_cte": ratio}


async def _recursive(conn: asyncpg.Connection, graph: Graph, root: UUID) -> float:
    began = time.perf_counter()
    try:
        async with conn.transaction():
            await set_organization(conn, graph.organization_id)
            await conn.execute(f"SET LOCAL statement_timeout = {int(CTE_LIMIT_S * 1000)}")
            name = await conn.fetchval(
                "SELECT name FROM datasets WHERE organization_id = $1 AND id = $2", graph.organization_id, root
            )
            began = time.perf_counter()
            await conn.fetch(_CTE, graph.organization_id, name, timeout=2 * CTE_LIMIT_S)
    except asyncpg.QueryCanceledError:
        return CTE_LIMIT_S
    return min(time.perf_counter() - began, CTE_LIMIT_S)


def _index(graph: Graph, api: Api) -> float:
    """Search until all names are indexed; how long that took."""
    say("indexing for search")
    began = time.monotonic()
    while json.loads(api.get(graph, "/api/v1/search?q=orders")[1])["indexing"]:
        if time.monotonic() - began > 600:
            raise RuntimeError("the search index is not done after ten minutes")
    return time.monotonic() - began


def _lists(graph: Graph, plan: Plan, api: Api) -> tuple[dict[str, float], dict[str, float]]:
    """Pages of datasets and jobs, and searches, in turns with a route that does `SELECT 1`."""
    say("listing and searching")
    times, chance = Times(), random.Random(3)
    cursors: dict[str, str | None] = {}
    for _ in range(plan.list_rounds):
        times.add("ping", api.get(graph, PING)[0])
        times.add("datasets", _page(api, graph, "/api/v1/datasets", chance.choice(_SORTS), cursors))
        times.add("jobs", _page(api, graph, "/api/v1/jobs", "", cursors))
        times.add("search", api.get(graph, f"/api/v1/search?limit=20&q={quote(_query(chance, graph))}")[0])
    lists = times.p95("datasets"), times.p95("jobs")
    ratios = {
        "list_vs_ping": max(lists) / times.p95("ping"),
        "datasets_vs_ping": lists[0] / times.p95("ping"),
        "jobs_vs_ping": lists[1] / times.p95("ping"),
        "search_vs_ping": times.p95("search") / times.p95("ping"),
    }
    return times.figures(), ratios


_SORTS = ("name", "-freshness", "-rows", "-downstream")


def _page(api: Api, graph: Graph, path: str, sort: str, cursors: dict[str, str | None]) -> float:
    """A page of a hundred: the next one, or the first after the tenth."""
    key = path + sort
    cursor = cursors.get(key)
    query = f"?limit=100{f'&sort={quote(sort)}' if sort else ''}{f'&cursor={quote(cursor)}' if cursor else ''}"
    seconds, body = api.get(graph, path + query)
    cursors[key] = json.loads(body)["next_cursor"] if random.random() < 0.9 else None
    return seconds


def _query(chance: random.Random, graph: Graph) -> str:
    """What people type: a word, its beginning, its middle, a full name, two words, a number, now and then a typo."""
    number = str(chance.randrange(graph.datasets))
    return chance.choice(
        (
            "orders",
            "ship",
            "voic",
            "istor",
            f"customers_daily_{number}",
            f"payments {number}",
            number,
            f"build_{number}",
            "mart.sess",
            "custmers",
            "nothing like this",
        )
    )


def _whole_map(graphs: Mapping[str, Graph], api: Api, server: Process) -> tuple[dict[str, float], dict[str, float]]:
    """The largest answer: what it costs the server in memory, against its size."""
    name = "1m_random" if "1m_random" in graphs else "100k_random"
    say(f"the map of {name}")
    before = server.memory_mib
    seconds, body = api.get(graphs[name], "/api/v1/lineage/map?limit=1000000")
    figures = {
        "map_mib": len(body) / 2**20,
        "map_s": seconds,
        "map_server_growth_mib": server.memory_mib - before,
    }
    return figures, {}


def main() -> None:
    run("benchmarks.lineage", __doc__, lambda is_quick, at, report: measure(QUICK if is_quick else Plan(), at, report))


if __name__ == "__main__":
    main()
