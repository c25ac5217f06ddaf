"""Reads what a task is to tell of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from headgate.pipelines.alerts.events import Alert
from headgate.server.alerts.occasions import DatasetFacts, Occasion, of_anomaly, of_news, of_pipeline, of_symptom
from headgate.server.alerts.store import AlertStore, plain
from headgate.server.queue import Task


async def occasion_of(store: AlertStore, task: Task, now: datetime, *, was_held: bool) -> Occasion | None:
    """What there is to tell, or None if there is nothing any more: it is gone, or over since it was held."""
    if task.resource_type == "PIPELINE_EVENT":
        return await _of_pipeline(store, task.payload)
    if task.resource_type == "SYMPTOM":
        row = await store.symptom(UUID(task.payload["symptom_id"]))
    elif task.resource_type == "ANOMALY":
        return await _of_anomaly(store, UUID(task.payload["anomaly_id"]), was_held=was_held)
    else:
        row = await store.incident(UUID(task.payload["incident_id"]), task.payload["event"])
    if row is None:
        return None
    if was_held and _is_over(row, task.payload.get("event")):
        return None
    dataset = await _dataset(store, row["dataset_id"])
    is_symptom = task.resource_type == "SYMPTOM"
    found = of_symptom(plain(row), dataset) if is_symptom else of_news(plain(row), task.payload["event"], dataset)
    # An incident that ended while it was muted is not muted any more, and still nobody wants to hear of that.
    return replace(found, is_muted=bool(task.payload.get("is_muted")) or _is_muted(row, now))


async def _of_anomaly(store: AlertStore, anomaly_id: UUID, *, was_held: bool) -> Occasion | None:
    row = await store.anomaly(anomaly_id)
    if row is None or (was_held and row["is_over"]):
        return None
    return of_anomaly(plain(row), await _dataset(store, row["dataset_id"]))


def _is_over(row: Mapping[str, Any], event: str | None) -> bool:
    """Whether it is not so any more; that an incident is resolved is news as long as it is."""
    is_resolved = row["incident_status"] == "resolved"
    return not is_resolved if event == "IncidentResolved" else is_resolved or row.get("cleared_at") is not None


def _is_muted(row: Mapping[str, Any], now: datetime) -> bool:
    return row["incident_status"] == "muted" and (row["muted_until"] is None or row["muted_until"] > now)


async def _dataset(store: AlertStore, dataset_id: UUID | None) -> DatasetFacts | None:
    return None if dataset_id is None else (await store.datasets([dataset_id])).get(dataset_id)


async def _of_pipeline(store: AlertStore, payload: Mapping[str, Any]) -> Occasion:
    alert = msgspec.convert(payload, Alert)
    named = payload.get("dataset")
    dataset = await store.dataset_called(named["urn"]) if named else None
    return of_pipeline(alert, UUID(alert.run_id), dataset)
