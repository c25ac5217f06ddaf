"""What a server remembers of an organisation, so that an event that repeats itself costs little.

Ids by name, and the content that was stored last. All of it is learnt from commits, and all of it is forgotten
when the organisation's epoch has moved: some other writer has changed what is remembered here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from msgspec import Struct

NameKey = tuple[str, str]
UseKey = tuple[UUID | None, UUID, str]
EdgeKey = tuple[UUID, UUID, UUID]
# Facets of a START and of any later event: a START often says less.
UseHashes = tuple[int | None, int | None]
NO_JOB = UUID(int=0)
MAX_REMEMBERED = 500_000
# Facets may change through another server without moving the epoch; after this long we look again.
LOOK_AGAIN_S = 60.0


class Shape(Struct, frozen=True, eq=False, gc=False):
    """What the runs of a job that do the same all over again have in common: nothing of it is news."""

    job_id: UUID
    datasets: dict[NameKey, UUID]
    # Ids, as the text of an array.
    inputs: str
    outputs: str
    # Each with whether it shows column lineage, and a schema.
    uses: tuple[tuple[UseKey, bool, bool], ...]
    edges: tuple[EdgeKey, ...]


# A job, whether the event is a START, and the role, name and content of each use.
ShapeKey = tuple[NameKey, bool, tuple[tuple[str, NameKey, int | None], ...]]


class Memory:
    """One organisation's names and contents."""

    def __init__(self) -> None:
        self.epoch = -1
        self.jobs: dict[NameKey, UUID] = {}
        self.datasets: dict[NameKey, UUID] = {}
        self.job_hashes: dict[UUID, int] = {}
        self.refreshed_at = time.monotonic()
        # By dataset, because a new schema of one makes all that is remembered of its uses doubtful.
        self.uses: dict[UUID, dict[tuple[UUID | None, str], UseHashes]] = {}
        self.edges: dict[EdgeKey, None] = {}
        # Worked out from the rest, so they go when any of it does.
        self.shapes: dict[ShapeKey, Shape] = {}

    def use(self, key: UseKey) -> UseHashes | None:
        job_id, dataset_id, role = key
        uses = self.uses.get(dataset_id)
        return None if uses is None else uses.get((job_id, role))

    def remember_use(self, key: UseKey, hashes: UseHashes) -> None:
        job_id, dataset_id, role = key
        uses = self.uses.setdefault(dataset_id, {})
        known = uses.get((job_id, role))
        before = known or (None, None)
        after = (before[0] if hashes[0] is None else hashes[0], before[1] if hashes[1] is None else hashes[1])
        if known is not None and known != after:
            self.shapes.clear()
        uses[(job_id, role)] = after

    def look_again(self) -> None:
        """Forget contents that have been remembered for long; names stay."""
        now = time.monotonic()
        if now - self.refreshed_at > LOOK_AGAIN_S:
            self.refreshed_at = now
            self.uses.clear()
            self.job_hashes.clear()
            self.shapes.clear()

    def forget(self) -> None:
        self.jobs.clear()
        self.datasets.clear()
        self.job_hashes.clear()
        self.uses.clear()
        self.edges.clear()
        self.shapes.clear()


class GroupMemory(Memory):
    """What one group needs and learns: from what is committed, and from its own transaction."""

    def __init__(self, committed: Memory) -> None:
        super().__init__()
        self.committed = committed
        self.dropped_uses: set[UseKey] = set()
        self.changed_schemas: set[UUID] = set()
        self.has_changed_columns = False

    @property
    def misleads_others(self) -> bool:
        """Whether what other servers remember may now be wrong: a schema or column lineage has changed."""
        return bool(self.changed_schemas) or self.has_changed_columns

    def see_epoch(self, epoch: int) -> None:
        """Called behind the locks: what was remembered under another epoch is not to be trusted."""
        self.epoch = epoch
        self.committed.look_again()
        if self.committed.epoch != epoch:
            self.committed.forget()
            self.committed.epoch = epoch

    def use(self, key: UseKey) -> UseHashes | None:
        return self.committed.use(key)

    def has_edge(self, key: EdgeKey) -> bool:
        return key in self.committed.edges

    def has_job_facets(self, job_id: UUID, hash_: int) -> bool:
        return self.committed.job_hashes.get(job_id) == hash_

    def missing_jobs(self, wanted: Iterable[NameKey]) -> list[NameKey]:
        """Take what is known of these; the rest, in order."""
        return _take(wanted, self.jobs, self.committed.jobs)

    def missing_datasets(self, wanted: Iterable[NameKey]) -> list[NameKey]:
        return _take(wanted, self.datasets, self.committed.datasets)

    def snapshot(self) -> tuple[set[NameKey], dict[UUID, int], set[UUID], bool]:
        """What a step may add to; it is taken back if the step is."""
        return set(self.datasets), dict(self.job_hashes), set(self.changed_schemas), self.has_changed_columns

    def restore(self, before: tuple[set[NameKey], dict[UUID, int], set[UUID], bool]) -> None:
        names, self.job_hashes, self.changed_schemas, self.has_changed_columns = before
        self.datasets = {key: id_ for key, id_ in self.datasets.items() if key in names}

    def commit(self) -> None:
        """Keep what the transaction learnt, now that it is committed."""
        known = self.committed
        if known.epoch != self.epoch:
            return
        if len(known.datasets) + len(known.edges) > MAX_REMEMBERED:
            known.forget()
        known.jobs |= self.jobs
        known.datasets |= self.datasets
        known.job_hashes |= self.job_hashes
        known.edges |= self.edges
        for dataset_id, uses in self.uses.items():
            for (job_id, role), hashes in uses.items():
                known.remember_use((job_id, dataset_id, role), hashes)
        for job_id, dataset_id, role in self.dropped_uses:
            known.uses.get(dataset_id, {}).pop((job_id, role), None)
        for dataset_id in self.changed_schemas:
            known.uses.pop(dataset_id, None)
        if self.dropped_uses or self.changed_schemas:
            known.shapes.clear()
        if self.misleads_others:
            # Our own change has moved the epoch by one; the next group sees whether anybody else's has too.
            known.epoch += 1


