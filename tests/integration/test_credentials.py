from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import jwt
import pytest

from headgate.errors import Unauthenticated
from headgate.server.auth import NOTICES, Authenticator
from headgate.server.db.pool import Connection, Database
from headgate.server.edge import Edge
from headgate.server.notices import Notices
from headgate.server.tokens import digest
from headgate.settings import Settings
from tests.support.edge import (
    AUTH,
    SIGNING_SECRET,
    Account,
    a_colleague,
    accept,
    authenticator_of,
    build_edge,
    client_of,
    login,
    me,
    register,
    unlimited,
)


@pytest.fixture
def edge(database: Database, settings: Settings) -> Edge:
    return build_edge(unlimited(settings), database)


@pytest.fixture
async def anyone(edge: Edge) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(edge) as client:
        yield client


@pytest.fixture
async def ada(edge: Edge, anyone: httpx.AsyncClient) -> Account:
    return Account(edge, await register(anyone, "ada@example.com", organization_name="Acme"))


@pytest.fixture
async def eve(edge: Edge, anyone: httpx.AsyncClient) -> Account:
    return Account(edge, await register(anyone, "eve@example.com", organization_name="Acme"))


def claims(account: Account, **changes: object) -> dict[str, object]:
    known = jwt.decode(account.token, options={"verify_signature": False})
    return {**known, **changes}


async def test_a_session_token_has_the_agreed_claims(ada: Account) -> None:
    found = claims(ada)

    assert set(found) == {"user_id", "org_id", "email", "role", "exp", "iat", "jti"}
    assert found["exp"] - found["iat"] == 24 * 3600  # type: ignore[operator]  # both are numbers
    assert jwt.get_unverified_header(ada.token)["alg"] == "HS256"


