"""Puts the server together: one FastAPI application and the ingest endpoints, behind one edge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

from fastapi import FastAPI

from headgate.server import auth, system
from headgate.server.accounts import routes as accounts
from headgate.server.accounts.store import ORGANIZATION_NOTICES
from headgate.server.api import build_api
from headgate.server.catalog.routes import router as catalog_router
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
        async with AsyncExitStack() as running:
            for part in (notices, ingest):
                running.push_async_callback(part.stop)
                await part.start()
            yield

    def organization_changed(payload: str | None) -> None:
        if payload:
            ingest.tenants.forget(UUID(payload))

    routers = (system.router, accounts.auth_router, accounts.organization_router, catalog_router, runs_router)
    api = build_api(settings, database, telemetry=telemetry, routers=routers, lifespan=lifespan)
    api.state.notices = notices
    api.state.organization_changed = ingest.tenants.forget
    notices.subscribe(auth.NOTICES, api.state.authenticator.hear)
    notices.subscribe(ORGANIZATION_NOTICES, organization_changed)
    ingest.describe(api)
    return Edge(
        api,
        settings=settings,
        authenticator=api.state.authenticator,
        telemetry=telemetry,
        fast_routes=ingest.fast_routes(),
    )
