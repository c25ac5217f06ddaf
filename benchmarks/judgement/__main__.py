"""`make bench-judgement`: from an event to its verdict and from a failing test to its cause; the last line is JSON.

Falls short or not, it exits 0: it reports, and whoever reads decides.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import statistics
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg

from benchmarks.causes.score import share
from benchmarks.command import run
from benchmarks.judgement.truth import served
from benchmarks.judgement.world import JOBS, LINKS, NAMESPACE, POINTS, World, chained, measured, settled
from benchmarks.report import Report, machine
from benchmarks.stage import Stage, Store, elapsed_s, say
from benchmarks.traffic import Process, process

PRODUCER = "https://example.org/bench/1.0"
SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
FACET = {"_producer": PRODUCER, "_schemaURL": "https://openlineage.io/spec/facets/1-0-0/Facet.json"}
# A judgement that takes longer than this is counted as having taken so long.
PATIENCE_S = 10.0
# The ranking was tuned on those before.
FIRST_SEED = 1000
_LOOK_S = 0.0005

_VERDICT = """
SELECT true
  FROM headgate.dataset_metrics m
 WHERE m.organization_id = $1
   AND m.dataset_id = $2
   AND m.measured_at = $3
   AND m.verdicts IS NOT NULL
"""
_INCIDENT = """
SELECT true
  FROM headgate.incident_symptoms s
  JOIN headgate.incidents i ON i.organization_id = s.organization_id AND i.id = s.incident_id
 WHERE s.organization_id = $1
   AND s.run_id = $2
   AND i.root_cause IS NOT NULL
"""
_WAITING = "SELECT count(*) FROM headgate.async_task WHERE status IN ('PENDING', 'RUNNING') AND repeat_s IS NULL"


@dataclass(frozen=True)
class Plan:
    """How much is measured, and how often."""

    datasets: int = 100_000
    rounds: int = 400
    chain_rounds: int = 60
    flood: int = 5000
    runs: tuple[int, int] = (10, 10_000)
    # How large, and how many of them.
    platforms: tuple[tuple[int, int], ...] = ((10, 12), (100, 2))


QUICK = Plan(datasets=500, rounds=12, chain_rounds=6, flood=100, runs=(10, 100), platforms=((10, 1),))


class Api:
    """One keep-alive connection to the server."""

    def __init__(self, port: int, world: World) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._headers = {"Authorization": f"Bearer {world.api_key}", "Content-Type": "application/json"}

    def post(self, body: Any, path: str = "/api/v1/lineage") -> float:
        """How long the round trip took."""
        raw = json.dumps(body).encode()
        began = time.perf_counter()
        self._http.request("POST", path, body=raw, headers=self._headers)
        response = self._http.getresponse()
        answer = response.read()
        seconds = time.perf_counter() - began
        if response.status not in (200, 201):
            raise RuntimeError(f"{path} was answered with {response.status}: {answer[:500]!r}")
        return seconds


def written(world: World, number: int, rows: int, at: datetime) -> dict[str, Any]:
    """A run that has written a dataset."""
    statistics_facet = {"outputStatistics": {**FACET, "rowCount": rows, "size": rows * 120}}
    output = {"namespace": NAMESPACE, "name": world.name(number), "outputFacets": statistics_facet}
    return _event(world.job(number), at, outputs=[output])


def tested(world: World, number: int, at: datetime) -> dict[str, Any]:
    """A test of a dataset that has failed."""
    assertion = {"assertion": "not_null", "success": False, "column": "id"}
    facets = {"dataQualityAssertions": {**FACET, "assertions": [assertion]}}
    dataset = {"namespace": NAMESPACE, "name": world.name(number), "inputFacets": facets}
    event = _event(f"test_{number}", at, inputs=[dataset])
    job_type = {**FACET, "processingType": "BATCH", "integration": "DBT", "jobType": "TEST"}
    event["job"]["facets"] = {"jobType": job_type}
    return event


def _event(job: str, at: datetime, **datasets: Any) -> dict[str, Any]:
    return {
        "eventType": "COMPLETE",
        "eventTime": at.isoformat(),
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
        "run": {"runId": str(uuid4())},
        "job": {"namespace": JOBS, "name": job},
        **datasets,
    }


async def measure(is_quick: bool, at: Stage, report: Report) -> None:
    plan = QUICK if is_quick else Plan()
    report.add({**machine(), "sync_ms": at.sync_ms(), "datasets": plan.datasets, "points": POINTS})
    store = await at.create("judgement")
    world = await measured(store, "Measured", plan.datasets)
    few, many = [await chained(store, f"Chain of {runs}", runs) for runs in plan.runs]
    await settled(store)
    async with process("benchmarks.judgement.server", store.application_dsn) as server, store.plain() as conn:
        port = (await server.read())["port"]
        await _verdicts(plan, port, world, conn, report)
        await _incidents(plan, port, world, conn, report)
        await _throughput(plan, port, world, conn, server, report)
        await _chains(plan, port, (few, many), conn, report)
    await _causes(plan, await at.create("truth"), report)
    report.add({"seconds": elapsed_s()})


async def _verdicts(plan: Plan, port: int, world: World, conn: asyncpg.Connection, report: Report) -> None:
    """One event after the other: its round trip, and how long after its answer the verdict was there."""
    say("verdicts")
    api, dice = Api(port, world), random.Random(1)
    trips, waits = [], []
    for _ in range(plan.rounds):
        number, now = dice.randrange(world.datasets), datetime.now(UTC)
        event = written(world, number, round((1000 + number % 9000) * dice.uniform(0.98, 1.02)), now)
        trips.append(await asyncio.to_thread(api.post, event))
        waits.append(await _until(conn, _VERDICT, world.organization_id, world.dataset_id(number), now))
    _add(report, "verdict", trips, waits)


async def _incidents(plan: Plan, port: int, world: World, conn: asyncpg.Connection, report: Report) -> None:
    """A failing test after the other, each of another dataset: every one opens an incident of its own."""
    say("incidents")
    api, dice = Api(port, world), random.Random(2)
    trips, waits = [], []
    for number in dice.sample(range(world.datasets), min(plan.rounds, world.datasets)):
        event = tested(world, number, datetime.now(UTC))
        trips.append(await asyncio.to_thread(api.post, event))
        waits.append(await _until(conn, _INCIDENT, world.organization_id, event["run"]["runId"]))
    _add(report, "incident", trips, waits)


async def _throughput(
    plan: Plan, port: int, world: World, conn: asyncpg.Connection, server: Process, report: Report
) -> None:
    """Many events at once: how many are judged in a second of the server's own processor time."""
    say("throughput of detection")
    api, dice = Api(port, world), random.Random(3)
    numbers = dice.sample(range(world.datasets), min(plan.flood, world.datasets))
    now = datetime.now(UTC)
    events = [written(world, number, 1000 + number % 9000, now) for number in numbers]
    await _idle(conn)
    for first in range(0, len(events), 500):
        await asyncio.to_thread(api.post, events[first : first + 500], "/api/v1/lineage/batch")
    before, began = server.cpu_s, time.perf_counter()
    left = await conn.fetchval(_WAITING)
    await _idle(conn)
    seconds, cpu_s = time.perf_counter() - began, server.cpu_s - before
    report.add(
        {
            "detections_per_s": left / max(seconds, 1e-9),
            "detections_per_cpu_s": left / max(cpu_s, 1e-9),
        }
    )


