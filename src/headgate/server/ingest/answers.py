"""The bodies that ingest answers with: one event, an array in two shapes, the sink form, the simple forms."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from headgate.errors import HeadgateError
from headgate.openlineage.facts import Facts
from headgate.openlineage.simple import Translated
from headgate.server.auth import Principal
from headgate.server.ingest.service import Result
from headgate.server.problems import status_of

_SINK_TYPES = {"run": "RUN_EVENT", "dataset": "DATASET_EVENT", "job": "JOB_EVENT"}


def single(outcome: str, facts: Facts, correlation_id: str) -> tuple[int, dict[str, Any]]:
    body = {
        "status": outcome,
        "kind": facts.kind,
        "run_id": facts.run_id if facts.kind == "run" else None,
        "correlation_id": correlation_id,
    }
    return (201 if outcome == "stored" else 200), body


def sink(outcome: str, facts: Facts, principal: Principal) -> tuple[int, dict[str, Any]]:
    body = {
        "status": "accepted" if outcome == "stored" else "duplicate",
        "eventType": _SINK_TYPES[facts.kind],
        "runId": facts.run_id if facts.kind == "run" else None,
        "tenantId": principal.tenant_id,
    }
    return (201 if outcome == "stored" else 200), body


def batch(results: Sequence[Result], correlation_id: str) -> tuple[int, dict[str, Any]]:
    """200 all stored or duplicate, 207 some refused, 422 all refused; 503 when only the database was in the way."""
    failed = [(result, error) for result in results if (error := result.error) is not None]
    retriable = sum(1 for _, error in failed if error.retryable)
    status, word = _status([error for _, error in failed], len(results))
    body = {
        "status": word,
        "summary": {
            "received": len(results),
            "successful": len(results) - len(failed),
            "failed": len(failed),
            "retriable": retriable,
            "non_retriable": len(failed) - retriable,
            "duplicates": sum(1 for result in results if result.outcome == "duplicate"),
        },
        "failed_events": [
            {"index": result.index, "reason": reason(error), "retriable": error.retryable} for result, error in failed
        ],
        "correlation_id": correlation_id,
        "timestamp": _now(),
    }
    return status, body


def events(results: Sequence[Result], correlation_id: str) -> tuple[int, dict[str, Any]]:
    failed = [error for result in results if (error := result.error) is not None]
    status, _ = _status(failed, len(results))
    body = {
        "correlation_id": correlation_id,
        "timestamp": _now(),
        "stored": sum(1 for result in results if result.outcome == "stored"),
        "duplicates": sum(1 for result in results if result.outcome == "duplicate"),
        "failed": len(failed),
        "results": [_event(result) for result in results],
    }
    return status, body


def simple(translated: Translated, results: Sequence[Result]) -> tuple[int, dict[str, Any]]:
    refused = [f"refused: {reason(result.error)}" for result in results if result.error is not None]
    stored = len(results) - len(refused)
    remarks = "; ".join([*translated.notes, *refused])
    known = "known already" if results and all(result.outcome == "duplicate" for result in results) else "stored"
    body = {
        "status": "accepted",
        "job_id": translated.job_id,
        "message": f"{known} as {_count(stored, 'event')}" + (f" ({remarks})" if remarks else ""),
        "datasets_processed": translated.datasets,
        "edges_created": translated.edges,
    }
    return 202, body


def reason(error: HeadgateError) -> str:
    """Why, in one line; every wrong field is named."""
    fields = getattr(error, "errors", None)
    if not fields:
        return error.message
    shown = "; ".join(f"{field.path}: {field.message}" for field in fields[:20])
    return shown + (f"; and {len(fields) - 20} more" if len(fields) > 20 else "")


def _event(result: Result) -> dict[str, Any]:
    if result.error is not None:
        return {"index": result.index, "status": status_of(result.error), "error": reason(result.error)}
    return {"index": result.index, "status": 200, "message": result.outcome}


def _status(failed: Sequence[HeadgateError], received: int) -> tuple[int, str]:
    if not failed:
        return 200, "success"
    if len(failed) < received:
        return 207, "partial_success"
    # Official clients retry a 503 and do not retry a 422.
    return (503 if all(error.retryable for error in failed) else 422), "error"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
