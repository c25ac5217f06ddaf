"""The log of events, as they were received. Sent as it is read: a page may be larger than memory should be.

It is read in pieces, each in a transaction of its own: however slowly a client reads, it holds no connection.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Record
from headgate.server.db.queries import Queries
from headgate.server.deps import Reading
from headgate.server.marquez.requests import Window

Q = Queries("headgate.server.marquez.finding")

MAX_LOOKED_AT: Final = 200_000
MAX_COUNTED: Final = 10_000
_PIECE_BYTES: Final = 1_000_000
_FOREVER: Final = (datetime(2, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))


class Direction(StrEnum):
    desc = "desc"
    asc = "asc"

    @classmethod
    def _missing_(cls, value: object) -> Direction | None:
        return next((word for word in cls if word.value == str(value).lower()), None)


class Wanted(NamedTuple):
    """Event times, the first included and the last not; the namespace of the job, if it matters."""

    after: datetime
    before: datetime
    namespace: str | None

    @classmethod
    def of(cls, after: datetime | None, before: datetime | None, namespace: str | None = None) -> Wanted:
        return cls(after or _FOREVER[0], before or _FOREVER[1], namespace)


class EventLog:
    def __init__(self, reads: Reading) -> None:
        self._reads = reads

    async def count(self, wanted: Wanted) -> int:
        async with self._reads.open() as conn:
            found: int = await conn.fetchval(
                Q.count_events, self._reads.organization_id, *wanted, MAX_LOOKED_AT, MAX_COUNTED
            )
        return found

    async def body(self, wanted: Wanted, direction: Direction, window: Window, total: int) -> AsyncIterator[bytes]:
        """The answer in pieces, each event byte for byte."""
        query = Q.list_newest_events if direction is Direction.desc else Q.list_oldest_events
        yield b'{"totalCount":%d,"events":[' % total
        separator = b""
        for ids in _pieces(await self._fetch(query, *wanted, MAX_LOOKED_AT, *window)):
            for row in await self._fetch(Q.list_raws, ids):
                yield separator + unpack(row["raw"])
                separator = b","
        yield b"]}"

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        async with self._reads.open() as conn:
            rows: Sequence[Record] = await conn.fetch(query, self._reads.organization_id, *arguments)
        return rows


def _pieces(rows: Sequence[Record]) -> Iterator[list[int]]:
    """Ids of events that are read together."""
    piece: list[int] = []
    size = 0
    for row in rows:
        if piece and size + row["packed_size"] > _PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(row["id"])
        size += row["packed_size"]
    if piece:
        yield piece
