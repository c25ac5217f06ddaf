"""Runs the catalogue under each agent, against a server of its own, and writes docs/spark-comparison.md."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop
from tests.spark.queries import QUERIES
from tests.support.maven import openlineage
from tests.support.spark_jobs import environment

from benchmarks.agent.fleet import conf
from benchmarks.comparison.page import MARKER, page
from benchmarks.stage import Stage, say, stage
from benchmarks.traffic import process

PAGE = Path(__file__).parents[2] / "docs" / "spark-comparison.md"

# With columnar input, Spark 4.2.0 waits for ever for a Python function over parquet files, with an agent or without.
STEADY = {"spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false"}


async def compare(at: Stage) -> str:
    store = await at.create("comparison")
    found = {}
    async with process("benchmarks.agent.server", store.application_dsn) as server:
        url = f"http://127.0.0.1:{(await server.read())['port']}"
        for variant in ("ours", "openlineage"):
            say(f"running the queries with {variant}")
            key = (await store.add_organization(variant)).api_key
            with tempfile.TemporaryDirectory(prefix="headgate-compare-") as folder:
                found[variant] = await _watch(conf(variant, url, key, Path(folder)) | STEADY, url, key)
    return page(found["ours"], found["openlineage"], openlineage().rpartition(":")[2], QUERIES)


async def _watch(settings: dict[str, str], url: str, key: str) -> dict[str, Any]:
    order = json.dumps({"conf": settings, "url": url, "key": key})
    job = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.comparison.job", order), stdout=asyncio.subprocess.PIPE, env=environment()
    )
    output, _ = await job.communicate()
    if job.returncode != 0:
        raise RuntimeError("the queries could not be run; the reason is above")
    found: dict[str, Any] = json.loads(output.decode().splitlines()[-1])
    return found


def write(text: str, path: Path) -> None:
    """What people wrote above the marker stays."""
    written = path.read_text().partition(MARKER)[0] if path.exists() else ""
    path.write_text(f"{written}{MARKER}\n\n{text}")


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.comparison", description=__doc__)
    arguments.add_argument("--page", type=Path, default=PAGE, help="the file to write")
    chosen = arguments.parse_args()
    with stage() as at:
        write(uvloop.run(compare(at)), chosen.page)
    say(f"written to {chosen.page}")


if __name__ == "__main__":
    main()
