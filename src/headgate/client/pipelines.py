"""Calls about pipelines: their runs and nodes, the story of a run, and what is in quarantine."""

from __future__ import annotations

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of

_BASE = "/api/v1/pipelines"


def pipelines(*, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Pipelines by project and name, each with its latest run."""
    return Call("GET", _BASE, page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def pipeline(project: str, name: str) -> Call[Json]:
    """One pipeline: its nodes with their latest runs, and what it writes."""
    return Call("GET", _pipeline(project, name), value_of(Json))


def pipeline_runs(project: str, name: str, *, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Runs of a pipeline, the latest first."""
    wanted: dict[str, Value] = {"limit": limit, "cursor": cursor}
    return Call("GET", _pipeline(project, name, "/runs"), page_of(Json), params=query(wanted))


def pipeline_run(run_id: str) -> Call[Json]:
    """One run of a pipeline with the records of its nodes."""
    return Call("GET", f"/api/v1/pipeline-runs/{segment(run_id)}", value_of(Json))


def pipeline_story(run_id: str) -> Call[str]:
    """The story of a run as one HTML page."""
    return Call("GET", f"/api/v1/pipeline-runs/{segment(run_id)}/story", lambda response: response.text)


def node_history(
    project: str, name: str, node: str, *, limit: int = 100, cursor: str | None = None
) -> Call[Page[Json]]:
    """Published runs of a node, the latest first."""
    wanted: dict[str, Value] = {"limit": limit, "cursor": cursor}
    return Call("GET", _node(project, name, node, "/history"), page_of(Json), params=query(wanted))


def last_published(project: str, name: str, node: str) -> Call[Json]:
    """The last published run of a node, with its columns and watermark; NotFound if there is none."""
    return Call("GET", _node(project, name, node, "/last"), value_of(Json))


def quarantine_batches(
    *,
    project: str | None = None,
    pipeline: str | None = None,
    node: str | None = None,
    state: str | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Json]]:
    """Batches of rows that were set apart, the latest first."""
    wanted: dict[str, Value] = {
        "project": project,
        "pipeline": pipeline,
        "node": node,
        "state": state,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", "/api/v1/quarantine-batches", page_of(Json), params=query(wanted))


def _pipeline(project: str, name: str, rest: str = "") -> str:
    return f"{_BASE}/{segment(project)}/{segment(name)}{rest}"


def _node(project: str, name: str, node: str, rest: str) -> str:
    return _pipeline(project, name, f"/nodes/{segment(node)}{rest}")
