"""Group commit: events that wait while a transaction commits share the next one.

An event's verdict is handed out only after the commit that holds it. A group that fails for a reason of one
of its events is rolled back and each event is tried alone.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from uuid import UUID

import asyncpg
from msgspec import Struct

from headgate.domain.run import Verdict
from headgate.errors import FieldError, HeadgateError, InvalidFields, Unavailable
from headgate.server.db.pool import DATABASE_GONE, Database
from headgate.server.ingest.batch import Prepared
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.memory import GroupMemory, Memory, Touches
from headgate.server.ingest.store import IngestStore, is_collision

log = logging.getLogger("headgate.ingest")

_ATTEMPTS = 6
_MAX_GROUP_BYTES = 32 * 1024 * 1024
_TOUCH_S = 0.2
# However slow the database is, writing times takes a twentieth of ours at most.
_TOUCH_SHARE = 20
_TOUCH_AT_LEAST_S = 2.0
# Text or numbers that PostgreSQL cannot hold. Validation should have caught them: answer 422, not 500.
_UNSTORABLE: tuple[type[BaseException], ...] = (
    asyncpg.DataError,
    asyncpg.ProgramLimitExceededError,
    asyncpg.exceptions.StatementTooComplexError,
    OverflowError,
)

Answer = Verdict | HeadgateError


class Source(Struct, frozen=True):
    """Whose events these are."""

    organization_id: UUID
    tenant_code: str


class _Waiting(Struct, eq=False):
    source: Source
    event: Prepared
    answer: asyncio.Future[Answer]
    size: int


class GroupWriter:
    """Writes events in groups; one object a server process."""

    def __init__(
        self,
        database: Database,
        counters: IngestCounters,
        *,
        group_size: int = 256,
        writers: int = 2,
        on_commit: Callable[[UUID], None] = lambda _: None,
        on_pressed: Callable[[], None] = lambda: None,
        pressed_at: int | None = None,
        max_events: int = 10_000,
        max_bytes: int = 256 * 1024 * 1024,
    ) -> None:
        self._database = database
        self._counters = counters
        self._memories: dict[UUID, Memory] = {}
        self._touches: dict[UUID, Touches] = {}
        self._being_touched: dict[UUID, Touches] = {}
        self._touching = asyncio.Lock()
        self._group_size = group_size
        self._writers = writers
        self._on_commit = on_commit
        self._on_pressed = on_pressed
        self._pressed_at = group_size if pressed_at is None else pressed_at
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._queue: deque[_Waiting] = deque()
        self._bytes = 0
        counters.queue_depth.set_function(lambda: len(self._queue))
        counters.queue_bytes.set_function(lambda: self._bytes)
        self._arrived = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._toucher: asyncio.Task[None] | None = None
        self._stopping = False
        self._batches = asyncio.Semaphore(4)

    async def start(self) -> None:
        self._stopping = False
        self._tasks = [asyncio.create_task(self._run(), name=f"group-writer-{n}") for n in range(self._writers)]
        self._toucher = asyncio.create_task(self._keep_touching(), name="lineage-toucher")

    async def stop(self) -> None:
        """Write what waits, then stop."""
        self._stopping = True
        self._arrived.set()
        await asyncio.gather(*self._tasks)
        self._tasks = []
        if self._toucher is not None:
            self._toucher.cancel()
        await self.flush_touches()

    async def write(self, source: Source, event: Prepared) -> Verdict:
        """Write one event with whatever else waits; its verdict once that is committed."""
        size = len(event.facts.raw)
        self._admit(1, size)
        waiting = _Waiting(source, event, asyncio.get_running_loop().create_future(), size)
        self._queue.append(waiting)
        self._bytes += size
        self._arrived.set()
        if self.is_pressed():
            self._on_pressed()
        verdict = await waiting.answer
        if isinstance(verdict, HeadgateError):
            raise verdict
        return verdict

    async def write_batch(self, source: Source, events: Sequence[Prepared]) -> list[Answer]:
        """Write the events of one request, in transactions of their own; a verdict for each."""
        size = sum(len(event.facts.raw) for event in events)
        self._admit(len(events), size)
        self._bytes += size
        try:
            async with self._batches:
                verdicts: list[Answer] = []
                for group in _chunks(events, 500):
                    verdicts.extend(await self._settle([(source, event) for event in group]))
                return verdicts
        finally:
            self._bytes -= size

    async def known_keys(self, source: Source, keys: Sequence[bytes]) -> set[bytes]:
        async with self._database.tenant(source.organization_id) as conn:
            return await IngestStore(conn, source.organization_id, self._counters).known_keys(keys)

    def is_pressed(self) -> bool:
        """Whether so many events wait that background work should hold back."""
        return len(self._queue) > self._pressed_at

    def has_touches(self, organization_id: UUID) -> bool:
        """Whether times of known lineage wait to be written, or are being written."""
        return organization_id in self._touches or organization_id in self._being_touched

    async def flush_touches(self, only: UUID | None = None) -> None:
        """Write when known lineage was last seen: several times a second, before a read, and at the end."""
        async with self._touching:
            wanted = list(self._touches) if only is None else [only]
            pending = self._being_touched = {id_: self._touches.pop(id_) for id_ in wanted if id_ in self._touches}
            try:
                for organization_id in list(pending):
                    if await self._touch(organization_id, pending[organization_id]):
                        del pending[organization_id]
            finally:
                # Nothing is lost but a little time: what was not written is written with the next ones.
                for organization_id, touches in pending.items():
                    self._touches.setdefault(organization_id, Touches()).add_all(touches)
                self._being_touched = {}

    def _pending(self, organization_id: UUID) -> list[Touches]:
        """What was seen again and is not written yet, or just being written."""
        waiting = (self._being_touched.get(organization_id), self._touches.get(organization_id))
        return [touches for touches in waiting if touches is not None]

    async def _touch(self, organization_id: UUID, touches: Touches) -> bool:
        try:
            async with self._database.transaction() as conn:
                await IngestStore(conn, organization_id, self._counters).touch(touches)
        except (Unavailable, asyncpg.PostgresError) as error:
            log.info("lineage could not be touched", extra={"error": str(error)})
            return False
        return True

    def _admit(self, events: int, size: int) -> None:
        if self._stopping:
            raise Unavailable("the server is shutting down", hint="retry after a moment")
        full = len(self._queue) + events > max(self._max_events, events) if self._queue else False
        if full or (self._bytes and self._bytes + size > self._max_bytes):
            raise Unavailable("too many events are waiting to be written", hint="retry after a moment")

    async def _run(self) -> None:
        while True:
            if not self._queue:
                if self._stopping:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            await self._write_group(self._take())

    async def _keep_touching(self) -> None:
        pause_s = _TOUCH_S
        while True:
            await asyncio.sleep(pause_s)
            began_at = time.monotonic()
            if self._touches:
                await self.flush_touches()
            took_s = time.monotonic() - began_at
            pause_s = min(max(_TOUCH_S, _TOUCH_SHARE * took_s), _TOUCH_AT_LEAST_S)

    def _memory(self, organization_id: UUID) -> Memory:
        memory = self._memories.get(organization_id)
        if memory is None:
            memory = self._memories[organization_id] = Memory()
        return memory

    def _take(self) -> list[_Waiting]:
        group: list[_Waiting] = []
        size = 0
        while self._queue and len(group) < self._group_size and (not group or size < _MAX_GROUP_BYTES):
            waiting = self._queue.popleft()
            size += waiting.size
            group.append(waiting)
        return group

    async def _write_group(self, group: list[_Waiting]) -> None:
        try:
            verdicts = await self._settle([(waiting.source, waiting.event) for waiting in group])
            for waiting, verdict in zip(group, verdicts, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(verdict)
        except Exception as error:  # the boundary: a bug here must not leave requests waiting for ever
            log.exception("a group could not be written")
            for waiting in group:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
        finally:
            self._bytes -= sum(waiting.size for waiting in group)

    async def _settle(self, events: list[tuple[Source, Prepared]]) -> list[Answer]:
        """A verdict for each event: together if that works, else each alone."""
        self._counters.group_size.observe(len(events))
        try:
            return list(await self._commit(events))
        except Unavailable as error:
            return [error] * len(events)
        except _UNSTORABLE as error:
            if len(events) == 1:
                return [InvalidFields([FieldError("$", f"cannot be stored: {error}")])]
        except Exception:  # the boundary of a group: what one event meets must not become the others' answer
            if len(events) == 1:
                log.exception("an event could not be written")
                return [HeadgateError("the event could not be written", hint="look for its correlation id in the log")]
            log.warning("a group failed; its events are tried alone", exc_info=True)
        verdicts: list[Answer] = []
        for event in events:
            verdicts.extend(await self._settle([event]))
        return verdicts

    async def _commit(self, events: list[tuple[Source, Prepared]]) -> list[Verdict]:
        for attempt in range(_ATTEMPTS):
            try:
                return await self._try(events, alone=attempt > 0)
            except asyncpg.PostgresError as error:
                if not is_collision(error):
                    raise
                self._counters.group_retries.inc()
                await asyncio.sleep(random.uniform(0, 0.01 * 2**attempt))
        raise Unavailable("other writers are in the way", hint="retry after a moment")

    async def _try(self, events: list[tuple[Source, Prepared]], *, alone: bool) -> list[Verdict]:
        """Write the events in one transaction; after a collision with no other writer of their organisations."""
        verdicts = [Verdict.STORED] * len(events)
        learned: dict[UUID, tuple[GroupMemory, Touches]] = {}
        async with self._database.connection() as conn:
            try:
                async with conn.transaction():
                    for source, places in _by_source(events):
                        part = (GroupMemory(self._memory(source.organization_id)), Touches())
                        learned[source.organization_id] = part
                        pending = self._pending(source.organization_id)
                        store = IngestStore(conn, source.organization_id, self._counters, pending)
                        if alone:
                            await store.keep_others_out()
                        await self._write_source(store, source, events, places, verdicts, part)
            except DATABASE_GONE as error:
                raise Unavailable(f"the database went away: {type(error).__name__}", hint="retry") from error
        for organization_id, (memory, touches) in learned.items():
            memory.commit()
            if touches:
                self._touches.setdefault(organization_id, Touches()).add_all(touches)
        for organization_id in {source.organization_id for source, event in events if _is_followed_up(event)}:
            self._on_commit(organization_id)
        return verdicts

    async def _write_source(
        self,
        store: IngestStore,
        source: Source,
        events: list[tuple[Source, Prepared]],
        places: list[int],
        verdicts: list[Verdict],
        part: tuple[GroupMemory, Touches],
    ) -> None:
        """Write one organisation's events; the same event twice in a group is written once."""
        first: dict[bytes, int] = {}
        for place in places:
            first.setdefault(events[place][1].key, place)
        written = list(first.values())
        outcomes = await store.write(source.tenant_code, [events[place][1] for place in written], *part)
        for place, outcome in zip(written, outcomes, strict=True):
            verdicts[place] = outcome
        for place in places:
            original = first[events[place][1].key]
            if original != place:
                stored = verdicts[original] in (Verdict.STORED, Verdict.DUPLICATE)
                verdicts[place] = Verdict.DUPLICATE if stored else verdicts[original]


def _is_followed_up(event: Prepared) -> bool:
    """Whether it may have left a task. A beginning leaves none, and there are as many of them as ends."""
    return event.facts.event_type != "START" or bool(event.facts.tests)


def _by_source(events: list[tuple[Source, Prepared]]) -> list[tuple[Source, list[int]]]:
    """Places by organisation, in the order in which organisations are always locked."""
    groups: dict[UUID, tuple[Source, list[int]]] = {}
    for place, (source, _) in enumerate(events):
        groups.setdefault(source.organization_id, (source, []))[1].append(place)
    return [groups[organization_id] for organization_id in sorted(groups)]


def _chunks(events: Sequence[Prepared], most: int) -> list[list[Prepared]]:
    chunks: list[list[Prepared]] = [[]]
    size = 0
    for event in events:
        if len(chunks[-1]) >= most or (chunks[-1] and size > _MAX_GROUP_BYTES // 2):
            chunks.append([])
            size = 0
        chunks[-1].append(event)
        size += len(event.facts.raw)
    return chunks if chunks[0] else []
