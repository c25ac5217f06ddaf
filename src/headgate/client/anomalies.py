"""Calls about anomalies: what was found, what people make of it, how series are judged, how fresh data is to be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from headgate.client.datasets import path
from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of

_BASE = "/api/v1/anomalies"
_POLICIES = "/api/v1/detection-policies"


def anomalies(
    limit: int = 100,
    cursor: str | None = None,
    *,
    dataset: str | None = None,
    type: str | list[str] | None = None,  # noqa: A002  # the name of the parameter on the wire
    severity: str | list[str] | None = None,
    status: str | list[str] | None = None,
    run: str | None = None,
    incident: str | None = None,
    job: str | None = None,
    column: str | None = None,
    source: str | None = None,
    hours: int | None = None,
    from_: datetime | str | None = None,
    to: datetime | str | None = None,
) -> Call[Page[Json]]:
    """What was found out of the ordinary, the latest first."""
    wanted: dict[str, Value] = {
        "limit": limit,
        "cursor": cursor,
        "dataset": dataset,
        "type": type,
        "severity": severity,
        "status": status,
        "run": run,
        "incident": incident,
        "job": job,
        "column": column,
        "source": source,
        "hours": hours,
        "from": from_,
        "to": to,
    }
    return Call("GET", _BASE, page_of(Json), params=query(wanted))


def anomaly(anomaly_id: str) -> Call[Json]:
    """One anomaly, with who changed its status and when."""
    return Call("GET", f"{_BASE}/{segment(anomaly_id)}", value_of(Json))


def change_anomaly(
    anomaly_id: str, *, status: str | None = None, notes: str | None = None, expect: Json | None = None
) -> Call[Json]:
    """Set the status with notes; `expect` is `{"kind": "once" | "weekday"}` or `{"kind": "until", "until": time}`.

    With `"all_metrics": True` it is of all that is measured of the same data.
    """
    body = _given({"status": status, "notes": notes, "expect": expect})
    return Call("PATCH", f"{_BASE}/{segment(anomaly_id)}", value_of(Json), body=body)


def anomaly_summary(*, days: int | None = None, hours: int | None = None) -> Call[Json]:
    """How many anomalies were found over the last days or hours, by type, severity, status and day."""
    return Call("GET", f"{_BASE}/stats/summary", value_of(Json), params=query({"days": days, "hours": hours}))


def freshness(name: str) -> Call[Json]:
    """How old a dataset may become, and by when it should be written next."""
    return Call("GET", path(name, "/freshness-sla"), value_of(Json))


def set_freshness(name: str, sla_hours: float) -> Call[Json]:
    """Set how old a dataset may become."""
    body = msgspec.json.encode({"sla_hours": sla_hours})
    return Call("PUT", path(name, "/freshness-sla"), value_of(Json), body=body, repeatable=True)


def remove_freshness(name: str) -> Call[None]:
    """Let the rhythm of its writes say when a dataset is late."""
    return Call("DELETE", path(name, "/freshness-sla"), lambda _: None, repeatable=True)


def detection_policies(*, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """How series are judged where that is not the default."""
    return Call("GET", _POLICIES, page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def add_detection_policy(dataset: str, *, metric: str | None = None, **settings: Any) -> Call[Json]:
    """Set how a metric is judged for a dataset, for names that begin alike (`sales_*`) or for all (`*`)."""
    return Call("POST", _POLICIES, value_of(Json), body=_policy(dataset, metric, settings))


def change_detection_policy(policy_id: str, dataset: str, *, metric: str | None = None, **settings: Any) -> Call[Json]:
    """Put a policy in the place of another."""
    body = _policy(dataset, metric, settings)
    return Call("PUT", f"{_POLICIES}/{segment(policy_id)}", value_of(Json), body=body, repeatable=True)


def remove_detection_policy(policy_id: str) -> Call[None]:
    """Remove a policy."""
    return Call("DELETE", f"{_POLICIES}/{segment(policy_id)}", lambda _: None)


def detection_policy(name: str) -> Call[Json]:
    """How each metric of a dataset is judged, and which policy says so."""
    return Call("GET", path(name, "/detection-policy"), value_of(Json))


def expected(name: str, *, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """What people expect of a dataset."""
    return Call("GET", path(name, "/expected"), page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def expect(name: str, kind: str, **mark: Any) -> Call[Json]:
    """Say what to expect of a dataset: `once` with `at`, `weekday` with `weekday`, or `until` with `until`."""
    return Call("POST", path(name, "/expected"), value_of(Json), body=_given({"kind": kind, **mark}))


def unexpect(name: str, mark_id: str) -> Call[None]:
    """Take back what was expected."""
    return Call("DELETE", path(name, f"/expected/{segment(mark_id)}"), lambda _: None)


def _given(values: Json) -> bytes:
    return msgspec.json.encode({name: value for name, value in values.items() if value is not None})


def _policy(dataset: str, metric: str | None, settings: Json) -> bytes:
    return _given({"dataset": dataset, "metric": metric, **settings})
