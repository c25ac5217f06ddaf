"""What route handlers ask for by type: the database, and a caller with the right scope."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from headgate.server.auth import Authenticator, Principal, Scope, require
from headgate.server.db.pool import Database


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
