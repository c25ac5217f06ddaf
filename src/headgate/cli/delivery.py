"""Sends the events of many files to a server in batches, and records what became of each.

Decides what to send again, what to cut in two and what to give up; how it looks is `replay`'s business.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple, NoReturn, Protocol

import msgspec

from headgate.cli.resume import Journal, Progress
from headgate.cli.source import Broken, Event, Source
from headgate.client import BatchReceipt
from headgate.errors import (
    HeadgateError,
    InvalidFields,
    InvalidSequence,
    RateLimited,
    RefusedState,
    TooLarge,
    Unavailable,
    Unparsable,
    WrongEncoding,
)

BATCH_BYTES = 8 * 1024 * 1024
KEPT_REFUSALS = 1000
_LONGEST_PAUSE_S = 10.0
# A request refused for one of these, or failing inside the server, is cut in two until the event that
# caused it is alone: one bad event must not hold back the others.
_REFUSALS = (Unparsable, TooLarge, WrongEncoding, InvalidFields, InvalidSequence, RefusedState)


class Sink(Protocol):
    """Takes a batch of events; `HeadgateClient` is one."""

    def send_batch(self, events: Sequence[bytes]) -> BatchReceipt: ...


class Refusal(NamedTuple):
    """One event that is not stored: `file:line` or `file[index]`, and why."""

    place: str
    reason: str


@dataclass
class Tally:
    """What became of the events so far; `refused_before` were refused by an earlier call."""

    stored: int = 0
    duplicates: int = 0
    refused: int = 0
    refused_before: int = 0
    done_files: int = 0
    resumed_files: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    bytes_current: int = 0
    current: str = ""
    # The first ones only: a file with a million bad lines must not fill the memory.
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def events(self) -> int:
        return self.stored + self.duplicates + self.refused


class Pending(NamedTuple):
    """An event that waits to be sent, or a piece that never can be."""

    source: Source
    progress: Progress
    item: Event | Broken

    @property
    def place(self) -> str:
        return f"{self.source.label}{self.item.place}"


class Finished(NamedTuple):
    """The end of a file; it is done if nothing of it has to be read again."""

    source: Source
    progress: Progress
    is_done: bool


class Patience:
    """How long to wait for a server that cannot take events now, counted from its last answer."""

    def __init__(
        self,
        wait_s: float,
        on_pause: Callable[[HeadgateError, float], None],
        sleep: Callable[[float], None],
        clock: Callable[[], float],
    ) -> None:
        self._wait_s, self._on_pause, self._sleep, self._clock = wait_s, on_pause, sleep, clock
        self._since: float | None = None
        self._pauses = 0

    def reset(self) -> None:
        self._since, self._pauses = None, 0

    def pause(self, error: Unavailable | RateLimited) -> None:
        """Wait a little longer each time; raise the error once the time is up."""
        now = self._clock()
        self._since = now if self._since is None else self._since
        left_s = self._since + self._wait_s - now
        if left_s <= 0:
            _give_up(error)
        backoff_s = 0.25 * 2.0 ** min(self._pauses, 10)
        pause_s = min(max(backoff_s, error.retry_after_s), _LONGEST_PAUSE_S, left_s)
        self._pauses += 1
        self._on_pause(error, pause_s)
        self._sleep(pause_s)


class Delivery:
    """One call of `replay`: `run` sends everything, `tally` says at any moment how far it is."""

    def __init__(
        self,
        sink: Sink,
        journal: Journal,
        *,
        batch_size: int = 100,
        wait_s: float = 60,
        resume: bool = True,
        refused_file: IO[bytes] | None = None,
        on_progress: Callable[[Tally], None] = lambda tally: None,
        on_pause: Callable[[HeadgateError, float], None] = lambda error, pause_s: None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally()
        self._sink = sink
        self._journal = journal
        self._batch_size = batch_size
        self._resume = resume
        self._refused_file = refused_file
        self._on_progress = on_progress
        self._patience = Patience(wait_s, on_pause, sleep, clock)
        self._refused_now: dict[str, str] = {}

    def run(self, sources: Sequence[Source]) -> Tally:
        """Send everything; however it ends, what the server has acknowledged is recorded."""
        self.tally.bytes_total = sum(source.size for source in sources)
        try:
            for batch in _batches(self._entries(sources), self._batch_size):
                self._flush(batch)
            self._on_progress(self.tally)
        finally:
            self._journal.save()
        return self.tally

    def _entries(self, sources: Sequence[Source]) -> Iterator[Pending | Finished]:
        for source in sources:
            progress = self._journal.open(source, resume=self._resume)
            self.tally.refused_before += progress.refused
            if progress.done:
                self.tally.done_files += 1
                self.tally.bytes_done += source.size
                continue
            self.tally.resumed_files += progress.count > 0
            is_done = True
            for item in source.items(progress.mark):
                is_done = item.after is not None
                yield Pending(source, progress, item)
            yield Finished(source, progress, is_done)

    def _flush(self, batch: Sequence[Pending | Finished]) -> None:
        self._refused_now = {}
        events = [entry for entry in batch if isinstance(entry, Pending) and isinstance(entry.item, Event)]
        if events:
            self._deliver(events)
        for entry in batch:
            self._record(entry)
        self._on_progress(self.tally)

    def _record(self, entry: Pending | Finished) -> None:
        """Note an entry as dealt with, in the order of the file, so that refusals are told in that order too."""
        self.tally.current = entry.source.label
        if isinstance(entry, Finished):
            self.tally.bytes_done += entry.source.size
            self.tally.bytes_current = 0
            if entry.is_done:
                self._journal.finish(entry.progress)
            return
        self.tally.bytes_current = entry.source.bytes_read()
        reason = entry.item.reason if isinstance(entry.item, Broken) else self._refused_now.get(entry.place)
        if reason is not None:
            self._refuse(entry, reason)
        if entry.item.after is not None:
            self._journal.advance(entry.progress, entry.item.after)

    def _deliver(self, events: Sequence[Pending]) -> None:
        try:
            receipt = self._send(events)
        except HeadgateError as error:
            # The root class itself stands for a failure inside the server.
            if not isinstance(error, _REFUSALS) and type(error) is not HeadgateError:
                raise
            self._divide(events, error)
            return
        self._settle(events, receipt)

    def _send(self, events: Sequence[Pending]) -> BatchReceipt:
        while True:
            try:
                receipt = self._sink.send_batch([event.item.data for event in events])
            except (Unavailable, RateLimited) as error:
                self._patience.pause(error)
                continue
            if receipt.summary.retriable < len(events):
                self._patience.reset()
            return receipt

    def _settle(self, events: Sequence[Pending], receipt: BatchReceipt) -> None:
        failed = [event for event in receipt.failed_events if 0 <= event.index < len(events)]
        self.tally.duplicates += receipt.summary.duplicates
        self.tally.stored += len(events) - len(failed) - receipt.summary.duplicates
        for event in failed:
            if not event.retriable:
                self._refused_now[events[event.index].place] = event.reason
        again = [event for event in failed if event.retriable]
        if again:
            self._patience.pause(Unavailable(again[0].reason))
            self._deliver([events[event.index] for event in again])

    def _divide(self, events: Sequence[Pending], error: HeadgateError) -> None:
        if len(events) == 1:
            self._refused_now[events[0].place] = error.message
            return
        middle = len(events) // 2
        self._deliver(events[:middle])
        self._deliver(events[middle:])

    def _refuse(self, entry: Pending, reason: str) -> None:
        self.tally.refused += 1
        if entry.item.after is not None:
            entry.progress.refused += 1
        if len(self.tally.refusals) < KEPT_REFUSALS:
            self.tally.refusals.append(Refusal(entry.place, reason))
        if self._refused_file:
            self._refused_file.write(_refused_line(entry, reason))


def _batches(entries: Iterable[Pending | Finished], size: int) -> Iterator[list[Pending | Finished]]:
    """Groups of at most `size` entries, so that one request stays well below the server's body limit."""
    batch: list[Pending | Finished] = []
    batch_bytes = 0
    for entry in entries:
        entry_bytes = len(entry.item.data) if isinstance(entry, Pending) else 0
        if batch and (len(batch) >= size or batch_bytes + entry_bytes > BATCH_BYTES):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(entry)
        batch_bytes += entry_bytes
    if batch:
        yield batch


def _refused_line(entry: Pending, reason: str) -> bytes:
    content: dict[str, object] = {"place": entry.place, "reason": reason}
    if isinstance(entry.item, Event):
        content["event"] = msgspec.Raw(msgspec.json.format(entry.item.data, indent=-1))
    else:
        content["text"] = entry.item.data.decode("utf-8", errors="replace")
    return msgspec.json.encode(content) + b"\n"


def _give_up(error: Unavailable | RateLimited) -> NoReturn:
    raise Unavailable(
        f"the server took no more events: {error.message}",
        hint="what it acknowledged is recorded; run the same command again to go on from there",
    ) from error
