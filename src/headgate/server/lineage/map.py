"""The whole graph as columns, streamed: what is held are numbers, 6 bytes a dataset and 8 an edge, and never rows."""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from uuid import UUID

import msgspec

from headgate.server.db.pool import Connection
from headgate.server.lineage.ranks import ranks_of
from headgate.server.lineage.store import Q

# Rows that are fetched, and numbers that are sent, at a time; a row of edges holds more than a thousand.
CHUNK = 5000
EDGE_ROWS = 50
STATUSES = ("ok", "failing", "stale", "unknown")
# Nobody waits for the first byte of this one as long as for others.
TIMEOUT_S = 600


class MapStore:
    """Reads the map on a connection whose statements all see the same data."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def count(self) -> int:
        number: int = await self._conn.fetchval(Q.count_map, self._organization_id)
        return number

    async def stream(self, total: int, limit: int) -> AsyncIterator[bytes]:
        """A JSON object whose arrays are written as they are read."""
        namespaces, types = Words(), Words()
        statuses = array("b")
        yield b'{"total":%d,"truncated":%s,"ids":[' % (total, b"true" if total > limit else b"false")
        comma = b""
        async for rows in self._rows(Q.list_map, limit):
            namespaces.add(row["namespace"] for row in rows)
            types.add(row["type"] for row in rows)
            statuses.extend(STATUSES.index(row["status"]) for row in rows)
            yield comma + _items([row["id"] for row in rows])
            comma = b","
        yield b'],"names":['
        comma = b""
        async for rows in self._rows(Q.list_map_names, limit):
            yield comma + _items([row["name"] for row in rows])
            comma = b","
        for name, words in ((b"namespace", namespaces), (b"type", types)):
            yield b'],"%ss":%s,"%s":[' % (name, msgspec.json.encode(words.known), name)
            for part in _parts(words.places):
                yield part
        yield b'],"status":['
        for part in _parts(statuses, STATUSES):
            yield part
        async for part in self._edges(len(statuses), limit):
            yield part
        yield b"]}"

    async def _edges(self, size: int, limit: int) -> AsyncIterator[bytes]:
        sources, targets = array("i"), array("i")
        async for rows in self._rows(Q.list_map_edges, limit, EDGE_ROWS):
            for row in rows:
                sources.frombytes(row["sources"])
                targets.frombytes(row["targets"])
        if sys.byteorder == "little":
            sources.byteswap()
            targets.byteswap()
        # In a thread: seconds of work for millions of edges, in which others are served.
        ranks = await asyncio.to_thread(ranks_of, size, sources, targets)
        yield b'],"ranks":['
        for part in _parts(ranks):
            yield part
        yield b'],"edges":['
        comma = b""
        for start in range(0, len(sources), CHUNK):
            pairs = zip(sources[start : start + CHUNK], targets[start : start + CHUNK], strict=True)
            yield comma + _items(list(pairs))
            comma = b","

    async def _rows(self, query: str, limit: int, size: int | None = None) -> AsyncIterator[Sequence[Any]]:
        cursor = await self._conn.cursor(query, self._organization_id, limit, timeout=TIMEOUT_S)
        while rows := await cursor.fetch(size or CHUNK, timeout=TIMEOUT_S):
            yield rows


class Words:
    """Texts as places in a list of them, each once; -1 for none."""

    def __init__(self) -> None:
        self.known: list[str] = []
        self.places = array("i")
        self._places: dict[str, int] = {}

    def add(self, words: Iterable[str | None]) -> None:
        for word in words:
            if word is None:
                self.places.append(-1)
                continue
            place = self._places.setdefault(word, len(self.known))
            if place == len(self.known):
                self.known.append(word)
            self.places.append(place)


def _parts(numbers: Sequence[int], words: Sequence[str] | None = None) -> Iterable[bytes]:
    """Numbers, or the words they stand for, as items of a JSON array."""
    for start in range(0, len(numbers), CHUNK):
        chunk = numbers[start : start + CHUNK]
        shown: list[Any] = [words[number] if words else None if number < 0 else number for number in chunk]
        yield (b"," if start else b"") + _items(shown)


def _items(values: Sequence[Any]) -> bytes:
    return msgspec.json.encode(values)[1:-1]
