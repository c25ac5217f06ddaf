"""Calls about background work."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of

_BASE = "/api/v1/tasks"


def tasks(
    *,
    task_type: str | None = None,
    status: Sequence[str] = (),
    resource: str | None = None,
    resource_type: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Json]]:
    """Tasks, newest first; those about one resource, such as a run, by its id."""
    wanted: dict[str, Value] = {
        "type": task_type,
        "status": list(status) or None,
        "resource": resource,
        "resource_type": resource_type,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", _BASE, page_of(Json), params=query(wanted))


def task(task_id: int) -> Call[Json]:
    """One task with its attempts."""
    return Call("GET", f"{_BASE}/{segment(task_id)}", value_of(Json))


def task_stats() -> Call[Json]:
    """How much is waiting, at work and dead, by type."""
    return Call("GET", f"{_BASE}/stats", value_of(Json))


def retry_task(task_id: int) -> Call[Json]:
    """Have a task that is dead, failed or canceled done now."""
    return Call("POST", f"{_BASE}/{segment(task_id)}/retry", value_of(Json))


def cancel_task(task_id: int) -> Call[Json]:
    """Give a task up."""
    return Call("POST", f"{_BASE}/{segment(task_id)}/cancel", value_of(Json))


def retry_tasks(status: str = "DEAD", *, task_type: str | None = None) -> Call[Json]:
    """Have all dead or all failed tasks done now, of one type or of all."""
    body = msgspec.json.encode({"status": status, "task_type": task_type})
    return Call("POST", f"{_BASE}/retry", value_of(Json), body=body)


def task_batches(*, task_type: str | None = None, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Which tasks were done together, newest first."""
    wanted: dict[str, Value] = {"type": task_type, "limit": limit, "cursor": cursor}
    return Call("GET", "/api/v1/task-batches", page_of(Json), params=query(wanted))
