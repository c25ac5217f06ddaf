"""Gathers what is known of each producer. What follows from it is decided in `headgate.domain.conformance`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import Struct

from headgate.domain.conformance import Evidence, Marked, findings, grade, producer_version, spec_version
from headgate.openlineage.marks import INVALID, LENIENT
from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.events.schemas import (
    ClockOut,
    ConformanceOut,
    ConformancePage,
    FacetOut,
    FindingOut,
    LenientKindOut,
    LenientOut,
    ProducerRunsOut,
    ReasonCountOut,
    VersionOut,
)
from headgate.server.events.stats import HOUR, shown_name, whole_hour
from headgate.server.events.store import COUNTED_CHARS

Q = Queries("headgate.server.events")

_MAX_ROWS = 5000
_NEWEST_SAMPLES, _SAMPLES_EACH, _MAX_SAMPLES = 500, 5, 1000
# Runs are read one by one; of a busy organisation only those that came with so many of its newest events.
_RUN_EVENTS, _MAX_RUNS = 1_000_000, 500_000
_LENIENT_KIND = f"{LENIENT}:"


@dataclass(slots=True)
class _Producer:
    """All that is known of the producers of one name."""

    name: str
    evidence: Evidence = field(default_factory=Evidence)
    versions: dict[str, VersionOut] = field(default_factory=dict)
    spec_versions: set[str] = field(default_factory=set)
    client_versions: set[str] = field(default_factory=set)
    sampled: int = 0
    accepted: int = 0


class ConformanceStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._producers: dict[str, _Producer] = {}

    async def read(self, days: int, now: datetime) -> ConformancePage:
        """Every producer that was heard of in the last days, those with most events first."""
        since = whole_hour(now) - days * 24 * HOUR
        tallies = await self._conn.fetch(Q.list_tallies, self._organization_id, since, _MAX_ROWS)
        for row in tallies:
            self._count(row)
        for row in await self._conn.fetch(Q.list_marks, self._organization_id, since, _MAX_ROWS):
            self._mark(row)
        runs_since = await self._runs_since(since)
        for row in await self._conn.fetch(Q.tally_runs, self._organization_id, runs_since, _MAX_RUNS):
            self._count_runs(row)
        await self._sample(since)
        return ConformancePage(
            days=days,
            since=since,
            runs_since=runs_since,
            items=[_judged(producer) for producer in self._by_events()],
            truncated=len(tallies) == _MAX_ROWS,
            next_cursor=None,
        )

    def _by_events(self) -> list[_Producer]:
        return sorted(self._producers.values(), key=lambda found: (-found.evidence.events, found.name))

    def _of(self, producer: str) -> _Producer:
        name = shown_name(producer)
        return self._producers.setdefault(name, _Producer(name))

    def _count(self, row: Record) -> None:
        found = self._of(row["producer"])
        evidence = found.evidence
        evidence.events += row["events"]
        if row["outcome"] == "accepted":
            found.accepted += row["events"]
        else:
            evidence.refused[row["reason"]] = evidence.refused.get(row["reason"], 0) + row["events"]
        evidence.ahead += row["ahead"]
        evidence.late += row["late"]
        evidence.max_ahead_s = max(evidence.max_ahead_s, row["max_ahead_s"])
        evidence.max_late_s = max(evidence.max_late_s, row["max_late_s"])
        _see_version(found, row)

    def _mark(self, row: Record) -> None:
        evidence = self._of(row["producer"]).evidence
        mark = row["mark"]
        if mark == LENIENT:
            evidence.lenient = _more(evidence.lenient, row)
        elif mark.startswith(INVALID):
            _add(evidence.invalid_facets, mark.removeprefix(INVALID), row)
        elif mark.startswith(_LENIENT_KIND):
            _add(evidence.lenient_kinds, mark.removeprefix(_LENIENT_KIND), row)

    async def _runs_since(self, since: datetime) -> datetime:
        """Since when runs are looked at: since the beginning of the window, unless too much has come since."""
        counted = await self._conn.fetch(Q.count_by_hour, self._organization_id, since)
        events = 0
        for row in reversed(counted):
            events += row["events"]
            if events > _RUN_EVENTS:
                busy: datetime = row["hour"]
                return busy
        return since

    def _count_runs(self, row: Record) -> None:
        if shown_name(row["producer"]) not in self._producers:
            return
        evidence = self._of(row["producer"]).evidence
        evidence.runs += row["runs"]
        evidence.missing_start += row["missing_start"]
        evidence.unfinished += row["unfinished"]
        evidence.active_after_end += row["active_after_end"]

    async def _sample(self, since: datetime) -> None:
        span = await self._conn.fetchrow(Q.find_id_range, self._organization_id, since, None, None, None, None)
        if span["first_id"] is None:
            return
        limits = (_NEWEST_SAMPLES, _SAMPLES_EACH, _MAX_SAMPLES)
        ids = await self._conn.fetch(Q.list_samples, self._organization_id, since, span["first_id"], *limits)
        raws = await self._conn.fetch(Q.list_raws, self._organization_id, [row["id"] for row in ids])
        for row in raws:
            self._see(unpack(row["raw"]))

    def _see(self, raw: bytes) -> None:
        told = read_told(raw)
        found = self._producers.get(shown_name(told.producer[:COUNTED_CHARS]))
        if found is None:
            return
        found.sampled += 1
        if told.spec_version is not None:
            found.spec_versions.add(told.spec_version)
        if told.client_version is not None:
            found.client_versions.add(told.client_version)


class Told(Struct, frozen=True):
    """What an event says of whoever made it."""

    producer: str = ""
    spec_version: str | None = None
    client_version: str | None = None


class _Run(Struct):
    facets: dict[str, msgspec.Raw] | None = None


class _Event(Struct):
    producer: str = ""
    schemaURL: str | None = None  # noqa: N815 - the wire's name
    run: _Run | None = None


class _Engine(Struct, rename="camel"):
    openlineage_adapter_version: str | None = None


def read_told(raw: bytes) -> Told:
    """The producer, and the versions it names. What is not as expected is left out: it is judged elsewhere."""
    try:
        event = msgspec.json.decode(raw, type=_Event)
    except (msgspec.MsgspecError, RecursionError):
        return Told()
    facets = (event.run and event.run.facets) or {}
    return Told(event.producer, spec_version(event.schemaURL), _client_version(facets.get("processing_engine")))


def _client_version(facet: msgspec.Raw | None) -> str | None:
    try:
        return None if facet is None else msgspec.json.decode(facet, type=_Engine).openlineage_adapter_version
    except (msgspec.MsgspecError, RecursionError):
        return None


def _see_version(found: _Producer, row: Record) -> None:
    known = found.versions.get(row["producer"])
    if known is None:
        found.versions[row["producer"]] = VersionOut(
            version=producer_version(row["producer"]),
            producer=row["producer"],
            events=row["events"],
            first_seen_at=row["first_at"],
            last_seen_at=row["last_at"],
        )
        return
    known.events += row["events"]
    known.first_seen_at = min(known.first_seen_at, row["first_at"])
    known.last_seen_at = max(known.last_seen_at, row["last_at"])


def _add(into: dict[str, Marked], name: str, row: Record) -> None:
    into[name] = _more(into.get(name, Marked()), row)


def _more(marked: Marked, row: Record) -> Marked:
    return Marked(marked.events + row["events"], max(marked.last_id or 0, row["last_id"]))


def _judged(found: _Producer) -> ConformanceOut:
    evidence = found.evidence
    versions = sorted(found.versions.values(), key=lambda version: version.last_seen_at, reverse=True)
    evidence.versions = list(dict.fromkeys(version.version for version in versions if version.version))
    concluded = findings(evidence)
    return ConformanceOut(
        name=found.name,
        version=versions[0].version,
        grade=grade(evidence, concluded),
        findings=[FindingOut(**asdict(finding)) for finding in concluded],
        events=evidence.events,
        accepted=found.accepted,
        refused=[ReasonCountOut(reason=reason, events=events) for reason, events in _most(evidence.refused.items())],
        first_seen_at=min(version.first_seen_at for version in versions),
        last_seen_at=versions[0].last_seen_at,
        versions=versions,
        spec_versions=sorted(found.spec_versions),
        client_versions=sorted(found.client_versions),
        sampled=found.sampled,
        invalid_facets=_facets(evidence),
        lenient=_lenient(evidence),
        clock=ClockOut(
            ahead=evidence.ahead,
            max_ahead_s=evidence.max_ahead_s,
            late=evidence.late,
            max_late_s=evidence.max_late_s,
        ),
        runs=ProducerRunsOut(
            examined=evidence.runs,
            missing_start=evidence.missing_start,
            unfinished=evidence.unfinished,
            active_after_end=evidence.active_after_end,
        ),
    )


def _facets(evidence: Evidence) -> list[FacetOut]:
    return [
        FacetOut(facet=facet, events=marked.events, last_event_id=marked.last_id)
        for facet, marked in sorted(evidence.invalid_facets.items())
    ]


def _lenient(evidence: Evidence) -> LenientOut:
    kinds = [
        LenientKindOut(kind=kind, events=marked.events, last_event_id=marked.last_id)
        for kind, marked in sorted(evidence.lenient_kinds.items())
    ]
    return LenientOut(events=evidence.lenient.events, kinds=kinds)


def _most(counts: Iterable[tuple[str, int]]) -> Sequence[tuple[str, int]]:
    return sorted(counts, key=lambda count: (-count[1], count[0]))
