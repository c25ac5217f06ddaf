"""Routes for whoever runs the server: is it up, is it ready, what state is it in, what does it count."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from headgate.errors import HeadgateError, Unavailable
from headgate.server.db.migrate import is_current
from headgate.server.db.pool import DATABASE_GONE, Database
from headgate.server.problems import problems
from headgate.server.telemetry import VERSION

PROBE_PATHS = frozenset({b"/ping", b"/ready", b"/health", b"/metrics"})

_PROBE_TIMEOUT_S = 5.0
_UNREACHABLE: tuple[type[BaseException], ...] = (HeadgateError, *DATABASE_GONE)
router = APIRouter(tags=["system"])


class ReadyOut(BaseModel):
    status: Literal["ready"]


class DatabaseOut(BaseModel):
    status: Literal["ok", "outdated", "down"]
    latency_ms: float | None
    server_version: str | None


class HealthOut(BaseModel):
    status: Literal["ok", "degraded"]
    version: str
    uptime_s: float
    database: DatabaseOut


class Probe:
    """Asks the database how it is. Callers at the same moment share one question: these routes are public."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asking: asyncio.Task[DatabaseOut] | None = None
        self._is_current = False

    async def ask(self) -> DatabaseOut:
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> DatabaseOut:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S), self._database.connection() as conn:
                server_version = await conn.fetchval("SHOW server_version")
                latency_ms = round((time.perf_counter() - began) * 1000, 2)
                # Migrations are never undone, so this is asked until it is true and not again.
                self._is_current = self._is_current or await is_current(conn)
        except _UNREACHABLE:
            return DatabaseOut(status="down", latency_ms=None, server_version=None)
        status: Literal["ok", "outdated"] = "ok" if self._is_current else "outdated"
        return DatabaseOut(status=status, latency_ms=latency_ms, server_version=server_version)


@router.get("/ping", response_class=PlainTextResponse)
async def ping() -> str:
    """Whether the process answers."""
    return "pong"


@router.get("/ready", responses=problems(Unavailable))
async def ready(request: Request) -> ReadyOut:
    """Whether requests can be served: the database answers and has the schema of this version."""
    database = await request.app.state.probe.ask()
    if database.status == "down":
        raise Unavailable("the database does not answer", hint="retry after a moment")
    if database.status == "outdated":
        raise Unavailable("the database schema is older than this version", hint="run `headgate migrate`")
    return ReadyOut(status="ready")


@router.get("/health")
async def health(request: Request) -> HealthOut:
    """Version, uptime and the state of the database."""
    database = await request.app.state.probe.ask()
    return HealthOut(
        status="ok" if database.status == "ok" else "degraded",
        version=VERSION,
        uptime_s=round(time.monotonic() - request.app.state.started_at, 3),
        database=database,
    )


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> Response:
    """Counters and timings in Prometheus' text form, those of all organisations together."""
    telemetry = request.app.state.telemetry
    await telemetry.refresh()
    return Response(telemetry.render(), media_type=telemetry.content_type)
