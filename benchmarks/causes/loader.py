"""Builds the candidates of a failure from events, in memory: what a server does with SQL, over the same facts."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from benchmarks.causes.world import Symptom
from headgate.domain import evidence as weigh
from headgate.domain.cause import Candidate, DatasetRef, Evidence, EvidenceKind, Failure, JobRef

Json = dict[str, Any]
Names = tuple[str, ...]
MAX_DEPTH = 10
MAX_CANDIDATES = 500
HISTORY = 120
MAX_FRESH = 6
# Runs that were written over are asked only if they tell something.
TELLING = 0.2
IN_FORCE = timedelta(hours=24)


@dataclass(slots=True)
class Told:
    """A run as its events tell it."""

    id: str
    job: JobRef
    inputs: list[str]
    output: str
    started_at: datetime
    ended_at: datetime
    state: str
    sql: str
    rows: float | None = None
    size: float | None = None
    nulls: dict[str, float] = field(default_factory=dict)
    columns: Names = ()
    made_of: dict[str, list[tuple[str, str]]] | None = None
    error: str | None = None
    chain: Names = ()

    @property
    def duration_ms(self) -> float:
        return (self.ended_at - self.started_at).total_seconds() * 1000


@dataclass(slots=True)
class Produced:
    """The runs that wrote a dataset, by when they ended; those that failed apart."""

    done: list[Told] = field(default_factory=list)
    ends: list[datetime] = field(default_factory=list)
    failed: list[Told] = field(default_factory=list)
    tests: list[tuple[datetime, str, str | None]] = field(default_factory=list)

    def before(self, at: datetime) -> int:
        """How many runs had ended by then."""
        return bisect_right(self.ends, at)


class Loader:
    """Knows what the events told; answers what led to a failure."""

    def __init__(self, events: Iterable[Json]) -> None:
        self.datasets: dict[str, Produced] = {}
        self.runs: dict[str, Told] = {}
        self._started: dict[str, datetime] = {}
        for event in events:
            self._take(event)
        for produced in self.datasets.values():
            produced.done.sort(key=lambda run: run.ended_at)
            produced.ends = [run.ended_at for run in produced.done]

    def _take(self, event: Json) -> None:
        run, at = event["run"]["runId"], datetime.fromisoformat(event["eventTime"])
        if event["eventType"] == "START":
            self._started[run] = at
            return
        for dataset in event["inputs"]:
            self._take_tests(dataset, at)
        for dataset in event["outputs"]:
            told = _told(event, dataset, self._started.get(run, at), at)
            self.runs[run] = told
            produced = self.datasets.setdefault(told.output, Produced())
            (produced.done if told.state == "COMPLETE" else produced.failed).append(told)

    def _take_tests(self, dataset: Json, at: datetime) -> None:
        facet = dataset.get("inputFacets", {}).get("dataQualityAssertions")
        if facet is not None:
            failed = [each for each in facet["assertions"] if not each["success"]]
            tests = self.datasets.setdefault(_urn(dataset), Produced()).tests
            tests.extend((at, each["assertion"], each.get("column")) for each in failed)

    def scene(self, symptom: Symptom) -> tuple[Failure, list[Candidate]]:
        """The failure, and every run upstream of it as it was read at the time."""
        dataset = DatasetRef(symptom.dataset, symptom.dataset)
        is_run = symptom.type == "RunFailed"
        failure = Failure(
            symptom.type,
            symptom.observed_at,
            dataset,
            symptom.column,
            symptom.test,
            symptom.run_id if is_run else None,
            detail=symptom.detail,
        )
        walk = _Walk(self, failure)
        walk.begin(self.runs[symptom.run_id] if is_run else None)
        return failure, walk.candidates()

    def newest(self, dataset: str, at: datetime | None = None) -> Told | None:
        """The original's answer: the newest run of the dataset, as of a time or whenever it ran."""
        produced = self.datasets[dataset]
        runs = produced.done if at is None else produced.done[: produced.before(at)]
        return runs[-1] if runs else None


