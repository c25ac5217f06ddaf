"""Who is calling and what they may do. Turns a key or a session into a `Principal`; knows no routes.

What was found is remembered for a few seconds. A revoked key is forgotten at once here, and by a notice in
other processes; an expiry is looked at on every use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from fastapi import Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer

from headgate.errors import Forbidden, Unauthenticated
from headgate.server.db.pool import Database
from headgate.server.db.queries import Queries
from headgate.server.tokens import KEY_PREFIX, SHOWN_CHARS, Sessions, digest
from headgate.settings import Settings

COOKIE = "headgate_session"
NOTICES = "headgate_keys"

_FRESH_S = 5.0
_MAX_ENTRIES = 10_000
_MAX_TOKEN_CHARS = 4096
_MAX_LOOKUPS = 4
_sql = Queries("headgate.server")


class Scope(StrEnum):
    read = "read"
    write = "write"
    ingest = "ingest"
    admin = "admin"


ROLE_SCOPES: Mapping[str, frozenset[Scope]] = {
    "admin": frozenset(Scope),
    "editor": frozenset({Scope.read, Scope.write}),
    "viewer": frozenset({Scope.read}),
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller: a key or a user of one organisation, and its rights."""

    organization_id: UUID
    organization_name: str
    tenant_id: int
    tenant_code: str
    kind: Literal["key", "user"]
    subject_id: UUID
    name: str
    scopes: frozenset[Scope]


class _Known(NamedTuple):
    principal: Principal
    fresh_until: float
    expires_at: float | None


