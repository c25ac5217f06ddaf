"""Shapes of measurements in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from headgate.domain.metric import Direction
from headgate.domain.verdict import State
from headgate.server.shapes import DatasetRefOut, JobOut


class VerdictOut(BaseModel):
    """What was made of a value: the band that was expected, how far off it is, and why."""

    state: State
    value: float
    expected: float | None
    low: float | None
    high: float | None
    score: float | None
    stddev: float | None
    points: int
    method: str
    type: str | None
    severity: str | None
    reason: str


class MetricOut(BaseModel):
    """What one run measured of a dataset, or of one partition of it; `columns` is a profile, by column.

    `verdicts` are by metric, or `metric:column`, and empty before it is judged; `anomalous` are those that are no part
    of what is usual. `columns_left_out` is how many columns of a profile are too many to be judged.
    """

    measured_at: datetime
    direction: Direction
    row_count: int | None
    byte_size: int | None
    file_count: int | None
    partition_count: int | None
    partition_key: str | None
    columns: dict[str, Any] | None
    columns_left_out: int
    verdicts: dict[str, VerdictOut]
    anomalous: list[str]
    run_id: UUID | None
    job: JobOut | None


class MetricPage(BaseModel):
    """Measurements, newest first; `latest_at` is the latest of them all, in the window or not."""

    items: list[MetricOut]
    next_cursor: str | None
    latest_at: datetime | None


class FigureOut(BaseModel):
    """A summary; with no values everything but `count` is null."""

    count: int
    mean: float | None
    stddev: float | None
    min: int | None
    max: int | None
    p5: float | None
    p95: float | None
    latest: int | None


class StatsOut(BaseModel):
    """Summaries over the measurements of one direction, and over the runs that wrote the dataset."""

    model_config = ConfigDict(populate_by_name=True)

    dataset: DatasetRefOut
    direction: Direction | None
    partition_key: str | None
    from_: datetime = Field(alias="from")
    to: datetime | None
    latest_at: datetime | None
    row_count: FigureOut
    byte_size: FigureOut
    file_count: FigureOut
    duration_ms: FigureOut


class CleanupOut(BaseModel):
    """How many measurements were removed; `next_cursor` says that there are datasets left to look at."""

    deleted: int
    datasets: int
    next_cursor: str | None
