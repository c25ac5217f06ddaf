"""Measurements of one event that are of the same dataset and partition: parts that add up, or one thing told twice.

Only within an event: what a later event of the run says replaces what was said before, so that an event which comes
twice, or late, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headgate.domain.names import split_location
from headgate.openlineage.facts import Metric

_LARGEST = 2**63 - 1

Place = tuple[str, str] | str
Number = int | float


def joined(metrics: list[Metric]) -> list[Metric]:
    """One a dataset, direction and partition key."""
    if len(metrics) < 2:
        return metrics
    found: dict[tuple[Any, ...], list[Metric]] = {}
    for metric in metrics:
        found.setdefault((*metric.dataset[:3], metric.direction), []).append(metric)
    if len(found) == len(metrics):
        return metrics
    return [_sum(_parts(same)) for same in found.values()]


def _parts(metrics: Sequence[Metric]) -> list[Metric]:
    """What is to be added. A place may be named twice: two writes add up, but the same figures are the same write.

    A profile tells of a place as it is: of two, as where a table is read and written, the later one counts.
    """
    places: dict[Place, list[Metric]] = {}
    for metric in metrics:
        seen = places.setdefault(_place(metric), [])
        if metric.direction == "profile":
            seen[:] = [metric]
        elif all(_figures(metric) != _figures(each) for each in seen):
            seen.append(metric)
    return [metric for seen in places.values() for metric in seen]


def _place(metric: Metric) -> Place:
    sent = metric.sent_urn or metric.dataset.urn
    return split_location(sent) or sent


def _figures(metric: Metric) -> tuple[Any, ...]:
    return metric.row_count, metric.byte_size, metric.file_count, metric.partition_count, metric.columns


def _sum(parts: Sequence[Metric]) -> Metric:
    first = parts[0]
    if len(parts) == 1:
        return first
    return Metric(
        first.dataset,
        first.direction,
        row_count=_total(part.row_count for part in parts),
        byte_size=_total(part.byte_size for part in parts),
        file_count=_total(part.file_count for part in parts),
        partition_count=_total(part.partition_count for part in parts),
        columns=_columns([part.columns for part in parts if part.columns]),
    )


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(sum(known), _LARGEST) if known else None


# How figures of a column join. The distinct values of all parts are at least those of the part with most of them; what
# is not here, such as quantiles, cannot be told from the parts.
_JOINS: Mapping[str, Callable[[Sequence[Number]], Number]] = {
    "nullCount": sum,
    "count": sum,
    "sum": sum,
    "distinctCount": max,
    "min": min,
    "max": max,
}


def _columns(parts: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, Any] | None:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: _column([part[name] for part in parts if name in part]) for name in names} or None


def _column(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if len(parts) == 1:
        return dict(parts[0])
    told = {name: [part[name] for part in parts if _is_number(part.get(name))] for name in _JOINS}
    return {name: _JOINS[name](values) for name, values in told.items() if values}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
