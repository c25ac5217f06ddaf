"""Puts the server together: one FastAPI application and the ingest endpoints, behind one edge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

from fastapi import FastAPI

from headgate.server import auth, pages, system
from headgate.server.accounts import routes as accounts
from headgate.server.accounts.store import ORGANIZATION_NOTICES
from headgate.server.alerts import routes as alerts
from headgate.server.anomalies import routes as anomalies
from headgate.server.anomalies.policies import routes as policies
from headgate.server.anomalies.watching import routes as watching
from headgate.server.api import build_api, included
from headgate.server.catalog import routes as catalog
from headgate.server.columns import routes as columns
from headgate.server.db.pool import Database
from headgate.server.edge import Edge
from headgate.server.events import routes as events
from headgate.server.events.hub import Hub
from headgate.server.incidents import routes as incidents
from headgate.server.ingest.routes import IngestEndpoints
from headgate.server.lineage import routes as lineage
from headgate.server.marquez import routes as marquez
from headgate.server.metrics import routes as metrics
from headgate.server.names import routes as names
from headgate.server.notices import Notices
from headgate.server.pipelines import routes as pipelines
from headgate.server.quality import routes as quality
from headgate.server.queue import Bell
from headgate.server.runs import routes as runs
from headgate.server.search import routes as search
from headgate.server.tasks import routes as tasks
from headgate.server.tasks.backlog import Backlog
from headgate.server.telemetry import Telemetry
from headgate.server.versions import routes as versions
from headgate.settings import Settings

SLICES = (
    *(catalog, versions, metrics, quality, lineage, columns, runs, pipelines),
    *(search, events, names, anomalies, policies, watching, incidents, alerts, tasks, marquez),
)
# Once for all applications of a process: FastAPI takes a while to work them out.
ROUTES = included(
    [
        system.router,
        accounts.auth_router,
        accounts.organization_router,
        *(each.router for each in (*SLICES, pages)),
    ]
)


def create_app(
    settings: Settings, database: Database, *, telemetry: Telemetry | None = None, bell: Bell | None = None
) -> Edge:
    """The ASGI application. The database is the caller's to close: a worker may share it, and hear its bell."""
    telemetry = telemetry or Telemetry()
    telemetry.watch_pool(database)
    telemetry.ask_first(Backlog(database, telemetry.registry).refresh)
    bell = bell or Bell(database)
    ingest = IngestEndpoints(settings, database, telemetry, bell)
    notices = Notices(database)
    hub = Hub(database)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, object]]:
        async with AsyncExitStack() as running:
            running.push_async_callback(bell.stop)
            for part in (notices, ingest, hub):
                running.push_async_callback(part.stop)
                await part.start()
            # For the HTTP server: streams end before it waits for its connections, and the rest stops after.
            yield {"on_shutdown": hub.close}

    def organization_changed(payload: str | None) -> None:
        if payload:
            ingest.tenants.forget(UUID(payload))

    api = build_api(settings, database, telemetry=telemetry, routes=ROUTES, lifespan=lifespan)
    api.state.notices = notices
    api.state.hub = hub
    api.state.bell = bell
    api.state.organization_changed = ingest.tenants.forget
    api.state.settle = ingest.settle
    notices.subscribe(auth.NOTICES, api.state.authenticator.hear)
    notices.subscribe(ORGANIZATION_NOTICES, organization_changed)
    ingest.describe(api)
    return Edge(
        api,
        settings=settings,
        authenticator=api.state.authenticator,
        telemetry=telemetry,
        fast_routes=ingest.fast_routes(),
        shared_paths=frozenset({"/api/v1/lineage", "/marquez/api/v1/lineage"}),
    )
