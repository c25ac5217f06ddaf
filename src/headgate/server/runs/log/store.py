"""Reads events of a run from the log, byte for byte, a few at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final
from uuid import UUID

from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.runs.log")

_CHUNK_ROWS: Final = 100
_CHUNK_BYTES: Final = 1_000_000


class EventLog:
    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def of_run(self, run_id: UUID, *, after: int, limit: int) -> list[Record]:
        """Events in the order in which they came, without their bodies."""
        rows: list[Record] = await self._conn.fetch(Q.list_run_events, self._organization_id, run_id, after, limit)
        return rows

    async def latest(self, run_id: UUID, *, limit: int, first: int) -> list[Record]:
        """Accepted events, the latest first; of more than `limit`, also the first few."""
        rows: list[Record] = await self._conn.fetch(Q.list_latest_events, self._organization_id, run_id, limit, first)
        return rows

    async def bodies(self, rows: Sequence[Record]) -> AsyncIterator[tuple[Record, bytes]]:
        """Each event with the bytes that were sent, in the order given. What is gone by now is left out."""
        for chunk in chunks(rows):
            for row, packed in await self.packed(chunk):
                yield row, unpack(packed)

    async def packed(self, chunk: Sequence[Record]) -> list[tuple[Record, bytes]]:
        """The same of a few events at once, still packed."""
        ids, times = [row["id"] for row in chunk], [row["received_at"] for row in chunk]
        found = await self._conn.fetch(Q.read_events, self._organization_id, ids, times)
        return [(chunk[row["place"] - 1], row["raw"]) for row in found]


def chunks(rows: Sequence[Record]) -> Iterator[list[Record]]:
    """Rows in groups that are small in number and in bytes."""
    chunk: list[Record] = []
    size = 0
    for row in rows:
        if chunk and (len(chunk) == _CHUNK_ROWS or size + row["size"] > _CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += row["size"]
    if chunk:
        yield chunk
