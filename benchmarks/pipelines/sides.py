"""The processes that take turns, each with a warm JVM of its own, and what a turn costs them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
_OUTSIDE = ("HEADGATE_", "SPARK_", "PYSPARK_", "PYTHONPATH")
_STOP_S = 60


@dataclass(frozen=True)
class Turn:
    """What one turn took; the CPU is that of the process and all its children, the JVM first of all."""

    cpu_s: float
    wall_s: float
    jobs: int


class Side:
    """A process that does what it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._tree = psutil.Process(process.pid)
        self.spark: str = self._answer()["spark"]

    def ask(self, do: str, **more: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **more}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def turn(self, work: str) -> Turn:
        self.ask("clear", work=work)
        cpu, began = self._cpu_s(), time.perf_counter()
        jobs = self.ask("run", work=work)["jobs"]
        return Turn(self._cpu_s() - cpu, time.perf_counter() - began, jobs)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The JVM and libraries write here too.
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError("a side has died; its reason is above")

    def _cpu_s(self) -> float:
        return sum(map(_used_s, [self._tree, *self._tree.children(recursive=True)]))


def _used_s(process: psutil.Process) -> float:
    """What a process and those of its children that have ended have used."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        # It has ended since it was listed, and counts with its parent from now on.
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


@contextmanager
def sides(pythons: Mapping[str, Path], folder: Path) -> Iterator[dict[str, Side]]:
    """A process for each side, in the Python that has it."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(_side(name, python, folder)) for name, python in pythons.items()}


@contextmanager
def _side(name: str, python: Path, folder: Path) -> Iterator[Side]:
    process = subprocess.Popen(
        [str(python), "-m", "benchmarks.pipelines.job", name, str(folder)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(python),
    )
    side = None
    try:
        side = Side(process)
        yield side
    finally:
        if side is None:
            process.kill()
        else:
            side.stop()


def _environment(python: Path) -> dict[str, str]:
    """This process's own without what would configure us or Spark; nobody calls home."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(_OUTSIDE)}
    return own | {"PYSPARK_PYTHON": str(python), "GX_ANALYTICS_ENABLED": "false", "DO_NOT_TRACK": "1"}
