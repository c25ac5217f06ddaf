"""Rows of incidents as the shapes of the API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import msgspec

from headgate.domain.impact import owners_in
from headgate.domain.incident import Status
from headgate.domain.run import producer_name
from headgate.server.db.pool import Record
from headgate.server.incidents import schemas
from headgate.server.incidents.store import Impact
from headgate.server.shapes import DatasetRefOut, JobOut

SUGGESTIONS: Final = "/api/v1/aliases/suggestions"
_AS_IT_IS: Final = (
    *("id", "number", "title", "status", "severity", "kind", "test_name", "test_status", "run_id", "job_name"),
    *("job_started_at", "root_cause", "opened_at", "last_seen_at", "acknowledged_at", "acknowledged_by"),
    *("resolved_at", "resolved_by", "resolution", "muted_until", "reopened_at", "assignee", "is_orphan"),
    "merged_into",
)
_OF_SYMPTOMS: Final = (
    *("id", "type", "severity", "sentence", "run_id", "producing_run_id", "anomaly_id", "test_name", "test_status"),
    *("root_cause", "observed_at", "last_observed_at", "count", "cleared_at"),
)

_SENTENCES: Final[Mapping[str, str]] = {
    "opened": "opened: {symptom}",
    "symptom_joined": "{symptom} ({how}{times})",
    "symptom_repeated": "the same was seen {more}",
    "symptoms_left_out": "{left_out:,} more tests failed{on}, and are not listed",
    "symptom_moved": "a symptom is of another run",
    "symptom_cleared": "well again",
    "root_changed": "{actor} found another cause: {cause}",
    "assigned": "{actor} assigned it to {assignee}",
    "note": "{actor} noted: {text}",
    "muted": "{actor} muted it until {until}",
    "root_forgotten": "{actor} left the cause to headgate",
    "merged_into": "{actor} made it part of {other}",
    "merged_from": "{actor} made {other} part of it",
    "split_into": "{actor} made {other} of some of its symptoms",
    "split_from": "{actor} made it of symptoms of {other}",
}

# These say which symptom is meant, as long as it is there.
_OF_A_SYMPTOM: Final = frozenset({"symptom_repeated", "symptom_moved", "symptom_cleared"})
# For what a detail does not have.
_WITHOUT: Final = {"assignee": "nobody", "symptom": "", "how": "", "cause": "", "text": "", "until": "", "left_out": 0}

NEAREST = 5
_REF = set(DatasetRefOut.model_fields)


def incident_values(row: Record) -> dict[str, Any]:
    """The fields of an `IncidentOut`."""
    dataset = _dataset(row, "dataset")
    return {name: row[name] for name in _AS_IT_IS} | {
        "confidence": round(row["confidence"], 3),
        "dataset": dataset,
        "dataset_urn": dataset.urn if dataset else None,
        "column": row["column_name"],
        "job": _job(row, "job"),
        "producer_name": producer_name(row["producer"]) if row["producer"] else None,
        "cause": schemas.CauseOut(
            run_id=row["cause_run_id"],
            job=_job(row, "cause_job"),
            dataset=_dataset(row, "cause_dataset"),
            chosen_by=row["root_by"],
        ),
        "symptom_count": row["symptoms"],
        "open_symptom_count": row["open_symptoms"],
    }


def incident_out(row: Record) -> schemas.IncidentOut:
    return schemas.IncidentOut(**incident_values(row))


def detail_out(
    row: Record,
    symptoms: Sequence[Record],
    parents: Sequence[Record],
    impact: schemas.IncidentImpactOut,
    notes: Sequence[Record],
    namesakes: Sequence[Record],
) -> schemas.IncidentDetailOut:
    return schemas.IncidentDetailOut(
        **incident_values(row),
        symptoms=[symptom_out(each) for each in symptoms],
        parents=[schemas.ParentOut(**dict(each)) for each in parents],
        notes=[schemas.NoteOut(**dict(each)) for each in notes],
        namesakes=[DatasetRefOut(**_ref(each)) for each in namesakes],
        impact=schemas.ImpactSummaryOut(
            datasets=impact.totals["datasets"],
            jobs=impact.totals["jobs"],
            owners=impact.owners,
            nearest=[DatasetRefOut(**each.model_dump(include=_REF)) for each in impact.items[:NEAREST]],
            truncated=impact.truncated,
        ),
    )


def symptom_out(row: Record) -> schemas.SymptomOut:
    values = {name: row[name] for name in _OF_SYMPTOMS}
    return schemas.SymptomOut(
        **values, dataset=_dataset(row, "dataset"), column=row["column_name"], job=_job(row, "job")
    )


def evidence_out(row: Record, namesakes: Sequence[Record] = ()) -> schemas.IncidentEvidenceOut:
    told: Mapping[str, Any] = msgspec.json.decode(row["cause"])
    return schemas.IncidentEvidenceOut(
        root_cause=row["root_cause"],
        confidence=round(row["confidence"], 3),
        chosen_by=row["root_by"],
        chain=told.get("chain", []),
        cause=told.get("candidate"),
        evidence=told.get("evidence", []),
        explains=[{"dataset": None, "job": None} | each for each in told.get("explains", [])],
        rejected=[_rounded(each) for each in told.get("rejected", [])],
        rejected_count=told.get("rejected_count", 0),
        namesakes=[DatasetRefOut(**_ref(each)) for each in namesakes],
    )


def _rounded(rejected: Mapping[str, Any]) -> schemas.RejectedOut:
    return schemas.RejectedOut(**{**rejected, "score": round(rejected["score"], 3)})


def impact_out(impact: Impact, limit: int) -> schemas.IncidentImpactOut:
    """What is downstream of the roots, with the jobs that make it and all who own either."""
    made_by: dict[UUID, list[Record]] = {}
    for row in impact.writers:
        made_by.setdefault(row["dataset_id"], []).append(row)
    reached = [row for row in impact.rows if row["depth"] > 0][:limit]
    items = [_impacted(row, made_by.get(row["id"], []), row["id"] in impact.seen_on) for row in reached]
    jobs = {job.id: job for item in items for job in item.jobs}
    owners = sorted({owner for item in items for owner in item.owners})
    hidden = sum(row["hidden"] or 0 for row in impact.rows)
    return schemas.IncidentImpactOut(
        roots=impact.roots,
        items=items,
        jobs=sorted(jobs.values(), key=lambda job: (job.namespace, job.name)),
        owners=owners,
        totals={"datasets": len(items), "jobs": len(jobs), "owners": len(owners)},
        truncated=hidden > 0,
        hidden=hidden,
    )


def _impacted(row: Record, writers: Sequence[Record], has_symptom: bool) -> schemas.ImpactedOut:
    own = owners_in(_decoded(row["ownership"])) if row["owners"] is None else row["owners"]
    theirs = [owner for job in writers for owner in owners_in(_decoded(job["ownership"]))]
    return schemas.ImpactedOut(
        **_ref(row),
        depth=row["depth"],
        has_symptom=has_symptom,
        jobs=[JobOut(id=job["id"], namespace=job["namespace"], name=job["name"]) for job in writers],
        owners=list(dict.fromkeys([*own, *theirs])),
    )


def event_out(row: Record) -> schemas.EventOut:
    detail: dict[str, Any] = msgspec.json.decode(row["detail"])
    detail |= {name: row[name] for name in ("number", "symptom") if row[name] is not None}
    sentence = event_sentence(row["kind"], row["actor"], detail)
    return schemas.EventOut(
        id=row["id"], at=row["at"], actor=row["actor"], kind=row["kind"], sentence=sentence, detail=detail
    )


def event_sentence(kind: str, actor: str, detail: Mapping[str, Any]) -> str:
    """What happened, for people.

    >>> event_sentence("assigned", "ann", {"assignee": "bob"})
    'ann assigned it to bob'
    """
    told = {name: value for name, value in detail.items() if value is not None}
    because = f": {told['reason']}" if "reason" in told else ""
    if kind in _OF_A_SYMPTOM and "symptom" in told:
        because = f": {told['symptom']}" + (f" ({told['reason']})" if "reason" in told else "")
    values = _WITHOUT | told | _counted(told)
    return _SENTENCES.get(kind, f"{{actor}} {kind} it").format_map(values | {"actor": actor}) + because


def _counted(told: Mapping[str, Any]) -> dict[str, str]:
    """How often something happened, in words."""
    count = told.get("count", 1)
    return {
        "times": f", {count:,} times" if count > 1 else "",
        "more": f"{count:,} times more" if count > 1 else "once more",
        "on": f" on {told['dataset']}" if "dataset" in told else "",
        "other": f"#{told['number']}" if "number" in told else "another",
    }


def counts_out(rows: Sequence[Record], hours: int) -> schemas.CountsOut:
    by: dict[str, Counter[str]] = {name: Counter() for name in ("status", "severity", "kind")}
    orphans = 0
    for row in rows:
        by["status"][row["status"]] += row["incidents"]
        if row["status"] != Status.resolved:
            by["severity"][row["severity"]] += row["incidents"]
            by["kind"][row["kind"]] += row["incidents"]
            orphans += row["incidents"] if row["is_orphan"] else 0
    return schemas.CountsOut(
        hours=hours,
        **{status.value: by["status"][status] for status in Status},
        by_severity={severity: by["severity"][severity] for severity in ("CRITICAL", "WARNING", "INFO")},
        by_kind=dict(sorted(by["kind"].items())),
        orphans=orphans,
    )


def orphan_out(row: Record) -> schemas.OrphanOut:
    return schemas.OrphanOut(
        **_ref(row), failures=row["failures"], last_failed_at=row["last_observed_at"], incident=row["incident"]
    )


def correlation_out(failed: int, correlated: int, hours: int) -> schemas.CorrelationOut:
    return schemas.CorrelationOut(
        hours=hours,
        failed_datasets=failed,
        correlated_datasets=correlated,
        orphan_datasets=failed - correlated,
        correlation_rate=round(correlated / failed, 4) if failed else 1.0,
        suggestions=SUGGESTIONS,
    )


def _dataset(row: Record, prefix: str) -> DatasetRefOut | None:
    if row[f"{prefix}_name"] is None:
        return None
    values = {name: row[f"{prefix}_{name}"] for name in ("id", "namespace", "name", "display_name", "type")}
    return DatasetRefOut(**values, urn=f"{values['namespace']}/{values['name']}")


def _ref(row: Record) -> dict[str, Any]:
    values = {name: row[name] for name in ("id", "namespace", "name", "display_name", "type")}
    return values | {"urn": f"{row['namespace']}/{row['name']}"}


def _job(row: Record, prefix: str) -> JobOut | None:
    if row[f"{prefix}_name"] is None:
        return None
    return JobOut(id=row[f"{prefix}_id"], namespace=row[f"{prefix}_namespace"], name=row[f"{prefix}_name"])


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
