"""One connection that listens for what other processes announce, so that caches can drop what changed.

A notice may be lost while the connection is down; every handler is therefore told, with `None`, to forget
everything whenever listening starts anew. A cache that relies on notices still needs an age limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from headgate.errors import HeadgateError
from headgate.server.db.pool import DATABASE_GONE, Connection, Database

Handler = Callable[[str | None], None]

_RETRY_S = 1.0
_CHECK_S = 15.0
_UNREACHABLE: tuple[type[BaseException], ...] = (HeadgateError, *DATABASE_GONE)
_log = logging.getLogger(__name__)


class Notices:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._handlers: dict[str, list[Handler]] = {}
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, channel: str, handler: Handler) -> None:
        """Call `handler` with each payload of a channel; to be done before `start`."""
        self._handlers.setdefault(channel, []).append(handler)

    async def start(self) -> None:
        if self._handlers and self._task is None:
            self._task = asyncio.create_task(self._run(), name="headgate-notices")

    async def stop(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                async with self._database.connection() as conn:
                    await self._listen(conn)
            except _UNREACHABLE as error:
                _log.debug("not listening for notices: %s", error)
            await asyncio.sleep(_RETRY_S)

    async def _listen(self, conn: Connection) -> None:
        lost = asyncio.Event()
        conn.add_termination_listener(lambda _: lost.set())
        try:
            for channel in self._handlers:
                await conn.add_listener(channel, self._dispatch)
            self._forget_everything()
            while not lost.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(lost.wait(), _CHECK_S)
                if not lost.is_set():
                    await conn.execute("SELECT 1", timeout=_CHECK_S)
        finally:
            await self._unlisten(conn)

    async def _unlisten(self, conn: Connection) -> None:
        if not conn.is_closed():
            with suppress(*DATABASE_GONE):
                for channel in self._handlers:
                    await conn.remove_listener(channel, self._dispatch)

    def _dispatch(self, _conn: Connection, _pid: int, channel: str, payload: str) -> None:
        for handler in self._handlers.get(channel, ()):
            handler(payload)

    def _forget_everything(self) -> None:
        for handlers in self._handlers.values():
            for handler in handlers:
                handler(None)
