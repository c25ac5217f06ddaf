"""Judges how well a producer keeps to OpenLineage: what was found, how bad it is, and what to change.

Given counts, the findings and the grade follow; where the counts come from is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

# Errors that touch at least this share of a producer's events make the worst grade.
_BAD_SHARE = 0.05
_VERSION = re.compile(r"v?\d+(?:\.\d+)*(?:[-+.].*)?")
_SPEC_VERSION = re.compile(r"/spec/(\d+-\d+-\d+)/")


class Severity(StrEnum):
    """An error lost something, a warning misleads whoever reads, info is worth knowing."""

    error = "error"
    warning = "warning"
    info = "info"


class Grade(StrEnum):
    A = "A"
    B = "B"
    C = "C"
    D = "D"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at; `event_id` is the latest event that shows it, where one is known."""

    code: str
    severity: Severity
    message: str
    hint: str
    count: int
    event_id: int | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """How many events have a mark, and the latest of them."""

    events: int = 0
    last_id: int | None = None


@dataclass(slots=True)
class Evidence:
    """What is known of one producer in a window of time."""

    events: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    invalid_facets: dict[str, Marked] = field(default_factory=dict)
    lenient: Marked = field(default_factory=Marked)
    lenient_kinds: dict[str, Marked] = field(default_factory=dict)
    ahead: int = 0
    max_ahead_s: float = 0.0
    late: int = 0
    max_late_s: float = 0.0
    runs: int = 0
    missing_start: int = 0
    unfinished: int = 0
    active_after_end: int = 0
    versions: Sequence[str] = ()


_REFUSALS: Mapping[str, tuple[str, str]] = {
    "fields.invalid": ("fields were missing or wrong", "compare the events with the OpenLineage schema 2-0-2"),
    "body.unparsable": ("the body was no valid JSON", "send each event as one JSON document in UTF-8"),
    "body.too_large": ("the body was too large", "send smaller batches, or leave large facets out"),
    "body.wrong_encoding": ("the encoding was not understood", "send JSON, plain or with gzip"),
    "run.sequence": ("the events of a run contradicted each other", "send one START first and one terminal event last"),
    "run.ended_otherwise": ("the run had ended in another state", "send a new attempt under a new runId"),
    "run.after_end": ("the run had ended before", "send nothing for a run after its terminal event; check the clock"),
}
_UNKNOWN_REFUSAL = ("of another reason", "see the refused events for what was wrong with them")

_ALLOWANCES: Mapping[str, tuple[str, str]] = {
    "no_schema_url": ("have no schemaURL", "set schemaURL to the version of the specification you follow"),
    "no_time_zone": ("have an eventTime without a time zone", "send eventTime with an offset, such as a trailing Z"),
    "bare_facet": ("have facets without _producer and _schemaURL", "set both on every facet, custom ones included"),
    "loose_part": ("have null where a value belongs", "leave out what has no value"),
}
_UNKNOWN_ALLOWANCE = ("were accepted only because the organisation is lenient", "follow the OpenLineage schema 2-0-2")


def findings(evidence: Evidence) -> list[Finding]:
    """Everything worth saying about a producer, the worst first, then what concerns most events."""
    found = [
        *_refusals(evidence),
        *_invalid_facets(evidence),
        *_allowances(evidence),
        *_runs(evidence),
        *_times(evidence),
        *_versions(evidence),
    ]
    order = list(Severity)
    return sorted(found, key=lambda finding: (order.index(finding.severity), -finding.count, finding.code))


def grade(evidence: Evidence, found: Sequence[Finding]) -> Grade:
    """A: nothing to change; B: warnings only; C: errors; D: errors in at least one of twenty events."""
    errors = [finding.count for finding in found if finding.severity is Severity.error]
    if errors:
        is_bad = max(errors) >= _BAD_SHARE * max(evidence.events, 1)
        return Grade.D if is_bad else Grade.C
    return Grade.B if any(finding.severity is Severity.warning for finding in found) else Grade.A


def _refusals(evidence: Evidence) -> Iterator[Finding]:
    for reason, count in evidence.refused.items():
        why, hint = _REFUSALS.get(reason, _UNKNOWN_REFUSAL)
        message = f"{_events(count)} {_were(count)} refused because {why}"
        if reason not in _REFUSALS:
            message = f"{_events(count)} {_were(count)} refused with {reason!r}"
        yield Finding(f"refused:{reason}", Severity.error, message, hint, count)