@dataclass(slots=True)
class _Found:
    key: str
    dataset: str
    depth: int
    run: Told | None
    read_at: datetime
    columns: set[str] = field(default_factory=set)
    via_column: bool = False
    evidence: list[Evidence] = field(default_factory=list)
    upstream: list[str] = field(default_factory=list)
    superseded: bool = False


class _Walk:
    """One walk upstream, level by level; each run once."""

    def __init__(self, loader: Loader, failure: Failure) -> None:
        self.loader, self.failure = loader, failure
        self.found: dict[str, _Found] = {}
        self.open: deque[_Found] = deque()

    def begin(self, failed: Told | None) -> None:
        assert self.failure.dataset is not None
        column = {self.failure.column} if self.failure.column else set()
        at = self.failure.observed_at
        if failed is not None:
            self._add(self._with_evidence(_Found(failed.id, failed.output, 0, failed, at, column, bool(column))))
        else:
            for found in self._producers(self.failure.dataset.id, at, 0):
                found.columns, found.via_column = set(column), bool(column)
                self._add(found)
        while self.open:
            self._climb(self.open.popleft())

    def _add(self, found: _Found) -> _Found:
        known = self.found.get(found.key)
        if known is not None:
            known.superseded = known.superseded and found.superseded
            if found.columns - known.columns:
                known.columns |= found.columns
                known.via_column = known.via_column or found.via_column
                self.open.append(known)
            return known
        if len(self.found) < MAX_CANDIDATES:
            self.found[found.key] = found
            self.open.append(found)
        return found

    def _climb(self, found: _Found) -> None:
        run = found.run
        if run is None or found.depth >= MAX_DEPTH:
            return
        read_at = found.read_at if found.key.startswith("late:") else run.started_at
        for name in run.inputs:
            columns, is_told = self._columns(found, name)
            for above in self._producers(name, read_at, found.depth + 1, self._read_before(run)):
                above.columns, above.via_column = set(columns), is_told
                added = self._add(above)
                if added.key not in found.upstream:
                    found.upstream.append(added.key)

    def _read_before(self, run: Told) -> datetime:
        """When the job last read its inputs, before this run: what came since is new to it."""
        produced = self.loader.datasets[run.output]
        count = produced.before(run.started_at)
        return produced.done[count - 1].started_at if count else run.started_at

    def _columns(self, found: _Found, name: str) -> tuple[set[str], bool]:
        """Columns of an input that those of the candidate are made of, and whether lineage tells so or only names."""
        run = found.run
        if run is None or not found.columns:
            return set(), False
        made_of = run.made_of if run.made_of is not None else self._known_lineage(run)
        if made_of is not None:
            columns = {field for column in found.columns for urn, field in made_of.get(column, ()) if urn == name}
            return columns, found.via_column and bool(columns)
        produced = self.loader.datasets.get(name)
        known = produced.done[-1].columns if produced is not None and produced.done else ()
        return {column for column in found.columns if column in known}, False

    def _known_lineage(self, run: Told) -> dict[str, list[tuple[str, str]]] | None:
        """A run that failed tells no columns: those of the last one that did count."""
        produced = self.loader.datasets[run.output]
        done = produced.done[: produced.before(run.started_at)]
        return done[-1].made_of if done else None

    def _producers(self, name: str, read_at: datetime, depth: int, since: datetime | None = None) -> Iterator[_Found]:
        """The runs whose output was new when it was read, a failed one since, or the lack of one."""
        produced = self.loader.datasets.get(name)
        if produced is None:
            return
        count = produced.before(read_at)
        last = produced.done[count - 1] if count else None
        if last is not None:
            yield self._with_evidence(_Found(last.id, name, depth, last, read_at))
        for run in produced.done[max(0, count - _fresh(produced, count, read_at, since)) : max(0, count - 1)]:
            old = self._with_evidence(_Found(run.id, name, depth, run, read_at, superseded=True))
            if any(each.weight >= TELLING for each in old.evidence):
                yield old
        ended = last.ended_at if last is not None else datetime.min.replace(tzinfo=read_at.tzinfo)
        failed = [run for run in produced.failed if ended < run.ended_at <= read_at]
        if failed:
            yield self._with_evidence(_Found(failed[-1].id, name, depth, failed[-1], read_at))
        elif last is not None and depth > 0 and (late := self._late(produced, count, read_at)) is not None:
            yield _Found(f"late:{name}", name, depth, last, read_at, evidence=[late])

    def _late(self, produced: Produced, count: int, read_at: datetime) -> Evidence | None:
        ends = produced.ends[max(0, count - 21) : count]
        gaps = sorted((b - a).total_seconds() for a, b in pairwise(ends))
        if len(gaps) < 5:
            return None
        usual, most = gaps[len(gaps) // 2], gaps[int(len(gaps) * 0.8)]
        expected_by = ends[-1] + timedelta(seconds=most + 120)
        came_at = next((at for at in produced.ends[count : count + 1] if at <= self.failure.observed_at), None)
        return weigh.run_late(ends[-1], expected_by, read_at, usual, came_at=came_at)

    def candidates(self) -> list[Candidate]:
        return [self._candidate(found) for found in self.found.values()]

    def _candidate(self, found: _Found) -> Candidate:
        run, is_late = found.run, found.key.startswith("late:")
        assert run is not None
        return Candidate(
            key=found.key,
            dataset=DatasetRef(found.dataset, found.dataset),
            depth=found.depth,
            run_id=None if is_late else run.id,
            job=run.job,
            started_at=None if is_late else run.started_at,
            ended_at=None if is_late else run.ended_at,
            state=None if is_late else run.state,
            via_column=found.via_column,
            columns=frozenset(found.columns),
            evidence=tuple(found.evidence),
            upstream=tuple(found.upstream),
            is_superseded=found.superseded,
            is_measured=run.rows is not None and bool(run.nulls),
            chain=run.chain,
        )

    def _with_evidence(self, found: _Found) -> _Found:
        known = self.found.get(found.key)
        if known is not None:
            found.evidence = known.evidence
        elif found.run is not None:
            found.evidence = list(self._evidence(found, found.run))
        return found

    def _evidence(self, found: _Found, run: Told) -> Iterator[Evidence]:
        produced = self.loader.datasets[found.dataset]
        link = f"/runs/{run.id}"
        before = produced.done[: produced.before(run.started_at)]
        if run.state != "COMPLETE":
            after = produced.before(run.ended_at)
            made_up_at = produced.ends[after] if after < len(produced.ends) else None
            if made_up_at is not None and made_up_at > self.failure.observed_at:
                made_up_at = None
            yield weigh.run_failed(run.state, run.error, made_up_at=made_up_at, link=link, at=run.ended_at)
        else:
            yield from _figures(run, _alike(run, before[-HISTORY:]), link)
        yield from _changes(run, before, link)
        if found.depth > 0:
            yield from self._tests(produced, run, link)

    def _tests(self, produced: Produced, run: Told, link: str) -> Iterator[Evidence]:
        place = produced.before(run.ended_at)
        until = produced.ends[place] if place < len(produced.ends) else self.failure.observed_at
        until = min(until, self.failure.observed_at)
        failed = [(name, column) for at, name, column in produced.tests if run.ended_at <= at <= until]
        for column in dict.fromkeys(column for _, column in failed):
            names = list(dict.fromkeys(name for name, other in failed if other == column))
            told = weigh.failing_tests(names, column=column, link=link, at=run.ended_at)
            if told is not None:
                yield told


def _fresh(produced: Produced, count: int, read_at: datetime, since: datetime | None) -> int:
    """How many runs may be in what was read: those since the job read before, and those of the last day."""
    if since is None:
        return 1
    return min(MAX_FRESH, max(1, count - produced.before(min(since, read_at - IN_FORCE))))


def _alike(run: Told, before: Sequence[Told]) -> Sequence[Told]:
    """Weekends are compared with weekends once there are some, as a detector that knows weekdays would."""
    is_weekend = run.started_at.weekday() >= 5
    alike = [each for each in before if (each.started_at.weekday() >= 5) is is_weekend]
    return alike if len(alike) >= 4 else before


def _figures(run: Told, before: Sequence[Told], link: str) -> Iterator[Evidence]:
    figures: list[tuple[EvidenceKind, float | None, list[float | None], str | None]] = [
        (EvidenceKind.row_count, run.rows, [each.rows for each in before], None),
        (EvidenceKind.volume, run.size, [each.size for each in before], None),
        (EvidenceKind.duration, run.duration_ms, [each.duration_ms for each in before], None),
    ]
    for name, share in run.nulls.items():
        figures.append((EvidenceKind.null_share, share, [each.nulls.get(name) for each in before], name))
    for kind, value, history, column in figures:
        known = [each for each in history if each is not None]
        if value is None or len(known) < 4:
            continue
        expected, spread = _usual(known, 0.01 if kind is EvidenceKind.null_share else 0.05)
        told = weigh.measured(
            kind, value, expected, (value - expected) / spread, column=column, link=link, at=run.ended_at
        )
        if told is not None:
            yield told


def _usual(values: Sequence[float], floor: float) -> tuple[float, float]:
    middle = statistics.median(values)
    spread = 1.4826 * statistics.median(abs(value - middle) for value in values)
    # Null shares are far below 1, so their floor is not relative.
    return middle, max(spread, floor * abs(middle) if middle > 1 else floor, 1e-6)


def _changes(run: Told, before: Sequence[Told], link: str) -> Iterator[Evidence]:
    """Changes of schema and SQL that came with this run or within a day before it, and are still in force."""
    recent = [each for each in before if run.ended_at - each.ended_at < IN_FORCE]
    older = before[: len(before) - len(recent)]
    if not before:
        return
    base = older[-1] if older else before[0]
    if run.state == "COMPLETE":
        removed = [name for name in base.columns if name not in run.columns]
        added = [name for name in run.columns if name not in base.columns]
        yield from weigh.schema_diff(removed=removed, added=added, breaking=bool(removed), link=link, at=run.ended_at)
    if run.sql != base.sql:
        yield weigh.code_changed("its SQL", link=link, at=run.ended_at)


def _told(event: Json, dataset: Json, started_at: datetime, at: datetime) -> Told:
    facets, measures = dataset.get("facets", {}), dataset.get("outputFacets", {}).get("outputStatistics", {})
    quality = facets.get("dataQualityMetrics", {})
    rows = measures.get("rowCount", quality.get("rowCount"))
    lineage = facets.get("columnLineage")
    run_facets = event["run"].get("facets", {})
    return Told(
        id=event["run"]["runId"],
        job=JobRef(event["job"]["namespace"], event["job"]["name"]),
        inputs=[_urn(each) for each in event["inputs"]],
        output=_urn(dataset),
        started_at=started_at,
        ended_at=at,
        state=event["eventType"],
        sql=event["job"].get("facets", {}).get("sql", {}).get("query", ""),
        rows=rows,
        size=measures.get("size"),
        nulls=_shares(quality.get("columnMetrics", {}), rows),
        columns=tuple(each["name"] for each in facets.get("schema", {}).get("fields", ())),
        made_of=None if lineage is None else {name: _made_of(told) for name, told in lineage["fields"].items()},
        error=run_facets.get("errorMessage", {}).get("message"),
        chain=_chain(run_facets.get("parent")),
    )


def _shares(told: Json, rows: float | None) -> dict[str, float]:
    return {name: each["nullCount"] / rows for name, each in told.items()} if rows else {}


def _made_of(told: Json) -> list[tuple[str, str]]:
    return [(_urn(each), each["field"]) for each in told["inputFields"]]


def _chain(parent: Json | None) -> Names:
    if parent is None:
        return ()
    jobs = [parent["root"]["job"]["name"]] if "root" in parent else []
    return (*jobs, parent["job"]["name"])


def _urn(dataset: Json) -> str:
    return f"{dataset['namespace']}/{dataset['name']}"
