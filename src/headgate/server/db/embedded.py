"""The embedded PostgreSQL: one private server on one directory, made, started, found again and stopped.

Owns the order of the steps; knows nothing of schemas, roles or what the database is for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import psutil

from headgate.errors import EmbeddedPostgresError
from headgate.server.db import cluster as files
from headgate.server.db.postmaster import clear_leftovers, find_postmaster, is_alive, read_pid_file, terminate
from headgate.server.db.programs import (
    PORT,
    SUPERUSER,
    Programs,
    account_for,
    debian_binaries,
    wheel_binaries,
)

__all__ = ["DEFAULT_SETTINGS", "EmbeddedPostgres", "Running", "debian_binaries", "wheel_binaries"]

DEFAULT_SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",
    "max_connections": "100",
    "wal_compression": "on",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "checkpoint_completion_target": "0.9",
    "random_page_cost": "1.1",
    "jit": "off",
    "autovacuum": "on",
    # A fresh table is planned badly until it is analysed: do not leave it so for a minute.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
    "password_encryption": "scram-sha-256",
}

# What a start may meet shortly after a crash, and what goes away by itself.
_TRANSIENT = re.compile(
    r"pre-existing shared memory block|lock file \S+ already exists|could not bind .*: Address already in use"
)
_REJECTING = 1


@dataclass(frozen=True)
class Running:
    """A server that accepts connections; `reattached` says that it was already there."""

    admin_dsn: str
    socket_dir: Path
    port: int
    pid: int
    reattached: bool


class EmbeddedPostgres:
    """One PostgreSQL server that belongs to `directory` and listens on a private unix socket only."""

    def __init__(
        self, directory: Path, *, settings: Mapping[str, str] | None = None, binaries: Path | None = None
    ) -> None:
        self.directory = Path.cwd() / directory
        self.log = self.directory / "postgres.log"
        self._settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._binaries = binaries
        self._child: subprocess.Popen[bytes] | None = None
        self._server: psutil.Process | None = None

    def start(self, timeout_s: float = 45) -> Running:
        """Initialise if needed, then start the server or re-attach to the one that is already running."""
        deadline = time.monotonic() + timeout_s
        with _explained(self.directory):
            _make_directory(self.directory)
            with _locked(self.directory, deadline):
                return self._start(deadline)

    def stop(self, timeout_s: float = 10) -> None:
        """Stop the server, also one that was re-attached to: fast, then immediate, then kill. Idempotent."""
        cluster = files.cluster_of(self.directory)
        with _explained(self.directory), _locked(self.directory, time.monotonic() + timeout_s):
            server = self._server if self._server and is_alive(self._server) else find_postmaster(cluster)
            if server:
                terminate(server, cluster, timeout_s)
            self._reap()
            files.forget_socket_directory(self.directory)

    def remove(self) -> None:
        """Stop the server and delete everything that was made for it, the data too."""
        cluster = files.cluster_of(self.directory)
        self.stop()
        shutil.rmtree(cluster.parent if files.is_shared(cluster) else cluster, ignore_errors=True)
        for name in ("pgdata", "postgres.log", "postgres.log.1", "embedded.lock"):
            (self.directory / name).unlink(missing_ok=True)

    def running(self) -> Running | None:
        """The server that is up now, whoever started it, or None; changes nothing."""
        cluster = files.cluster_of(self.directory)
        server, record = find_postmaster(cluster), read_pid_file(cluster)
        if server is None or record is None or record.status != "ready":
            return None
        dsn = _dsn(record.socket_dir, SUPERUSER, "postgres")
        return Running(dsn, record.socket_dir, PORT, server.pid, reattached=True)

    def dsn(self, *, user: str, database: str) -> str:
        """Address of one database for asyncpg, through the unix socket of the running server."""
        running = self.running()
        if running is None:
            raise EmbeddedPostgresError(
                f"no PostgreSQL is running in {str(self.directory)!r}",
                hint="start it before asking for its address",
            )
        return _dsn(running.socket_dir, user, database)

    def _start(self, deadline: float) -> Running:
        self._reap()
        account = account_for(self.directory / "pgdata")
        programs = Programs.reachable(self._binaries or wheel_binaries(), account)
        cluster = files.place(self.directory, account)
        files.stop_abandoned(self.directory, cluster)
        if not files.is_initialised(cluster):
            files.initialise(cluster, programs, deadline)
        files.check_version(cluster, programs)
        running = self._reattach(cluster, programs, deadline) or self._launch(cluster, programs, deadline)
        self._server = psutil.Process(running.pid)
        return running

    def _reattach(self, cluster: Path, programs: Programs, deadline: float) -> Running | None:
        while server := find_postmaster(cluster):
            running = self.running()
            if running and programs.ping(running.socket_dir) == 0:
                return running
            record = read_pid_file(cluster)
            deaf = running and not (running.socket_dir / f".s.PGSQL.{PORT}").exists()
            if deaf or (record and record.status == "stopping"):
                terminate(server, cluster, 5)
            elif time.monotonic() > deadline:
                raise self._not_ready(leaving_it=True)
            time.sleep(0.05)
        return None

    def _launch(self, cluster: Path, programs: Programs, deadline: float) -> Running:
        sockets = files.socket_directory(self.directory, cluster, programs.account)
        files.configure(cluster, self._settings, sockets, programs.account)
        files.rotate(self.log)
        while True:
            clear_leftovers(cluster, sockets)
            written = self.log.stat().st_size if self.log.exists() else 0
            self._child = programs.spawn(cluster, self.log)
            if running := self._await_ready(self._child, cluster, programs, deadline):
                return replace(running, reattached=False)
            news = files.tail(self.log, written)
            if time.monotonic() > deadline or not _TRANSIENT.search(news):
                where = f"{str(self.directory)!r}; {self.log.name!r} ends with:\n{news}"
                raise EmbeddedPostgresError(f"PostgreSQL did not start in {where}", hint=files.hint_for(news))
            time.sleep(0.2)

    def _await_ready(
        self, child: subprocess.Popen[bytes], cluster: Path, programs: Programs, deadline: float
    ) -> Running | None:
        """The server once it accepts connections, or None when it ended by itself."""
        keep = False
        try:
            while child.poll() is None:
                running = self.running()
                answer = programs.ping(running.socket_dir) if running else None
                if answer == 0:
                    keep = True
                    return running
                if time.monotonic() > deadline:
                    # Redo after a crash starts over when interrupted: ending it now, no start would succeed.
                    keep = self._is_recovering(cluster, programs)
                    raise self._not_ready(leaving_it=keep)
                time.sleep(0.02)
            return None
        finally:
            if not keep and child.poll() is None:
                terminate(psutil.Process(child.pid), cluster, 5)

    def _is_recovering(self, cluster: Path, programs: Programs) -> bool:
        record = read_pid_file(cluster)
        return record is not None and programs.ping(record.socket_dir) == _REJECTING

    def _not_ready(self, *, leaving_it: bool) -> EmbeddedPostgresError:
        return EmbeddedPostgresError(
            f"PostgreSQL in {str(self.directory)!r} is not ready in time; {self.log.name!r} ends with:\n"
            + files.tail(self.log),
            hint="it goes on recovering: start again to wait for it" if leaving_it else "read the log, start again",
        )

    def _reap(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            self._child = None


def _dsn(socket_dir: Path, user: str, database: str) -> str:
    host = quote(str(socket_dir), safe="")
    return f"postgresql://{quote(user, safe='')}@/{quote(database, safe='')}?host={host}&port={PORT}"


def _make_directory(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise EmbeddedPostgresError(
            f"{str(directory)!r} is a file, not a directory",
            hint="name a directory, or one that does not exist yet",
        )
    # The server's own user has to pass through a directory that root makes, but not to list it.
    directory.mkdir(parents=True, exist_ok=True, mode=0o711 if os.geteuid() == 0 else 0o700)


@contextlib.contextmanager
def _explained(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EmbeddedPostgresError(
            f"cannot keep a PostgreSQL in {str(directory)!r}: {error}", hint=files.hint_for(str(error))
        ) from error


@contextlib.contextmanager
def _locked(directory: Path, deadline: float) -> Iterator[None]:
    """One process at a time initialises, starts or stops; the kernel frees the lock of a killed one."""
    if not directory.is_dir():
        yield
        return
    handle = os.open(directory / "embedded.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not _try_lock(handle):
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"another process is starting or stopping the PostgreSQL in {str(directory)!r}",
                    hint="wait for it to end, or choose another data directory",
                )
            time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