def _take(wanted: Iterable[NameKey], into: dict[NameKey, UUID], known: dict[NameKey, UUID]) -> list[NameKey]:
    missing = []
    for key in set(wanted):
        if key not in into:
            found = known.get(key)
            if found is None:
                missing.append(key)
            else:
                into[key] = found
    return sorted(missing)


# First and last seen, last completed, and by which run last.
EdgeTimes = tuple[datetime, datetime, datetime | None, UUID | None]
# First and last seen, last completed, column lineage and schema last seen.
UseTimes = tuple[datetime, datetime, datetime | None, datetime | None, datetime | None]


class Touches:
    """When known uses and edges were last seen, gathered until they are written."""

    def __init__(self) -> None:
        self._uses: dict[UseKey, UseTimes] = {}
        self._edges: dict[EdgeKey, EdgeTimes] = {}
        # Of whole events that repeat themselves; taken apart when somebody looks.
        self._shapes: dict[Shape, EdgeTimes] = {}

    def __bool__(self) -> bool:
        return bool(self._uses or self._edges or self._shapes)

    @property
    def uses(self) -> dict[UseKey, UseTimes]:
        self._take_apart()
        return self._uses

    @property
    def edges(self) -> dict[EdgeKey, EdgeTimes]:
        self._take_apart()
        return self._edges

    def add_shape(
        self, shape: Shape, first: datetime, last: datetime, completed: datetime | None, run: UUID | None
    ) -> None:
        """Note that all of it was seen."""
        self._shapes[shape] = _widened(self._shapes.get(shape), first, last, completed, run)

    def add_use(
        self,
        key: UseKey,
        first: datetime,
        last: datetime,
        completed: datetime | None,
        columns: datetime | None = None,
        schema: datetime | None = None,
    ) -> None:
        seen = self._uses.get(key)
        if seen is not None:
            first, last = min(first, seen[0]), max(last, seen[1])
            completed, columns, schema = _later(completed, seen[2]), _later(columns, seen[3]), _later(schema, seen[4])
        self._uses[key] = (first, last, completed, columns, schema)

    def schema_seen_at(self, dataset_id: UUID) -> datetime | None:
        """When a schema of the dataset was last seen among what is not written yet."""
        seen = [times[4] for key, times in self.uses.items() if key[1] == dataset_id and times[4] is not None]
        return max(seen, default=None)

    def add_edge(
        self, key: EdgeKey, first: datetime, last: datetime, completed: datetime | None, run: UUID | None
    ) -> None:
        self._edges[key] = _widened(self._edges.get(key), first, last, completed, run)

    def add_all(self, other: Touches) -> None:
        for shape, times in other._shapes.items():
            self.add_shape(shape, *times)
        for key, use in other._uses.items():
            self.add_use(key, *use)
        for edge_key, edge in other._edges.items():
            self.add_edge(edge_key, *edge)

    def _take_apart(self) -> None:
        shapes, self._shapes = self._shapes, {}
        for shape, (first, last, completed, run) in shapes.items():
            for key, has_columns, has_schema in shape.uses:
                self.add_use(key, first, last, completed, last if has_columns else None, last if has_schema else None)
            for edge in shape.edges:
                self.add_edge(edge, first, last, completed, run)


def _widened(
    seen: EdgeTimes | None, first: datetime, last: datetime, completed: datetime | None, run: UUID | None
) -> EdgeTimes:
    if seen is None:
        return first, last, completed, run
    is_later = last >= seen[1]
    return (
        first if first < seen[0] else seen[0],
        last if is_later else seen[1],
        _later(completed, seen[2]),
        run if is_later else seen[3],
    )


def use_order(key: UseKey) -> tuple[UUID, UUID, str]:
    """The order in which uses are always locked."""
    return key[0] or NO_JOB, key[1], key[2]


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(one, other) if one is not None and other is not None else one or other
