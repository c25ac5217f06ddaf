"""Replay: cutting files into events, sending them in batches, and going on after an interruption."""

from __future__ import annotations

import gzip
import io
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import source as source_module
from headgate.cli.delivery import BATCH_BYTES, Delivery
from headgate.cli.resume import Journal, target_id
from headgate.cli.source import Broken, Event, Mark, Source, find
from headgate.client import BatchReceipt, BatchSummary, FailedEvent
from headgate.errors import (
    FieldError,
    Forbidden,
    HeadgateError,
    InvalidFields,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unparsable,
)


def event(number: int, **more: Any) -> bytes:
    return json.dumps({"n": number} | more).encode()


def lines(*numbers: int) -> bytes:
    return b"".join(event(number) + b"\n" for number in numbers)


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class MemorySink:
    """A server in memory: knows duplicates, refuses what it is told to, and can be down for a while."""

    def __init__(self, refuse: Callable[[dict[str, Any]], str | None] = lambda event: None) -> None:
        self.stored: list[bytes] = []
        self.batches: list[int] = []
        self.failures: list[Exception] = []
        self.retriable_once: set[int] = set()
        self._refuse = refuse

    @property
    def numbers(self) -> list[int]:
        return [json.loads(data)["n"] for data in self.stored]

    def send_batch(self, events: Sequence[bytes]) -> BatchReceipt:
        if self.failures:
            raise self.failures.pop(0)
        self.batches.append(len(events))
        failed, duplicates = [], 0
        for index, data in enumerate(events):
            decoded = json.loads(data)
            if decoded.get("n") in self.retriable_once:
                self.retriable_once.discard(decoded["n"])
                failed.append(FailedEvent(index, "busy", retriable=True))
            elif reason := self._refuse(decoded):
                failed.append(FailedEvent(index, reason))
            elif data in self.stored:
                duplicates += 1
            else:
                self.stored.append(data)
        retriable = sum(event.retriable for event in failed)
        summary = BatchSummary(
            len(events),
            len(events) - len(failed),
            len(failed),
            retriable,
            len(failed) - retriable,
            duplicates,
        )
        return BatchReceipt("success", summary, failed)


class PickySink(MemorySink):
    """Refuses a whole request because of one event in it."""

    def __init__(self, error: HeadgateError, poison: int) -> None:
        super().__init__()
        self._error, self._poison = error, poison

    def send_batch(self, events: Sequence[bytes]) -> BatchReceipt:
        if event(self._poison) in events:
            raise self._error
        return super().send_batch(events)


def deliver(sink: MemorySink, *paths: Path, state: Path | None = None, **options: Any) -> Delivery:
    clock = options.pop("clock", Clock())
    target = options.pop("target", "server")
    delivery = Delivery(sink, Journal(state, target), sleep=clock.sleep, clock=clock, **options)
    delivery.run(find(paths))
    return delivery


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def datas(path: Path) -> list[bytes]:
    return [item.data for item in Source(path).items() if isinstance(item, Event)]


def brokens(path: Path) -> list[tuple[str, str]]:
    return [(item.place, item.reason) for item in Source(path).items() if isinstance(item, Broken)]


PRETTY = json.dumps({"n": 1, "deep": {"x": [1, 2]}}, indent=2).encode()


