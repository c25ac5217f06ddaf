"""What can bring about what: which change upstream explains which one downstream, and which speaks to which failure.

The figures are degrees from 0 to 1: how readily the one follows from the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from headgate.domain.anomaly import AnomalyType
from headgate.domain.incident import Outright
from headgate.domain.scene import Evidence, Failure
from headgate.domain.surroundings import is_of_surroundings


class Signal(StrEnum):
    """A kind of evidence with its direction: fewer rows never explain more."""

    rows_down = "rows_down"
    rows_up = "rows_up"
    bytes_down = "bytes_down"
    bytes_up = "bytes_up"
    nulls_up = "nulls_up"
    nulls_down = "nulls_down"
    schema = "schema"
    failed = "failed"
    late = "late"
    missing = "missing"
    code = "code"
    quarantine = "quarantine"
    test = "test"
    slow = "slow"
    fast = "fast"


class Nature(StrEnum):
    """What kind of trouble a failure tells of."""

    nulls = "nulls"
    fewer_rows = "fewer_rows"
    more_rows = "more_rows"
    rows = "rows"
    duplicates = "duplicates"
    freshness = "freshness"
    run = "run"
    surroundings = "surroundings"
    schema = "schema"
    slow = "slow"
    values = "values"


_DIRECTED: Final[Mapping[str, tuple[Signal, Signal]]] = {
    "row_count": (Signal.rows_down, Signal.rows_up),
    "volume": (Signal.bytes_down, Signal.bytes_up),
    "null_share": (Signal.nulls_down, Signal.nulls_up),
    "duration": (Signal.fast, Signal.slow),
}
_PLAIN: Final[Mapping[str, Signal]] = {
    "schema_diff": Signal.schema,
    "run_failed": Signal.failed,
    "run_late": Signal.late,
    "missing_input": Signal.missing,
    "code_changed": Signal.code,
    "quarantine_burst": Signal.quarantine,
    "test_failed": Signal.test,
}
# What a run's own output shows of a change in its code.
OUTPUT: Final = frozenset(
    {Signal.rows_down, Signal.rows_up, Signal.bytes_down, Signal.bytes_up, Signal.nulls_up, Signal.schema,
     Signal.quarantine, Signal.failed, Signal.test}
)  # fmt: skip
# These leave no trace in the figures of a reader that rewrites everything from what is there.
SILENT: Final = frozenset({Signal.late, Signal.failed, Signal.missing})

_ABSENCE: Final[Mapping[Signal, float]] = {
    Signal.rows_down: 0.9, Signal.bytes_down: 0.9, Signal.nulls_up: 0.7, Signal.late: 0.9, Signal.failed: 0.6,
    Signal.missing: 0.9, Signal.test: 0.7, Signal.fast: 0.5,
}  # fmt: skip
EFFECTS: Final[Mapping[Signal, Mapping[Signal, float]]] = {
    Signal.rows_down: {Signal.rows_down: 1.0, Signal.bytes_down: 1.0, Signal.nulls_up: 0.75, Signal.test: 0.8,
                       Signal.fast: 0.6},
    Signal.rows_up: {Signal.rows_up: 1.0, Signal.bytes_up: 1.0, Signal.slow: 0.8, Signal.test: 0.8,
                     Signal.quarantine: 0.5},
    Signal.bytes_down: {Signal.rows_down: 0.8, Signal.bytes_down: 1.0, Signal.nulls_up: 0.5, Signal.fast: 0.5,
                        Signal.test: 0.5},
    Signal.bytes_up: {Signal.rows_up: 0.8, Signal.bytes_up: 1.0, Signal.slow: 0.8, Signal.test: 0.5},
    Signal.nulls_up: {Signal.nulls_up: 1.0, Signal.rows_down: 0.7, Signal.bytes_down: 0.7, Signal.quarantine: 0.9,
                      Signal.test: 0.9, Signal.failed: 0.4},
    Signal.schema: {Signal.schema: 0.9, Signal.nulls_up: 1.0, Signal.failed: 1.0, Signal.late: 0.3,
                    Signal.rows_down: 0.7, Signal.bytes_down: 0.7, Signal.quarantine: 0.9, Signal.test: 0.9},
    Signal.failed: {**_ABSENCE, Signal.late: 1.0},
    Signal.late: _ABSENCE,
    Signal.missing: _ABSENCE,
    Signal.quarantine: {Signal.rows_down: 0.9, Signal.bytes_down: 0.9, Signal.nulls_up: 0.5, Signal.test: 0.7},
    Signal.test: {Signal.test: 0.8, Signal.nulls_up: 0.6, Signal.rows_down: 0.3, Signal.rows_up: 0.3,
                  Signal.quarantine: 0.3},
    Signal.slow: {Signal.late: 0.4, Signal.slow: 0.2},
}  # fmt: skip

# Changed code whose output nobody measured may have done anything.
UNSEEN: Final[Mapping[Signal, float]] = {
    Signal.nulls_up: 0.8, Signal.rows_down: 0.7, Signal.rows_up: 0.7, Signal.bytes_down: 0.7, Signal.bytes_up: 0.7,
    Signal.test: 0.7,
}  # fmt: skip

_UNKNOWN: Final = 0.1
AFFINITY: Final[Mapping[Nature, Mapping[Signal, float]]] = {
    Nature.nulls: {Signal.nulls_up: 1.0, Signal.schema: 1.0, Signal.code: 0.85, Signal.rows_down: 0.7,
                   Signal.late: 0.7, Signal.failed: 0.7, Signal.missing: 0.8, Signal.test: 0.6,
                   Signal.bytes_down: 0.5, Signal.quarantine: 0.4, Signal.rows_up: 0.2},
    Nature.fewer_rows: {Signal.rows_down: 1.0, Signal.bytes_down: 0.7, Signal.late: 0.95, Signal.failed: 0.95,
                        Signal.missing: 0.9, Signal.quarantine: 0.9, Signal.code: 0.85, Signal.schema: 0.7,
                        Signal.nulls_up: 0.6, Signal.test: 0.5},
    Nature.more_rows: {Signal.rows_up: 1.0, Signal.bytes_up: 0.7, Signal.code: 0.9, Signal.test: 0.5,
                       Signal.schema: 0.2, Signal.late: 0.2, Signal.failed: 0.2},
    Nature.rows: {Signal.rows_down: 1.0, Signal.rows_up: 1.0, Signal.bytes_down: 0.7, Signal.bytes_up: 0.7,
                  Signal.late: 0.9, Signal.failed: 0.9, Signal.missing: 0.9, Signal.quarantine: 0.9,
                  Signal.code: 0.85, Signal.schema: 0.6, Signal.nulls_up: 0.5, Signal.test: 0.5},
    Nature.duplicates: {Signal.rows_up: 1.0, Signal.bytes_up: 0.7, Signal.code: 0.95, Signal.test: 0.6,
                        Signal.schema: 0.3},
    Nature.freshness: {Signal.late: 1.0, Signal.failed: 1.0, Signal.missing: 0.7, Signal.schema: 0.6,
                       Signal.rows_down: 0.5, Signal.bytes_down: 0.4, Signal.slow: 0.5, Signal.code: 0.4,
                       Signal.nulls_up: 0.1},
    Nature.run: {Signal.schema: 1.0, Signal.failed: 0.8, Signal.missing: 0.9, Signal.code: 0.8, Signal.late: 0.5,
                 Signal.rows_up: 0.4, Signal.bytes_up: 0.4, Signal.rows_down: 0.3, Signal.nulls_up: 0.3,
                 Signal.slow: 0.3, Signal.test: 0.3},
    # More rows than fit are the one thing that data can do to it.
    Nature.surroundings: {Signal.failed: 1.0, Signal.rows_up: 0.7, Signal.bytes_up: 0.7, Signal.slow: 0.3,
                          Signal.code: 0.3},
    Nature.schema: {Signal.schema: 1.0, Signal.code: 0.9, Signal.missing: 0.4},
    Nature.slow: {Signal.rows_up: 0.9, Signal.bytes_up: 0.9, Signal.code: 0.85, Signal.slow: 0.5, Signal.late: 0.4,
                  Signal.failed: 0.4},
    Nature.values: {Signal.nulls_up: 0.9, Signal.schema: 0.9, Signal.code: 0.85, Signal.rows_down: 0.8,
                    Signal.rows_up: 0.8, Signal.late: 0.8, Signal.failed: 0.8, Signal.missing: 0.8,
                    Signal.quarantine: 0.7, Signal.test: 0.6, Signal.bytes_down: 0.5, Signal.bytes_up: 0.5,
                    Signal.nulls_down: 0.3},
}  # fmt: skip

_BY_TYPE: Final[Mapping[str, Nature]] = {
    AnomalyType.RowCountDrop: Nature.fewer_rows,
    AnomalyType.VolumeDrop: Nature.fewer_rows,
    AnomalyType.RowCountSpike: Nature.more_rows,
    AnomalyType.VolumeSpike: Nature.more_rows,
    AnomalyType.NullShareSpike: Nature.nulls,
    AnomalyType.FreshnessMissed: Nature.freshness,
    AnomalyType.SchemaChange: Nature.schema,
    Outright.RunFailed: Nature.run,
    AnomalyType.StuckRun: Nature.run,
    AnomalyType.DurationSpike: Nature.slow,
}
# The first word that a test's name has decides; tests are mostly named for what they check.
_BY_WORD: Final = (
    ("recency", Nature.freshness), ("fresh", Nature.freshness), ("stale", Nature.freshness),
    ("not_null", Nature.nulls), ("notnull", Nature.nulls), ("null", Nature.nulls), ("missing", Nature.nulls),
    ("complete", Nature.nulls), ("unique", Nature.duplicates), ("duplicate", Nature.duplicates),
    ("row_count", Nature.rows), ("rowcount", Nature.rows), ("num_rows", Nature.rows), ("volume", Nature.rows),
)  # fmt: skip


def signal_of(evidence: Evidence) -> Signal:
    if evidence.kind in _DIRECTED:
        down, up = _DIRECTED[evidence.kind]
        return down if (evidence.change or 0.0) < 0 else up
    return _PLAIN[evidence.kind]


def nature_of(failure: Failure) -> Nature:
    """What kind of trouble it is, from the type of the symptom or from what the test is called.

    >>> from datetime import datetime, UTC
    >>> nature_of(Failure("TestFailed", datetime(2026, 3, 1, tzinfo=UTC), test="not_null_orders_email")).value
    'nulls'
    """
    if failure.type == Outright.RunFailed and is_of_surroundings(failure.detail):
        return Nature.surroundings
    if failure.type in _BY_TYPE:
        return _BY_TYPE[failure.type]
    name = (failure.test or "").lower()
    return next((nature for word, nature in _BY_WORD if word in name), Nature.values)


def affinity(nature: Nature, signal: Signal) -> float:
    return AFFINITY[nature].get(signal, _UNKNOWN)
