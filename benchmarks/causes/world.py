"""Runs a simulated platform: what each run reads as of its start, what it writes, which tests then fail, and why."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

from benchmarks.causes.plants import WARM_UP_DAYS, Plant, plant
from benchmarks.causes.shape import Dataset, Source, Test, build

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
JOBS = "etl"
DATA = "postgres://warehouse:5432"
Taint = tuple[int, bool]
NO_TAINT: frozenset[Taint] = frozenset()


class Symptom(NamedTuple):
    """A failed test, or a failed run, that a planted cause brought about: its first of that kind on that dataset."""

    type: str
    dataset: str
    observed_at: datetime
    run_id: str
    job: str
    test: str | None = None
    column: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Planted:
    """The truth: whose runs were the cause. A late parent has no run to blame, only a job."""

    kind: str
    dataset: str
    job: str
    run_ids: frozenset[str]
    symptoms: tuple[Symptom, ...]
    scored: Symptom


@dataclass(slots=True)
class Version:
    """What a run left behind."""

    ended_at: datetime
    rows: float
    nulls: list[float]
    duplicates: float
    data_at: datetime
    absent: frozenset[int]
    taints: frozenset[Taint]


@dataclass(slots=True)
class Run:
    """A run as it is told: nothing in it says why."""

    id: str
    dataset: int
    scheduled_at: datetime
    started_at: datetime
    ended_at: datetime
    state: str
    sql: int
    version: Version | None = None
    added: int = 0
    error: str | None = None


@dataclass(slots=True)
class Check:
    """A run of tests on a dataset."""

    id: str
    dataset: int
    at: datetime
    results: list[tuple[Test, bool]]


@dataclass
class World:
    datasets: list[Dataset]
    runs: list[Run]
    checks: list[Check]
    planted: list[Planted]
    seed: int

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """OpenLineage events, by time."""
        # Whoever tells of a world has to know it, so it is asked for only here.
        from benchmarks.causes.events import tell

        return tell(self)


@dataclass(slots=True)
class State:
    """What is known of a dataset while time goes on."""

    versions: list[Version] = field(default_factory=list)
    ends: list[datetime] = field(default_factory=list)
    sql: int = 0
    added: int = 0
    absent: frozenset[int] = frozenset()
    usual: float = 0.0
    last_read_at: datetime = BEGIN
    stale: Taint | None = None
    least: float = math.inf
    most: float = 0.0
    worst_nulls: list[float] = field(default_factory=list)
    oldest: timedelta = timedelta(0)
    checked_on: int = -1

    def at(self, when: datetime) -> int:
        """Place of the version that a reader sees who starts now."""
        return bisect_right(self.ends, when) - 1


# What failed, by dataset and name, and on which day.
Failed = tuple[int, str, int]


def simulate(seed: int, datasets: int, days: int = 30) -> World:
    """A platform of so many datasets over so many days, the same for the same seed.

    What fails on the same day without any of its causes is nobody's symptom.
    """
    return _Simulation(seed, datasets, days, failed_by_chance(seed, datasets, days)).run().world()


def failed_by_chance(seed: int, datasets: int, days: int = 30) -> frozenset[Failed]:
    """What fails on the same platform if nothing is planted: runs are late and fail by chance, too."""
    return frozenset(_Simulation(seed, datasets, days, is_planted=False).run().failed)


class _Simulation:
    def __init__(
        self, seed: int, count: int, days: int, by_chance: Set[Failed] = frozenset(), *, is_planted: bool = True
    ) -> None:
        self.name = f"causes {seed} {count} {days}"
        self.rng = Random(self.name)
        self.seed, self.days, self.by_chance = seed, days, by_chance
        self.datasets = build(self.rng, count)
        planted = plant(self.rng, self.datasets, days)
        self.plants = {made.id: made for made in planted if is_planted}
        self.by_slot = {(p.dataset, p.slot + more): p for p in self.plants.values() for more in range(p.slots)}
        self.failed: set[Failed] = set()
        self.states = [State() for _ in self.datasets]
        self.runs: list[Run] = []
        self.checks: list[Check] = []
        self.queue: list[tuple[datetime, int, str, int, int, int]] = []
        self.number = 0
        self.blamed: dict[int, set[str]] = {id_: set() for id_ in self.plants}
        self.symptoms: dict[int, dict[tuple[int, str], Symptom]] = {id_: {} for id_ in self.plants}

    def run(self) -> _Simulation:
        for dataset in self.datasets:
            self._begin(dataset)
            self._schedule(dataset, 0)
        while self.queue:
            at, _, what, place, slot, attempt = heapq.heappop(self.queue)
            # Chance is the same for the same run, whatever else has happened.
            self.rng = Random(f"{self.name} {what} {place} {slot} {attempt}")
            if what == "run":
                self._run(self.datasets[place], slot, attempt, at)
            else:
                self._check(self.datasets[place], at, slot, repeat=attempt)
        return self

    def world(self) -> World:
        self.rng = Random(f"{self.name} scored")
        planted = [made for p in self.plants.values() if (made := self._planted(p)) is not None]
        return World(self.datasets, self.runs, self.checks, planted, self.seed)

    def _planted(self, plant: Plant) -> Planted | None:
        symptoms = tuple(self.symptoms[plant.id].values())
        if not symptoms:
            return None
        dataset = self.datasets[plant.dataset]
        run_ids = frozenset(self.blamed[plant.id])
        return Planted(plant.kind, urn(dataset), dataset.job, run_ids, symptoms, self.rng.choice(symptoms))

    def _id(self) -> str:
        return str(UUID(int=self.rng.getrandbits(128), version=4))

    def _push(self, at: datetime, what: str, place: int, slot: int, attempt: int = 0) -> None:
        self.number += 1
        heapq.heappush(self.queue, (at, self.number, what, place, slot, attempt))

    def _begin(self, dataset: Dataset) -> None:
        state = self.states[dataset.index]
        rows = dataset.rows
        if dataset.inputs:
            driver = self.datasets[dataset.driver]
            ratio = dataset.period_h // driver.period_h
            many = ratio * (1 if dataset.is_incremental else 2) if driver.is_incremental else 1
            rows = self.states[dataset.driver].usual * many * dataset.selectivity
        nulls = [column.nulls for column in dataset.columns]
        ended = BEGIN - timedelta(hours=dataset.period_h) + timedelta(seconds=dataset.offset_s + dataset.duration_s)
        state.usual = rows
        state.last_read_at = ended
        state.versions.append(Version(ended, rows, nulls, 0.0, ended, frozenset(), NO_TAINT))
        state.ends.append(ended)
        state.worst_nulls = list(nulls)

    def _schedule(self, dataset: Dataset, slot: int) -> None:
        at = self._due(dataset, slot)
        if at >= BEGIN + timedelta(days=self.days):
            return
        cause = self.by_slot.get((dataset.index, slot))
        delay = Random(f"{self.name} due {dataset.index} {slot}").uniform(0, 240)
        if cause is not None and cause.kind == "late_parent":
            self.states[dataset.index].stale = (cause.id, False)
            delay += cause.delay_s
        self._push(at + timedelta(seconds=delay), "run", dataset.index, slot)

    def _due(self, dataset: Dataset, slot: int) -> datetime:
        return BEGIN + timedelta(hours=dataset.period_h * slot, seconds=dataset.offset_s)

    # --- one run ---

    def _run(self, dataset: Dataset, slot: int, attempt: int, at: datetime) -> None:
        rng, state = self.rng, self.states[dataset.index]
        cause = self.by_slot.get((dataset.index, slot))
        if attempt == 0:
            self._harmless_changes(dataset, state)
            self._changes(dataset, slot, state, cause)
        slow = 2.5 if rng.random() < 0.01 else 1.0
        ended = at + timedelta(seconds=dataset.duration_s * slow * rng.lognormvariate(0, 0.15))
        due = self._due(dataset, slot)
        run = Run(self._id(), dataset.index, due, at, ended, "COMPLETE", state.sql, added=state.added)
        self.runs.append(run)
        if cause is not None and cause.kind != "late_parent":
            self.blamed[cause.id].add(run.id)
        unresolved = self._unresolved(dataset, at)
        if unresolved is not None:
            self._fails_of_columns(dataset, run, slot, attempt, unresolved)
        elif cause is not None and cause.kind == "failed_job":
            self._fails(run, "FAIL" if rng.random() < 0.8 else "ABORT", rng.choice(ERRORS))
            state.stale = (cause.id, False)
            self._retry(dataset, slot, attempt, cause.attempts, ended)
        elif attempt == 0 and rng.random() < 0.015:
            self._fails(run, "FAIL", rng.choice(ERRORS))
            self._push(ended + timedelta(seconds=rng.uniform(120, 480)), "run", dataset.index, slot, 1)
        else:
            self._completes(dataset, run, slot, cause)

    def _harmless_changes(self, dataset: Dataset, state: State) -> None:
        rng = self.rng
        if rng.random() < 0.01:
            state.sql += 1
        if rng.random() < 0.004:
            state.added += 1
        if rng.random() < 0.0015 and (unused := self._unused(dataset, state)):
            state.absent |= {rng.choice(unused)}

    def _unused(self, dataset: Dataset, state: State) -> list[int]:
        used = {s.column for r in dataset.readers for c in self.datasets[r].columns for s in c.sources
                if s.dataset == dataset.index}  # fmt: skip
        tested = {test.column for test in dataset.tests}
        return [place for place in range(1, len(dataset.columns)) if place not in used | tested | state.absent]

    def _changes(self, dataset: Dataset, slot: int, state: State, cause: Plant | None) -> None:
        """SQL and columns change with the first run of a cause, and back with the first after it."""
        before = self.by_slot.get((dataset.index, slot - 1))
        if before is cause:
            return
        for changed in (before, cause):
            if changed is not None and changed.changes_sql:
                state.sql += 1
        if before is not None and before.kind == "dropped_column":
            state.absent -= {before.column}
        if cause is not None and cause.kind == "dropped_column":
            state.absent |= {cause.column}

    def _unresolved(self, dataset: Dataset, at: datetime) -> tuple[str, frozenset[Taint]] | None:
        if not dataset.is_strict:
            return None
        for column in dataset.columns:
            for source in column.sources:
                version = self._seen(source.dataset, at)
                if source.column in version.absent and version.taints:
                    return self.datasets[source.dataset].columns[source.column].name, version.taints
        return None

    def _seen(self, place: int, at: datetime) -> Version:
        state = self.states[place]
        return state.versions[state.at(at)]

    def _fails(self, run: Run, how: str, error: str) -> None:
        run.state, run.error = how, error

    def _retry(self, dataset: Dataset, slot: int, attempt: int, attempts: int, ended: datetime) -> None:
        if attempt + 1 < attempts:
            self._push(ended + timedelta(seconds=self.rng.uniform(120, 480)), "run", dataset.index, slot, attempt + 1)
        else:
            self._schedule(dataset, slot + 1)

    def _fails_of_columns(
        self, dataset: Dataset, run: Run, slot: int, attempt: int, unresolved: tuple[str, frozenset[Taint]]
    ) -> None:
        column, taints = unresolved
        self._fails(run, "FAIL", f"[UNRESOLVED_COLUMN] A column with name `{column}` cannot be resolved.")
        told = Symptom("RunFailed", urn(dataset), run.ended_at, run.id, dataset.job, detail=run.error)
        self._note(dataset, "run", taints, told)
        if len(taints) == 1:
            self.states[dataset.index].stale = next(iter(taints))
        self._retry(dataset, slot, attempt, 2, run.ended_at)

    def _completes(self, dataset: Dataset, run: Run, slot: int, cause: Plant | None) -> None:
        state = self.states[dataset.index]
        version = self._source(dataset, run, state) if dataset.is_source else self._derive(dataset, run, state)
        if cause is not None and cause.kind not in ("late_parent", "failed_job"):
            _spoil(dataset, version, cause)
            version.taints |= {(cause.id, False)}
        if state.stale is not None:
            # What comes after a gap is odd too, but nobody planted it.
            version.taints |= {(state.stale[0], True)}
            state.stale = None
        run.version = version
        state.versions.append(version)
        state.ends.append(version.ended_at)
        state.usual += (version.rows - state.usual) * (0.05 if not version.taints else 0.0)
        self._schedule(dataset, slot + 1)
        self._plan_check(dataset, run, slot, state)

    def _source(self, dataset: Dataset, run: Run, state: State) -> Version:
        rng = self.rng
        rows = dataset.rows * rng.lognormvariate(0, 0.06)
        if run.scheduled_at.weekday() >= 5:
            rows *= dataset.weekend
        if rng.random() < 0.008:
            rows *= rng.choice((rng.uniform(0.65, 0.8), rng.uniform(1.25, 1.5)))
        nulls = [_noisy(rng, column.nulls) for column in dataset.columns]
        return Version(run.ended_at, rows, nulls, 0.0, run.scheduled_at, state.absent, NO_TAINT)

    def _derive(self, dataset: Dataset, run: Run, state: State) -> Version:
        rng, at = self.rng, run.started_at
        read = {place: self._read(dataset, place, at, state.last_read_at) for place in dataset.inputs}
        driver, luck = self._seen(dataset.driver, at), rng.lognormvariate(0, 0.03)
        taints = {taint for versions in read.values() for version in versions for taint in version.taints}
        taints |= {stale for place in dataset.inputs if (stale := self._stale(place, at)) is not None}
        lost = {place: self._unmatched(place, read[place], at) for place in dataset.inputs[1:]}
        nulls = [
            _noisy(rng, _any_null(_nulls_of(read, lost, source) for source in column.sources))
            for column in dataset.columns
        ]
        rows = sum(version.rows for version in read[dataset.driver]) * dataset.selectivity * luck
        duplicates = [_mean([v.duplicates for v in versions], versions) for versions in read.values()]
        rows *= math.prod(1 / (1 - share) for share in duplicates[1:])
        if dataset.filters_on is not None:
            rows *= 1 - nulls[dataset.filters_on]
            nulls[dataset.filters_on] = 0.0
        state.last_read_at = at
        lasting = 1 - math.prod(1 - share for share in duplicates)
        return Version(run.ended_at, rows, nulls, lasting, driver.data_at, state.absent, frozenset(taints))

    def _read(self, dataset: Dataset, place: int, at: datetime, since: datetime) -> list[Version]:
        """The versions that a reader takes in: what is new, or as many as its window holds."""
        state, source = self.states[place], self.datasets[place]
        now = state.at(at)
        if dataset.is_incremental and place == dataset.driver:
            fresh = state.versions[bisect_right(state.ends, since) : now + 1]
            return fresh if source.is_incremental else fresh[-1:]
        many = 2 * max(1, dataset.period_h // source.period_h) if source.is_incremental else 1
        return state.versions[max(0, now + 1 - many) : now + 1]

    def _stale(self, place: int, at: datetime) -> Taint | None:
        """The cause for which an input is older than it should be now, if one is."""
        dataset, state = self.datasets[place], self.states[place]
        if state.stale is None:
            return None
        age = at - state.ends[state.at(at)]
        return state.stale if age > timedelta(hours=dataset.period_h, minutes=5) else None

    def _unmatched(self, place: int, versions: list[Version], at: datetime) -> float:
        """Share of rows that find no partner, beyond the usual."""
        usual = self.states[place].usual * len(versions)
        ratio = sum(version.rows for version in versions) / usual if usual else 1.0
        missing = 0.9 * (1 - ratio) if ratio < 0.75 else 0.0
        return min(0.95, missing + (0.2 if self._stale(place, at) is not None else 0.0))

    # --- tests ---

    def _plan_check(self, dataset: Dataset, run: Run, slot: int, state: State) -> None:
        if not dataset.tests or (dataset.tested_daily and state.checked_on == run.ended_at.toordinal()):
            return
        state.checked_on = run.ended_at.toordinal()
        self._push(run.ended_at + timedelta(seconds=self.rng.uniform(120, 600)), "check", dataset.index, slot)

    def _check(self, dataset: Dataset, at: datetime, slot: int, repeat: int) -> None:
        state = self.states[dataset.index]
        version = self._seen(dataset.index, at)
        if at < BEGIN + timedelta(days=WARM_UP_DAYS - 1):
            _learn(state, version, at)
            return
        check = Check(self._id(), dataset.index, at, [])
        for test in dataset.tests:
            holds = _holds(test, state, version, at)
            if not holds:
                taints = frozenset(taint for taint in version.taints if self._can_break(taint, test))
                self._note(dataset, test.name, taints, self._symptom(dataset, test, check))
            # Some tests fail for reasons of their own.
            check.results.append((test, holds and self.rng.random() >= 0.0005))
        self.checks.append(check)
        if not repeat and not all(holds for _, holds in check.results) and self.rng.random() < 0.3:
            self._push(at + timedelta(seconds=300), "check", dataset.index, slot, 1)

    def _can_break(self, taint: Taint, test: Test) -> bool:
        """Data that is merely wrong is no older for it, and nothing but copies makes duplicates."""
        cause = self.plants[taint[0]]
        if test.kind == "freshness":
            return cause.kind in ("late_parent", "failed_job", "dropped_column")
        return test.kind != "unique" or cause.variant in ("duplicates", "fanout")

    def _symptom(self, dataset: Dataset, test: Test, check: Check) -> Symptom:
        column = None if test.column is None else dataset.columns[test.column].name
        return Symptom("TestFailed", urn(dataset), check.at, check.id, dataset.job, test.name, column)

    def _note(self, dataset: Dataset, what: str, taints: frozenset[Taint], symptom: Symptom) -> None:
        """Counts a symptom for its cause; where two causes meet, nobody could say whose it is."""
        failed = (dataset.index, what, symptom.observed_at.toordinal())
        self.failed.add(failed)
        if failed in self.by_chance:
            return
        if len(taints) == 1 and not (taint := next(iter(taints)))[1]:
            self.symptoms[taint[0]].setdefault((dataset.index, what), symptom)


ERRORS = ("OutOfMemoryError: Java heap space", "connection reset by peer", "Lost executor 4: container killed")


def urn(dataset: Dataset) -> str:
    return f"{DATA}/{dataset.name}"


def _spoil(dataset: Dataset, version: Version, cause: Plant) -> None:
    if cause.kind == "dropped_column":
        version.nulls[cause.column] = 1.0
    elif cause.variant == "nulls":
        version.nulls[cause.column] = max(cause.size, version.nulls[cause.column])
    elif cause.variant in ("rows", "loss"):
        version.rows *= cause.size
    elif cause.variant in ("duplicates", "fanout"):
        version.rows *= cause.size
        version.duplicates = 1 - (1 - version.duplicates) / cause.size
    else:
        for place, column in enumerate(dataset.columns):
            if any(source.dataset != dataset.driver for source in column.sources):
                version.nulls[place] = max(cause.size, version.nulls[place])


def _nulls_of(read: dict[int, list[Version]], lost: dict[int, float], source: Source) -> float:
    versions = read[source.dataset]
    shares = [1.0 if source.column in version.absent else version.nulls[source.column] for version in versions]
    return _any_null([_mean(shares, versions), lost.get(source.dataset, 0.0)])


def _mean(values: list[float], versions: list[Version]) -> float:
    total = sum(version.rows for version in versions)
    if total <= 0:
        return values[-1] if values else 0.0
    return sum(value * version.rows for value, version in zip(values, versions, strict=True)) / total


def _any_null(shares: Iterable[float]) -> float:
    return 1 - math.prod(1 - share for share in shares)


def _noisy(rng: Random, share: float) -> float:
    return min(1.0, share * rng.lognormvariate(0, 0.1)) if share > 0 else 0.0


def _learn(state: State, version: Version, at: datetime) -> None:
    state.least = min(state.least, version.rows)
    state.most = max(state.most, version.rows)
    state.worst_nulls = [max(pair) for pair in zip(state.worst_nulls, version.nulls, strict=True)]
    state.oldest = max(state.oldest, at - version.data_at)


def _holds(test: Test, state: State, version: Version, at: datetime) -> bool:
    if test.kind == "not_null":
        assert test.column is not None
        return version.nulls[test.column] <= state.worst_nulls[test.column] * 1.3 + 0.08
    if test.kind == "row_count":
        return state.least * 0.6 <= version.rows <= state.most * 1.6
    if test.kind == "freshness":
        return at - version.data_at <= state.oldest * 1.15 + timedelta(minutes=20)
    return version.duplicates <= 0.01
