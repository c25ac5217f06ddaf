"""Folds the accepted events of a group into the rows to be written: one a run, edge, use and metric.

Pure: given ids and the runs as they were, the rows follow. Lists are in key order, the order of locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from headgate.domain.run import TERMINAL, Course, Moment, RunState
from headgate.openlineage.facts import DatasetUse, Facts, Metric
from headgate.server.ingest.memory import Memory, UseKey, use_order

NO_RUN = UUID(int=0)
# Changes that are news however often they happen.
MOVES = frozenset({"DROP", "RENAME"})
_STATES = {
    RunState.START: "start_at",
    RunState.RUNNING: "running_at",
    RunState.COMPLETE: "complete_at",
    RunState.FAIL: "fail_at",
    RunState.ABORT: "abort_at",
    RunState.OTHER: "other_at",
}
# Looked up several times an event: an enum's own look-up costs ten times as much.
_BY_NAME: dict[str | None, RunState] = {None: RunState.OTHER} | {state.value: state for state in RunState}
_encode = msgspec.json.encode

Span = tuple[datetime, datetime, datetime | None]


def moment_of(facts: Facts) -> Moment:
    return facts.event_time, _BY_NAME[facts.event_type]


def course_of(record: Mapping[str, Any] | None) -> Course:
    """The course of a run as it is stored."""
    if record is None:
        return Course()
    first = {state: record[column] for state, column in _STATES.items() if record[column] is not None}
    return Course(
        first,
        first_event_at=record["started_at"],
        last_event_at=record["last_event_at"],
        last_activity_at=record["last_activity_at"],
    )


class RunRow(Struct, gc=False):
    """A run while the events of a group are added to it; `place` is set if it has a row, which is locked."""

    run_id: UUID
    place: str | None
    course: Course
    job_id: UUID
    job_ids: list[UUID]
    producer: str
    parent: UUID | None = None
    root: UUID | None = None
    parent_job: str | None = None
    root_job: str | None = None
    is_test: bool = False
    processing: str | None = None
    application: str | None = None
    context: dict[str, str] | None = None
    error: str | None = None
    error_at: datetime | None = None
    inputs: dict[UUID, None] = {}
    outputs: dict[UUID, None] = {}
    spans: dict[UUID, Span] = {}
    uses_by_job: dict[UUID, tuple[dict[UUID, None], dict[UUID, None]]] = {}
    told: set[UUID] = set()
    was_ended: Moment | None = None

    def add(self, facts: Facts, job_id: UUID, ids: Memory) -> None:
        """Take in one more event; the caller adds them in time order."""
        self.course.add(moment_of(facts))
        if job_id not in self.job_ids:
            self.job_ids.append(job_id)
        self.parent = self.parent or facts.parent_run
        self.root = self.root or facts.root_run
        self.parent_job = self.parent_job or as_json(facts.parent_job)
        self.root_job = self.root_job or as_json(facts.root_job)
        self.is_test = self.is_test or facts.is_test
        self.processing = facts.processing_type or self.processing
        self.application = facts.application_id or self.application
        if facts.partition_context is not None:
            self.context = facts.partition_context
        if facts.error is not None and (self.error_at is None or facts.event_time >= self.error_at):
            self.error, self.error_at = facts.error, facts.event_time
        if facts.uses:
            self._add_uses(facts, job_id, ids)

    def _add_uses(self, facts: Facts, job_id: UUID, ids: Memory) -> None:
        inputs, outputs = self.uses_by_job.setdefault(job_id, ({}, {}))
        for use in facts.uses:
            dataset_id = ids.datasets[use.key]
            if use.role == "input":
                self.inputs[dataset_id] = inputs[dataset_id] = None
            else:
                self.outputs[dataset_id] = outputs[dataset_id] = None
                if use.sources is not None:
                    self.told.add(dataset_id)
        if facts.edges is None:
            self.spans[job_id] = widen(self.spans.get(job_id), facts)

    def uses_of(self, job_id: UUID) -> tuple[dict[UUID, None], dict[UUID, None]]:
        """What the job has read and written in this run. A run under several jobs is told apart only here and now."""
        if len(self.job_ids) == 1:
            return self.inputs, self.outputs
        return self.uses_by_job.get(job_id, ({}, {}))

    @property
    def completed_at(self) -> datetime | None:
        end = self.course.end
        return end[0] if end is not None and end[1] is RunState.COMPLETE else None

    @property
    def has_ended_anew(self) -> bool:
        end = self.course.end
        return end is not None and end != self.was_ended

    def columns(self, told_by: str | None) -> tuple[Any, ...]:
        """`told_by` is the hash of the event for which the run is judged, if it is."""
        course = self.course
        first = course.first
        return (
            self.run_id, self.place, self.has_ended_anew, self.job_id, course.state[1], course.started_at,
            course.last_event_at, course.last_activity_at, first.get(RunState.START), first.get(RunState.COMPLETE),
            self.parent, self.root, self.processing, as_uuids(self.inputs), as_uuids(self.outputs),
            self.producer, self._extra(), self.parent_job, self.root_job, self.application, told_by,
        )  # fmt: skip

    def _extra(self) -> str | None:
        """What most runs do not have, by column."""
        first = self.course.first
        values = {
            "job_ids": self.job_ids if len(self.job_ids) > 1 else None,
            "running_at": first.get(RunState.RUNNING),
            "fail_at": first.get(RunState.FAIL),
            "abort_at": first.get(RunState.ABORT),
            "other_at": first.get(RunState.OTHER),
            "is_test": self.is_test or None,
            "partition_context": self.context,
            "error": self.error,
            "error_at": self.error_at,
        }
        present = {name: value for name, value in values.items() if value is not None}
        return _encode(present).decode() if present else None


def fold_runs(events: Sequence[Facts], held: Mapping[UUID, Mapping[str, Any]], ids: Memory) -> dict[UUID, RunRow]:
    """The runs of these events, each with all that is now known of it."""
    rows: dict[UUID, RunRow] = {}
    for facts in sorted((f for f in events if f.kind == "run"), key=_time_and_state):
        assert facts.run_id is not None
        assert facts.job is not None
        job_id = ids.jobs[facts.job]
        row = rows.get(facts.run_id)
        if row is None:
            row = rows[facts.run_id] = _run_row(facts, job_id, held.get(facts.run_id))
        row.add(facts, job_id, ids)
    return {run_id: rows[run_id] for run_id in sorted(rows)}


def _run_row(facts: Facts, job_id: UUID, record: Mapping[str, Any] | None) -> RunRow:
    assert facts.run_id is not None
    course = course_of(record)
    if record is None:
        return RunRow(facts.run_id, None, course, job_id, [job_id], facts.producer)
    return RunRow(
        facts.run_id,
        "held",
        course,
        record["job_id"],
        list(record["job_ids"]),
        record["producer"],
        parent=record["parent_run_id"],
        root=record["root_run_id"],
        parent_job=record["parent_job"],
        root_job=record["root_job"],
        is_test=record["is_test"],
        processing=record["processing_type"],
        application=record["application_id"],
        context=_decoded(record["partition_context"]),
        error=record["error"],
        error_at=record["error_at"],
        inputs=dict.fromkeys(record["input_ids"]),
        outputs=dict.fromkeys(record["output_ids"]),
        was_ended=course.end,
    )


class Content(NamedTuple):
    """A use whose content may be new, with the event that shows it."""

    facts: Facts
    use: DatasetUse
    job_id: UUID | None
    dataset_id: UUID


class UseRow(Struct, gc=False):
    """What a job reads or writes, over all events of a group, and the different contents it was seen with."""

    job_id: UUID | None
    dataset_id: UUID
    role: str
    first_at: datetime
    last_at: datetime
    completed_at: datetime | None = None
    start_hash: int | None = None
    facets_hash: int | None = None
    columns_hash: int | None = None
    columns_at: datetime | None = None
    schema: bytes | None = None
    schema_at: datetime | None = None
    contents: list[Content] = []

    def add(self, facts: Facts, use: DatasetUse, sender: UUID | None, completed_at: datetime | None) -> None:
        """Take in one more event; the caller adds them in time order."""
        at = facts.event_time
        self.last_at = at
        self.completed_at = completed_at or self.completed_at
        if use.facets_hash is not None:
            before = self.start_hash if facts.event_type == "START" else self.facets_hash
            if before != use.facets_hash or use.lifecycle in MOVES:
                self.contents.append(Content(facts, use, sender, self.dataset_id))
            if facts.event_type == "START":
                self.start_hash = use.facets_hash
            else:
                self.facets_hash = use.facets_hash
        if use.columns is not None:
            self.columns_hash, self.columns_at = use.columns.hash, at
        if use.schema is not None:
            self.schema, self.schema_at = use.schema.hash, at

    def columns(self) -> tuple[Any, ...]:
        return (
            self.job_id, self.dataset_id, self.role, self.first_at, self.last_at, self.completed_at, self.start_hash,
            self.facets_hash, self.columns_hash, self.columns_at, self.schema,
            self.schema_at,
        )  # fmt: skip

    @property
    def key(self) -> UseKey:
        return self.job_id, self.dataset_id, self.role

    @property
    def has_moved(self) -> bool:
        """Whether the dataset was dropped or renamed."""
        return any(content.use.lifecycle in MOVES for content in self.contents)

    def is_known(self, memory: Memory) -> bool:
        """Whether all that this group shows of it is what was stored last."""
        phases = (self.start_hash is not None) + (self.facets_hash is not None)
        if self.job_id is None or len(self.contents) > phases or self.has_moved:
            return False
        known = memory.use(self.key)
        return (
            known is not None
            and (self.start_hash is None or known[0] == self.start_hash)
            and (self.facets_hash is None or known[1] == self.facets_hash)
        )


def fold_uses(events: Sequence[Facts], runs: Mapping[UUID, RunRow], ids: Memory) -> list[UseRow]:
    rows: dict[tuple[UUID | None, UUID, str], UseRow] = {}
    for facts in sorted(events, key=_time_and_state):
        job_id = None if facts.job is None else ids.jobs[facts.job]
        run = run_of(facts, runs)
        completed_at = completion(facts, run)
        is_test = facts.is_test if run is None else run.is_test
        for use in facts.uses:
            if use.role == "output" and is_test:
                continue
            # Who drops a dataset has not written it: what the event says is kept, as of no job.
            is_drop = use.role == "output" and use.lifecycle == "DROP"
            key = (None if is_drop else job_id, ids.datasets[use.key], use.role)
            row = rows.get(key)
            if row is None:
                row = rows[key] = UseRow(*key, facts.event_time, facts.event_time)
            row.add(facts, use, job_id, completed_at)
    return [rows[key] for key in sorted(rows, key=use_order)]


def run_of(facts: Facts, runs: Mapping[UUID, RunRow]) -> RunRow | None:
    return runs.get(facts.run_id) if facts.kind == "run" and facts.run_id is not None else None


def completion(facts: Facts, run: RunRow | None) -> datetime | None:
    """When the work that an event tells of was done: its own time, or the completion that is known of its run."""
    if facts.event_type in (None, "COMPLETE"):
        return facts.event_time
    return None if run is None else run.completed_at


def fold_metrics(events: Sequence[Facts], ids: Memory) -> list[tuple[Any, ...]]:
    """One a run, dataset, direction and partition: the latest event's. Without a run, each time is one of its own."""
    rows: dict[tuple[UUID | datetime, UUID, str, str], tuple[Any, ...]] = {}
    for facts in sorted((f for f in events if f.metrics), key=_time_and_state):
        run_id = facts.run_id or NO_RUN
        job_id = None if facts.job is None else ids.jobs[facts.job]
        for metric in facts.metrics:
            dataset_id = ids.datasets[metric.dataset[:2]]
            partition_key = metric.dataset.partition_key or facts.partition_key or ""
            rows[(facts.run_id or facts.event_time, dataset_id, metric.direction, partition_key)] = (
                dataset_id, facts.event_time, run_id, metric.direction, job_id, metric.row_count, metric.byte_size,
                partition_key, _metric_extra(metric),
            )  # fmt: skip
    return list(rows.values())


def _metric_extra(metric: Metric) -> str | None:
    if metric.file_count is None and metric.partition_count is None and metric.columns is None:
        return None
    values = {
        "file_count": metric.file_count,
        "partition_count": metric.partition_count,
        "columns": metric.columns,
    }
    return _encode({name: value for name, value in values.items() if value is not None}).decode()


def widen(span: Span | None, facts: Facts) -> Span:
    at = facts.event_time
    completed = at if facts.event_type in (None, "COMPLETE") else None
    if span is None:
        return at, at, completed
    return min(span[0], at), max(span[1], at), completed or span[2]


def _time_and_state(facts: Facts) -> tuple[datetime, bool]:
    return facts.event_time, facts.event_type in TERMINAL


def as_uuids(ids: Iterable[UUID]) -> str:
    """Ids as the text of an array."""
    return f"{{{','.join(map(str, ids))}}}"


@lru_cache(maxsize=4096)
def as_json(job: tuple[str, str] | None) -> str | None:
    """The name of a job as a JSON object."""
    return None if job is None else _encode({"namespace": job[0], "name": job[1]}).decode()


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
