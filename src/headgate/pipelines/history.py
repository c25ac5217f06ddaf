"""What a node may ask about its own past: the last published run, its watermark, and how many rows there were.

The server knows; when it cannot be reached, the memory of this machine stands in for it, and the answer says so.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from headgate.domain import gate
from headgate.durable import write_whole
from headgate.errors import HeadgateError, NotFound, RateLimited, Unavailable
from headgate.openlineage.pipelines import NEW_STATES
from headgate.pipelines.home import Home, Server
from headgate.pipelines.plan import Node
from headgate.pipelines.record import FieldRecord, NodeRecord, RunRecord, Status
from headgate.pipelines.spool import Client

REMEMBERED_RUNS = 100
# A page of the server has no more.
_MOST = 1000
NO_RUN = "there is no published run to compare with"

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Watermark(Struct, frozen=True):
    """How far published runs have read; a value that is no text is JSON."""

    column: str
    value: str


class Published(Struct, frozen=True):
    """A published run in a few words."""

    run_id: str
    rows_in: int
    rows_published: int
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Last:
    """The last published run of a node; `note` says where this is known from, if not from the server."""

    run: Published
    fields: tuple[FieldRecord, ...] = ()
    watermark: Watermark | None = None
    note: str | None = None

    @property
    def rows_in(self) -> int:
        return self.run.rows_in


@dataclass(frozen=True)
class Counts:
    """Rows that published runs have read, the latest first."""

    rows: tuple[int, ...]
    note: str | None = None


@dataclass(frozen=True)
class Unknown:
    """That nothing is known, and why."""

    note: str


class Remembered(Struct):
    """What this machine keeps of a node; `runs` are the latest first."""

    runs: list[Published]
    fields: tuple[FieldRecord, ...] = ()
    watermark: Watermark | None = None


class Memory:
    """The last published runs of each node of a project, in files that are always whole."""

    def __init__(self, folder: Path, project: str) -> None:
        self._folder = folder
        self._project = project

    def remember(self, record: NodeRecord) -> None:
        """Keep what a published run of a node leaves; OSError if the disk does not take it."""
        known = self.recall(record.pipeline, record.name) or Remembered([])
        run = Published(record.run_id, record.rows_in, record.rows_published, record.ended_at)
        others = [each for each in known.runs if each.run_id != run.run_id]
        runs = sorted([run, *others], key=_ended_at, reverse=True)[:REMEMBERED_RUNS]
        if runs[0] is run:
            known = Remembered(runs, record.schema, watermark_of(record) or known.watermark)
        else:
            known.runs = runs
        write_whole(self._path(record.pipeline, record.name), msgspec.json.encode(known))

    def recall(self, pipeline: str, node: str) -> Remembered | None:
        path = self._path(pipeline, node)
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Remembered)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, OSError) as error:
            _log.warning("%s cannot be read and is begun anew: %s", path, error)
            return None
        return found if found.runs else None

    def _path(self, pipeline: str, node: str) -> Path:
        # None of the three can have a dot in it.
        return self._folder / f"{self._project}.{pipeline}.{node}.json"


class History:
    """Asks once for each fact in a run; one that the server did not answer is not asked for again."""

    def __init__(self, server: Server, memory: Memory, project: str) -> None:
        self._client = None if server.url is None else Client(server.url, server.api_key)
        self._memory = memory
        self._project = project
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], Any] = {}
        self._gone = None if self._client else "the run has no server"

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def last_published(self, node: Node) -> Last | Unknown:
        def asked(client: Client) -> Last:
            return _last(client.last_published(self._project, *node.key))

        def recalled(why: str) -> Last | Unknown:
            known = self._memory.recall(*node.key)
            if known is None:
                return Unknown(f"{why}, and this machine remembers no published run")
            return Last(known.runs[0], known.fields, known.watermark, _from_memory(why, known.runs[0]))

        return self._once(("last", node.key), asked, recalled)

    def row_counts(self, node: Node, runs: int) -> Counts | Unknown:
        """The rows of so many published runs; fewer if there were fewer."""

        def asked(client: Client) -> Counts | Unknown:
            page = client.node_history(self._project, *node.key, limit=min(runs, _MOST))
            rows = tuple(msgspec.convert(item["rows_in"], int) for item in page.items)
            return Counts(rows) if rows else Unknown(NO_RUN)

        def recalled(why: str) -> Counts | Unknown:
            known = self._memory.recall(*node.key)
            if known is None:
                return Unknown(f"{why}, and this machine remembers no published run")
            rows = tuple(run.rows_in for run in known.runs[:runs])
            return Counts(rows, _from_memory(why, known.runs[0]))

        return self._once(("counts", node.key, runs), asked, recalled)

    def for_gate(self, node: Node) -> gate.History:
        """What the gate compares the row count with."""
        found = self.last_published(node)
        if isinstance(found, Unknown):
            return gate.History(note=found.note)
        return gate.History(found.rows_in, found.note)

    def _once(
        self, key: tuple[object, ...], asked: Callable[[Client], T | Unknown], recalled: Callable[[str], T | Unknown]
    ) -> T | Unknown:
        with self._lock:
            if key not in self._known:
                self._known[key] = self._find(asked, recalled)
            found: T | Unknown = self._known[key]
            return found

    def _find(self, asked: Callable[[Client], T | Unknown], recalled: Callable[[str], T | Unknown]) -> T | Unknown:
        if self._client is None or self._gone is not None:
            return recalled(self._gone or "")
        try:
            return asked(self._client)
        except NotFound:
            return Unknown(NO_RUN)
        except (Unavailable, RateLimited) as error:
            # The next node would wait just as long for nothing.
            self._gone = error.message
            return recalled(error.message)
        except HeadgateError as error:
            return recalled(error.message)
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            return recalled(f"the answer of the server cannot be read ({error})")


class Scribe:
    """A watcher that keeps the record of the run, and remembers published nodes; a full disk does not end the run."""

    def __init__(self, home: Home, memory: Memory) -> None:
        self._home = home
        self._memory = memory
        self._has_complained = False

    def run_started(self, run: RunRecord) -> None:
        self._kept(lambda: self._home.save_record(run))

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        """Nothing to keep yet."""

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None:
        """The try that counts is still to come."""

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        if record.status is Status.published and not _handles_batch(record):
            self._kept(lambda: self._memory.remember(record))
        # The run takes the record up after this; one that is killed now must find it all the same.
        so_far = copy(run)
        so_far.nodes = [*(each for each in run.nodes if each.run_id != record.run_id), record]
        self._kept(lambda: self._home.save_record(so_far))

    def run_ended(self, run: RunRecord) -> None:
        self._kept(lambda: self._home.save_record(run))
        self._kept(self._home.forget_old)

    def _kept(self, keep: Callable[[], object]) -> None:
        try:
            keep()
        except Exception as error:  # the boundary to the run
            if not self._has_complained:
                self._has_complained = True
                _log.warning("the record of the run is not kept in %s: %s", self._home.folder, error)


def _handles_batch(record: NodeRecord) -> bool:
    """Whether the run was about a batch from quarantine, which is no measure for the next."""
    return record.quarantine is not None and record.quarantine.state not in NEW_STATES


def watermark_of(record: NodeRecord) -> Watermark | None:
    """How far the run has read; told as `column` and `value`, or by the column's name."""
    told = record.watermark or {}
    pairs = [(told["column"], told["value"])] if {"column", "value"} <= told.keys() else list(told.items())
    for column, value in pairs:
        if value is not None:
            text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
            return Watermark(str(column), text)
    return None


def _last(answer: dict[str, Any]) -> Last:
    mark = answer["watermark"]
    return Last(
        msgspec.convert(answer, Published),
        msgspec.convert(answer["fields"], tuple[FieldRecord, ...]),
        None if mark is None else msgspec.convert(mark, Watermark),
    )


def _from_memory(why: str, run: Published) -> str:
    when = "" if run.ended_at is None else f" of {run.ended_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"{why}: this is the local memory of this machine, run {run.run_id}{when}"


def _ended_at(run: Published) -> datetime:
    return run.ended_at or datetime.min.replace(tzinfo=UTC)
