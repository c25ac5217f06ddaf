"""Anomalies that producers send with their runs: kept as they see them, and looked into like our own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from headgate.openlineage.anomalies import AnomalyTold, as_received
from headgate.openlineage.facts import Facts
from headgate.server.ingest.context import Context, Q, as_columns
from headgate.server.ingest.memory import NameKey
from headgate.server.queue import CORRELATE_PRIORITY, NewTask, content_hash


async def store_anomalies(context: Context, events: Sequence[Facts]) -> None:
    """Keep each once, whenever it was found; new ones have their cause looked for."""
    now = datetime.now(UTC)
    told = [(facts, as_received(anomaly, now)) for facts in events for anomaly in facts.anomalies]
    wanted: dict[NameKey, Any] = {anomaly.dataset[:2]: (anomaly.dataset, None, None) for _, anomaly in told}
    await context.resolve(wanted, min(facts.event_time for facts in events))
    rows = [_row(context, facts, anomaly) for facts, anomaly in told]
    found = await context.conn.fetch(Q.store_client_anomalies, context.organization_id, *as_columns(rows, 14))
    await context.follow_up([_follow_up(str(row[0])) for row in found])


def _row(context: Context, facts: Facts, anomaly: AnomalyTold) -> tuple[Any, ...]:
    job_name = None if facts.job is None else facts.job[1]
    return (
        context.ids.datasets[anomaly.dataset[:2]], context.job_id(facts), facts.run_id, anomaly.type,
        anomaly.severity.value, anomaly.detected_at, min(anomaly.detected_at, facts.event_time),
        _json(anomaly.expected), _json(anomaly.actual),
        anomaly.job_id, job_name, anomaly.message, _json(anomaly.metadata), anomaly.occasion,
    )  # fmt: skip


def _json(value: dict[str, Any] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _follow_up(anomaly_id: str) -> NewTask:
    payload = {"kind": "anomaly", "anomaly_id": anomaly_id}
    return NewTask("CORRELATE", "ANOMALY", anomaly_id, content_hash("anomaly", anomaly_id), payload, CORRELATE_PRIORITY)
