"""The client against a scripted server: what goes out, what comes back, and which error it becomes."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headgate.client import HeadgateClient
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

KEY = "hg_live_abcdefghijklmnopqrstuvwxyz0123456789"
EVENT = b'{"eventTime": "2025-03-03T02:00:00Z"}'


class Server:
    """Answers from a list, then keeps giving the last one; remembers what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, api_key: str | None = KEY, **options: Any) -> HeadgateClient:
        transport = httpx.MockTransport(self)
        return HeadgateClient(
            "http://lineage.test:8642", api_key, transport=transport, sleep=self.pauses.append, **options
        )


def problem(status: int, code: str = "", headers: dict[str, str] | None = None, **fields: Any) -> httpx.Response:
    body = {"title": "Title", "status": status, "detail": "what happened", "hint": "what to do", "code": code}
    content = json.dumps(body | {"correlation_id": "c-1", "errors": []} | fields)
    return httpx.Response(
        status, content=content, headers={"Content-Type": "application/problem+json", **(headers or {})}
    )


def batch_answer(status: int, **fields: Any) -> httpx.Response:
    summary = {
        "received": 2,
        "successful": 1,
        "failed": 1,
        "retriable": 0,
        "non_retriable": 1,
        "duplicates": 0,
    }
    body = {"status": "partial_success", "summary": summary, "failed_events": [], "correlation_id": "c-2"}
    return httpx.Response(status, json=body | fields)


@pytest.mark.parametrize(
    ("status", "is_duplicate"),
    [pytest.param(201, False, id="stored"), pytest.param(200, True, id="duplicate")],
)
def test_a_sent_event_says_whether_the_server_had_it(status: int, is_duplicate: bool) -> None:
    server = Server(httpx.Response(status, json={}))

    receipt = server.client().send(EVENT)

    assert receipt == (status, is_duplicate)


def test_an_event_goes_out_byte_for_byte_with_the_key() -> None:
    server = Server(httpx.Response(201, json={}))

    server.client().send(EVENT)

    (request,) = server.requests
    assert request.url == "http://lineage.test:8642/api/v1/lineage"
    assert request.content == EVENT
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"] == "application/json"


def test_an_event_may_be_a_mapping() -> None:
    server = Server(httpx.Response(201, json={}))

    server.client().send({"name": "é", "n": 1})

    assert server.requests[0].content == '{"name":"é","n":1}'.encode()


@pytest.mark.parametrize("status", [200, 207, 422])
def test_a_batch_answer_is_a_receipt_whatever_its_status(status: int) -> None:
    failed = [{"index": 1, "reason": "run.runId: is missing", "retriable": False}]
    server = Server(batch_answer(status, failed_events=failed, timestamp="2025-03-03T02:00:00Z"))

    receipt = server.client().send_batch([EVENT, b"{}"])

    assert server.requests[0].url.path == "/api/v1/lineage/batch"
    assert server.requests[0].content == b"[" + EVENT + b",{}]"
    assert (receipt.status, receipt.summary.failed, receipt.correlation_id) == ("partial_success", 1, "c-2")
    assert [(f.index, f.reason, f.retriable) for f in receipt.failed_events] == [(1, "run.runId: is missing", False)]


def test_a_batch_refused_as_a_whole_raises() -> None:
    server = Server(problem(422, "fields.invalid", errors=[{"path": "body", "message": "is not an array"}]))

    with pytest.raises(InvalidFields, match="body: is not an array"):
        server.client().send_batch([EVENT])


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "body.unparsable", Unparsable),
        (401, "auth.unauthenticated", Unauthenticated),
        (403, "auth.forbidden", Forbidden),
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (413, "body.too_large", TooLarge),
        (415, "body.wrong_encoding", WrongEncoding),
        (422, "run.sequence", InvalidSequence),
        (422, "run.state", RefusedState),
        (422, "fields.invalid", InvalidFields),
        (400, "fields.invalid", InvalidFields),
        (429, "rate.limited", RateLimited),
        (503, "unavailable", Unavailable),
        (500, "internal", HeadgateError),
        (405, "http.method_not_allowed", ConfigError),
    ],
)
def test_a_problem_becomes_the_error_of_its_code(status: int, code: str, expected: type[HeadgateError]) -> None:
    with pytest.raises(HeadgateError, match="what happened") as caught:
        Server(problem(status, code)).client(attempts=1).send(EVENT)

    assert type(caught.value) is expected
    assert caught.value.hint == "what to do"
    assert caught.value.context["correlation_id"] == "c-1"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, Unparsable),
        (401, Unauthenticated),
        (404, NotFound),
        (413, TooLarge),
        (504, Unavailable),
        (302, ConfigError),
    ],
)
def test_an_answer_that_is_no_problem_is_told_by_its_status(status: int, expected: type[HeadgateError]) -> None:
    answer = httpx.Response(status, html="<h1>nginx</h1>", headers={"X-Correlation-ID": "c-3"})

    with pytest.raises(expected, match=f"'/api/v1/lineage' was answered with status {status}") as caught:
        Server(answer).client(attempts=1).send(EVENT)

    assert caught.value.hint
    assert caught.value.context["correlation_id"] == "c-3"