async def test_only_unexpired_sessions_that_we_signed_are_accepted(edge: Edge, ada: Account, eve: Account) -> None:
    def signed(secret: str = SIGNING_SECRET, **changes: object) -> str:
        return jwt.encode(claims(ada, **changes), secret, algorithm="HS256")

    def encoded(part: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()

    without_exp = {name: value for name, value in claims(ada).items() if name != "exp"}
    head, payload, signature = ada.token.split(".")
    tokens = {
        "as issued": ada.token,
        "signed again": signed(),
        "expired": signed(exp=int(time.time()) - 1),
        "other secret": signed("another secret of more than 32 bytes!"),
        "no expiry": jwt.encode(without_exp, SIGNING_SECRET, algorithm="HS256"),
        "other algorithm": jwt.encode(claims(ada), SIGNING_SECRET, algorithm="HS512"),
        "alg none": f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{payload}.",
        "alg none with signature": f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{payload}.{signature}",
        "other payload": f"{head}.{encoded(claims(ada, user_id=eve.id))}.{signature}",
        "foreign organisation": signed(org_id=str(eve.organization_id)),
        "unknown user": signed(user_id=str(uuid4())),
        "odd user": signed(user_id=7),
        "no token": "x.y.z",
    }
    answers = {name: (await me(edge, token)).status_code for name, token in tokens.items()}

    assert {name for name, status in answers.items() if status == 200} == {"as issued", "signed again"}
    assert set(answers.values()) == {200, 401}


async def test_a_session_that_expires_is_refused_although_it_is_remembered(edge: Edge, ada: Account) -> None:
    token = jwt.encode(claims(ada, exp=int(time.time()) + 2), SIGNING_SECRET, algorithm="HS256")
    assert (await me(edge, token)).status_code == 200

    await asyncio.sleep(2.1)
    assert (await me(edge, token)).status_code == 401


async def test_two_servers_agree_on_a_signing_key_made_at_first_use(database: Database, settings: Settings) -> None:
    first, second = build_edge(settings, database), build_edge(settings, database)
    issue = {"user_id": uuid4(), "organization_id": uuid4(), "email": "a@example.com", "role": "admin"}

    issued = await asyncio.gather(*(authenticator_of(edge).sessions.issue(**issue) for edge in (first, second)))  # type: ignore[arg-type]  # a mixed dict

    for edge in (first, second):
        for token, _ in issued:
            assert (await authenticator_of(edge).sessions.read(token)).user_id == issue["user_id"]


async def test_logging_out_ends_the_session_for_every_copy_of_its_token(
    edge: Edge, anyone: httpx.AsyncClient, ada: Account
) -> None:
    token = (await login(anyone, "ada@example.com")).json()["token"]
    assert (await me(edge, token)).status_code == 200

    response = await anyone.post(f"{AUTH}/logout")

    assert response.status_code == 204
    assert "headgate_session" not in anyone.cookies
    assert (await me(edge, token)).status_code == 401
    assert (await me(edge, ada.token)).status_code == 200
    assert (await anyone.post(f"{AUTH}/logout")).status_code == 204


async def test_an_invited_user_gets_the_role_of_the_invite(edge: Edge, ada: Account) -> None:
    grace = await a_colleague(edge, ada, "Grace@example.com", "editor")

    answer = (await grace.client.get(f"{AUTH}/me")).json()
    assert (answer["email"], answer["role"], answer["scopes"]) == (
        "grace@example.com",
        "editor",
        ["read", "write"],
    )
    assert grace.organization_id == ada.organization_id


async def test_an_invite_is_accepted_once_also_by_two_at_once(
    anyone: httpx.AsyncClient, ada: Account, database: Database
) -> None:
    invite = await ada.invite("grace@example.com")

    answers = await asyncio.gather(*(accept(anyone, invite["token"]) for _ in range(4)))
    again = await accept(anyone, invite["token"])

    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert (again.status_code, "already used" in again.json()["detail"]) == (409, True)
    async with database.tenant(ada.organization_id) as conn:
        assert await conn.fetchval("SELECT count(*) FROM users") == 2


async def test_an_expired_invite_is_refused_with_advice(
    anyone: httpx.AsyncClient, ada: Account, database: Database
) -> None:
    invite = await ada.invite("grace@example.com")
    async with database.tenant(ada.organization_id) as conn:
        await conn.execute("UPDATE invites SET expires_at = now() - interval '1 second'")

    response = await accept(anyone, invite["token"])

    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert "expired" in response.json()["detail"]
    assert "new one" in response.json()["hint"]
    assert [item["status"] for item in (await ada.client.get(f"{AUTH}/invites")).json()["items"]] == ["expired"]


async def test_an_invite_lasts_as_long_as_asked(ada: Account) -> None:
    def hours(invite: dict[str, Any]) -> float:
        made, expires = (datetime.fromisoformat(invite[name]) for name in ("created_at", "expires_at"))
        return (expires - made) / timedelta(hours=1)

    body = {"email": "b@example.com", "expires_in_hours": 5}
    assert hours(await ada.invite("a@example.com")) == 72
    assert hours((await ada.client.post(f"{AUTH}/invites", json=body)).json()) == 5


async def test_a_withdrawn_invite_cannot_be_accepted(anyone: httpx.AsyncClient, ada: Account) -> None:
    invite = await ada.invite("grace@example.com")
    assert (await ada.client.delete(f"{AUTH}/invites/{invite['id']}")).status_code == 204

    assert (await accept(anyone, invite["token"])).status_code == 404
    assert (await ada.client.delete(f"{AUTH}/invites/{invite['id']}")).status_code == 404


async def test_an_invite_for_someone_with_an_account_is_refused(ada: Account, eve: Account) -> None:
    response = await ada.client.post(f"{AUTH}/invites", json={"email": "EVE@example.com"})

    assert response.status_code == 409


async def test_an_e_mail_that_registered_meanwhile_leaves_the_invite_unused(
    anyone: httpx.AsyncClient, ada: Account
) -> None:
    invite = await ada.invite("grace@example.com")
    await register(anyone, "grace@example.com")

    assert (await accept(anyone, invite["token"])).status_code == 400
    assert [item["status"] for item in (await ada.client.get(f"{AUTH}/invites")).json()["items"]] == ["open"]


async def test_invite_tokens_are_shown_once_and_stored_hashed(ada: Account, database: Database) -> None:
    invite = await ada.invite("grace@example.com")

    assert invite["token"] not in (await ada.client.get(f"{AUTH}/invites")).text
    async with database.tenant(ada.organization_id) as conn:
        assert await conn.fetchval("SELECT token_hash FROM invites") == digest(invite["token"])


async def test_a_key_is_shown_once_and_known_by_its_prefix(ada: Account, database: Database) -> None:
    created = await ada.key()
    listed = (await ada.client.get(f"{AUTH}/api-keys")).json()["items"][0]

    assert created["key"].startswith("hg_live_")
    assert len(created["key"]) == len("hg_live_") + 43
    assert created["key"].startswith(listed["prefix"])
    assert len(listed["prefix"]) == 12
    assert listed["scopes"] == ["ingest"]
    assert "key" not in listed
    async with database.tenant(ada.organization_id) as conn:
        assert await conn.fetchval("SELECT key_hash FROM api_keys") == digest(created["key"])


async def test_a_key_knows_who_it_is_and_when_it_was_used(edge: Edge, ada: Account) -> None:
    created = await ada.key(name="ci", scopes=["read", "ingest", "read"])
    assert (await ada.client.get(f"{AUTH}/api-keys")).json()["items"][0]["last_used_at"] is None

    answer = (await me(edge, created["key"])).json()

    assert (answer["kind"], answer["name"], answer["scopes"]) == ("key", "ci", ["ingest", "read"])
    assert (answer["email"], answer["role"]) == (None, None)
    assert answer["organization"]["id"] == str(ada.organization_id)
    assert (await ada.client.get(f"{AUTH}/api-keys")).json()["items"][0]["last_used_at"] is not None


async def test_a_revoked_key_is_refused_at_once(edge: Edge, ada: Account) -> None:
    created = await ada.key(scopes=["read"])
    assert (await me(edge, created["key"])).status_code == 200

    assert (await ada.client.delete(f"{AUTH}/api-keys/{created['id']}")).status_code == 204

    refused = await me(edge, created["key"])
    assert (refused.status_code, "revoked" in refused.json()["detail"]) == (401, True)
    assert (await ada.client.get(f"{AUTH}/api-keys")).json()["items"][0]["revoked_at"] is not None
    assert (await ada.client.delete(f"{AUTH}/api-keys/{created['id']}")).status_code == 204
    assert (await ada.client.delete(f"{AUTH}/api-keys/{uuid4()}")).status_code == 404


async def test_a_key_revoked_in_one_process_is_refused_in_another(
    edge: Edge, database: Database, settings: Settings, ada: Account
) -> None:
    other = build_edge(settings, database)
    notices = Notices(database)
    notices.subscribe(NOTICES, authenticator_of(other).hear)
    created = await ada.key()
    await notices.start()
    try:
        await asyncio.sleep(0.3)
        assert (await me(other, created["key"])).status_code == 200
        await ada.client.delete(f"{AUTH}/api-keys/{created['id']}")
        await asyncio.sleep(0.3)
        assert (await me(other, created["key"])).status_code == 401
    finally:
        await notices.stop()


class SlowDatabase(Database):
    """Keeps what was read until `release` is set, and counts how often it was asked."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.asked = 0
        self.release = asyncio.Event()

    @property
    def max_size(self) -> int:
        return self._inner.max_size

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        self.asked += 1
        async with self._inner.connection() as conn:
            yield conn
        await self.release.wait()


async def test_a_lookup_that_began_before_a_revocation_is_not_remembered(
    ada: Account, database: Database, settings: Settings
) -> None:
    created = await ada.key()
    slow = SlowDatabase(database)
    authenticator = Authenticator(slow, settings)
    credentials = f"Bearer {created['key']}"
    early = asyncio.create_task(authenticator.authenticate(credentials, None))
    await asyncio.sleep(0.2)

    await ada.client.delete(f"{AUTH}/api-keys/{created['id']}")
    authenticator.forget(UUID(created["id"]))
    late = asyncio.create_task(authenticator.authenticate(credentials, None))
    slow.release.set()

    assert (await early) is not None
    for attempt in (late, authenticator.authenticate(credentials, None)):
        with pytest.raises(Unauthenticated):
            await attempt


async def test_requests_with_one_new_key_share_one_lookup(ada: Account, database: Database, settings: Settings) -> None:
    created = await ada.key()
    slow = SlowDatabase(database)
    authenticator = Authenticator(slow, settings)
    slow.release.set()

    attempts = (authenticator.authenticate(f"Bearer {created['key']}", None) for _ in range(50))
    found = await asyncio.gather(*attempts)

    assert {principal.subject_id for principal in found if principal} == {UUID(created["id"])}
    assert slow.asked == 1


async def test_unknown_keys_are_not_remembered(database: Database, settings: Settings) -> None:
    slow = SlowDatabase(database)
    slow.release.set()
    authenticator = Authenticator(slow, settings)

    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await authenticator.authenticate("Bearer hg_live_unknown", None)

    assert slow.asked == 2


async def test_an_expired_key_is_refused_although_it_is_remembered(
    edge: Edge, ada: Account, database: Database
) -> None:
    created = await ada.key(expires_in_days=1)
    expires_at = datetime.fromisoformat(created["expires_at"])
    assert timedelta(hours=23) < expires_at - datetime.now(UTC) < timedelta(hours=25)
    async with database.tenant(ada.organization_id) as conn:
        await conn.execute("UPDATE api_keys SET expires_at = now() + interval '1 second'")
    assert (await me(edge, created["key"])).status_code == 200

    await asyncio.sleep(1.1)
    refused = await me(edge, created["key"])
    assert (refused.status_code, "expired" in refused.json()["detail"]) == (401, True)


async def test_keys_cannot_make_keys(edge: Edge, ada: Account) -> None:
    created = await ada.key(scopes=["admin", "read", "write", "ingest"])
    async with client_of(edge, token=created["key"]) as client:
        response = await client.post(f"{AUTH}/api-keys", json={"name": "child"})

    assert (response.status_code, "log in" in response.json()["hint"]) == (403, True)


@pytest.mark.parametrize(
    "body",
    [{"name": "k", "scopes": []}, {"name": "k", "scopes": ["root"]}, {"name": "k", "expires_in_days": 0}, {}],
    ids=["no scope", "unknown scope", "already expired", "no name"],
)
async def test_a_bad_key_request_is_refused(ada: Account, body: dict[str, object]) -> None:
    assert (await ada.client.post(f"{AUTH}/api-keys", json=body)).status_code == 422


ROUTES = [
    ("GET", f"{AUTH}/me", None),
    ("GET", "/api/v1/organization", "read"),
    ("PATCH", "/api/v1/organization", "admin"),
    ("GET", f"{AUTH}/users", "admin"),
    ("PATCH", f"{AUTH}/users/{uuid4()}", "admin"),
    ("DELETE", f"{AUTH}/users/{uuid4()}", "admin"),
    ("GET", f"{AUTH}/invites", "admin"),
    ("POST", f"{AUTH}/invites", "admin"),
    ("DELETE", f"{AUTH}/invites/{uuid4()}", "admin"),
    ("GET", f"{AUTH}/api-keys", "admin"),
    ("POST", f"{AUTH}/api-keys", "admin"),
    ("DELETE", f"{AUTH}/api-keys/{uuid4()}", "admin"),
]


async def test_every_route_needs_its_scope(edge: Edge, anyone: httpx.AsyncClient, ada: Account) -> None:
    tokens = {scope: (await ada.key(scopes=[scope]))["key"] for scope in ("read", "write", "ingest", "admin")}
    bodies = {f"{AUTH}/invites": {"email": "x@example.com"}, f"{AUTH}/api-keys": {"name": "k"}}

    for method, path, needed in ROUTES:
        body = {"json": bodies.get(path, {"role": "viewer"} if "users" in path else {})} if method != "GET" else {}
        assert (await anyone.request(method, path, **body)).status_code == 401, (method, path)
        for scope, token in tokens.items():
            headers = {"authorization": f"Bearer {token}"}
            response = await anyone.request(method, path, headers=headers, **body)
            refused = response.status_code == 403 and "scope" in response.json()["detail"]
            assert refused == (needed is not None and scope != needed), (method, path, scope, response.text)


@pytest.mark.parametrize(
    ("role", "scopes"),
    [("admin", ["admin", "ingest", "read", "write"]), ("editor", ["read", "write"]), ("viewer", ["read"])],
)
async def test_a_role_gives_its_scopes(edge: Edge, ada: Account, role: str, scopes: list[str]) -> None:
    colleague = await a_colleague(edge, ada, "grace@example.com", role)

    assert (await colleague.client.get(f"{AUTH}/me")).json()["scopes"] == scopes


async def test_nothing_of_another_organisation_can_be_seen_or_changed(
    edge: Edge, ada: Account, eve: Account, database: Database
) -> None:
    key = await ada.key(scopes=["read"])
    invite = await ada.invite("grace@example.com")

    tried = [
        await eve.client.delete(f"{AUTH}/api-keys/{key['id']}"),
        await eve.client.delete(f"{AUTH}/invites/{invite['id']}"),
        await eve.client.delete(f"{AUTH}/users/{ada.id}"),
        await eve.client.patch(f"{AUTH}/users/{ada.id}", json={"role": "viewer"}),
    ]
    seen = [await eve.client.get(f"{AUTH}/{what}") for what in ("api-keys", "invites", "users")]
    await eve.client.patch("/api/v1/organization", json={"name": "Mine"})

    assert [response.status_code for response in tried] == [404] * 4
    assert [len(response.json()["items"]) for response in seen] == [0, 0, 1]
    assert (await me(edge, key["key"])).status_code == 200
    assert (await ada.client.get("/api/v1/organization")).json()["name"] == "Acme"
    async with database.tenant(eve.organization_id) as conn:
        # Also without any filter, the database shows only the rows of the organisation that is set.
        for table in ("organizations", "users", "api_keys", "invites", "ended_sessions", "async_task"):
            column = "id" if table == "organizations" else "organization_id"
            found = {row[0] for row in await conn.fetch(f"SELECT {column} FROM {table}")}
            assert found <= {eve.organization_id}, table
