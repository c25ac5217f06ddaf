"""The Python client of a headgate server: send events, read runs, manage keys.

Speaks HTTP and raises `headgate.errors`; knows nothing of the database. The API key and the session
token stay inside: they are in no `repr`, no log line and no error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from headgate.errors import (
    ConfigError,
    Conflict,
    FieldError,
    Forbidden,
    HeadgateError,
    InvalidFields,
    InvalidSequence,
    NotFound,
    RateLimited,
    RefusedState,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unparsable,
    WrongEncoding,
)

T = TypeVar("T")

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_MAX_WAIT_S = 10.0
_BATCH_STATUSES = frozenset({200, 207, 422})
# 503 says that nothing was stored. 502 and 504 come from something in between, so only what may safely
# happen twice is sent again.
_RETRY_ALWAYS = frozenset({503})
_RETRY_REPEATABLE = frozenset({502, 503, 504})

_BY_CODE: dict[str, type[HeadgateError]] = {
    kind.code: kind
    for kind in (
        *(Unparsable, TooLarge, WrongEncoding, InvalidSequence, RefusedState),
        *(Unauthenticated, Forbidden, NotFound, Conflict, ConfigError),
    )
}
_BY_STATUS: dict[int, type[HeadgateError]] = {
    400: Unparsable,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: TooLarge,
    415: WrongEncoding,
}


class Receipt(NamedTuple):
    """The answer to one event: 201 for a stored one, 200 for one that the server already had."""

    status: int
    duplicate: bool


class BatchSummary(msgspec.Struct, frozen=True):
    """How many events of a batch went where; duplicates are among the successful ones."""

    received: int
    successful: int
    failed: int
    retriable: int = 0
    non_retriable: int = 0
    duplicates: int = 0


class FailedEvent(msgspec.Struct, frozen=True):
    """One event of a batch that was not stored; `index` is its place in the batch."""

    index: int
    reason: str
    retriable: bool = False


class BatchReceipt(msgspec.Struct, frozen=True):
    """The answer to a batch, refused events included."""

    status: str
    summary: BatchSummary
    failed_events: list[FailedEvent] = []
    correlation_id: str | None = None
    timestamp: str | None = None


class Page(NamedTuple):
    """One page of a list; `next_cursor` is None on the last one."""

    items: list[dict[str, Any]]
    next_cursor: str | None


class HeadgateClient:
    """A connection to one server, for one caller; use it as a context manager or call `close`."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 10,
        attempts: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`attempts` counts tries of a request that the server cannot take now; 1 never waits."""
        parsed = _checked_url(url)
        self.url = str(parsed).rstrip("/")
        self._attempts = max(1, attempts)
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self.url,
            timeout=timeout_s,
            transport=transport,
            # A proxy from the environment cannot reach this machine's own loopback.
            trust_env=parsed.host not in _LOOPBACK,
        )
        if api_key is not None:
            self._authorize(api_key)

    def __repr__(self) -> str:
        return f"HeadgateClient({self.url!r})"

    def __enter__(self) -> HeadgateClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, event: bytes | Mapping[str, Any]) -> Receipt:
        """Send one event. Bytes go out exactly as they are, so the same bytes are always a duplicate."""
        body = event if isinstance(event, bytes) else msgspec.json.encode(event)
        response = self._request("POST", "/api/v1/lineage", body=body, repeatable=True)
        return Receipt(response.status_code, duplicate=response.status_code == 200)

    def send_batch(self, events: Sequence[bytes]) -> BatchReceipt:
        """Send events in one request. Refused events are in the receipt; only a refused request raises."""
        body = b"[" + b",".join(events) + b"]"
        response = self._request("POST", "/api/v1/lineage/batch", body=body, repeatable=True, accept=_BATCH_STATUSES)
        return _decoded(response, BatchReceipt)

    def runs(self, limit: int = 100, cursor: str | None = None) -> Page:
        """Runs, newest first; pass `next_cursor` of one page as `cursor` to get the next."""
        params = {"limit": str(limit)} | ({"cursor": cursor} if cursor else {})
        page = _json_object(self._request("GET", "/api/v1/runs", params=params))
        return Page(page["items"], page.get("next_cursor"))

    def run(self, run_id: str) -> dict[str, Any]:
        """One run with its state; NotFound if the organisation has none of this id."""
        return _json_object(self._request("GET", f"/api/v1/runs/{quote(run_id, safe='')}"))

    def login(self, email: str, password: str) -> dict[str, Any]:
        """Open a session; later calls of this client act as that user. Returns what the server says of it."""
        answer = _json_object(self._request("POST", "/api/v1/auth/login", json={"email": email, "password": password}))
        self._authorize(str(answer.pop("token", "")))
        # The session goes out as a header; a cookie beside it would be a second identity.
        self._http.cookies.clear()
        return answer

    def create_key(
        self, name: str, scopes: Sequence[str] = ("ingest",), *, expires_in_days: int | None = None
    ) -> dict[str, Any]:
        """Make an API key. The answer holds the key itself, which the server never shows again."""
        wanted = {"name": name, "scopes": list(scopes), "expires_in_days": expires_in_days}
        body = {field: value for field, value in wanted.items() if value is not None}
        return _json_object(self._request("POST", "/api/v1/auth/api-keys", json=body))

    def list_keys(self) -> list[dict[str, Any]]:
        """Every key of the organisation, without the keys themselves."""
        keys: list[dict[str, Any]] = []
        params = {"limit": "1000"}
        while True:
            page = _json_object(self._request("GET", "/api/v1/auth/api-keys", params=params))
            keys += page["items"]
            if not page.get("next_cursor"):
                return keys
            params["cursor"] = page["next_cursor"]

    def revoke_key(self, key_id: str) -> None:
        """Make a key useless from now on."""
        self._request("DELETE", f"/api/v1/auth/api-keys/{quote(key_id, safe='')}", repeatable=True)

    def ready(self) -> bool:
        """Whether the server takes requests now; never raises because it does not."""
        try:
            return self._send(self._http.build_request("GET", "/ready")).status_code == 200
        except Unavailable:
            return False

    def health(self) -> dict[str, Any]:
        """Version, uptime and database as the server reports them, also while it is not healthy."""
        return _json_object(self._request("GET", "/health", accept=frozenset({200, 503})))

    def _authorize(self, secret: str) -> None:
        # Checked here because the HTTP library quotes a bad header value in its error.
        if not secret.strip() or not secret.strip().isascii() or not secret.strip().isprintable():
            raise ConfigError(
                "the API key is empty or holds characters that no key has",
                hint="copy it again: it begins with 'hg_live_' and has no spaces",
            )
        self._http.headers["Authorization"] = f"Bearer {secret.strip()}"

    def _request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        accept: frozenset[int] = frozenset(),
    ) -> httpx.Response:
        content = body if json is None else msgspec.json.encode(json)
        headers = {"Content-Type": "application/json"} if content is not None else {}
        request = self._http.build_request(method, path, content=content, params=params, headers=headers)
        again = _RETRY_REPEATABLE if repeatable or method == "GET" else _RETRY_ALWAYS
        response = self._send_patiently(request, again - accept)
        if response.is_success or (response.status_code in accept and not _is_problem(response)):
            return response
        raise error_of(response)

    def _send_patiently(self, request: httpx.Request, again: frozenset[int]) -> httpx.Response:
        for attempt in range(1, self._attempts):
            response = self._send(request)
            if response.status_code not in again:
                return response
            self._sleep(_wait_s(response, attempt))
        return self._send(request)

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._http.send(request)
        except httpx.TimeoutException as error:
            raise Unavailable(
                f"{self.url!r} did not answer in time",
                hint=f"check that the server at {self.url} is well, or try again",
            ) from error
        except httpx.RequestError as error:
            raise Unavailable(
                f"cannot reach {self.url!r}: {str(error) or type(error).__name__}",
                hint=f"check that a headgate server runs at {self.url}; `headgate up` starts one",
            ) from error


def error_of(response: httpx.Response) -> HeadgateError:
    """The error that an answer stands for, with the server's own words, hint and correlation id."""
    problem = _problem_of(response)
    status = response.status_code
    message = _text(problem.get("detail")) or _text(problem.get("title")) or _fallback_message(response)
    hint = _text(problem.get("hint")) or _fallback_hint(response, known=bool(problem))
    error = _build(status, _text(problem.get("code")), message, hint, problem, response)
    error.context["status"] = status
    correlation_id = _text(problem.get("correlation_id")) or response.headers.get("X-Correlation-ID")
    if correlation_id:
        error.context["correlation_id"] = correlation_id
    return error


