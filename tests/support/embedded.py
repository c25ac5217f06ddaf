"""What tests do to an embedded PostgreSQL: ask it, wait for it, start it from another process, kill all of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import psutil

from headgate.server.db.embedded import EmbeddedPostgres, Running

Make = Callable[..., EmbeddedPostgres]

# Whoever runs the tests in the background ignores interrupts, and so would this process.
START_AND_WAIT = """
import signal, sys, time
from pathlib import Path
from headgate.server.db.embedded import EmbeddedPostgres
signal.signal(signal.SIGINT, signal.default_int_handler)
print(EmbeddedPostgres(Path(sys.argv[1]), binaries=Path(sys.argv[2])).start().pid, flush=True)
time.sleep(120)
"""


def sql(server: EmbeddedPostgres, *statements: str) -> Any:
    """Run the statements and give back the one value of the last."""

    async def run() -> Any:
        connection = await asyncpg.connect(server.dsn(user="postgres", database="postgres"), timeout=10)
        try:
            return [await connection.fetchval(statement) for statement in statements][-1]
        finally:
            await connection.close()

    return asyncio.run(run())


def cluster_of(server: EmbeddedPostgres) -> Path:
    return (server.directory / "pgdata").resolve()


def wait_until(condition: Callable[[], object], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


@contextlib.contextmanager
def another_process(code: str, server: EmbeddedPostgres, binaries: Path) -> Iterator[subprocess.Popen[str]]:
    """A Python process in a group of its own, as a terminal would start it."""
    command = [sys.executable, "-c", code, str(server.directory), str(binaries)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def read_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def kill_everything(running: Running) -> None:
    postmaster = psutil.Process(running.pid)
    for process in [postmaster, *postmaster.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
