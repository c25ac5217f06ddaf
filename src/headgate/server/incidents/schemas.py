"""Shapes of incidents in requests and answers. Every field of an answer is always there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from headgate.domain.anomaly import Severity
from headgate.domain.incident import Status
from headgate.server.bodies import Body
from headgate.server.shapes import DatasetRefOut, JobOut
from headgate.server.times import Moment


class CauseOut(BaseModel):
    """What is likeliest to have caused it; which evidence there is has a route of its own."""

    run_id: UUID | None
    job: JobOut | None
    dataset: DatasetRefOut | None
    chosen_by: str


class IncidentOut(BaseModel):
    """An incident. Test, dataset, run and job are those of what it is told by: what opened it, or says it better."""

    id: UUID
    number: int
    title: str
    status: Status
    severity: Severity
    kind: str
    dataset: DatasetRefOut | None
    dataset_urn: str | None
    column: str | None
    test_name: str | None
    test_status: str | None
    run_id: UUID | None
    job: JobOut | None
    job_name: str | None
    job_started_at: datetime | None
    producer_name: str | None
    root_cause: str | None
    confidence: float
    cause: CauseOut
    opened_at: datetime
    last_seen_at: datetime
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    resolved_at: datetime | None
    resolved_by: str | None
    resolution: str | None
    muted_until: datetime | None
    reopened_at: datetime | None
    assignee: str | None
    is_orphan: bool
    merged_into: int | None
    symptom_count: int
    open_symptom_count: int


class IncidentPage(BaseModel):
    items: list[IncidentOut]
    next_cursor: str | None


class SymptomOut(BaseModel):
    """One thing that is wrong. `count` is how often it was seen on what the same run had produced."""

    id: UUID
    type: str
    severity: Severity
    sentence: str
    dataset: DatasetRefOut | None
    column: str | None
    job: JobOut | None
    run_id: UUID | None
    producing_run_id: UUID | None
    anomaly_id: UUID | None
    test_name: str | None
    test_status: str | None
    root_cause: str | None
    observed_at: datetime
    last_observed_at: datetime
    count: int
    cleared_at: datetime | None


class ParentOut(BaseModel):
    """A run that started another, as far as it is known."""

    run_id: UUID
    job_namespace: str | None
    job_name: str | None
    state: str | None
    started_at: datetime | None
    ended_at: datetime | None


class ImpactSummaryOut(BaseModel):
    """How much lies downstream; `nearest` are the datasets that come first, `truncated` says that there is more."""

    datasets: int
    jobs: int
    owners: list[str]
    nearest: list[DatasetRefOut]
    truncated: bool


class NoteOut(BaseModel):
    """What somebody has written down."""

    at: datetime
    actor: str
    text: str


class IncidentDetailOut(IncidentOut):
    symptoms: list[SymptomOut]
    # What started the run, the nearest first: task, DAG.
    parents: list[ParentOut]
    impact: ImpactSummaryOut
    notes: list[NoteOut]
    # Of an orphan: what a job writes under a name that ends alike.
    namesakes: list[DatasetRefOut]


class EvidenceOut(BaseModel):
    """A fact that speaks for a candidate; `link` leads to where it can be seen."""

    kind: str
    sentence: str
    weight: float
    link: str | None
    column: str | None
    at: datetime | None


class NamedDatasetOut(BaseModel):
    id: UUID
    urn: str


class NamedJobOut(BaseModel):
    id: UUID | None
    namespace: str
    name: str


class ExplainedOut(EvidenceOut):
    """A fact about what was made of the cause."""

    dataset: NamedDatasetOut | None
    job: NamedJobOut | None


class CandidateOut(BaseModel):
    """A run that may be the cause, or a dataset that no run is known to have written in time."""

    run_id: UUID | None
    job: NamedJobOut | None
    dataset: NamedDatasetOut | None
    depth: int
    via: str
    columns: list[str]
    state: str | None
    started_at: datetime | None
    ended_at: datetime | None


class RejectedOut(CandidateOut):
    reason: str
    score: float


class IncidentEvidenceOut(BaseModel):
    """Why it came about: the cause, what speaks for it, what it explains, and what else was looked at."""

    root_cause: str | None
    confidence: float
    chosen_by: str
    chain: list[str]
    cause: CandidateOut | None
    evidence: list[EvidenceOut]
    explains: list[ExplainedOut]
    rejected: list[RejectedOut]
    rejected_count: int
    # Of an orphan: what a job writes under a name that ends alike.
    namesakes: list[DatasetRefOut]


class ImpactedOut(DatasetRefOut):
    depth: int
    has_symptom: bool
    jobs: list[JobOut]
    owners: list[str]


class IncidentImpactOut(BaseModel):
    """What lies downstream, nearest first. `hidden` says how many neighbours depth and limit leave out."""

    roots: list[UUID]
    items: list[ImpactedOut]
    jobs: list[JobOut]
    owners: list[str]
    totals: dict[str, int]
    truncated: bool
    hidden: int


class EventOut(BaseModel):
    """What happened, and who did it."""

    id: int
    at: datetime
    actor: str
    kind: str
    sentence: str
    detail: dict[str, Any]


class TimelineOut(BaseModel):
    items: list[EventOut]
    next_cursor: str | None


class CountsOut(BaseModel):
    """Incidents that go on, and those that ended and were seen within so many hours."""

    hours: int
    open: int
    acknowledged: int
    muted: int
    resolved: int
    by_severity: dict[str, int]
    by_kind: dict[str, int]
    orphans: int


class OrphanOut(DatasetRefOut):
    """A dataset whose tests fail and that no job is known to write."""

    failures: int
    last_failed_at: datetime
    incident: int


class OrphanPage(BaseModel):
    items: list[OrphanOut]
    next_cursor: str | None
    suggestions: str


class CorrelationOut(BaseModel):
    """Of how many datasets with failed tests a producer is known; rules that would help are at `suggestions`."""

    hours: int
    failed_datasets: int
    correlated_datasets: int
    orphan_datasets: int
    correlation_rate: float
    suggestions: str


Reason = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class StatusIn(Body):
    """A new status. `until` is for `muted` alone; without it, that is 30 days."""

    status: Status
    reason: Reason | None = None
    until: Moment | None = None

    @field_validator("until")
    @classmethod
    def _until_is_for_mutes(cls, until: datetime | None, info: ValidationInfo) -> datetime | None:
        status = info.data.get("status")
        if until is None or status is None:
            return until
        if status is not Status.muted:
            raise ValueError(f"says how long an incident is muted; leave it out with {status.value!r}")
        if until <= datetime.now(UTC):
            raise ValueError(f"must be in the future, and {until.isoformat()} is over")
        return until


class AssignIn(Body):
    assignee: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)] | None


class NoteIn(Body):
    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=10_000)]


class MergeIn(Body):
    """Into which incident, by id or number."""

    into: Annotated[int, Field(strict=True, ge=1)] | Annotated[str, Field(strict=True, min_length=1, max_length=64)]
    reason: Reason | None = None


class SplitIn(Body):
    symptoms: Annotated[list[UUID], Field(min_length=1, max_length=1000)]
    reason: Reason | None = None


class RootIn(Body):
    """The run, or the dataset, that is the cause."""

    run: UUID | None = None
    dataset: Annotated[str, StringConstraints(min_length=1, max_length=4000)] | None = None
    reason: Reason | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> RootIn:
        if (self.run is None) == (self.dataset is None):
            raise ValueError("give either run or dataset")
        return self
