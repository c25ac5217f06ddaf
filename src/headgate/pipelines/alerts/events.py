"""The alerts of a run, derived from its records.

Knows what happened and why somebody should hear of it; knows nothing of channels, messages or how often is too often.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from headgate.domain.gate import Action
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.record import GateRecord, NodeRecord, RunRecord, Status, TestRecord

Key = tuple[str, str]

# A pipeline says these of itself, when it starts and ends: its channels need not hear them of each node too.
OF_THE_WHOLE = frozenset({AlertEvent.on_start, AlertEvent.on_success, AlertEvent.on_failure})
VOLUME_TESTS = frozenset({"row_count", "volume_change", "volume_drop"})
_BAD = (Status.failed, Status.stopped)
_FAILING = ("failed", "error")
_MAX_SENTENCE = 500


class AlertStatus(StrEnum):
    """How bad it is, at a glance."""

    STARTED = "STARTED"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    GATE_BLOCKED = "GATE_BLOCKED"
    QUARANTINED = "QUARANTINED"
    WARNING = "WARNING"


class Alert(Struct, frozen=True):
    """Something of a run that people want to hear of. Without a node, it speaks of the whole pipeline."""

    event: AlertEvent
    status: AlertStatus
    project: str
    pipeline: str
    run_id: str
    message: str
    at: datetime
    node: str | None = None
    duration_s: float = 0.0
    owner: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    story_url: str | None = None


def alerts_of_start(
    run: RunRecord, *, owners: Mapping[str, str | None] | None = None, story_url: str | None = None
) -> list[Alert]:
    """That each pipeline of the run begins."""
    facts = {"environment": run.environment, "file": run.file}
    return [
        Alert(
            event=AlertEvent.on_start,
            status=AlertStatus.STARTED,
            project=run.project,
            pipeline=pipeline,
            run_id=run.run_id,
            message=f"Pipeline {pipeline} has started.",
            at=_first(run.started_at),
            owner=(owners or {}).get(pipeline),
            details={"run_details": facts},
            story_url=story_url,
        )
        for pipeline in run.pipelines
    ]


def alerts_of_node_start(project: str, record: NodeRecord, *, story_url: str | None = None) -> list[Alert]:
    """That a node begins, for the channels of its own."""
    message = f"Node {_label(record)} has started."
    facts = {"run_details": {"attempt": record.attempt}}
    return [_of_node(project, record, AlertEvent.on_start, AlertStatus.STARTED, message, facts, story_url)]


def alerts_of_node(project: str, record: NodeRecord, *, story_url: str | None = None) -> list[Alert]:
    """What there is to tell of a node that has ended; a skipped one has nothing."""
    if record.status is Status.skipped:
        return []
    found = [
        *_validation(record),
        *_gate_block(record),
        *_quarantine(record),
        *_threshold_breach(record),
        *_schema_drift(record),
        *_freshness(record),
        _end_of_node(record),
    ]
    return [_of_node(project, record, *each, story_url) for each in found]


def alerts_within_node(project: str, record: NodeRecord) -> list[Alert]:
    """The same without how the node ended, which its pipeline says for all of them."""
    return [each for each in alerts_of_node(project, record) if each.event not in OF_THE_WHOLE]


def alert_of_whole(
    event: AlertEvent,
    at: datetime,
    *,
    project: str,
    pipeline: str,
    run_id: str,
    ended_as: str | None = None,
    duration_s: float = 0.0,
    details: dict[str, Any] | None = None,
) -> Alert:
    """How a pipeline began or ended, as one sees it who knows nothing of its nodes."""
    said = {
        AlertEvent.on_start: (AlertStatus.STARTED, "has started"),
        AlertEvent.on_success: (AlertStatus.SUCCESS, "has published its nodes"),
        AlertEvent.on_failure: (AlertStatus.FAILED, f"ended as {ended_as or 'failed'}"),
    }
    status, message = said[event]
    return Alert(
        event=event,
        status=status,
        project=project,
        pipeline=pipeline,
        run_id=run_id,
        message=f"Pipeline {pipeline} {message}.",
        at=at,
        duration_s=duration_s,
        details=details or {},
    )


def alerts_of_end(
    run: RunRecord,
    *,
    ignored: Collection[Key] = (),
    owners: Mapping[str, str | None] | None = None,
    story_url: str | None = None,
) -> list[Alert]:
    """How each pipeline of the run ended. `ignored` are the nodes whose failure counts for nothing."""
    found = []
    for pipeline in run.pipelines:
        nodes = [node for node in run.nodes if node.pipeline == pipeline]
        event, status, message = _end_of_pipeline(pipeline, nodes, ignored)
        found.append(
            Alert(
                event=event,
                status=status,
                project=run.project,
                pipeline=pipeline,
                run_id=run.run_id,
                message=message,
                at=_first(run.ended_at, run.started_at),
                duration_s=_seconds(run.started_at, run.ended_at),
                owner=(owners or {}).get(pipeline) or _common_owner(nodes),
                details=_totals(nodes),
                story_url=story_url,
            )
        )
    return found


Told = tuple[AlertEvent, AlertStatus, str, dict[str, Any]]


def _of_node(
    project: str,
    record: NodeRecord,
    event: AlertEvent,
    status: AlertStatus,
    message: str,
    details: dict[str, Any],
    story_url: str | None,
) -> Alert:
    duration_s = record.timings_s.get("total", _seconds(record.started_at, record.ended_at))
    return Alert(
        event=event,
        status=status,
        project=project,
        pipeline=record.pipeline,
        run_id=record.run_id,
        message=message,
        at=_first(record.ended_at, record.started_at),
        node=record.name,
        duration_s=duration_s,
        owner=record.owner,
        details=details,
        story_url=story_url,
    )


def _validation(record: NodeRecord) -> list[Told]:
    failing = [test for test in record.tests if test.status in _FAILING]
    if not failing:
        return []
    message = f"{_count(len(failing), 'test')} of {_label(record)} failed: {_listed([test.name for test in failing])}."
    details = {
        "failed_tests": [test.name for test in failing],
        "tests": [_test(test) for test in failing],
        "rows_in": record.rows_in,
        "failure_reasons": [_worded(test) for test in failing],
    }
    return [(AlertEvent.on_validation_fail, _severity(record), message, {"validation_details": details})]


def _gate_block(record: NodeRecord) -> list[Told]:
    gate = record.gate
    if gate is None or gate.passed:
        return []
    is_blocked = gate.action == Action.abort
    message = f"The gate of {_label(record)} {_what_the_gate_did(gate, record)}."
    details = {
        "pass_rate": gate.pass_rate,
        "required_rate": gate.required,
        "failed_rows": gate.failed_rows,
        "total_rows": gate.total_rows,
        "action": gate.action,
        "failure_reasons": list(gate.reasons),
    }
    status = AlertStatus.GATE_BLOCKED if is_blocked else AlertStatus.WARNING
    return [(AlertEvent.on_gate_block, status, message, {"gate_details": details})]


def _what_the_gate_did(gate: GateRecord, record: NodeRecord) -> str:
    share = f"{gate.failed_rows:,} of {gate.total_rows:,} rows failed"
    if gate.action == Action.warn_and_write:
        return f"did not pass and all rows were published with a warning: {share}"
    if gate.action == Action.write_valid_only:
        return f"did not pass and {record.rows_published:,} valid rows were published: {share}"
    return f"blocked the batch and nothing was published: {share}"


def _quarantine(record: NodeRecord) -> list[Told]:
    batch = record.quarantine
    if batch is None or batch.rows == 0:
        return []
    message = f"{_count(batch.rows, 'row')} of {_label(record)} went to quarantine {batch.dataset.label}."
    details = {
        "rows_quarantined": batch.rows,
        "quarantine_path": batch.location,
        "quarantine_dataset": batch.dataset.label,
        "failed_tests": list(batch.failed_tests),
        "failed_rows_by_test": dict(batch.failed_tests),
        "batch_id": batch.batch_id,
        "state": batch.state,
    }
    return [(AlertEvent.on_quarantine, AlertStatus.QUARANTINED, message, {"quarantine_details": details})]


def _threshold_breach(record: NodeRecord) -> list[Told]:
    breached = [test for test in record.tests if _is_breach(test)]
    reasons = [*_row_count_reasons(record.gate), *(_worded(test) for test in breached)]
    if not reasons:
        return []
    counted = record.gate.row_count if record.gate else None
    message = f"{_label(record)} is beyond {_count(len(reasons), 'limit')}: {reasons[0]}."
    details = {
        "row_count": record.rows_in if counted is None else counted.current,
        "previous_row_count": None if counted is None else counted.previous,
        "change": None if counted is None else counted.change,
        "failed_tests": [test.name for test in breached],
        "failure_reasons": reasons,
    }
    return [(AlertEvent.on_threshold_breach, _severity(record), message, {"threshold_details": details})]


def _is_breach(test: TestRecord) -> bool:
    if test.status != "failed":
        return False
    # A test of rows that has a limit was allowed some failures: it fails because there were more.
    has_allowance = test.observed is None and test.limit is not None and test.failed > 0
    return test.type in VOLUME_TESTS or has_allowance


def _row_count_reasons(gate: GateRecord | None) -> list[str]:
    """The verdict keeps its reasons as sentences: those of the row count are known by their subject."""
    reasons = gate.reasons if gate else ()
    return [each for each in reasons if _is_of_row_count(each)]


def _is_of_row_count(reason: str) -> bool:
    subject = reason.lstrip("0123456789,")
    return subject.startswith(
        (" rows are fewer than ", " rows are more than ", "the row count changed ", "the change of the row count ")
    )


def _schema_drift(record: NodeRecord) -> list[Told]:
    drift = record.drift
    if drift is None or drift.is_empty:
        return []
    parts = [
        f"{len(names)} {what}"
        for what, names in (("added", drift.added), ("removed", drift.removed), ("changed", drift.changed))
        if names
    ]
    target = record.output.label if record.output else _label(record)
    message = f"The columns of {target} have changed: {', '.join(parts)}."
    details = {
        "dataset": target,
        "columns_added": list(drift.added),
        "columns_removed": list(drift.removed),
        "columns_changed": list(drift.changed),
        "policy": drift.policy,
    }
    status = AlertStatus.FAILED if drift.policy == "fail" else AlertStatus.WARNING
    return [(AlertEvent.on_schema_drift, status, message, {"drift_details": details})]


def _freshness(record: NodeRecord) -> list[Told]:
    stale = [test for test in record.tests if test.type == "freshness" and test.status == "failed"]
    if not stale:
        return []
    first = stale[0]
    message = f"The rows of {_label(record)} are too old: {_worded(first)}."
    details = {
        "column": first.columns[0] if first.columns else None,
        "observed": first.observed,
        "limit": first.limit,
        "failed_tests": [test.name for test in stale],
        "failure_reasons": [_worded(test) for test in stale],
    }
    return [(AlertEvent.on_freshness_fail, _severity(record), message, {"freshness_details": details})]


def _end_of_node(record: NodeRecord) -> Told:
    rows = {
        "rows_in": record.rows_in,
        "rows_published": record.rows_published,
        "rows_quarantined": record.rows_quarantined,
        "attempt": record.attempt,
    }
    if record.status is Status.published:
        message = f"Node {_label(record)} has published {_count(record.rows_published, 'row')}."
        return AlertEvent.on_success, AlertStatus.SUCCESS, message, {"run_details": rows}
    message = f"Node {_label(record)} {_status_word(record)}: {_why(record)}."
    details = {"run_details": rows, "failure_details": {"failure_reasons": _reasons([record])}}
    return AlertEvent.on_failure, AlertStatus.FAILED, message, details


def _end_of_pipeline(
    pipeline: str, nodes: Sequence[NodeRecord], ignored: Collection[Key]
) -> tuple[AlertEvent, AlertStatus, str]:
    bad = [node for node in nodes if node.status in _BAD]
    counted = [node for node in bad if (node.pipeline, node.name) not in ignored]
    skipped = [node for node in nodes if node.status is Status.skipped]
    published = [node for node in nodes if node.status is Status.published]
    if counted:
        message = f"Pipeline {pipeline} has failed: {_one_sentence(_reasons(counted)[0])}."
        return AlertEvent.on_failure, AlertStatus.FAILED, message
    if skipped and not published:
        return AlertEvent.on_failure, AlertStatus.WARNING, f"Pipeline {pipeline} did not run: {_why(skipped[0])}."
    if skipped or bad:
        message = f"Pipeline {pipeline} has published {len(published)} of {_count(len(nodes), 'node')}."
        return AlertEvent.on_success, AlertStatus.WARNING, message
    message = f"Pipeline {pipeline} has published {_count(len(published), 'node')}."
    return AlertEvent.on_success, AlertStatus.SUCCESS, message


def _totals(nodes: Sequence[NodeRecord]) -> dict[str, Any]:
    details: dict[str, Any] = {
        "run_details": {
            "nodes": {node.name: str(node.status) for node in nodes},
            "rows_in": sum(node.rows_in for node in nodes),
            "rows_published": sum(node.rows_published for node in nodes),
            "rows_quarantined": sum(node.rows_quarantined for node in nodes),
        }
    }
    bad = [node for node in nodes if node.status in _BAD]
    if bad:
        details["failure_details"] = {"failed_nodes": [node.name for node in bad], "failure_reasons": _reasons(bad)}
    return details


def _reasons(nodes: Sequence[NodeRecord]) -> list[str]:
    return [f"node {node.name} {_status_word(node)}: {_why(node)}" for node in nodes]


def _status_word(record: NodeRecord) -> str:
    return "was stopped" if record.status is Status.stopped else "has failed"


def _why(record: NodeRecord) -> str:
    gate_reasons = record.gate.reasons if record.gate else ()
    said = [record.error, *record.reasons, *gate_reasons, *record.notes]
    return _one_sentence(next((each for each in said if each), "no reason is known"))


def _one_sentence(text: str) -> str:
    """The first line: what follows is a stack trace or a hint, and belongs in the story."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    short = line if len(line) <= _MAX_SENTENCE else line[: _MAX_SENTENCE - 1] + "…"
    return short.rstrip(".")


