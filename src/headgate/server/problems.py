"""RFC 9457 answers: the only place that knows which error is which status code.

Turns any exception into a problem document. The text of an error that was not raised on purpose is not shown.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from headgate.errors import (
    ConfigError,
    Conflict,
    EmailTaken,
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
from headgate.server.db.pool import DATABASE_GONE

Headers = list[tuple[bytes, bytes]]

STATUS: Mapping[type[HeadgateError], int] = {
    Unparsable: 400,
    EmailTaken: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    TooLarge: 413,
    WrongEncoding: 415,
    InvalidFields: 422,
    InvalidSequence: 422,
    RefusedState: 422,
    ConfigError: 422,
    RateLimited: 429,
    Unavailable: 503,
}

MEDIA_TYPE = "application/problem+json"
SCHEMA_NAME = "Problem"
SCHEMA: dict[str, Any] = {
    "title": SCHEMA_NAME,
    "type": "object",
    "required": ["type", "title", "status", "detail", "instance", "correlation_id", "code", "hint", "errors"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "correlation_id": {"type": "string"},
        "code": {"type": "string", "description": "Stable name of the error, safe to match on"},
        "hint": {"type": ["string", "null"], "description": "What to do about it"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "message", "value"],
                "properties": {
                    "path": {"type": "string"},
                    "message": {"type": "string"},
                    "value": {"type": ["string", "null"]},
                },
            },
        },
    },
}

_CRASH = "the server failed on this request"
_CRASH_HINT = "retry later; if it stays, report the correlation id to whoever runs this server"
_SECRET = re.compile(r"passw|secret|token|credential|authorization|key", re.IGNORECASE)
_MAX_VALUE = 120


class _Problem(NamedTuple):
    status: int
    code: str
    title: str
    detail: str
    hint: str | None = None
    errors: Sequence[FieldError] = ()
    retry_after_s: float | None = None
    context: Mapping[str, object] = {}


def status_of(error: BaseException) -> int:
    """The status code that this error is answered with."""
    return _problem(error, None).status


def render(
    error: BaseException, *, instance: str, correlation_id: str, status: int | None = None
) -> tuple[int, Headers, bytes]:
    """Status, headers and body of the answer; `status` is for routes that do not use the usual one."""
    problem = _problem(error, status)
    body = json.dumps(_document(problem, instance, correlation_id), ensure_ascii=False, default=str)
    # Lone surrogates cannot be UTF-8; inside a JSON string the escape is still correct JSON.
    data = body.encode("utf-8", "backslashreplace")
    return problem.status, _headers(problem, error, len(data)), data


def problems(*classes: type[HeadgateError]) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that may answer with these errors."""
    described: dict[int | str, list[str]] = {}
    for cls in classes:
        described.setdefault(STATUS[cls], []).append((cls.__doc__ or cls.__name__).strip())
    content = {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{SCHEMA_NAME}"}}}
    return {status: {"description": " ".join(lines), "content": content} for status, lines in sorted(described.items())}


def _document(problem: _Problem, instance: str, correlation_id: str) -> dict[str, object]:
    document: dict[str, object] = {
        "type": f"/problems/{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": instance,
        "correlation_id": correlation_id,
        "code": problem.code,
        "hint": problem.hint,
        "errors": [error._asdict() for error in problem.errors],
    }
    if problem.context:
        document["context"] = dict(problem.context)
    return document


def _headers(problem: _Problem, error: BaseException, size: int) -> Headers:
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(size).encode())]
    if problem.retry_after_s is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(problem.retry_after_s))).encode()))
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="headgate"'))
    if isinstance(error, HTTPException) and error.headers:
        headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return headers


def _problem(error: BaseException, status: int | None) -> _Problem:
    # FastAPI wraps whatever stops it from reading a body; what we raised ourselves is the better answer.
    if isinstance(error, HTTPException) and isinstance(error.__cause__, HeadgateError):
        error = error.__cause__
    if isinstance(error, RequestValidationError):
        error = _invalid_request(error)
    if isinstance(error, HeadgateError):
        return _expected(error, status)
    if isinstance(error, HTTPException):
        return _http(error, status)
    if isinstance(error, DATABASE_GONE):
        return _expected(Unavailable("the database does not answer", hint="retry after a moment"), status)
    return _crash(status)


def _expected(error: HeadgateError, status: int | None) -> _Problem:
    known = next((STATUS[cls] for cls in type(error).__mro__ if cls in STATUS), None)
    if known is None:
        return _crash(status)
    return _Problem(
        status=status or known,
        code=error.code,
        title=re.sub(r"(?<!^)(?=[A-Z])", " ", type(error).__name__).capitalize(),
        detail=error.message,
        hint=error.hint,
        errors=error.errors if isinstance(error, InvalidFields) else (),
        retry_after_s=error.retry_after_s if isinstance(error, RateLimited | Unavailable) else None,
        context=error.context,
    )


def _http(error: HTTPException, status: int | None) -> _Problem:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return _expected(NotFound("there is nothing at this path", hint="see /docs for every route"), status)
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return _expected(Unparsable("the body cannot be read as JSON", hint="send one valid JSON document"), status)
    phrase = HTTPStatus(error.status_code).phrase
    code = "http." + phrase.lower().replace(" ", "_")
    return _Problem(status or error.status_code, code, phrase.capitalize(), phrase.lower())


def _crash(status: int | None) -> _Problem:
    return _Problem(status or 500, HeadgateError.code, "Internal error", _CRASH, _CRASH_HINT)


def _invalid_request(error: RequestValidationError) -> HeadgateError:
    found = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        place, reason = found[0]["loc"][-1], found[0].get("ctx", {}).get("error", "not JSON")
        return Unparsable(f"the body is not JSON: {reason} at character {place}", hint="send one valid JSON document")
    fields = [FieldError(_path(item["loc"]), _message(item["msg"]), _value(item)) for item in found]
    return InvalidFields(fields, hint="correct the listed fields and send it again")


def _path(location: Sequence[str | int]) -> str:
    # A field of the body goes by its own name; a query or path parameter says which it is.
    parts = location[1:] if len(location) > 1 and location[0] == "body" else location
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.lstrip(".")


def _message(text: str) -> str:
    text = text.removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _value(item: Mapping[str, Any]) -> str | None:
    """What was there, when it is short, plain and no secret; a missing field's input is the whole body."""
    value = item.get("input")
    if item["type"] == "missing" or not isinstance(value, str | int | float | bool):
        return None
    if any(_SECRET.search(str(part)) for part in item["loc"]):
        return None
    return str(value)[:_MAX_VALUE] if isinstance(value, str) else repr(value)[:_MAX_VALUE]
