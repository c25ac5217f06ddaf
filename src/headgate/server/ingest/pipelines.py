"""Secondary facts of pipelines: runs, nodes, quarantine batches, watermarks, alerts, and how fresh a target must be.

Events come in any order and more than once. Of several that end a run the one counts that ends it in `job_runs`: the
earliest, and at the same time FAIL, ABORT, COMPLETE.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from headgate.openlineage.facts import Facts
from headgate.openlineage.pipelines import NEW_STATES, AlertFacet, NodeTold, record_of, utc
from headgate.server.ingest import telling
from headgate.server.ingest.context import MAX_FACET_BYTES, Context, Q, as_columns

_RANKS = {"FAIL": 0, "ABORT": 1, "COMPLETE": 2}
_STATUSES = {"FAIL": "failed", "ABORT": "failed", "COMPLETE": "published"}
# What every event of a run may say, and the one that ends it need not.
_LASTING = ("pipeline_run_id", "environment", "file")

Row = TypeVar("Row", "RunRow", "NodeRow")


class RunRow(NamedTuple):
    """A run of a pipeline; without a record only a node of it was heard of."""

    run_id: UUID
    project: str
    pipeline: str
    environment: str | None
    file: str | None
    status: str | None
    started_at: datetime
    ended_at: datetime | None
    told_at: datetime | None
    told_rank: int | None
    record: str | None


class NodeRow(NamedTuple):
    run_id: UUID
    pipeline_run_id: UUID | None
    project: str
    pipeline: str
    node: str
    attempt: int
    status: str | None
    rows_in: int
    rows_valid: int
    rows_quarantined: int
    rows_published: int
    gate: str | None
    tests: int
    passed_tests: int
    failed_tests: int
    output_urn: str | None
    output_label: str | None
    started_at: datetime
    ended_at: datetime | None
    handles_batch: bool
    told_at: datetime | None
    told_rank: int | None
    record: str


class Told(NamedTuple):
    """What one event says of a node; the end is None before there is one."""

    facts: Facts
    node: NodeTold
    record: dict[str, Any]
    end: End | None


class End(NamedTuple):
    at: datetime
    status: str


class Ended(NamedTuple):
    """A node that has ended."""

    run_id: UUID
    at: datetime
    status: str
    node: NodeTold


def tells_of_pipelines(facts: Facts) -> bool:
    return facts.run_id is not None and bool(facts.pipeline or facts.node or facts.alerts)


async def store_pipelines(context: Context, events: Sequence[Facts]) -> None:
    """What these events say of pipelines; nothing of it depends on the order in which they come."""
    told = [_told(facts, facts.node) for facts in events if facts.node is not None]
    await _store_runs(context, events, _joined(map(_node_row, told)))
    ended = [Ended(_run_id(each.facts), *each.end, each.node) for each in told if each.end is not None]
    ended.sort(key=lambda end: end[:2][::-1])
    await _store_batches(context, ended)
    await _store_watermarks(context, ended)
    await _store_freshness(context, ended)
    await _store_alerts(context, events)
    await context.follow_up(telling.told(events))


async def _store_runs(context: Context, events: Sequence[Facts], nodes: Sequence[NodeRow]) -> None:
    known = [_run_of_node(row) for row in nodes if row.pipeline_run_id is not None]
    runs = _joined([*filter(None, map(_run_row, events)), *known])
    # A run's row is locked before its nodes are written, so whoever counts them next sees these too.
    if runs:
        await context.conn.execute(Q.upsert_pipeline_runs, context.organization_id, *as_columns(runs, len(runs[0])))
    if nodes:
        await context.conn.execute(Q.upsert_node_runs, context.organization_id, *as_columns(nodes, len(nodes[0])))
    if runs:
        await context.conn.execute(Q.count_nodes, context.organization_id, [row.run_id for row in runs])


def _told(facts: Facts, node: NodeTold) -> Told:
    record = record_of(node.body)
    if facts.event_type not in _RANKS:
        return Told(facts, node, record, None)
    # A record that does not say how it ended has a default, which the type of the event knows better.
    status = str(node.facet.status) if record.get("status") else _STATUSES[facts.event_type]
    return Told(facts, node, record, End(node.facet.ended_at or facts.event_time, status))


def _run_id(facts: Facts) -> UUID:
    assert facts.run_id is not None, "only events of runs have run facets"
    return facts.run_id


def _joined(rows: Iterable[Row]) -> list[Row]:
    """One row a run, in the order of locks: the one that tells how it ended, begun when the first of them says."""
    found: dict[UUID, Row] = {}
    for row in rows:
        before = found.get(row.run_id)
        if before is None:
            found[row.run_id] = row
        else:
            first, second = sorted((before, row), key=_weight)
            found[row.run_id] = _completed(first, second)
    return [found[run_id] for run_id in sorted(found)]


def _weight(row: RunRow | NodeRow) -> tuple[Any, ...]:
    if row.told_at is None:
        return (1, row.record is None, row.started_at)
    return (0, row.told_at, row.told_rank)


def _completed(row: Row, other: Row) -> Row:
    """The row, with what only the other one knows of where it belongs."""
    missing = {name for name in _LASTING if getattr(row, name, "") is None}
    filled = {name: getattr(other, name) for name in missing}
    return row._replace(**filled, started_at=min(row.started_at, other.started_at))


def _run_row(facts: Facts) -> RunRow | None:
    if facts.pipeline is None:
        return None
    facet = facts.pipeline.facet
    rank = _RANKS.get(facts.event_type or "")
    has_ended = rank is not None
    return RunRow(
        _run_id(facts),
        facet.project,
        facet.pipeline,
        facet.environment,
        facet.file,
        str(facet.status or _STATUSES[facts.event_type or ""]) if has_ended else None,
        facet.started_at or facts.event_time,
        facet.ended_at or facts.event_time if has_ended else None,
        facts.event_time if has_ended else None,
        rank,
        _stored(record_of(facts.pipeline.body), "nodes"),
    )


def _run_of_node(row: NodeRow) -> RunRow:
    """What a node gives away of the run that it is part of."""
    assert row.pipeline_run_id is not None
    nothing = (None, None, None)
    return RunRow(row.pipeline_run_id, row.project, row.pipeline, *nothing, row.started_at, *nothing, None)


def _node_row(told: Told) -> NodeRow:
    facts, node, facet, end = told.facts, told.node, told.node.facet, told.end
    tests = [test.status for test in facet.tests]
    return NodeRow(
        _run_id(facts),
        facts.parent_run,
        facet.project,
        facet.pipeline,
        facet.name,
        facet.attempt,
        end.status if end else None,
        facet.rows_in,
        facet.rows_valid,
        facet.rows_quarantined,
        facet.rows_published,
        _stored(told.record["gate"]) if facet.gate else None,
        len(tests),
        tests.count("passed"),
        sum(status in ("failed", "error") for status in tests),
        node.output.urn if node.output else None,
        facet.output.label if facet.output else None,
        facet.started_at or facts.event_time,
        end.at if end else None,
        facet.handles_batch,
        facts.event_time if end else None,
        _RANKS.get(facts.event_type or ""),
        _stored(told.record, "profile", "quarantine", "tests"),
    )


def _stored(record: dict[str, Any], *heavy: str) -> str:
    """A record as JSON; without what weighs most if it is too large."""
    text = msgspec.json.encode(record)
    if len(text) > MAX_FACET_BYTES:
        light = {name: value for name, value in record.items() if name not in heavy}
        text = msgspec.json.encode(light | {"notes": [f"too large to be kept whole: {', '.join(heavy)} left out"]})
    if len(text) > MAX_FACET_BYTES:
        raise ValueError(f"the record has {len(text)} bytes, over the limit of {MAX_FACET_BYTES}")
    return text.decode()


async def _store_batches(context: Context, ended: Sequence[Ended]) -> None:
    """Batches in quarantine. The run that writes one tells what it holds, the latest that deals with it its state."""
    rows = [row for end in ended if (row := _batch_row(end))]
    # One statement a layer: no two rows of a statement may be the same batch.
    while rows:
        layer = {row[:4]: row for row in reversed(rows)}
        rows = [row for row in rows if layer[row[:4]] is not row]
        columns = as_columns([layer[key] for key in sorted(layer)], 14)
        await context.conn.execute(Q.upsert_quarantine_batches, context.organization_id, *columns)


def _batch_row(end: Ended) -> tuple[Any, ...] | None:
    facet, batch = end.node.facet, end.node.facet.quarantine
    if batch is None:
        return None
    dataset = end.node.quarantine
    return (
        facet.project, facet.pipeline, facet.name, batch.batch_id, end.run_id, batch.location,
        dataset.urn if dataset else f"{batch.dataset.namespace}/{batch.dataset.name}", batch.rows,
        msgspec.json.encode(batch.failed_tests).decode(), end.at, _expiry(end.at, batch.retention_days),
        end.at if batch.state in NEW_STATES else None, batch.state, end.at,
    )  # fmt: skip


def _expiry(rejected_at: datetime, days: int | None) -> datetime | None:
    try:
        return None if days is None else utc(rejected_at + timedelta(days=days))
    except (OverflowError, ValueError):
        return None


async def _store_watermarks(context: Context, ended: Sequence[Ended]) -> None:
    rows: dict[tuple[str, str, str, str], tuple[Any, ...]] = {}
    for end in ended:
        facet = end.node.facet
        if end.status == "published":
            for column, value in facet.watermarks():
                key = (facet.project, facet.pipeline, facet.name, column)
                rows[key] = (*key, value, end.run_id, end.at)
    if rows:
        columns = as_columns([rows[key] for key in sorted(rows)], 7)
        await context.conn.execute(Q.move_watermarks, context.organization_id, *columns)


async def _store_freshness(context: Context, ended: Sequence[Ended]) -> None:
    rows = [
        (end.node.output.namespace, end.node.output.name, end.node.facet.freshness.max_age_hours, end.at)
        for end in ended
        if end.node.facet.freshness is not None and end.node.output is not None
    ]
    if rows:
        await context.conn.execute(Q.upsert_freshness, context.organization_id, *as_columns(rows, 4))


async def _store_alerts(context: Context, events: Sequence[Facts]) -> None:
    rows = {(facts.run_id, _alert_key(alert)): _alert_row(facts, alert) for facts in events for alert in facts.alerts}
    if rows:
        columns = as_columns([rows[key] for key in sorted(rows, key=str)], 11)
        await context.conn.execute(Q.insert_alerts, context.organization_id, *columns)


def _alert_row(facts: Facts, alert: AlertFacet) -> tuple[Any, ...]:
    names = facts.job if facts.pipeline is None else (facts.pipeline.facet.project, facts.pipeline.facet.pipeline)
    assert names is not None, "an event of a run names its job"
    return (
        facts.run_id, _alert_key(alert), *names, alert.node, alert.event, alert.channel, alert.outcome, alert.reason,
        alert.message, utc(alert.at),
    )  # fmt: skip


def _alert_key(alert: AlertFacet) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(alert), digest_size=16).digest()
