"""Shapes of test results in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from pydantic import BaseModel

from headgate.server.shapes import JobOut


class Status(StrEnum):
    passed = "passed"
    failed = "failed"
    error = "error"
    skipped = "skipped"


class Severity(StrEnum):
    warn = "warn"
    error = "error"


class ResultOut(BaseModel):
    """How one run of a test ended. Tests are told apart by name and column."""

    id: UUID
    name: str
    assertion: str | None
    column: str | None
    status: Status
    severity: Severity
    expected: str | None
    actual: str | None
    description: str | None
    run_id: UUID | None
    job: JobOut | None
    observed_at: datetime


class ResultPage(BaseModel):
    items: list[ResultOut]
    next_cursor: str | None
