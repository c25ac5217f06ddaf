"""The seven ingest routes as plain ASGI: they bypass FastAPI's request handling, and nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import msgspec
from fastapi import FastAPI

from headgate.errors import HeadgateError, InvalidFields, RefusedState
from headgate.openlineage.facets import FacetReader
from headgate.openlineage.simple import translate_metadata, translate_schema
from headgate.server.auth import Scope as Right
from headgate.server.auth import authorize
from headgate.server.db.pool import Database
from headgate.server.edge import App, Message, Receive, Scope, Send
from headgate.server.ingest import answers
from headgate.server.ingest.body import Disconnected, Limits, read_body
from headgate.server.ingest.counters import IngestCounters
from headgate.server.ingest.document import describe
from headgate.server.ingest.group import GroupWriter
from headgate.server.ingest.service import Ingest, Request
from headgate.server.ingest.tenants import Tenants
from headgate.server.problems import Headers, render
from headgate.server.queue import Bell
from headgate.server.telemetry import Telemetry
from headgate.settings import Settings

# Who else holds a row of the organisation must not hold up those who read.
SETTLE_S = 1.0

Answer = tuple[int, dict[str, Any]]
Handler = Callable[[Request, bytes], Awaitable[Answer]]


class IngestEndpoints:
    """The ingest slice of one server: its routes, and the writer behind them."""

    def __init__(self, settings: Settings, database: Database, telemetry: Telemetry, bell: Bell) -> None:
        reader = FacetReader()
        self.counters = IngestCounters(telemetry.registry)
        self.tenants = Tenants(database, settings.max_depth)
        self.writer = GroupWriter(
            database,
            self.counters,
            group_size=settings.group_size,
            writers=settings.group_writers,
            on_commit=bell.ring,
            on_pressed=bell.press,
            pressed_at=settings.tasks_yield_events,
            max_events=settings.max_queue_events,
            max_bytes=settings.max_queue_bytes,
        )
        bell.is_pressed = self.writer.is_pressed
        self.ingest = Ingest(database, self.tenants, self.writer, reader, self.counters)
        self._limits = Limits(settings.max_body_bytes, settings.max_unpacked_bytes)

    async def start(self) -> None:
        await self.writer.start()

    async def stop(self) -> None:
        await self.writer.stop()

    async def settle(self, organization_id: UUID) -> None:
        """Write the times that are written a little later, so that a read sees them; but no read waits for long."""
        if self.writer.has_touches(organization_id):
            with suppress(TimeoutError):
                await asyncio.wait_for(self.writer.flush_touches(organization_id), SETTLE_S)

    def describe(self, app: FastAPI) -> None:
        describe(app)

    def fast_routes(self) -> dict[tuple[str, str], App]:
        handlers: dict[str, Handler] = {
            "/api/v1/lineage": self._single,
            "/marquez/api/v1/lineage": self._single,
            "/api/v1/lineage/batch": self._batch,
            "/api/v1/lineage/events": self._events,
            "/api/openlineage": self._sink,
            "/api/v1/ingest/metadata": self._metadata,
            "/api/v1/ingest/schema": self._schema,
        }
        return {("POST", path): self._endpoint(path, handler) for path, handler in handlers.items()}

    def _endpoint(self, path: str, handler: Handler) -> App:
        latency = self.counters.latency.labels(route=path)

        async def endpoint(scope: Scope, receive: Receive, send: Send) -> None:
            began = time.perf_counter()
            state = scope["state"]
            principal = authorize(state, Right.ingest)
            request = Request(principal, path, state["correlation_id"])
            try:
                body = await read_body(scope["headers"], receive, self._limits)
            except Disconnected:
                return
            except HeadgateError as error:
                await self.ingest.refuse(request, error, b"")
                raise
            try:
                status, answer = await handler(request, body)
            except (InvalidFields, RefusedState) as error:
                if path != "/api/openlineage":
                    raise
                await _refuse_sink(error, request, state, send)
                return
            await _send_json(send, status, answer)
            latency.observe(time.perf_counter() - began)

        return endpoint

    async def _single(self, request: Request, body: bytes) -> Answer:
        outcome, facts = await self.ingest.accept(request, body)
        return answers.single(outcome, facts, request.correlation_id)

    async def _sink(self, request: Request, body: bytes) -> Answer:
        outcome, facts = await self.ingest.accept(request, body)
        return answers.sink(outcome, facts, request.principal)

    async def _batch(self, request: Request, body: bytes) -> Answer:
        return answers.batch(await self.ingest.accept_array(request, body), request.correlation_id)

    async def _events(self, request: Request, body: bytes) -> Answer:
        return answers.events(await self.ingest.accept_array(request, body), request.correlation_id)

    async def _metadata(self, request: Request, body: bytes) -> Answer:
        return answers.simple(*await self.ingest.accept_simple(request, body, translate_metadata))

    async def _schema(self, request: Request, body: bytes) -> Answer:
        return answers.simple(*await self.ingest.accept_simple(request, body, translate_schema))


async def _refuse_sink(error: HeadgateError, request: Request, state: dict[str, Any], send: Send) -> None:
    """The sink form answers 400 where the other routes say 422."""
    state["problem"] = error.code
    status, headers, body = render(error, instance=request.route, correlation_id=request.correlation_id, status=400)
    await _send(send, status, headers, body)


async def _send_json(send: Send, status: int, answer: dict[str, Any]) -> None:
    body = msgspec.json.encode(answer)
    headers: Headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await _send(send, status, headers, body)


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    start: Message = {"type": "http.response.start", "status": status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
