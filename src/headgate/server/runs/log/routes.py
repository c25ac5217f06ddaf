"""The events of a run, byte for byte as they were sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from headgate.errors import NotFound
from headgate.openlineage.packing import unpack
from headgate.server.db.pool import Record
from headgate.server.deps import Reading, Reads
from headgate.server.pagination import Numbered, encode_number
from headgate.server.problems import problems
from headgate.server.routing import new_router
from headgate.server.runs.detail import check_run
from headgate.server.runs.log.store import EventLog, chunks

router = new_router("/api/v1/runs", "runs")

_NOBODY = UUID(int=0)


class RunEventOut(BaseModel):
    id: int
    received_at: datetime
    event_time: datetime
    event_type: str | None
    outcome: str
    reason: str | None
    producer: str
    marks: list[str]
    event: Any


class RunEventPage(BaseModel):
    items: list[RunEventOut]
    next_cursor: str | None


@router.get("/{run}/events", response_model=RunEventPage, responses=problems(NotFound))
async def list_run_events(run: UUID, reads: Reads, page: Numbered) -> StreamingResponse:
    """Events of a run in the order in which they came, refused ones too; `event` is what was sent, untouched."""
    async with reads.open() as conn:
        await check_run(conn, reads.organization_id, run)
        log = EventLog(conn, reads.organization_id)
        rows = await log.of_run(run, after=page.number or 0, limit=page.limit + 1)
    shown = rows[: page.limit]
    cursor = encode_number(shown[-1]["id"], _NOBODY) if len(rows) > page.limit else None
    return StreamingResponse(_written(reads, shown, cursor), media_type="application/json")


async def _written(reads: Reading, rows: Sequence[Record], cursor: str | None) -> AsyncIterator[bytes]:
    """The answer in parts, each read in a transaction of its own: a slow client holds no connection.

    Events are spliced in as they are: decoding them would lose what JSON leaves open.
    """
    yield b'{"items":['
    comma = b""
    for chunk in chunks(rows):
        async with reads.open() as conn:
            events = await EventLog(conn, reads.organization_id).packed(chunk)
        for row, packed in events:
            yield comma + _head(row) + unpack(packed) + b"}"
            comma = b","
    yield b'],"next_cursor":' + msgspec.json.encode(cursor) + b"}"


def _head(row: Record) -> bytes:
    """The fields around an event, open for its bytes."""
    fields = {name: value for name, value in row.items() if name != "size"}
    return msgspec.json.encode(fields)[:-1] + b',"event":'
