"""Anomalies that producers find themselves and send with a run: the facet, and what it says as plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from headgate.domain.anomaly import Severity, read_severity, read_type
from headgate.domain.names import DatasetName

MAX_ANOMALIES: Final = 1000
_MAX_TYPE: Final = 200
_MAX_TEXT: Final = 10_000
# Clocks differ by so much.
_AHEAD: Final = timedelta(minutes=5)

Number = float | UnsetType | None
Text = str | UnsetType | None


class DatasetId(Struct):
    namespace: str
    name: str


class AnomalyFacet(Struct):
    """One anomaly, in the words of the simple form; the dataset is the one that its name stands for."""

    anomaly_type: str
    dataset: DatasetId
    dataset_name: Text = UNSET
    severity: Text = UNSET
    current_value: Number = UNSET
    expected_value: Number = UNSET
    threshold: Number = UNSET
    message: Text = UNSET
    detected_at: Text = UNSET


class AnomaliesFacet(Struct):
    """Anomalies as they were sent: each is read by itself, so that one that cannot be costs no other."""

    anomalies: list[Any]
    job_id: Text = UNSET


class AnomalyTold(Struct, frozen=True):
    """An anomaly as its sender sees it. `occasion` is the same whenever it is sent again."""

    dataset: DatasetName
    type: str
    severity: Severity
    detected_at: datetime
    expected: dict[str, Any] | None
    actual: dict[str, Any] | None
    message: str
    metadata: dict[str, Any]
    occasion: str
    job_id: str | None = None


def anomalies_of(
    facet: AnomaliesFacet, name: Callable[[str, str], DatasetName | None], event_time: datetime
) -> Iterator[AnomalyTold]:
    """What a facet tells; of a dataset whose name cannot be one, nothing."""
    for each in filter(None, map(_read, facet.anomalies[:MAX_ANOMALIES])):
        dataset = name(each.dataset.namespace, each.dataset.name)
        if dataset is not None and each.anomaly_type.strip():
            yield _told(each, dataset, event_time, _text(facet.job_id)[:_MAX_TYPE] or None)


def are_readable(facet: AnomaliesFacet) -> bool:
    """Whether all that a facet lists are anomalies."""
    return all(_read(each) is not None for each in facet.anomalies[:MAX_ANOMALIES])


def _read(item: Any) -> AnomalyFacet | None:
    try:
        return msgspec.convert(item, AnomalyFacet)
    except (msgspec.ValidationError, OverflowError):
        return None


def _told(anomaly: AnomalyFacet, dataset: DatasetName, event_time: datetime, job_id: str | None) -> AnomalyTold:
    # A word that we do not know stays as it is: lists show it, and rules may ask for it.
    kind = read_type(anomaly.anomaly_type) or anomaly.anomaly_type.strip()[:_MAX_TYPE]
    severity = read_severity(_text(anomaly.severity))
    metadata: dict[str, Any] = {"type_told": anomaly.anomaly_type[:_MAX_TYPE]}
    if _text(anomaly.severity) != severity:
        metadata["severity_told"] = (_text(anomaly.severity) or "")[:_MAX_TYPE] or None
    if isinstance(anomaly.threshold, int | float):
        metadata["threshold"] = anomaly.threshold
    return AnomalyTold(
        dataset=dataset,
        type=str(kind),
        severity=severity,
        detected_at=_moment(_text(anomaly.detected_at)) or event_time,
        expected=_value(anomaly.expected_value),
        actual=_value(anomaly.current_value),
        message=_text(anomaly.message)[:_MAX_TEXT] or f"the producer reports {kind}",
        metadata=metadata,
        occasion=_occasion(anomaly),
        job_id=job_id,
    )


def as_received(anomaly: AnomalyTold, at: datetime) -> AnomalyTold:
    """The same, found no later than it came in: a clock may be a little ahead, but nothing is found in the future."""
    if anomaly.detected_at <= at + _AHEAD:
        return anomaly
    told = {"detected_at_told": anomaly.detected_at.isoformat()}
    return structs.replace(anomaly, detected_at=at, metadata=anomaly.metadata | told)


def _occasion(anomaly: AnomalyFacet) -> str:
    said = (anomaly.current_value, anomaly.expected_value, anomaly.threshold, anomaly.message, anomaly.detected_at)
    plain = [None if value is UNSET else value for value in said]
    return hashlib.blake2b(msgspec.json.encode(plain), digest_size=16).hexdigest()


def _value(value: Number) -> dict[str, Any] | None:
    return {"value": value} if isinstance(value, int | float) else None


def _text(value: Text) -> str:
    return value if isinstance(value, str) else ""


def _moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text.strip())
        moment = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return moment if 1 < moment.year < 9999 else None
