"""What is known of the places of a walk that may speak for one of them as the cause, asked for all of them at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec

from headgate.domain import evidence
from headgate.domain.band import judge
from headgate.domain.metric import null_share
from headgate.domain.scene import Evidence, EvidenceKind
from headgate.domain.verdict import Metric, Point, Verdict
from headgate.server.db.pool import Connection, Record
from headgate.server.incidents.scene.walk import Place, Q, Run

# What changed stays in force: a change counts for runs of the day after it, too.
IN_FORCE: Final = timedelta(hours=24)
MIN_EARLIER: Final = 3
MIN_GAPS: Final = 5
LEEWAY: Final = timedelta(minutes=2)
_KINDS: Final[Mapping[str, EvidenceKind]] = {
    Metric.row_count: EvidenceKind.row_count,
    Metric.byte_size: EvidenceKind.volume,
    Metric.null_share: EvidenceKind.null_share,
    Metric.duration_ms: EvidenceKind.duration,
    Metric.rows_quarantined: EvidenceKind.quarantine_burst,
}
_CHANGED: Final = {"sql": "its SQL", "source": "its source code", "version": "its code version"}
_BAD: Final = frozenset({"FAIL", "ABORT"})
# What was expected by a person is nothing unusual; what is within the band may still be the oddest there is.
_JUDGED: Final = frozenset({"anomalous", "normal", "new_level"})


class Earlier(NamedTuple):
    """A completed run of the same job before a place's run."""

    ended_at: datetime
    input_ids: frozenset[UUID]


