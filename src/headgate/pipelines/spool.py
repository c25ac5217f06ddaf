"""Events on their way to the server, each on disk before it is sent: neither a dead server nor a kill loses one.

A file a run, one event a line, as `headgate replay` reads it. Whoever writes a file holds its lock; the kernel lets go
however the process ends, and the next run sends what is left. The server knows an event that it already has.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec

from headgate.client import HeadgateClient
from headgate.client.http import no_answer
from headgate.durable import sync_folder
from headgate.errors import (
    HeadgateError,
    InvalidFields,
    InvalidSequence,
    RefusedState,
    TooLarge,
    Unavailable,
    Unparsable,
    WrongEncoding,
)

CONNECT_S = 3.0
READ_S = 5.0
BATCH_EVENTS = 100
BATCH_BYTES = 4 * 1024 * 1024
SUFFIX = ".ndjson"
# So many events in a row are not all at fault.
_SAME_FAILURE = 3
# The event itself is at fault. Whatever else goes wrong, a wrong key included, may be put right later.
_REFUSALS = (Unparsable, TooLarge, WrongEncoding, InvalidFields, InvalidSequence, RefusedState)

# They say how the body came, which by then is unpacked.
_OF_THE_WIRE = ("content-encoding", "content-length", "transfer-encoding")

_log = logging.getLogger(__name__)


@dataclass
class Standing:
    """What became of the events of a run; `earlier` are those that runs before it had left and this one sent."""

    sent: int = 0
    kept: int = 0
    refused: int = 0
    lost: int = 0
    earlier: int = 0


class Waits(NamedTuple):
    """How long a run waits for the server.

    What is left of earlier runs goes in larger pieces, for which it needs longer; `all_s` is for all of them together,
    at the start and again at the end.
    """

    read_s: float = READ_S
    batch_s: float = 15.0
    all_s: float = 60.0


class Refused(NamedTuple):
    """An event that the server will never take, and why."""

    event: bytes
    reason: str


class Client(HeadgateClient):
    """Asks once, and waits neither for a machine that is not there nor for an answer that has no end."""

    def __init__(self, url: str, api_key: str | None, *, read_s: float = READ_S) -> None:
        super().__init__(url, api_key, timeout_s=read_s, attempts=1)
        self._read_s = read_s

    def _send(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = {**request.extensions["timeout"], "connect": CONNECT_S}
        deadline = time.monotonic() + CONNECT_S + self._read_s
        try:
            response = self._http.send(request, stream=True)
            try:
                return _whole(response, deadline)
            finally:
                response.close()
        except httpx.RequestError as error:
            raise no_answer(self.url, error) from error


class SpoolFile:
    """The file of one run, held by it. `done` is how far its events are dealt with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = self.done = 0
        self._handle = _created(path)

    def append(self, event: bytes) -> None:
        """Write the event to the disk itself; OSError leaves the file as it was."""
        line = event + b"\n"
        try:
            written = os.write(self._handle, line)
            if written < len(line):
                raise OSError(None, "the disk is full")
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, self.size)
            raise
        self.size += len(line)

    def close(self, *, delete: bool) -> None:
        if delete:
            self.path.unlink(missing_ok=True)
        os.close(self._handle)


