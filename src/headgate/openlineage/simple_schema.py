"""The simple schema form: one dataset event for each schema in the payload."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headgate.domain.partitions import DEFAULT_PATTERNS, Patterns
from headgate.openlineage.simple_body import Body, Column, Schemas, Snapshot, name_fits, read
from headgate.openlineage.simple_events import Dataset, Translated, dataset_of, event, facet, run_id


def translate_schema(
    body: bytes, *, default_namespace: str, received_at: datetime, patterns: Patterns = DEFAULT_PATTERNS
) -> Translated:
    """Dataset events for a body of `POST /api/v1/ingest/schema`."""
    original, payload = read(body, Schemas)
    datasets = [
        dataset_of(snapshot.dataset_name, default_namespace=default_namespace, patterns=patterns)
        for snapshot in payload.schemas
    ]
    _refuse_long_names(original, payload, datasets)
    run = run_id(
        payload.job_id,
        payload.application_id,
        payload.started_at,
        payload.timestamp,
        payload.ended_at,
        received_at,
    )
    for place, (snapshot, dataset) in enumerate(zip(payload.schemas, datasets, strict=True)):
        dataset.facets |= _facets(payload, snapshot, run) | _kept(original, place)
    at = payload.timestamp or received_at
    return Translated(
        events=[event("DatasetEvent", at, dataset=dataset.rendered()) for dataset in datasets],
        job_id=payload.job_id,
        datasets=len({dataset.key for dataset in datasets}),
        edges=0,
        notes=[] if datasets else ["the payload holds no schemas, so nothing is stored"],
    )


def _refuse_long_names(original: Body, payload: Schemas, datasets: list[Dataset]) -> None:
    pairs = zip(payload.schemas, datasets, strict=True)
    original.refuse_long(snapshot.dataset_name for snapshot, found in pairs if not name_fits(*found.spelled))


def _facets(payload: Schemas, snapshot: Snapshot, run: str) -> dict[str, Any]:
    return {
        "schema": facet("schema", fields=[_field(column) for column in snapshot.fields]),
        "headgate_origin": facet("headgate_origin", jobId=payload.job_id, runId=run, clientHash=snapshot.version_hash),
    }


def _field(column: Column) -> dict[str, Any]:
    field: dict[str, Any] = {"name": column.name, "type": column.data_type}
    if column.description:
        field["description"] = column.description
    return field | {"nullable": column.nullable is not False}


def _kept(original: Body, place: int) -> dict[str, Any]:
    """The payload as sent with this event's schema alone; the others are in their own events."""
    payload = original.sent | {"schemas": [original.sent["schemas"][place]]}
    return {"headgate_simple": facet("headgate_simple", form="schema", payload=payload)}
