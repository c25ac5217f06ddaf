"""Measures what watching costs a Spark job; the last line is one JSON object.

Falls short or not, it exits 0: it reports, and whoever reads decides.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.support.spark_jobs import spark_version

from benchmarks.agent import ratios
from benchmarks.agent.fleet import VARIANTS, Session, conf, fleet, pause, session, shuffled
from benchmarks.agent.server import COUNTS
from benchmarks.command import run
from benchmarks.report import Report, machine
from benchmarks.stage import Organization, Stage, Store, elapsed_s, say
from benchmarks.traffic import process
from headgate.openlineage.packing import unpack

AGENTS = {"ours": "with_agent", "openlineage": "with_openlineage_spark", "again": "without_again"}
_EXTRACTION = """
SELECT raw
  FROM headgate.lineage_events
 WHERE organization_id = $1
   AND event_type = 'COMPLETE'
"""


@dataclass(frozen=True)
class Plan:
    """How much is measured, and how often."""

    fleets: int = 3
    rounds: int = 4
    warm_up: int = 3
    queries: int = 200
    # How fast a JVM runs this one job differs by a third from start to start: only starts average that out.
    # With none of its own, it comes after the small queries.
    big_fleets: int = 8
    big_rounds: int = 3
    big_warm_up: int = 4
    rows: int = 5_000_000


QUICK = Plan(fleets=1, rounds=2, warm_up=0, queries=5, big_fleets=0, big_rounds=2, big_warm_up=0, rows=20_000)


@dataclass
class Results:
    """What each variant's turns took: by work and variant, a list of rounds for each fleet."""

    turns: dict[tuple[str, str], list[list[dict[str, float]]]] = field(default_factory=dict)
    startups: dict[str, list[float]] = field(default_factory=dict)

    def begin_fleet(self, work: str) -> None:
        for name in VARIANTS:
            self.turns.setdefault((work, name), []).append([])

    def add(self, work: str, name: str, figures: dict[str, float]) -> None:
        self.turns[work, name][-1].append(figures)

    def of(self, work: str, name: str, figure: str) -> list[list[float]]:
        return [[turn[figure] for turn in rounds] for rounds in self.turns[work, name]]

    def median(self, work: str, name: str, figure: str) -> float:
        return ratios.median(self.of(work, name, figure))


class Server:
    """The server's two processes: their CPU, and what was sent to them."""

    def __init__(self, process: psutil.Process, postmaster: psutil.Process, port: int) -> None:
        self._processes = [process, postmaster]
        self._port = port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def cpu_s(self) -> float:
        return sum(map(_used_s, self._all()))

    def step_back(self) -> None:
        """A user's server runs elsewhere: here it takes what the Spark session leaves."""
        for each in self._all():
            # A backend may end between being listed and being asked.
            with contextlib.suppress(psutil.NoSuchProcess):
                each.nice(19)

    def _all(self) -> list[psutil.Process]:
        return [*self._processes, *self._processes[-1].children()]

    def counts(self, key: str) -> dict[str, int]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", COUNTS, headers={"authorization": f"Bearer {key}"})
        counts: dict[str, int] = json.loads(connection.getresponse().read())
        connection.close()
        return counts


