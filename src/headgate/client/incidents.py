"""Calls about incidents: what is wrong, why, whom it hits, and what people do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of

_BASE = "/api/v1/incidents"


def incidents(
    *,
    status: Sequence[str] = (),
    severity: str | None = None,
    kind: str | None = None,
    dataset: str | None = None,
    job: str | None = None,
    assignee: str | None = None,
    hours: int | None = None,
    orphan: bool | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Json]]:
    """Incidents, the newest first."""
    wanted: dict[str, Value] = {
        "status": list(status) or None,
        "severity": severity,
        "kind": kind,
        "dataset": dataset,
        "job": job,
        "assignee": assignee,
        "hours": hours,
        "orphan": orphan,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", _BASE, page_of(Json), params=query(wanted))


def incident(name: str | int) -> Call[Json]:
    """One incident with its symptoms, by number or id."""
    return Call("GET", _path(name), value_of(Json))


def incident_evidence(name: str | int) -> Call[Json]:
    """Why it came about, and what speaks for that."""
    return Call("GET", _path(name, "/evidence"), value_of(Json))


def incident_impact(name: str | int, *, depth: int = 10, limit: int = 200) -> Call[Json]:
    """What lies downstream of it."""
    return Call("GET", _path(name, "/impact"), value_of(Json), params=query({"depth": depth, "limit": limit}))


def incident_timeline(name: str | int, *, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """What happened to it, in order, and who did it."""
    wanted: dict[str, Value] = {"limit": limit, "cursor": cursor}
    return Call("GET", _path(name, "/timeline"), page_of(Json), params=query(wanted))


def incident_counts(*, hours: int = 168) -> Call[Json]:
    """How many there are, by status, severity and kind."""
    return Call("GET", f"{_BASE}/counts", value_of(Json), params=query({"hours": hours}))


def orphans(*, hours: int = 168, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Datasets whose tests failed and that no job is known to write."""
    wanted: dict[str, Value] = {"hours": hours, "limit": limit, "cursor": cursor}
    return Call("GET", f"{_BASE}/orphans", page_of(Json), params=query(wanted))


def correlation(*, hours: int = 168) -> Call[Json]:
    """Of how many datasets with failed tests the producer is known."""
    return Call("GET", f"{_BASE}/correlation", value_of(Json), params=query({"hours": hours}))


def set_incident_status(
    name: str | int, status: str, *, reason: str | None = None, until: str | None = None
) -> Call[Json]:
    """Acknowledge, resolve, mute or open it."""
    body = _body(status=status, reason=reason, until=until)
    return Call("PATCH", _path(name, "/status"), value_of(Json), body=body, repeatable=True)


def assign_incident(name: str | int, assignee: str | None) -> Call[Json]:
    """Give it to somebody; None to nobody."""
    body = msgspec.json.encode({"assignee": assignee})
    return Call("POST", _path(name, "/assign"), value_of(Json), body=body)


def note_incident(name: str | int, text: str) -> Call[Json]:
    """Add a note."""
    return Call("POST", _path(name, "/notes"), value_of(Json), body=_body(text=text))


def merge_incident(name: str | int, into: str | int, *, reason: str | None = None) -> Call[Json]:
    """Make its symptoms another's."""
    return Call("POST", _path(name, "/merge"), value_of(Json), body=_body(into=into, reason=reason))


def split_incident(name: str | int, symptoms: Sequence[str], *, reason: str | None = None) -> Call[Json]:
    """Make an incident of its own of some symptoms."""
    return Call("POST", _path(name, "/split"), value_of(Json), body=_body(symptoms=list(symptoms), reason=reason))


def set_incident_root(
    name: str | int, *, run: str | None = None, dataset: str | None = None, reason: str | None = None
) -> Call[Json]:
    """Say what the cause is: a run, or a dataset."""
    body = _body(run=run, dataset=dataset, reason=reason)
    return Call("POST", _path(name, "/root"), value_of(Json), body=body, repeatable=True)


def forget_incident_root(name: str | int, *, reason: str | None = None) -> Call[Json]:
    """Take back what somebody said is the cause, so that it is looked for again."""
    return Call("DELETE", _path(name, "/root"), value_of(Json), params=query({"reason": reason}), repeatable=True)


def _path(name: str | int, rest: str = "") -> str:
    return f"{_BASE}/{segment(str(name))}{rest}"


def _body(**fields: Any) -> bytes:
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})
