"""Batches of events through the write path on one connection, and the same bytes through COPY."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import asyncpg
from prometheus_client import CollectorRegistry

from benchmarks.events import Events
from benchmarks.slices import Slice, Tally, median_ratio, ratio, take_turns
from benchmarks.stage import Stage, Store, say
from headgate.domain.run import Verdict
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.project import Projector
from headgate.openlineage.validate import STRICT, check_event, check_text
from headgate.server.db.pool import Database
from headgate.server.ingest.batch import Prepared, prepare
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.group import GroupWriter, Source

Batch = list[bytes]
# Between so many events the loop gets a turn, so that the batch being written is not kept waiting.
YIELD_EVERY = 10


class Ours:
    """The server's own steps from bytes to commit, and its writer, on one connection."""

    def __init__(self, database: Database, organization_id: UUID) -> None:
        self.writer = GroupWriter(database, IngestCounters(CollectorRegistry()))
        self._source = Source(organization_id, "bench")
        self._reader = FacetReader()
        self._projector = Projector()

    async def prepare(self, raws: Batch) -> list[Prepared]:
        prepared = []
        for place, raw in enumerate(raws, 1):
            prepared.append(self.prepare_one(raw))
            if place % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return prepared

    def prepare_one(self, raw: bytes) -> Prepared:
        check_text(raw, STRICT.max_depth)
        checked = check_event(raw, STRICT, self._reader)
        return prepare(self._source.organization_id, self._projector.facts(checked, raw))

    async def write(self, events: Sequence[Prepared]) -> None:
        verdicts = await self.writer.write_batch(self._source, events)
        if any(verdict != Verdict.STORED for verdict in verdicts):
            raise AssertionError(f"an event was not stored: {set(verdicts)}")

    async def finish(self) -> None:
        """Times of lineage seen again are written a little later, but still on our account."""
        await self.writer.flush_touches()


class Copy:
    """The yardstick: the same JSON into a table of one jsonb column."""

    def __init__(self, conn: asyncpg.Connection) -> None:
        self._conn = conn

    async def create(self) -> None:
        await self._conn.execute("CREATE TABLE IF NOT EXISTS copied (body jsonb)")

    async def prepare(self, raws: Batch) -> list[tuple[str]]:
        return [(raw.decode(),) for raw in raws]

    async def write(self, records: list[tuple[str]]) -> None:
        await self._conn.copy_records_to_table("copied", records=records)

    async def finish(self) -> None:
        """Nothing is left."""


@asynccontextmanager
async def ours_on(store: Store, name: str) -> AsyncIterator[Ours]:
    """Our path with its background work, for a new organisation."""
    organization = await store.add_organization(name)
    async with store.application(1) as database:
        ours = Ours(database, organization.id)
        await ours.writer.start()
        try:
            yield ours
        finally:
            await ours.writer.stop()


async def pipelined(way: Ours | Copy, batches: Iterable[Batch]) -> None:
    """The next batch is prepared while the database works on this one: what a server under load does."""
    writing: asyncio.Task[None] | None = None
    for raws in batches:
        prepared: Any = await way.prepare(raws)
        if writing is not None:
            await writing
        writing = asyncio.create_task(way.write(prepared))
        # It goes first, so that the database has something to do while the next one is prepared.
        await asyncio.sleep(0)
    if writing is not None:
        await writing
    await way.finish()


async def sequential(way: Ours | Copy, batches: Iterable[Batch]) -> None:
    for raws in batches:
        await way.write(await way.prepare(raws))  # type: ignore[arg-type]  # each way takes what it prepared
    await way.finish()


def slice_of(
    drive: Callable[[Ours | Copy, Iterable[Batch]], Awaitable[None]], way: Ours | Copy, events: Events, batches: int
) -> Slice:
    async def run() -> tuple[int, float]:
        waiting = events.batches(batches)
        began = time.perf_counter()
        await drive(way, waiting)
        return sum(map(len, waiting)), time.perf_counter() - began

    return run


async def compare_with_copy(stage: Stage, *, rounds: int, batches: int) -> dict[str, Tally]:
    """Both ways, pipelined and sequential, in turns; and ours with STARTs and COMPLETEs mixed."""
    store = await stage.create("batches")
    async with ours_on(store, "Batches") as ours, store.plain() as conn:
        copy = Copy(conn)
        await copy.create()
        events, mixed = Events(1), Events(2, mixed=True)
        await pipelined(ours, events.batches(10))
        await pipelined(copy, events.batches(10))
        await pipelined(ours, mixed.batches(10))
        say(f"batches of 100 against COPY: {rounds} rounds of {batches} batches")
        return await take_turns(
            rounds,
            {
                "ours": slice_of(pipelined, ours, events, batches),
                "copy": slice_of(pipelined, copy, events, batches),
                "ours_sequential": slice_of(sequential, ours, events, batches),
                "copy_sequential": slice_of(sequential, copy, events, batches),
                "ours_mixed": slice_of(pipelined, ours, mixed, max(2, batches // 4)),
            },
        )


async def growth(
    stage: Stage, *, events: int, step: int, has_time: Callable[[], bool]
) -> tuple[list[tuple[int, float]], float]:
    """Events a second for each `step` events from an empty database on, and bytes of database an event."""
    store = await stage.create("growth")
    empty = await store.size()
    source = Events(3)
    rates: list[tuple[int, float]] = []
    async with ours_on(store, "Growth") as ours:
        run = slice_of(pipelined, ours, source, 50)
        done = 0
        while done < events and has_time():
            tally = Tally()
            while sum(tally.events) < min(step, events - done):
                tally.add(*await run())
            done += sum(tally.events)
            rates.append((done, tally.rate))
            say(f"{done:,} events in the database: {tally.rate:,.0f} events/s")
    return rates, (await store.size() - empty) / max(done, 1)


def batch_figures(tallies: dict[str, Tally]) -> tuple[dict[str, float], dict[str, float]]:
    ours, copy = tallies["ours"], tallies["copy"]
    ours_alone, copy_alone = tallies["ours_sequential"], tallies["copy_sequential"]
    figures = {f"batch_{name}_per_s": tally.rate for name, tally in tallies.items()}
    ratios = {
        "batch_vs_copy": ratio(ours, copy),
        "batch_vs_copy_median": median_ratio(ours, copy),
        "batch_vs_copy_sequential": ratio(ours_alone, copy_alone),
        "batch_vs_copy_sequential_median": median_ratio(ours_alone, copy_alone),
        "batch_mixed_vs_copy": ratio(tallies["ours_mixed"], copy),
    }
    return figures, ratios