@pytest.mark.parametrize("packed", ["", ".gz"], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        pytest.param("a.ndjson", lines(1, 2), [event(1), event(2)], id="ndjson"),
        pytest.param("a.jsonl", lines(1) + event(2), [event(1), event(2)], id="no last newline"),
        pytest.param("a.ndjson", b"\r\n" + event(1) + b"\r\n\r\n" + event(2), [event(1), event(2)], id="crlf"),
        pytest.param("a.ndjson", b"\xef\xbb\xbf" + lines(1), [event(1)], id="byte order mark"),
        pytest.param("a.json", event(1), [event(1)], id="one event"),
        pytest.param("a.json", b"\n\n" + PRETTY + b"\n", [PRETTY], id="one event over lines"),
        pytest.param("a.json", b"[%b, %b]" % (event(1), event(2)), [event(1), event(2)], id="array"),
        pytest.param("a.json", b"[\n%b,\n%b\n]\n" % (PRETTY, event(2)), [PRETTY, event(2)], id="array over lines"),
        pytest.param("a.json", lines(1, 2, 3), [event(1), event(2), event(3)], id="lines named json"),
        pytest.param("a.json", b"[]", [], id="empty array"),
        pytest.param("a.ndjson", b"", [], id="empty file"),
        pytest.param("a.log", lines(1, 2), [event(1), event(2)], id="other name"),
    ],
)
def test_events_come_out_of_every_kind_of_file_byte_for_byte(
    tmp_path: Path, name: str, data: bytes, expected: list[bytes], packed: str
) -> None:
    path = write(tmp_path / (name + packed), data)

    assert datas(path) == expected
    assert brokens(path) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param(b'{"n": ', "is not JSON", id="cut off"),
        pytest.param(b"hello", "is not JSON", id="text"),
        pytest.param(b'{"n": NaN}', "is not JSON", id="nan"),
        pytest.param(b'{"n": "\xff"}', "is not JSON", id="not utf-8"),
        pytest.param(b"[" * 100_000, "is not JSON", id="too deep"),
        pytest.param(b"[1, 2]", "is not a JSON object", id="array"),
        pytest.param(b"3", "is not a JSON object", id="number"),
        pytest.param(b"null", "is not a JSON object", id="null"),
    ],
)
def test_a_broken_line_is_told_with_its_number_and_the_others_come_out(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = write(tmp_path / "a.ndjson", lines(1) + line + b"\n" + lines(3))

    assert datas(path) == [event(1), event(3)]
    ((place, why),) = brokens(path)
    assert place == ":2"
    assert why.startswith(reason)


def test_a_torn_last_line_is_left_for_the_next_call(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", lines(1) + b'{"n": 2')

    *_, torn = Source(path).items()

    assert isinstance(torn, Broken)
    assert (torn.place, torn.after) == (":2", None)
    assert torn.reason.startswith("the last line is cut off")


def test_only_the_first_line_of_a_json_file_being_broken_does_not_hide_the_rest(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b'{"n": 1,\n' + lines(2, 3))

    assert datas(path) == [event(2), event(3)]
    assert [place for place, _ in brokens(path)] == [":1"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        pytest.param("a.json", b'[{"n": 1}, {"n": 2', "is not a JSON array", id="array cut off"),
        pytest.param("a.json", b'{\n"n": 1,\n', "is not JSON", id="event cut off"),
        pytest.param("a.json", b"[1]", "is not a JSON object", id="array of numbers"),
    ],
)
def test_a_broken_document_is_told_once(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    ((_, why),) = brokens(write(tmp_path / name, data))

    assert why.startswith(reason)


def test_a_packed_file_that_is_cut_off_gives_what_can_be_read(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(event(n, pad="x" * n) + b"\n" for n in range(2000)))
    path = tmp_path / "a.ndjson.gz"
    path.write_bytes(whole[: len(whole) // 2])

    items = list(Source(path).items())

    assert isinstance(items[-1], Broken)
    assert "damaged or cut off" in items[-1].reason
    assert 0 < len(items) - 1 < 2000


def test_a_file_that_is_not_packed_at_all_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(b"{}")

    assert "damaged or cut off" in brokens(path)[0][1]


def test_a_line_without_end_is_skipped_without_holding_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_module, "MAX_EVENT_BYTES", 1000)
    huge = event(2, pad="x" * 10_000)
    path = write(tmp_path / "a.ndjson", lines(1) + huge + b"\n" + lines(3))

    assert datas(path) == [event(1), event(3)]
    ((place, why),) = brokens(path)
    assert place == ":2"
    assert why.startswith("is larger than")


def test_reading_can_begin_at_any_mark(tmp_path: Path) -> None:
    for name in ("a.ndjson", "a.ndjson.gz", "b.json", "c.json"):
        data = b"[%b]" % b",".join(map(event, (1, 2, 3))) if name == "b.json" else lines(1, 2, 3)
        path = write(tmp_path / name, data)
        items = list(Source(path).items())
        for index, item in enumerate(items):
            assert item.after is not None
            assert list(Source(path).items(item.after)) == items[index + 1 :], name


def test_folders_are_searched_in_order_and_other_files_left_alone(tmp_path: Path) -> None:
    for name in (
        "b/2.json",
        "b/1.ndjson.gz",
        "a.jsonl",
        "c/readme.md",
        ".hidden/x.json",
        "b/.y.json",
        "d.tar.gz",
    ):
        write(tmp_path / name, b"{}")

    found = [str(s.path.relative_to(tmp_path)) for s in find([tmp_path]) if s.path]

    assert found == ["a.jsonl", "b/1.ndjson.gz", "b/2.json"]


def test_a_file_named_twice_is_sent_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b"{}")

    assert len(find([path, tmp_path, path])) == 1


def test_what_does_not_exist_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        find([write(tmp_path / "a.json", b"{}"), tmp_path / "b.json"])
    with pytest.raises(NotFound, match="holds no file of events"):
        find([write(tmp_path / "only" / "readme.md", b"").parent])


def test_events_are_sent_in_order_in_batches_across_files(tmp_path: Path) -> None:
    for number in range(5):
        write(tmp_path / f"{number}.json", event(number))
    sink = MemorySink()

    tally = deliver(sink, tmp_path, batch_size=6).tally

    assert sink.numbers == [0, 1, 2, 3, 4]
    assert len(sink.batches) < 5
    assert (tally.stored, tally.duplicates, tally.refused) == (5, 0, 0)


def test_large_events_make_small_batches(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", b"".join(event(n, pad="x" * (BATCH_BYTES // 2)) + b"\n" for n in range(3)))
    sink = MemorySink()

    deliver(sink, path)

    assert sink.batches == [1, 1, 1]


def test_duplicates_are_counted_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", lines(1, 2, 1))

    tally = deliver(MemorySink(), path).tally

    assert (tally.stored, tally.duplicates, tally.events) == (2, 1, 3)


def test_refused_events_are_told_with_their_place_and_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", lines(1, 2) + b"nonsense\n" + lines(4))
    array = write(tmp_path / "b.json", b"[%b,%b]" % (event(5), json.dumps({"n": 2, "s": "é"}, indent=1).encode()))
    sink = MemorySink(refuse=lambda e: "has no job" if e["n"] == 2 else None)
    kept = io.BytesIO()

    tally = deliver(sink, path, array, refused_file=kept).tally

    assert sink.numbers == [1, 4, 5]
    assert [(r.place.rpartition("/")[2], r.reason[:11]) for r in tally.refusals] == [
        ("a.ndjson:2", "has no job"),
        ("a.ndjson:3", "is not JSON"),
        ("b.json[1]", "has no job"),
    ]
    written = [json.loads(line) for line in kept.getvalue().splitlines()]
    assert [w.get("event") or w["text"] for w in written] == [{"n": 2}, "nonsense", {"n": 2, "s": "é"}]


@pytest.mark.parametrize(
    "error",
    [
        Unparsable("bad"),
        TooLarge("big"),
        InvalidFields([FieldError("x", "wrong")]),
        HeadgateError("the server failed on this request"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_one_event_that_spoils_a_request_is_found_and_the_others_are_stored(
    tmp_path: Path, error: HeadgateError
) -> None:
    path = write(tmp_path / "a.ndjson", lines(*range(20)))
    sink = PickySink(error, poison=7)

    tally = deliver(sink, path).tally

    assert sink.numbers == [n for n in range(20) if n != 7]
    assert [(r.place.rpartition("/")[2], r.reason) for r in tally.refusals] == [("a.ndjson:8", error.message)]


@pytest.mark.parametrize("error", [Unauthenticated("no"), Forbidden("no")], ids=["401", "403"])
def test_a_caller_who_may_not_send_is_told_at_once(tmp_path: Path, error: HeadgateError) -> None:
    sink = MemorySink()
    sink.failures = [error]

    with pytest.raises(type(error)):
        deliver(sink, write(tmp_path / "a.ndjson", lines(1, 2)))

    assert sink.stored == []


def test_an_outage_is_waited_for(tmp_path: Path) -> None:
    sink, clock = MemorySink(), Clock()
    sink.failures = [Unavailable("down"), RateLimited("slow down", retry_after_s=4), Unavailable("down")]

    tally = deliver(sink, write(tmp_path / "a.ndjson", lines(1, 2)), clock=clock).tally

    assert tally.stored == 2
    assert clock.pauses == [1.0, 4.0, 1.0]


def test_a_server_that_stays_down_ends_it_in_bounded_time_and_nothing_is_lost(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(*range(10))), tmp_path / "state.json"
    sink, clock = MemorySink(), Clock()
    failing = Delivery(
        _DownAfter(sink, batches=2),
        Journal(state, "server"),
        batch_size=3,
        wait_s=60,
        sleep=clock.sleep,
        clock=clock,
    )

    with pytest.raises(Unavailable, match="took no more events") as caught:
        failing.run(find([path]))

    assert "run the same command again" in str(caught.value.hint)
    assert clock.now == pytest.approx(60)
    assert failing.tally.stored == 6

    tally = deliver(sink, path, state=state).tally
    assert sink.numbers == list(range(10))
    assert (tally.stored, tally.duplicates) == (4, 0)


class _DownAfter(MemorySink):
    def __init__(self, inner: MemorySink, batches: int) -> None:
        super().__init__()
        self._inner, self._left = inner, batches

    def send_batch(self, events: Sequence[bytes]) -> BatchReceipt:
        if not self._left:
            raise Unavailable("down", retry_after_s=7)
        self._left -= 1
        return self._inner.send_batch(events)


def test_events_that_may_be_tried_again_are(tmp_path: Path) -> None:
    sink = MemorySink()
    sink.retriable_once = {2, 3}

    tally = deliver(sink, write(tmp_path / "a.ndjson", lines(1, 2, 3, 4))).tally

    assert sorted(sink.numbers) == [1, 2, 3, 4]
    assert (tally.stored, tally.refused) == (4, 0)


def test_an_interruption_loses_nothing_and_the_next_call_goes_on(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(*range(9))), tmp_path / "state.json"
    sink = MemorySink()

    def interrupt(tally: Any) -> None:
        if tally.stored >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(sink, path, state=state, batch_size=3, on_progress=interrupt)
    tally = deliver(sink, path, state=state, batch_size=3).tally

    assert sink.numbers == list(range(9))
    assert sink.batches == [3, 3, 3]
    assert (tally.stored, tally.resumed_files) == (3, 1)


def test_a_finished_file_is_not_read_again(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1, 2)), tmp_path / "state.json"
    sink = MemorySink()

    deliver(sink, path, state=state)
    tally = deliver(sink, path, state=state).tally

    assert (tally.events, tally.done_files, len(sink.batches)) == (0, 1, 1)


def test_no_resume_sends_everything_again(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1, 2)), tmp_path / "state.json"
    sink = MemorySink()

    deliver(sink, path, state=state)
    tally = deliver(sink, path, state=state, resume=False).tally

    assert (tally.stored, tally.duplicates) == (0, 2)


def test_a_file_that_grew_is_continued_also_after_a_torn_line(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1) + b'{"n"'), tmp_path / "state.json"
    sink = MemorySink()

    first = deliver(sink, path, state=state).tally
    with path.open("ab") as file:
        file.write(b": 2}\n" + lines(3))
    second = deliver(sink, path, state=state).tally

    assert (first.stored, first.refused) == (1, 1)
    assert (second.stored, second.duplicates, second.refused, second.refused_before) == (2, 0, 0, 0)
    assert sink.numbers == [1, 2, 3]


@pytest.mark.parametrize("changed", [lines(7, 8, 9), lines(7)], ids=["longer and different", "shorter"])
def test_a_file_that_was_replaced_starts_over(tmp_path: Path, changed: bytes) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1, 2)), tmp_path / "state.json"
    sink = MemorySink()

    deliver(sink, path, state=state)
    path.write_bytes(changed)
    tally = deliver(sink, path, state=state).tally

    assert tally.stored == len(changed.splitlines())


def test_another_server_or_another_key_gets_everything(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1, 2)), tmp_path / "state.json"
    targets = [
        target_id("http://a", "hg_live_1"),
        target_id("http://a", "hg_live_2"),
        target_id("http://b", "hg_live_1"),
    ]

    stored = [deliver(MemorySink(), path, state=state, target=target).tally.stored for target in targets]

    assert stored == [2, 2, 2]
    assert "hg_live_" not in state.read_text()


