"""The raw log, what its producers are like, and what happens now."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.openlineage.packing import unpack
from headgate.server.deps import Reading, Reads
from headgate.server.events.conformance import ConformanceStore
from headgate.server.events.live import router as live_router
from headgate.server.events.render import write_event, write_events, write_refused
from headgate.server.events.schemas import (
    ConformancePage,
    DuplicatesOut,
    EventOut,
    EventPage,
    EventType,
    IngestStatsOut,
    Kind,
    Outcome,
    RefusedPage,
)
from headgate.server.events.stats import MAX_HOURS, StatsStore
from headgate.server.events.store import EventStore, Wanted
from headgate.server.pagination import Numbered, Paged, encode, encode_number
from headgate.server.problems import problems
from headgate.server.references.jobs import find_job
from headgate.server.routing import new_router
from headgate.server.times import Moment

router = new_router("", "events")

_JSON = "application/json"
_NOBODY = UUID(int=0)
_DUPLICATES = "headgate_events_duplicate_total"

EventId = Annotated[int, Path(alias="id", ge=1, le=2**63 - 1)]
Since = Annotated[Moment | None, Query(alias="from", description="Received at this time or later")]
Until = Annotated[Moment | None, Query(alias="to", description="Received before this time")]
Producer = Annotated[str | None, Query(min_length=1, max_length=4000, description="URL or name of the producer")]
JobText = Annotated[str | None, Query(min_length=1, max_length=4000, description="Id or `namespace/name`")]


async def period_of(since: Since = None, until: Until = None) -> tuple[datetime | None, datetime | None]:
    if since is not None and until is not None and until < since:
        raise InvalidFields([FieldError("query.to", "is before `from`", until.isoformat())], hint="swap the two times")
    return since, until


Period = Annotated[tuple[datetime | None, datetime | None], Depends(period_of)]


@router.get("/api/v1/events", response_model=EventPage, responses=problems(NotFound, Conflict))
async def list_events(
    reads: Reads,
    page: Numbered,
    period: Period,
    producer: Producer = None,
    outcome: Outcome | None = None,
    kind: Kind | None = None,
    event_type: EventType | None = None,
    run: UUID | None = None,
    job: JobText = None,
    raw: Annotated[bool, Query(description="Whether `event` holds the events as they came")] = True,
) -> StreamingResponse:
    """Events of the log, newest first. A page may be short while there is a `next_cursor`: the search goes on there."""
    async with reads.open() as conn:
        job_id = None if job is None else (await find_job(conn, reads.organization_id, job)).id
        wanted = Wanted(*period, producer, outcome, kind, event_type, run, job_id)
        store = EventStore(conn, reads.organization_id)
        rows, more = await store.page(wanted, below=page.number, limit=page.limit)
    cursor = None if more is None else encode_number(more, _NOBODY)
    return StreamingResponse(write_events(rows, cursor, _Bodies(reads).raws if raw else None), media_type=_JSON)


@router.get("/api/v1/events/refused", response_model=RefusedPage)
async def list_refused_events(
    reads: Reads,
    page: Paged,
    period: Period,
    producer: Producer = None,
    code: Annotated[str | None, Query(max_length=100, description="Such as `fields.invalid`")] = None,
    correlation_id: Annotated[str | None, Query(max_length=128)] = None,
    body: Annotated[bool, Query(description="Whether `body` holds what came")] = True,
) -> StreamingResponse:
    """What was refused in the last seven days, newest first, with the beginning of what came."""
    after = None if page.at is None or page.id is None else (page.at, page.id.int)
    async with reads.open() as conn:
        store = EventStore(conn, reads.organization_id)
        wanted = Wanted(*period, producer)
        found = await store.refused(wanted, code=code, correlation_id=correlation_id, after=after, limit=page.limit + 1)
    rows = found[: page.limit]
    cursor = encode(rows[-1]["received_at"], UUID(int=rows[-1]["id"])) if len(found) > page.limit else None
    return StreamingResponse(write_refused(rows, cursor, _Bodies(reads).refused if body else None), media_type=_JSON)


@router.get("/api/v1/events/{id}", response_model=EventOut, responses=problems(NotFound))
async def get_event(event_id: EventId, reads: Reads) -> Response:
    """One event of the log."""
    async with reads.open() as conn:
        store = EventStore(conn, reads.organization_id)
        row = await store.get(event_id)
        raws = await store.raws([event_id])
    return Response(write_event(row, raws.get(event_id)), media_type=_JSON)


@router.get(
    "/api/v1/events/{id}/raw",
    response_class=Response,
    responses={200: {"content": {_JSON: {}}}, **problems(NotFound)},
)
async def get_raw_event(event_id: EventId, reads: Reads) -> Response:
    """One event, byte for byte as it came."""
    async with reads.open() as conn:
        store = EventStore(conn, reads.organization_id)
        await store.get(event_id)
        raws = await store.raws([event_id])
    return Response(unpack(raws[event_id]), media_type=_JSON)


@router.get("/api/v1/stats/ingest")
async def get_ingest_stats(
    request: Request, reads: Reads, hours: Annotated[int, Query(ge=1, le=MAX_HOURS)] = 24
) -> IngestStatsOut:
    """How much came in, from whom, what was refused and how long events took to get here."""
    duplicates = _duplicates(request, reads.caller.tenant_code)
    async with reads.open() as conn:
        return await StatsStore(conn, reads.organization_id).ingest(hours, datetime.now(UTC), duplicates)


@router.get("/api/v1/conformance")
async def get_conformance(reads: Reads, days: Annotated[int, Query(ge=1, le=30)] = 7) -> ConformancePage:
    """How well each producer keeps to OpenLineage, and what to change."""
    async with reads.open() as conn:
        return await ConformanceStore(conn, reads.organization_id).read(days, datetime.now(UTC))


class _Bodies:
    """Reads bodies, each time in a transaction of its own."""

    def __init__(self, reads: Reading) -> None:
        self._reads = reads

    async def raws(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        async with self._reads.open() as conn:
            return await EventStore(conn, self._reads.organization_id).raws(ids)

    async def refused(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        async with self._reads.open() as conn:
            return await EventStore(conn, self._reads.organization_id).bodies(ids)


def _duplicates(request: Request, tenant_code: str) -> DuplicatesOut:
    """What this process has counted: it is not stored anywhere."""
    state = request.app.state
    counted = state.telemetry.registry.restricted_registry([_DUPLICATES]).collect()
    samples = (sample for metric in counted for sample in metric.samples if sample.name == _DUPLICATES)
    events = sum(sample.value for sample in samples if sample.labels["organization"] == tenant_code)
    started = datetime.now(UTC) - timedelta(seconds=time.monotonic() - state.started_at)
    return DuplicatesOut(events=int(events), since=started)


router.include_router(live_router)