class Authenticator:
    """Credentials in, principals out."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.sessions = Sessions(database, settings)
        self._database = database
        self._known: dict[bytes, _Known] = {}
        self._lookups: dict[bytes, asyncio.Task[_Known]] = {}
        # A flood of unknown keys must not take every connection of the pool.
        self._slots = asyncio.Semaphore(max(1, min(_MAX_LOOKUPS, database.max_size // 2)))

    async def authenticate(self, authorization: str | None, cookie: str | None) -> Principal | None:
        """The caller, or None when there are no credentials; credentials that are not good are refused."""
        if authorization is not None:
            return await self._principal(_bearer(authorization))
        if cookie:
            if cookie.startswith(KEY_PREFIX):
                raise Unauthenticated("the session cookie holds an API key", hint="send it as `Authorization: Bearer`")
            return await self._principal(cookie)
        return None

    def forget(self, subject_id: UUID) -> None:
        """Drop what is remembered of a key or a user whose rights have just changed."""
        for token in [token for token, known in self._known.items() if known.principal.subject_id == subject_id]:
            del self._known[token]
        # A lookup that began before the change may still bring the old rights: nobody may join or keep it.
        self._lookups.clear()

    def hear(self, subject: str | None) -> None:
        """A notice from another process: one subject changed, or with None, anything may have."""
        try:
            self.forget(UUID(subject or ""))
        except ValueError:
            self._known.clear()
            self._lookups.clear()

    async def _principal(self, token: str) -> Principal:
        if len(token) > _MAX_TOKEN_CHARS:
            raise Unauthenticated(f"the credentials are longer than {_MAX_TOKEN_CHARS} characters")
        token_hash = digest(token)
        known = self._known.get(token_hash)
        if known is None or known.fresh_until < time.monotonic():
            known = await self._look_up_once(token, token_hash)
        if known.expires_at is not None and known.expires_at <= time.time():
            self._known.pop(token_hash, None)
            raise _expired(known.principal.kind)
        return known.principal

    async def _look_up_once(self, token: str, token_hash: bytes) -> _Known:
        lookup = self._lookups.get(token_hash)
        if lookup is None:
            lookup = asyncio.create_task(self._look_up(token, token_hash))
            self._lookups[token_hash] = lookup
            lookup.add_done_callback(lambda task: self._finish(token_hash, task))
        # Shielded: the request that began the lookup may be cancelled while others wait for it.
        return await asyncio.shield(lookup)

    def _finish(self, token_hash: bytes, lookup: asyncio.Task[_Known]) -> None:
        joinable = self._lookups.get(token_hash) is lookup
        if joinable:
            del self._lookups[token_hash]
        if lookup.cancelled() or lookup.exception() is not None or not joinable:
            return
        self._known.pop(token_hash, None)
        self._known[token_hash] = lookup.result()
        if len(self._known) > _MAX_ENTRIES:
            del self._known[next(iter(self._known))]

    async def _look_up(self, token: str, token_hash: bytes) -> _Known:
        async with self._slots:
            if token.startswith(KEY_PREFIX):
                return await self._find_key(token, token_hash)
            return await self._find_user(token)

    async def _find_key(self, token: str, token_hash: bytes) -> _Known:
        fresh_until = time.monotonic() + _FRESH_S
        async with self._database.connection() as conn:
            row = await conn.fetchrow(_sql.authenticate_key, token_hash)
        shown = token[:SHOWN_CHARS] + "…"
        if row is None:
            raise Unauthenticated(f"the API key {shown!r} is unknown", hint="check the key; keys are shown only once")
        if row["revoked_at"] is not None:
            raise Unauthenticated(f"the API key {shown!r} was revoked", hint="ask an admin for a new one")
        principal = Principal(
            organization_id=row["organization_id"],
            organization_name=row["organization_name"],
            tenant_id=row["tenant_id"],
            tenant_code=row["tenant_code"],
            kind="key",
            subject_id=row["key_id"],
            name=row["name"],
            scopes=frozenset(Scope(scope) for scope in row["scopes"]),
        )
        expires_at = row["expires_at"]
        return _Known(principal, fresh_until, expires_at.timestamp() if expires_at else None)

    async def _find_user(self, token: str) -> _Known:
        fresh_until = time.monotonic() + _FRESH_S
        session = await self.sessions.read(token)
        async with self._database.tenant(session.organization_id) as conn:
            row = await conn.fetchrow(
                _sql.authenticate_user, session.organization_id, session.user_id, session.session_id
            )
        if row is None:
            raise Unauthenticated("the session has ended", hint="log in again")
        principal = Principal(
            organization_id=session.organization_id,
            organization_name=row["organization_name"],
            tenant_id=row["tenant_id"],
            tenant_code=row["tenant_code"],
            kind="user",
            subject_id=row["id"],
            name=row["name"],
            scopes=ROLE_SCOPES[row["role"]],
        )
        return _Known(principal, fresh_until, session.expires_at)


def authorize(state: Mapping[str, Any], *scopes: Scope) -> Principal:
    """The caller of a request, from its `scope["state"]`, if it may do what needs these scopes."""
    principal: Principal | None = state.get("principal")
    if principal is None:
        raise state.get("refusal") or Unauthenticated(
            "this needs credentials", hint=f"send `Authorization: Bearer {KEY_PREFIX}…`, or log in"
        )
    missing = [scope for scope in scopes if scope not in principal.scopes]
    if missing:
        raise Forbidden(
            f"this needs the scope {_listed(missing)}; this {principal.kind} has {_listed(principal.scopes)}",
            hint="use a key or an account that has it; an admin of the organisation can make one",
        )
    return principal


_bearer_scheme = HTTPBearer(
    scheme_name="bearer", description="An API key `hg_live_…`, or a session token.", auto_error=False
)
_cookie_scheme = APIKeyCookie(
    name=COOKIE, scheme_name="session", description="The cookie that logging in sets.", auto_error=False
)


def require(*scopes: Scope) -> Callable[..., Coroutine[Any, Any, Principal]]:
    """A dependency that gives the caller, or refuses one without these scopes."""

    # The schemes only describe: the edge has already read the credentials.
    async def check(
        request: Request,
        _bearer: Annotated[object, Security(_bearer_scheme)],
        _cookie: Annotated[object, Security(_cookie_scheme)],
    ) -> Principal:
        return authorize(request.scope["state"], *scopes)

    return check


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated(
            "the Authorization header is not of the form `Bearer <token>`",
            hint="send `Authorization: Bearer …`",
        )
    return token


def _expired(kind: str) -> Unauthenticated:
    if kind == "key":
        return Unauthenticated("the API key has expired", hint="ask an admin for a new one")
    return Unauthenticated("the session has expired", hint="log in again")


def _listed(scopes: frozenset[Scope] | list[Scope]) -> str:
    return ", ".join(repr(scope.value) for scope in sorted(scopes)) or "none"
