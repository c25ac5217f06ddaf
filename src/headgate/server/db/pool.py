"""Connections: one pool, and the two ways to use it, with an organisation or before one is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeAlias
from uuid import UUID

import asyncpg

from headgate.errors import Unavailable

log = logging.getLogger("headgate.database")

SCHEMA = "headgate"
APP_ROLE = "headgate_app"

# mypy has no stubs for asyncpg; these names keep signatures readable.
Connection: TypeAlias = asyncpg.Connection
Record: TypeAlias = asyncpg.Record

# What a lost, starting or overloaded server looks like. All of these mean: nothing is wrong with the
# request, ask again later.
DATABASE_GONE: tuple[type[BaseException], ...] = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    # What asyncpg raises when the server dies in the middle of an answer.
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.DiskFullError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.QueryCanceledError,
)


class Database:
    """The pool of the application role; every connection it hands out is subject to row-level security."""

    def __init__(self, dsn: str, *, max_size: int = 16, timeout_s: float = 10.0) -> None:
        self._dsn = dsn
        self._max_size = max_size
        self._timeout_s = timeout_s
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    @property
    def size(self) -> int:
        return self._pool.get_size() if self._pool else 0

    @property
    def idle(self) -> int:
        return self._pool.get_idle_size() if self._pool else 0

    @property
    def max_size(self) -> int:
        return self._max_size

    async def close(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), timeout=5)
            except DATABASE_GONE:
                pool.terminate()

    @asynccontextmanager
    async def tenant(self, organization_id: UUID) -> AsyncIterator[Connection]:
        """A transaction that sees and writes the rows of one organisation."""
        async with self.transaction() as conn:
            await set_organization(conn, organization_id)
            yield conn

    @asynccontextmanager
    async def snapshot(self, organization_id: UUID) -> AsyncIterator[Connection]:
        """A transaction that reads one organisation's rows as they were when it began."""
        async with self.connection() as conn, conn.transaction(isolation="repeatable_read", readonly=True):
            await set_organization(conn, organization_id)
            yield conn

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A transaction with no organisation set: row-level security shows it nothing until one is."""
        async with self.connection() as conn, conn.transaction():
            yield conn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        try:
            pool = await self._open()
            async with pool.acquire(timeout=self._timeout_s) as conn:
                yield conn
        except DATABASE_GONE as error:
            raise Unavailable(
                f"the database does not answer: {type(error).__name__}", hint="retry after a moment"
            ) from error

    async def ping(self) -> None:
        async with self.connection() as conn:
            await conn.fetchval("SELECT 1", timeout=self._timeout_s)

    async def _open(self) -> asyncpg.Pool:
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    self._pool = await asyncpg.create_pool(
                        self._dsn,
                        min_size=0,
                        max_size=self._max_size,
                        timeout=self._timeout_s,
                        command_timeout=60,
                        init=become_application,
                        reset=_leave_as_it_is,
                        server_settings={"search_path": SCHEMA, "application_name": "headgate", "timezone": "UTC"},
                    )
        return self._pool


async def set_organization(conn: Connection, organization_id: UUID) -> None:
    await conn.execute("SELECT set_config('headgate.organization_id', $1, true)", str(organization_id))


async def _leave_as_it_is(conn: Connection) -> None:
    """What a transaction sets ends with it, and who listens stops: to reset all would be a round trip for nothing."""


async def become_application(conn: Connection) -> None:
    """Drop to the application role, whoever logged in: a superuser or the owner would bypass the policies."""
    if await conn.fetchval("SELECT current_user") == APP_ROLE:
        return
    try:
        await conn.execute(f"SET ROLE {APP_ROLE}")
    except (asyncpg.InsufficientPrivilegeError, asyncpg.InvalidParameterValueError, asyncpg.UndefinedObjectError) as e:
        user = await conn.fetchval("SELECT current_user")
        # Details are for whoever runs the server, not for whoever sends events.
        log.error("role %r cannot act as %s: run `headgate migrate`, then grant it that role", user, APP_ROLE)
        raise Unavailable("the database is not set up for headgate", hint="see the server's log") from e
