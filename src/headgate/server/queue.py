"""Background work as everybody sees it: making a task, handling a batch of them, and the bell that wakes a worker.

A task is made in the transaction of what it follows from, so it exists if and only if that does.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg
import msgspec

from headgate.errors import HeadgateError
from headgate.server.db.pool import DATABASE_GONE, Connection, Database
from headgate.server.db.queries import Queries

Q = Queries("headgate.server")

CHANNEL = "headgate_tasks"
# What follows from events goes before what can wait; the SQL of ingest says the same.
DETECT_PRIORITY = 50
CORRELATE_PRIORITY = 60
# Commits come in quick succession; one notice speaks for all of them. Where a worker of this process has heard already,
# those of other processes only come to help.
_RING_S = 0.005
_RING_FOR_HELP_S = 0.1
_STOP_S = 1.0
# A server that cannot keep up says so at most so often; workers take its word for a little longer.
PRESSED = "pressed "
PRESS_S = 1.0

_UNTOLD: tuple[type[BaseException], ...] = (HeadgateError, asyncpg.PostgresError, *DATABASE_GONE)
# Where a worker notes for whom its handlers make tasks.
_made: ContextVar[set[UUID] | None] = ContextVar("headgate_tasks_made", default=None)
_log = logging.getLogger(__name__)


class NewTask(NamedTuple):
    """A task to be made. It is the same as another if type, organisation, resource, model and content are."""

    task_type: str
    resource_type: str
    resource_id: str
    content_hash: str
    payload: Mapping[str, Any] = {}
    priority: int = 100
    delay_s: float = 0
    model_fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that this process has claimed."""

    id: int
    organization_id: UUID
    task_type: str
    resource_type: str
    resource_id: str
    payload: dict[str, Any]
    attempt: int
    created_at: datetime
    is_last_attempt: bool = False


class Batch(NamedTuple):
    """Tasks of one organisation, type and model that are done together."""

    organization_id: UUID
    task_type: str
    model_fingerprint: str
    tasks: tuple[Task, ...]


Handle = Callable[[Connection, Batch], Awaitable[None]]
Send = Callable[[Database, Batch], Awaitable[Mapping[int, BaseException]]]


@dataclass(frozen=True)
class Kind:
    """How tasks of one type are done.

    `handle` runs in one transaction, in which the tasks are ended too: what it does happens once or not at all. What
    has effects elsewhere has a `send` instead, which opens its own transactions and tells what failed, by task.
    """

    task_type: str
    handle: Handle | None = None
    send: Send | None = None
    batch_size: int = 100
    claim_s: int = 120
    every_s: int | None = None


class RetryLater(Exception):
    """A task failed, and whoever refused it said how long to wait."""

    def __init__(self, message: str, retry_after_s: float = 0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def content_hash(*parts: object) -> str:
    """What a task is about, in 64 digits; as the function of that name in SQL."""
    return hashlib.sha256("\x1f".join(str(part) for part in parts).encode()).hexdigest()


async def enqueue(conn: Connection, organization_id: UUID, tasks: Sequence[NewTask]) -> int:
    """Make tasks in the caller's transaction; how many are new. One with the same key is not made again."""
    if not tasks:
        return 0
    # In one order everywhere: two transactions that make the same tasks must not wait for each other.
    rows = sorted(map(_row, tasks), key=lambda row: row[:5])
    made: int = await conn.fetchval(Q.enqueue_tasks, organization_id, *map(list, zip(*rows, strict=True)))
    if made and (noted := _made.get()) is not None:
        noted.add(organization_id)
    return made


@contextmanager
def noting_made() -> Iterator[set[UUID]]:
    """The organisations for which tasks are made inside, by this task of the event loop and those it starts."""
    noted: set[UUID] = set()
    token = _made.set(noted)
    try:
        yield noted
    finally:
        _made.reset(token)


def _row(task: NewTask) -> tuple[Any, ...]:
    payload = msgspec.json.encode(task.payload).decode()
    return (*task[:4], task.model_fingerprint, payload, task.priority, task.delay_s)


class Bell:
    """Tells workers, here and in other processes, that an organisation has something to do.

    A ring may be lost with the process or the connection; workers look for due work now and then, too.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.id = uuid4().hex
        # Whether those who send events wait: work then holds back for a moment. Ingest of this process says so.
        self.is_pressed: Callable[[], bool] = lambda: False
        self._listeners: list[Callable[[UUID], None]] = []
        self._untold: set[str] = set()
        self._press_at = float("-inf")
        self._telling: asyncio.Task[None] | None = None

    def listen(self, listener: Callable[[UUID], None]) -> None:
        """Have a worker of this process called at once."""
        self._listeners.append(listener)

    def ring(self, organization_id: UUID) -> None:
        """To be called after the commit, in the event loop."""
        for listener in self._listeners:
            listener(organization_id)
        self._tell_others(str(organization_id))

    def press(self) -> None:
        """Have workers of other processes hold back for a moment; to be called as often as there is reason to."""
        now = time.monotonic()
        if now >= self._press_at:
            self._press_at = now + PRESS_S
            self._tell_others(PRESSED + self.id)

    async def stop(self) -> None:
        """Tell what is left to tell, if that can be done soon: workers look by themselves, too."""
        if self._telling is not None:
            await asyncio.wait([self._telling], timeout=_STOP_S)
            self._telling.cancel()

    def _tell_others(self, notice: str) -> None:
        self._untold.add(notice)
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._tell(), name="headgate-bell")

    async def _tell(self) -> None:
        while self._untold:
            await asyncio.sleep(_RING_FOR_HELP_S if self._listeners else _RING_S)
            notices, self._untold = self._untold, set()
            try:
                async with self._database.connection() as conn:
                    await conn.execute(Q.notify_workers, CHANNEL, list(notices))
            except _UNTOLD as error:
                _log.debug("no worker was told: %s", error)