def test_earlier_refusals_are_remembered(tmp_path: Path) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1) + b"nonsense\n"), tmp_path / "state.json"

    deliver(MemorySink(), path, state=state)
    tally = deliver(MemorySink(), path, state=state).tally

    assert (tally.refused, tally.refused_before, tally.done_files) == (0, 1, 1)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"server": {"x": {"offset": 1}}}', b'{"server": 3}'])
def test_a_state_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    path, state = write(tmp_path / "a.ndjson", lines(1)), write(tmp_path / "state.json", content)

    assert deliver(MemorySink(), path, state=state).tally.stored == 1


def test_a_state_file_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", lines(1))

    assert deliver(MemorySink(), path, state=path / "state.json").tally.stored == 1


def test_a_state_that_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    path, device = write(tmp_path / "a.ndjson", lines(1)), tmp_path / "device"
    os.mkfifo(device)

    tally = deliver(MemorySink(), path, state=device).tally

    assert tally.stored == 1
    assert device.is_fifo()


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    tracemalloc = pytest.importorskip("tracemalloc")
    path = tmp_path / "a.ndjson"
    line = event(0, pad="x" * 2400) + b"\n"
    path.write_bytes(line * 20_000)

    class Counting(MemorySink):
        def send_batch(self, events: Sequence[bytes]) -> BatchReceipt:
            return BatchReceipt("success", BatchSummary(len(events), len(events), 0))

    tracemalloc.start()
    try:
        tally = deliver(Counting(), path).tally
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert tally.stored == 20_000
    assert peak < path.stat().st_size / 10


def test_a_mark_is_where_its_event_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "a.ndjson", lines(1, 2))

    assert [item.after for item in Source(path).items()] == [
        Mark(len(lines(1)), 1),
        Mark(len(lines(1, 2)), 2),
    ]
