"""Calls about the log of events and the producers behind it."""

from __future__ import annotations

from datetime import datetime

from headgate.client.http import Call
from headgate.client.paths import Value, query
from headgate.client.shapes import Json, Page, page_of, value_of


def events(
    *,
    from_: datetime | str | None = None,
    to: datetime | str | None = None,
    producer: str | None = None,
    outcome: str | None = None,
    raw: bool | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Json]]:
    """Events as they came, newest first."""
    wanted: dict[str, Value] = {
        "from": from_,
        "to": to,
        "producer": producer,
        "outcome": outcome,
        "raw": raw,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", "/api/v1/events", page_of(Json), params=query(wanted))


def ingest_stats(*, hours: int | None = None) -> Call[Json]:
    """Events by hour, the last of each producer, and what was refused."""
    return Call("GET", "/api/v1/stats/ingest", value_of(Json), params=query({"hours": hours}))


def conformance(*, days: int | None = None) -> Call[Json]:
    """How well each producer keeps to the OpenLineage standard."""
    return Call("GET", "/api/v1/conformance", value_of(Json), params=query({"days": days}))
