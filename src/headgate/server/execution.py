"""Does one claimed batch: its effects and its end, in one transaction where that is possible, and its failures."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple
from uuid import UUID

from headgate.errors import Unavailable
from headgate.server.db.pool import DATABASE_GONE, Connection, Database
from headgate.server.queue import Batch, Kind, RetryLater, Task
from headgate.server.tasks.store import Q

log = logging.getLogger("headgate.worker")

MAX_WAIT_S = 86_400.0
# A claim is renewed as long as the work goes on; what hangs for so long will not end by itself.
MAX_WORK_S = 3600.0
_MAX_TEXT = 1024
# What is nobody's fault: the database is gone, or too busy to answer.
OUTAGE: tuple[type[BaseException], ...] = (Unavailable, *DATABASE_GONE)


class Hold(NamedTuple):
    """What a worker holds, or may hold: whoever asks for tasks and never hears the answer does not know."""

    organization_id: UUID
    token: UUID
    size: int = 0

    async def give_back(self, database: Database, reason: str) -> None:
        """Let others have what is not done. What was done, or was taken from us, stays as it is."""
        async with database.tenant(self.organization_id) as conn:
            ids = await conn.fetch(Q.release_tasks, self.organization_id, self.token, reason[:_MAX_TEXT])
            await _close(conn, self.organization_id, self.token, max(self.size - len(ids), 0), len(ids))


class Claim(NamedTuple):
    """A batch that is ours as long as the token holds."""

    kind: Kind
    batch: Batch
    token: UUID
    tenant_code: str

    @property
    def hold(self) -> Hold:
        return Hold(self.batch.organization_id, self.token, len(self.batch.tasks))


class Outcome(NamedTuple):
    """How many tasks of a batch ended how."""

    succeeded: int
    retried: int
    dead: int


class Lost(Exception):
    """The claim of some tasks is somebody else's now, or they were canceled: their effects are not ours to make."""

    def __init__(self, held: set[int]) -> None:
        super().__init__("the claim does not hold any more")
        self.held = held


class TookTooLong(Exception):
    """Work that was given up because it did not end."""


class _Done(NamedTuple):
    ids: tuple[int, ...] = ()
    failed: Mapping[int, BaseException] = {}


