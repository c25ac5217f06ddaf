"""Puts the server together: one FastAPI application and the ingest endpoints, behind one edge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from headgate.server import auth, system
from headgate.server.accounts import routes as accounts
from headgate.server.api import build_api
from headgate.server.db.pool import Database
from headgate.server.edge import Edge
from headgate.server.ingest.routes import IngestEndpoints
from headgate.server.notices import Notices
from headgate.server.runs.routes import router as runs_router
from headgate.server.telemetry import Telemetry
from headgate.settings import Settings


def create_app(settings: Settings, database: Database, *, telemetry: Telemetry | None = None) -> Edge:
    """The ASGI application. The database is the caller's to close: a worker may share it."""
    telemetry = telemetry or Telemetry()
    telemetry.watch_pool(database)
    ingest = IngestEndpoints(settings, database, telemetry)
    notices = Notices(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await notices.start()
        await ingest.start()
        try:
            yield
        finally:
            await ingest.stop()
            await notices.stop()

    routers = (system.router, accounts.auth_router, accounts.organization_router, runs_router)
    api = build_api(settings, database, telemetry=telemetry, routers=routers, lifespan=lifespan)
    api.state.notices = notices
    notices.subscribe(auth.NOTICES, api.state.authenticator.hear)
    ingest.describe(api)
    return Edge(
        api,
        settings=settings,
        authenticator=api.state.authenticator,
        telemetry=telemetry,
        fast_routes=ingest.fast_routes(),
    )
