from __future__ import annotations

import json

import asyncpg
import pytest
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from headgate import errors
from headgate.server.bodies import unstorable
from headgate.server.problems import problems, render


def document(error: BaseException, **options: int) -> tuple[int, dict[bytes, bytes], dict[str, object]]:
    status, headers, body = render(error, instance="/api/v1/x", correlation_id="c-1", **options)
    return status, dict(headers), json.loads(body)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Unparsable("x"), 400),
        (errors.Unauthenticated("x"), 401),
        (errors.Forbidden("x"), 403),
        (errors.NotFound("x"), 404),
        (errors.Conflict("x"), 409),
        (errors.TooLarge("x"), 413),
        (errors.WrongEncoding("x"), 415),
        (errors.InvalidFields([errors.FieldError("a", "b")]), 422),
        (errors.InvalidSequence("x"), 422),
        (errors.RefusedState("x"), 422),
        (errors.ConfigError("x"), 422),
        (errors.RateLimited("x", retry_after_s=1), 429),
        (errors.Unavailable("x"), 503),
        (errors.MigrationError("x"), 500),
        (asyncpg.CannotConnectNowError("x"), 503),
        (ConnectionResetError("x"), 503),
        (TimeoutError("x"), 503),
        (HTTPException(405), 405),
        (ZeroDivisionError("x"), 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_each_error_has_its_status(error: BaseException, status: int) -> None:
    answered, headers, body = document(error)

    assert answered == body["status"] == status
    assert headers[b"content-type"] == b"application/problem+json"


def test_a_problem_says_what_happened_where_and_what_to_do() -> None:
    _, _, body = document(errors.Conflict("the name 'a' is taken", hint="take another"))

    assert body == {
        "type": "/problems/conflict",
        "title": "Conflict",
        "status": 409,
        "detail": "the name 'a' is taken",
        "instance": "/api/v1/x",
        "correlation_id": "c-1",
        "code": "conflict",
        "hint": "take another",
        "errors": [],
    }


def test_every_field_error_is_listed_with_its_path_and_value() -> None:
    found = [errors.FieldError("run.runId", "is not a UUID", "x"), errors.FieldError("job", "is missing")]

    _, _, body = document(errors.InvalidFields(found))

    assert body["errors"] == [
        {"path": "run.runId", "message": "is not a UUID", "value": "x"},
        {"path": "job", "message": "is missing", "value": None},
    ]


@pytest.mark.parametrize("error", [ZeroDivisionError("the key is hunter2"), errors.MigrationError("hunter2")])
def test_an_unexpected_error_does_not_show_its_text(error: Exception) -> None:
    _, _, body = render(error, instance="/", correlation_id="c-1")

    assert b"hunter2" not in body
    assert json.loads(body)["code"] == "internal"


def test_a_lost_database_is_retriable_and_not_described() -> None:
    status, headers, body = document(ConnectionRefusedError("connect to db.internal:5432"))

    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert "db.internal" not in str(body)


@pytest.mark.parametrize(("wait_s", "header"), [(0.01, b"1"), (1.0, b"1"), (1.2, b"2"), (30.0, b"30")], ids=str)
def test_retry_after_is_whole_seconds_and_never_too_early(wait_s: float, header: bytes) -> None:
    _, headers, _ = document(errors.RateLimited("x", retry_after_s=wait_s))

    assert headers[b"retry-after"] == header


def test_missing_credentials_name_the_scheme() -> None:
    assert document(errors.Unauthenticated("x"))[1][b"www-authenticate"].startswith(b"Bearer")


def test_a_route_may_answer_with_its_own_status() -> None:
    status, _, body = document(errors.InvalidFields([errors.FieldError("a", "b")]), status=400)

    assert (status, body["status"], body["code"]) == (400, 400, "fields.invalid")


def test_text_that_is_no_unicode_still_gives_valid_json() -> None:
    _, _, body = document(errors.NotFound("no dataset '\ud800'"))

    assert body["detail"] == "no dataset '\ud800'"


def test_broken_json_is_unparsable_and_not_a_field_error() -> None:
    error = RequestValidationError([{"type": "json_invalid", "loc": ("body", 7), "msg": "", "ctx": {"error": "odd"}}])

    status, _, body = document(error)

    assert (status, body["code"], body["detail"]) == (
        400,
        "body.unparsable",
        "the body is not JSON: odd at character 7",
    )


def test_validation_errors_name_the_field_and_keep_secrets() -> None:
    error = RequestValidationError(
        [
            {
                "type": "x",
                "loc": ("body", "settings", "validation"),
                "msg": "Input should be 'a'",
                "input": "lax",
            },
            {"type": "x", "loc": ("body", "items", 2, "name"), "msg": "Value error, is empty", "input": ""},
            {"type": "x", "loc": ("query", "limit"), "msg": "Too big", "input": 10**6},
            {"type": "x", "loc": ("body", "password"), "msg": "Too short", "input": "hunter2"},
            {
                "type": "missing",
                "loc": ("body", "name"),
                "msg": "Field required",
                "input": {"password": "hunter2"},
            },
        ]
    )

    assert document(error)[2]["errors"] == [
        {"path": "settings.validation", "message": "input should be 'a'", "value": "lax"},
        {"path": "items[2].name", "message": "is empty", "value": ""},
        {"path": "query.limit", "message": "too big", "value": "1000000"},
        {"path": "password", "message": "too short", "value": None},
        {"path": "name", "message": "field required", "value": None},
    ]


def test_what_we_raised_while_the_body_was_read_is_the_answer() -> None:
    wrapped = HTTPException(400)
    wrapped.__cause__ = errors.TooLarge("the body is too large")

    assert document(wrapped)[0] == 413


def test_documented_answers_share_one_schema_per_status() -> None:
    described = problems(errors.InvalidFields, errors.RefusedState, errors.NotFound)

    assert list(described) == [404, 422]
    assert list(described[422]["content"]) == ["application/problem+json"]


@pytest.mark.parametrize(
    ("value", "paths"),
    [
        ({"a": "fine", "b": [1, None, {"c": "ä"}]}, []),
        ({"a": {"b": ["x", "y\0"]}}, ["a.b[1]"]),
        ({"a": "\ud800"}, ["a"]),
        ({"a": {"k\0": 1}}, ["a"]),
        ("\0", ["body"]),
    ],
    ids=["storable", "nul in a list", "half a surrogate pair", "nul in a key", "nul alone"],
)
def test_text_that_cannot_be_stored_is_found_with_its_path(value: object, paths: list[str]) -> None:
    assert [error.path for error in unstorable(value)] == paths


def test_a_body_nested_as_deep_as_json_allows_is_walked() -> None:
    value: object = "\0"
    for _ in range(50_000):
        value = [value]

    assert len(list(unstorable(value))) == 1
