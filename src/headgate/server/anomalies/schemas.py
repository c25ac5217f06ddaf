"""Shapes of anomalies in requests and answers. Every field of an answer is always there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from headgate.domain.anomaly import Severity, Status
from headgate.server.anomalies.policies.schemas import MarkKind, check_until
from headgate.server.bodies import Body
from headgate.server.shapes import DatasetRefOut, JobOut
from headgate.server.times import Moment

Note = Annotated[str, Field(max_length=10_000)]


class Source(StrEnum):
    """Who found it."""

    detector = "detector"
    client = "client"


class ChangeOut(BaseModel):
    """A change of status; `by` is the name of a user or key, or `headgate`."""

    at: datetime
    by: str | None
    from_: str = Field(alias="from")
    to: str
    notes: str | None


class AnomalyOut(BaseModel):
    """Something out of the ordinary. `type` is a word of the vocabulary or, from a client, one of its own."""

    id: UUID
    type: str
    severity: Severity
    status: Status
    dataset: DatasetRefOut | None
    job: JobOut | None
    run_id: UUID | None
    metric: str | None
    column: str | None
    partition_key: str | None
    detected_at: datetime
    observed_at: datetime
    expected_value: dict[str, Any] | None
    actual_value: dict[str, Any] | None
    deviation_score: float | None
    description: str
    source: Source
    incident_id: UUID | None
    resolved_at: datetime | None
    resolved_by: str | None
    resolution_notes: str | None
    updated_at: datetime


class AnomalyDetailOut(AnomalyOut):
    job_id: str | None
    job_name: str | None
    metadata: dict[str, Any]
    changes: list[ChangeOut]


class AnomalyPage(BaseModel):
    items: list[AnomalyOut]
    next_cursor: str | None


class ExpectIn(Body):
    """What to expect from now on: this day only, this day of every week, or everything until a time.

    It is of the metric and column of the anomaly; with `all_metrics`, of all that is measured of the same data.
    """

    kind: MarkKind
    until: Moment | None = None
    all_metrics: bool = False

    @model_validator(mode="after")
    def _has_an_end(self) -> Self:
        if (self.kind is MarkKind.until) != (self.until is not None):
            raise ValueError("`until` goes with the kind `until`, and only with that")
        check_until("expect.until", self.until)
        return self


class AnomalyIn(Body):
    """What is left out stays."""

    status: Status | None = None
    notes: Note | None = None
    expect: ExpectIn | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.model_fields_set & {"status", "notes", "expect"} or self == AnomalyIn.model_construct():
            raise ValueError("give at least one of `status`, `notes` and `expect`")
        return self


class DayOut(BaseModel):
    day: datetime
    count: int


class SummaryOut(BaseModel):
    """Counts over the last `days` or `hours`; `open` and what follows are of now, whatever is asked for."""

    days: int | None
    hours: int | None
    total: int
    by_type: dict[str, int]
    by_severity: dict[str, int]
    by_status: dict[str, int]
    by_day: list[DayOut]
    open: int
    last_24h: int
    last_7d: int