def _severity(record: NodeRecord) -> AlertStatus:
    return AlertStatus.FAILED if record.status in _BAD else AlertStatus.WARNING


def _test(test: TestRecord) -> dict[str, Any]:
    return {
        "name": test.name,
        "type": test.type,
        "on_fail": test.on_fail,
        "status": test.status,
        "columns": list(test.columns),
        "failed_rows": test.failed,
        "limit": test.limit,
        "observed": test.observed,
    }


def _worded(test: TestRecord) -> str:
    if test.detail:
        return f"test {test.name!r}: {_one_sentence(test.detail)}"
    if test.status == "error":
        return f"test {test.name!r} could not be carried out"
    if test.observed is not None:
        limit = f", {test.limit} is allowed" if test.limit else ""
        return f"test {test.name!r} found {test.observed}{limit}"
    total = "" if test.evaluated is None else f" of {test.evaluated:,}"
    limit = f", {test.limit} is allowed" if test.limit else ""
    return f"test {test.name!r} fails for {test.failed:,}{total} rows{limit}"


def _label(record: NodeRecord) -> str:
    return f"{record.pipeline}.{record.name}"


def _listed(names: Sequence[str], most: int = 5) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _common_owner(nodes: Sequence[NodeRecord]) -> str | None:
    owners = {node.owner for node in nodes}
    return owners.pop() if len(owners) == 1 else None


def _seconds(start: datetime | None, end: datetime | None) -> float:
    return (end - start).total_seconds() if start and end else 0.0


def _first(*moments: datetime | None) -> datetime:
    """The first that is known; a record that was never timed is told as of now."""
    return next((each for each in moments if each is not None), None) or datetime.now(UTC)