async def _chains(plan: Plan, port: int, worlds: tuple[World, World], conn: asyncpg.Connection, report: Report) -> None:
    """The last dataset of a chain fails its test: with few runs a job and with many, in turns."""
    say("chains")
    apis = [Api(port, world) for world in worlds]
    waits: list[list[float]] = [[], []]
    for turn in range(plan.chain_rounds):
        for place, (api, world) in enumerate(zip(apis, worlds, strict=True)):
            event = tested(world, LINKS, datetime.now(UTC))
            event["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"][0]["column"] = f"column_{turn}"
            await asyncio.to_thread(api.post, event)
            waits[place].append(await _until(conn, _INCIDENT, world.organization_id, event["run"]["runId"]))
    few, many = (statistics.median(each) for each in waits)
    report.add({"chain_few_ms": few * 1000, "chain_many_ms": many * 1000}, {"runs_10k_vs_10": many / few})


async def _causes(plan: Plan, store: Store, report: Report) -> None:
    """Simulated platforms with planted causes: how often the incident of a symptom names the cause."""
    say("planted causes")
    by_size = {
        datasets: [
            answer for seed in range(FIRST_SEED, FIRST_SEED + number) for answer in await served(store, seed, datasets)
        ]
        for datasets, number in plan.platforms
    }
    for datasets, answers in by_size.items():
        report.add({f"cause_first_{datasets}": share(answer.is_first for answer in answers)})
    everything = [answer for answers in by_size.values() for answer in answers]
    report.add(
        {"causes_planted": len(everything), "causes_seen": sum(answer.is_found for answer in everything)},
        {
            "cause_first": share(answer.is_first for answer in everything),
            "newest_run_first": share(answer.is_newest for answer in everything),
        },
    )


def _add(report: Report, name: str, trips: list[float], waits: list[float]) -> None:
    trip, p95 = statistics.median(trips), statistics.quantiles(waits, n=20, method="inclusive")[-1]
    report.add(
        {
            f"{name}_ingest_p50_ms": trip * 1000,
            f"{name}_p50_ms": statistics.median(waits) * 1000,
            f"{name}_p95_ms": p95 * 1000,
        },
        {f"{name}_vs_ingest": p95 / trip},
    )


async def _until(conn: asyncpg.Connection, query: str, *arguments: Any) -> float:
    """How long it took until there was such a row."""
    began = time.perf_counter()
    while not await conn.fetchval(query, *arguments):
        if time.perf_counter() - began > PATIENCE_S:
            return PATIENCE_S
        await asyncio.sleep(_LOOK_S)
    return time.perf_counter() - began


async def _idle(conn: asyncpg.Connection) -> None:
    """Until no task waits."""
    while True:
        if not await conn.fetchval(_WAITING):
            return
        await asyncio.sleep(0.01)


if __name__ == "__main__":
    run("benchmarks.judgement", __doc__, measure)
