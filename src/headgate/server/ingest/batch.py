"""Turns facts into the arrays that `ingest_events` takes. Places are 1-based, as in SQL."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import zstandard
from msgspec import Struct

from headgate.domain.names import DatasetName
from headgate.openlineage.facts import DatasetUse, Facts

_encode = msgspec.json.encode
_compressor = zstandard.ZstdCompressor(level=1)


class Prepared(Struct):
    """An event ready to be written: its facts, its key and its bytes, packed."""

    facts: Facts
    key: bytes
    packed: bytes


def prepare(organization_id: UUID, facts: Facts) -> Prepared:
    return Prepared(facts, event_key(organization_id, facts.raw), _compressor.compress(facts.raw))


def event_key(organization_id: UUID, raw: bytes) -> bytes:
    """Identity of an event: who sent which bytes."""
    digest = hashlib.sha256(organization_id.bytes)
    digest.update(raw)
    return digest.digest()


class DatasetRow(NamedTuple):
    dataset: DatasetName
    type: str | None
    location: str | None


class Use(NamedTuple):
    """A dataset's use with its event, at the same place as in the io_* arrays."""

    event: int
    dataset: int
    use: DatasetUse


class Batch:
    """The events of one organisation in one transaction, and where each of their names stands."""

    def __init__(self, events: Sequence[Prepared]) -> None:
        self.events = events
        self.jobs: dict[tuple[str, str], int] = {}
        self.datasets: dict[tuple[str, str], int] = {}
        self.rows: list[DatasetRow] = []
        self.uses: list[Use] = []
        self._edges: list[tuple[int, int, int]] = []
        self._metrics: list[tuple[Any, ...]] = []
        for place, prepared in enumerate(events, 1):
            self._add(place, prepared.facts)

    def _add(self, place: int, facts: Facts) -> None:
        if facts.job is not None:
            self.jobs.setdefault(facts.job, len(self.jobs) + 1)
        for use in facts.uses:
            self.uses.append(Use(place, self._dataset(use.dataset, use.type, use.location), use))
        for source, target in facts.edges or ():
            self._edges.append((place, self._dataset(source), self._dataset(target)))
        for metric in facts.metrics:
            columns = None if metric.columns is None else _encode(metric.columns).decode()
            self._metrics.append(
                (place, self._dataset(metric.dataset), metric.direction, metric.row_count, metric.byte_size,
                 metric.file_count, metric.partition_count, metric.dataset.partition_key, columns)
            )  # fmt: skip

    def _dataset(self, dataset: DatasetName, type_: str | None = None, location: str | None = None) -> int:
        key = dataset[:2]
        place = self.datasets.get(key)
        if place is None:
            place = self.datasets[key] = len(self.datasets) + 1
            self.rows.append(DatasetRow(dataset, type_, location))
        return place

    def arguments(self) -> list[Any]:
        """Everything after the organisation and its tenant code."""
        jobs = list(self.jobs)
        names = [row.dataset for row in self.rows]
        return [
            [namespace for namespace, _ in jobs],
            [name for _, name in jobs],
            [name.namespace for name in names],
            [name.name for name in names],
            [name.display_name for name in names],
            [row.type for row in self.rows],
            [row.location for row in self.rows],
            *self._event_arrays(),
            *self._use_arrays(),
            *_columns(self._edges, 3),
            *_columns(self._metrics, 9),
        ]

    def _event_arrays(self) -> list[list[Any]]:
        facts = [prepared.facts for prepared in self.events]
        return [
            [prepared.key for prepared in self.events],
            [f.kind for f in facts],
            [f.event_type for f in facts],
            [f.event_time for f in facts],
            [f.run_id for f in facts],
            [None if f.job is None else self.jobs[f.job] for f in facts],
            [f.producer for f in facts],
            [f.lenient for f in facts],
            [prepared.packed for prepared in self.events],
            [f.parent_run for f in facts],
            [f.root_run for f in facts],
            [_job_json(f.parent_job) for f in facts],
            [_job_json(f.root_job) for f in facts],
            [f.error for f in facts],
            [f.application_id for f in facts],
            [None if f.partition_context is None else _encode(f.partition_context).decode() for f in facts],
            [f.is_test for f in facts],
            [f.job_type for f in facts],
            [f.processing_type for f in facts],
            [f.integration for f in facts],
            [f.job_facets_hash for f in facts],
            [f.edges is not None for f in facts],
            [bool(f.uses) for f in facts],
        ]

    def _use_arrays(self) -> list[list[Any]]:
        uses = self.uses
        return [
            [row.event for row in uses],
            [row.dataset for row in uses],
            [row.use.role for row in uses],
            [row.use.facets_hash for row in uses],
            [None if row.use.columns is None else row.use.columns.hash for row in uses],
            [None if row.use.schema is None else row.use.schema.hash for row in uses],
        ]

    def facts_of(self, row: Use) -> Facts:
        return self.events[row.event - 1].facts


class Written(NamedTuple):
    """What `ingest_events` answered, with ids by place."""

    outcome: list[int]
    job_ids: list[UUID | None]
    dataset_ids: list[UUID | None]
    stale_jobs: list[int]
    stale_facets: list[int]
    stale_columns: list[int]
    stale_schemas: list[int]


def _columns(rows: list[Any], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


def _job_json(job: tuple[str, str] | None) -> str | None:
    return None if job is None else _encode({"namespace": job[0], "name": job[1]}).decode()


def in_time_order(batch: Batch, places: Sequence[int]) -> list[Use]:
    """The uses at these places, oldest event first."""
    rows = [batch.uses[place - 1] for place in places]
    return sorted(rows, key=lambda row: _time(batch, row))


def _time(batch: Batch, row: Use) -> datetime:
    return batch.facts_of(row).event_time
