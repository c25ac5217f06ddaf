"""Publishing files so that a crash at any moment leaves the target as it was, or as it was to be.

A publish is a list of renames. They are written down before the first and struck out after the last; what a dead
run has left half done is undone by the next one. What a live run is about is left alone: each entry says whose it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from headgate.errors import ConfigError, Conflict
from headgate.pipelines.files import Files

# Of another machine only the clock tells whether it is still at work.
OTHER_HOST_AGE_S = 600.0
_REFRESH_S = 60.0
_TOKEN = re.compile(r"~([0-9a-f]{12})-(\d+)-([0-9a-f]{12}|)-(\d+)(?:\.json)?$")
# What this process itself is about: its other entries are leftovers, although it is alive.
_under_way: set[str] = set()
_lock = threading.Lock()


@dataclass(frozen=True)
class Move:
    """One rename. It has happened when `source` is gone and `target` is there."""

    source: str
    target: str


@dataclass(frozen=True)
class Publication:
    """What one node of one run publishes; `trash` is deleted when all is done.

    With `is_copied`, its renames are copies and deletions of single files, and may end between the two.
    """

    run_id: str
    node: str
    moves: Sequence[Move]
    trash: Sequence[str] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    is_copied: bool = False


@dataclass(frozen=True)
class Owner:
    """A process: the machine as it sees it, its number there, and when it began, since numbers come back."""

    machine: str
    pid: int
    started: str
    at: float = 0.0

    @classmethod
    def this(cls, now: float) -> Owner:
        return cls(_machine(), os.getpid(), _started(os.getpid()) or "", now)

    def token(self) -> str:
        """For a file name, so that a claim and its owner are one rename."""
        return f"{self.machine}-{self.pid}-{self.started}-{int(self.at)}"

    def is_alive(self, now: float, other_host_age_s: float) -> bool:
        if self.machine != _machine():
            return now - self.at < other_host_age_s
        return _started(self.pid) == self.started


class Journal:
    """The publications that are under way below one folder."""

    def __init__(
        self,
        files: Files,
        folder: str,
        *,
        other_host_age_s: float = OTHER_HOST_AGE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._files = files
        self._folder = folder
        self._other_host_age_s = other_host_age_s
        self._clock = clock

    def publish(self, publication: Publication) -> str | None:
        """Do all of it. An error on the way undoes what was done, and is raised.

        Once it counts, nothing takes it back: what then could not be tidied up is left to `recover`, and told.
        """
        path = posixpath.join(self._folder, f"{publication.run_id}.{publication.node}.json")
        self._end_leftover(path)
        self._check(publication.moves)
        with _at_work(path):
            written_at = self._write(path, publication, "publishing")
            try:
                for move in publication.moves:
                    if self._clock() - written_at > _REFRESH_S:
                        written_at = self._refresh(path, publication)
                    self._files.rename(move.source, move.target)
                self._refresh(path, publication, "published")
            except BaseException:
                self._take_back(publication, path)
                raise
            return self._tidied(publication, path)

    def recover(self) -> list[tuple[Publication, bool]]:
        """Ends what dead runs have begun: each publication, and whether it counts as published."""
        ended = []
        for path in self._files.files_in(self._folder):
            if path.endswith(".json") and not posixpath.basename(path).startswith("."):
                found = self._ended(path)
                ended += [found] if found is not None else []
        return ended

    def _end_leftover(self, path: str) -> None:
        """An earlier try of the same node may not have got to undoing what it did."""
        if self._files.exists(path):
            self._ended(path)
        if self._files.exists(path):
            raise Conflict(f"{path} is being published by another process", hint="wait until it has ended")

    def _ended(self, path: str) -> tuple[Publication, bool] | None:
        entry = self._read(path)
        if entry is None or self._is_at_work(path, entry[2]):
            return None
        claimed = self._claim(path)
        if claimed is None:
            return None
        with _at_work(claimed):
            entry = self._read(claimed)
            if entry is None:
                return None
            publication, is_published, _ = entry
            if not is_published:
                self._undo(publication)
            self._clear(publication, claimed, is_published=is_published)
            return publication, is_published

    def _is_at_work(self, path: str, written_by: Owner) -> bool:
        owner = owner_in(path) or written_by
        this = Owner.this(0.0)
        if (owner.machine, owner.pid, owner.started) == (this.machine, this.pid, this.started):
            with _lock:
                return path in _under_way
        return owner.is_alive(self._clock(), self._other_host_age_s)

    def _claim(self, path: str) -> str | None:
        """Of several that find the entry, the one whose rename succeeds goes on."""
        stem = _TOKEN.sub("", path).removesuffix(".json")
        claimed = f"{stem}~{Owner.this(self._clock()).token()}.json"
        if claimed == path:
            return path
        try:
            self._files.rename(path, claimed)
        except Exception:
            if self._files.exists(path):
                raise
            return None
        return claimed

    def _check(self, moves: Sequence[Move]) -> None:
        """Refuse what cannot be told from done when it is not."""
        gone: set[str] = set()
        come: set[str] = set()
        for move in moves:
            if move.source not in come and (move.source in gone or not self._files.exists(move.source)):
                raise FileNotFoundError(move.source)
            if move.target in come or (move.target not in gone and self._files.exists(move.target)):
                raise FileExistsError(move.target)
            gone.add(move.source)
            come.discard(move.source)
            come.add(move.target)
            gone.discard(move.target)

    def _refresh(self, path: str, publication: Publication, state: str = "publishing") -> float:
        if not self._files.exists(path):
            raise Conflict(
                f"the publication of {publication.node!r} was taken back by another run",
                hint=f"another machine took this one for dead after {self._other_host_age_s:g} s; run it again",
            )
        return self._write(path, publication, state)

    def _write(self, path: str, publication: Publication, state: str) -> float:
        now = self._clock()
        self._files.write_text(path, _encode(publication, state, Owner.this(now)))
        return now

    def _take_back(self, publication: Publication, path: str) -> None:
        entry = self._read(path)
        if entry is None:
            return
        # Renames are undone under an entry that says so: a crash in between must not count as published.
        if entry[1]:
            self._write(path, publication, "publishing")
        self._undo(publication)
        self._clear(publication, path, is_published=False)

    def _tidied(self, publication: Publication, path: str) -> str | None:
        try:
            self._clear(publication, path, is_published=True)
        except Exception as error:  # it is published, whatever becomes of the rest
            return f"what was replaced is left for the next run to delete: {error}"
        return None

    def _undo(self, publication: Publication) -> None:
        for move in reversed(publication.moves):
            if not self._files.exists(move.target):
                continue
            if not self._files.exists(move.source):
                self._files.rename(move.target, move.source)
            elif publication.is_copied and self._is_copy(move, publication.moves):
                self._files.delete(move.target)

    def _is_copy(self, move: Move, moves: Sequence[Move]) -> bool:
        """Whether there was nothing before, or what was there is safe elsewhere."""
        before = next((each.target for each in moves if each.source == move.target), None)
        return before is None or self._files.exists(before)

    def _clear(self, publication: Publication, path: str, *, is_published: bool) -> None:
        # What was replaced may go only once it is known that what replaced it stays.
        for each in publication.trash:
            if is_published or self._is_hollow(each):
                self._files.delete(each)
        self._files.delete(path)

    def _is_hollow(self, path: str) -> bool:
        """Whether it is a folder with nothing but such folders in it: all that was there is back in its place."""
        if posixpath.basename(path) not in map(posixpath.basename, self._files.folders_in(posixpath.dirname(path))):
            return False
        return not self._files.files_in(path) and all(map(self._is_hollow, self._files.folders_in(path)))

    def _read(self, path: str) -> tuple[Publication, bool, Owner] | None:
        try:
            text = self._files.read_text(path)
        except Exception:
            if self._files.exists(path):
                raise
            return None
        try:
            return _decode(text)
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path}: not an entry of the journal: {error!r}",
                hint="see that the target is whole, then delete this file",
            ) from None


@contextmanager
def _at_work(path: str) -> Iterator[None]:
    with _lock:
        _under_way.add(path)
    try:
        yield
    finally:
        with _lock:
            _under_way.discard(path)


def owner_in(name: str) -> Owner | None:
    """Whose a file or folder is, if its name says so."""
    found = _TOKEN.search(name)
    return Owner(found[1], int(found[2]), found[3], float(found[4])) if found else None


@cache
def _machine() -> str:
    """This machine, and the view of its processes: two containers may share a name and not a list of processes."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return _short(f"{socket.gethostname()}|{space}")


