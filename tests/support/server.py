"""The application in the test's own process, with organisations to act as."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx

from headgate.server.accounts.store import bootstrap
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.settings import Settings


@dataclass
class Tenant:
    """An organisation, its all-scopes key and a client that uses it."""

    organization_id: UUID
    email: str
    password: str
    api_key: str
    client: httpx.AsyncClient

    async def send(self, event: dict[str, Any] | bytes, path: str = "/api/v1/lineage") -> httpx.Response:
        if isinstance(event, bytes):
            return await self.client.post(path, content=event, headers={"content-type": "application/json"})
        return await self.client.post(path, json=event)

    async def send_ok(self, *events: dict[str, Any]) -> None:
        for event in events:
            response = await self.send(event)
            assert response.status_code == 201, response.text

    async def run(self, run_id: str | UUID) -> dict[str, Any]:
        response = await self.client.get(f"/api/v1/runs/{run_id}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found


@dataclass
class Server:
    app: Any
    database: Database
    tenant: Tenant

    @property
    def client(self) -> httpx.AsyncClient:
        return self.tenant.client

    def anonymous(self) -> httpx.AsyncClient:
        return _client(self.app, None)

    async def add_tenant(self, name: str) -> Tenant:
        return await _tenant(self.app, self.database, name)


@asynccontextmanager
async def running_server(settings: Settings, database: Database) -> AsyncIterator[Server]:
    app = create_app(settings, database)
    async with app.api.router.lifespan_context(app.api):
        yield Server(app, database, await _tenant(app, database, "First"))


async def _tenant(app: Any, database: Database, name: str) -> Tenant:
    api_key = f"hg_live_{secrets.token_urlsafe(32)}"
    email, password = f"admin@{name.lower().replace(' ', '-')}.example.org", secrets.token_urlsafe(16)
    await bootstrap(database, organization=name, email=email, password=password, api_key=api_key)
    client = _client(app, api_key)
    me = (await client.get("/api/v1/organization")).json()
    return Tenant(UUID(me["id"]), email, password, api_key, client)


def _client(app: Any, api_key: str | None) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://headgate.test", headers=headers, timeout=60)