def test_every_field_error_arrives() -> None:
    listed = [
        {"path": "eventTime", "message": "has no zone", "value": "now"},
        {"path": "run", "message": "is missing"},
    ]

    with pytest.raises(InvalidFields) as caught:
        Server(problem(422, "fields.invalid", errors=listed)).client().send(EVENT)

    assert caught.value.errors == [
        FieldError("eventTime", "has no zone", "now"),
        FieldError("run", "is missing", None),
    ]


def test_a_success_that_is_no_headgate_answer_is_named_as_such() -> None:
    with pytest.raises(ConfigError, match="no headgate answer"):
        Server(httpx.Response(200, html="<h1>welcome</h1>")).client().runs()


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_event_is_sent_again_while_the_server_cannot_take_it(status: int) -> None:
    server = Server(httpx.Response(status), httpx.Response(status), httpx.Response(201, json={}))

    receipt = server.client().send(EVENT)

    assert receipt.status == 201
    assert len(server.requests) == 3
    assert server.pauses == [0.5, 1.0]


def test_retry_after_is_waited_for_but_not_for_ever() -> None:
    answers = [problem(503, "unavailable", {"Retry-After": seconds}) for seconds in ("3", "7200")]
    server = Server(*answers, httpx.Response(201, json={}))

    server.client().send(EVENT)

    assert server.pauses == [3.0, 10.0]


def test_the_last_refusal_is_raised_when_attempts_run_out() -> None:
    server = Server(problem(503, "unavailable", {"Retry-After": "2"}))

    with pytest.raises(Unavailable, match="what happened") as caught:
        server.client(attempts=3).send(EVENT)

    assert len(server.requests) == 3
    assert caught.value.retry_after_s == 2.0


def test_too_many_requests_is_not_sent_again_at_once() -> None:
    server = Server(problem(429, "rate.limited", {"Retry-After": "4"}))

    with pytest.raises(RateLimited) as caught:
        server.client().send(EVENT)

    assert len(server.requests) == 1
    assert caught.value.retry_after_s == 4.0


def test_a_key_is_not_made_twice_after_a_gateway_lost_the_answer() -> None:
    server = Server(httpx.Response(504))

    with pytest.raises(Unavailable):
        server.client().create_key("spark")

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        pytest.param(httpx.ConnectError("connection refused"), "connection refused", id="refused"),
        pytest.param(httpx.ReadTimeout("slow"), "did not answer in time", id="timeout"),
        pytest.param(httpx.RemoteProtocolError("peer closed"), "peer closed", id="hung up"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named_in_the_hint(failure: Exception, message: str) -> None:
    with pytest.raises(Unavailable, match=message) as caught:
        Server(failure).client().send(EVENT)

    assert "http://lineage.test:8642" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("failure", "tries_key", "tries_event"),
    [(httpx.ConnectError("refused"), 2, 2), (httpx.ReadTimeout("slow"), 1, 2), (httpx.ReadError("reset"), 1, 2)],
    ids=["never arrived", "no answer in time", "answer lost"],
)
def test_what_nobody_answered_is_sent_again_unless_it_may_have_happened(
    failure: Exception, tries_key: int, tries_event: int
) -> None:
    for server, ask, tries in (
        (Server(failure, httpx.Response(201, json={})), lambda client: client.create_key("x"), tries_key),
        (Server(failure, httpx.Response(201)), lambda client: client.send(EVENT), tries_event),
        (Server(failure, httpx.Response(200, json={})), lambda client: client.run("a"), 2),
    ):
        try:
            ask(server.client())
        except Unavailable:
            assert tries == 1
        assert len(server.requests) == tries


