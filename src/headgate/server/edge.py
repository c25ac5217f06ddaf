"""The one door of the server: what happens to every request before and after its handler, as plain ASGI.

In order: correlation id, recovery, authentication, rate limit, request log, CORS; then the handlers that
bypass FastAPI (ingest), or FastAPI. The log and the CORS headers cover refusals too. Thousands of requests a
second pass here, so each step is a few dictionary lookups.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.exceptions import HTTPException

from headgate.errors import ConfigError, FieldError, Forbidden, InvalidFields, TooLarge, Unauthenticated
from headgate.server.auth import COOKIE, Authenticator, Principal
from headgate.server.problems import Headers, render, status_of
from headgate.server.ratelimit import Limits
from headgate.server.system import PROBE_PATHS
from headgate.server.telemetry import Telemetry
from headgate.settings import MIB, Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
FastRoutes = Mapping[tuple[str, str], App]

# Here credentials are not even looked at, so that old ones cannot be in the way of getting new ones.
OPEN_PATHS = PROBE_PATHS | {
    b"/docs",
    b"/redoc",
    b"/openapi.json",
    b"/api/v1/auth/login",
    b"/api/v1/auth/register",
    b"/api/v1/auth/invites/accept",
}
# Bodies of the management API are forms; only ingest takes large ones, and has its own limits.
MAX_FORM_BYTES = MIB

_WANTED = frozenset(
    {
        b"authorization",
        b"cookie",
        b"x-correlation-id",
        b"origin",
        b"sec-fetch-site",
        b"host",
        b"content-length",
    }
    | {b"access-control-request-method"}
)
_CORRELATION_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_COOKIE_PREFIX = f"{COOKIE}=".encode()
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CLIENT_CLOSED = 499
_LOG_LINE = (
    "%(method)s %(path)s %(status)d %(ms).2fms %(bytes)dB organization=%(organization)s "
    "principal=%(principal)s problem=%(problem)s correlation_id=%(correlation_id)s"
)
_log = logging.getLogger("headgate.request")


class Exchange:
    """One request and its answer: what the steps know of it, and the `send` that they hand on."""

    __slots__ = (
        "_send",
        "address",
        "correlation_id",
        "extra",
        "head",
        "method",
        "path",
        "size",
        "state",
        "status",
    )

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self.head: dict[bytes, bytes] = {n: v for n, v in scope["headers"] if n in _WANTED}
        self.method: str = scope["method"]
        self.path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        given = self.head.get(b"x-correlation-id")
        correlation_id = given if given and _CORRELATION_ID.fullmatch(given) else str(uuid.uuid4()).encode()
        self.correlation_id = correlation_id.decode()
        self.extra: Headers = [(b"x-correlation-id", correlation_id), (b"x-content-type-options", b"nosniff")]
        self.status = 0
        self.size = 0
        self.state: dict[str, Any] = scope.setdefault("state", {})
        self.state["correlation_id"] = self.correlation_id
        self.state["principal"] = None

    @property
    def instance(self) -> str:
        # As it was sent, percent-encoded: a decoded path could forge lines in a log.
        return self.path.decode("latin-1")

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self.extra]
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
        await self._send(message)

    async def answer(self, status: int, headers: Headers, body: bytes = b"") -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: BaseException) -> None:
        self.state["problem"] = getattr(error, "code", type(error).__name__)
        await self.answer(*render(error, instance=self.instance, correlation_id=self.correlation_id))


class Edge:
    """The ASGI application: the chain, in front of `fast_routes` and of `api`."""

    def __init__(
        self,
        api: App,
        *,
        settings: Settings,
        authenticator: Authenticator,
        telemetry: Telemetry,
        fast_routes: FastRoutes | None = None,
        shared_paths: frozenset[str] = frozenset(),
    ) -> None:
        """`shared_paths` are those of `fast_routes` whose other methods are the API's."""
        self.api = api
        self._authenticator = authenticator
        self._telemetry = telemetry
        self._limits = Limits(settings)
        self._origins = _allowed_origins(settings)
        self._own_origins = self._origins | _origin_of(settings.public_url)
        self._shared = {path.encode() for path in shared_paths}
        self._fast: dict[bytes, dict[str, App]] = {}
        for (method, path), app in (fast_routes or {}).items():
            self._fast.setdefault(path.encode(), {})[method] = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.api(scope, receive, send)
            return
        began = time.perf_counter()
        exchange = Exchange(scope, send)
        try:
            await self._serve(exchange, scope, receive)
        except Exception as error:
            await self._recover(exchange, error)
        finally:
            self._record(exchange, scope, time.perf_counter() - began)

    async def _serve(self, exchange: Exchange, scope: Scope, receive: Receive) -> None:
        if self._origins and self._allow_origin(exchange) and b"access-control-request-method" in exchange.head:
            self._limits.check(None, exchange.address)
            await exchange.answer(204, [])
            return
        principal = await self._authenticate(exchange)
        fast = self._fast.get(exchange.path)
        if fast is not None and (exchange.method in fast or exchange.path not in self._shared):
            if principal is None:
                self._limits.check(None, exchange.address)
            else:
                self._limits.check_ingest(principal)
            await self._serve_fast(fast, exchange, scope, receive)
            return
        if exchange.path not in PROBE_PATHS:
            self._limits.check(principal, exchange.address)
        # FastAPI would match the decoded path, in which %2F has become a separator; see routing.py.
        scope["path"] = exchange.instance
        await self.api(scope, _bounded(exchange, scope, receive), exchange.send)

    async def _serve_fast(self, fast: dict[str, App], exchange: Exchange, scope: Scope, receive: Receive) -> None:
        app = fast.get(exchange.method)
        if app is None:
            await exchange.refuse(HTTPException(405, headers={"allow": ", ".join(sorted(fast))}))
            return
        await app(scope, receive, exchange.send)

    async def _authenticate(self, exchange: Exchange) -> Principal | None:
        if exchange.path in OPEN_PATHS:
            return None
        authorization = exchange.head.get(b"authorization")
        cookie = _session_cookie(exchange.head.get(b"cookie")) if authorization is None else None
        try:
            principal = await self._authenticator.authenticate(
                None if authorization is None else authorization.decode("latin-1"), cookie
            )
        except Unauthenticated as error:
            if authorization is not None:
                # Guessing is limited like any caller without credentials.
                self._limits.check(None, exchange.address)
                raise
            # A browser sends an old cookie with everything, also with what needs no credentials.
            exchange.state["refusal"] = error
            return None
        if cookie is not None and exchange.method not in _SAFE_METHODS and self._is_forged(exchange):
            raise Forbidden(
                "a page of another origin sent this request with the session cookie",
                hint="send an API key, or list the origin in HEADGATE_CORS_ORIGINS",
            )
        exchange.state["principal"] = principal
        return principal

    def _is_forged(self, exchange: Exchange) -> bool:
        origin = exchange.head.get(b"origin")
        if origin is not None and origin in self._own_origins:
            return False
        site = exchange.head.get(b"sec-fetch-site")
        if site is not None:
            return site not in (b"same-origin", b"none")
        return origin is not None and origin.partition(b"://")[2] != exchange.head.get(b"host")

    def _allow_origin(self, exchange: Exchange) -> bool:
        exchange.extra.append((b"vary", b"Origin"))
        origin = exchange.head.get(b"origin")
        if origin is None or origin not in self._origins:
            return False
        exchange.extra += [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-expose-headers", b"X-Correlation-ID, Retry-After"),
        ]
        if exchange.method != "OPTIONS" or b"access-control-request-method" not in exchange.head:
            return False
        exchange.extra += _PREFLIGHT
        return True

    async def _recover(self, exchange: Exchange, error: Exception) -> None:
        if status_of(error) == 500:
            _log.error(
                "request failed",
                exc_info=error,
                extra={"correlation_id": exchange.correlation_id, "path": exchange.instance},
            )
        if not exchange.status:
            await exchange.refuse(error)

    def _record(self, exchange: Exchange, scope: Scope, seconds: float) -> None:
        status = exchange.status or _CLIENT_CLOSED
        is_fast = exchange.path in self._fast and "route" not in scope
        route = exchange.instance if is_fast else getattr(scope.get("route"), "path", "unmatched")
        self._telemetry.observe(route, exchange.method, status, seconds)
        level = _level(status, is_quiet=is_fast or exchange.path in PROBE_PATHS)
        if not _log.isEnabledFor(level):
            return
        principal: Principal | None = exchange.state["principal"]
        fields = {
            "method": exchange.method,
            "path": exchange.instance,
            "status": status,
            "ms": round(seconds * 1000, 2),
            "bytes": exchange.size,
            "organization": str(principal.organization_id) if principal else None,
            "principal": principal.kind if principal else None,
            "problem": exchange.state.get("problem"),
            "correlation_id": exchange.correlation_id,
        }
        _log.log(level, _LOG_LINE, fields, extra=fields)


