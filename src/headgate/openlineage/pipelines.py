"""What the run facets of pipelines say: the run, one node of it, and the alerts that were sent.

A node's facet is the engine's own record, so that what is stored can be told as a story again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from headgate.domain.names import DatasetName
from headgate.openlineage.stages import MAX_BIGINT
from headgate.pipelines.record import GateRecord, NodeRecord, QuarantineRecord, Status

# Together they are keys of an index, which holds some 2,700 bytes.
MAX_IDENTITY_BYTES = 1500
MAX_KEY_BYTES = 1000
MAX_INTEGER = 2_147_483_647
MAX_DAYS = 36_500
MAX_HOURS = 1_000_000

Text = Annotated[str, Meta(max_length=4000)]
Hours = Annotated[float, Meta(gt=0, le=MAX_HOURS)]
# Of a batch as the run that writes it leaves it; the others are what a later run makes of it.
NEW_STATES = frozenset({"open", "gate_aborted"})
BATCH_STATES = NEW_STATES | {"replayed", "discarded", "expired"}


class PipelineFacet(Struct):
    """A run of a pipeline."""

    project: str
    pipeline: str
    environment: Text | None = None
    file: Text | None = None
    status: Status | None = None
    run_id: str | None = None
    nodes: list[str] = []
    started_at: datetime | None = None
    ended_at: datetime | None = None

    def __post_init__(self) -> None:
        _check_identity(self.project, self.pipeline)
        self.started_at, self.ended_at = utc(self.started_at), utc(self.ended_at)


class FreshnessFacet(Struct):
    max_age_hours: Hours


class NodeFacet(NodeRecord, kw_only=True):
    """The record of a node; at its start only who it is."""

    project: str
    freshness: FreshnessFacet | None = None
    # The batch from quarantine that the run was about.
    replay_of: str = ""

    def __post_init__(self) -> None:
        _check_identity(self.project, self.pipeline, self.name)
        self.started_at, self.ended_at = utc(self.started_at), utc(self.ended_at)
        _check_number("attempt", self.attempt, MAX_INTEGER)
        for name in ("rows_in", "rows_valid", "rows_quarantined", "rows_published"):
            _check_number(name, getattr(self, name), MAX_BIGINT)
        if self.gate is not None:
            _check_rates(self.gate)
        if self.quarantine is not None:
            _check_batch(self.quarantine)

    @property
    def handles_batch(self) -> bool:
        """Whether the run was about a batch of an earlier one, and is no part of the node's history."""
        return bool(self.replay_of) or (self.quarantine is not None and self.quarantine.state not in NEW_STATES)

    def watermarks(self) -> Iterator[tuple[str, str]]:
        """Columns and how far each was read; told as `column` and `value`, or by the columns' names."""
        told = self.watermark or {}
        pairs = [(told["column"], told["value"])] if {"column", "value"} <= told.keys() else told.items()
        for column, value in pairs:
            if value is not None and isinstance(column, str) and 0 < len(column.encode()) <= MAX_KEY_BYTES:
                yield column, value if isinstance(value, str) else msgspec.json.encode(value).decode()


class AlertFacet(Struct, frozen=True):
    """One alert: what it was about, where it went, and whether it got there."""

    event: Text
    channel: Text
    outcome: Text
    at: datetime
    node: Text | None = None
    reason: str | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        utc(self.at)


class AlertsFacet(Struct):
    alerts: Annotated[list[AlertFacet], Meta(max_length=10_000)]


class PipelineTold(Struct):
    """What one event says of the run of a pipeline; `body` is all of it."""

    facet: PipelineFacet
    body: bytes


class NodeTold(Struct):
    """What one event says of a node, with its datasets by canonical name."""

    facet: NodeFacet
    body: bytes
    output: DatasetName | None
    quarantine: DatasetName | None


FACETS: Mapping[str, type[Struct]] = {
    "headgate_pipeline": PipelineFacet,
    "headgate_node": NodeFacet,
    "headgate_alerts": AlertsFacet,
}


def utc(at: datetime | None) -> datetime | None:
    """The time in UTC, as which one without a zone is read; ValueError if the calendar has no such time."""
    if at is None:
        return None
    try:
        moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{at.isoformat()} is out of the calendar's range") from error
    if not 1 < moment.year < 9999:
        raise ValueError(f"{at.isoformat()} is out of the calendar's range")
    return moment


def record_of(body: bytes) -> dict[str, Any]:
    """The body of a facet without what every facet has."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _check_identity(*names: str) -> None:
    if not all(names):
        raise ValueError("a name is empty")
    if sum(len(name.encode()) for name in names) > MAX_IDENTITY_BYTES:
        raise ValueError(f"the names have more than {MAX_IDENTITY_BYTES} bytes")


def _check_number(name: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise ValueError(f"{name} is {number}, not a number from 0 to {most}")


def _check_rates(gate: GateRecord) -> None:
    for rate in (gate.pass_rate, gate.required, *gate.per_test_rates.values()):
        if not 0 <= rate <= 1:
            raise ValueError(f"a rate of the gate is {rate}, not a number from 0 to 1")


def _check_batch(batch: QuarantineRecord) -> None:
    if batch.state not in BATCH_STATES:
        raise ValueError(f"quarantine.state is {batch.state!r}, not one of {', '.join(sorted(BATCH_STATES))}")
    if not 0 < len(batch.batch_id.encode()) <= MAX_KEY_BYTES:
        raise ValueError("quarantine.batch_id is empty or too long")
    _check_number("quarantine.rows", batch.rows, MAX_BIGINT)
    _check_number("quarantine.retention_days", batch.retention_days or 0, MAX_DAYS)
