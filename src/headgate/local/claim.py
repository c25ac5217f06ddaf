"""What one `headgate up` keeps for itself while it runs: its data directory and its port."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headgate.errors import ConfigError, Conflict

LOCK = "up.lock"
# A process that was killed a moment ago may still hold its lock and its port.
PATIENCE_S = 2.0


@contextmanager
def data_directory(path: Path) -> Iterator[Path]:
    """Make the directory if it is missing and hold it; the kernel lets go however the process ends."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        handle = os.open(path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be a data directory: {error.strerror}",
            hint="choose another with --data-dir",
        ) from error
    try:
        if not _within_patience(lambda: _try_lock(handle)):
            raise _held_by_another(path, _read_pid(handle))
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield path
    finally:
        os.close(handle)


def port(host: str, number: int) -> socket.socket:
    """A socket bound to the address, not listening yet; 0 takes any free port."""
    family, address = _resolve(host, number)
    listener = socket.socket(family, socket.SOCK_STREAM)
    # Without it, the connections of a server that just died would block the port for a minute.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if not _within_patience(lambda: _try_bind(listener, address)):
            raise port_taken(host, number)
        return listener
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host!r} port {number}: {error.strerror}",
            hint="choose others with --host and --port",
        ) from error
    except BaseException:
        listener.close()
        raise


def port_taken(host: str, number: int) -> Conflict:
    return Conflict(
        f"port {number} on {host!r} is taken by another program",
        hint="stop that program, or choose another port with --port (0 picks a free one)",
    )


def is_free(host: str, number: int) -> bool:
    """Whether a server could listen there now."""
    family, address = _resolve(host, number)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        return _try_bind(probe, address)


def url_of(listener: socket.socket) -> str:
    """The address for a client on this machine, also when the server listens everywhere."""
    host, number = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{number}" if ":" in host else f"http://{host}:{number}"


def _resolve(host: str, number: int) -> tuple[int, tuple[object, ...]]:
    try:
        found = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise ConfigError(
            f"{host!r} is no address of this machine",
            hint="use --host 127.0.0.1, or 0.0.0.0 to listen everywhere",
        ) from error
    family, _, _, _, address = found[0]
    return family, address


def _try_bind(listener: socket.socket, address: tuple[object, ...]) -> bool:
    try:
        listener.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return False
        raise
    return True


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_pid(handle: int) -> str:
    return os.pread(handle, 20, 0).decode(errors="replace").strip()


def _held_by_another(path: Path, pid: str) -> Conflict:
    holder = f"process {pid}" if pid else "another process"
    stop = f"stop it with `kill {pid}`" if pid else "stop it"
    return Conflict(
        f"the data directory {str(path)!r} is in use by {holder}",
        hint=f"{stop}, or choose another with --data-dir",
    )


def _within_patience(attempt: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not attempt():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
