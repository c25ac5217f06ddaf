"""What goes over the wire: a request as a value, how its answer is read, and which error a refusal becomes.

Sends nothing itself, so that the blocking and the asynchronous client share all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

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

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_WAIT_S = 10.0
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


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, and how to read its answer."""

    method: str
    path: str
    read: Callable[[httpx.Response], T] = field(repr=False)
    params: Mapping[str, str | list[str]] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)
    # Statuses besides 2xx that are an answer and no refusal.
    accept: frozenset[int] = frozenset()
    # Whether it may safely happen twice.
    repeatable: bool = False

    def after(self, cursor: str) -> Call[T]:
        """The same list, from a cursor on."""
        return replace(self, params={**self.params, "cursor": cursor})

    def raw(self) -> Call[dict[str, Any]]:
        """The same question with the answer as plain JSON, fields that this version does not know included."""
        return replace(self, read=_as_json)  # type: ignore[arg-type, return-value]  # the shape is what changes

    def request(self, http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
        headers = {"Content-Type": "application/json"} if self.body is not None else {}
        return http.build_request(self.method, self.path, content=self.body, params=self.params, headers=headers)

    def retries(self, response: httpx.Response) -> bool:
        """Whether asking again may give another answer."""
        again = _RETRY_REPEATABLE if self.repeatable or self.method == "GET" else _RETRY_ALWAYS
        return response.status_code in again - self.accept

    def survives(self, error: Unavailable) -> bool:
        """Whether it may be sent again after nobody answered: it never arrived, or may happen twice."""
        never_arrived = isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
        return never_arrived or self.repeatable or self.method == "GET"

    def answer(self, response: httpx.Response) -> T:
        """What the response says; raises the error that it stands for."""
        if response.is_success or (response.status_code in self.accept and not _is_problem(response)):
            return self.read(response)
        raise error_of(response)


def _as_json(response: httpx.Response) -> dict[str, Any]:
    return decoded(response, dict[str, Any]) if response.content else {}


def no_answer(url: str, error: httpx.RequestError) -> Unavailable:
    """The error of a request that nobody answered."""
    if isinstance(error, httpx.TimeoutException):
        return Unavailable(
            f"{url!r} did not answer in time", hint=f"check that the server at {url} is well, or try again"
        )
    return Unavailable(
        f"cannot reach {url!r}: {str(error) or type(error).__name__}",
        hint=f"check that a headgate server runs at {url}; `headgate up` starts one",
    )


def bearer(secret: str) -> str:
    """The header of a key or a session token, checked: the HTTP library quotes a bad value in its error."""
    secret = secret.strip()
    if not secret or not secret.isascii() or not secret.isprintable():
        raise ConfigError(
            "the API key is empty or holds characters that no key has",
            hint="copy it again: it begins with 'hg_live_' and has no spaces",
        )
    return f"Bearer {secret}"


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
        return decoded(response, dict[str, Any])
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


def decoded(response: httpx.Response, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(response.content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{response.request.url.path!r} was answered with something that is no headgate answer",
            hint="check that the URL is that of a headgate server of this version",
        ) from error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def wait_s(response: httpx.Response | None, attempt: int) -> float:
    """How long to wait before the next attempt: as long as the server says, and longer each time."""
    asked = 0.0 if response is None else _retry_after_s(response) or 0.0
    return min(max(asked, 0.25 * 2.0**attempt), _MAX_WAIT_S)


def _retry_after_s(response: httpx.Response) -> float | None:
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def checked_url(url: str) -> httpx.URL:
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
