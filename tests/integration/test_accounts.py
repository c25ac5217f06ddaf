from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import httpx
import pytest

from headgate.errors import Conflict
from headgate.server.accounts.store import AccountStore, bootstrap, slug_of
from headgate.server.db.pool import Database
from headgate.server.edge import Edge
from headgate.server.tasks.jobs import KINDS
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.support.edge import (
    AUTH,
    PASSWORD,
    Account,
    a_colleague,
    build_edge,
    client_of,
    login,
    me,
    register,
    unlimited,
)
from tests.support.events import an_event
from tests.support.server import Server


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


async def test_registering_makes_an_organisation_and_logs_its_admin_in(anyone: httpx.AsyncClient) -> None:
    response = await anyone.post(
        f"{AUTH}/register", json={"email": " Ada@Example.COM ", "password": PASSWORD, "name": "Ada"}
    )

    body = response.json()
    assert response.status_code == 201
    assert body["organization"]["name"] == "Ada's organisation"
    assert (body["user"]["email"], body["user"]["role"]) == ("ada@example.com", "admin")
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith("headgate_session=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    # The cookie alone is enough from here on.
    assert (await anyone.get(f"{AUTH}/me")).json()["email"] == "ada@example.com"


async def test_the_cookie_is_secure_behind_https(database: Database, settings: Settings) -> None:
    edge = build_edge(settings.model_copy(update={"public_url": "https://lineage.example.com"}), database)
    async with client_of(edge) as client:
        body = {"email": "a@example.com", "password": PASSWORD, "name": "Ada"}
        response = await client.post(f"{AUTH}/register", json=body)

    assert "secure" in response.headers["set-cookie"].lower()


async def test_an_e_mail_has_one_account_whatever_its_case(anyone: httpx.AsyncClient, ada: Account) -> None:
    body = {"email": "ADA@example.com", "password": PASSWORD, "name": "Ada"}
    response = await anyone.post(f"{AUTH}/register", json=body)

    assert (response.status_code, response.json()["code"]) == (400, "account.taken")
    assert "ada@example.com" in response.json()["detail"]


async def test_of_two_registrations_at_once_one_wins(anyone: httpx.AsyncClient, database: Database) -> None:
    body = {"email": "a@example.com", "password": PASSWORD, "name": "Ada"}
    answers = await asyncio.gather(*(anyone.post(f"{AUTH}/register", json=body) for _ in range(4)))

    assert sorted(answer.status_code for answer in answers) == [201, 400, 400, 400]


async def test_organisation_names_may_repeat_and_codes_do_not(ada: Account, eve: Account) -> None:
    first = (await ada.client.get("/api/v1/organization")).json()
    second = (await eve.client.get("/api/v1/organization")).json()

    assert first["name"] == second["name"] == "Acme"
    assert first["slug"] == "acme"
    assert second["slug"].startswith("acme-")
    assert first["tenant_code"] != second["tenant_code"]
    assert first["tenant_id"] != second["tenant_id"]


async def test_workers_give_an_organisation_its_recurring_work(ada: Account, database: Database) -> None:
    await Worker(database, KINDS).schedule()
    async with database.tenant(ada.organization_id) as conn:
        rows = await conn.fetch("SELECT task_type, repeat_s FROM async_task ORDER BY task_type")

    assert [tuple(row) for row in rows] == [
        ("CLEAN_KEYS", 600),
        ("CLEAN_REFUSED", 3600),
        ("CLEAN_TASKS", 600),
        ("INDEX_SEARCH", 60),
        ("SETTLE_STATS", 60),
    ]


async def test_registration_can_be_switched_off(database: Database, settings: Settings) -> None:
    edge = build_edge(settings.model_copy(update={"allow_registration": False}), database)
    async with client_of(edge) as client:
        body = {"email": "a@example.com", "password": PASSWORD, "name": "Ada"}
        response = await client.post(f"{AUTH}/register", json=body)

    assert (response.status_code, "invite" in response.json()["hint"]) == (403, True)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"password": "too short"}, "password"),
        ({"password": "ä" * 513}, "password"),
        ({"email": "nobody"}, "email"),
        ({"email": "a b@example.com"}, "email"),
        ({"email": "a@b@example.com"}, "email"),
        ({"email": "x" * 250 + "@example.com"}, "email"),
        ({"name": "   "}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a\0b"}, "name"),
        ({"name": "x" * 201}, "name"),
        ({"name": 7}, "name"),
        ({"email": "a\0@example.com"}, "email"),
        ({"password": "0123456789\0"}, "password"),
        ({"organization_name": "a\0b"}, "organization_name"),
        ({"role": "admin"}, "role"),
    ],
    ids=lambda value: repr(value)[:40] if isinstance(value, dict) else None,
)
async def test_bad_fields_are_named_and_secrets_not_repeated(
    anyone: httpx.AsyncClient, change: dict[str, object], path: str
) -> None:
    body = {"email": "a@example.com", "password": PASSWORD, "name": "Ada", **change}
    response = await anyone.post(f"{AUTH}/register", json=body)

    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [path]
    assert body["password"] not in response.text


