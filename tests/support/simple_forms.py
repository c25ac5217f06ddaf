"""Payloads of the simple JSON forms, their translations, and a strict reading of the events that result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from headgate.errors import InvalidFields
from headgate.openlineage.events import facet_maps
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.simple import Translated, translate_metadata, translate_schema
from headgate.openlineage.validate import STRICT, check_event

RECEIVED = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
FORMS = pytest.mark.parametrize("translate", [translate_metadata, translate_schema], ids=["metadata", "schema"])
EVENT_TYPES = {"START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"}

ORDERS = {
    "name": "lake:orders",
    "type": "File",
    "location": "s3a://lake/gold/orders/country=DE/dt=2026-05-01",
}
ORDERS_ID = ("s3://lake", "gold/orders/country=DE/dt=2026-05-01")
CUSTOMERS = {"name": "crm.customers", "type": "Table"}
CUSTOMERS_ID = ("house", "crm.customers")


def as_body(payload: object) -> bytes:
    return json.dumps(payload).encode()


def metadata(received_at: datetime = RECEIVED, **fields: Any) -> Translated:
    payload = {"job_id": "app-7", **fields}
    return checked(translate_metadata(as_body(payload), default_namespace="house", received_at=received_at))


def schema(received_at: datetime = RECEIVED, **fields: Any) -> Translated:
    payload = {"job_id": "capture-1", **fields}
    return checked(translate_schema(as_body(payload), default_namespace="house", received_at=received_at))


def events_of(translated: Translated) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in translated.events]


def run_event(**fields: Any) -> dict[str, Any]:
    """The event that says how the run stands."""
    return next(e for e in events_of(metadata(**fields)) if "run" in e and e["eventType"] != "START")


def ids(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(dataset["namespace"], dataset["name"]) for dataset in datasets]


def edges_of(event: dict[str, Any]) -> set[tuple[str, str]]:
    entries = event["job"]["facets"]["lineage"]["entries"]
    return {(source["name"], entry["name"]) for entry in entries for source in entry["inputs"]}


def bare(facet: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facet.items() if name not in ("_producer", "_schemaURL")}


def refusals(translate: Callable[..., Translated], payload: object) -> dict[str, tuple[str, str | None]]:
    with pytest.raises(InvalidFields) as refused:
        translate(as_body(payload), default_namespace="house", received_at=RECEIVED)
    errors = refused.value.errors
    assert len({error.path for error in errors}) == len(errors)
    return {error.path: (error.message, error.value) for error in errors}


def checked(translated: Translated) -> Translated:
    reader = FacetReader()
    for raw in translated.events:
        assert_openlineage(json.loads(raw))
        for facets in facet_maps(check_event(raw, STRICT, reader).event):
            assert not [name for name, facet in facets.items() if facet.invalid]
    return translated


def assert_openlineage(event: dict[str, Any]) -> None:
    """What the core schema 2-0-2 asks of an event, and a little more."""
    kind = event["schemaURL"].rpartition("/")[2]
    allowed = {
        "RunEvent": {"eventType", "run", "job", "inputs", "outputs"},
        "JobEvent": {"job", "inputs", "outputs"},
        "DatasetEvent": {"dataset"},
    }[kind]
    assert set(event) - {"eventTime", "producer", "schemaURL"} <= allowed
    assert event["schemaURL"] == f"https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/{kind}"
    assert event["producer"].startswith("https://github.com/headgate/headgate/")
    assert event["eventTime"].endswith("Z")
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    if kind == "RunEvent":
        assert event["eventType"] in EVENT_TYPES
        assert str(UUID(event["run"]["runId"])) == event["run"]["runId"]
    for named in named_parts(event):
        assert named["namespace"].strip()
        assert named["name"].strip()
    for name, facet in facets_in(event):
        assert facet["_producer"] == event["producer"]
        assert facet["_schemaURL"].startswith(
            "https://headgate.dev/spec/facets/1-0-0/"
            if name.startswith("headgate_")
            else "https://openlineage.io/spec/facets/"
        )
        assert None not in facet.values()


def named_parts(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (event[part] for part in ("job", "dataset") if part in event)
    yield from event.get("inputs", [])
    yield from event.get("outputs", [])


def facets_in(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    owners = [*named_parts(event), *([event["run"]] if "run" in event else [])]
    for owner in owners:
        for group in ("facets", "inputFacets", "outputFacets"):
            yield from owner.get(group, {}).items()


def run_id_of(**fields: Any) -> str:
    return str(run_event(**fields)["run"]["runId"])


def columns(*kinds: str | None, **fields: Any) -> list[dict[str, Any]]:
    names = {"source_table": "s", "source_column": "a", "target_table": "t", "target_column": "b"}
    return [{**names, "transformation_type": kind, **fields} for kind in kinds]


def anomaly(**fields: Any) -> dict[str, Any]:
    required = {
        "dataset_name": "x",
        "anomaly_type": "ROW_COUNT_DROP",
        "current_value": 1,
        "expected_value": 10.5,
        "threshold": 3.0,
        "message": "too few rows",
    }
    return required | fields
