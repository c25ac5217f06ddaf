"""Calls about runs and jobs."""

from __future__ import annotations

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of


def runs(
    limit: int = 100,
    cursor: str | None = None,
    *,
    state: str | None = None,
    job_name: str | None = None,
    application_id: str | None = None,
    hours: int | None = None,
    stuck: bool | None = None,
) -> Call[Page[Json]]:
    """Runs, newest first; pass `next_cursor` of one page as `cursor` to get the next."""
    wanted: dict[str, Value] = {
        "limit": limit,
        "cursor": cursor,
        "state": state,
        "job_name": job_name,
        "application_id": application_id,
        "hours": hours,
        "stuck": stuck,
    }
    return Call("GET", "/api/v1/runs", page_of(Json), params=query(wanted))


def run(run_id: str) -> Call[Json]:
    """One run with its state; NotFound if the organisation has none of this id."""
    return Call("GET", _run(run_id), value_of(Json))


def run_stages(run_id: str) -> Call[Json]:
    """What the Spark stages of a run cost."""
    return Call("GET", _run(run_id, "/stages"), value_of(Json))


def run_lineage(run_id: str) -> Call[Json]:
    """What exactly a run read and wrote, and which runs had written what it read."""
    return Call("GET", _run(run_id, "/lineage"), value_of(Json))


def run_events(run_id: str, *, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """The events of a run as they came."""
    return Call("GET", _run(run_id, "/events"), page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def jobs(
    *, text: str | None = None, namespace: str | None = None, limit: int = 100, cursor: str | None = None
) -> Call[Page[Json]]:
    """Jobs by name, each with its latest run."""
    wanted: dict[str, Value] = {"text": text, "namespace": namespace, "limit": limit, "cursor": cursor}
    return Call("GET", "/api/v1/jobs", page_of(Json), params=query(wanted))


def job(name: str) -> Call[Json]:
    """One job, by id, `namespace/name`, name, or the id of a run or application of it."""
    return Call("GET", f"/api/v1/jobs/{segment(name)}", value_of(Json))


def job_runs(name: str, *, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Runs of a job, newest first."""
    wanted: dict[str, Value] = {"limit": limit, "cursor": cursor}
    return Call("GET", f"/api/v1/jobs/{segment(name)}/runs", page_of(Json), params=query(wanted))


def job_summary(*, hours: int | None = None) -> Call[Json]:
    """How the jobs of the organisation have been doing."""
    return Call("GET", "/api/v1/jobs/stats/summary", value_of(Json), params=query({"hours": hours}))


def _run(run_id: str, rest: str = "") -> str:
    return f"/api/v1/runs/{segment(run_id)}{rest}"