BROKEN_BODIES = {
    "empty": (b"", 422),
    "cut": (b"{", 400),
    "utf-16": (b"\xff\xfe{}", 400),
    "latin-1": (b'{"email": "\xff"}', 400),
    "list": (b"[]", 422),
    "null": (b"null", 422),
    "nan": (b"NaN", 422),
    "deeper than any parser goes": (b"[" * 100_000, 400),
    "as deep as the parser goes": (b'{"a":' * 900 + b"1" + b"}" * 900, 422),
    "half a surrogate pair": (b'{"email": "\\ud800", "password": "0123456789", "name": "x"}', 422),
    "huge number": (b'{"email": 1' + b"0" * 5000 + b"}", 400),
}


@pytest.mark.parametrize("route", ["register", "login", "invites/accept"])
async def test_no_body_breaks_the_server(anyone: httpx.AsyncClient, route: str) -> None:
    headers = {"content-type": "application/json"}
    for name, (content, status) in BROKEN_BODIES.items():
        response = await anyone.post(f"{AUTH}/{route}", content=content, headers=headers)

        assert response.status_code == status, (name, response.text)
        assert response.headers["content-type"] == "application/problem+json"


async def test_login_ignores_the_case_of_the_e_mail(edge: Edge, anyone: httpx.AsyncClient, ada: Account) -> None:
    response = await login(anyone, "ADA@Example.com")

    assert response.status_code == 200
    assert response.json()["user"]["last_login_at"] is not None
    assert (await me(edge, response.json()["token"])).json()["id"] == ada.id


async def test_a_wrong_password_and_an_unknown_e_mail_are_answered_alike(
    anyone: httpx.AsyncClient, ada: Account
) -> None:
    wrong = await login(anyone, "ada@example.com", "not the password")
    unknown = await login(anyone, "nobody@example.com", "not the password")

    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json()["detail"] == unknown.json()["detail"]
    assert "set-cookie" not in wrong.headers


async def test_the_password_is_stored_as_argon2id_only(ada: Account, database: Database) -> None:
    async with database.tenant(ada.organization_id) as conn:
        stored = await conn.fetchval("SELECT password_hash FROM users")

    assert stored.startswith("$argon2id$")


async def test_a_new_role_counts_at_once_for_open_sessions(edge: Edge, ada: Account) -> None:
    grace = await a_colleague(edge, ada, "grace@example.com", "admin")
    assert (await grace.client.get(f"{AUTH}/users")).status_code == 200

    changed = await ada.client.patch(f"{AUTH}/users/{grace.id}", json={"role": "viewer"})

    assert changed.json()["role"] == "viewer"
    assert (await grace.client.get(f"{AUTH}/users")).status_code == 403
    assert (await grace.client.get("/api/v1/organization")).status_code == 200


async def test_a_removed_user_is_out_at_once(edge: Edge, anyone: httpx.AsyncClient, ada: Account) -> None:
    grace = await a_colleague(edge, ada, "grace@example.com", "editor")
    assert (await grace.client.get(f"{AUTH}/me")).status_code == 200

    assert (await ada.client.delete(f"{AUTH}/users/{grace.id}")).status_code == 204

    assert (await grace.client.get(f"{AUTH}/me")).status_code == 401
    assert (await login(anyone, "grace@example.com")).status_code == 401
    assert (await ada.client.delete(f"{AUTH}/users/{grace.id}")).status_code == 404


async def test_the_last_admin_can_neither_be_demoted_nor_removed(edge: Edge, ada: Account) -> None:
    await a_colleague(edge, ada, "grace@example.com", "editor")

    demoted = await ada.client.patch(f"{AUTH}/users/{ada.id}", json={"role": "editor"})
    removed = await ada.client.delete(f"{AUTH}/users/{ada.id}")
    kept = await ada.client.patch(f"{AUTH}/users/{ada.id}", json={"role": "admin"})

    assert (demoted.status_code, removed.status_code, kept.status_code) == (409, 409, 200)
    assert "last admin" in demoted.json()["detail"]


async def test_two_admins_who_demote_each_other_at_once_leave_one(edge: Edge, ada: Account, database: Database) -> None:
    grace = await a_colleague(edge, ada, "grace@example.com", "admin")

    async def demote(account: Account) -> None:
        async with database.tenant(ada.organization_id) as conn:
            await AccountStore(conn, ada.organization_id).set_role(UUID(account.id), "viewer")

    async with database.tenant(ada.organization_id) as conn:
        await AccountStore(conn, ada.organization_id).set_role(UUID(grace.id), "viewer")
        second = asyncio.create_task(demote(ada))
        await asyncio.sleep(0.3)

    with pytest.raises(Conflict, match="last admin"):
        await second


