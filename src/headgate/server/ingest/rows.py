"""Folds the accepted events of a group into the rows to be written: one a run, edge, use and metric.

Pure: given ids and the runs as they were, the rows follow. Lists are in key order, the order of locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from headgate.domain.run import TERMINAL, Course, Moment, RunState
from headgate.openlineage.facts import DatasetUse, Facts
from headgate.server.ingest.batch import Ids

NO_RUN = UUID(int=0)
MAX_EDGES = 250_000
_STATES = {
    RunState.START: "start_at",
    RunState.RUNNING: "running_at",
    RunState.COMPLETE: "complete_at",
    RunState.FAIL: "fail_at",
    RunState.ABORT: "abort_at",
    RunState.OTHER: "other_at",
}
_encode = msgspec.json.encode

Span = tuple[datetime, datetime, datetime | None]


def moment_of(facts: Facts) -> Moment:
    return facts.event_time, RunState(facts.event_type or "OTHER")


def course_of(record: Mapping[str, Any] | None) -> Course:
    """The course of a run as it is stored."""
    if record is None:
        return Course()
    first = {state: record[column] for state, column in _STATES.items() if record[column] is not None}
    return Course(
        first,
        first_event_at=record["started_at"],
        last_event_at=record["last_event_at"],
        last_running_at=record["state_at"] if record["state"] == "RUNNING" else record["running_at"],
        last_activity_at=record["last_activity_at"],
    )


class RunRow(Struct):
    """A run while the events of a group are added to it."""

    run_id: UUID
    is_new: bool
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
    context: str | None = None
    error: str | None = None
    error_at: datetime | None = None
    events: int = 0
    inputs: dict[UUID, None] = {}
    outputs: dict[UUID, None] = {}
    spans: dict[UUID, Span] = {}
    was_ended: Moment | None = None

    def add(self, facts: Facts, job_id: UUID, ids: Ids) -> None:
        """Take in one more event; the caller adds them in time order."""
        self.course.add(moment_of(facts))
        self.events += 1
        if job_id not in self.job_ids:
            self.job_ids.append(job_id)
        self.parent = self.parent or facts.parent_run
        self.root = self.root or facts.root_run
        self.parent_job = self.parent_job or _job_json(facts.parent_job)
        self.root_job = self.root_job or _job_json(facts.root_job)
        self.is_test = self.is_test or facts.is_test
        self.processing = facts.processing_type or self.processing
        self.application = facts.application_id or self.application
        if facts.partition_context is not None:
            self.context = _encode(facts.partition_context).decode()
        if facts.error is not None and (self.error_at is None or facts.event_time >= self.error_at):
            self.error, self.error_at = facts.error, facts.event_time
        for use in facts.uses:
            (self.inputs if use.role == "input" else self.outputs)[ids.datasets[use.key]] = None
        if facts.uses and facts.edges is None:
            self.spans[job_id] = _widen(self.spans.get(job_id), facts)

    @property
    def has_ended_anew(self) -> bool:
        end = self.course.end
        return end is not None and end != self.was_ended

    def columns(self) -> tuple[Any, ...]:
        course = self.course
        state_at, state = course.state
        end = course.end
        first = course.first
        return (
            self.run_id, self.is_new, self.job_id, _uuids(self.job_ids), state, state_at, course.started_at,
            end[0] if end else None, course.last_event_at, course.last_activity_at, first.get(RunState.START),
            first.get(RunState.RUNNING), first.get(RunState.COMPLETE), first.get(RunState.FAIL),
            first.get(RunState.ABORT), first.get(RunState.OTHER), self.parent, self.root, self.parent_job,
            self.root_job, self.is_test, self.processing, self.application, self.context, self.error, self.error_at,
            self.events, _uuids(self.inputs), _uuids(self.outputs), self.producer,
        )  # fmt: skip


def fold_runs(events: Sequence[Facts], held: Mapping[UUID, Mapping[str, Any]], ids: Ids) -> dict[UUID, RunRow]:
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
        return RunRow(facts.run_id, True, course, job_id, [job_id], facts.producer)
    return RunRow(
        facts.run_id,
        False,
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
        context=record["partition_context"],
        error=record["error"],
        error_at=record["error_at"],
        events=record["event_count"],
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


class UseRow(Struct):
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
    contents: list[Content] = []

    def add(self, facts: Facts, use: DatasetUse) -> None:
        """Take in one more event; the caller adds them in time order."""
        at = facts.event_time
        self.last_at = at
        if facts.event_type is None or facts.event_type == "COMPLETE":
            self.completed_at = at
        if use.facets_hash is not None:
            before = self.start_hash if facts.event_type == "START" else self.facets_hash
            if before != use.facets_hash:
                self.contents.append(Content(facts, use, self.job_id, self.dataset_id))
            if facts.event_type == "START":
                self.start_hash = use.facets_hash
            else:
                self.facets_hash = use.facets_hash
        if use.columns is not None:
            self.columns_hash, self.columns_at = use.columns.hash, at
        if use.schema is not None:
            self.schema = use.schema.hash

    def columns(self) -> tuple[Any, ...]:
        return (
            self.job_id, self.dataset_id, self.role, self.first_at, self.last_at, self.completed_at, self.start_hash,
            self.facets_hash, self.columns_hash, self.columns_at, self.schema,
        )  # fmt: skip


def fold_uses(events: Sequence[Facts], ids: Ids) -> list[UseRow]:
    rows: dict[tuple[UUID | None, UUID, str], UseRow] = {}
    for facts in sorted(events, key=_time_and_state):
        job_id = None if facts.job is None else ids.jobs[facts.job]
        for use in facts.uses:
            if use.role == "output" and facts.is_test:
                continue
            key = (job_id, ids.datasets[use.key], use.role)
            row = rows.get(key)
            if row is None:
                row = rows[key] = UseRow(*key, facts.event_time, facts.event_time)
            row.add(facts, use)
    return [rows[key] for key in sorted(rows, key=lambda key: (key[0] or NO_RUN, key[1], key[2]))]


def fold_edges(events: Sequence[Facts], runs: Mapping[UUID, RunRow], ids: Ids) -> list[tuple[Any, ...]]:
    """All that a run has read so far to all that it has written so far, or just what an event spells out."""
    edges: dict[tuple[UUID, UUID, UUID], tuple[Span, UUID | None]] = {}
    for row in runs.values():
        if row.is_test or len(row.inputs) * len(row.outputs) > MAX_EDGES:
            continue
        for job_id, span in row.spans.items():
            for source in row.inputs:
                for target in row.outputs:
                    _add_edge(edges, (source, target, job_id), span, row.run_id)
    for facts in events:
        if facts.job is None or facts.is_test:
            continue
        if facts.edges is not None:
            span = _widen(None, facts)
            for source_name, target_name in facts.edges:
                pair = ids.datasets[source_name[:2]], ids.datasets[target_name[:2]]
                _add_edge(edges, (*pair, ids.jobs[facts.job]), span, facts.run_id)
        elif facts.kind == "job":
            _add_product(edges, facts, ids)
    return [(*key, *span, run) for key, (span, run) in sorted(edges.items(), key=lambda item: item[0])]


def _add_product(edges: dict[tuple[UUID, UUID, UUID], tuple[Span, UUID | None]], facts: Facts, ids: Ids) -> None:
    assert facts.job is not None
    inputs = {ids.datasets[use.key] for use in facts.uses if use.role == "input"}
    outputs = {ids.datasets[use.key] for use in facts.uses if use.role == "output"}
    if len(inputs) * len(outputs) <= MAX_EDGES:
        span = _widen(None, facts)
        for source in inputs:
            for target in outputs:
                _add_edge(edges, (source, target, ids.jobs[facts.job]), span, None)


def _add_edge(
    edges: dict[tuple[UUID, UUID, UUID], tuple[Span, UUID | None]],
    key: tuple[UUID, UUID, UUID],
    span: Span,
    run_id: UUID | None,
) -> None:
    if key[0] == key[1]:
        return
    seen = edges.get(key)
    if seen is None:
        edges[key] = (span, run_id)
        return
    (first, last, completed), seen_run = seen
    ends = [at for at in (completed, span[2]) if at is not None]
    wider = (min(first, span[0]), max(last, span[1]), max(ends) if ends else None)
    edges[key] = (wider, run_id if span[1] >= last else seen_run)


def fold_metrics(events: Sequence[Facts], ids: Ids) -> list[tuple[Any, ...]]:
    """One a run, dataset and direction: the latest event's."""
    rows: dict[tuple[UUID, UUID, str], tuple[Any, ...]] = {}
    for facts in sorted((f for f in events if f.metrics), key=_time_and_state):
        run_id = facts.run_id or NO_RUN
        job_id = None if facts.job is None else ids.jobs[facts.job]
        for metric in facts.metrics:
            dataset_id = ids.datasets[metric.dataset[:2]]
            columns = None if metric.columns is None else _encode(metric.columns).decode()
            rows[(run_id, dataset_id, metric.direction)] = (
                dataset_id, facts.event_time, run_id, metric.direction, job_id, metric.row_count, metric.byte_size,
                metric.file_count, metric.partition_count, metric.dataset.partition_key, columns,
            )  # fmt: skip
    return list(rows.values())


