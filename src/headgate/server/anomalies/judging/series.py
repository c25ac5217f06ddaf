"""Measurements as series: which values one has that can be judged, and what came before each of them."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.metric import MOST_COLUMNS, distinct_count, null_share
from headgate.domain.verdict import Metric, Point
from headgate.server.db.pool import Record

# A verdict on each is kept with the measurement, and with a wide table there are many: of so many columns, by name,
# each is judged. Of the rest only values are that moved, those that moved furthest, as it takes long to judge them.
MAX_COLUMNS: Final = 200
MAX_MOVED: Final = 200
# How many points make a baseline; fewer where each brings the profile of a table, and the wider that is.
POINTS: Final = 1000
PROFILES: Final = 200
_FEWEST: Final = 30
_PROFILE_BYTES: Final = 20_000_000
# A change by this share of what a constant series has been counts as much as one by the width of another.
_LEAST: Final = 0.01
_SEPARATOR: Final = "\x1f"


# The least and the most that was measured.
Span = tuple[float, float]


class Reading(NamedTuple):
    """One value of a measurement."""

    metric: Metric
    column: str | None
    value: float
    # Whether it is judged however little it moved.
    is_first: bool = True

    @property
    def name(self) -> str:
        """What its verdict is kept under."""
        return name_of(self.metric, self.column)


class Series(NamedTuple):
    """A measurement, and what can be judged of it."""

    row: Record
    readings: list[Reading]

    @property
    def has_profile(self) -> bool:
        return any(reading.column is not None for reading in self.readings)

    @property
    def names(self) -> list[str]:
        """What its values are kept under that are of the whole table."""
        return [reading.name for reading in self.readings if reading.column is None]

    @property
    def key(self) -> tuple[Any, ...]:
        """What it has in common with what it is compared with: where there are no partitions, jobs are judged apart."""
        row = self.row
        return (row["dataset_id"], row["direction"], row["partition_key"] or row["job_id"])

    @property
    def points_wanted(self) -> int:
        """How many points to compare with."""
        return max(_FEWEST, min(PROFILES, _PROFILE_BYTES // len(self.row["columns"]))) if self.has_profile else POINTS


def owner_of(row: Record) -> UUID:
    """Whose series a measurement belongs to: nobody else may judge one of them at the same time."""
    found: UUID = row["dataset_id"] if row["partition_key"] or row["job_id"] is None else row["job_id"]
    return found


def name_of(metric: str, column: str | None) -> str:
    return metric if column is None else f"{metric}:{column}"


def readings(row: Record) -> Iterator[Reading]:
    """What can be judged of a measurement."""
    for metric in (Metric.row_count, Metric.byte_size):
        if row[metric] is not None:
            yield Reading(metric, None, float(row[metric]))
    profile = decoded(row["columns"])
    for place, column in enumerate(sorted(profile)[:MOST_COLUMNS]):
        for metric in (Metric.null_share, Metric.distinct_count):
            value = _of_column(metric, profile[column], row["row_count"])
            if value is not None:
                yield Reading(metric, column, value, is_first=place < MAX_COLUMNS)


def moved(value: float, span: Span | None) -> float:
    """How far a value lies outside of those before it, beside how far these lie apart; 0 for what does not.

    >>> moved(5, (1, 3)), moved(2, (1, 3)), moved(5, None)
    (1.0, 0.0, 0.0)
    """
    if span is None or span[0] <= value <= span[1]:
        return 0.0
    low, high = span
    return max(low - value, value - high) / max(high - low, _LEAST * high, sys.float_info.min)


def decoded(columns: str | None) -> Mapping[str, Any]:
    """A profile by column; what is none is empty."""
    found = msgspec.json.decode(columns) if columns else {}
    return found if isinstance(found, dict) else {}


def _of_column(metric: Metric, figures: Any, rows: int | None) -> float | None:
    return null_share(figures, rows) if metric is Metric.null_share else distinct_count(figures)


class Baseline:
    """What was measured before, as the database gives it: latest first."""

    def __init__(self, row: Record | None) -> None:
        self._row = row

    def usable(self, names: Collection[str]) -> int:
        """How many there are of which none of some values was found to be anomalous."""
        return usable(self._row["anomalous"], names) if self._row is not None else 0

    def points(self, reading: Reading, since: datetime) -> list[Point]:
        """Earlier values of the same kind, oldest first."""
        if self._row is None or not self._times:
            return []
        values = self._values(reading)
        name = reading.name
        found = [
            Point(at, float(value), name in outside)
            for at, value, outside in zip(self._times, values, self._outside, strict=True)
            if value is not None and at >= since
        ]
        found.reverse()
        return found

    def spans(self, metric: Metric, since: datetime) -> dict[str, Span]:
        """Between which values each column was: in one pass, as there may be very many."""
        found: dict[str, Span] = {}
        if self._row is None:
            return found
        for at, profile, rows in zip(self._times, self._profiles, self._row["row_counts"] or (), strict=True):
            if at < since:
                continue
            for column, figures in profile.items():
                value = _of_column(metric, figures, rows)
                known = found.get(column)
                if value is None or (known is not None and known[0] <= value <= known[1]):
                    continue
                found[column] = (value, value) if known is None else (min(known[0], value), max(known[1], value))
        return found

    @cached_property
    def outside(self) -> frozenset[str]:
        """What of it was anomalous at any time."""
        return (
            frozenset(name for names in self._outside for name in names) if self._row and self._times else frozenset()
        )

    @cached_property
    def _times(self) -> Sequence[datetime]:
        return (self._row and self._row["times"]) or ()

    @cached_property
    def _outside(self) -> Sequence[Sequence[str]]:
        assert self._row is not None
        return [text.split(_SEPARATOR) if text else () for text in self._row["anomalous"]]

    @cached_property
    def _profiles(self) -> Sequence[Mapping[str, Any]]:
        assert self._row is not None
        return [decoded(columns) for columns in self._row["columns"] or [None] * len(self._times)]

    def _values(self, reading: Reading) -> Sequence[float | None]:
        assert self._row is not None
        if reading.metric is Metric.row_count:
            return self._row["row_counts"]  # type: ignore[no-any-return]  # asyncpg has no types
        if reading.metric is Metric.byte_size:
            return self._row["byte_sizes"]  # type: ignore[no-any-return]
        rows = self._row["row_counts"]
        return [
            _of_column(reading.metric, profile.get(reading.column or ""), count)
            for profile, count in zip(self._profiles, rows, strict=True)
        ]


def usable(anomalous: Sequence[str] | None, names: Collection[str]) -> int:
    """Of how many earlier points none of some values was found to be anomalous."""
    return sum(1 for text in anomalous or () if not text or not set(names) & set(text.split(_SEPARATOR)))


class Carried:
    """What was made of earlier points just now, which is not stored yet; of one moment and value it is the same."""

    def __init__(self) -> None:
        self._outside: dict[Any, dict[tuple[datetime, float], bool]] = {}

    def note(self, series: Any, at: datetime, value: float, *, is_outside: bool) -> None:
        self._outside.setdefault(series, {})[at, value] = is_outside

    def has_outside(self, series: Any) -> bool:
        return any(self._outside.get(series, {}).values())

    def onto(self, series: Any, points: list[Point]) -> list[Point]:
        """Points as they are now."""
        said = self._outside.get(series)
        if said is None:
            return points
        return [Point(at, value, said.get((at, value), was_outside)) for at, value, was_outside in points]


def points_of(
    times: Sequence[datetime] | None,
    values: Sequence[float] | None,
    anomalous: Sequence[str] | None,
    name: str,
    since: datetime,
) -> list[Point]:
    """A series of one kind of value, given latest first, as it is judged: oldest first."""
    listed = zip(times or (), values or (), anomalous or (), strict=True)
    found = [
        Point(at, float(value), bool(outside) and name in outside.split(_SEPARATOR))
        for at, value, outside in listed
        if at >= since
    ]
    return found[::-1]
