"""A server without its ingest slice, in this process: the edge, FastAPI and the accounts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import httpx
from fastapi import APIRouter
from pydantic import SecretStr

from headgate.server import system
from headgate.server.accounts import routes as accounts
from headgate.server.api import build_api, included
from headgate.server.auth import Authenticator
from headgate.server.db.pool import Database
from headgate.server.edge import Edge, FastRoutes
from headgate.server.telemetry import Telemetry
from headgate.settings import Settings

PASSWORD = "correct horse battery"
SIGNING_SECRET = "a signing secret that is long enough for every algorithm that a test tries"
AUTH = "/api/v1/auth"


def build_edge(
    settings: Settings,
    database: Database,
    *,
    routers: Iterable[APIRouter] = (),
    fast_routes: FastRoutes | None = None,
) -> Edge:
    telemetry = Telemetry()
    telemetry.watch_pool(database)
    known = (system.router, accounts.auth_router, accounts.organization_router)
    api = build_api(settings, database, telemetry=telemetry, routes=included((*known, *routers)))
    return Edge(
        api,
        settings=settings,
        authenticator=api.state.authenticator,
        telemetry=telemetry,
        fast_routes=fast_routes,
    )


def unlimited(settings: Settings) -> Settings:
    """Settings under which a test may send as fast as it can, and can sign sessions of its own."""
    off = {f"rate_{tier}": None for tier in ("global", "organization", "key", "anonymous", "ingest")}
    return settings.model_copy(update={**off, "jwt_secret": SecretStr(SIGNING_SECRET)})


def authenticator_of(edge: Edge) -> Authenticator:
    authenticator: Authenticator = edge.api.state.authenticator  # type: ignore[attr-defined]  # built above
    return authenticator


def client_of(edge: Edge, *, token: str | None = None, address: str = "192.0.2.1") -> httpx.AsyncClient:
    """A client without cookies, so that what a test sends is what it says."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(edge, raise_app_exceptions=False, client=(address, 1)),
        base_url="http://headgate.test",
        headers={"authorization": f"Bearer {token}"} if token else {},
    )


async def register(client: httpx.AsyncClient, email: str, **fields: object) -> dict[str, Any]:
    body = {"email": email, "password": PASSWORD, "name": "Ada", **fields}
    response = await client.post("/api/v1/auth/register", json=body)
    assert response.status_code == 201, response.text
    client.cookies.clear()
    answer: dict[str, Any] = response.json()
    return answer


class Account:
    """A logged-in user: their client, and what registering or accepting answered."""

    def __init__(self, edge: Edge, session: dict[str, Any]) -> None:
        self.token: str = session["token"]
        self.id: str = session["user"]["id"]
        self.organization_id = UUID(session["organization"]["id"])
        self.client = client_of(edge, token=self.token)

    async def key(self, **fields: object) -> dict[str, Any]:
        response = await self.client.post(f"{AUTH}/api-keys", json={"name": "k", **fields})
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created

    async def invite(self, email: str, role: str = "viewer") -> dict[str, Any]:
        response = await self.client.post(f"{AUTH}/invites", json={"email": email, "role": role})
        assert response.status_code == 201, response.text
        created: dict[str, Any] = response.json()
        return created


async def a_colleague(edge: Edge, admin: Account, email: str, role: str) -> Account:
    invite = await admin.invite(email, role)
    async with client_of(edge) as client:
        return Account(edge, (await accept(client, invite["token"])).json())


async def accept(client: httpx.AsyncClient, token: str) -> httpx.Response:
    body = {"token": token, "name": "Grace", "password": PASSWORD}
    return await client.post(f"{AUTH}/invites/accept", json=body)


async def login(client: httpx.AsyncClient, email: str, password: str = PASSWORD) -> httpx.Response:
    return await client.post(f"{AUTH}/login", json={"email": email, "password": password})


async def me(edge: Edge, token: str) -> httpx.Response:
    async with client_of(edge, token=token) as client:
        return await client.get(f"{AUTH}/me")