def follow_ups(runs: Iterable[RunRow], metrics: Iterable[tuple[Any, ...]]) -> list[tuple[str, UUID, str]]:
    """What is left to do because runs ended and metrics came in."""
    rows = [("run_finished", row.run_id, f'{{"state":"{row.course.state[1]}"}}') for row in runs if row.has_ended_anew]
    measured: dict[UUID, list[str]] = {}
    for metric in metrics:
        measured.setdefault(metric[2], []).append(str(metric[0]))
    rows.extend(
        ("metrics_recorded", run_id, _encode({"datasets": datasets}).decode()) for run_id, datasets in measured.items()
    )
    return rows


def _widen(span: Span | None, facts: Facts) -> Span:
    at = facts.event_time
    completed = at if facts.event_type in (None, "COMPLETE") else None
    if span is None:
        return at, at, completed
    return min(span[0], at), max(span[1], at), completed or span[2]


def _time_and_state(facts: Facts) -> tuple[datetime, bool]:
    return facts.event_time, facts.event_type in TERMINAL


def _uuids(ids: Iterable[UUID]) -> str:
    return f"{{{','.join(map(str, ids))}}}"


def _job_json(job: tuple[str, str] | None) -> str | None:
    return None if job is None else _encode({"namespace": job[0], "name": job[1]}).decode()
