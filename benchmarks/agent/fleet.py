"""Spark sessions that live at the same time and take turns: without an agent, with ours, with openlineage-spark."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.maven import jars, openlineage
from tests.support.spark_jobs import DEFAULTS, agent_jar, environment

# `again` is `without` a second time: what the two differ by is what this measurement cannot tell from nothing.
VARIANTS = ("without", "again", "ours", "openlineage")
_STOP_S = 60
# A session's leftovers (its caches, the server's own follow-ups) should not fall into the turn of the next.
_PAUSE_S = 0.5


def conf(variant: str, url: str, key: str, folder: Path) -> dict[str, str]:
    """A session's configuration; nothing but the agent differs.

    Our jar is copied to `folder`: one that is built anew meanwhile would break the sessions that have it open.
    """
    common = DEFAULTS | {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": "-Xms2g"}
    if variant == "ours":
        return common | {
            "spark.jars": str(shutil.copy2(agent_jar(), folder)),
            "spark.extraListeners": "headgate.spark.HeadgateListener",
            "spark.headgate.url": url,
            "spark.headgate.apiKey": key,
        }
    return common | (official(url, key) if variant == "openlineage" else {})


def official(url: str, key: str) -> dict[str, str]:
    """The configuration that openlineage-spark's documentation gives for an HTTP server with a key."""
    return {
        "spark.jars": ",".join(map(str, jars(openlineage()))),
        "spark.extraListeners": "io.openlineage.spark.agent.OpenLineageSparkListener",
        "spark.openlineage.transport.type": "http",
        "spark.openlineage.transport.url": url,
        "spark.openlineage.transport.auth.type": "api_key",
        "spark.openlineage.transport.auth.apiKey": key,
    }


class Session:
    """A Spark session in another process."""

    def __init__(self, process: asyncio.subprocess.Process, data: Path, own: Path) -> None:
        self._process = process
        self._where = {"data": str(data), "own": str(own)}
        self.startup_s = 0.0

    async def ready(self) -> None:
        self.startup_s = (await self._answer())["startup_s"]

    async def ask(self, do: str, **more: Any) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **self._where, **more}).encode() + b"\n")
        return await self._answer()

    async def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            # The JVM writes here too, if an option makes it talk.
            if line.startswith(b"{"):
                answer: dict[str, float] = json.loads(line)
                return answer
        raise RuntimeError("a Spark session has died; its reason is above")

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_S)
        except TimeoutError:
            self._process.kill()


@asynccontextmanager
async def session(settings: Mapping[str, str], data: Path, own: Path) -> AsyncIterator[Session]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.agent.job", json.dumps(dict(settings))),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )
    started = Session(process, data, own)
    try:
        await started.ready()
        yield started
    finally:
        await started.stop()


@asynccontextmanager
async def fleet(
    confs: Mapping[str, Mapping[str, str]], data: Path, chance: random.Random
) -> AsyncIterator[dict[str, Session]]:
    """A session of each variant, started one after the other in random order."""
    async with AsyncExitStack() as stack:
        sessions = {}
        for name in shuffled(chance, confs):
            sessions[name] = await stack.enter_async_context(session(confs[name], data, data / "written" / name))
        yield sessions


def shuffled(chance: random.Random, names: Mapping[str, object]) -> list[str]:
    return chance.sample(list(names), len(names))


async def pause() -> None:
    await asyncio.sleep(_PAUSE_S)