def test_pages_of_runs_and_one_run() -> None:
    server = Server(
        httpx.Response(200, json={"items": [{"run_id": "a"}], "next_cursor": "n"}),
        httpx.Response(200, json={"run_id": "a", "state": "COMPLETE"}),
    )
    client = server.client()

    page = client.runs(limit=1, cursor="c/1")
    run = client.run("a/../b")

    assert (page.items, page.next_cursor) == ([{"run_id": "a"}], "n")
    assert run["state"] == "COMPLETE"
    assert [r.url.raw_path for r in server.requests] == [
        b"/api/v1/runs?limit=1&cursor=c%2F1",
        b"/api/v1/runs/a%2F..%2Fb",
    ]


def test_after_a_login_the_session_is_used_and_nothing_else() -> None:
    session = httpx.Response(
        200,
        json={"token": "jwt.of.user", "user": {"role": "admin"}},
        headers={"Set-Cookie": "headgate_session=jwt"},
    )
    server = Server(session, httpx.Response(200, json={"items": [], "next_cursor": None}))
    client = server.client(api_key=None)

    answer = client.login("ada@example.org", "a password")
    client.list_keys()

    assert json.loads(server.requests[0].content) == {"email": "ada@example.org", "password": "a password"}
    assert server.requests[1].headers["Authorization"] == "Bearer jwt.of.user"
    assert "Cookie" not in server.requests[1].headers
    assert answer == {"user": {"role": "admin"}}


def test_keys_are_made_listed_over_all_pages_and_revoked() -> None:
    server = Server(
        httpx.Response(201, json={"id": "1", "key": "hg_live_new"}),
        httpx.Response(200, json={"items": [{"id": "1"}], "next_cursor": "n"}),
        httpx.Response(200, json={"items": [{"id": "2"}], "next_cursor": None}),
        httpx.Response(204),
    )
    client = server.client()

    made = client.create_key("spark", ["ingest", "read"], expires_in_days=30)
    listed = client.list_keys()
    client.revoke_key("1")

    assert made["key"] == "hg_live_new"
    assert listed == [{"id": "1"}, {"id": "2"}]
    assert json.loads(server.requests[0].content) == {
        "name": "spark",
        "scopes": ["ingest", "read"],
        "expires_in_days": 30,
    }
    assert server.requests[2].url.params["cursor"] == "n"
    assert (server.requests[3].method, server.requests[3].url.path) == ("DELETE", "/api/v1/auth/api-keys/1")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(httpx.Response(200, json={"status": "ready"}), True, id="ready"),
        pytest.param(problem(503, "unavailable"), False, id="database down"),
        pytest.param(httpx.ConnectError("refused"), False, id="nobody there"),
    ],
)
def test_ready_is_a_question_and_never_an_error(answer: httpx.Response | Exception, expected: bool) -> None:
    server = Server(answer)

    assert server.client().ready() is expected
    assert server.pauses == []


def test_health_is_read_also_while_it_is_bad() -> None:
    server = Server(httpx.Response(503, json={"status": "degraded"}))

    assert server.client().health() == {"status": "degraded"}


def test_the_key_is_nowhere_to_be_seen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[Callable[[], str]] = []
    for answer in (problem(401, "auth.unauthenticated"), httpx.ConnectError("refused")):
        client = Server(answer).client(attempts=1)
        with pytest.raises(HeadgateError) as caught:
            client.send(EVENT)
        error = caught.value
        shown += [error.__str__, error.__repr__, lambda e=error: f"{e.hint} {e.context}", client.__repr__]

    assert KEY not in " ".join(show() for show in shown) + caplog.text
    assert "abcdefghijkl" not in repr(vars(client))


@pytest.mark.parametrize(
    "key",
    ["", "  ", "hg_live_a\nb", "hg_live_é", "hg_live_\x00"],
    ids=["empty", "blank", "newline", "accent", "nul"],
)
def test_a_key_that_cannot_be_one_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HeadgateClient("http://lineage.test", key)

    assert "hg_live_" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["lineage.test:8642", "ftp://lineage.test", "http://", "", "http://lineage.test:notaport"]
)
def test_an_address_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HeadgateClient(url)

    assert caught.value.hint == "write it as http://host:port"


def test_a_password_in_the_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as caught:
        HeadgateClient("http://ada:secret-word@lineage.test")

    assert "secret-word" not in f"{caught.value} {caught.value.hint}"


def test_a_path_before_the_api_is_kept() -> None:
    server = Server(httpx.Response(201, json={}))
    client = HeadgateClient("https://lineage.test/headgate/", KEY, transport=httpx.MockTransport(server))

    client.send(EVENT)

    assert str(server.requests[0].url) == "https://lineage.test/headgate/api/v1/lineage"
