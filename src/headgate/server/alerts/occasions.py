"""What there is to tell: a symptom, news of an incident or an event of a pipeline, with all that messages say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from headgate.pipelines.alerts.events import Alert
from headgate.server.alerts.rules import About, Source


class DatasetFacts(NamedTuple):
    """A dataset as rules and messages see it."""

    id: UUID
    namespace: str
    name: str
    display_name: str
    type: str | None
    owners: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def urn(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that a rule may mean it by; the last part of a path or of a dotted name is one."""
        last = self.name.rstrip("/").rpartition("/")[2]
        return tuple(dict.fromkeys((self.name, self.display_name, self.urn, last, last.rpartition(".")[2])))


class IncidentFacts(NamedTuple):
    id: UUID
    number: int
    title: str
    status: str
    root_cause: str | None
    confidence: float
    evidence: tuple[str, ...]


class AnomalyFacts(NamedTuple):
    id: UUID
    metric: str | None
    partition_key: str
    expected: Any
    actual: Any
    score: float | None


class Reach(NamedTuple):
    """Datasets downstream: how many, whether there are more, and the nearest of them."""

    total: int
    is_more: bool
    names: tuple[str, ...]


class Curve(NamedTuple):
    """How the metric went, the oldest first."""

    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Occasion:
    """One thing to tell. `subject` is what the same type is not told of again for a while."""

    source: Source
    type: str
    severity: str
    subject: str
    sentence: str
    at: datetime
    dataset: DatasetFacts | None = None
    incident: IncidentFacts | None = None
    anomaly: AnomalyFacts | None = None
    symptom_id: UUID | None = None
    run_id: UUID | None = None
    job: tuple[str, str] | None = None
    column: str | None = None
    test_name: str | None = None
    pipeline: tuple[str, str] | None = None
    alert: Alert | None = None
    reach: Reach | None = None
    curve: Curve | None = None

    @property
    def about(self) -> About:
        found = self.dataset
        if found is None:
            return About(self.source, self.type, self.severity)
        return About(self.source, self.type, self.severity, found.names, found.owners, found.tags)

    @property
    def name(self) -> str:
        """What it is about, in a few words."""
        if self.dataset is not None:
            return self.dataset.display_name
        if self.pipeline is not None:
            return "/".join(self.pipeline)
        return self.job[1] if self.job else self.subject

    def with_details(self, reach: Reach | None, curve: Curve | None) -> Occasion:
        return replace(self, reach=reach, curve=curve)


def of_symptom(row: Mapping[str, Any], dataset: DatasetFacts | None) -> Occasion:
    """A symptom with its incident."""
    return Occasion(
        source=Source.symptom,
        type=row["type"],
        severity=row["severity"],
        subject=str(row["dataset_id"] or row["job_id"] or row["symptom_id"]),
        sentence=row["sentence"],
        at=row["observed_at"],
        dataset=dataset,
        incident=_incident(row),
        anomaly=_anomaly(row),
        symptom_id=row["symptom_id"],
        run_id=row["run_id"],
        job=_job(row),
        column=row["column_name"],
        test_name=row["test_name"],
    )


def of_news(row: Mapping[str, Any], event: str, dataset: DatasetFacts | None) -> Occasion:
    """That an incident was resolved or is open again."""
    word = "is open again" if event == "IncidentReopened" else "is resolved"
    return Occasion(
        source=Source.incident,
        type=event,
        severity=row["severity"],
        subject=str(row["incident_id"]),
        sentence=f"Incident #{row['number']} {word}: {row['title']}",
        at=row["observed_at"],
        dataset=dataset,
        incident=_incident(row),
        run_id=row["run_id"],
        job=_job(row),
        column=row["column_name"],
    )


_BY_STATUS = {"FAILED": "CRITICAL", "GATE_BLOCKED": "CRITICAL", "WARNING": "WARNING", "QUARANTINED": "WARNING"}


def of_pipeline(alert: Alert, run_id: UUID, dataset: DatasetFacts | None) -> Occasion:
    """An event of a pipeline, as its run would have told it."""
    return Occasion(
        source=Source.pipeline,
        type=str(alert.event),
        severity=_BY_STATUS.get(alert.status, "INFO"),
        subject="/".join((alert.project, alert.pipeline, *((alert.node,) if alert.node else ()))),
        sentence=alert.message,
        at=alert.at,
        dataset=dataset,
        run_id=run_id,
        pipeline=(alert.project, alert.pipeline),
        alert=alert,
    )


def _incident(row: Mapping[str, Any]) -> IncidentFacts:
    cause = row["cause"] if isinstance(row["cause"], Mapping) else {}
    told = cause.get("evidence")
    evidence = [_sentence(each) for each in told] if isinstance(told, list) else []
    return IncidentFacts(
        id=row["incident_id"],
        number=row["number"],
        title=row["title"],
        status=row["incident_status"],
        root_cause=row["root_cause"],
        confidence=float(row["confidence"] or 0),
        evidence=tuple(each for each in evidence if each),
    )


def _sentence(evidence: object) -> str:
    said = evidence.get("sentence") if isinstance(evidence, Mapping) else evidence
    return said if isinstance(said, str) else ""


def _anomaly(row: Mapping[str, Any]) -> AnomalyFacts | None:
    if row["anomaly_id"] is None:
        return None
    score = row["deviation_score"]
    return AnomalyFacts(
        id=row["anomaly_id"],
        metric=row["metric"],
        partition_key=row["partition_key"] or "",
        expected=row["expected_value"],
        actual=row["actual_value"],
        score=None if score is None else float(score),
    )


def _job(row: Mapping[str, Any]) -> tuple[str, str] | None:
    return (row["job_namespace"], row["job_name"]) if row["job_name"] else None
