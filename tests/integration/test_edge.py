from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import httpx
import pytest
from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse

from headgate.errors import Conflict
from headgate.server.auth import Scope, authorize
from headgate.server.db.pool import Database
from headgate.server.edge import Edge
from headgate.settings import Rate, Settings
from tests.support.edge import PASSWORD, build_edge, client_of, register

FAST = "/api/v1/lineage"


async def ingest(scope: Any, receive: Any, send: Any) -> None:
    """Stands in for the ingest endpoints: needs the scope, answers with who called."""
    principal = authorize(scope["state"], Scope.ingest)
    await PlainTextResponse(principal.organization_name, 201)(scope, receive, send)


async def crash(scope: Any, receive: Any, send: Any) -> None:
    raise ZeroDivisionError("the password is hunter2")


async def crash_midway(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise ZeroDivisionError("too late for another answer")


def odd_routes() -> APIRouter:
    router = APIRouter()

    def failing(error: Exception) -> Callable[[], Awaitable[None]]:
        async def handler() -> None:
            raise error

        return handler

    router.add_api_route("/crash", failing(ZeroDivisionError("the password is hunter2")))
    router.add_api_route("/conflict", failing(Conflict("the name 'a' is taken", hint="take another")))
    router.add_api_route("/gone", failing(asyncpg.ConnectionDoesNotExistError("connection to db.internal lost")))

    @router.post("/echo")
    async def echo(request: Request) -> int:
        return len(await request.body())

    return router


def an_edge(settings: Settings, database: Database) -> Edge:
    routes = {("POST", FAST): ingest, ("POST", "/fast-crash"): crash, ("GET", "/midway"): crash_midway}
    return build_edge(settings, database, routers=[odd_routes()], fast_routes=routes)


@pytest.fixture
def edge(database: Database, settings: Settings) -> Edge:
    return an_edge(settings, database)


@pytest.fixture
async def client(edge: Edge) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(edge) as client:
        yield client


async def an_admin(edge: Edge, email: str = "ada@example.com") -> httpx.AsyncClient:
    client = client_of(edge, address="198.51.100.7")
    session = await register(client, email, organization_name="Acme")
    client.headers["authorization"] = f"Bearer {session['token']}"
    return client


async def a_key(admin: httpx.AsyncClient, *scopes: str) -> str:
    response = await admin.post("/api/v1/auth/api-keys", json={"name": "k", "scopes": list(scopes)})
    key: str = response.json()["key"]
    return key


@pytest.mark.parametrize("given", ["a", "A-z_0.9:x".replace("_", "-"), "x" * 128])
async def test_a_correlation_id_is_returned_as_it_came(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/ping", headers={"X-Correlation-ID": given})

    assert response.headers["x-correlation-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\tb", "ä"], ids=["empty", "long", "space", "tab", "umlaut"])
async def test_a_bad_correlation_id_is_replaced(client: httpx.AsyncClient, given: str) -> None:
    response = await client.get("/ping", headers={"X-Correlation-ID": given.encode("latin-1")})

    assert re.fullmatch(r"[0-9a-f-]{36}", response.headers["x-correlation-id"])


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/conflict", 409, "conflict"),
        ("GET", "/crash", 500, "internal"),
        ("POST", "/fast-crash", 500, "internal"),
        ("GET", "/gone", 503, "unavailable"),
        ("GET", "/nothing/here", 404, "not_found"),
        ("PUT", "/ping", 405, "http.method_not_allowed"),
        ("GET", FAST, 405, "http.method_not_allowed"),
        ("POST", FAST, 401, "auth.unauthenticated"),
        ("GET", "/api/v1/auth/me", 401, "auth.unauthenticated"),
        ("GET", "/ping?a=%00", 422, "fields.invalid"),
    ],
)
async def test_every_refusal_is_a_problem_with_the_correlation_id(
    client: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    response = await client.request(method, path, headers={"X-Correlation-ID": "c-1"})

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-correlation-id"] == "c-1"
    body = response.json()
    assert (body["correlation_id"], body["code"], body["status"]) == ("c-1", code, status)
    assert body["instance"] == path.partition("?")[0]


@pytest.mark.parametrize(("method", "path"), [("GET", "/crash"), ("POST", "/fast-crash")])
async def test_a_crash_is_logged_with_its_cause_and_answered_without(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    response = await client.request(method, path, headers={"X-Correlation-ID": "c-1"})

    assert "hunter2" not in response.text
    failures = [record for record in caplog.records if record.exc_info]
    assert [getattr(record, "correlation_id", None) for record in failures] == ["c-1"]
    assert isinstance(failures[0].exc_info[1], ZeroDivisionError)  # type: ignore[index]  # filtered above


async def test_a_crash_after_the_answer_began_sends_nothing_more(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    sent = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "http", "method": "GET", "path": "/midway", "raw_path": b"/midway", "headers": []}
    await edge({**scope, "query_string": b""}, None, send)  # type: ignore[arg-type]  # nothing is received

    assert sent == ["http.response.start"]
    assert any(record.exc_info for record in caplog.records)


async def test_expected_refusals_are_not_logged_as_errors(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headgate")
    for path in ("/conflict", "/nothing", "/gone", "/api/v1/auth/me"):
        await client.get(path)
    await client.post(FAST)

    logged = [record for record in caplog.records if record.name == "headgate.request"]
    assert len(logged) == 5
    assert max(record.levelno for record in logged) == logging.WARNING


async def test_a_request_is_logged_with_who_what_and_how(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    admin = await an_admin(edge)
    key = await a_key(admin, "ingest")
    caplog.set_level(logging.DEBUG, "headgate")

    async with client_of(edge, token=key) as client:
        await client.post(f"{FAST}?token=hunter2", headers={"X-Correlation-ID": "c-1"})

    (record,) = [record for record in caplog.records if record.name == "headgate.request"]
    fields = vars(record)
    assert (fields["method"], fields["path"], fields["status"], fields["bytes"]) == ("POST", FAST, 201, 4)
    assert (fields["principal"], fields["correlation_id"]) == ("key", "c-1")
    assert fields["organization"]
    assert fields["ms"] >= 0
    assert "hunter2" not in record.getMessage()


async def test_a_path_cannot_forge_a_log_line(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "headgate")
    await client.get("/a%0aGET%20/forged%20200")

    (record,) = [record for record in caplog.records if record.name == "headgate.request"]
    assert "\n" not in record.getMessage()


async def test_secrets_never_reach_the_log(edge: Edge, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    admin = await an_admin(edge)
    key = await a_key(admin, "ingest")
    invite = (await admin.post("/api/v1/auth/invites", json={"email": "b@example.com"})).json()["token"]
    async with client_of(edge) as client:
        await client.post("/api/v1/auth/login", json={"email": "ada@example.com", "password": "wrong" + PASSWORD})
        await client.post("/api/v1/auth/invites/accept", json={"token": invite, "name": "", "password": PASSWORD})
        await client.post(FAST, headers={"authorization": f"Bearer {key}"})
        await client.post(FAST, headers={"authorization": f"Bearer {key}x"})
        await client.get("/crash", headers={"authorization": f"Bearer {key}"})

    session = admin.headers["authorization"].removeprefix("Bearer ")
    for secret in (key, invite, session, PASSWORD):
        assert secret not in caplog.text


async def test_the_ingest_path_applies_scopes_and_credentials(edge: Edge) -> None:
    admin = await an_admin(edge)
    may, may_not = await a_key(admin, "ingest"), await a_key(admin, "read", "write", "admin")

    async with client_of(edge) as client:
        answers = {
            name: await client.post(FAST, headers={"authorization": value})
            for name, value in {
                "may": f"Bearer {may}",
                "lower-case scheme": f"bearer {may}",
                "may not": f"Bearer {may_not}",
                "unknown": "Bearer hg_live_unknown",
                "basic": "Basic YTpi",
                "empty": "Bearer ",
                "long": "Bearer " + "x" * 5000,
            }.items()
        }

    assert {name: answer.status_code for name, answer in answers.items()} == {
        "may": 201,
        "lower-case scheme": 201,
        "may not": 403,
        "unknown": 401,
        "basic": 401,
        "empty": 401,
        "long": 401,
    }
    assert answers["may"].text == "Acme"
    detail = answers["may not"].json()["detail"]
    assert "'ingest'" in detail
    assert "'admin', 'read', 'write'" in detail


async def test_a_wrong_method_is_told_every_right_one(client: httpx.AsyncClient) -> None:
    assert (await client.put("/api/v1/organization")).headers["allow"] == "GET, PATCH"
    assert (await client.put(FAST)).headers["allow"] == "POST"


async def test_old_credentials_do_not_stand_in_the_way_of_public_paths(client: httpx.AsyncClient) -> None:
    headers = {"authorization": "Bearer hg_live_revoked", "cookie": "headgate_session=old"}

    assert (await client.get("/ping", headers=headers)).status_code == 200
    body = {"email": "a@example.com", "password": PASSWORD, "name": "Ada"}
    assert (await client.post("/api/v1/auth/register", json=body, headers=headers)).status_code == 201


async def test_an_old_cookie_makes_the_caller_anonymous_and_says_why(client: httpx.AsyncClient) -> None:
    headers = {"cookie": "theme=dark; headgate_session=not.a.session"}

    assert (await client.get("/nothing", headers=headers)).status_code == 404
    refused = await client.get("/api/v1/auth/me", headers=headers)
    assert (refused.status_code, "valid session" in refused.json()["detail"]) == (401, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://headgate.test"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "http://headgate.test"}, 200),
        ({"origin": "https://lineage.example.com", "sec-fetch-site": "cross-site"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://other.headgate.test"}, 403),
    ],
    ids=["no browser", "own origin", "own page", "public url", "foreign", "opaque", "cross-site", "sibling"],
)
async def test_only_our_own_pages_may_use_the_cookie_to_change_things(
    database: Database, settings: Settings, headers: dict[str, str], status: int
) -> None:
    edge = an_edge(settings.model_copy(update={"public_url": "https://lineage.example.com/x"}), database)
    admin = await an_admin(edge)
    cookie = f"headgate_session={admin.headers['authorization'].removeprefix('Bearer ')}"

    async with client_of(edge) as browser:
        headers = {**headers, "cookie": cookie}
        changed = await browser.patch("/api/v1/organization", json={"name": "New"}, headers=headers)
        seen = await browser.get("/api/v1/organization", headers=headers)

    assert (changed.status_code, seen.status_code) == (status, 200)


async def test_a_foreign_origin_with_its_own_key_is_no_forgery(edge: Edge) -> None:
    key = await a_key(await an_admin(edge), "admin")

    async with client_of(edge, token=key) as client:
        response = await client.patch(
            "/api/v1/organization", json={"name": "New"}, headers={"origin": "https://evil.example"}
        )

    assert response.status_code == 200


async def test_too_many_requests_are_refused_with_the_time_to_wait(database: Database, settings: Settings) -> None:
    strict = settings.model_copy(update={"rate_anonymous": Rate(per_second=0.2, burst=3)})
    async with client_of(an_edge(strict, database)) as client:
        answers = [await client.get("/conflict") for _ in range(4)]

    assert [answer.status_code for answer in answers] == [409, 409, 409, 429]
    assert answers[-1].headers["retry-after"] == "5"
    assert answers[-1].json()["code"] == "rate.limited"


async def test_guessing_keys_is_limited_like_anonymous_requests(database: Database, settings: Settings) -> None:
    strict = settings.model_copy(update={"rate_anonymous": Rate(per_second=0.1, burst=2)})
    async with client_of(an_edge(strict, database), token="hg_live_guess") as client:
        statuses = [(await client.post(FAST)).status_code for _ in range(4)]

    assert statuses == [401, 401, 429, 429]


async def test_probes_are_never_limited(database: Database, settings: Settings) -> None:
    strict = settings.model_copy(
        update={name: Rate(per_second=0.1, burst=1) for name in ("rate_anonymous", "rate_global")}
    )
    async with client_of(an_edge(strict, database)) as client:
        for path in ("/ping", "/ready", "/health", "/metrics"):
            assert [(await client.get(path)).status_code for _ in range(3)] == [200] * 3


@pytest.mark.parametrize(("rate", "passed"), [(None, 8), (Rate(per_second=0.1, burst=3), 3)], ids=["off", "set"])
async def test_authenticated_ingest_has_only_its_own_limit(
    database: Database, settings: Settings, rate: Rate | None, passed: int
) -> None:
    tight = Rate(per_second=0.1, burst=4)
    strict = settings.model_copy(
        update={"rate_key": tight, "rate_global": tight, "rate_organization": tight, "rate_ingest": rate}
    )
    edge = an_edge(strict, database)
    key = await a_key(await an_admin(edge), "ingest")

    async with client_of(edge, token=key) as client:
        statuses = [(await client.post(FAST)).status_code for _ in range(8)]

    assert statuses == [201] * passed + [429] * (8 - passed)


async def test_browsers_of_other_origins_are_not_answered_by_default(client: httpx.AsyncClient) -> None:
    response = await client.get("/ping", headers={"origin": "https://ui.example.com"})

    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_listed_origins_may_read_answers_and_refusals(database: Database, settings: Settings) -> None:
    listed = settings.model_copy(update={"cors_origins": ("https://ui.example.com",)})
    ours, other = {"origin": "https://ui.example.com"}, {"origin": "https://other.example.com"}
    ask = {"access-control-request-method": "PATCH"}
    async with client_of(an_edge(listed, database)) as client:
        preflight = await client.options("/api/v1/organization", headers={**ours, **ask})
        refusal = await client.get("/api/v1/auth/me", headers=ours)
        foreign = await client.options("/api/v1/organization", headers={**other, **ask})

    assert preflight.status_code == 204
    assert "PATCH" in preflight.headers["access-control-allow-methods"]
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    assert refusal.headers["access-control-allow-origin"] == "https://ui.example.com"
    assert refusal.headers["access-control-allow-credentials"] == "true"
    assert refusal.headers["vary"] == "Origin"
    assert "access-control-allow-origin" not in foreign.headers


async def body_in_pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65536):
        yield b"x" * 65536


@pytest.mark.parametrize("chunked", [False, True], ids=["with length", "chunked"])
async def test_a_large_body_is_refused_before_it_is_read_whole(client: httpx.AsyncClient, chunked: bool) -> None:
    size = 2 * 1024 * 1024
    content = body_in_pieces(size) if chunked else b"x" * size

    response = await client.post("/echo", content=content)

    assert (response.status_code, response.json()["code"]) == (413, "body.too_large")


async def test_a_small_body_of_unknown_length_is_read(client: httpx.AsyncClient) -> None:
    assert (await client.post("/echo", content=body_in_pieces(131072))).json() == 131072


async def test_health_and_readiness_tell_of_a_lost_database(settings: Settings) -> None:
    nowhere = Database("postgresql://nobody@127.0.0.1:1/nothing", timeout_s=1)
    async with client_of(an_edge(settings, nowhere)) as client:
        ready, health = await client.get("/ready"), await client.get("/health")
        ingested = await client.post(FAST, headers={"authorization": "Bearer hg_live_any"})

    assert (ready.status_code, ready.headers["retry-after"]) == (503, "1")
    assert health.status_code == 200
    assert (health.json()["status"], health.json()["database"]["status"]) == ("degraded", "down")
    assert (ingested.status_code, ingested.json()["code"]) == (503, "unavailable")


async def test_readiness_waits_for_the_migrations(edge: Edge, db: asyncpg.Connection) -> None:
    await db.execute("DELETE FROM schema_migrations")
    async with client_of(edge) as client:
        response = await client.get("/ready")
        health = await client.get("/health")

    assert (response.status_code, "headgate migrate" in response.json()["hint"]) == (503, True)
    assert health.json()["database"]["status"] == "outdated"


async def test_health_tells_version_uptime_and_database(client: httpx.AsyncClient) -> None:
    body = (await client.get("/health")).json()

    assert body["status"] == "ok"
    assert body["uptime_s"] >= 0
    assert re.match(r"\d+\.\d+", body["version"])
    assert body["database"]["status"] == "ok"
    assert body["database"]["latency_ms"] > 0
    assert re.match(r"\d+", body["database"]["server_version"])


async def test_metrics_count_requests_by_route_and_not_by_path(edge: Edge) -> None:
    admin = await an_admin(edge)
    for number in range(3):
        await admin.delete(f"/api/v1/auth/users/00000000-0000-0000-0000-00000000000{number}")
        await admin.get(f"/nothing/{number}")
    metrics = (await admin.get("/metrics")).text

    assert 'method="DELETE",route="/api/v1/auth/users/{user_id}",status="404"} 3.0' in metrics
    assert 'route="unmatched",status="404"} 3.0' in metrics
    assert "/nothing/" not in metrics
    assert re.search(r"headgate_database_pool_size [1-9]", metrics)


async def test_every_route_documents_its_problems_and_credentials(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()

    assert set(document["components"]["securitySchemes"]) == {"bearer", "session"}
    assert "HTTPValidationError" not in document["components"]["schemas"]
    me = document["paths"]["/api/v1/auth/me"]["get"]
    assert me["security"] == [{"bearer": []}, {"session": []}]
    assert {"401", "403", "422", "429", "503"} <= set(me["responses"])
    assert list(me["responses"]["401"]["content"]) == ["application/problem+json"]
    assert "/docs" not in document["paths"]
    assert (await client.get("/docs")).status_code == (await client.get("/redoc")).status_code == 200
