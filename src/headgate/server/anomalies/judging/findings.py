"""What was found out of the ordinary: kept once, and handed on to whoever looks for its cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import msgspec

from headgate.domain.anomaly import AnomalyType, Severity
from headgate.server.db.pool import Connection
from headgate.server.db.queries import Queries
from headgate.server.queue import CORRELATE_PRIORITY, NewTask, content_hash, enqueue

Q = Queries("headgate.server.anomalies.judging")


class Finding(NamedTuple):
    """An anomaly before it is kept. The occasion tells apart what one run, or none, may have several of."""

    dataset_id: UUID | None
    job_id: UUID | None
    run_id: UUID | None
    type: AnomalyType
    severity: Severity
    metric: str | None
    column: str | None
    partition_key: str
    observed_at: datetime
    expected: Mapping[str, Any] | None
    actual: Mapping[str, Any] | None
    score: float | None
    job_name: str | None
    description: str
    metadata: Mapping[str, Any] = {}
    occasion: str = ""

    @property
    def identity(self) -> tuple[object, ...]:
        parts = (self.dataset_id, self.run_id, self.type, self.column, self.partition_key, self.occasion)
        return tuple(str(part or "") for part in parts)


async def keep_findings(conn: Connection, organization_id: UUID, findings: Iterable[Finding]) -> list[UUID]:
    """Keep what was found and have its cause looked for; the ids of what is new."""
    # The same in the order of locks: two workers may find things of one dataset at the same time.
    first: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        first.setdefault(finding.identity, finding)
    rows = [_row(first[identity]) for identity in sorted(first, key=str)]
    if not rows:
        return []
    kept = await conn.fetch(Q.upsert_anomalies, organization_id, *map(list, zip(*rows, strict=True)))
    new = [row["id"] for row in kept if row["is_new"]]
    again = [row["id"] for row in kept if row["is_again"]]
    tasks = [*(correlation(anomaly_id) for anomaly_id in new), *(reopened(anomaly_id) for anomaly_id in again)]
    await enqueue(conn, organization_id, tasks)
    return new


def correlation(anomaly_id: UUID) -> NewTask:
    """The task that looks for the cause of an anomaly."""
    payload = {"kind": "anomaly", "anomaly_id": str(anomaly_id)}
    key = content_hash("anomaly", anomaly_id)
    return NewTask("CORRELATE", "ANOMALY", str(anomaly_id), key, payload=payload, priority=CORRELATE_PRIORITY)


def ended(anomaly_id: UUID, reason: str) -> NewTask:
    """The task that looks whether an incident is over with an anomaly that was resolved."""
    return _anew(anomaly_id, "ended", reason)


def reopened(anomaly_id: UUID) -> NewTask:
    """The task that looks into an anomaly once more which was closed and is open again."""
    return _anew(anomaly_id, "reopened")


def _anew(anomaly_id: UUID, *why: str) -> NewTask:
    payload = {"kind": "anomaly", "anomaly_id": str(anomaly_id)}
    key = content_hash(*why, anomaly_id, uuid4())
    return NewTask("CORRELATE", "ANOMALY", str(anomaly_id), key, payload=payload, priority=CORRELATE_PRIORITY)


def _row(finding: Finding) -> Sequence[Any]:
    return (
        finding.dataset_id, finding.job_id, finding.run_id, finding.type.value, finding.severity.value, finding.metric,
        finding.column, finding.partition_key, finding.observed_at, _json(finding.expected), _json(finding.actual),
        finding.score, finding.job_name, finding.description, _json(finding.metadata), finding.occasion,
    )  # fmt: skip


def _json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()