def _build(
    status: int,
    code: str | None,
    message: str,
    hint: str | None,
    problem: Mapping[str, Any],
    response: httpx.Response,
) -> HeadgateError:
    if code == RateLimited.code or status == 429:
        return RateLimited(message, retry_after_s=_retry_after_s(response) or 1.0, hint=hint)
    if code == Unavailable.code or status in _RETRY_REPEATABLE:
        return Unavailable(message, retry_after_s=_retry_after_s(response) or 1.0, hint=hint)
    if code == InvalidFields.code or (status == 422 and code not in _BY_CODE):
        return InvalidFields(_field_errors(problem) or [FieldError("body", message)], hint=hint)
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status)
    kind = kind or (HeadgateError if status >= 500 else ConfigError)
    return kind(message, hint=hint)


def _field_errors(problem: Mapping[str, Any]) -> list[FieldError]:
    listed = problem.get("errors")
    return [
        FieldError(
            _text(item.get("path")) or "body",
            _text(item.get("message")) or "is wrong",
            _text(item.get("value")),
        )
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    ]


def _problem_of(response: httpx.Response) -> dict[str, Any]:
    if not _is_problem(response):
        return {}
    try:
        return _json_object(response)
    except ConfigError:
        return {}


def _is_problem(response: httpx.Response) -> bool:
    return str(response.headers.get("Content-Type", "")).startswith("application/problem+json")


def _fallback_message(response: httpx.Response) -> str:
    request = response.request
    return f"{request.method} {request.url.path!r} was answered with status {response.status_code}"


def _fallback_hint(response: httpx.Response, *, known: bool) -> str | None:
    if response.is_redirect:
        return f"use the address it redirects to: {response.headers.get('Location')!r}"
    if response.status_code in (401, 403):
        return "check the API key and its scopes"
    return None if known else "check that the URL is that of a headgate server"


def _json_object(response: httpx.Response) -> dict[str, Any]:
    return _decoded(response, dict[str, Any])


def _decoded(response: httpx.Response, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{response.request.url.path!r} was answered with something that is no headgate answer",
            hint="check that the URL is that of a headgate server of this version",
        ) from error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _wait_s(response: httpx.Response, attempt: int) -> float:
    return min(max(_retry_after_s(response) or 0.0, 0.25 * 2.0**attempt), _MAX_WAIT_S)


def _retry_after_s(response: httpx.Response) -> float | None:
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _checked_url(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigError("the server's URL cannot be read", hint="write it as http://host:port") from error
    if parsed.userinfo:
        raise ConfigError(
            f"the URL of {parsed.host!r} carries a user or password",
            hint="pass an API key instead of a password",
        )
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError(f"{url!r} is not the URL of a server", hint="write it as http://host:port")
    return parsed
