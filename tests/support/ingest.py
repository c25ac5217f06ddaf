"""Ingest routes, bodies for them, and servers with settings of their own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import pytest

from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.events import Json, a_run_id, an_event
from tests.support.server import Server, Tenant, running_server
from tests.support.stored import Stored

SINGLE, SINK = "/api/v1/lineage", "/api/openlineage"
BATCH, EVENTS = "/api/v1/lineage/batch", "/api/v1/lineage/events"
METADATA, SCHEMA = "/api/v1/ingest/metadata", "/api/v1/ingest/schema"
ROUTES = [SINGLE, SINK, BATCH, EVENTS, METADATA, SCHEMA]
PROBLEM = {"type", "title", "status", "detail", "instance", "correlation_id", "code", "hint", "errors"}

every_route = pytest.mark.parametrize("route", ROUTES)


def unlimited(**settings: Any) -> Settings:
    return Settings(rate_global=None, rate_key=None, rate_anonymous=None, **settings, _env_file=None)


@asynccontextmanager
async def a_server(cluster: Cluster, **settings: Any) -> AsyncIterator[Server]:
    """A server on a database of its own."""
    async with an_observed_server(cluster, **settings) as (server, _):
        yield server


@asynccontextmanager
async def an_observed_server(cluster: Cluster, **settings: Any) -> AsyncIterator[tuple[Server, Stored]]:
    """A server on a database of its own, and a look at what it stores for its first organisation."""
    name = await cluster.create()
    database = Database(cluster.app_dsn(name), max_size=8)
    db = await asyncpg.connect(cluster.admin_dsn(name), server_settings={"search_path": "headgate"})
    try:
        async with running_server(unlimited(**settings), database) as server:
            yield server, Stored(db, server.tenant.organization_id)
    finally:
        await db.close()
        await database.close()
        await cluster.drop(name)


async def post(tenant: Tenant, route: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await tenant.client.post(route, content=content, headers={"content-type": "application/json"} | names)


def body_for(route: str) -> Any:
    """A good body for a route, about a new run or a new table."""
    if route == METADATA:
        return {"job_id": a_run_id(), "inputs": [{"name": "a"}], "outputs": [{"name": "b"}]}
    if route == SCHEMA:
        fields = [{"name": "id", "data_type": "int"}]
        return {"job_id": a_run_id(), "schemas": [{"dataset_name": f"t_{a_run_id()}", "fields": fields}]}
    return [an_event()] if route in (BATCH, EVENTS) else an_event()


def assert_problem(response: httpx.Response, status: int, code: str, route: str) -> Json:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    problem: Json = response.json()
    assert set(problem) == PROBLEM
    assert (problem["status"], problem["code"], problem["instance"]) == (status, code, route)
    assert problem["type"] == f"/problems/{code}"
    assert problem["correlation_id"] == response.headers["x-correlation-id"]
    return problem
