"""What an anomaly is called, how bad it is and what becomes of it: one vocabulary for detectors, clients and alerts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class AnomalyType(StrEnum):
    """What is out of the ordinary."""

    RowCountSpike = "RowCountSpike"
    RowCountDrop = "RowCountDrop"
    VolumeSpike = "VolumeSpike"
    VolumeDrop = "VolumeDrop"
    DurationSpike = "DurationSpike"
    DurationDrop = "DurationDrop"
    NullShareSpike = "NullShareSpike"
    NullShareDrop = "NullShareDrop"
    DistinctCountSpike = "DistinctCountSpike"
    DistinctCountDrop = "DistinctCountDrop"
    QuarantineSpike = "QuarantineSpike"
    FreshnessMissed = "FreshnessMissed"
    SchemaChange = "SchemaChange"
    StuckRun = "StuckRun"


class Severity(StrEnum):
    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"

    @property
    def rank(self) -> int:
        """From 0 for the mildest, to compare and sort by."""
        return _RANKS[self]


_RANKS: Final[Mapping[Severity, int]] = {severity: rank for rank, severity in enumerate(Severity)}


class Status(StrEnum):
    """How far people, or the alerts, are with an anomaly."""

    OPEN = "OPEN"
    ACKNOWLEDGED = "ACKNOWLEDGED"
    ALERTED = "ALERTED"
    RESOLVED = "RESOLVED"
    FALSE_POSITIVE = "FALSE_POSITIVE"


def read_type(text: str) -> AnomalyType | None:
    """The type that a client means, in whatever case and with whatever separators; None for one that we do not know.

    >>> read_type("SCHEMA_CHANGE").value
    'SchemaChange'
    """
    return _TYPES.get(_plain(text))


def read_severity(text: str | None) -> Severity:
    """The severity that a client means; a word of its own scale is a WARNING.

    >>> read_severity("MEDIUM").value
    'WARNING'
    """
    return _SEVERITIES.get((text or "").strip().upper(), Severity.WARNING)


def schema_anomaly(change_type: str, breaking: bool, description: str) -> tuple[Severity, str]:
    """How bad a change of schema is, and the sentence that says so.

    >>> schema_anomaly("DROPPED_COLUMN", True, "removed 'email'")[1]
    "the schema changed and readers can break: removed 'email'"
    """
    told = description.strip() or change_type.strip().lower().replace("_", " ") or "no details are known"
    if breaking:
        return Severity.CRITICAL, f"the schema changed and readers can break: {told}"
    return Severity.WARNING, f"the schema changed: {told}"


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()


# What data tools call the same things.
_OTHER_NAMES: Final = {
    "freshness": AnomalyType.FreshnessMissed,
    "freshnesssla": AnomalyType.FreshnessMissed,
    "slamissed": AnomalyType.FreshnessMissed,
    "latedata": AnomalyType.FreshnessMissed,
    "schemadrift": AnomalyType.SchemaChange,
    "bytesizespike": AnomalyType.VolumeSpike,
    "bytesizedrop": AnomalyType.VolumeDrop,
    "nullspike": AnomalyType.NullShareSpike,
    "nullratespike": AnomalyType.NullShareSpike,
    "stuckjob": AnomalyType.StuckRun,
}
_TYPES: Final = {**_OTHER_NAMES, **{_plain(each): each for each in AnomalyType}}
_SEVERITIES: Final = {each.value: each for each in Severity}