def _started(pid: int) -> str | None:
    """When a live process began; None for one that is gone. Of the kernel's clock, which nobody sets."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return None if stat[0] in ("Z", "X") else _short(f"{boot}|{stat[19]}")
    except OSError:
        return _started_elsewhere(pid)


def _started_elsewhere(pid: int) -> str | None:
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else _short(f"{process.create_time():.0f}")
    except psutil.NoSuchProcess:
        return None


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _encode(publication: Publication, state: str, owner: Owner) -> str:
    return json.dumps(
        {
            "state": state,
            "run_id": publication.run_id,
            "node": publication.node,
            "owner": {
                "host": socket.gethostname(),
                "machine": owner.machine,
                "pid": owner.pid,
                "started": owner.started,
                "at": owner.at,
            },
            "moves": [[move.source, move.target] for move in publication.moves],
            "trash": list(publication.trash),
            "facts": publication.facts,
            "is_copied": publication.is_copied,
        }
    )


def _decode(text: str) -> tuple[Publication, bool, Owner]:
    read = json.loads(text)
    moves = [Move(*each) for each in read["moves"]]
    is_copied = read.get("is_copied", False)
    publication = Publication(read["run_id"], read["node"], moves, read["trash"], read["facts"], is_copied)
    owner = read["owner"]
    owner = Owner(owner["machine"], int(owner["pid"]), owner["started"], float(owner["at"]))
    return publication, read["state"] == "published", owner
