"""Organisations with a model drawn at random, written straight into the tables, and everything they hold."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from headgate.domain.schema import INITIAL, Field, diff, schema_hash
from tests.support.events import PRODUCER, T0

TABLES = (
    "datasets", "dataset_aliases", "job_datasets", "dataset_facets", "lineage_edges", "column_lineage_edges",
    "schema_versions", "dataset_metrics", "test_results", "freshness_sla", "jobs", "job_runs", "dataset_stats",
    "dataset_tags", "dataset_notes", "anomalies", "detection_policies", "expected_marks", "incidents",
    "incident_symptoms", "alert_history",
)  # fmt: skip
NO_RUN = UUID(int=0)


async def an_organization(db: asyncpg.Connection) -> UUID:
    organization_id: UUID = await db.fetchval(
        """INSERT INTO organizations (name, slug, tenant_code)
           SELECT 'Graph', s.text, s.text FROM (SELECT gen_random_uuid()::text AS text) s
           RETURNING id"""
    )
    return organization_id


async def insert(db: asyncpg.Connection, organization_id: UUID, table: str, **values: Any) -> None:
    """A row of the organisation, unless one like it is there."""
    values["organization_id"] = organization_id
    places = ", ".join(f"${place}" for place in range(1, len(values) + 1))
    await db.execute(
        f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places}) ON CONFLICT DO NOTHING", *values.values()
    )


async def dump(db: asyncpg.Connection, organization_id: UUID) -> dict[str, Counter[str]]:
    """Every row of the organisation's model, as text."""
    await db.execute("SELECT settle_dataset_stats($1)", organization_id)
    found = {}
    for table in TABLES:
        rows = await db.fetch(
            f"SELECT to_jsonb(t)::text AS row FROM {table} t WHERE organization_id = $1", organization_id
        )
        found[table] = Counter(row["row"] for row in rows)
    return found