def _invalid_facets(evidence: Evidence) -> Iterator[Finding]:
    for facet, marked in evidence.invalid_facets.items():
        yield Finding(
            f"invalid_facet:{facet}",
            Severity.error,
            f"the facet {facet!r} of {_events(marked.events)} does not fit its schema, so nothing was read from it",
            f"send {facet!r} as its OpenLineage schema says; the latest such event shows what came",
            marked.events,
            marked.last_id,
        )


def _allowances(evidence: Evidence) -> Iterator[Finding]:
    kinds = dict(evidence.lenient_kinds)
    if not kinds and evidence.lenient.events:
        kinds = {"unknown": evidence.lenient}
    for kind, marked in kinds.items():
        what, hint = _ALLOWANCES.get(kind, _UNKNOWN_ALLOWANCE)
        message = f"{_events(marked.events)} {what}; strict rules would refuse {_them(marked.events)}"
        yield Finding(f"lenient:{kind}", Severity.warning, message, hint, marked.events, marked.last_id)


def _runs(evidence: Evidence) -> Iterator[Finding]:
    if count := evidence.missing_start:
        yield Finding(
            "missing_start",
            Severity.warning,
            f"{count:,} of {_runs_of(evidence.runs)} never sent START, so their duration is not known",
            "send START when the work begins, under the runId of the later events",
            count,
        )
    if count := evidence.unfinished:
        yield Finding(
            "unfinished_runs",
            Severity.warning,
            f"{count:,} of {_runs_of(evidence.runs)} sent nothing for a day and no COMPLETE, FAIL or ABORT",
            "send a terminal event also when the process is killed, or mark the job as STREAMING",
            count,
        )
    if count := evidence.active_after_end:
        yield Finding(
            "active_after_end",
            Severity.warning,
            f"{count:,} of {_runs_of(evidence.runs)} sent events later than their own end",
            "send the terminal event last, and take its time from the same clock",
            count,
        )


def _times(evidence: Evidence) -> Iterator[Finding]:
    if count := evidence.ahead:
        yield Finding(
            "clock_ahead",
            Severity.warning,
            f"{_events(count)} came before {_their(count)} own time, by up to {spell(evidence.max_ahead_s)}",
            "synchronise the clock of the machine that sends, and check its time zone",
            count,
        )
    if count := evidence.late:
        yield Finding(
            "late_events",
            Severity.info,
            f"{_events(count)} came more than an hour after {_their(count)} own time, by up to "
            f"{spell(evidence.max_late_s)}",
            "nothing, if these are replayed; else look for a queue that holds events back",
            count,
        )


def _versions(evidence: Evidence) -> Iterator[Finding]:
    if (count := len(evidence.versions)) > 1:
        yield Finding(
            "several_versions",
            Severity.info,
            f"{count} versions are in use: {', '.join(evidence.versions[:5])}{', …' if count > 5 else ''}",
            "update the older ones, so that all jobs are described in the same way",
            count,
        )


def producer_version(url: str) -> str | None:
    """The version in a producer's URL, if it has one.

    >>> producer_version("https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt")
    '1.54.0'
    """
    parts = url.split("#")[0].split("?")[0].split("/")
    return next((part for part in reversed(parts) if _VERSION.fullmatch(part)), None)


def spec_version(schema_url: object) -> str | None:
    """The version of the specification that an event names.

    >>> spec_version("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent")
    '2-0-2'
    """
    found = _SPEC_VERSION.search(schema_url) if isinstance(schema_url, str) else None
    return found.group(1) if found else None


def spell(seconds: float) -> str:
    """A length of time in the largest unit that fits it.

    >>> spell(7200)
    '2 hours'
    """
    span = timedelta(seconds=seconds)
    for unit, name in ((timedelta(days=1), "day"), (timedelta(hours=1), "hour"), (timedelta(minutes=1), "minute")):
        if span >= unit:
            return _number(span // unit, name)
    return _number(max(1, round(seconds)), "second")


def _number(count: int, name: str) -> str:
    return f"{count:,} {name}" if count == 1 else f"{count:,} {name}s"


def _events(count: int) -> str:
    return _number(count, "event")


def _runs_of(count: int) -> str:
    return _number(count, "run")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _their(count: int) -> str:
    return "its" if count == 1 else "their"
