"""Calls about sessions, keys and the server itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from headgate.client.http import Call, decoded
from headgate.client.paths import segment
from headgate.client.shapes import Page, page_of

Json = dict[str, Any]


def login(email: str, password: str) -> Call[Json]:
    return Call("POST", "/api/v1/auth/login", as_json, body=msgspec.json.encode({"email": email, "password": password}))


def create_key(
    name: str, scopes: Sequence[str] = ("ingest",), *, expires_in_days: int | None = None
) -> Call[dict[str, Any]]:
    """Make an API key. The answer holds the key itself, which the server never shows again."""
    wanted = {"name": name, "scopes": list(scopes), "expires_in_days": expires_in_days}
    body = {field: value for field, value in wanted.items() if value is not None}
    return Call("POST", "/api/v1/auth/api-keys", as_json, body=msgspec.json.encode(body))


def keys(limit: int = 1000) -> Call[Page[Json]]:
    """Keys of the organisation, without the keys themselves."""
    return Call("GET", "/api/v1/auth/api-keys", page_of(Json), params={"limit": str(limit)})


def revoke_key(key_id: str) -> Call[None]:
    """Make a key useless from now on."""
    return Call("DELETE", f"/api/v1/auth/api-keys/{segment(key_id)}", _nothing, repeatable=True)


def ready() -> Call[bool]:
    return Call("GET", "/ready", lambda response: response.status_code == 200, accept=frozenset(range(300, 600)))


def health() -> Call[Json]:
    """Version, uptime and database as the server reports them, also while it is not healthy."""
    return Call("GET", "/health", as_json, accept=frozenset({200, 503}))


def as_json(response: httpx.Response) -> Json:
    return decoded(response, Json)


def _nothing(response: httpx.Response) -> None:
    return None
