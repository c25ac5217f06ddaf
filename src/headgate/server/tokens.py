"""Secrets that callers carry: API keys, invite tokens and signed sessions. Knows no users and no rights."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid4

import jwt

from headgate.errors import Unauthenticated
from headgate.server.db.pool import Database
from headgate.server.db.queries import Queries
from headgate.settings import Settings

KEY_PREFIX = "hg_live_"
INVITE_PREFIX = "hg_invite_"
SHOWN_CHARS = 12

_ALGORITHM = "HS256"
_SECRET_NAME = "session_signing_key"
_SECRET_BYTES = 32
_CLAIMS = ["user_id", "org_id", "email", "role", "exp", "iat", "jti"]

_log = logging.getLogger(__name__)
_sql = Queries("headgate.server")


def new_key() -> str:
    return KEY_PREFIX + secrets.token_urlsafe(32)


def new_invite_token() -> str:
    return INVITE_PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """What is stored of a key or an invite. They are random, so one round of SHA-256 is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Session(NamedTuple):
    """What a valid session token says. Its role is left out on purpose: only the user's row counts."""

    user_id: UUID
    organization_id: UUID
    session_id: UUID
    expires_at: float


class Issued(NamedTuple):
    token: str
    expires_at: datetime


class Sessions:
    """Issues and reads signed session tokens. The key is in the settings, or is made once and stored."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._lifetime_s = settings.session_hours * 3600
        self._loading = asyncio.Lock()
        self._secret = settings.jwt_secret.get_secret_value().encode() if settings.jwt_secret else b""
        if self._secret and len(self._secret) < _SECRET_BYTES:
            _log.warning("HEADGATE_JWT_SECRET is shorter than %d bytes and can be guessed", _SECRET_BYTES)

    @property
    def lifetime_s(self) -> int:
        return int(self._lifetime_s)

    async def issue(self, *, user_id: UUID, organization_id: UUID, email: str, role: str) -> Issued:
        issued_at = int(time.time())
        expires_at = int(issued_at + self._lifetime_s)
        claims = {
            "user_id": str(user_id),
            "org_id": str(organization_id),
            "email": email,
            "role": role,
            "iat": issued_at,
            "exp": expires_at,
            "jti": str(uuid4()),
        }
        token = jwt.encode(claims, await self._key(), algorithm=_ALGORITHM)
        return Issued(token, datetime.fromtimestamp(expires_at, UTC))

    async def read(self, token: str) -> Session:
        """The session of a token; `Unauthenticated` unless we signed it and it has not expired."""
        key = await self._key()
        try:
            claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options={"require": _CLAIMS})
            return Session(UUID(claims["user_id"]), UUID(claims["org_id"]), UUID(claims["jti"]), float(claims["exp"]))
        except jwt.ExpiredSignatureError:
            raise Unauthenticated("the session has expired", hint="log in again") from None
        except (jwt.InvalidTokenError, ValueError, TypeError, AttributeError):
            raise Unauthenticated(
                "the credentials are neither an API key nor a valid session",
                hint=f"send `Authorization: Bearer {KEY_PREFIX}…`, or log in again",
            ) from None

    async def _key(self) -> bytes:
        if not self._secret:
            async with self._loading:
                if not self._secret:
                    self._secret = await self._load()
        return self._secret

    async def _load(self) -> bytes:
        async with self._database.transaction() as conn:
            # Two servers may start at once: the first insert wins, and both read what is there.
            await conn.execute(_sql.create_secret, _SECRET_NAME, secrets.token_bytes(_SECRET_BYTES))
            return bytes(await conn.fetchval(_sql.find_secret, _SECRET_NAME))
