"""The facts of a run: what each node read, tested, decided and wrote.

One shape for the last line of `run --json`, for the story, for the events, and for what the server keeps.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, field, to_builtins


class Status(StrEnum):
    """How a node or a run ended."""

    published = "published"
    stopped = "stopped"
    failed = "failed"
    skipped = "skipped"


class DatasetRef(Struct, frozen=True):
    """A dataset as OpenLineage names it, and as the file does."""

    namespace: str
    name: str
    label: str


class TestRecord(Struct, frozen=True):
    """How one test went. `limit` is in words; `observed` is the figure of a test of the whole batch."""

    name: str
    type: str
    on_fail: str
    status: str
    failed: int
    columns: tuple[str, ...] = ()
    evaluated: int | None = None
    limit: str | None = None
    observed: float | str | None = None
    detail: str | None = None


class RowCountRecord(Struct, frozen=True):
    current: int
    previous: int | None
    change: float | None


class GateRecord(Struct, frozen=True):
    """The verdict; `required` is the rate that was asked for."""

    passed: bool
    pass_rate: float
    required: float
    action: str | None
    total_rows: int
    passed_rows: int
    failed_rows: int
    per_test_rates: dict[str, float]
    row_count: RowCountRecord
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()


class QuarantineRecord(Struct, frozen=True):
    """The batch that was set apart, with a few rows whose values are masked."""

    dataset: DatasetRef
    location: str
    batch_id: str
    rows: int
    failed_tests: dict[str, int]
    state: str = "open"
    retention_days: int | None = None
    samples: tuple[dict[str, Any], ...] = ()


class FieldRecord(Struct, frozen=True):
    name: str
    type: str
    nullable: bool = True


class DriftRecord(Struct, frozen=True):
    """What has changed in the target's columns since the last published run, and what was done about it."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    policy: str = "evolve"

    @property
    def is_empty(self) -> bool:
        return not (self.added or self.removed or self.changed)


class ColumnProfile(Struct, frozen=True):
    nulls: int
    distinct: int | None = None
    min: Any = None
    max: Any = None


class NodeRecord(Struct):
    """One node of one run."""

    pipeline: str
    name: str
    run_id: str
    status: Status = Status.skipped
    attempt: int = 1
    started_at: datetime | None = None
    ended_at: datetime | None = None
    inputs: tuple[DatasetRef, ...] = ()
    output: DatasetRef | None = None
    mode: str | None = None
    rows_in: int = 0
    rows_valid: int = 0
    rows_quarantined: int = 0
    rows_published: int = 0
    bytes_published: int | None = None
    files_published: int | None = None
    gate: GateRecord | None = None
    tests: tuple[TestRecord, ...] = ()
    quarantine: QuarantineRecord | None = None
    schema: tuple[FieldRecord, ...] = ()
    drift: DriftRecord | None = None
    profile: dict[str, ColumnProfile] = field(default_factory=dict)
    watermark: dict[str, Any] | None = None
    timings_s: dict[str, float] = field(default_factory=dict)
    owner: str | None = None
    tags: tuple[str, ...] = ()
    description: str | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    error: str | None = None
    is_config_error: bool = False

    def note(self, *notes: str | None) -> None:
        """Add what is worth telling, if anything is."""
        self.notes = (*self.notes, *filter(None, notes))

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Keep how long a phase took, however it ended."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.timings_s[phase] = round(time.monotonic() - began, 3)


class RunRecord(Struct):
    """A run of one or more pipelines of a file. One that goes on with another has that one's id as its `batch_id`."""

    run_id: str
    project: str
    pipelines: tuple[str, ...]
    status: Status = Status.skipped
    environment: str | None = None
    file: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    nodes: list[NodeRecord] = field(default_factory=list)
    is_interrupted: bool = False
    batch_id: str | None = None

    def as_json(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        found: dict[str, Any] = to_builtins(self, str_keys=True)
        return found


def overall(nodes: list[NodeRecord]) -> Status:
    """The worst of the nodes: failed, stopped, then published; a run that did nothing was skipped."""
    found = {node.status for node in nodes}
    for status in (Status.failed, Status.stopped, Status.published):
        if status in found:
            return status
    return Status.skipped


EXIT_CODES = {Status.published: 0, Status.skipped: 0, Status.stopped: 3, Status.failed: 1}
EXIT_CONFIG = 2


def exit_code(run: RunRecord) -> int:
    """How the process ends: a run that only the file has made fail is another matter than one that broke."""
    failed = [node for node in run.nodes if node.status is Status.failed]
    if run.status is Status.failed and failed and all(node.is_config_error for node in failed):
        return EXIT_CONFIG
    return EXIT_CODES[run.status]
