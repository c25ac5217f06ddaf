"""What there is to tell: a symptom, news of an incident or an event of a pipeline, with all that messages say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from headgate.domain.anomaly import Severity
from headgate.domain.incident import HEADGATE, SURE
from headgate.domain.names import canonical_dataset
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
    # Every name that a rule may mean it by.
    names: tuple[str, ...]

    @property
    def urn(self) -> str:
        return f"{self.namespace}/{self.name}"


def names_of(display_name: str, *keys: tuple[str, str]) -> tuple[str, ...]:
    """What a dataset is called: as it is shown, and by these namespaces and names, the last part of each alone, too.

    >>> names_of("lake:orders", ("s3://lake", "raw/orders"))
    ('lake:orders', 'raw/orders', 's3://lake/raw/orders', 'orders')
    """
    called = [display_name]
    for namespace, name in keys:
        last = name.rstrip("/").rpartition("/")[2]
        # As it was shown while this was its name.
        shown = canonical_dataset(namespace, name).display_name
        called += (name, shown, f"{namespace}/{name}", last, last.rpartition(".")[2])
    return tuple(dict.fromkeys(called))


class IncidentFacts(NamedTuple):
    id: UUID
    number: int
    title: str
    status: str
    root_cause: str | None
    confidence: float
    evidence: tuple[str, ...]
    # Whose the cause is: what evidence says is of this job or dataset.
    blamed: str | None = None


class End(NamedTuple):
    """How an incident ended: who resolved it and why, and how bad it had been, by which rules still choose."""

    by: str
    reason: str | None
    severity: str


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
    is_muted: bool = False
    end: End | None = None

    @property
    def about(self) -> About:
        found, severity = self.dataset, self.end.severity if self.end else self.severity
        told = About(self.source, self.type, severity, is_muted=self.is_muted, is_good=self.end is not None)
        return told if found is None else told._replace(names=found.names, owners=found.owners, tags=found.tags)

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
        incident=None if row["incident_id"] is None else _incident(row),
        anomaly=_anomaly(row),
        symptom_id=row["symptom_id"],
        run_id=row["run_id"],
        job=_job(row),
        column=row["column_name"],
        test_name=row["test_name"],
    )


def of_anomaly(row: Mapping[str, Any], dataset: DatasetFacts | None) -> Occasion:
    """An anomaly that is no symptom of anything: it merely informs, and has no incident."""
    found = of_symptom({**row, "symptom_id": row["anomaly_id"]}, dataset)
    return replace(found, source=Source.anomaly, symptom_id=None)


def of_news(row: Mapping[str, Any], event: str, dataset: DatasetFacts | None) -> Occasion:
    """That an incident was resolved or is open again. That one is over merely informs."""
    end = End(row["actor"] or HEADGATE, row["reason"], row["severity"]) if event == "IncidentResolved" else None
    return Occasion(
        source=Source.incident,
        type=event,
        severity=row["severity"] if end is None else Severity.INFO,
        subject=str(row["incident_id"]),
        sentence=_reopened(row) if end is None else _resolved(row, end),
        at=row["observed_at"],
        dataset=dataset,
        incident=_incident(row),
        run_id=row["run_id"],
        job=_job(row),
        column=row["column_name"],
        end=end,
    )


def _resolved(row: Mapping[str, Any], end: End) -> str:
    """What it was about comes last: it is not so any more."""
    by = "" if end.by == HEADGATE else f" by {end.by}"
    why = f": {end.reason.rstrip(' .')}" if end.reason else ""
    return f"Incident #{row['number']} is resolved{by}{why}. It was: {row['title']}"


def _reopened(row: Mapping[str, Any]) -> str:
    by = "" if row["actor"] in (None, HEADGATE) else f", says {row['actor']}"
    why = f" ({row['reason']})" if by and row["reason"] else ""
    return f"Incident #{row['number']} is open again{by}{why}: {row['title']}"


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
    """With its cause or, of a symptom that is known to have another, with that."""
    found = _of_incident(row)
    own = row.get("own_cause")
    is_other = own is not None and own != found.root_cause and not row["root_is_manual"]
    if not is_other or row["own_confidence"] < SURE:
        return found
    return found._replace(root_cause=own, confidence=round(row["own_confidence"], 3), evidence=(), blamed=None)


def _of_incident(row: Mapping[str, Any]) -> IncidentFacts:
    cause = row["cause"] if isinstance(row["cause"], Mapping) else {}
    told = cause.get("evidence")
    evidence = [_sentence(each) for each in told] if isinstance(told, list) else []
    return IncidentFacts(
        id=row["incident_id"],
        number=row["number"],
        title=row["title"],
        status=row["incident_status"],
        root_cause=row["root_cause"],
        confidence=round(row["confidence"] or 0.0, 3),
        evidence=tuple(each for each in evidence if each),
        blamed=_blamed(cause.get("candidate")),
    )


def _blamed(candidate: object) -> str | None:
    found = candidate if isinstance(candidate, Mapping) else {}
    for kind, key in (("job", "name"), ("dataset", "urn")):
        whose = found.get(kind)
        if isinstance(whose, Mapping) and isinstance(whose.get(key), str):
            return f"{kind.capitalize()} '{whose[key]}'"
    return None


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
