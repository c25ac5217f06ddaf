"""Reads the few facets that Marquez shows as fields; the rest stays text.

A facet may hold anything: what does not fit tells nothing, and never stops an answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

Facets = Mapping[str, Raw]
T = TypeVar("T")

# What a graph shows of a dataset.
SHOWN = ("documentation", "lifecycleStateChange")


class _Documentation(Struct):
    description: str | None = None


class _Lifecycle(Struct, rename="camel"):
    lifecycle_state_change: str


class _Tag(Struct):
    key: str
    value: str | None = None

    @property
    def name(self) -> str:
        return self.key if self.value in (None, "", "true") else f"{self.key}:{self.value}"


class _Tags(Struct):
    tags: list[_Tag]


class _Location(Struct):
    url: str


class _NominalTime(Struct, rename="camel"):
    nominal_start_time: datetime | None = None
    nominal_end_time: datetime | None = None


class _Base(Struct, rename={"deleted": "_deleted"}):
    deleted: bool = False


class _Part(Struct):
    facets: dict[str, Raw] | None = None


class _Event(Struct):
    run: _Part = msgspec.field(default_factory=_Part)
    job: _Part = msgspec.field(default_factory=_Part)


class EventFacets(Struct):
    """What the events of a run say of it and of its job."""

    run: dict[str, Raw] = {}
    job: dict[str, Raw] = {}

    def add(self, raw: bytes) -> None:
        """Take in one more event; the caller adds them in time order."""
        event = msgspec.json.decode(raw, type=_Event)
        _merge(self.run, event.run.facets or {})
        _merge(self.job, event.job.facets or {})


def _merge(known: dict[str, Raw], new: Mapping[str, Raw]) -> None:
    for name, body in new.items():
        if (base := _read(body, _Base)) is not None and base.deleted:
            known.pop(name, None)
        else:
            # A copy, so that the rest of the event can go.
            known[name] = Raw(bytes(body))


def description(facets: Facets) -> str | None:
    found = _get(facets, "documentation", _Documentation)
    return found.description if found else None


def lifecycle_state(facets: Facets) -> str | None:
    found = _get(facets, "lifecycleStateChange", _Lifecycle)
    return found.lifecycle_state_change if found else None


def location(facets: Facets) -> str | None:
    found = _get(facets, "sourceCodeLocation", _Location)
    return found.url if found else None


def tags(facets: Facets) -> list[str]:
    """Names of the tags that a job has."""
    found = _get(facets, "tags", _Tags)
    return sorted({tag.name for tag in found.tags}) if found else []


def nominal_times(facets: Facets) -> tuple[datetime | None, datetime | None]:
    found = _get(facets, "nominalTime", _NominalTime)
    return (_zoned(found.nominal_start_time), _zoned(found.nominal_end_time)) if found else (None, None)


def _zoned(at: datetime | None) -> datetime | None:
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)


def _get(facets: Facets, name: str, type_: type[T]) -> T | None:
    body = facets.get(name)
    return None if body is None else _read(body, type_)


def _read(body: Raw, type_: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.MsgspecError, RecursionError):
        return None
