"""Shapes of the log, of statistics and of conformance in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from headgate.domain.conformance import Grade, Severity
from headgate.server.shapes import JobOut

Outcome = Literal["accepted", "refused"]
Kind = Literal["run", "dataset", "job"]
EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER"]


class EventOut(BaseModel):
    id: int
    received_at: datetime
    event_time: datetime
    kind: Kind
    event_type: EventType | None
    run_id: UUID | None
    job: JobOut | None
    producer: str
    producer_name: str
    outcome: Outcome
    reason: str | None
    marks: list[str]
    size: int
    event: Any = Field(description="The event exactly as it came; null if the raw events were not asked for")


class EventPage(BaseModel):
    items: list[EventOut]
    next_cursor: str | None


class FieldErrorOut(BaseModel):
    path: str
    message: str
    value: str | None


class RefusedOut(BaseModel):
    id: int
    received_at: datetime
    route: str
    code: str
    reason: str
    errors: list[FieldErrorOut]
    producer: str | None
    producer_name: str | None
    correlation_id: str
    size: int
    truncated: bool
    body: str | None = Field(description="What is kept of it; null if the bodies were not asked for")
    body_encoding: Literal["text", "base64"] | None


class RefusedPage(BaseModel):
    items: list[RefusedOut]
    next_cursor: str | None


class HourOut(BaseModel):
    hour: datetime
    accepted: int
    refused: int


class TotalsOut(BaseModel):
    events: int
    accepted: int
    refused: int


class ProducerOut(BaseModel):
    producer: str
    name: str
    version: str | None
    last_received_at: datetime
    events: int
    accepted: int
    refused: int


class ReasonOut(BaseModel):
    reason: str
    events: int
    last_received_at: datetime


class DuplicatesOut(BaseModel):
    """Of this server process only: duplicates leave no trace in the database."""

    events: int
    since: datetime


class LagOut(BaseModel):
    """From an event's own time to its arrival, over the newest events of the window."""

    events: int
    p50_s: float | None
    p95_s: float | None
    max_s: float | None


class IngestStatsOut(BaseModel):
    hours: int
    since: datetime
    until: datetime
    totals: TotalsOut
    by_hour: list[HourOut]
    producers: list[ProducerOut]
    refused: list[ReasonOut]
    duplicates: DuplicatesOut
    lag: LagOut


class VersionOut(BaseModel):
    version: str | None
    producer: str
    events: int
    first_seen_at: datetime
    last_seen_at: datetime


class FacetOut(BaseModel):
    facet: str
    events: int
    last_event_id: int | None


class LenientKindOut(BaseModel):
    kind: str
    events: int
    last_event_id: int | None


class LenientOut(BaseModel):
    events: int
    kinds: list[LenientKindOut]


class ReasonCountOut(BaseModel):
    reason: str
    events: int


class ClockOut(BaseModel):
    ahead: int
    max_ahead_s: float
    late: int
    max_late_s: float


class ProducerRunsOut(BaseModel):
    examined: int
    missing_start: int
    unfinished: int
    active_after_end: int


class FindingOut(BaseModel):
    code: str
    severity: Severity
    message: str
    hint: str
    count: int
    event_id: int | None


class ConformanceOut(BaseModel):
    name: str
    version: str | None
    grade: Grade
    findings: list[FindingOut]
    events: int
    accepted: int
    refused: list[ReasonCountOut]
    first_seen_at: datetime
    last_seen_at: datetime
    versions: list[VersionOut]
    spec_versions: list[str]
    client_versions: list[str]
    sampled: int
    invalid_facets: list[FacetOut]
    lenient: LenientOut
    clock: ClockOut
    runs: ProducerRunsOut


class ConformancePage(BaseModel):
    days: int
    since: datetime
    runs_since: datetime
    items: list[ConformanceOut]
    truncated: bool
    next_cursor: str | None
