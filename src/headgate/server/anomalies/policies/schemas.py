"""Shapes of policies and marks in requests and answers. Every field of an answer is always there."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from headgate.domain.anomaly import Severity
from headgate.domain.band import can_deviate
from headgate.domain.verdict import DEFAULT, MAX_SIGMA, Metric
from headgate.errors import FieldError, InvalidFields
from headgate.server.anomalies.judging.rules import FRESHNESS, SCHEMA, STUCK
from headgate.server.bodies import Body
from headgate.server.shapes import DatasetRefOut
from headgate.server.times import Moment

Note = Annotated[str, Field(max_length=10_000)]


class Judged(StrEnum):
    """What a policy may be about: a metric, or what is judged without a band and can only be switched off."""

    row_count = Metric.row_count.value
    byte_size = Metric.byte_size.value
    duration_ms = Metric.duration_ms.value
    null_share = Metric.null_share.value
    distinct_count = Metric.distinct_count.value
    rows_quarantined = Metric.rows_quarantined.value
    freshness = FRESHNESS
    schema = SCHEMA
    stuck = STUCK


_WITHOUT_A_BAND: Final = frozenset({Judged.freshness, Judged.schema, Judged.stuck})


class Method(StrEnum):
    sigma = "sigma"
    percentile = "percentile"


class Seasonality(StrEnum):
    auto = "auto"
    off = "off"


class MarkKind(StrEnum):
    """For how long: on one day, on a day of every week, or until a time."""

    once = "once"
    weekday = "weekday"
    until = "until"


class PolicyFields(Body):
    """How a series is judged; what is left out has its default."""

    enabled: bool = DEFAULT.enabled
    method: Method = Method.sigma
    sigma: Annotated[float, Field(strict=True, ge=0.5, le=MAX_SIGMA, allow_inf_nan=False)] = DEFAULT.sigma
    min_points: Annotated[int, Field(strict=True, ge=2, le=1000)] = DEFAULT.min_points
    window_days: Annotated[int, Field(strict=True, ge=1, le=365)] = DEFAULT.window_days
    drop_share: Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)] | None = DEFAULT.drop_share
    floor_share: Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)] | None = DEFAULT.floor_share
    seasonality: Seasonality = Seasonality.auto
    small_sample: bool = DEFAULT.small_sample
    spike_severity: Severity | None = None
    drop_severity: Severity | None = None


class PolicyIn(PolicyFields):
    """For a dataset, for those whose names begin alike (`sales_*`) or for all (`*`); of one metric, or of all."""

    dataset: Annotated[str, Field(min_length=1, max_length=4000, examples=["sales_*"])]
    metric: Judged | None = None
    description: Note | None = None

    @model_validator(mode="after")
    def _can_be_set(self) -> Self:
        if self.metric in _WITHOUT_A_BAND:
            of = f"is nothing that {self.metric.value!r} has: it can only be switched off"
            fields = [name for name in PolicyFields.model_fields if name in self.model_fields_set - {"enabled"}]
            defaults = PolicyFields()
            errors = [
                FieldError(name, of, str(getattr(self, name)))
                for name in fields
                if getattr(self, name) != getattr(defaults, name)
            ]
            if errors:
                raise InvalidFields(errors, hint="set `enabled` alone, or give another metric")
        return self


class PolicySettingsOut(BaseModel):
    enabled: bool
    method: str
    sigma: float
    min_points: int
    window_days: int
    drop_share: float | None
    floor_share: float | None
    seasonality: str
    small_sample: bool
    spike_severity: str | None
    drop_severity: str | None


class PolicyOut(PolicySettingsOut):
    """`dataset` is the urn of one dataset or a pattern; `dataset_id` is null for a pattern."""

    id: UUID
    dataset: str
    dataset_id: UUID | None
    metric: str | None
    description: str | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime


class PolicyPage(BaseModel):
    items: list[PolicyOut]
    next_cursor: str | None


class EffectiveOut(PolicySettingsOut):
    """`policy_id` and `policy` say which policy it comes from; both are null where the defaults count."""

    policy_id: UUID | None
    policy: str | None


class EffectivePolicyOut(BaseModel):
    dataset: DatasetRefOut
    metrics: dict[str, EffectiveOut]


def check_until(path: str, until: datetime | None, at: datetime | None = None) -> None:
    """Refuse an end that has come already, or that comes before the beginning."""
    if until is None:
        return
    wrong = None
    if at is not None and until < at:
        wrong = "must not be before `at`"
    elif until <= datetime.now(UTC):
        wrong = "must not be in the past"
    if wrong is not None:
        error = FieldError(path, wrong, until.isoformat())
        raise InvalidFields([error], hint="say until when such values are still to come; a day that is over is `once`")


class Side(StrEnum):
    """What is above the band, or below it."""

    spike = "spike"
    drop = "drop"


# What columns have, and what runs have as a whole, whichever partition they write.
_OF_COLUMNS: Final = frozenset({Metric.null_share, Metric.distinct_count})
_OF_RUNS: Final = frozenset({Metric.duration_ms, Metric.rows_quarantined})


class MarkIn(Body):
    """What to expect of a dataset. `metric`, `column`, `partition_key` and `side` narrow it down.

    Without `at`, what is expected `until` a time is so from the beginning of this day, in UTC.
    """

    kind: MarkKind
    at: Moment | None = None
    weekday: Annotated[int, Field(strict=True, ge=0, le=6, description="0 is Monday, in UTC")] | None = None
    until: Moment | None = None
    metric: Metric | None = None
    column: Annotated[str, Field(min_length=1, max_length=1000)] | None = None
    partition_key: Annotated[str, Field(max_length=4000)] | None = None
    side: Side | None = None
    note: Note | None = None

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        """Refuse what no value would ever fit."""
        metric, error = self.metric, None
        if metric is None:
            return self
        if self.column is not None and metric not in _OF_COLUMNS:
            error = FieldError("column", f"is nothing that {metric.value!r} has: it is of a whole table", self.column)
        elif self.partition_key and metric in _OF_RUNS:
            error = FieldError(
                "partition_key", f"is nothing that {metric.value!r} has: it is of a run", self.partition_key
            )
        elif self.side is not None and not can_deviate(metric, self.side):
            error = FieldError("side", f"is none on which {metric.value!r} is ever told", self.side)
        if error is not None:
            raise InvalidFields([error], hint=f"leave `{error.path}` out, or give another metric, or none for all")
        return self

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        needed = {MarkKind.once: "at", MarkKind.weekday: "weekday", MarkKind.until: "until"}[self.kind]
        if getattr(self, needed) is None:
            raise ValueError(f"a mark of the kind `{self.kind}` needs `{needed}`")
        allowed = {needed, "at"} if self.kind is MarkKind.until else {needed}
        extra = [name for name in ("at", "weekday", "until") if name not in allowed and getattr(self, name) is not None]
        if extra:
            raise ValueError(f"`{extra[0]}` does not go with the kind `{self.kind}`")
        check_until("until", self.until, self.at)
        return self


class MarkOut(BaseModel):
    id: UUID
    kind: MarkKind
    at: datetime | None
    weekday: int | None
    until: datetime | None
    metric: str | None
    column: str | None
    partition_key: str | None
    side: Side | None
    note: str | None
    anomaly_id: UUID | None
    created_by: str | None
    created_at: datetime


class MarkPage(BaseModel):
    items: list[MarkOut]
    next_cursor: str | None
