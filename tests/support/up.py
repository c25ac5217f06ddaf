"""`headgate up` as a real process in a folder of its own, and ways to end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

from headgate.client import HeadgateClient
from headgate.server.db.embedded import EmbeddedPostgres

HEADGATE = [sys.executable, "-m", "headgate.cli.main"]


def environment(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    return own | {"COLUMNS": "80", "NO_COLOR": "1"} | more


def headgate(*arguments: str, cwd: Path, timeout_s: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return subprocess.run(
        [*HEADGATE, *arguments],
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder as a user's would be: the database of root runs as somebody else."""
    with tempfile.TemporaryDirectory(prefix="headgate-up-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def wait_until(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.05)


class Up:
    """A server in `folder`; its data directory is `.headgate` there, as it would be for a user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data_dir = folder / ".headgate"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self, *arguments: str, port: int = 0, **env: str) -> Up:
        # A session of its own, so that a signal to the group reaches what a terminal's Ctrl-C would.
        with (self.folder / "out.txt").open("ab") as out, (self.folder / "err.txt").open("ab") as err:
            self._process = subprocess.Popen(
                [*HEADGATE, "up", "--port", str(port), *arguments],
                cwd=self.folder,
                env=environment(**env),
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return self

    def await_ready(self, timeout_s: float = 60) -> Up:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.errors()
            return self._is_announced() and self.client().ready()

        wait_until(is_ready, timeout_s, "ready")
        return self

    def signal_group(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def stop(self, number: int = signal.SIGTERM, timeout_s: float = 20) -> int:
        """Signal the process and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout_s)

    def credentials(self) -> dict[str, str]:
        return dict(json.loads((self.data_dir / "credentials.json").read_bytes()))

    def port(self) -> int:
        return int(self.credentials()["url"].rpartition(":")[2])

    def client(self, *, attempts: int = 1) -> HeadgateClient:
        known = self.credentials()
        return HeadgateClient(known["url"], known["api_key"], attempts=attempts, timeout_s=20)

    def output(self) -> str:
        return (self.folder / "out.txt").read_text()

    def errors(self) -> str:
        return (self.folder / "err.txt").read_text()

    def postgres(self) -> list[psutil.Process]:
        """Every PostgreSQL process of this data directory."""
        cluster = str((self.data_dir / "postgres" / "pgdata").resolve())
        return [process for process in psutil.process_iter() if _works_in(process, cluster)]

    def remove(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.signal_group(signal.SIGKILL)
            self._process.wait()
        if (self.data_dir / "postgres").exists():
            EmbeddedPostgres(self.data_dir / "postgres").remove()

    def _is_announced(self) -> bool:
        return (self.data_dir / "credentials.json").exists()


def _works_in(process: psutil.Process, cluster: str) -> bool:
    try:
        return process.name().startswith("postgres") and process.cwd() == cluster
    except psutil.Error:
        return False


def an_event(run_id: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "eventType": "START",
        "eventTime": "2026-11-10T02:00:00Z",
        "run": {"runId": run_id or str(uuid4())},
        "job": {"namespace": "tests", "name": "up"},
        "producer": "https://example.com/tests",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
    } | more
