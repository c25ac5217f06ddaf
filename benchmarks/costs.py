"""What single parts cost: the sequence check, the trigger on run states, and many organisations at once."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from uuid import UUID, uuid4

import asyncpg
from prometheus_client import CollectorRegistry

from benchmarks.batch import Ours
from benchmarks.events import Events
from benchmarks.slices import Slice, Tally, ratio, take_turns
from benchmarks.stage import Stage, say
from headgate.openlineage.facets import FacetReader
from headgate.server.auth import Principal, Scope
from headgate.server.db.pool import Database, set_organization
from headgate.server.ingest.batch import Prepared
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.group import GroupWriter, Source
from headgate.server.ingest.service import Ingest, Request
from headgate.server.ingest.tenants import Tenants
from headgate.settings import Settings

_TRIGGER = "job_runs_terminal_state"
_RUNS = 1000
Result = tuple[dict[str, float], dict[str, float]]


class Unchecked(Ingest):
    """Ingest without the check that the events of one run can follow each other."""

    async def _check_sequence(self, source: Source, events: list[Prepared]) -> None:
        return


async def sequence_check(stage: Stage, *, rounds: int) -> Result:
    """Arrays of 2 to 10 events of one run, with and without the check."""
    store = await stage.create("sequences")
    organization = await store.add_organization("Sequences")
    events = Events(6)
    async with store.application(4) as database:
        variants = {
            "checked": _arrays(_ingest(Ingest, database), organization.id, events),
            "unchecked": _arrays(_ingest(Unchecked, database), organization.id, events),
        }
        for run in variants.values():
            await run()
        say(f"the sequence check: {rounds} rounds of arrays of 2 to 10 events of one run")
        tallies = await take_turns(rounds, variants, within_s=90)
    with_check, without = tallies["checked"].micros, tallies["unchecked"].micros
    figures = {"one_run_arrays_us": with_check, "one_run_arrays_unchecked_us": without}
    figures["sequence_check_us"] = with_check - without
    return figures, {"sequence_check_cost": ratio(tallies["unchecked"], tallies["checked"])}


def _ingest(kind: type[Ingest], database: Database) -> Ingest:
    counters = IngestCounters(CollectorRegistry())
    tenants = Tenants(database, Settings(_env_file=None).max_depth)
    return kind(database, tenants, GroupWriter(database, counters), FacetReader(), counters)


def _arrays(ingest: Ingest, organization_id: UUID, events: Events) -> Slice:
    principal = Principal(organization_id, "Sequences", 1, "bench", "key", uuid4(), "bench", frozenset(Scope))
    request = Request(principal, "/api/v1/lineage/batch", "bench")

    async def run() -> tuple[int, float]:
        sizes = [*range(2, 11)]
        bodies = [b"[" + b",".join(events.of_one_run(size)) + b"]" for size in sizes]
        began = time.perf_counter()
        for body in bodies:
            results = await ingest.accept_array(request, body)
            if any(result.error is not None for result in results):
                raise AssertionError(f"an event was not stored: {results}")
        return sum(sizes), time.perf_counter() - began

    return run


async def trigger(stage: Stage, *, rounds: int) -> Result:
    """Runs from START to COMPLETE in one UPDATE, with the trigger and, as the owner can, without it."""
    store = await stage.create("triggers")
    organization = await store.add_organization("Triggers")
    async with store.application(1) as database:
        ours, events = Ours(database, organization.id), Events(7, mixed=True)
        for _ in range(_RUNS // 100):
            await ours.write(await ours.prepare(events.take(100)))
            events.take(100)
    async with store.owner() as conn:
        await conn.execute("ANALYZE job_runs")
        variants = {
            "on": _updates(conn, organization.id, enabled=True),
            "off": _updates(conn, organization.id, enabled=False),
        }
        for run in variants.values():
            await run()
        say(f"the trigger: {rounds} rounds of {_RUNS} updates")
        tallies = await take_turns(rounds, variants, within_s=60)
    return _trigger_figures(tallies)


def _trigger_figures(tallies: dict[str, Tally]) -> Result:
    on, off = tallies["on"], tallies["off"]
    figures = {
        "run_update_us": on.micros,
        "run_update_untriggered_us": off.micros,
        "trigger_us": on.micros - off.micros,
    }
    return figures, {"trigger_cost": ratio(off, on)}


def _updates(conn: asyncpg.Connection, organization_id: UUID, *, enabled: bool) -> Slice:
    switch = "ENABLE" if enabled else "DISABLE"

    async def run() -> tuple[int, float]:
        await conn.execute("VACUUM job_runs")
        transaction = conn.transaction()
        await transaction.start()
        await set_organization(conn, organization_id)
        await conn.execute(f"ALTER TABLE job_runs {switch} TRIGGER {_TRIGGER}")
        began = time.perf_counter()
        done = await conn.execute(
            "UPDATE job_runs SET state = 'COMPLETE', complete_at = last_event_at WHERE organization_id = $1",
            organization_id,
        )
        seconds = time.perf_counter() - began
        # Rolled back, so that every slice begins with the same runs.
        await transaction.rollback()
        if done != f"UPDATE {_RUNS}":
            raise AssertionError(f"not all runs were updated: {done}")
        return _RUNS, seconds

    return run


async def organizations(
    stage: Stage, *, rounds: int, counts: Sequence[int] = (1, 10, 100), events: int = 2048
) -> Result:
    """Single events of 1, 10 and 100 organisations in turn, 512 waiting at a time, through groups of up to 256."""
    store = await stage.create("organizations")
    async with store.plain() as conn:
        ids = [await _insert_organization(conn, number) for number in range(max(counts))]
    async with store.application(16) as database:
        writer = GroupWriter(database, IngestCounters(CollectorRegistry()))
        await writer.start()
        tenants = [_Tenant(writer, database, id_, 100 + number) for number, id_ in enumerate(ids)]
        for tenant in tenants:
            await tenant.warm()
        say(f"organisations: {rounds} rounds of {events} events of {', '.join(map(str, counts))} organisations")
        variants = {f"organizations_{count}": _spread(writer, tenants[:count], events) for count in counts}
        tallies = await take_turns(rounds, variants, within_s=180)
        await writer.stop()
    one = tallies[f"organizations_{counts[0]}"]
    figures = {f"{name}_per_s": tally.rate for name, tally in tallies.items()}
    return figures, {f"{name}_vs_1": ratio(tally, one) for name, tally in tallies.items() if tally is not one}


async def _insert_organization(conn: asyncpg.Connection, number: int) -> UUID:
    name = f"organization-{number}"
    found: UUID = await conn.fetchval(
        "INSERT INTO headgate.organizations (name, slug, tenant_code) VALUES ($1, $1, $1) RETURNING id", name
    )
    return found


class _Tenant:
    """One organisation with its own jobs, sending through a writer that all of them share."""

    def __init__(self, writer: GroupWriter, database: Database, organization_id: UUID, seed: int) -> None:
        self._ours = Ours(database, organization_id)
        self._writer = writer
        self._source = Source(organization_id, "bench")
        self.events = Events(seed)

    async def warm(self) -> None:
        for _ in range(2):
            prepared = await self._ours.prepare(self.events.take(150))
            await self._writer.write_batch(self._source, prepared)

    async def send(self, raw: bytes) -> None:
        await self._writer.write(self._source, self._ours.prepare_one(raw))


def _spread(writer: GroupWriter, tenants: Sequence[_Tenant], count: int, clients: int = 512) -> Slice:
    async def run() -> tuple[int, float]:
        senders = itertools.islice(itertools.cycle(tenants), count)
        waiting = iter([(tenant, tenant.events.take(1)[0]) for tenant in senders])

        async def client() -> None:
            for tenant, raw in waiting:
                await tenant.send(raw)

        began = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(clients)))
        await writer.flush_touches()
        return count, time.perf_counter() - began

    return run
