"""Single events over HTTP with 64 clients: group commit against a transaction for each, and the server's memory."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psutil

from benchmarks.slices import Slice, Tally, median_ratio, ratio, take_turns
from benchmarks.stage import Stage, say

CLIENTS = 64
_MIB = 1024 * 1024


class Process:
    """A Python process of ours that talks in lines of JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._watched = psutil.Process(process.pid)

    async def read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("a process of the benchmark has died; its reason is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return await self.read()

    @property
    def memory_mib(self) -> float:
        return float(self._watched.memory_info().rss) / _MIB

    @property
    def cpu_s(self) -> float:
        times = self._watched.cpu_times()
        return float(times.user + times.system)

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        await self._process.wait()


@asynccontextmanager
async def process(module: str, argument: str) -> AsyncIterator[Process]:
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, argument),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=64 * _MIB,
    )
    running = Process(started)
    try:
        yield running
    finally:
        await running.stop()


class Traffic:
    """One server under load, and what was measured of it."""

    def __init__(self, server: Process, clients: Process, key: str) -> None:
        self._server = server
        self._clients = clients
        self._key = key
        self.latencies: dict[str, list[float]] = {}
        self.cpu: dict[str, Tally] = {}

    def slice_of(self, name: str, port: int, events: int, *, batch: int = 0, clients: int = CLIENTS) -> Slice:
        path = "/api/v1/lineage/batch" if batch else "/api/v1/lineage"
        order = {"port": port, "path": path, "key": self._key, "clients": clients, "events": events, "batch": batch}

        async def run() -> tuple[int, float]:
            before = self._server.cpu_s
            answer = await self._clients.ask(order)
            self.cpu.setdefault(name, Tally()).add(events, self._server.cpu_s - before)
            self.latencies.setdefault(name, []).extend(answer["latencies_ms"])
            return events, answer["seconds"]

        return run


async def measure(
    stage: Stage, *, rounds: int, group_events: int, single_events: int
) -> tuple[dict[str, float], dict[str, float]]:
    store = await stage.create("traffic")
    organization = await store.add_organization("Traffic")
    async with process("benchmarks.server", store.application_dsn) as server, process("benchmarks.load", "4") as load:
        ports = await server.read()
        figures = {"server_memory_start_mib": server.memory_mib}
        traffic = Traffic(server, load, organization.api_key)
        variants = {
            "group": traffic.slice_of("group", ports["group"], group_events),
            "single": traffic.slice_of("single", ports["single"], single_events),
            "batch_http": traffic.slice_of("batch_http", ports["group"], group_events, batch=100, clients=4),
        }
        for run in variants.values():
            await run()
        traffic.latencies.clear()
        traffic.cpu.clear()
        say(f"{CLIENTS} clients over HTTP: {rounds} rounds of {group_events} and {single_events} events")
        tallies = await take_turns(rounds, variants)
        figures["server_memory_loaded_mib"] = server.memory_mib
    return {**figures, **_rates(tallies, traffic)}, _ratios(tallies)


def _rates(tallies: dict[str, Tally], traffic: Traffic) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, tally in tallies.items():
        cuts = statistics.quantiles(traffic.latencies[name], n=100)
        figures |= {
            f"{name}_per_s": tally.rate,
            f"{name}_p50_ms": cuts[49],
            f"{name}_p99_ms": cuts[98],
            f"{name}_server_cpu_us": traffic.cpu[name].micros,
        }
    return figures


def _ratios(tallies: dict[str, Tally]) -> dict[str, float]:
    group, single = tallies["group"], tallies["single"]
    return {"group_vs_naive": ratio(group, single), "group_vs_naive_median": median_ratio(group, single)}
