"""Judges what runs have measured: loads it with what came before, asks the domain, keeps verdicts and anomalies.

Works on many runs at once. What one statement can load for all of them, it loads once.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.anomaly import AnomalyType, schema_anomaly
from headgate.domain.band import MAX_REACH_DAYS, judge
from headgate.domain.verdict import Metric, Point, Policy, Verdict
from headgate.server.anomalies.judging.changes import Outcome, end_changes, sort_out
from headgate.server.anomalies.judging.findings import Finding, keep_findings
from headgate.server.anomalies.judging.rules import SCHEMA, Rules, hold_names, load_rules, widest
from headgate.server.anomalies.judging.series import (
    MAX_MOVED,
    Baseline,
    Carried,
    Reading,
    Series,
    moved,
    owner_of,
    points_of,
    readings,
    usable,
)
from headgate.server.anomalies.judging.waiting import Waiting, days_before
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.queue import CORRELATE_PRIORITY, NewTask, content_hash, enqueue

Q = Queries("headgate.server.anomalies.judging")

NO_RUN: Final = UUID(int=0)
# Of a run that goes on or did not end well, what it has measured is not what it was to measure.
_WHOLE: Final = frozenset({"COMPLETE", "OTHER"})
_OF_RUN: Final = "run"
_DURATION: Final = (Metric.duration_ms.value,)
# After so many verdicts others get a turn: the worker may share its loop with those who are asked.
_TURN: Final = 10


class Judged(NamedTuple):
    """A verdict, and whose it is: of a run if there is no measurement."""

    reading: Reading
    verdict: Verdict
    run: Record | None
    measurement: Record | None
    dataset_id: UUID | None
    observed_at: datetime

    @property
    def run_id(self) -> UUID | None:
        return self.run["run_id"] if self.run is not None else None

    @property
    def partition_key(self) -> str:
        return self.measurement["partition_key"] if self.measurement is not None else ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What it has in common with an anomaly that was told of it."""
        return (self.dataset_id, self.run_id, self.reading.metric.value, self.reading.column, self.partition_key)


Runs = dict[UUID, Record]


class Before(NamedTuple):
    """What comes before and waits to be judged: measurements, their runs, and those that are judged themselves."""

    measured: list[Record]
    runs: Runs
    timed: Runs


