"""Walks upstream from what was observed: for each run what it read, for each of that the runs that had written it.

Bounded by depth and by the number of places; each step is a few look-ups a place, however many runs there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.incidents.scene")

MAX_DEPTH: Final = 6
MAX_PLACES: Final = 300
# Of earlier runs that may still be in what was read.
MAX_SUPERSEDED: Final = 120
_BETWEEN: Final = "\x1f"
_NO_COLUMNS: Final[frozenset[str]] = frozenset()


class Observed(NamedTuple):
    """Where the walk begins: what was observed, and the run that it is known to be of."""

    at: datetime
    dataset_id: UUID | None
    column: str | None
    run_id: UUID | None
    # Whether other runs of the dataset's writers may be behind it too, and what they should have read by now.
    is_of_run: bool = False
    is_overdue: bool = False


class Run(NamedTuple):
    """A run, as far as a walk needs it."""

    run_id: UUID
    job_id: UUID
    job_namespace: str
    job_name: str
    state: str
    started_at: datetime
    ended_at: datetime | None
    last_event_at: datetime
    input_ids: tuple[UUID, ...]
    output_ids: tuple[UUID, ...]
    parent_run_id: UUID | None
    root_run_id: UUID | None
    error: str | None
    is_test: bool
    verdicts: str | None

    @property
    def until(self) -> datetime:
        return self.ended_at or self.last_event_at


@dataclass(eq=False)
class Place:
    """A run that wrote a dataset on the way, or a dataset that no run is known to have written."""

    key: str
    dataset_id: UUID | None
    depth: int
    run: Run | None
    # What it was read for: until when it counts what is known of it, and when its own inputs were read.
    read_at: datetime
    reads_at: datetime
    columns: frozenset[str] = _NO_COLUMNS
    via_column: bool = False
    reader: Place | None = None
    upstream: list[str] = field(default_factory=list)
    # Whether a later run had written the dataset again when it was read.
    is_superseded: bool = False


class _Input(NamedTuple):
    """A dataset that a place was made of."""

    reader: Place
    dataset_id: UUID
    columns: frozenset[str]
    via_column: bool


class Walk:
    """All places that were found, nearest first."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._superseded_count = 0
        self.places: dict[str, Place] = {}

    async def run(self, observed: Observed) -> dict[str, Place]:
        level = await self._start(observed)
        for _ in range(MAX_DEPTH):
            if not level or len(self.places) >= MAX_PLACES:
                break
            level = await self._settle(await self._inputs(level))
        return self.places

    async def _start(self, observed: Observed) -> list[Place]:
        ids = [] if observed.run_id is None else [observed.run_id]
        if observed.dataset_id is not None and not observed.is_of_run:
            rows = await self._fetch(Q.list_runs_behind, [observed.dataset_id], [observed.at])
            ids += [row["run_id"] for row in rows]
        runs = await self._runs(ids)
        columns = frozenset() if observed.column is None else frozenset({observed.column})
        found = [
            self._place(run, observed.dataset_id, 0, observed.at, columns=columns, via_column=bool(columns))
            for run in map(runs.get, dict.fromkeys(ids))
            if run is not None
        ]
        if not found and observed.dataset_id is not None:
            found = [self._place(None, observed.dataset_id, 0, observed.at, columns=columns)]
        for place in found if observed.is_overdue else ():
            place.reads_at = observed.at
        return found

    async def _inputs(self, level: Sequence[Place]) -> list[_Input]:
        """What the places of a level were made of; what column lineage leads to comes first."""
        columns = await self._source_columns(level)
        tables = await self._source_tables(level)
        found: list[_Input] = []
        for place in level:
            led = columns.get(place.key, {})
            found += [_Input(place, dataset, frozenset(names), place.via_column) for dataset, names in led.items()]
            rest = [dataset for dataset in tables.get(place.key, ()) if dataset not in led]
            found += [_Input(place, dataset, _NO_COLUMNS, False) for dataset in rest]
        return await self._named([each for each in found if each.dataset_id != each.reader.dataset_id])

    async def _named(self, inputs: Sequence[_Input]) -> list[_Input]:
        """Where no column lineage is told, columns of the same name are likely the same."""
        asked = [each for each in inputs if each.reader.columns and not each.columns and each.reader.run]
        rows = await self._fetch(
            Q.list_named_columns,
            [each.reader.dataset_id for each in asked],
            [each.reader.run.job_id for each in asked if each.reader.run],
            [each.dataset_id for each in asked],
            [_BETWEEN.join(sorted(each.reader.columns)) for each in asked],
        )
        names: dict[_Input, set[str]] = {}
        for row in rows:
            names.setdefault(asked[row["place"] - 1], set()).add(row["name"])
        return [each._replace(columns=frozenset(names[each])) if each in names else each for each in inputs]

    async def _source_columns(self, level: Sequence[Place]) -> dict[str, dict[UUID, set[str]]]:
        asked = [place for place in level if place.columns and place.dataset_id is not None]
        rows = await self._fetch(
            Q.list_source_columns,
            [place.dataset_id for place in asked],
            [place.run.job_id if place.run else None for place in asked],
            [_BETWEEN.join(sorted(place.columns)) for place in asked],
            [place.run.until if place.run else place.read_at for place in asked],
        )
        found: dict[str, dict[UUID, set[str]]] = {}
        for row in rows:
            of_place = found.setdefault(asked[row["place"] - 1].key, {})
            of_place.setdefault(row["source_id"], set()).add(row["source_column"])
        return found

    async def _source_tables(self, level: Sequence[Place]) -> dict[str, list[UUID]]:
        """Inputs of the very run where it told of some, else what its job is known to read."""
        found = {place.key: list(place.run.input_ids) for place in level if place.run and place.run.input_ids}
        asked = [place for place in level if place.key not in found and place.dataset_id is not None]
        rows = await self._fetch(
            Q.list_sources,
            [place.dataset_id for place in asked],
            [place.run.job_id if place.run else None for place in asked],
            [place.read_at for place in asked],
        )
        for row in rows:
            found.setdefault(asked[row["place"] - 1].key, []).append(row["source_id"])
        return found

    async def _settle(self, inputs: Sequence[_Input]) -> list[Place]:
        """The runs behind each input when it was read; those that came while it was being read where there are none."""
        behind = await self._behind(inputs, [each.reader.reads_at for each in inputs])
        left = [place for place in range(len(inputs)) if place not in behind]
        later = await self._behind([inputs[place] for place in left], [_end(inputs[place].reader) for place in left])
        behind |= {left[place]: ids for place, ids in later.items()}
        runs = await self._runs(run_id for ids in behind.values() for run_id in ids)
        fresh: list[Place] = []
        read: list[tuple[_Input, Run]] = []
        for number, each in enumerate(inputs):
            for run_id in behind.get(number, [None]):
                run = None if run_id is None else runs.get(run_id)
                fresh += self._reach(each, run)
                if run is not None and (place := self.places.get(_key(run, each.dataset_id))) is not None:
                    if place.is_superseded:
                        place.is_superseded, place.reader, place.read_at = False, each.reader, each.reader.reads_at
                    read.append((each, run))
        return [*fresh, *await self._superseded(read)]

    def _reach(self, each: _Input, run: Run | None) -> list[Place]:
        """The place of an input, if it is a new one and there is room, or if more of its columns count now."""
        key, reader = _key(run, each.dataset_id), each.reader
        known = self.places.get(key)
        if known is None and len(self.places) >= MAX_PLACES:
            return []
        self._link(reader, key)
        if known is not None:
            if each.columns <= known.columns:
                return []
            known.columns |= each.columns
            known.via_column = known.via_column or each.via_column
            return [known]
        place = self._place(run, each.dataset_id, reader.depth + 1, reader.reads_at, columns=each.columns)
        place.via_column, place.reader = each.via_column, reader
        return [place]

    async def _superseded(self, read: Sequence[tuple[_Input, Run]]) -> list[Place]:
        """Earlier runs of the same jobs whose rows may still have been in what was read."""
        asked = [(each, run, each.reader.run) for each, run in read if run.state == "COMPLETE" and each.reader.run]
        rows = await self._fetch(
            Q.list_fresh_runs,
            [each.dataset_id for each, _, _ in asked],
            [run.job_id for _, run, _ in asked],
            [run.started_at for _, run, _ in asked],
            [each.reader.reads_at for each, _, _ in asked],
            [reader.job_id for _, _, reader in asked],
            [reader.started_at for _, _, reader in asked],
        )
        runs = await self._runs(row["run_id"] for row in rows)
        fresh: list[Place] = []
        for row in rows:
            run, each = runs.get(row["run_id"]), asked[row["place"] - 1][0]
            is_new = _key(run, each.dataset_id) not in self.places
            if run is None or (is_new and self._superseded_count >= MAX_SUPERSEDED):
                continue
            made = self._reach(each, run)
            for place in made if is_new else ():
                place.is_superseded = True
                self._superseded_count += 1
            fresh += made
        return fresh

    @staticmethod
    def _link(reader: Place, key: str) -> None:
        if key != reader.key and key not in reader.upstream:
            reader.upstream.append(key)

    def _place(
        self,
        run: Run | None,
        dataset_id: UUID | None,
        depth: int,
        read_at: datetime,
        *,
        columns: frozenset[str] = _NO_COLUMNS,
        via_column: bool = False,
    ) -> Place:
        reads_at = read_at if run is None else run.started_at
        key = _key(run, dataset_id)
        self.places[key] = Place(key, dataset_id, depth, run, read_at, reads_at, columns, via_column)
        return self.places[key]

    async def _behind(self, inputs: Sequence[_Input], ats: Sequence[datetime]) -> dict[int, list[UUID | None]]:
        """Runs by the number of the input; each dataset and moment is asked for once."""
        asked = list(dict.fromkeys((each.dataset_id, at) for each, at in zip(inputs, ats, strict=True)))
        rows = await self._fetch(Q.list_runs_behind, [one for one, _ in asked], [at for _, at in asked])
        known: dict[tuple[UUID, datetime], list[UUID | None]] = {}
        for row in rows:
            known.setdefault(asked[row["place"] - 1], []).append(row["run_id"])
        pairs = enumerate(zip(inputs, ats, strict=True))
        return {number: known[(each.dataset_id, at)] for number, (each, at) in pairs if (each.dataset_id, at) in known}

    async def _runs(self, ids: Iterable[UUID | None]) -> Mapping[UUID, Run]:
        wanted = list({run_id for run_id in ids if run_id is not None})
        return {row["run_id"]: _run(row) for row in await self._fetch(Q.list_runs, wanted)}

    async def _fetch(self, query: str, *columns: Sequence[object]) -> Sequence[Record]:
        if not columns[0]:
            return []
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *columns)
        return rows


def _run(row: Record) -> Run:
    values = dict(row)
    return Run(**values | {name: tuple(values[name]) for name in ("input_ids", "output_ids")})


def _key(run: Run | None, dataset_id: UUID | None) -> str:
    return f"external:{dataset_id}" if run is None else f"{run.run_id}:{dataset_id or ''}"


def _end(place: Place) -> datetime:
    return place.reads_at if place.run is None else max(place.run.until, place.reads_at)