async def test_lists_come_in_pages_without_gaps_or_repeats(edge: Edge, ada: Account) -> None:
    made = [(await ada.key(name=f"k{number}"))["name"] for number in range(7)]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        query = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = (await ada.client.get(f"{AUTH}/api-keys", params=query)).json()
        seen += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert seen == made[::-1]


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=AAAA", "cursor=%ff%fe"])
async def test_a_bad_page_is_refused(ada: Account, query: str) -> None:
    assert (await ada.client.get(f"{AUTH}/users?{query}")).status_code == 422


async def test_settings_change_one_by_one_and_are_announced(ada: Account, database: Database) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with database.connection() as conn:

        def hear(_conn: object, _pid: int, _channel: str, payload: str) -> None:
            heard.put_nowait(payload)

        await conn.add_listener("headgate_organization", hear)
        first = await ada.client.patch("/api/v1/organization", json={"settings": {"validation": "lenient"}})
        second = await ada.client.patch("/api/v1/organization", json={"settings": {"require_event_type": True}})
        announced = [await asyncio.wait_for(heard.get(), 5) for _ in range(2)]
        await conn.remove_listener("headgate_organization", hear)

    assert first.json()["settings"]["validation"] == "lenient"
    assert second.json()["settings"] == {
        "validation": "lenient",
        "require_event_type": True,
        "default_namespace": "default",
    }
    assert announced == [str(ada.organization_id)] * 2


async def test_a_new_setting_counts_for_the_next_event(server: Server) -> None:
    event = {name: value for name, value in an_event("COMPLETE").items() if name != "schemaURL"}
    refused = await server.tenant.send(event)

    await server.client.patch("/api/v1/organization", json={"settings": {"validation": "lenient"}})

    assert (refused.status_code, (await server.tenant.send(event)).status_code) == (422, 201)


@pytest.mark.parametrize(
    ("settings_in", "path"),
    [
        ({"colour": "red"}, "settings.colour"),
        ({"validation": "lax"}, "settings.validation"),
        ({"validation": None}, "settings.validation"),
        ({"default_namespace": ""}, "settings.default_namespace"),
        ({"default_namespace": "a\0b"}, "settings.default_namespace"),
    ],
    ids=["unknown", "bad value", "null", "empty", "nul"],
)
async def test_a_bad_setting_is_refused_by_name(ada: Account, settings_in: dict[str, object], path: str) -> None:
    response = await ada.client.patch("/api/v1/organization", json={"settings": settings_in})

    assert (response.status_code, response.json()["errors"][0]["path"]) == (422, path)


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Acme", "acme"),
        ("Ada's Bücher & Co.", "ada-s-bucher-co"),
        ("数据", "organization"),
        ("x" * 90, "x" * 40),
    ],
)
def test_a_slug_is_plain_and_short(name: str, slug: str) -> None:
    assert slug_of(name) == slug


def first_start() -> dict[str, str]:
    return {
        "organization": "Local",
        "email": "admin@localhost",
        "password": "a first password",
        "api_key": "hg_live_given",
    }


async def counts(database: Database, token: str, edge: Edge) -> tuple[int, int, int]:
    organization_id = UUID((await me(edge, token)).json()["organization"]["id"])
    async with database.tenant(organization_id) as conn:
        row = await conn.fetchrow(
            "SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM api_keys), (SELECT count(*) FROM organizations)"
        )
    return tuple(row)  # type: ignore[return-value]  # three counts


async def test_the_first_start_makes_what_was_given_and_later_starts_nothing(
    edge: Edge, anyone: httpx.AsyncClient, database: Database
) -> None:
    await asyncio.gather(*(bootstrap(database, **first_start()) for _ in range(3)))
    await bootstrap(database, **first_start())

    assert (await login(anyone, "admin@localhost", "a first password")).json()["user"]["role"] == "admin"
    answer = (await me(edge, "hg_live_given")).json()
    assert (answer["organization"]["name"], len(answer["scopes"])) == ("Local", 4)
    assert await counts(database, "hg_live_given", edge) == (1, 1, 1)


async def test_a_start_that_lost_its_key_makes_it_in_the_same_organisation(edge: Edge, database: Database) -> None:
    await bootstrap(database, **first_start())
    await bootstrap(database, **{**first_start(), "api_key": "hg_live_second"})

    assert await counts(database, "hg_live_given", edge) == (1, 2, 1)


async def test_a_later_start_does_not_bring_back_what_was_taken_away(edge: Edge, database: Database) -> None:
    await bootstrap(database, **first_start())
    async with client_of(edge, token="hg_live_given") as client:
        key = (await client.get(f"{AUTH}/api-keys")).json()["items"][0]
        await client.delete(f"{AUTH}/api-keys/{key['id']}")

    await bootstrap(database, **first_start())

    assert (await me(edge, "hg_live_given")).status_code == 401


async def test_the_application_role_cannot_read_another_organisations_secrets(database: Database) -> None:
    await bootstrap(database, **first_start())
    async with database.transaction() as conn:
        assert await conn.fetchval("SELECT count(*) FROM api_keys") == 0
        assert await conn.fetchval("SELECT count(*) FROM users") == 0
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await conn.execute("DELETE FROM server_secrets")
