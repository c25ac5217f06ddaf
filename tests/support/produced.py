"""What producers' events have become in the database, as plain values that a test can spell out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg


class StoredRun(NamedTuple):
    """A run with the names of its job and of what it says its parents are."""

    run_id: UUID
    job: str
    job_type: str | None
    state: str
    started_at: datetime
    ended_at: datetime | None
    parent_run_id: UUID | None
    parent_job: str | None
    root_run_id: UUID | None
    root_job: str | None
    is_test: bool
    error: str | None
    events: int


async def runs(db: asyncpg.Connection) -> list[StoredRun]:
    """Every run, by its start."""
    rows = await db.fetch(
        """
        SELECT r.run_id, j.name, j.job_type, r.state, r.started_at, r.ended_at,
               r.parent_run_id, r.parent_job ->> 'name', r.root_run_id, r.root_job ->> 'name',
               r.is_test, r.error,
               (SELECT count(*) FROM lineage_events e
                 WHERE e.organization_id = r.organization_id AND e.run_id = r.run_id
                   AND e.outcome = 'accepted') AS event_count
          FROM job_runs r
          JOIN jobs j ON j.organization_id = r.organization_id AND j.id = r.job_id
         ORDER BY r.started_at, r.run_id
        """
    )
    return [StoredRun(*row) for row in rows]


async def edges(db: asyncpg.Connection) -> set[tuple[str, str, str]]:
    """(source, target, job) of every edge between datasets."""
    return await _set(db, "SELECT source_urn, target_urn, job_name FROM lineage_graph")


async def column_edges(db: asyncpg.Connection) -> set[tuple[str, str, str]]:
    """(source column, target column or whole target, kinds) of every edge between columns.

    A column is its dataset's urn, a `#` and its name; kinds read as `TYPE SUBTYPE [masked]`.
    """
    rows = await db.fetch("SELECT source_urn, source_column, target_urn, target_column, kinds FROM column_lineage")
    return {(_column(row[0], row[1]), _column(row[2], row[3]), _kinds(row[4])) for row in rows}


async def schemas(db: asyncpg.Connection) -> dict[str, list[tuple[str, str]]]:
    """By dataset, each version of its schema: what changed, and `name type` of every column."""
    rows = await db.fetch(
        """
        SELECT d.name, v.change_type, v.fields
          FROM schema_versions v
          JOIN datasets d ON d.organization_id = v.organization_id AND d.id = v.dataset_id
         ORDER BY v.version
        """
    )
    found: dict[str, list[tuple[str, str]]] = {}
    for name, change, fields in rows:
        columns = ", ".join(f"{column['name']} {column['type']}".strip() for column in json.loads(fields))
        found.setdefault(name, []).append((change, columns))
    return found


async def test_results(db: asyncpg.Connection) -> list[tuple[Any, ...]]:
    """(dataset, name, column, status, severity, expected, actual, job), in that order."""
    rows = await db.fetch(
        """
        SELECT d.name AS dataset, t.name, t.column_name, t.status, t.severity, t.expected, t.actual, j.name AS job
          FROM test_results t
          LEFT JOIN datasets d ON d.organization_id = t.organization_id AND d.id = t.dataset_id
          LEFT JOIN jobs j ON j.organization_id = t.organization_id AND j.id = t.job_id
         ORDER BY d.name, t.name, t.column_name
        """
    )
    return [tuple(row) for row in rows]


async def metrics(db: asyncpg.Connection) -> set[tuple[str, str, int | None, int | None, int | None]]:
    """(dataset, direction, rows, bytes, files) of every measurement."""
    return await _set(
        db,
        """
        SELECT d.name, m.direction, m.row_count, m.byte_size, m.file_count
          FROM dataset_metrics m
          JOIN datasets d ON d.organization_id = m.organization_id AND d.id = m.dataset_id
        """,
    )


async def producers(db: asyncpg.Connection) -> set[tuple[str, str]]:
    """(job, dataset) of everything that some job is known to write."""
    return await _set(
        db,
        """
        SELECT j.name, d.name
          FROM job_datasets u
          JOIN jobs j ON j.organization_id = u.organization_id AND j.id = u.job_id
          JOIN datasets d ON d.organization_id = u.organization_id AND d.id = u.dataset_id
         WHERE u.role = 'output'
        """,
    )


async def event_count(db: asyncpg.Connection) -> int:
    return int(await db.fetchval("SELECT count(*) FROM lineage_events"))


async def refusals(db: asyncpg.Connection) -> list[str]:
    return [row["reason"] for row in await db.fetch("SELECT reason FROM refused_events ORDER BY id")]


async def _set(db: asyncpg.Connection, query: str) -> set[Any]:
    return {tuple(row) for row in await db.fetch(query)}


def _column(urn: str, column: str | None) -> str:
    return f"{urn}#{column}" if column else urn


def _kinds(text: str) -> str:
    kinds: Sequence[dict[str, Any]] = json.loads(text)
    return ", ".join(
        " ".join(filter(None, (kind["type"], kind["subtype"], "masked" if kind["masking"] else ""))) for kind in kinds
    )