class Execution:
    """One batch, from its claim to its end."""

    def __init__(self, database: Database, claim: Claim) -> None:
        self._database = database
        self._kind, self._batch, self._token, _ = claim
        self._organization_id = claim.batch.organization_id

    async def run(self) -> Outcome:
        """Do it. If the database is gone, nobody is to blame: that is raised, and the batch can be given back."""
        async with self._kept():
            done = await self._work()
        if not self._kind.send and len(done.ids) == len(self._batch.tasks):
            return Outcome(len(done.ids), 0, 0)
        return await self._end(done)

    async def _work(self) -> _Done:
        try:
            async with asyncio.timeout(MAX_WORK_S) as limit:
                return await (self._send() if self._kind.send else self._handle(self._batch.tasks))
        except TimeoutError:
            if not limit.expired():
                raise
        error = TookTooLong(f"it did not end within {MAX_WORK_S:g} s")
        return _Done((), {task.id: error for task in self._batch.tasks})

    async def _handle(self, tasks: Sequence[Task], *, is_again: bool = False) -> _Done:
        """Together; if that fails, each alone, so that each has only its own failure."""
        try:
            await self._handle_together(tasks)
            return _Done(tuple(_ids(tasks)))
        except Lost as lost:
            held = [task for task in tasks if task.id in lost.held]
            return await self._handle(held) if held else _Done()
        except (Exception, asyncio.CancelledError) as error:
            _raise_if_stopped(error)
            cause, is_outage = await self._cause(error)
        if len(tasks) > 1:
            return _together([await self._handle([task]) for task in tasks])
        if is_outage and not is_again:
            return await self._handle(tasks, is_again=True)
        return _Done((), {tasks[0].id: cause})

    async def _handle_together(self, tasks: Sequence[Task]) -> None:
        assert self._kind.handle is not None
        async with self._database.tenant(self._organization_id) as conn:
            await self._kind.handle(conn, self._batch._replace(tasks=tuple(tasks)))
            ended = await conn.fetch(Q.finish_tasks, self._organization_id, _ids(tasks), self._token)
            if len(ended) != len(tasks):
                raise Lost({row[0] for row in ended})
            if len(tasks) == len(self._batch.tasks):
                await self._close(conn, len(tasks), 0)

    async def _send(self) -> _Done:
        assert self._kind.send is not None
        try:
            failed = await self._kind.send(self._database, self._batch)
        except (Exception, asyncio.CancelledError) as error:
            _raise_if_stopped(error)
            cause, _ = await self._cause(error)
            return _Done((), {task.id: cause for task in self._batch.tasks})
        return _Done(tuple(task.id for task in self._batch.tasks if task.id not in failed), failed)

    async def _end(self, done: _Done) -> Outcome:
        async with self._database.tenant(self._organization_id) as conn:
            succeeded = len(done.ids)
            if self._kind.send:
                ended = await conn.fetch(Q.finish_tasks, self._organization_id, list(done.ids), self._token)
                succeeded = len(ended)
            states = await self._fail(conn, done.failed)
            await self._close(conn, succeeded, len(states))
        dead = sum(state == "DEAD" for state in states)
        return Outcome(succeeded, len(states) - dead, dead)

    async def _fail(self, conn: Connection, failed: Mapping[int, BaseException]) -> list[str]:
        """Put failed tasks back with their errors; the states that they are in now."""
        if not failed:
            return []
        types = [type(error).__name__ for error in failed.values()]
        texts = [said(error) for error in failed.values()]
        waits = [_wait_s(error) for error in failed.values()]
        for id_, type_, text in zip(failed, types, texts, strict=True):
            log.warning("a task failed", extra={"task": id_, "type": self._kind.task_type, "error": f"{type_}: {text}"})
        found = await conn.fetch(Q.fail_tasks, self._organization_id, list(failed), self._token, types, texts, waits)
        return [row["status"] for row in found]

    async def _close(self, conn: Connection, succeeded: int, failed: int) -> None:
        await _close(conn, self._organization_id, self._token, succeeded, failed)

    async def _cause(self, error: BaseException) -> tuple[BaseException, bool]:
        """What to blame a task for, and whether it looks like the database's fault; raises if that is gone."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        is_outage = isinstance(error, OUTAGE)
        if is_outage:
            await self._database.ping()
        return (error.__cause__ or error if isinstance(error, Unavailable) else error), is_outage

    @asynccontextmanager
    async def _kept(self) -> AsyncIterator[None]:
        """Renews the claim while the work goes on."""
        is_over = asyncio.Event()
        renewing = asyncio.create_task(self._renew(is_over), name="headgate-claim")
        try:
            yield
        finally:
            # A connection that breaks while it is canceled makes another error of that: the word ends it then.
            is_over.set()
            renewing.cancel()
            await asyncio.wait([renewing])

    async def _renew(self, is_over: asyncio.Event) -> None:
        claim_s, ids = self._kind.claim_s, _ids(self._batch.tasks)
        while not is_over.is_set():
            await asyncio.sleep(claim_s / 3)
            try:
                async with self._database.tenant(self._organization_id) as conn:
                    await conn.execute(Q.renew_claim, self._organization_id, ids, self._token, claim_s)
            except Exception as error:
                # The work itself goes on: whether the claim still holds is seen at its end.
                log.warning("a claim was not renewed", extra={"error": str(error)})


def said(error: BaseException) -> str:
    """What an error says, as PostgreSQL can keep it."""
    text = str(error)[:_MAX_TEXT].replace("\x00", "\\u0000").encode("utf-8", "backslashreplace").decode()
    return text[:_MAX_TEXT] or type(error).__name__


async def _close(conn: Connection, organization_id: UUID, token: UUID, succeeded: int, failed: int) -> None:
    await conn.execute(Q.close_batch, organization_id, str(token), succeeded, failed)


def _together(parts: Sequence[_Done]) -> _Done:
    failed: dict[int, BaseException] = {}
    for part in parts:
        failed |= part.failed
    return _Done(tuple(id_ for part in parts for id_ in part.ids), failed)


def _raise_if_stopped(error: BaseException) -> None:
    """A handler may be canceled by something of its own; only if we are, the work ends here.

    A connection that breaks while it is canceled makes another error of that, which must not hide it.
    """
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise error if isinstance(error, asyncio.CancelledError) else asyncio.CancelledError from error


def _ids(tasks: Sequence[Task]) -> list[int]:
    return [task.id for task in tasks]


def _wait_s(error: BaseException) -> float:
    wait_s = error.retry_after_s if isinstance(error, RetryLater) else 0.0
    return min(max(wait_s, 0.0), MAX_WAIT_S) if math.isfinite(wait_s) else 0.0
