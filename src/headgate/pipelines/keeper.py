"""Runs the embedded server of a project for as long as some run uses it; started by the first run that needs it.

A process of its own, so that neither Ctrl-C nor the death of one run takes the server from the others. Who uses it
holds a shared lock, which the kernel drops however that process ends. Standard library only: it is there all the time.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

_POLL_S = 0.1
# `headgate up` itself needs at most 18 s.
STOP_S = 20.0


class Locks(NamedTuple):
    """Files beside the store: shared by its users, held by who starts it, held by its keeper."""

    users: Path
    start: Path
    keeper: Path

    @classmethod
    def of(cls, folder: Path) -> Locks:
        return cls(*(folder / f"server.{name}" for name in cls._fields))


def hold(path: Path, kind: int) -> int:
    """Lock the file, however long that takes; the lock lasts as long as the handle."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, kind)
    except BaseException:
        os.close(handle)
        raise
    return handle


def try_hold(path: Path, kind: int) -> int | None:
    """Lock the file, or return None if another has it."""
    try:
        return hold(path, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def is_free(path: Path) -> bool:
    """Whether nobody has the file for himself."""
    handle = try_hold(path, fcntl.LOCK_SH)
    if handle is not None:
        os.close(handle)
    return handle is not None


def keep(data_dir: Path, locks: Locks) -> int:
    """Run the server until nobody uses it, and return its exit code."""
    hold(locks.keeper, fcntl.LOCK_EX)
    is_told = _listen()
    command = [sys.executable, "-P", "-m", "headgate.cli.main", "up", "--host", "127.0.0.1", "--port", "0"]
    server = subprocess.Popen([*command, "--data-dir", str(data_dir)])
    while server.poll() is None:
        # Held while it stops: a run that comes now waits, and then starts a new one.
        if is_told() or try_hold(locks.users, fcntl.LOCK_EX) is not None:
            return _stop(server)
        time.sleep(_POLL_S)
    return server.returncode


def _stop(server: subprocess.Popen[bytes]) -> int:
    server.terminate()
    try:
        return server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        return server.wait()


def _listen() -> Callable[[], bool]:
    """Whether somebody has asked this process to stop; what a terminal sends is meant for the run."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    signal.signal(signal.SIGTERM, note)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return lambda: bool(asked)


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1]), Locks.of(Path(sys.argv[2]))))
