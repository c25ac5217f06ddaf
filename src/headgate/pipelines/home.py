"""What a project keeps beside its file: records of runs, what waits to be sent, and a server of its own.

Knows files and processes; what is in a record, and what a server is asked, is the business of others.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

import msgspec

from headgate.durable import write_whole
from headgate.errors import ConfigError, HeadgateError, NotFound
from headgate.local import claim, credentials
from headgate.local.credentials import Credentials
from headgate.pipelines import keeper
from headgate.pipelines.config.wording import nearest
from headgate.pipelines.keeper import Locks
from headgate.pipelines.load import Loaded
from headgate.pipelines.record import RunRecord, Status
from headgate.pipelines.spool import Client

FOLDER = ".headgate"
KEPT_RUNS = 500
# The first start of a store makes a database.
START_S = 120.0
_WORDS_OF_LOG = 400
_POLL_S = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Home:
    """The folder of a project's state."""

    folder: Path

    @classmethod
    def of(cls, loaded: Loaded) -> Home:
        """The folder beside the project's file, made if it is missing."""
        home = cls(loaded.folder / FOLDER)
        try:
            home.folder.mkdir(exist_ok=True)
            # Of the owner alone: they hold names, counts and masked rows.
            for folder in (home.runs, home.spool, home.refused, home.nodes):
                folder.mkdir(exist_ok=True, mode=0o700)
            if not (ignored := home.folder / ".gitignore").exists():
                ignored.write_text("*\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{str(home.folder)!r} cannot be written: {error.strerror}",
                hint="a run keeps its records there; make the folder of the project's file writable",
            ) from error
        return home

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def refused(self) -> Path:
        return self.folder / "refused"

    @property
    def nodes(self) -> Path:
        return self.folder / "nodes"

    @property
    def throttle_file(self) -> Path:
        return self.folder / "alerts.json"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def store(self) -> Path:
        """The data directory of the embedded server; the one of a `headgate up` in this folder, if there was one."""
        own = self.folder / "store"
        has_been_up = (self.folder / credentials.FILE).exists() and not (own / credentials.FILE).exists()
        return self.folder if has_been_up else own

    def save_record(self, run: RunRecord) -> Path:
        """Keep the record whole; OSError if the disk does not take it."""
        path = self.runs / _file_name(run.run_id)
        write_whole(path, msgspec.json.encode(run, enc_hook=str))
        return path

    def load_record(self, run_id: str) -> RunRecord:
        path = self.runs / _file_name(run_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=RunRecord)
        except FileNotFoundError:
            known = [each.stem for each in self._newest_first()]
            hint = nearest(run_id, known) or (f"the last run is {known[0]}" if known else "nothing was run here yet")
            raise NotFound(f"there is no run {run_id!r} in {str(self.runs)!r}", hint=hint) from None
        except (msgspec.DecodeError, OSError) as error:
            raise ConfigError(
                f"{str(path)!r} is no record of a run: {error}", hint="delete it, or restore it from a backup"
            ) from error

    def latest(self, pipelines: Collection[str] = ()) -> RunRecord | None:
        """The last run, or the last that had all of these pipelines."""
        return next((run for run in self._records() if set(pipelines) <= set(run.pipelines)), None)

    def previous(self, run: RunRecord) -> RunRecord | None:
        """The last run before this one that published the same pipelines."""
        for other in self._records():
            is_earlier = other.started_at and run.started_at and other.started_at < run.started_at
            is_alike = set(run.pipelines) <= set(other.pipelines) and other.status is Status.published
            if other.run_id != run.run_id and is_earlier and is_alike:
                return other
        return None

    def forget_old(self, kept: int = KEPT_RUNS) -> None:
        """Delete all records but the newest."""
        for path in self._newest_first()[kept:]:
            path.unlink(missing_ok=True)

    def _records(self) -> Iterator[RunRecord]:
        for path in self._newest_first():
            try:
                yield msgspec.json.decode(path.read_bytes(), type=RunRecord)
            except FileNotFoundError:  # forgotten by another run
                continue
            except (msgspec.DecodeError, OSError) as error:
                _log.warning("%s is no record of a run and is passed over: %s", path, error)

    def _newest_first(self) -> list[Path]:
        found: list[tuple[int, Path]] = []
        for path in self.runs.glob("*.json"):
            with contextlib.suppress(FileNotFoundError):
                found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found, reverse=True)]


