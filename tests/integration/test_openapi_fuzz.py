"""The OpenAPI document against the server: every route is in it, and every answer is as it says."""

from __future__ import annotations

import asyncio
import re
import secrets
import subprocess
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from headgate.server.accounts.store import bootstrap
from headgate.server.db.pool import Database
from tests.conftest import Cluster
from tests.support.probes import Operation, Probe, operations, probes
from tests.support.server import Server
from tests.support.up import HEADGATE, environment, wait_until

UNLIMITED = {f"HEADGATE_RATE_{tier}": "off" for tier in ("GLOBAL", "ORGANIZATION", "KEY", "ANONYMOUS", "INGEST")}
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
# Whoever has no credentials yet has to reach these.
PUBLIC = {
    "GET /ping",
    "GET /ready",
    "GET /health",
    "GET /metrics",
    "POST /api/v1/auth/login",
    "POST /api/v1/auth/logout",
    "POST /api/v1/auth/register",
    "POST /api/v1/auth/invites/accept",
}


class Served(NamedTuple):
    url: str
    api_key: str
    log: Path


@pytest.fixture(scope="module")
async def served(cluster: Cluster) -> AsyncIterator[Served]:
    """`headgate serve` as a process of its own, and the key of an admin."""
    name = await cluster.create()
    api_key = f"hg_live_{secrets.token_urlsafe(32)}"
    database = Database(cluster.app_dsn(name), max_size=2)
    await bootstrap(database, organization="Fuzzed", email="a@x.example", password="correct horse", api_key=api_key)
    await database.close()
    with tempfile.TemporaryDirectory(prefix="headgate-fuzz-") as folder:
        log = Path(folder) / "log.txt"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(*HEADGATE, "serve", "--port", "0"),
                cwd=folder,
                env=environment(HEADGATE_DATABASE_URL=cluster.app_dsn(name), **UNLIMITED),
                stdout=output,
                stderr=output,
            )
        try:
            wait_until(lambda: "serving on" in log.read_text(), 30, "the server")
            found = re.search(r"serving on (http://\S+)", log.read_text())
            assert found is not None
            yield Served(found.group(1), api_key, log)
        finally:
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 20) == 0
    await cluster.drop(name)


@pytest.mark.slow
def test_every_answer_is_as_documented(served: Served) -> None:
    """schemathesis over every route, the fast ones too, as an admin, and without credentials."""
    folder = served.log.parent
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/openapi.json"),
            *("--header", f"Authorization: Bearer {served.api_key}"),
            *("--checks", ",".join(CHECKS)),
            *("--phases", "examples,coverage,fuzzing"),
            *("--max-examples", "20", "--seed", "1", "--workers", "1", "--no-shrink", "--continue-on-failure"),
            *("--exclude-path", "/api/v1/stream"),
            *("--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off"),
        ],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert not re.search(r"Traceback|\bERROR\b|\bCRITICAL\b", served.log.read_text())


# What shows the document is not in it, nor is what browsers get where links in messages lead.
PAGES = {"/docs", "/redoc", "/openapi.json", "/incidents/{incident_id}", "/runs/{run_id}"}
PAGES |= {"/datasets/{namespace}/{name}", "/pipelines/{name}/stories/{run_id}"}
INGEST_ROUTES = 7


def test_every_route_is_in_the_document(server: Server) -> None:
    documented = {(operation.method.upper(), operation.path) for operation in _operations(server)}

    served = set(_routes(server.app.api.routes))
    fast = {(method, path.decode()) for path, methods in server.app._fast.items() for method in methods}

    assert len(fast) == INGEST_ROUTES
    assert {route for route in served | fast if route[1] not in PAGES} == documented


def _operations(server: Server) -> list[Operation]:
    return list(operations(server.app.api.openapi()))


def _routes(routes: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Method and path of every route, those of included routers too."""
    for route in routes:
        if included := getattr(route, "original_router", None):
            yield from _routes(included.routes)
        elif methods := getattr(route, "methods", None):
            yield from ((method, route.path) for method in methods - {"HEAD"})


async def test_every_route_that_is_not_public_demands_credentials(server: Server) -> None:
    found = _operations(server)
    assert {operation.id for operation in found if operation.is_public} == PUBLIC

    async with server.anonymous() as client:
        for operation in found:
            if not operation.is_public:
                response = await _try(client, server, operation)
                assert response.status_code == 401, operation.id
                assert response.headers["www-authenticate"].startswith("Bearer")
                assert response.headers["content-type"] == "application/problem+json"
                assert "401" in operation.details["responses"]


SCOPED = {
    "ingest": lambda operation: "ingest" in operation.details["tags"],
    "read": lambda operation: (operation.method == "get" and not _is_for_admins(operation)) or _is_a_preview(operation),
}


def _is_for_admins(operation: Operation) -> bool:
    if operation.path == "/api/v1/tasks/metrics":
        return True
    return operation.path.startswith("/api/v1/auth/") and operation.path != "/api/v1/auth/me"


def _is_a_preview(operation: Operation) -> bool:
    return operation.path.endswith("/preview")


@pytest.mark.parametrize("scope", SCOPED)
async def test_a_key_reaches_what_its_scope_allows_and_nothing_else(server: Server, scope: str) -> None:
    client = await _client_with(server, scope)

    for operation in _operations(server):
        if operation.is_public or operation.is_endless or operation.path == "/api/v1/auth/me":
            continue
        status = (await _try(client, server, operation)).status_code
        assert (status != 403) == SCOPED[scope](operation), (operation.id, status)
        assert "403" in operation.details["responses"]


async def _client_with(server: Server, scope: str) -> httpx.AsyncClient:
    """A client whose key has this one scope."""
    client = server.anonymous()
    login = {"email": server.tenant.email, "password": server.tenant.password}
    session = (await client.post("/api/v1/auth/login", json=login)).json()
    client.cookies.clear()
    made = await client.post(
        "/api/v1/auth/api-keys",
        json={"name": scope, "scopes": [scope]},
        headers={"authorization": f"Bearer {session['token']}"},
    )
    client.headers["authorization"] = f"Bearer {made.json()['key']}"
    return client


async def _try(client: httpx.AsyncClient, server: Server, operation: Operation) -> httpx.Response:
    probe: Probe = next(probes(server.app.api.openapi(), operation, [str(uuid.uuid4())], []))
    return await client.request(probe.method, probe.url, json=probe.body)
