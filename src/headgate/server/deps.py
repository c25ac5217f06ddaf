"""What route handlers ask for by type: the database, a caller with the right scope, a way to read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Request

from headgate.server.auth import Authenticator, Principal, Scope, require
from headgate.server.db.pool import Connection, Database


async def database_of(request: Request) -> Database:
    database: Database = request.app.state.database
    return database


async def authenticator_of(request: Request) -> Authenticator:
    authenticator: Authenticator = request.app.state.authenticator
    return authenticator


Db = Annotated[Database, Depends(database_of)]
Auth = Annotated[Authenticator, Depends(authenticator_of)]
Caller = Annotated[Principal, Depends(require())]
Reader = Annotated[Principal, Depends(require(Scope.read))]
Writer = Annotated[Principal, Depends(require(Scope.write))]
Admin = Annotated[Principal, Depends(require(Scope.admin))]


class Reading:
    """The caller's organisation, to be read from."""

    def __init__(self, request: Request, database: Db, caller: Reader) -> None:
        self.caller = caller
        self._database = database
        self._settle = request.app.state.settle

    @property
    def organization_id(self) -> UUID:
        return self.caller.organization_id

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        """A transaction that sees everything this process has acknowledged, last-seen times included."""
        await self._settle(self.organization_id)
        async with self._database.tenant(self.organization_id) as conn:
            yield conn

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """The same, and all its statements see the same data."""
        await self._settle(self.organization_id)
        async with self._database.snapshot(self.organization_id) as conn:
            yield conn


Reads = Annotated[Reading, Depends()]