class Facts:
    """Evidence by the key of a place."""

    def __init__(self, conn: Connection, organization_id: UUID, places: Sequence[Place]) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._places = places
        self.found: dict[str, list[Evidence]] = defaultdict(list)
        self.earlier: dict[str, list[Earlier]] = {}
        self._next_ends: dict[str, datetime] = {}
        self._observed_at = datetime.max.replace(tzinfo=UTC)
        self.measured: set[str] = set()

    async def load(self, observed_at: datetime, *, but_tests_of: UUID | None) -> None:
        """All there is; tests that fail beside what is looked into, on the same dataset, explain nothing."""
        self._observed_at = observed_at
        await self._ends()
        await self._measures()
        await self._profiles()
        await self._schemas()
        await self._code()
        await self._failed_tests(but_tests_of)
        await self._quarantine()
        await self._earlier_runs()
        for place in self._places:
            self._run_itself(place)

    def missing_inputs(self, urns: Mapping[UUID, str]) -> None:
        """What all of the last runs of a job have read, and this one has not."""
        for place in self._places:
            before = self.earlier.get(place.key, [])[:MIN_EARLIER]
            if place.run is None or not place.run.input_ids or len(before) < MIN_EARLIER:
                continue
            usual = frozenset.intersection(*(each.input_ids for each in before))
            for dataset in sorted(usual - set(place.run.input_ids)):
                if dataset in urns:
                    link = f"/api/v1/runs/{place.run.run_id}"
                    self._add(place, evidence.missing_input(urns[dataset], link=link, at=place.run.until))

    def usual_inputs(self) -> set[UUID]:
        return {dataset for some in self.earlier.values() for each in some for dataset in each.input_ids}

    def late(self, place: Place) -> Evidence | None:
        """That a place's job had not run again when its output was read, though by its rhythm it should have."""
        if place.run is None or place.run.ended_at is None or place.run.state in _BAD or place.is_superseded:
            return None
        ends = sorted({place.run.ended_at, *(each.ended_at for each in self.earlier.get(place.key, []))}, reverse=True)
        gaps = sorted((one - other).total_seconds() for one, other in pairwise(ends))
        if len(gaps) < MIN_GAPS:
            return None
        expected_by = ends[0] + timedelta(seconds=gaps[int(len(gaps) * 0.8)]) + LEEWAY
        if place.read_at <= expected_by:
            return None
        link = f"/api/v1/jobs/{place.run.job_id}/runs"
        usual_s, came_at = gaps[len(gaps) // 2], self._made_up_at(place)
        return evidence.run_late(ends[0], expected_by, place.read_at, usual_s, came_at=came_at, link=link)

    def _in_force_until(self, place: Place, run: Run) -> datetime:
        """How long what a run wrote is what is found there: until the next one ended, at most a day."""
        end = run.until + IN_FORCE
        return max(min(self._next_ends.get(place.key, end), end), run.until)

    def _made_up_at(self, place: Place) -> datetime | None:
        """When the job of a place completed next, if that was before the failure."""
        at = self._next_ends.get(place.key)
        return at if at is not None and at <= self._observed_at else None

    def _run_itself(self, place: Place) -> None:
        run = place.run
        if run is None:
            return
        link = f"/api/v1/runs/{run.run_id}"
        if run.state in _BAD:
            made_up_at = self._made_up_at(place)
            self._add(
                place, evidence.run_failed(run.state, run.error, made_up_at=made_up_at, link=link, at=run.ended_at)
            )
        for name, verdict in _decoded(run.verdicts).items():
            self._add(place, _told(name, verdict, link, run.ended_at))

    async def _measures(self) -> None:
        """Figures by their stored verdicts; those that nobody has judged yet beside what was measured before."""
        asked = [place for place in self._places if place.dataset_id is not None and _measurer(place) is not None]
        runs = [run for run in map(_measurer, asked) if run is not None]
        rows = await self._fetch(
            Q.list_measures,
            [place.dataset_id for place in asked],
            [run.run_id for run in runs],
            [min(run.started_at, run.until) for run in runs],
            [max(run.started_at, run.until) for run in runs],
            [place.run is None for place in asked],
        )
        unjudged: list[tuple[Place, Record]] = []
        for row in rows:
            place = asked[row["place"] - 1]
            if _tells_all(row):
                self.measured.add(place.key)
            if row["verdicts"] is None:
                unjudged.append((place, row))
            for name, verdict in _decoded(row["verdicts"]).items():
                self._add(place, _told(name, verdict, _metrics(place), row["measured_at"]))
        await self._judge(unjudged)

    async def _profiles(self) -> None:
        """What readers found in what was written tells of whoever wrote it; what they find later is of the next run."""
        asked = [(place, place.run) for place in self._places if place.dataset_id is not None and place.run]
        rows = await self._fetch(
            Q.list_profiles,
            [place.dataset_id for place, _ in asked],
            [run.run_id for _, run in asked],
            [run.until for _, run in asked],
            [min(self._in_force_until(place, run), self._observed_at) for place, run in asked],
        )
        for row in rows:
            place, run = asked[row["place"] - 1]
            if _tells_all(row):
                self.measured.add(place.key)
            for name, verdict in _decoded(row["verdicts"]).items():
                found = _told(name, verdict, _metrics(place), run.until)
                self._add(place, found and found._replace(seen_at=row["measured_at"]))

    async def _judge(self, unjudged: Sequence[tuple[Place, Record]]) -> None:
        rows = await self._fetch(
            Q.list_earlier_measures,
            [place.dataset_id for place, _ in unjudged],
            [row["direction"] for _, row in unjudged],
            [row["partition_key"] for _, row in unjudged],
            [row["measured_at"] for _, row in unjudged],
        )
        history: dict[int, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
        for row in reversed(rows):
            for name, value in _figures(row):
                point = Point(row["measured_at"], value, name in row["anomalous"])
                history[row["place"] - 1][name].append(point)
        for number, (place, row) in enumerate(unjudged):
            for name, verdict in _judged(row, history[number]):
                self._add(place, _told(name, verdict.as_dict(), _metrics(place), row["measured_at"]))

    async def _schemas(self) -> None:
        asked = [place for place in self._places if place.dataset_id is not None]
        until = [_known_until(place) for place in asked]
        ids = [place.dataset_id for place in asked]
        # What came back, or was added for a while, is as it was.
        later: dict[int, set[str]] = defaultdict(set)
        for row in await self._fetch(Q.list_schema_changes, ids, [_since(at) for at in until], until):
            place, undone = asked[row["place"] - 1], later[row["place"]]
            removed = [name for name in row["columns_removed"] if name not in undone]
            added = [name for name in row["columns_added"] if name not in undone]
            undone |= {*row["columns_removed"], *row["columns_added"]}
            self.found[place.key] += evidence.schema_diff(
                removed=removed,
                type_changed=row["columns_type_changed"],
                added=added,
                breaking=row["breaking"] and len(removed) == len(row["columns_removed"]),
                link=f"/api/v1/datasets/{place.dataset_id}/schema/history",
                at=row["valid_from"],
            )

    async def _code(self) -> None:
        asked = [(place, place.run) for place in self._places if place.run is not None]
        until = [run.until for _, run in asked]
        jobs = [run.job_id for _, run in asked]
        for row in await self._fetch(Q.list_code_changes, jobs, [_since(at) for at in until], until):
            place, run = asked[row["place"] - 1]
            what = " and ".join(_CHANGED[each] for each in row["changed"] if each in _CHANGED)
            link = f"/api/v1/jobs/{run.job_id}"
            self._add(place, evidence.code_changed(what, link=link, at=row["seen_at"]))

    async def _failed_tests(self, but_of: UUID | None) -> None:
        """Whenever it was tested, it was as bad when it was written; what is tested later is of the next run."""
        asked = [place for place in self._places if place.dataset_id not in (None, but_of)]
        since, until = zip(*map(self._in_force, asked), strict=True) if asked else ((), ())
        failed: dict[tuple[int, str | None], list[Record]] = defaultdict(list)
        for row in await self._fetch(Q.list_failed_tests, [place.dataset_id for place in asked], since, until):
            failed[(row["place"] - 1, row["column_name"])].append(row)
        for (number, column), rows in failed.items():
            place = asked[number]
            link, names = f"/api/v1/datasets/{place.dataset_id}/tests", list(dict.fromkeys(row["name"] for row in rows))
            at = place.run.until if place.run else min(place.read_at, rows[0]["observed_at"])
            found = evidence.failing_tests(names, column=column, link=link, at=at)
            self._add(place, found and found._replace(seen_at=rows[0]["observed_at"]))

    def _in_force(self, place: Place) -> tuple[datetime, datetime]:
        """When what is found there is what was read; where nobody is known to write it, a day before and after."""
        if place.run is None:
            return place.read_at - IN_FORCE, place.read_at + IN_FORCE
        return place.run.until, self._in_force_until(place, place.run)

    async def _quarantine(self) -> None:
        of_run = defaultdict(list)
        for place in self._places:
            if place.run is not None and Metric.rows_quarantined not in _decoded(place.run.verdicts):
                of_run[place.run.run_id].append(place)
        for row in await self._fetch(Q.list_node_runs, list(of_run)):
            earlier = row["earlier"]
            expected = float(median(earlier)) if len(earlier) >= MIN_EARLIER else None
            names = {name: row[name] for name in ("project", "pipeline", "node")}
            link = f"/api/v1/quarantine-batches?{urlencode(names)}"
            for place in of_run[row["run_id"]]:
                value, kind = float(row["rows_quarantined"]), EvidenceKind.quarantine_burst
                if expected is not None and value > expected:
                    at = place.run.until if place.run else None
                    self._add(place, evidence.measured(kind, value, expected, None, link=link, at=at))

    async def _ends(self) -> None:
        asked = [(place, place.run) for place in self._places if place.run is not None and place.run.ended_at]
        jobs, starts = [run.job_id for _, run in asked], [run.started_at for _, run in asked]
        for row in await self._fetch(Q.list_next_ends, jobs, starts, [run.ended_at for _, run in asked]):
            self._next_ends[asked[row["place"] - 1][0].key] = row["ended_at"]

    async def _earlier_runs(self) -> None:
        asked = [(place, place.run) for place in self._places if place.run is not None and place.run.ended_at]
        # Its own run is not earlier than itself.
        ats = [run.started_at - timedelta(microseconds=1) for _, run in asked]
        for row in await self._fetch(Q.list_earlier_runs, [run.job_id for _, run in asked], ats):
            key = asked[row["place"] - 1][0].key
            self.earlier.setdefault(key, []).append(Earlier(row["ended_at"], frozenset(row["input_ids"])))

    def _add(self, place: Place, found: Evidence | None) -> None:
        """Of the same fact, told twice, the stronger one."""
        if found is None:
            return
        known = self.found[place.key]
        same = next((each for each in known if (each.kind, each.column) == (found.kind, found.column)), None)
        if same is None:
            known.append(found)
        elif same.weight < found.weight and found.kind in _KINDS.values():
            known[known.index(same)] = found
        elif found.kind not in _KINDS.values():
            known.append(found)

    async def _fetch(self, query: str, *columns: Sequence[object]) -> Sequence[Record]:
        if not columns[0]:
            return []
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *columns)
        return rows


def _measurer(place: Place) -> Any:
    """The run whose figures tell of a place: its own, or the reader's of what nobody is known to write."""
    return place.run or (place.reader.run if place.reader else None)


def _known_until(place: Place) -> datetime:
    """Until when a schema counts: readers tell of what they read at their own end."""
    run = _measurer(place)
    return place.read_at if run is None else max(run.until, run.started_at)


def _since(at: datetime) -> datetime:
    return at - IN_FORCE


def _metrics(place: Place) -> str:
    return f"/api/v1/datasets/{place.dataset_id}/metrics"


def _told(name: str, verdict: Mapping[str, Any], link: str, at: datetime | None) -> Evidence | None:
    metric, _, column = name.partition(":")
    kind = _KINDS.get(metric)
    if kind is None or verdict.get("state") not in _JUDGED:
        return None
    value, expected, score = verdict.get("value"), verdict.get("expected"), verdict.get("score")
    if value is None:
        return None
    return evidence.measured(kind, value, expected, score, column=column or None, link=link, at=at)


def _tells_all(row: Record) -> bool:
    """Whether rows and nulls are known, so that silence means that all was quiet."""
    return row["row_count"] is not None and any(name.startswith(Metric.null_share) for name, _ in _figures(row))


def _judged(row: Record, history: Mapping[str, Sequence[Point]]) -> Iterator[tuple[str, Verdict]]:
    """The verdicts on the figures of a measurement; on how many rows there are comes first, as others go by it."""
    rows: Verdict | None = None
    for name, value in _figures(row):
        metric, _, column = name.partition(":")
        points = history.get(name, ())
        verdict = judge(Metric(metric), points, row["measured_at"], value, column=column or None, rows=rows)
        rows = verdict if name == Metric.row_count else rows
        yield name, verdict


def _figures(row: Record) -> Iterator[tuple[str, float]]:
    """Figures of a measurement by the names that verdicts have."""
    for name in (Metric.row_count, Metric.byte_size):
        if row[name] is not None:
            yield name, float(row[name])
    for column, figures in _decoded(row["columns"]).items():
        share = null_share(figures, row["row_count"])
        if share is not None:
            yield f"{Metric.null_share}:{column}", share


def _decoded(text: str | None) -> Mapping[str, Any]:
    found = None if text is None else msgspec.json.decode(text)
    return found if isinstance(found, dict) else {}
