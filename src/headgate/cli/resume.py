"""The state file of `headgate replay`: how far each file has been stored, for each server.

A file is known by its path and its first bytes, so one that only grew is continued and one that was
replaced starts over. Losing the state costs time, never events: the server knows duplicates.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headgate.cli.source import Mark, Source

_PREFIX_BYTES = 65_536
_SAVE_EVERY_S = 0.5


@dataclass
class Progress:
    """How far one file has come; `refused` counts what the server or we would not take."""

    size: int
    prefix_bytes: int
    prefix_sha256: str
    offset: int = 0
    count: int = 0
    refused: int = 0
    done: bool = False

    @property
    def mark(self) -> Mark:
        return Mark(self.offset, self.count)


class Journal:
    """What has been sent to one server; saved now and then, and when asked."""

    def __init__(self, path: Path | None, target: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._all = _load(path)
        self._files = self._all.setdefault(target, {})
        self._save_after = clock() + _SAVE_EVERY_S
        self._is_changed = False

    def open(self, source: Source, *, resume: bool) -> Progress:
        """Where to begin with a file: at its recorded place, or at zero if it is new or has changed."""
        if source.path is None:
            return Progress(0, 0, "")
        known = self._files.get(_name(source.path))
        if known and resume and _is_same(source.path, known):
            known.done = known.done and known.size == source.size
            known.size = source.size
            return known
        fresh = _fingerprint(source.path)
        self._files[_name(source.path)] = fresh
        return fresh

    def advance(self, progress: Progress, mark: Mark) -> None:
        progress.offset, progress.count = mark
        self._touch()

    def finish(self, progress: Progress) -> None:
        progress.done = True
        self._touch()

    def save(self) -> None:
        """Write the state file whole; a place where it cannot be written is no reason to stop."""
        if self._path is None or not self._is_changed:
            return
        began = self._clock()
        with contextlib.suppress(OSError):
            self._write(self._path)
        # A state of very many files takes long to write: never spend more than a tenth of the time on it.
        self._save_after = self._clock() + max(_SAVE_EVERY_S, 10 * (self._clock() - began))
        self._is_changed = False

    def _touch(self) -> None:
        self._is_changed = True
        if self._clock() >= self._save_after:
            self.save()

    def _write(self, path: Path) -> None:
        if path.exists() and not path.is_file():
            return  # a device, as in `--state /dev/null`: replacing it would break the machine
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.json.encode(self._all))
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def target_id(url: str, api_key: str | None) -> str:
    """Names a server and an organisation in the state file without holding the key."""
    digest = hashlib.sha256((api_key or "").encode()).hexdigest()[:12]
    return f"{url.rstrip('/')}#{digest}"


def _name(path: Path) -> str:
    return str(path.resolve())


def _load(path: Path | None) -> dict[str, dict[str, Progress]]:
    if path is None or not path.is_file():
        return {}
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Progress]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _fingerprint(path: Path) -> Progress:
    with contextlib.suppress(OSError), path.open("rb") as file:
        prefix = file.read(_PREFIX_BYTES)
        return Progress(path.stat().st_size, len(prefix), hashlib.sha256(prefix).hexdigest())
    return Progress(0, 0, "")


def _is_same(path: Path, known: Progress) -> bool:
    try:
        if path.stat().st_size < known.size:
            return False
        with path.open("rb") as file:
            return hashlib.sha256(file.read(known.prefix_bytes)).hexdigest() == known.prefix_sha256
    except OSError:
        return False
