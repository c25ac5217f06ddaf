"""The FastAPI application behind the edge: routers, errors as problems, and the OpenAPI document."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any
from uuid import UUID

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from headgate.errors import HeadgateError, InvalidFields, RateLimited, Unavailable, Unparsable
from headgate.server import problems
from headgate.server.accounts.passwords import Passwords
from headgate.server.auth import Authenticator
from headgate.server.db.pool import DATABASE_GONE, Database
from headgate.server.docs import add_docs
from headgate.server.system import Probe
from headgate.server.telemetry import VERSION, Telemetry
from headgate.settings import Settings

_RESPONSES = problems.problems(Unparsable, InvalidFields, RateLimited, Unavailable)
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Mapping[str, object]]]


class Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        schemas[problems.SCHEMA_NAME] = problems.SCHEMA
        schemas.update(getattr(self.state, "extra_schemas", {}))
        # FastAPI describes its own validation answer, which we never give.
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        return document


def build_api(
    settings: Settings,
    database: Database,
    *,
    telemetry: Telemetry,
    routes: Iterable[BaseRoute],
    lifespan: Lifespan | None = None,
) -> Api:
    """The application with everything that handlers look up on `app.state`."""
    api = Api(
        title="Headgate",
        version=VERSION,
        summary="Lineage, schema history, quality and incidents over OpenLineage",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=_RESPONSES,
    )
    api.state.settings = settings
    api.state.database = database
    api.state.telemetry = telemetry
    api.state.authenticator = Authenticator(database, settings)
    api.state.passwords = Passwords()
    api.state.probe = Probe(database)
    # Told in this process at once what other processes learn from a notice.
    api.state.organization_changed = lambda organization_id: None
    # Times that ingest writes a little later are written before a read; see deps.Reading.
    api.state.settle = _settled
    api.state.started_at = time.monotonic()
    for error in (HeadgateError, RequestValidationError, HTTPException, *DATABASE_GONE, Exception):
        api.add_exception_handler(error, _answer_error)
    api.router.routes.extend(routes)
    add_docs(api)
    return api


def included(routers: Iterable[APIRouter]) -> list[BaseRoute]:
    """The routes of some routers, as an application has them; worked out when first asked for, and then known."""
    every = APIRouter(responses=_RESPONSES)
    for router in routers:
        every.include_router(router)
    return every.routes


async def _settled(organization_id: UUID) -> None:
    """Nothing waits to be written in a process without ingest."""


async def _answer_error(request: Request, error: Exception) -> Response:
    state = request.scope["state"]
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        error = _with_all_methods(request, error)
    state["problem"] = getattr(error, "code", type(error).__name__)
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    status, headers, body = problems.render(
        error, instance=path.decode("latin-1"), correlation_id=state["correlation_id"]
    )
    response = Response(body, status)
    response.raw_headers = headers
    return response


def _with_all_methods(request: Request, error: HTTPException) -> HTTPException:
    """The same error with every method of the path: the router names only those of the first route it met."""
    path = getattr(request.scope.get("route"), "path", "")
    operations = request.app.openapi()["paths"].get(path)
    if not operations:
        return error
    return HTTPException(error.status_code, headers={"allow": ", ".join(sorted(operations)).upper()})
