"""What lies downstream of datasets: which tables a change reaches, through which pipelines, and whose they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.impact import Affected, criticality, judged, owners_in, pipeline_of
from headgate.errors import NotFound
from headgate.server.columns.answers import dataset_ref
from headgate.server.columns.edges import Json
from headgate.server.columns.store import ColumnStore, Q
from headgate.server.db.pool import Connection, Record
from headgate.server.references.datasets import Dataset

MAX_COLUMNS = 10_000
# Some name a job after each of its runs; a table then has more writers than anybody wants to read.
MAX_JOBS = 100


class Reach(NamedTuple):
    """The tables that are reached, and how many more there are."""

    tables: Mapping[UUID, Affected]
    hidden: int

    def cut(self, limit: int) -> Reach:
        kept = sorted(self.tables.items(), key=lambda item: (item[1].depth, item[0]))[:limit]
        return Reach(dict(kept), self.hidden + len(self.tables) - len(kept))


class Question(NamedTuple):
    """What is asked of a dataset: all that is downstream, or what a change of a column or of any column would hit."""

    column: str | None
    if_schema_changes: bool
    depth: int
    limit: int

    @property
    def is_about_columns(self) -> bool:
        return self.if_schema_changes or self.column is not None


class ImpactStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def of_dataset(self, dataset: Dataset, question: Question) -> Reach:
        if not question.is_about_columns:
            return await self.downstream([dataset.id], question.depth, question.limit)
        columns = None if question.column is None else [question.column]
        possible, is_sure = await self._possible(dataset, columns, question.depth)
        sure = possible if is_sure else await self._sure(dataset, columns, question.depth)
        below = Reach({}, 0)
        if not question.if_schema_changes:
            below = await self.downstream([dataset.id], question.depth, question.limit)
        depths = {table: affected.depth for table, affected in below.tables.items()}
        hidden = max(sure.hidden, possible.hidden, below.hidden)
        return Reach(judged(depths, sure.tables, possible.tables), hidden).cut(question.limit)

    async def downstream(self, roots: Sequence[UUID], depth: int, limit: int) -> Reach:
        """Everything downstream of some datasets, without them."""
        # The roots count for the walk, but not for whoever asked.
        walked = (self._organization_id, roots, depth, limit + len(roots))
        depths = {row["dataset_id"]: row["depth"] for row in await self._conn.fetch(Q.walk_downstream, *walked)}
        hidden = await self._conn.fetchval(Q.count_hidden, self._organization_id, list(depths), MAX_JOBS)
        return Reach({dataset: Affected(depth) for dataset, depth in depths.items() if depth > 0}, hidden)

    async def outputs(self, run_id: UUID) -> list[UUID]:
        row = await self._conn.fetchrow(Q.get_run_outputs, self._organization_id, run_id)
        if row is None:
            raise NotFound(f"no run {str(run_id)!r}", hint="run is the OpenLineage runId; list them at /api/v1/runs")
        return list(dict.fromkeys(row["output_ids"]))

    async def refs(self, ids: Sequence[UUID]) -> list[Json]:
        rows = await self._conn.fetch(Q.list_tables, self._organization_id, ids)
        return sorted((dataset_ref(row) for row in rows), key=lambda ref: (ref["namespace"], ref["name"]))

    async def describe(self, reach: Reach, roots: Sequence[UUID]) -> Json:
        """The tables of a reach, with who makes and owns them, and the sums over all of them."""
        ids = list(reach.tables)
        rows = await self._conn.fetch(Q.list_tables, self._organization_id, ids)
        writers, readers = await self._users(ids, roots)
        jobs = await self._jobs({job for found in (*writers.values(), *readers.values()) for job in found})
        tables = [
            _table(row, reach.tables[row["id"]], _pick(jobs, writers, row["id"]), _pick(jobs, readers, row["id"]))
            for row in rows
        ]
        tables.sort(key=lambda table: (table["depth"], table["namespace"], table["name"]))
        return _summed(tables, reach.hidden)

    async def _sure(self, dataset: Dataset, columns: list[str] | None, depth: int) -> Reach:
        """Tables with columns that are made of the changed ones, by column lineage all the way."""
        store = ColumnStore(self._conn, self._organization_id)
        if columns is None:
            rows = await self._conn.fetch(Q.list_source_columns, self._organization_id, dataset.id, MAX_COLUMNS)
            columns = [row["name"] for row in rows]
        walk = await store.walk(dataset, columns, "down", depth, MAX_COLUMNS)
        return Reach(_by_table(walk.rows, dataset.id, reads_column=True), walk.hidden)

    async def _possible(self, dataset: Dataset, columns: list[str] | None, depth: int) -> tuple[Reach, bool]:
        """Tables that may be hit, those without known column lineage included, and whether there are none such."""
        rows = await self._conn.fetch(Q.walk_change, self._organization_id, dataset.id, columns, depth, MAX_COLUMNS)
        is_sure = all(row["column_name"] is not None for row in rows if row["depth"] > 0)
        tables = _by_table(rows, dataset.id, reads_column=True if is_sure else None)
        return Reach(tables, rows[0]["hidden"]), is_sure

    async def _users(
        self, ids: Sequence[UUID], roots: Sequence[UUID]
    ) -> tuple[dict[UUID, list[UUID]], dict[UUID, list[UUID]]]:
        """Jobs that make each table of what is reached, and jobs that read it."""
        users: dict[str, dict[UUID, list[UUID]]] = {"writer": {}, "reader": {}}
        organization = self._organization_id
        for row in await self._conn.fetch(Q.list_table_jobs, organization, ids, [*ids, *roots], MAX_JOBS):
            users[row["role"]].setdefault(row["dataset_id"], []).append(row["job_id"])
        # Column lineage may name sources that the run did not list among its inputs.
        rest = [dataset for dataset in ids if dataset not in users["writer"]]
        for row in await self._conn.fetch(Q.list_column_jobs, organization, rest, MAX_JOBS) if rest else ():
            users["writer"].setdefault(row["dataset_id"], []).append(row["job_id"])
        return users["writer"], users["reader"]

    async def _jobs(self, ids: Collection[UUID]) -> dict[UUID, Json]:
        rows = await self._conn.fetch(Q.list_jobs, self._organization_id, list(ids))
        return {
            row["id"]: {
                "out": {"id": row["id"], "namespace": row["namespace"], "name": row["name"]},
                "pipeline": pipeline_of(row["name"], row["parent"], row["root"]),
                "owners": owners_in(_decoded(row["ownership"])),
            }
            for row in rows
        }


def _by_table(rows: Sequence[Record], root: UUID, *, reads_column: bool | None) -> dict[UUID, Affected]:
    tables: dict[UUID, Affected] = {}
    for row in rows:
        if row["dataset_id"] != root:
            before = tables.get(row["dataset_id"], Affected(row["depth"], reads_column))
            name = (row["column_name"],) if row["column_name"] else ()
            tables[row["dataset_id"]] = before._replace(columns=before.columns + name)
    return tables


def _pick(jobs: Mapping[UUID, Json], users: Mapping[UUID, Sequence[UUID]], dataset: UUID) -> list[Json]:
    found = [jobs[job] for job in users.get(dataset, ()) if job in jobs]
    return sorted(found, key=lambda job: (job["out"]["namespace"], job["out"]["name"]))


def _table(row: Record, affected: Affected, writers: Sequence[Json], readers: Sequence[Json]) -> Json:
    own = owners_in(_decoded(row["ownership"])) if row["owners"] is None else row["owners"]
    owners = [*own, *(owner for job in writers for owner in job["owners"])]
    return dataset_ref(row) | {
        "depth": affected.depth,
        "certainty": affected.certainty,
        "reads_column": affected.reads_column,
        "columns": sorted(affected.columns),
        "jobs": [job["out"] for job in writers],
        "pipelines": sorted({job["pipeline"] for job in writers}),
        "read_by": sorted({job["pipeline"] for job in readers}),
        "owners": list(dict.fromkeys(owners)),
        "description": row["description"],
        "tags": list(row["tags"]),
    }


def _summed(tables: Sequence[Json], hidden: int) -> Json:
    pipelines = sorted({name for table in tables for name in table["pipelines"]})
    owners = sorted({name for table in tables for name in table["owners"]})
    columns = sum(len(table["columns"]) for table in tables)
    return {
        "tables": tables,
        "pipelines": pipelines,
        "owners": owners,
        "totals": {
            "tables": len(tables),
            "pipelines": len(pipelines),
            "owners": len(owners),
            "direct": sum(table["depth"] == 1 for table in tables),
            "columns": columns,
        },
        "criticality": criticality(len(tables), columns).value,
        "truncated": hidden > 0,
        "hidden": hidden,
    }


def _decoded(text: str | None) -> Any:
    return None if text is None else msgspec.json.decode(text)
