"""What ingest has left in the database, in the words of the tests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from tests.support.events import T0, Json

T = TypeVar("T")


def moment(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


async def eventually(read: Callable[[], Awaitable[T]], is_right: Callable[[T], bool]) -> T:
    """What `read` gives, as soon as it is right, or after a while that a busy machine may need."""
    end = time.monotonic() + 30
    found = await read()
    while not is_right(found) and time.monotonic() < end:
        await asyncio.sleep(0.02)
        found = await read()
    return found


class Stored:
    """Reads one organisation's rows."""

    def __init__(self, db: asyncpg.Connection, organization_id: UUID) -> None:
        self.db = db
        self.organization_id = organization_id

    async def rows(self, sql: str, *arguments: Any) -> list[dict[str, Any]]:
        """Rows of a query whose first parameter is the organisation."""
        return [dict(row) for row in await self.db.fetch(sql, self.organization_id, *arguments)]

    async def count(self, table: str) -> int:
        found: int = await self.db.fetchval(
            f"SELECT count(*) FROM {table} WHERE organization_id = $1", self.organization_id
        )
        return found

    async def dataset(self, name: str) -> dict[str, Any]:
        (row,) = await self.rows(
            """SELECT d.* FROM dataset_aliases a JOIN datasets d ON d.id = a.dataset_id
                WHERE a.organization_id = $1 AND a.name = $2""",
            name,
        )
        return row

    async def dataset_names(self) -> set[tuple[str, str]]:
        rows = await self.rows(
            "SELECT namespace, name FROM datasets WHERE organization_id = $1 AND merged_into IS NULL"
        )
        return {(row["namespace"], row["name"]) for row in rows}

    async def run(self, run_id: str) -> dict[str, Any]:
        (row,) = await self.rows("SELECT * FROM job_runs WHERE organization_id = $1 AND run_id = $2::uuid", run_id)
        return row

    async def log(self, run_id: str | None = None) -> list[dict[str, Any]]:
        """Events in the order in which they came."""
        return await self.rows(
            """SELECT * FROM lineage_events
                WHERE organization_id = $1 AND ($2::text IS NULL OR run_id = $2::uuid) ORDER BY id""",
            run_id,
        )

    async def edges(self) -> list[dict[str, Any]]:
        return await self.rows(
            """SELECT s.name AS source, t.name AS target, j.name AS job, e.first_seen_at, e.last_seen_at,
                      e.last_completed_at, e.last_run_id
                 FROM lineage_edges e
                 JOIN datasets s ON s.id = e.source_id
                 JOIN datasets t ON t.id = e.target_id
                 JOIN jobs j ON j.id = e.job_id
                WHERE e.organization_id = $1 ORDER BY 1, 2, 3"""
        )

    async def edge_pairs(self, job: str | None = None) -> set[tuple[str, str]]:
        return {(edge["source"], edge["target"]) for edge in await self.edges() if job in (None, edge["job"])}

    async def columns(self) -> list[dict[str, Any]]:
        """Column edges as people see them."""
        rows = await self.rows(
            """SELECT s.name AS source, e.source_column, t.name AS target, e.target_column, e.kinds, e.expression,
                      e.is_current, e.first_seen_at,
                      greatest(e.last_seen_at, CASE WHEN e.is_current THEN h.columns_seen_at END) AS last_seen_at
                 FROM column_lineage_edges e
                 JOIN datasets s ON s.id = e.source_id
                 JOIN datasets t ON t.id = e.target_id
                 JOIN job_datasets h ON h.job_id = e.job_id AND h.dataset_id = e.target_id AND h.role = 'output'
                WHERE e.organization_id = $1 ORDER BY 1, 2, 3, 4"""
        )
        return [row | {"kinds": json.loads(row["kinds"])} for row in rows]

    async def versions(self, name: str) -> list[dict[str, Any]]:
        rows = await self.rows(
            """SELECT v.* FROM schema_versions v JOIN dataset_aliases a ON a.dataset_id = v.dataset_id
                WHERE v.organization_id = $1 AND a.name = $2 ORDER BY v.version""",
            name,
        )
        return [row | {"columns": [field["name"] for field in json.loads(row["fields"])]} for row in rows]

    async def metrics(self) -> list[dict[str, Any]]:
        return await self.rows(
            """SELECT m.*, d.name FROM dataset_metrics m JOIN datasets d ON d.id = m.dataset_id
                WHERE m.organization_id = $1 ORDER BY d.name, m.direction, m.measured_at"""
        )

    async def tests(self) -> list[dict[str, Any]]:
        return await self.rows(
            """SELECT r.*, d.name AS dataset FROM test_results r LEFT JOIN datasets d ON d.id = r.dataset_id
                WHERE r.organization_id = $1 ORDER BY d.name, r.name, r.column_name, r.observed_at"""
        )

    async def facet(self, dataset: str, name: str) -> Json | None:
        rows = await self.rows(
            """SELECT f.body FROM dataset_facets f JOIN dataset_aliases a ON a.dataset_id = f.dataset_id
                WHERE f.organization_id = $1 AND a.name = $2 AND f.name = $3""",
            dataset,
            name,
        )
        return None if not rows else dict(json.loads(rows[0]["body"]))

    async def follow_ups(self, task_type: str | None = None, resource_type: str | None = None) -> list[dict[str, Any]]:
        """Tasks other than the recurring ones, in the order in which they were made."""
        rows = await self.rows(
            """SELECT * FROM async_task
                WHERE organization_id = $1 AND repeat_s IS NULL AND ($2::text IS NULL OR task_type = $2)
                  AND ($3::text IS NULL OR resource_type = $3)
                ORDER BY id""",
            task_type,
            resource_type,
        )
        return [row | {"payload": json.loads(row["payload"])} for row in rows]

    async def everything(self, tables: Sequence[str]) -> dict[str, list[str]]:
        """Rows of these tables as text, to see whether anything changed."""
        return {
            table: [
                row["row"]
                for row in await self.rows(
                    f"SELECT to_jsonb(t)::text AS row FROM {table} t WHERE organization_id = $1 ORDER BY 1"
                )
            ]
            for table in tables
        }
