"""Writes pages of the log as JSON, a piece at a time: raw events go in as the bytes they came as.

A page is read from the database in pieces of about a megabyte, each in a transaction of its own: however slowly a
client reads, it holds no connection, and no more than one piece is in memory.
"""

from __future__ import annotations

import base64
import codecs
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import zstandard

from headgate.domain.run import producer_name
from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Record

_PIECE_BYTES = 1_000_000

Read = Callable[[Sequence[int]], Awaitable[Mapping[int, bytes]]]
_encode = msgspec.json.encode


async def write_events(rows: Sequence[Record], cursor: str | None, read: Read | None) -> AsyncIterator[bytes]:
    """A page of events; without `read` their raw bytes are left out."""
    yield b'{"items":['
    comma = b""
    for piece in _pieces(rows, "packed_size"):
        raws = {} if read is None else await read([row["id"] for row in piece])
        for row in piece:
            yield comma + write_event(row, raws.get(row["id"]))
            comma = b","
    yield b'],"next_cursor":' + _encode(cursor) + b"}"


def write_event(row: Record, packed: bytes | None) -> bytes:
    """One event, with the bytes it came as spliced in."""
    head = _encode(_event(row))
    return head[:-1] + b',"event":' + (b"null" if packed is None else unpack(packed)) + b"}"


async def write_refused(rows: Sequence[Record], cursor: str | None, read: Read | None) -> AsyncIterator[bytes]:
    """A page of what was refused; without `read` the bodies are left out."""
    yield b'{"items":['
    comma = b""
    for piece in _pieces(rows, "kept_size"):
        bodies = {} if read is None else await read([row["id"] for row in piece])
        for row in piece:
            yield comma + _encode(_refused(row, bodies.get(row["id"])))
            comma = b","
    yield b'],"next_cursor":' + _encode(cursor) + b"}"


def _event(row: Record) -> dict[str, Any]:
    job = {"id": row["job_id"], "namespace": row["job_namespace"], "name": row["job_name"]}
    return {
        "id": row["id"],
        "received_at": row["received_at"],
        "event_time": row["event_time"],
        "kind": row["kind"],
        "event_type": row["event_type"],
        "run_id": row["run_id"],
        "job": job if row["job_id"] else None,
        "producer": row["producer"],
        "producer_name": producer_name(row["producer"]),
        "outcome": row["outcome"],
        "reason": row["reason"],
        "marks": row["marks"],
        # The frame's header says it; nothing has to be unpacked to know it.
        "size": zstandard.frame_content_size(row["frame"]),
    }


def _refused(row: Record, body: bytes | None) -> dict[str, Any]:
    is_truncated = row["body_size"] > row["kept_size"]
    text, encoding = (None, None) if body is None else as_text(body, is_truncated=is_truncated)
    return {
        "id": row["id"],
        "received_at": row["received_at"],
        "route": row["route"],
        "code": row["code"],
        "reason": row["reason"],
        "errors": msgspec.Raw(row["errors"].encode()),
        "producer": row["producer"],
        "producer_name": None if row["producer"] is None else producer_name(row["producer"]),
        "correlation_id": row["correlation_id"],
        "size": row["body_size"],
        "truncated": is_truncated,
        "body": text,
        "body_encoding": encoding,
    }


def as_text(body: bytes, *, is_truncated: bool) -> tuple[str, str]:
    """A body as text, or in base64 if it is none. One that was cut may end within a character, which is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body, not is_truncated), "text"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def _pieces(rows: Sequence[Record], size_column: str) -> Iterator[list[Record]]:
    piece: list[Record] = []
    size = 0
    for row in rows:
        if piece and size + row[size_column] > _PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(row)
        size += row[size_column]
    if piece:
        yield piece
