"""The simple metadata form: one run of a job as OpenLineage events, with the payload kept in full.

Decides jobs, runs and times; what the names in a payload mean is for `simple_datasets`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from headgate.domain.partitions import DEFAULT_PATTERNS, Patterns
from headgate.openlineage.simple_body import Body, Edge, Metadata, Status, name_fits, read
from headgate.openlineage.simple_datasets import Draft, NameBook
from headgate.openlineage.simple_events import Translated, event, facet, job, run_id, spelled, utc


def translate_metadata(
    body: bytes, *, default_namespace: str, received_at: datetime, patterns: Patterns = DEFAULT_PATTERNS
) -> Translated:
    """Run events for a body of `POST /api/v1/ingest/metadata`, and a job event for each other job in it."""
    original, payload = read(body, Metadata)
    book = NameBook(payload.inputs or (), payload.outputs or (), default_namespace, patterns)
    drafts = _drafts(payload, book)
    facets = _run_facets(payload) | _anomalies(original, payload, book)
    facets["headgate_simple"] = facet("headgate_simple", form="metadata", payload=original.sent)
    long_jobs = (name for name in drafts if not name_fits(default_namespace, name))
    original.refuse_long([*book.too_long, *long_jobs])

    at = payload.ended_at or payload.timestamp or received_at
    run = {"runId": _run_id(payload, received_at), "facets": facets}
    return Translated(
        events=list(_events(payload, drafts, at, run, default_namespace)),
        job_id=payload.job_id,
        datasets=len(set().union(*(draft.keys() for draft in drafts.values()))),
        edges=sum(draft.edge_count() for draft in drafts.values()),
        notes=[*_time_notes(payload, at), *(note for draft in drafts.values() for note in draft.notes)],
    )


def _events(
    payload: Metadata, drafts: dict[str, Draft], at: datetime, run: dict[str, Any], namespace: str
) -> Iterator[bytes]:
    name, *others = drafts
    status = payload.status or Status.COMPLETE
    if payload.started_at:
        # No facts yet: each payload of a run then gives the same start event, which is stored once.
        start = {"runId": run["runId"]}
        yield event("RunEvent", payload.started_at, eventType="START", run=start, job=job(namespace, name))
    mine, io = job(namespace, name, **drafts[name].job_facets()), drafts[name].rendered()
    yield event("RunEvent", at, eventType=status.value, run=run, job=mine, **io)
    for other in (each for each in others if drafts[each].edge_count()):
        theirs = job(namespace, other, **drafts[other].job_facets())
        yield event("JobEvent", at, job=theirs, **drafts[other].rendered())


def _drafts(payload: Metadata, book: NameBook) -> dict[str, Draft]:
    """What each job of the payload does, by name; the first is the job whose run it reports."""
    name = _given(payload.job_name) or payload.job_id
    edges = _edges_by_job(payload, name)
    drafts = {job_name: Draft(book) for job_name in edges}
    mine = drafts[name]
    mine.declare(payload.inputs or (), payload.outputs or ())
    for job_name, draft in drafts.items():
        if payload.lineage_edges or edges[job_name]:
            draft.connect(edges[job_name])
    mine.trace(payload.column_lineage or ())
    mine.drop_self_reads()
    mine.measure(payload.metrics or {})
    return drafts


def _edges_by_job(payload: Metadata, name: str) -> dict[str, list[Edge]]:
    edges: dict[str, list[Edge]] = {name: []}
    for edge in payload.lineage_edges or ():
        same_run = not _given(edge.job_name) and edge.job_id == payload.job_id
        owner = name if same_run else _given(edge.job_name) or _given(edge.job_id) or name
        edges.setdefault(owner, []).append(edge)
    if not (payload.lineage_edges or payload.inputs or payload.outputs):
        # Column lineage alone says which table feeds which; pairing all of them would invent edges.
        tables = [(pair.source_table, pair.target_table) for pair in payload.column_lineage or ()]
        edges[name] = [Edge(*pair) for pair in dict.fromkeys(tables)]
    return edges


def _run_id(payload: Metadata, received_at: datetime) -> str:
    moments = (payload.started_at, payload.timestamp, payload.ended_at, received_at)
    return run_id(payload.job_id, payload.application_id, *moments)


def _run_facets(payload: Metadata) -> dict[str, Any]:
    facets: dict[str, Any] = {}
    if payload.status in (Status.FAIL, Status.ABORT) and payload.error_message:
        facets["errorMessage"] = facet("errorMessage", message=payload.error_message, programmingLanguage="JAVA")
    execution = {
        "executorMemoryMb": payload.executor_memory_mb,
        "executorCores": payload.executor_cores,
        "applicationId": _given(payload.application_id),
    }
    if payload.execution_metrics or any(value is not None for value in execution.values()):
        metrics = payload.execution_metrics or {}
        facets["headgate_execution"] = facet("headgate_execution", metrics=metrics, **execution)
    if payload.partition_key or payload.partition_context:
        facets["headgate_partition"] = facet(
            "headgate_partition", key=payload.partition_key, context=payload.partition_context
        )
    return facets


def _anomalies(original: Body, payload: Metadata, book: NameBook) -> dict[str, Any]:
    """Anomalies as sent, each with the dataset that its name stands for in this payload."""
    if not payload.anomalies:
        return {}
    sent = original.sent["anomalies"]
    anomalies = [
        fields
        | {
            "severity": anomaly.severity or "MEDIUM",
            "dataset": book.target(anomaly.dataset_name).identifier(),
        }
        for fields, anomaly in zip(sent, payload.anomalies, strict=True)
    ]
    return {"headgate_anomalies": facet("headgate_anomalies", anomalies=anomalies, job_id=payload.job_id)}


def _time_notes(payload: Metadata, at: datetime) -> Iterator[str]:
    if payload.started_at and utc(at) < payload.started_at:
        yield f"the job ends at {spelled(at)}, before its start at {spelled(payload.started_at)}"


def _given(text: str | None) -> str | None:
    return text if text and text.strip() else None
