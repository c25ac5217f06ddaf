"""PostgreSQL processes of one cluster: which ones are really its own, and how to end them.

Knows the pid file and signals; never starts anything.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from headgate.errors import EmbeddedPostgresError


@dataclass(frozen=True)
class PidFile:
    """What `postmaster.pid` says; it may be stale, and a reused pid makes it lie."""

    pid: int | None
    socket_dir: Path
    status: str


def read_pid_file(cluster: Path) -> PidFile | None:
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines() + [""] * 8
    except (FileNotFoundError, NotADirectoryError):
        return None
    pid = int(lines[0]) if re.fullmatch(r"\d{1,9}", lines[0].strip()) else None
    return PidFile(pid, Path(lines[4].strip()), lines[7].strip() or "starting")


def find_postmaster(cluster: Path) -> psutil.Process | None:
    """The live server of this very directory, or None; a pid that went to another process does not pass."""
    record = read_pid_file(cluster)
    if record is None or not record.pid:
        return None
    try:
        process = psutil.Process(record.pid)
    except psutil.NoSuchProcess:
        return None
    return process if works_in(process, cluster) else None


def works_in(process: psutil.Process, cluster: Path) -> bool:
    """Whether this is a PostgreSQL process of the cluster, also of a deleted one that had the same path."""
    try:
        if not process.name().startswith("postgres"):
            return False
        path = Path(process.cwd())
        found = Path(f"/proc/{process.pid}/cwd").stat() if sys.platform == "linux" else path.stat()
        if found.st_nlink == 0:
            return path == cluster
        return os.path.samestat(found, cluster.stat())
    except (OSError, psutil.Error):
        return False


def processes_of(cluster: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if works_in(process, cluster)]


def processes_naming(path: Path) -> list[psutil.Process]:
    """Processes that have `path` in an argument."""
    return [process for process in psutil.process_iter() if str(path) in _command_line(process)]


def _command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def clear_leftovers(cluster: Path, sockets: Path) -> None:
    """Make room for a new server: no postmaster lives, so what still runs or lies here is from a dead one."""
    orphans = processes_of(cluster)
    if not wait_gone(orphans, 1):
        kill(orphans)
    record = read_pid_file(cluster)
    # PostgreSQL clears a file whose pid is dead, but takes any live pid, even a zombie's, for a server.
    if record and (not record.pid or psutil.pid_exists(record.pid)):
        (cluster / "postmaster.pid").unlink()
    for stale in sockets.glob(".s.PGSQL.*"):
        stale.unlink()


def terminate(server: psutil.Process, cluster: Path, timeout_s: float) -> None:
    """End the server: a fast shutdown, then an immediate one, then kill it and all its processes."""
    for number, share in ((signal.SIGINT, 0.8), (signal.SIGQUIT, 0.2)):
        _send(server, number)
        if wait_gone([server], share * timeout_s):
            break
    kill([server, *processes_of(cluster)])


def kill(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        _send(process, signal.SIGKILL)
    if not wait_gone(processes, 5):
        raise EmbeddedPostgresError(
            f"processes {[p.pid for p in processes if is_alive(p)]} survive a kill",
            hint="look at the disk: a process that waits for it cannot be killed",
        )


def _send(process: psutil.Process, number: int) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        pass
    except psutil.AccessDenied as error:
        raise EmbeddedPostgresError(
            f"the PostgreSQL process {process.pid} belongs to another user",
            hint="stop it as that user or as root",
        ) from error


def wait_gone(processes: Sequence[psutil.Process], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while any(is_alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie does not, even where nobody collects it."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
