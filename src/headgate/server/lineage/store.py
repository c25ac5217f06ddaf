"""Reads the graph of datasets: who is near whom, over which jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.lineage")

UP = "up"
DOWN = "down"
MAX_COLUMNS = 100_000
# Whoever leaves out this many datasets need not count on.
ENOUGH = 1000


class Edge(NamedTuple):
    """What one job makes of a dataset."""

    source: UUID
    target: UUID
    job: UUID
    last_seen_at: datetime
    is_completed: bool


class LineageStore:
    def __init__(self, conn: Connection, organization_id: UUID, as_of: datetime | None = None) -> None:
        self._conn = conn
        self._organization_id = organization_id
        self._as_of = as_of

    async def walk(self, root: UUID, direction: str, depth: int, limit: int) -> dict[UUID, int]:
        """Depths of what is reached, nearest first, the root included."""
        rows = await self._conn.fetch(Q.walk, self._organization_id, root, direction, depth, limit, self._as_of)
        return {row["dataset_id"]: row["depth"] for row in rows}

    async def edges(self, datasets: Sequence[UUID]) -> list[Edge]:
        """What leads from one of these to another, in an order that stays."""
        rows = await self._conn.fetch(Q.list_edges, self._organization_id, list(datasets), self._as_of)
        return [Edge(*row) for row in rows]

    async def hidden(self, datasets: Sequence[UUID], direction: str) -> dict[UUID, int]:
        """How many neighbours each has that are not among them."""
        rows = await self._conn.fetch(Q.count_hidden, self._organization_id, list(datasets), direction, self._as_of)
        return dict(rows)

    async def beyond(self, shown: Sequence[UUID], up: Sequence[UUID], down: Sequence[UUID]) -> int:
        """How many datasets lie next upstream of `up` and downstream of `down` that are not shown."""
        arguments = (list(shown), list(up), list(down), self._as_of, ENOUGH)
        number: int = await self._conn.fetchval(Q.count_beyond, self._organization_id, *arguments)
        return number

    async def nodes(self, ids: Sequence[UUID], edges: Iterable[Edge] = ()) -> Sequence[Record]:
        """These datasets, and whether they are external; what an edge leads into is not."""
        fed = {edge.target for edge in edges}
        arguments = (list(ids), [id_ in fed for id_ in ids], self._as_of)
        rows: Sequence[Record] = await self._conn.fetch(Q.list_nodes, self._organization_id, *arguments)
        return rows

    async def jobs(self, ids: Iterable[UUID]) -> dict[UUID, Record]:
        rows = await self._conn.fetch(Q.list_jobs, self._organization_id, list(ids))
        return {row["id"]: row for row in rows}

    async def columns(self, edges: Sequence[Edge]) -> Sequence[Record]:
        """Column edges behind these, each with the place (from 1) of its edge; one more than there may be."""
        arguments = ([edge.source for edge in edges], [edge.target for edge in edges], [edge.job for edge in edges])
        rows: Sequence[Record] = await self._conn.fetch(
            Q.list_columns, self._organization_id, *arguments, self._as_of, MAX_COLUMNS + 1
        )
        return rows
