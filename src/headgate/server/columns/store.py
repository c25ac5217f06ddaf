"""Reads column lineage of one organisation."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from headgate.errors import NotFound
from headgate.server.columns.reasons import Gone, Losses, User
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.references.datasets import Dataset

Q = Queries("headgate.server.columns")

# Every job may name the same pair of columns, so there can be many more edges than columns.
MAX_EDGES = 10_000
MAX_READERS = 1000
_MAX_USERS = 1000
_MAX_GONE = 10_000
_MAX_COMPARED = 2000


class Walk(NamedTuple):
    """Columns that were reached, nearest first, the roots included; and how many more were met."""

    rows: list[Record]

    @property
    def hidden(self) -> int:
        return self.rows[0]["hidden"] if self.rows else 0

    def reached(self) -> list[Record]:
        return [row for row in self.rows if row["depth"] > 0]


class ColumnStore:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def fields(self, dataset: Dataset) -> list[dict[str, Any]]:
        """Columns of the current schema; none if no schema is known."""
        text = await self._conn.fetchval(Q.get_fields, self._organization_id, dataset.id)
        return msgspec.json.decode(text, type=list[dict[str, Any]]) if text else []

    async def check(self, dataset: Dataset, column: str) -> list[str]:
        """Names of the schema, if the column is one of them or the end of an edge; else NotFound."""
        names = [field["name"] for field in await self.fields(dataset)]
        if column in names:
            return names
        if await self._conn.fetchval(Q.has_column_edges, self._organization_id, dataset.id, column):
            return names
        raise await self._unknown(dataset, column, names)

    async def edges(self, dataset: Dataset, limit: int) -> list[Record]:
        """Edges into and out of the dataset."""
        return list(await self._conn.fetch(Q.list_edges, self._organization_id, dataset.id, limit))

    async def counts(self, dataset: Dataset) -> dict[str, tuple[int, int]]:
        """How many edges come into and go out of each column; the dataset as a whole has an empty name."""
        rows = await self._conn.fetch(Q.count_edges, self._organization_id, dataset.id)
        return {row["name"]: (row["upstream"], row["downstream"]) for row in rows}

    async def tags(self, dataset: Dataset) -> dict[str, list[str]]:
        rows = await self._conn.fetch(Q.list_column_tags, self._organization_id, dataset.id)
        return {row["column_name"]: row["tags"] for row in rows}

    async def notes(self, dataset: Dataset) -> dict[str, str]:
        """What people wrote of columns."""
        rows = await self._conn.fetch(Q.list_column_notes, self._organization_id, dataset.id)
        return {row["column_name"]: row["description"] for row in rows}

    async def writers(self, dataset: Dataset) -> list[User]:
        return _users(await self._conn.fetch(Q.list_writers, self._organization_id, dataset.id, _MAX_USERS))

    async def readers(self, dataset: Dataset) -> list[User]:
        return _users(await self._conn.fetch(Q.list_readers, self._organization_id, dataset.id, _MAX_USERS))

    async def losses(self, dataset: Dataset) -> tuple[Losses, Losses]:
        """What has gone from the edges into a dataset, and from those out of it."""
        rows = await self._conn.fetch(Q.list_gone, self._organization_id, dataset.id, _MAX_GONE)
        into, out = (
            Losses(
                Gone(row["column_name"], row["name"], row["id"] == dataset.id, row["is_renamed"])
                for row in rows
                if row["is_out"] == is_out
            )
            for is_out in (False, True)
        )
        return into, out

    async def possible_readers(self, walk: Walk, depth: int) -> list[Record]:
        """Jobs that may read what was walked through, with what they write; one row too many if there are more."""
        ids = {row["dataset_id"] for row in walk.rows if row["column_name"] and row["depth"] < depth}
        wanted = (self._organization_id, list(ids), MAX_READERS + 1)
        return list(await self._conn.fetch(Q.list_possible_readers, *wanted))

    async def walk(self, dataset: Dataset, columns: Sequence[str], direction: str, depth: int, limit: int) -> Walk:
        """Columns up- or downstream of some of a dataset."""
        place = (self._organization_id, dataset.id, columns)
        return Walk(await self._conn.fetch(Q.walk_columns, *place, direction, depth, limit))

    async def edges_between(self, nodes: Sequence[Record]) -> list[Record]:
        """Edges with both ends among the columns that were reached."""
        ids, names = [row["dataset_id"] for row in nodes], [row["column_name"] for row in nodes]
        return list(
            await self._conn.fetch(Q.list_edges_between, self._organization_id, ids, names, MAX_EDGES + 1),
        )

    async def _unknown(self, dataset: Dataset, column: str, names: Sequence[str]) -> NotFound:
        every = (*names, *filter(None, await self.counts(dataset)))
        known = {name.lower(): name for name in every[:_MAX_COMPARED]}
        near = [known[name] for name in get_close_matches(column.lower(), known, n=3, cutoff=0.6)]
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "list them at /columns of the dataset"
        return NotFound(f"no column {column!r} in {dataset.urn!r}", hint=hint, nearest=near)


def _users(rows: Sequence[Record]) -> list[User]:
    return [User(row["name"], row["tells"]) for row in rows]