def _file_name(run_id: str) -> str:
    return f"{quote(run_id, safe='')}.json"


@dataclass
class Server:
    """The server of a run, or none; close it when the run has told everything."""

    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    is_embedded: bool = False
    _locks: Locks | None = field(default=None, repr=False)
    _used: int | None = field(default=None, repr=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Use it no longer; an embedded one stops with its last user, and that is waited for."""
        if self._used is None or self._locks is None:
            return
        os.close(self._used)
        self._used = None
        _await_stop(self._locks)
        if self._child is not None:
            self._child.poll()


def connect(loaded: Loaded, *, is_offline: bool = False, environ: Mapping[str, str] | None = None) -> Server:
    """The server of HEADGATE_URL, else of the file, else the project's own, which is started if it does not run."""
    if is_offline:
        return Server()
    env = os.environ if environ is None else environ
    named = _named(loaded, env.get("HEADGATE_URL") or None, env.get("HEADGATE_API_KEY") or None)
    return named or embedded(Home.of(loaded))


def _named(loaded: Loaded, url: str | None, api_key: str | None) -> Server | None:
    config = loaded.project.server
    own_key = None if config.api_key is None else config.api_key.get_secret_value()
    if url is None:
        return None if config.url is None else Server(config.url, own_key or api_key)
    # The key in the file goes to the server in the file and to no other.
    is_same = config.url is None or config.url.rstrip("/") == url.rstrip("/")
    return Server(url, api_key or (own_key if is_same else None))


def embedded(home: Home) -> Server:
    """The project's own server, started if it does not run."""
    locks = Locks.of(home.folder)
    # Whoever is stopping it holds this: then it is waited for, and started anew.
    used = keeper.hold(locks.users, fcntl.LOCK_SH)
    try:
        starting = keeper.hold(locks.start, fcntl.LOCK_EX)
        try:
            child = None if _is_running(home.store) else _start(home)
            known = _await_ready(home, child)
        finally:
            os.close(starting)
    except BaseException:
        os.close(used)
        raise
    return Server(known.url, known.api_key, True, locks, used, child)


def _is_running(store: Path) -> bool:
    """Whether some `headgate up` has this data directory."""
    return store.exists() and not keeper.is_free(store / claim.LOCK)


def _start(home: Home) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", keeper.__name__, str(home.store.resolve()), str(home.folder.resolve())]
    handle = os.open(home.server_log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        # A session of its own: Ctrl-C is for the run, which then still has to tell how it ended.
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=handle, stderr=handle, start_new_session=True)
    finally:
        os.close(handle)


def _await_ready(home: Home, child: subprocess.Popen[bytes] | None) -> Credentials:
    deadline = time.monotonic() + START_S
    reason = "it has not begun to answer"
    while time.monotonic() < deadline:
        if child is not None and child.poll() is not None:
            raise _not_started(home, _last_words(home.server_log) or f"it ended with exit code {child.returncode}")
        if child is None and not _is_running(home.store):
            raise _not_started(home, "it ended while it was waited for")
        known = credentials.read(home.store)
        if known is not None and _is_running(home.store):
            try:
                with Client(known.url, known.api_key) as client:
                    # The port of the file may be that of an earlier start, and be another server's by now.
                    client.pipelines(limit=1)
                return known
            except HeadgateError as error:
                reason = error.message
        time.sleep(_POLL_S)
    raise _not_started(home, f"{reason} within {START_S:g} s")


def _not_started(home: Home, why: str) -> ConfigError:
    return ConfigError(
        f"the server of the project in {str(home.store)!r} does not start: {why}",
        hint=f"{home.server_log} says more; or name a server in HEADGATE_URL, or run without one by --no-server",
    )


def _last_words(log: Path) -> str:
    """What the server said of its failure, in one line."""
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    told = [line for line in lines if line.startswith("error[")] or [line for line in lines if line]
    return told[-1][:_WORDS_OF_LOG] if told else ""


def _await_stop(locks: Locks) -> None:
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < keeper.STOP_S + 5:
        if keeper.is_free(locks.keeper):
            return
        # Its keeper holds this one while it stops; if not by now, another run has it.
        if waited_s > 1 and keeper.is_free(locks.users):
            return
        time.sleep(_POLL_S)