def _used_s(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


async def measure(plan: Plan, at: Stage, report: Report) -> None:
    report.add({**machine(), "spark": spark_version()})
    store = await at.create("agent")
    organizations = {name: await store.add_organization(name) for name in VARIANTS}
    with tempfile.TemporaryDirectory(prefix="headgate-bench-spark-") as folder:
        async with process("benchmarks.agent.server", store.application_dsn) as running:
            port = (await running.read())["port"]
            server = Server(_listening(port), await _postmaster(store), port)
            server.step_back()
            results, sent = await _fleets(plan, server, organizations, Path(folder) / "data")
    _report_ratios(report, results)
    _report_costs(report, results, plan)
    _report_bytes(report, sent)
    report.add(await _extraction(store, organizations["ours"]))
    report.add({"rounds": plan.fleets * plan.rounds, "fleets": plan.fleets, "seconds": elapsed_s()})


def _listening(port: int) -> psutil.Process:
    """Our child that listens there."""
    children = psutil.Process().children()
    return next(each for each in children if port in {c.laddr.port for c in each.net_connections() if c.laddr})


async def _postmaster(store: Store) -> psutil.Process:
    async with store.plain() as conn:
        found = psutil.Process(await conn.fetchval("SELECT pg_backend_pid()")).parent()
    assert found is not None
    return found


async def _fleets(
    plan: Plan, server: Server, organizations: Mapping[str, Organization], data: Path
) -> tuple[Results, dict[str, dict[str, float]]]:
    keys = {name: organization.api_key for name, organization in organizations.items()}
    confs = {name: conf(name, server.url, keys[name], data.parent) for name in VARIANTS}
    say("making the files")
    async with session(confs["without"], data, data / "written") as maker:
        await maker.ask("prepare", rows=plan.rows)
    results, chance = Results(), random.Random(1)
    sent: dict[str, dict[str, float]] = {name: dict.fromkeys(("requests", "sent", "json"), 0.0) for name in VARIANTS}
    for number in range(plan.fleets):
        say(f"fleet {number + 1} of {plan.fleets}: starting and warming up")
        results.begin_fleet("small")
        async with fleet(confs, data, chance) as sessions:
            await _open(sessions, results)
            await _warm_up(sessions, "small", plan.warm_up, queries=plan.queries)
            before = {name: server.counts(keys[name]) for name in VARIANTS}
            await _turns("small", plan.rounds, sessions, server, results, chance, queries=plan.queries)
            for name in VARIANTS:
                after = server.counts(keys[name])
                for what, count in after.items():
                    sent[name][what] += (count - before[name][what]) / (plan.fleets * plan.rounds * plan.queries)
            if not plan.big_fleets:
                await _big(plan, sessions, server, results, chance)
    for number in range(plan.big_fleets):
        say(f"fleet {number + 1} of {plan.big_fleets} for the big job: starting and warming up")
        async with fleet(confs, data, chance) as sessions:
            await _open(sessions, results)
            await _big(plan, sessions, server, results, chance)
    return results, sent


async def _big(
    plan: Plan, sessions: Mapping[str, Session], server: Server, results: Results, chance: random.Random
) -> None:
    results.begin_fleet("big")
    await _warm_up(sessions, "big", plan.big_warm_up)
    await _turns("big", plan.big_rounds, sessions, server, results, chance)


async def _open(sessions: Mapping[str, Session], results: Results) -> None:
    for name, each in sessions.items():
        await each.ask("open")
        results.startups.setdefault(name, []).append(each.startup_s)


async def _warm_up(sessions: Mapping[str, Session], work: str, rounds: int, **order: Any) -> None:
    for each in sessions.values():
        for _ in range(rounds):
            await each.ask(work, **order)


async def _turns(
    work: str,
    rounds: int,
    sessions: Mapping[str, Session],
    server: Server,
    results: Results,
    chance: random.Random,
    **order: Any,
) -> None:
    for number in range(rounds):
        walls = {}
        for name in shuffled(chance, sessions):
            await pause()
            before = server.cpu_s()
            figures = await sessions[name].ask(work, **order)
            results.add(work, name, figures | {"server_s": server.cpu_s() - before})
            walls[name] = f"{figures['wall_s']:.2f}/{figures['cpu_s']:.2f}"
        say(f"{work}, round {number + 1}, wall/CPU s: {walls}")


def _report_ratios(report: Report, results: Results) -> None:
    for work, suffix in (("small", ""), ("big", "_big")):
        for name, key in AGENTS.items():
            for figure, more in (("wall_s", ""), ("cpu_s", "_cpu")):
                found = ratios.paired(results.of(work, name, figure), results.of(work, "without", figure))
                low, high = ratios.interval(found)
                interval = {f"{key}{more}{suffix}_interval": [round(low, 4), round(high, 4)]}
                report.add(interval, {f"{key}{more}{suffix}": ratios.median(found)})


def _report_costs(report: Report, results: Results, plan: Plan) -> None:
    """Milliseconds a query."""
    per_query = 1000 / plan.queries
    for name in VARIANTS:
        figures = {
            f"{name}_startup_s": statistics.median(results.startups[name]),
            f"{name}_big_s": results.median("big", name, "wall_s"),
        }
        for figure in ("wall", "cpu", "agent", "bus", "server"):
            figures[f"{name}_{figure}_ms"] = results.median("small", name, f"{figure}_s") * per_query
        figures[f"{name}_flush_ms"] = results.median("small", name, "flush_s") * 1000
        report.add(figures)


def _report_bytes(report: Report, sent: Mapping[str, Mapping[str, float]]) -> None:
    for name, suffix in (("ours", ""), ("openlineage", "_openlineage")):
        report.add(
            {
                f"event_bytes_per_query{suffix}": sent[name]["json"],
                f"sent_bytes_per_query{suffix}": sent[name]["sent"],
                f"requests_per_query{suffix}": sent[name]["requests"],
            }
        )


async def _extraction(store: Store, organization: Organization) -> dict[str, float]:
    async with store.plain() as conn:
        rows = await conn.fetch(_EXTRACTION, organization.id)
    facets = (json.loads(unpack(row["raw"]))["run"]["facets"].get("headgate_extraction", {}) for row in rows)
    millis = [facet["micros"] / 1000 for facet in facets if "micros" in facet]
    cuts = statistics.quantiles(millis, n=20, method="inclusive")
    return {"extraction_ms_p50": cuts[9], "extraction_ms_p95": cuts[-1]}


def main() -> None:
    run("benchmarks.agent", __doc__, lambda is_quick, at, report: measure(QUICK if is_quick else Plan(), at, report))


if __name__ == "__main__":
    main()