class RandomGraph:
    """A few datasets that many jobs read and write, so that any two of them collide in every table."""

    def __init__(
        self, db: asyncpg.Connection, organization_id: UUID, seed: int, datasets: int = 5, prefix: str = "dataset"
    ) -> None:
        self._db = db
        self._organization_id = organization_id
        self._prefix = prefix
        self._random = random.Random(seed)
        self.datasets = self._uuids(datasets)
        self.jobs = self._uuids(3)
        self.runs = self._uuids(6)

    async def write(self) -> None:
        for place, dataset_id in enumerate(self.datasets):
            await self._dataset(place, dataset_id)
            await self._schemas(dataset_id)
            await self._words(dataset_id)
        for place, job_id in enumerate(self.jobs):
            await self._insert("jobs", id=job_id, namespace="jobs", name=f"{self._prefix}_{place}", first_seen_at=T0)
            await self._uses(job_id)
            await self._edges(job_id)
        for run_id in self.runs:
            await self._run(run_id)
        await self._db.execute("SELECT refresh_dataset_stats($1, 'all', $2)", self._organization_id, self.datasets)

    def _uuids(self, count: int) -> list[UUID]:
        return [UUID(int=self._random.getrandbits(128)) for _ in range(count)]

    def _time(self) -> datetime:
        return T0 + timedelta(minutes=self._random.randrange(100))

    def _maybe(self, value: Any) -> Any:
        return value if self._random.random() < 0.6 else None

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _some(self, ids: Sequence[UUID]) -> list[UUID]:
        return self._random.sample(ids, self._random.randrange(len(ids) + 1))

    async def _insert(self, table: str, **values: Any) -> None:
        await insert(self._db, self._organization_id, table, **values)

    async def _dataset(self, place: int, dataset_id: UUID) -> None:
        name = {"namespace": "s3://lake", "name": f"{self._prefix}_{place}"}
        await self._insert(
            "datasets", id=dataset_id, **name, display_name=f"lake:{self._prefix}_{place}", first_seen_at=self._time(),
            type=self._random.choice([None, "table", "file", "s3", "view"]), location=self._maybe(f"/{place}"),
            dropped_at=self._maybe(self._time()), created_at=self._time(),
        )  # fmt: skip
        await self._insert("dataset_aliases", **name, dataset_id=dataset_id, source="primary")
        if self._chance(0.5):
            await self._insert(
                "dataset_aliases",
                namespace="hive://h",
                name=f"{self._prefix}_{place}",
                dataset_id=dataset_id,
                source="symlink",
            )
        if self._chance(0.6):
            await self._insert(
                "freshness_sla", dataset_id=dataset_id, sla_hours=self._random.choice([1, 24]),
                last_updated_at=self._maybe(self._time()), is_stale=self._chance(0.5),
            )  # fmt: skip

    async def _schemas(self, dataset_id: UUID) -> None:
        times = sorted({self._time() for _ in range(self._random.randrange(5))})
        before: tuple[Field, ...] | None = None
        for number, (begin, end) in enumerate(zip(times, [*times[1:], None], strict=False), 1):
            fields = self._fields()
            while before is not None and schema_hash(fields) == schema_hash(before):
                fields = self._fields()
            change = INITIAL if before is None else diff(before, fields)
            await self._insert(
                "schema_versions", dataset_id=dataset_id, version=number, schema_hash=schema_hash(fields),
                fields=fields_json(fields), columns_added=list(change.added), columns_removed=list(change.removed),
                columns_type_changed=list(change.type_changed), change_type=str(change.type),
                description=change.description, breaking=change.breaking, valid_from=begin, valid_to=end,
                run_id=self._maybe(self._random.choice(self.runs)),
            )  # fmt: skip
            before = fields
        if before is not None:
            await self._db.execute(
                "UPDATE datasets SET schema_hash = $3, schema_at = $4, schema_by = $5 "
                "WHERE organization_id = $1 AND id = $2",
                self._organization_id, dataset_id, schema_hash(before), times[-1],
                self._random.choice(["input", "output", "dataset"]),
            )  # fmt: skip

    async def _words(self, dataset_id: UUID) -> None:
        if self._chance(0.6):
            await self._insert(
                "dataset_tags", dataset_id=dataset_id, tag=self._random.choice(["pii", "gold"]), source="user",
                column_name=self._random.choice(["", "a"]), created_at=self._time(),
            )  # fmt: skip
        if self._chance(0.6):
            await self._insert(
                "dataset_notes", dataset_id=dataset_id, description=self._maybe(self._random.choice(["one", "two"])),
                owners=self._maybe([self._random.choice(["ada", "bob"])]), updated_at=self._time(),
            )  # fmt: skip

    def _fields(self) -> tuple[Field, ...]:
        names = self._random.sample(["a", "b", "c"], self._random.randrange(1, 4))
        return tuple(Field(name, self._random.choice(["int", "string"]), self._chance(0.5)) for name in names)

    async def _uses(self, job_id: UUID) -> None:
        for dataset_id in self.datasets:
            for role in ("input", "output"):
                if self._chance(0.6):
                    await self._use(job_id, dataset_id, role)
            if self._chance(0.6):
                await self._insert(
                    "dataset_facets", dataset_id=dataset_id, name=self._random.choice(["owner", "docs", "tags"]),
                    body=self._random.choice([json.dumps({"tags": [{"key": str(job_id)}], "n": None}), "null"]),
                    event_time=self._time(), job_id=job_id,
                    role=self._random.choice([None, "input", "output"]), facets_hash=self._hash(),
                )  # fmt: skip

    async def _use(self, job_id: UUID, dataset_id: UUID, role: str) -> None:
        first, last = sorted([self._time(), self._time()])
        await self._insert(
            "job_datasets", job_id=job_id, dataset_id=dataset_id, role=role, first_seen_at=first, last_seen_at=last,
            last_completed_at=self._maybe(last), start_hash=self._hash(), facets_hash=self._hash(),
            columns_hash=self._hash(), columns_seen_at=self._maybe(last), columns_before_at=self._maybe(first),
        )  # fmt: skip

    def _hash(self) -> int | None:
        return self._random.choice([None, 1, 2])

    async def _edges(self, job_id: UUID) -> None:
        for source_id in self.datasets:
            for target_id in self.datasets:
                first, last = sorted([self._time(), self._time()])
                seen = {"job_id": job_id, "first_seen_at": first, "last_seen_at": last}
                if self._chance(0.4) and source_id != target_id:
                    await self._insert(
                        "lineage_edges", source_id=source_id, target_id=target_id, **seen,
                        last_completed_at=self._maybe(last), last_run_id=self._maybe(self._random.choice(self.runs)),
                    )  # fmt: skip
                if self._chance(0.4):
                    await self._insert(
                        "column_lineage_edges", source_id=source_id, target_id=target_id, **seen,
                        source_column=self._random.choice("ab"), target_column=self._random.choice(["", "a"]),
                        kinds=json.dumps([{"type": self._random.choice(["DIRECT", "INDIRECT"])}]),
                        expression=self._maybe("a + b"), is_current=self._chance(0.5),
                    )  # fmt: skip

    async def _run(self, run_id: UUID) -> None:
        job_id, *others = self._random.sample(self.jobs, self._random.choice([1, 1, 2]))
        start = self._time()
        inputs, outputs = self._some(self.datasets), self._some(self.datasets)
        await self._insert(
            "job_runs", run_id=run_id, job_id=job_id, job_ids=[job_id, *others], state="START", started_at=start,
            last_event_at=start, producer=PRODUCER, is_test=self._chance(0.3), input_ids=inputs, output_ids=outputs,
        )  # fmt: skip
        # As ingest would have it: a run's datasets are its jobs' datasets.
        for dataset_id in inputs:
            await self._use(self._random.choice([job_id, *others]), dataset_id, "input")
        for dataset_id in outputs:
            await self._use(self._random.choice([job_id, *others]), dataset_id, "output")
        for dataset_id in self.datasets:
            await self._measurements(self._random.choice([run_id, run_id, NO_RUN]), dataset_id)

    async def _measurements(self, run_id: UUID, dataset_id: UUID) -> None:
        if self._chance(0.5):
            await self._insert(
                "dataset_metrics", dataset_id=dataset_id, measured_at=self._time(), run_id=run_id,
                direction=self._random.choice(["input", "output"]),
                row_count=self._maybe(self._random.randrange(2**62)),
                columns=self._maybe(json.dumps({"a": {"nullCount": 0}})),
            )  # fmt: skip
        if self._chance(0.5):
            await self._insert(
                "test_results", run_id=run_id, dataset_id=self._maybe(dataset_id), test_key=self._random.choice("xy"),
                name="not_null", status=self._random.choice(["passed", "failed"]), severity="error",
                observed_at=self._time(), detail="{}",
            )  # fmt: skip


def fields_json(fields: Sequence[Field]) -> str:
    return json.dumps([{"name": f.name, "type": f.type, "nullable": f.nullable, "description": None} for f in fields])