_PREFLIGHT: Headers = [
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Content-Encoding, X-Correlation-ID"),
    (b"access-control-max-age", b"600"),
]


def _level(status: int, *, is_quiet: bool) -> int:
    if status >= 500:
        return logging.WARNING if status == 503 else logging.ERROR
    # Probes and ingest come by the thousand and are counted; a refusal of one is still worth a line.
    return logging.DEBUG if is_quiet and status < 400 else logging.INFO


def _bounded(exchange: Exchange, scope: Scope, receive: Receive) -> Receive:
    """Check what comes from the client before FastAPI reads it: size of the body, NUL in path or query."""
    if b"%00" in exchange.path or b"%00" in scope["query_string"]:
        raise InvalidFields([FieldError("url", "contains a NUL character")], hint="remove %00")
    length = exchange.head.get(b"content-length")
    if length is not None:
        if not length.isdigit() or len(length) > 9 or int(length) > MAX_FORM_BYTES:
            raise _too_large()
        return receive
    if exchange.method in _SAFE_METHODS:
        return receive
    left = MAX_FORM_BYTES

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise _too_large()
        return message

    return counted


def _too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {MAX_FORM_BYTES} bytes", hint="send lineage to /api/v1/lineage")


def _session_cookie(header: bytes | None) -> str | None:
    if header is None or _COOKIE_PREFIX not in header:
        return None
    for part in header.split(b";"):
        part = part.strip()
        if part.startswith(_COOKIE_PREFIX):
            return part[len(_COOKIE_PREFIX) :].strip(b'"').decode("latin-1")
    return None


def _allowed_origins(settings: Settings) -> frozenset[bytes]:
    if "*" in settings.cors_origins:
        raise ConfigError("HEADGATE_CORS_ORIGINS is '*'", hint="list each origin, such as https://lineage.example.com")
    return frozenset(origin.rstrip("/").encode() for origin in settings.cors_origins)


def _origin_of(url: str | None) -> frozenset[bytes]:
    if url is None:
        return frozenset()
    parts = urlsplit(url)
    return frozenset({f"{parts.scheme}://{parts.netloc}".encode()})
