"""Datasets of one organisation in the database: lists, one with all that is known of it, tags and notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import SortedPage

Q = Queries("headgate.server.catalog")

MAX_JOBS = 1000

Row = dict[str, Any]


class Filters(NamedTuple):
    """Which datasets a list shows; None is any."""

    namespace: str | None = None
    type: str | None = None
    tag: str | None = None
    text: str | None = None
    has_incident: bool | None = None
    dropped: bool = False


class CatalogStore:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def page(self, page: SortedPage, filters: Filters) -> tuple[list[Row], str | None]:
        """Datasets of a page, and the cursor of the next."""
        column, descends = page.sort.lstrip("-"), page.sort.startswith("-")
        found = await self._conn.fetch(
            Q.list_page, self._organization_id, column, descends, page.value, page.id, page.limit + 1, *filters
        )
        rows, cursor = page.cut(found, "place")
        return await self.describe([row["id"] for row in rows]), cursor

    async def describe(self, dataset_ids: Sequence[UUID]) -> list[Row]:
        if not dataset_ids:
            return []
        rows = await self._conn.fetch(Q.describe_datasets, self._organization_id, dataset_ids)
        return [dict(row) for row in rows]

    async def get(self, dataset_id: UUID) -> Row:
        """All that is known of a dataset that exists."""
        await self.settle()
        (row,) = await self.describe([dataset_id])
        producers, producer_count = await self._jobs(dataset_id, "output")
        consumers, consumer_count = await self._jobs(dataset_id, "input")
        return row | {
            "aliases": [dict(alias) for alias in await self._fetch(Q.list_aliases, dataset_id)],
            "facets": {facet["name"]: _facet(facet) for facet in await self._fetch(Q.list_facets, dataset_id)},
            "producers": producers,
            "producer_count": producer_count,
            "consumers": consumers,
            "consumer_count": consumer_count,
            "fields": await self._fields(dataset_id),
            "latest_run": _run(await self._fetchrow(Q.get_latest_run, dataset_id)),
            "partition_keys": [key["partition_key"] for key in await self._fetch(Q.list_partition_keys, dataset_id)],
            "merged_ids": [merged["id"] for merged in await self._fetch(Q.list_merged, dataset_id)],
            "notes": _optional(await self._fetchrow(Q.get_note, dataset_id)),
        }

    async def settle(self) -> None:
        await self._conn.execute(Q.settle_stats, self._organization_id)

    async def status(self, dataset_ids: Sequence[UUID]) -> Sequence[Record]:
        await self.settle()
        return await self._fetch(Q.list_status, dataset_ids)

    async def columns(self, dataset_id: UUID) -> list[str] | None:
        """Names of the current schema's columns; None if no schema is known."""
        row = await self._fetchrow(Q.get_fields, dataset_id)
        return None if row is None else [field["name"] for field in msgspec.json.decode(row["fields"])]

    async def hold_names(self) -> None:
        """Keep datasets from being merged away until the transaction ends; to be asked for before looking one up."""
        await self._conn.execute(Q.hold_names, self._organization_id)

    async def set_note(self, dataset_id: UUID, changes: dict[str, Any], author: UUID | None) -> None:
        await self._conn.execute(
            Q.set_note,
            self._organization_id,
            dataset_id,
            changes.get("description"),
            changes.get("owners"),
            author,
            "description" in changes,
            "owners" in changes,
        )
        await self._conn.execute(Q.delete_empty_note, self._organization_id, dataset_id)

    async def add_tag(self, dataset_id: UUID, column: str, tag: str, author: UUID | None) -> None:
        await self._conn.execute(Q.add_tag, self._organization_id, dataset_id, column, tag, author)

    async def has_facet_tag(self, dataset_id: UUID, column: str, tag: str) -> bool:
        found: bool = await self._conn.fetchval(Q.has_facet_tag, self._organization_id, dataset_id, column, tag)
        return found

    async def remove_tag(self, dataset_id: UUID, column: str, tag: str) -> None:
        await self._conn.execute(Q.remove_tag, self._organization_id, dataset_id, column, tag)

    async def tags(self, after: str, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.list_tags, self._organization_id, after, limit)
        return rows

    async def _fetch(self, query: str, argument: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, argument)
        return rows

    async def _fetchrow(self, query: str, dataset_id: UUID) -> Record | None:
        return await self._conn.fetchrow(query, self._organization_id, dataset_id)

    async def _jobs(self, dataset_id: UUID, role: str) -> tuple[list[Row], int]:
        rows = await self._conn.fetch(Q.list_jobs, self._organization_id, dataset_id, role, MAX_JOBS)
        jobs = [dict(row) for row in rows]
        total = [job.pop("total") for job in jobs]
        return jobs, total[0] if total else 0

    async def _fields(self, dataset_id: UUID) -> list[Row]:
        row = await self._fetchrow(Q.get_fields, dataset_id)
        if row is None:
            return []
        tags = {tagged["column_name"]: tagged["tags"] for tagged in await self._fetch(Q.list_column_tags, dataset_id)}
        return [_field(field, tags) for field in msgspec.json.decode(row["fields"])]


def _facet(row: Record) -> Row:
    return {"body": msgspec.Raw(row["body"].encode()), "event_time": row["event_time"], "job": _job(row)}


def _job(row: Record) -> Row | None:
    if row["job_id"] is None:
        return None
    return {"id": row["job_id"], "namespace": row["job_namespace"], "name": row["job_name"]}


def _run(row: Record | None) -> Row | None:
    if row is None:
        return None
    return {**{name: row[name] for name in ("run_id", "state", "started_at", "ended_at")}, "job": _job(row)}


def _field(field: Row, tags: dict[str, list[str]]) -> Row:
    return {
        "name": field["name"],
        "type": field["type"],
        "nullable": field.get("nullable", True),
        "description": field.get("description"),
        "tags": tags.get(field["name"], []),
    }


def _optional(row: Record | None) -> Row | None:
    return None if row is None else dict(row)
