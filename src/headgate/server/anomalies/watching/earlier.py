"""Anomalies that producers sent before anything was made of them: read from the log, some events a round.

They keep their times and have no cause looked for: what came of them is long over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from headgate.domain.names import DatasetName, canonical_dataset
from headgate.openlineage.anomalies import AnomaliesFacet, AnomalyTold, anomalies_of, as_received
from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.references.datasets import find_datasets

Q = Queries("headgate.server.anomalies.watching")

EVENTS: Final = 1000


class _Facets(Struct):
    headgate_anomalies: AnomaliesFacet | None = None


class _Run(Struct):
    facets: _Facets | None = None


class _Job(Struct):
    name: str


class _Event(Struct):
    run: _Run | None = None
    job: _Job | None = None


async def read_earlier(conn: Connection, organization_id: UUID) -> bool:
    """Read on in the log, if there is something left of it; whether there still is."""
    left = await conn.fetchrow(Q.get_earlier, organization_id)
    if left is None:
        return False
    events = await conn.fetch(Q.list_earlier_events, organization_id, left["read_until"], left["last_id"], EVENTS)
    rows = [row for event in events if event["raw"] for row in await _rows(conn, organization_id, event)]
    if rows:
        columns = [list(column) for column in zip(*rows, strict=True)]
        await conn.execute(Q.store_earlier_anomalies, organization_id, *columns)
    if len(events) < EVENTS:
        await conn.execute(Q.forget_earlier, organization_id)
        return False
    await conn.execute(Q.set_earlier, organization_id, events[-1]["id"])
    return True


async def _rows(conn: Connection, organization_id: UUID, event: Record) -> list[Sequence[Any]]:
    job, told = _read(event)
    found = []
    for anomaly in told:
        datasets = await find_datasets(conn, organization_id, anomaly.dataset.urn)
        if datasets:
            found.append(_row(event, job, datasets[0].id, as_received(anomaly, event["received_at"])))
    return found


def _read(event: Record) -> tuple[str | None, list[AnomalyTold]]:
    try:
        read = msgspec.json.decode(unpack(event["raw"]), type=_Event)
    except msgspec.MsgspecError:
        return None, []
    facets = read.run.facets if read.run else None
    facet = facets.headgate_anomalies if facets else None
    told = [] if facet is None else list(anomalies_of(facet, _named, event["event_time"]))
    return read.job.name if read.job else None, told


def _named(namespace: str, name: str) -> DatasetName:
    return canonical_dataset(namespace, name)


def _row(event: Record, job: str | None, dataset_id: UUID, anomaly: AnomalyTold) -> Sequence[Any]:
    return (
        dataset_id, event["job_id"], event["run_id"], anomaly.type, anomaly.severity.value, anomaly.detected_at,
        min(anomaly.detected_at, event["event_time"]), *_jsons(anomaly.expected, anomaly.actual), anomaly.job_id, job,
        anomaly.message, *_jsons(anomaly.metadata), anomaly.occasion,
    )  # fmt: skip


def _jsons(*values: dict[str, Any] | None) -> Iterator[str | None]:
    for value in values:
        yield None if value is None else msgspec.json.encode(value).decode()