class Outbox:
    """Takes the events of a run in order, and never raises because of a server or a disk."""

    def __init__(
        self,
        url: str,
        api_key: str | None,
        folder: Path,
        refused: Path,
        waits: Waits = Waits(),  # noqa: B008 - a NamedTuple is immutable
    ) -> None:
        """`folder` holds what waits to be sent, `refused` what the server would not take."""
        self.standing = Standing()
        self._client = Client(url, api_key, read_s=waits.read_s)
        self._batches = Client(url, api_key, read_s=waits.batch_s)
        self._waits = waits
        self._folder = folder
        self._refused = refused
        self._file: SpoolFile | None = None
        self._run_id = ""
        self._is_given_up = False
        self._complaints: set[str] = set()

    def begin(self, run_id: str) -> None:
        """Send what earlier runs have left, and open the file of this one."""
        self._run_id = run_id
        self._send_left(time.monotonic() + self._waits.all_s)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        try:
            self._file = SpoolFile(self._folder / f"{stamp}-{run_id}{SUFFIX}")
        except OSError as error:
            self._cannot_keep(error)

    def send(self, event: bytes) -> None:
        """Keep the event, and send it unless the server has failed in this run before."""
        is_kept = self._keep(event)
        if self._is_given_up:
            self._note_unsent(is_kept)
            return
        try:
            self._client.send(event)
            self.standing.sent += 1
        except _REFUSALS as error:
            self._set_aside([Refused(event, error.message)])
        except HeadgateError as error:
            self._give_up(error)
            self._note_unsent(is_kept)
            return
        if is_kept and self._file is not None:
            self._file.done = self._file.size

    def finish(self) -> None:
        """Send what could not be sent before, and let go of the file; what is left waits for the next run."""
        self._is_given_up = False
        deadline = time.monotonic() + self._waits.all_s
        file, self._file = self._file, None
        if file is not None:
            taken = 0 if file.done == file.size else self._send_file(file.path, file.done, deadline)
            if taken is not None:
                self.standing.sent += taken
                self.standing.kept = 0
            file.close(delete=taken is not None)
        self._send_left(deadline, but=file.path if file else None)
        self._client.close()
        self._batches.close()

    def _keep(self, event: bytes) -> bool:
        if self._file is None:
            return False
        try:
            self._file.append(event)
        except OSError as error:
            self._cannot_keep(error)
            return False
        return True

    def _note_unsent(self, is_kept: bool) -> None:
        if is_kept:
            self.standing.kept += 1
        else:
            self.standing.lost += 1

    def _send_left(self, deadline: float, *, but: Path | None = None) -> None:
        for path in _left_in(self._folder):
            if self._is_given_up or time.monotonic() > deadline:
                return
            if path != but:
                self._send_other(path, deadline)

    def _send_other(self, path: Path, deadline: float) -> None:
        try:
            handle = os.open(path, os.O_RDONLY)
        except OSError:  # another run has just sent it
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = self._send_file(path, 0, deadline)
            if taken is not None:
                self.standing.earlier += taken
                path.unlink(missing_ok=True)
        except BlockingIOError:  # its run is still at work
            return
        except OSError as error:
            self._complain("read", f"{path} cannot be sent: {error.strerror}; it stays there")
        finally:
            os.close(handle)

    def _send_file(self, path: Path, start: int, deadline: float) -> int | None:
        """Send the events of a file from a place on, in order; how many were taken, or None if some are still to go."""
        count = 0
        refused: list[Refused] = []
        try:
            for batch in _batches(_lines(path, start)):
                if time.monotonic() > deadline:
                    return None
                count += len(batch)
                whole = [line.rstrip(b"\n") for line in batch if line.endswith(b"\n")]
                refused += [Refused(line, "the line is cut off") for line in batch if not line.endswith(b"\n")]
                refused += self._send_batch(whole) if whole else []
        except HeadgateError as error:
            if _is_inside(error) and "server" not in self._complaints:
                # It may be about these events alone: they must not keep the others back.
                self._complain("inside", f"the server fails with what is in {path}: {error.message}; it stays there")
            elif not _is_inside(error):
                self._give_up(error)
            return None
        except OSError as error:
            self._complain("read", f"{path} cannot be read: {error.strerror}; what it holds is not sent")
            return None
        return count - len(refused) if self._set_aside(refused) else None

    def _send_batch(self, events: Sequence[bytes]) -> list[Refused]:
        """The refused ones; HeadgateError if the server takes none now."""
        try:
            receipt = self._batches.send_batch(events)
        except HeadgateError as error:
            if isinstance(error, _REFUSALS) or _is_inside(error):
                return self._send_each(events)
            raise
        if waiting := [each.reason for each in receipt.failed_events if each.retriable]:
            raise Unavailable(f"the server could not take {len(waiting)} events: {waiting[0]}")
        named = [each for each in receipt.failed_events if 0 <= each.index < len(events)]
        return [Refused(events[each.index], each.reason) for each in named]

    def _send_each(self, events: Sequence[bytes]) -> list[Refused]:
        """One by one, so that the event at fault is alone; HeadgateError if the server fails with every one."""
        refused: list[Refused] = []
        is_alive = False
        for count, event in enumerate(events, 1):
            try:
                self._batches.send(event)
                is_alive = True
            except _REFUSALS as error:
                is_alive = True
                refused.append(Refused(event, error.message))
            except HeadgateError as error:
                if not _is_inside(error) or not (is_alive or count < min(len(events), _SAME_FAILURE)):
                    raise
                refused.append(Refused(event, error.message))
        return refused

    def _set_aside(self, refused: Sequence[Refused]) -> bool:
        """Keep what was refused with the reason; whether that went well."""
        if not refused:
            return True
        self.standing.refused += len(refused)
        path = self._refused / f"{self._run_id}{SUFFIX}"
        first = refused[0].reason
        self._complain("refused", f"the server refuses what the run tells it: {first}; refused events are in {path}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with path.open("ab") as file:
                file.writelines(_refused_line(each) for each in refused)
        except OSError as error:
            self._cannot_keep(error)
            return False
        return True

    def _give_up(self, error: HeadgateError) -> None:
        self._is_given_up = True
        self._complain(
            "server",
            f"{error.message}; what the run tells is kept in {self._folder} and sent by the next run that "
            f"reaches the server, or by `headgate replay {self._folder}`",
        )

    def _cannot_keep(self, error: OSError) -> None:
        why = error.strerror or str(error)
        self._complain(
            "disk", f"{self._folder} cannot be written: {why}; what the server does not take at once will be lost"
        )

    def _complain(self, topic: str, text: str) -> None:
        """One warning a topic: a run may have thousands of events."""
        if topic not in self._complaints:
            self._complaints.add(topic)
            _log.warning("%s", text)


def _is_inside(error: HeadgateError) -> bool:
    """Whether the server itself failed, which one event may have caused; the root class stands for that."""
    return type(error) is HeadgateError


def _whole(response: httpx.Response, deadline: float) -> httpx.Response:
    """The answer with its body; one that comes in drops is not waited for."""
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer does not end", request=response.request)
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WIRE]
    return httpx.Response(response.status_code, headers=headers, content=bytes(body), request=response.request)


def _created(path: Path) -> int:
    """A new file that is ours; another run may take it for a leftover until we hold it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            if path.stat().st_ino == os.fstat(handle).st_ino:
                break
        except FileNotFoundError:
            pass
        os.close(handle)
    sync_folder(path.parent)
    return handle


def _left_in(folder: Path) -> list[Path]:
    """The files of earlier runs, the oldest first."""
    try:
        return sorted(path for path in folder.iterdir() if path.name.endswith(SUFFIX))
    except OSError:  # not there yet, or not readable: whoever writes to it will say so
        return []


def _lines(path: Path, start: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        yield from file


def _batches(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and (len(batch) >= BATCH_EVENTS or size + len(line) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch


def _refused_line(refused: Refused) -> bytes:
    event: object
    try:
        event = msgspec.json.decode(refused.event)
    except msgspec.DecodeError:
        event = refused.event.decode("utf-8", "replace")
    return msgspec.json.encode({"reason": refused.reason, "event": event}) + b"\n"