class Detector:
    """Judges some runs, and what was measured of some datasets by no run."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._rules = Rules((), {}, {})
        self._told: dict[tuple[Any, ...], list[Record]] = {}
        self._carried = Carried()
        # How many of each series are judged at once.
        self._together: Counter[tuple[Any, ...]] = Counter()
        self._made = 0

    async def judge(
        self,
        run_ids: Collection[UUID],
        datasets: Mapping[UUID, datetime] = MappingProxyType({}),
        versions: Collection[tuple[UUID, UUID]] = (),
    ) -> None:
        """Judge runs, what no run measured of datasets, and new versions of schemas: pairs of a dataset and an id.

        Datasets are given with since when they wait.
        """
        await hold_names(self._conn, self._organization_id)
        runs = {row["run_id"]: row for row in await self._fetch(Q.list_judged_runs, run_ids)}
        measured = [*await self._fetch(Q.list_measurements, run_ids)]
        measured += await self._fetch(Q.list_runless, datasets.keys(), datasets.values()) if datasets else ()
        whole = [row for row in measured if row["run_id"] == NO_RUN or _state(runs, row) in _WHOLE]
        await self._hold_series(runs.values(), whole)
        changes = await self._fetch(Q.list_schema_changes, *_columns(list(versions), 2)) if versions else ()
        changed = {row["dataset_id"] for row in changes}
        await self._load_rules(runs, whole, changed)
        series = _series(whole)
        before = await self._waiting(runs, series, datasets)
        if before.runs:
            await self._load_rules(runs | before.runs, [*whole, *before.measured], changed)

        # First of all: others of them may be compared with these.
        partial = [row for row in measured if _state(runs, row) not in (None, *_WHOLE)]
        await self._set_apart(partial, [*whole, *before.measured])
        self._told = await self._load_told(runs)
        judged = [
            *await self._measurements([*series, *_series(before.measured)], runs | before.runs),
            *await self._durations(_ended(runs | before.timed)),
            *await self._quarantined(runs | before.timed),
        ]
        await self._keep_verdicts(judged)
        outcome = await self._sort_changes(changes)
        await self._keep_anomalies(judged, [_change(row) for row in outcome.told])
        await end_changes(self._conn, self._organization_id, outcome.over)
        await self._note_writes(_ended(runs))
        await self._tell_incidents(_ended(runs))

    async def _load_rules(self, runs: Runs, measured: Sequence[Record], changed: Collection[UUID]) -> None:
        written = {dataset_id for run in runs.values() for dataset_id in run["output_ids"]}
        about = {row["dataset_id"] for row in measured} | written | set(changed)
        times = [*(row["measured_at"] for row in measured), *(run["started_at"] for run in runs.values())]
        self._rules = await load_rules(self._conn, self._organization_id, about, min(times, default=None))

    async def _waiting(self, runs: Runs, series: Sequence[Series], dataset_ids: Collection[UUID]) -> Before:
        """What comes before these in their series and is not judged yet."""
        waiting = Waiting(self._conn, self._organization_id, runs)
        if not await waiting.begin(dataset_ids):
            return Before([], {}, {})
        others = await waiting.runs(self._moments(runs, series))
        busy = {row["job_id"] for row in others}
        shared = [each for each in series if _is_shared(each.row, runs.get(each.row["run_id"]), busy)]
        ours = {_key(each.row) for each in series}
        measured = await waiting.measurements(shared, self._days) if shared else []
        measured = [row for row in measured if _key(row) not in ours]
        timed = {row["run_id"] for row in others if not row["is_judged"]}
        wanted = timed | {row["run_id"] for row in measured}
        found = {row["run_id"]: row for row in await self._fetch(Q.list_judged_runs, wanted)} if wanted else {}
        return Before(measured, found, {run_id: found[run_id] for run_id in timed if run_id in found})

    def _moments(self, runs: Runs, series: Sequence[Series]) -> Iterator[tuple[UUID, datetime, int]]:
        """Up to when runs of the same jobs may matter, with how many days each run is compared with."""
        for run in runs.values():
            yield run["job_id"], run["started_at"], self._days_of_run(run)
        for each in series:
            run = runs.get(each.row["run_id"])
            if run is not None:
                yield run["job_id"], each.row["measured_at"], self._days(each)

    async def _hold_series(self, runs: Iterable[Record], measured: Iterable[Record]) -> None:
        owners = {run["job_id"] for run in runs} | {owner_of(row) for row in measured}
        if owners:
            await self._conn.execute(Q.hold_series, self._organization_id, list(owners))

    async def _measurements(self, series: list[Series], runs: Runs) -> list[Judged]:
        """In order of time: each is compared with what was made of those before it."""
        series.sort(key=lambda each: (each.row["measured_at"], each.row["run_id"]))
        self._together = Counter(each.key for each in series)
        plain = iter(await self._baselines([each for each in series if not each.has_profile]))
        judged: list[Judged] = []
        for each in series:
            # Profiles weigh much: what came before is read for one at a time.
            baseline = (await self._baselines([each]))[0] if each.has_profile else next(plain)
            judged += await self._judge_series(each, baseline, runs.get(each.row["run_id"]))
        return judged

    async def _judge_series(self, series: Series, baseline: Baseline, run: Record | None) -> list[Judged]:
        row, rows, judged = series.row, None, []
        at, dataset_id, partition = row["measured_at"], row["dataset_id"], row["partition_key"]
        for reading in await self._chosen(series, baseline):
            policy = self._rules.policy(dataset_id, reading.metric)
            key = (series.key, reading.name)
            points = self._carried.onto(key, baseline.points(reading, days_before(at, _reach(policy))))
            verdict = self._verdict(reading, points, at, policy, dataset_id, partition, rows)
            rows = verdict if reading.metric is Metric.row_count else rows
            judged.append(Judged(reading, verdict, run, row, dataset_id, at))
            self._carry(key, judged[-1])
            self._made += 1
            if self._made % _TURN == 0:
                await asyncio.sleep(0)
        return judged

    async def _chosen(self, series: Series, baseline: Baseline) -> list[Reading]:
        """What is judged of a measurement: of a wide table the first columns, and whatever of the rest moved most.

        What was anomalous is looked at for as long as that is known: it may be well again.
        """
        rest = [reading for reading in series.readings if not reading.is_first]
        if not rest:
            return series.readings
        spans = {}
        for metric in {reading.metric for reading in rest}:
            policy = self._rules.policy(series.row["dataset_id"], metric)
            spans[metric] = baseline.spans(metric, days_before(series.row["measured_at"], policy.window_days))
            await asyncio.sleep(0)
        far: list[tuple[float, Reading]] = []
        for reading in rest:
            was_odd = reading.name in baseline.outside or self._carried.has_outside((series.key, reading.name))
            apart = math.inf if was_odd else moved(reading.value, spans[reading.metric].get(reading.column or ""))
            if apart > 0:
                far.append((apart, reading))
        far.sort(key=lambda each: each[0], reverse=True)
        return [each for each in series.readings if each.is_first] + [each for _, each in far[:MAX_MOVED]]

    def _carry(self, series: Any, judged: Judged) -> None:
        """Let what comes next in a series know."""
        is_outside = self._stays_out(judged)
        self._carried.note(series, judged.observed_at, judged.reading.value, is_outside=is_outside)

    def _stays_out(self, judged: Judged) -> bool:
        """Whether a value is no part of the baseline; what a person called a false alarm is."""
        told = self._told.get(judged.key, ()) if judged.verdict.is_outside else ()
        return judged.verdict.is_outside and "FALSE_POSITIVE" not in {row["status"] for row in told}

    async def _baselines(self, series: Sequence[Series]) -> list[Baseline]:
        found = await self._earlier(series, [self._days(each) for each in series])
        # Of a table that is written once a week a month has too few points.
        few = [place for place, each in enumerate(series) if found[place].usable(each.names) < self._fewest(each)]
        reached = await self._earlier([series[place] for place in few], [MAX_REACH_DAYS] * len(few))
        for place, baseline in zip(few, reached, strict=True):
            found[place] = baseline
        return found

    async def _earlier(self, series: Sequence[Series], days: Sequence[int]) -> list[Baseline]:
        """What was measured before, in the days before each."""
        if not series:
            return []
        wanted = [
            (
                row["dataset_id"], row["measured_at"], row["run_id"], row["direction"], row["partition_key"],
                row["job_id"], days_before(row["measured_at"], span), each.points_wanted,
            )
            for each, span in zip(series, days, strict=True)
            for row in (each.row,)
        ]  # fmt: skip
        rows = await self._fetch(Q.list_baselines, *_columns(wanted, 8))
        found = {row["place"]: row for row in rows}
        return [Baseline(found.get(place)) for place in range(1, len(series) + 1)]

    def _days(self, series: Series) -> int:
        """How far back to look: as the policy of one of its values does that looks furthest."""
        return widest(self._rules.policy(series.row["dataset_id"], each.metric) for each in series.readings)

    def _fewest(self, series: Series) -> int:
        """How many points there have to be; none where the policies look as far back as there is to look.

        Those that are judged together with it may all turn out to be no part of what is usual.
        """
        policies = [self._rules.policy(series.row["dataset_id"], each.metric) for each in series.readings]
        fewest = max((policy.min_points for policy in policies if policy.window_days < MAX_REACH_DAYS), default=0)
        return fewest + self._together[series.key] - 1 if fewest else 0

    def _days_of_run(self, run: Record) -> int:
        dataset_id = _first(run["output_ids"])
        return widest(self._rules.policy(dataset_id, each) for each in (Metric.duration_ms, Metric.rows_quarantined))

    async def _durations(self, runs: Sequence[Record]) -> list[Judged]:
        timed = [run for run in runs if run["duration_ms"] is not None and not run["is_test"]]
        if not timed:
            return []
        timed.sort(key=lambda run: (run["ended_at"], run["run_id"]))
        datasets = [_first(run["output_ids"]) for run in timed]
        policies = [self._rules.policy(dataset_id, Metric.duration_ms) for dataset_id in datasets]
        wanted = [
            (run["job_id"], run["run_id"], run["started_at"], days_before(run["started_at"], policy.window_days))
            for run, policy in zip(timed, policies, strict=True)
        ]
        found = await self._earlier_durations(wanted, policies)
        judged = []
        for place, (run, dataset_id, policy) in enumerate(zip(timed, datasets, policies, strict=True), start=1):
            reading = Reading(Metric.duration_ms, None, run["duration_ms"])
            row, since = found[place], days_before(run["started_at"], _reach(policy))
            key = (run["job_id"], reading.name)
            points = points_of(row["times"], row["durations"], row["anomalous"], reading.name, since)
            verdict = self._verdict(reading, self._carried.onto(key, points), run["ended_at"], policy, dataset_id)
            judged.append(Judged(reading, verdict, run, None, dataset_id, run["ended_at"]))
            self._carry(key, judged[-1])
        return judged

    async def _earlier_durations(
        self, wanted: Sequence[tuple[Any, ...]], policies: Sequence[Policy]
    ) -> dict[int, Record]:
        """How long runs took before, by the place of what is wanted; from further back where there are too few."""
        found = {row["place"]: row for row in await self._fetch(Q.list_earlier_durations, *_columns(wanted, 4))}
        together = Counter(job_id for job_id, *_ in wanted)
        few = [
            place
            for place, policy in enumerate(policies, start=1)
            if policy.window_days < MAX_REACH_DAYS
            and usable(found[place]["anomalous"], _DURATION) < policy.min_points + together[wanted[place - 1][0]] - 1
        ]
        again = [(*wanted[place - 1][:3], days_before(wanted[place - 1][2], MAX_REACH_DAYS)) for place in few]
        rows = await self._fetch(Q.list_earlier_durations, *_columns(again, 4)) if again else ()
        return found | {few[row["place"] - 1]: row for row in rows}

    async def _quarantined(self, runs: Runs) -> list[Judged]:
        rows = await self._fetch(Q.list_quarantined, runs)
        written = {dataset_id for row in rows for dataset_id in runs[row["run_id"]]["output_ids"]}
        names = await self._fetch(Q.list_names, written) if rows else ()
        ids = {f"{row['namespace']}/{row['name']}": row["id"] for row in names}
        judged = []
        for row in sorted(rows, key=lambda row: (row["ended_at"], row["run_id"])):
            run = runs[row["run_id"]]
            dataset_id = ids.get(row["output_urn"]) or _first(run["output_ids"])
            policy = self._rules.policy(dataset_id, Metric.rows_quarantined)
            reading = Reading(Metric.rows_quarantined, None, float(row["rows_quarantined"]))
            since = days_before(row["ended_at"], _reach(policy))
            key = (row["project"], row["pipeline"], row["node"])
            points = points_of(row["times"], row["counts"], row["anomalous"], reading.name, since)
            verdict = self._verdict(reading, self._carried.onto(key, points), row["ended_at"], policy, dataset_id)
            judged.append(Judged(reading, verdict, run, None, dataset_id, row["ended_at"]))
            self._carry(key, judged[-1])
        return judged

    def _verdict(
        self,
        reading: Reading,
        points: list[Point],
        at: datetime,
        policy: Policy,
        dataset_id: UUID | None,
        partition: str = "",
        rows: Verdict | None = None,
    ) -> Verdict:
        marks = self._rules.marks(dataset_id, reading.metric, reading.column, partition)
        return judge(reading.metric, points, at, reading.value, policy, column=reading.column, marks=marks, rows=rows)

    async def _load_told(self, runs: Runs) -> dict[tuple[Any, ...], list[Record]]:
        """What was told of these runs when they were judged before, by what it is about."""
        told: dict[tuple[Any, ...], list[Record]] = {}
        for row in await self._fetch(Q.list_told, runs) if runs else ():
            key = (row["dataset_id"], row["run_id"], row["metric"], row["column_name"], row["partition_key"])
            told.setdefault(key, []).append(row)
        return told

    async def _set_apart(self, partial: Iterable[Record], whole: Iterable[Record]) -> None:
        """Keep what runs measured that are not whole out of every baseline, and let it in once they are."""
        marks = [(*_key(row), _verdicts(()), _texts([_OF_RUN])) for row in partial if not row["is_apart"]]
        marks += [(*_key(row), _verdicts(()), _texts(())) for row in whole if row["is_apart"]]
        if marks:
            await self._store_verdicts(marks)

    async def _keep_verdicts(self, judged: Sequence[Judged]) -> None:
        measurements: dict[tuple[Any, ...], list[Judged]] = {}
        runs: dict[UUID, list[Judged]] = {}
        for each in judged:
            if each.measurement is not None:
                measurements.setdefault(_key(each.measurement), []).append(each)
            elif each.run_id is not None:
                runs.setdefault(each.run_id, []).append(each)
        if measurements or runs:
            await self._store_verdicts(
                [(*key, _verdicts(found), self._outside(found)) for key, found in measurements.items()],
                [(run_id, _verdicts(found), self._outside(found)) for run_id, found in runs.items()],
            )

    def _outside(self, found: Iterable[Judged]) -> str:
        """Names of what stays out of the baseline."""
        return _texts(each.reading.name for each in found if self._stays_out(each))

    async def _store_verdicts(
        self, of_measurements: Sequence[Sequence[Any]], of_runs: Sequence[Sequence[Any]] = ()
    ) -> None:
        columns = (*_columns(of_measurements, 7), *_columns(of_runs, 3))
        await self._conn.execute(Q.store_verdicts, self._organization_id, *columns)

    async def _keep_anomalies(self, judged: Sequence[Judged], changes: Sequence[Finding]) -> None:
        found = [each for each in judged if each.verdict.is_anomalous]
        # What a writer says comes before what a profile says, where both tell of the same.
        found.sort(key=lambda each: "" if each.measurement is None else each.measurement["direction"])
        await keep_findings(self._conn, self._organization_id, [*map(_finding, found), *changes])
        stands = {(each.key, each.verdict.type) for each in found}
        gone = [
            row["id"] for key, rows in self._told.items() for row in rows if (key, row["anomaly_type"]) not in stands
        ]
        if gone:
            await self._conn.execute(Q.withdraw_anomalies, self._organization_id, gone)

    async def _sort_changes(self, changes: Sequence[Record]) -> Outcome:
        open_ = await self._fetch(Q.list_open_changes, {row["dataset_id"] for row in changes}) if changes else ()
        return sort_out(changes, open_, lambda row: self._rules.policy(row["dataset_id"], SCHEMA).enabled)

    async def _note_writes(self, ended: Iterable[Record]) -> None:
        writes = [(dataset, run["ended_at"]) for run in ended if not run["is_test"] for dataset in run["output_ids"]]
        if writes:
            await self._conn.execute(Q.note_writes, self._organization_id, *_columns(writes, 2))

    async def _tell_incidents(self, ended: Sequence[Record]) -> None:
        """Incidents that wait for one of these jobs or datasets may be over, and earlier ones be told better."""
        if not ended:
            return
        datasets = {dataset_id for run in ended for dataset_id in run["output_ids"]}
        jobs = {run["job_id"] for run in ended}
        rows = await self._fetch(Q.list_open_symptoms, list(datasets), list(jobs))
        waiting = {each for row in rows for each in (row["dataset_id"], row["job_id"]) if each is not None}
        rows = await self._fetch(
            Q.list_overtaken_runs, [run["run_id"] for run in ended], [run["ended_at"] for run in ended]
        )
        overtaken = {row["run_id"] for row in rows}
        judged = [run for run in ended if run["run_id"] in overtaken or waiting & {run["job_id"], *run["output_ids"]}]
        await enqueue(self._conn, self._organization_id, [_judged_task(run) for run in judged])

    async def _fetch(self, query: str, *arguments: Any) -> Sequence[Record]:
        given = [list(each) if isinstance(each, Collection) else each for each in arguments]
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *given)
        return rows


def _reach(policy: Policy) -> int:
    """How many days back points may lie: the domain takes the oldest where it has too few."""
    return max(policy.window_days, MAX_REACH_DAYS)


def _judged_task(run: Record) -> NewTask:
    run_id, key = str(run["run_id"]), content_hash("judged", run["run_id"], run["ended_at"])
    return NewTask("CORRELATE", "RUN", run_id, key, payload={"kind": "judged"}, priority=CORRELATE_PRIORITY)


def _state(runs: Runs, row: Record) -> str | None:
    run = runs.get(row["run_id"])
    return None if run is None else run["state"]


def _is_shared(row: Record, run: Record | None, busy: Collection[UUID]) -> bool:
    """Whether one of the jobs whose runs wait may have measured the same series."""
    if row["partition_key"] or run is None:
        return True
    return row["job_id"] in busy or run["job_id"] in busy


def _ended(runs: Runs) -> list[Record]:
    return [run for run in runs.values() if run["state"] == "COMPLETE" and not run["is_streaming"]]


def _series(rows: Iterable[Record]) -> list[Series]:
    return [Series(row, found) for row in rows if (found := list(readings(row)))]


def _first(ids: Sequence[UUID]) -> UUID | None:
    return ids[0] if ids else None


def _key(row: Record) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("dataset_id", "measured_at", "run_id", "direction", "partition_key"))


def _verdicts(found: Iterable[Judged]) -> str:
    return msgspec.json.encode({each.reading.name: each.verdict.as_dict() for each in found}).decode()


def _texts(names: Iterable[str]) -> str:
    return msgspec.json.encode(list(names)).decode()


def _columns(rows: Sequence[Sequence[Any]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _finding(each: Judged) -> Finding:
    verdict, run, row = each.verdict, each.run, each.measurement
    assert verdict.type is not None
    assert verdict.severity is not None
    job_id = run["job_id"] if run is not None else row["job_id"] if row is not None else None
    return Finding(
        dataset_id=each.dataset_id,
        job_id=job_id,
        run_id=each.run_id,
        type=verdict.type,
        severity=verdict.severity,
        metric=each.reading.metric.value,
        column=each.reading.column,
        partition_key=each.partition_key,
        observed_at=each.observed_at,
        expected={"value": verdict.expected, "low": verdict.low, "high": verdict.high},
        actual={"value": verdict.value},
        score=verdict.score,
        job_name=run["job_name"] if run is not None else None,
        description=verdict.reason,
        metadata={"method": verdict.method, "points": verdict.points, "stddev": verdict.stddev},
        occasion="" if each.run_id is not None else each.observed_at.isoformat(),
    )


def _change(row: Record) -> Finding:
    severity, sentence = schema_anomaly(row["change_type"], row["breaking"], row["description"])
    columns = {name: list(row[f"columns_{name}"]) for name in ("added", "removed", "type_changed")}
    return Finding(
        dataset_id=row["dataset_id"],
        job_id=row["job_id"],
        run_id=row["run_id"],
        type=AnomalyType.SchemaChange,
        severity=severity,
        metric=None,
        column=None,
        partition_key="",
        observed_at=row["valid_from"],
        expected={"version": row["version"] - 1},
        actual={"version": row["version"]},
        score=None,
        job_name=row["job_name"],
        description=sentence,
        metadata={
            "version_id": str(row["id"]),
            "change_type": row["change_type"],
            "breaking": row["breaking"],
            **columns,
        },
        occasion=str(row["id"]),
    )
