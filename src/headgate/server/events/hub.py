"""Hands what is new in an organisation to everyone who listens: one look at the database for all of them.

A listener who does not keep up loses messages and is told so; nobody waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import asyncpg

from headgate.errors import HeadgateError, RateLimited, Unavailable
from headgate.server.db.pool import DATABASE_GONE, Database
from headgate.server.events.feed import GAP, Feed, Message, gap

POLL_S = 1.0
HEALTH_S = 5.0
HEARTBEAT_S = 15.0
MAX_LISTENERS = 100
MAX_WAITING = 1000

_BEGIN_S = 10.0
_UNREADABLE: tuple[type[BaseException], ...] = (HeadgateError, asyncpg.PostgresError, *DATABASE_GONE)
_log = logging.getLogger(__name__)


class Listener:
    """What waits to be told to one client."""

    def __init__(self, types: frozenset[str], max_waiting: int) -> None:
        self.closed = asyncio.Event()
        # The id after which to read again, once everything that waits has been told.
        self.floor = 0
        self._types = types
        self._max_waiting = max_waiting
        self._waiting: deque[Message] = deque()
        self._missed = 0
        self._changed = asyncio.Event()
        self._told: dict[str, int] = {}

    def push(self, message: Message) -> None:
        if message.type not in self._types and message.type != GAP:
            return
        if self._has_told(message):
            return
        # Once something is lost, so is what follows until the rest is told: the gap has one place.
        if self._missed or len(self._waiting) >= self._max_waiting:
            self._missed += 1
        else:
            self._waiting.append(message)
        self._changed.set()

    def replay(self, messages: Iterable[Message], *, is_complete: bool) -> None:
        """Tell this first, and none of it a second time."""
        kept = [message for message in messages if message.type in self._types]
        self._told = {message.subject: message.event_id for message in kept}
        later = [message for message in self._waiting if not self._has_told(message)]
        self._waiting = deque(([] if is_complete else [gap(None)]) + kept + later)
        self._changed.set()

    def close(self) -> None:
        self.closed.set()
        self._changed.set()

    async def take(self, timeout_s: float) -> list[Message]:
        """What waits, once something does; nothing when the time is over or the listener is closed."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        self._changed.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        if self._missed:
            taken.append(gap(self._missed))
            self._missed = 0
        return taken

    def _has_told(self, message: Message) -> bool:
        return 0 < message.event_id <= self._told.get(message.subject, 0)


class _Channel:
    """The listeners of one organisation and the feed they share."""

    def __init__(self, feed: Feed, poll_s: float, health_s: float) -> None:
        self.feed = feed
        self.listeners: set[Listener] = set()
        self._poll_s = poll_s
        self._health_s = health_s
        self._begun = asyncio.Event()
        self.task = asyncio.create_task(self._run(), name="headgate-stream")
        self.task.add_done_callback(self._ended)

    async def begun(self) -> None:
        """Wait until the feed knows where it stands: from then on, nothing is missed."""
        try:
            await asyncio.wait_for(self._begun.wait(), _BEGIN_S)
        except TimeoutError:
            raise Unavailable("the log cannot be read now", hint="connect again after a moment") from None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        told_at = loop.time()
        while True:
            try:
                if self._begun.is_set():
                    self._tell(await self.feed.look())
                    if loop.time() - told_at >= self._health_s:
                        told_at = loop.time()
                        self._tell([await self.feed.health()])
                else:
                    await self.feed.begin()
                    self._begun.set()
            except _UNREADABLE as error:
                # Nothing is lost: the next look begins where the last one that succeeded ended.
                _log.info("a stream waits for the database", extra={"error": str(error)})
            await asyncio.sleep(self._poll_s)

    def _tell(self, messages: list[Message]) -> None:
        for listener in self.listeners:
            for message in messages:
                listener.push(message)
            listener.floor = self.feed.floor

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Whoever listened connects again, should this have ended by a fault of its own."""
        for listener in self.listeners:
            listener.close()
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a stream failed", exc_info=error)


class Hub:
    """All listeners of one server process."""

    def __init__(
        self,
        database: Database,
        *,
        poll_s: float = POLL_S,
        health_s: float = HEALTH_S,
        heartbeat_s: float = HEARTBEAT_S,
        max_listeners: int = MAX_LISTENERS,
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self.heartbeat_s = heartbeat_s
        self._database = database
        self._poll_s = poll_s
        self._health_s = health_s
        self._max_listeners = max_listeners
        self._max_waiting = max_waiting
        self._channels: dict[UUID, _Channel] = {}
        self._is_closed = False

    async def start(self) -> None:
        self._is_closed = False

    async def stop(self) -> None:
        self.close()
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await _end(channel.task)

    def close(self) -> None:
        """End every stream, so that their connections can be closed."""
        self._is_closed = True
        for channel in self._channels.values():
            for listener in channel.listeners:
                listener.close()

    def check(self, organization_id: UUID) -> None:
        """Refuse one more listener if there is no room for it."""
        if self._is_closed:
            raise Unavailable("the server is shutting down", hint="connect again after a moment")
        channel = self._channels.get(organization_id)
        if channel is not None and len(channel.listeners) >= self._max_listeners:
            raise RateLimited(
                f"the organisation has {self._max_listeners} streams open already",
                retry_after_s=30,
                hint="close one of them, or let several readers share one",
            )

    @asynccontextmanager
    async def listen(
        self, organization_id: UUID, types: frozenset[str], after: int | None = None
    ) -> AsyncIterator[Listener]:
        """Listen until the block ends, from now on or from after an event."""
        self.check(organization_id)
        channel = self._channels.get(organization_id)
        if channel is None or channel.task.done():
            channel = _Channel(Feed(self._database, organization_id), self._poll_s, self._health_s)
            self._channels[organization_id] = channel
        listener = Listener(types, self._max_waiting)
        channel.listeners.add(listener)
        try:
            await channel.begun()
            listener.floor = channel.feed.floor
            if after is not None:
                messages, is_complete = await channel.feed.replay(after)
                listener.replay(messages, is_complete=is_complete)
            yield listener
        finally:
            channel.listeners.discard(listener)
            if not channel.listeners and self._channels.get(organization_id) is channel:
                del self._channels[organization_id]
                await _end(channel.task)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
