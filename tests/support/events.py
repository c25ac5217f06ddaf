"""Builders of OpenLineage events that state only what matters to a test."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

PRODUCER = "https://example.org/headgate-tests/1.0"
SCHEMA_URL = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
T0 = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)

Json = dict[str, Any]


def at(seconds: float = 0) -> str:
    return (T0 + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def a_run_id() -> str:
    return str(uuid.uuid4())


def a_facet(**body: Any) -> Json:
    return {"_producer": PRODUCER, "_schemaURL": "https://example.org/facet.json", **body}


def a_dataset(name: str, namespace: str = "postgres://db:5432", **parts: Json) -> Json:
    return {"namespace": namespace, "name": name, **parts}


def with_schema(*columns: str | tuple[str, str] | tuple[str, str, bool]) -> Json:
    """A schema facet; a column is a name, or a name and type, or with nullability too."""
    fields = []
    for column in columns:
        name, type_, *rest = (column, "string") if isinstance(column, str) else column
        fields.append({"name": name, "type": type_, **({"nullable": rest[0]} if rest else {})})
    return {"schema": a_facet(fields=fields)}


def an_event(
    event_type: str | None = "COMPLETE",
    *,
    run: str | None = None,
    job: str = "orders",
    namespace: str = "tests",
    time: str | None = None,
    inputs: list[Json] | None = None,
    outputs: list[Json] | None = None,
    run_facets: Json | None = None,
    job_facets: Json | None = None,
) -> Json:
    event: Json = {
        "eventTime": time or at(),
        "producer": PRODUCER,
        "schemaURL": SCHEMA_URL,
        "run": {"runId": run or a_run_id(), "facets": run_facets or {}},
        "job": {"namespace": namespace, "name": job, "facets": job_facets or {}},
        "inputs": inputs or [],
        "outputs": outputs or [],
    }
    if event_type is not None:
        event["eventType"] = event_type
    return event
