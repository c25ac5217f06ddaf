"""Finds files of events and cuts them into single events, byte for byte, without holding a file of lines.

Knows bytes and places; knows nothing of servers. What cannot be an event comes out as `Broken`.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import msgspec

from headgate.errors import NotFound

MAX_EVENT_BYTES = 32 * 1024 * 1024
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_KEPT_OF_BROKEN = 64 * 1024
_LINES = (".ndjson", ".jsonl")
_SUFFIXES = (*_LINES, ".json")
_BOM = b"\xef\xbb\xbf"
_DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error)


class Mark(NamedTuple):
    """How far a file has been read: unpacked bytes, and lines or array items."""

    offset: int = 0
    taken: int = 0


class Event(NamedTuple):
    """One JSON object; `after` is where to go on once it is stored."""

    data: bytes
    place: str
    after: Mark


class Broken(NamedTuple):
    """Bytes that are no JSON object; `after` is None if more may still be written behind them."""

    data: bytes
    place: str
    after: Mark | None
    reason: str


Item = Event | Broken


@dataclass
class Source:
    """One file, or stdin when `path` is None."""

    path: Path | None
    _raw: BinaryIO | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        return str(self.path) if self.path else "-"

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path else 0

    def bytes_read(self) -> int:
        """How far the file itself has been read, packed bytes where it is packed."""
        if self.path is None or self._raw is None:
            return 0
        return self.size if self._raw.closed else self._raw.tell()

    def items(self, start: Mark = Mark()) -> Iterator[Item]:  # noqa: B008 - a NamedTuple is immutable
        """Everything from `start` on, in order; a file that cannot be read further ends with a `Broken`."""
        try:
            yield from self._items(start)
        except _DAMAGED as error:
            yield Broken(b"", "", None, f"the packed file is damaged or cut off: {error}")
        except OSError as error:
            yield Broken(b"", "", None, f"the file cannot be read: {error.strerror or error}")

    def _items(self, start: Mark) -> Iterator[Item]:
        if self.path is None:
            yield from _items(sys.stdin.buffer, start, is_lines=False)
            return
        with self.path.open("rb") as self._raw:
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if self._is_packed else self._raw
            yield from _items(stream, start, is_lines=self._has_lines)

    @property
    def _is_packed(self) -> bool:
        return self.path is not None and self.path.suffix.lower() == ".gz"

    @property
    def _has_lines(self) -> bool:
        name = self.path.name.lower().removesuffix(".gz") if self.path else ""
        return name.endswith(_LINES)


def find(paths: Iterable[Path]) -> list[Source]:
    """The files that `paths` stand for: themselves, those of folders below them in order, `-` for stdin."""
    found: dict[str, Source] = {}
    for path in paths:
        if str(path) == "-":
            found["-"] = Source(None)
        elif path.is_dir():
            inside = list(_walk(path))
            if not inside:
                raise NotFound(
                    f"{str(path)!r} holds no file of events",
                    hint="such files end in .json, .ndjson or .jsonl, or .gz of these",
                )
            found.update((str(p.resolve()), Source(p)) for p in inside)
        elif path.exists():
            found[str(path.resolve())] = Source(path)
        else:
            raise NotFound(f"{str(path)!r} does not exist", hint="give files, folders, or - for stdin")
    return list(found.values())


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.lower().removesuffix(".gz").endswith(_SUFFIXES) and not name.startswith("."):
                yield Path(parent) / name


def _items(stream: BinaryIO, start: Mark, *, is_lines: bool) -> Iterator[Item]:
    if is_lines and start.offset:
        stream.seek(start.offset)
        return _from_lines(_lines(stream), start)
    head = _first_text(stream)
    if not is_lines and _is_document(head):
        return _from_document(b"".join(head), stream, start.taken)
    if start.offset:
        stream.seek(start.offset)
        head = []
    return _from_lines(chain(head, _lines(stream)), start)


def _first_text(stream: BinaryIO) -> list[bytes]:
    """The lines up to and with the first one that is not blank."""
    head = []
    for line in _lines(stream):
        head.append(line)
        if line.strip():
            break
    return head


def _is_document(head: list[bytes]) -> bool:
    """Whether it is one JSON text over many lines or an array, rather than an object on each line."""
    first = head[-1].removeprefix(_BOM).strip() if head else b""
    return first.startswith(b"[") or (first.startswith(b"{") and _why_broken(first) is not None)


def _from_lines(lines: Iterable[bytes], start: Mark) -> Iterator[Item]:
    offset, number = start
    too_long = False
    for line in lines:
        offset += len(line)
        was_too_long, too_long = too_long, len(line) > MAX_EVENT_BYTES and not line.endswith(b"\n")
        if was_too_long:  # the rest of a line that has been reported already
            too_long = not line.endswith(b"\n")
            continue
        number += 1
        if item := _from_line(line, f":{number}", Mark(offset, number)):
            yield item


def _from_line(line: bytes, place: str, after: Mark) -> Item | None:
    data = (line.removeprefix(_BOM) if after.taken == 1 else line).strip()
    if not data:
        return None
    reason = _why_broken(data)
    if reason is None:
        return Event(data, place, after)
    is_torn = not line.endswith(b"\n") and len(line) <= MAX_EVENT_BYTES
    reason = f"the last line is cut off: {reason}" if is_torn else reason
    return Broken(data[:_KEPT_OF_BROKEN], place, None if is_torn else after, reason)


def _from_document(head: bytes, stream: BinaryIO, skipped: int) -> Iterator[Item]:
    data = (head + stream.read(MAX_DOCUMENT_BYTES - len(head) + 1)).removeprefix(_BOM).strip()
    if len(data) > MAX_DOCUMENT_BYTES:
        yield Broken(
            b"",
            "",
            None,
            "the file is one JSON text of more than 256 MiB; write one event on each line instead",
        )
        return
    if not data.startswith(b"["):
        yield from _from_object(data, skipped)
        return
    try:
        parts = msgspec.json.decode(data, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        yield Broken(data[:_KEPT_OF_BROKEN], "", None, f"is not a JSON array: {error}")
        return
    for index in range(skipped, len(parts)):
        yield _checked(bytes(parts[index]), f"[{index}]", Mark(0, index + 1))


def _from_object(data: bytes, skipped: int) -> Iterator[Item]:
    lines = data.splitlines(keepends=True)
    if _why_broken(data) and any(_why_broken(line) is None for line in lines):
        # An object on each line after all, and only the first line is broken.
        yield from _from_lines(lines[skipped:], Mark(sum(map(len, lines[:skipped])), skipped))
    elif not skipped:
        yield _checked(data, "", Mark(len(data), 1))


def _checked(data: bytes, place: str, after: Mark) -> Item:
    reason = _why_broken(data)
    return Broken(data[:_KEPT_OF_BROKEN], place, after, reason) if reason else Event(data, place, after)


def _why_broken(data: bytes) -> str | None:
    if len(data) > MAX_EVENT_BYTES:
        return f"is larger than {MAX_EVENT_BYTES // 1024 // 1024} MiB"
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"is not JSON: {error}"
    return None if isinstance(value, dict) else "is not a JSON object"


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: stream.readline(MAX_EVENT_BYTES + 1), b"")
