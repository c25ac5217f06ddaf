"""Two organisations with the same names and run ids: no row of one is seen or touched by the other."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import httpx
import pytest

from headgate.errors import HeadgateError
from headgate.server.db.pool import Database, set_organization
from headgate.settings import Settings
from tests.conftest import Cluster
from tests.support.events import an_event
from tests.support.full_event import a_full_event
from tests.support.probes import Operation, Probe, operations, probes
from tests.support.server import running_server
from tests.support.sql import SHARED_TABLES
from tests.support.two_tenants import MARK, SHARED_RUN, TwoTenants, fill, owner

# Work before the organisation is known, and the making of partitions, which reads no rows.
DEFINERS = {
    "authenticate_key",
    "find_login",
    "find_due_organizations",
    "schedule_recurring",
    "count_due_tasks",
    "ensure_partitions",
}


@pytest.fixture(scope="module")
async def database_dsn(cluster: Cluster) -> AsyncIterator[str]:
    name = await cluster.create()
    yield cluster.app_dsn(name)
    await cluster.drop(name)


@pytest.fixture(scope="module")
async def both(cluster: Cluster, database_dsn: str) -> AsyncIterator[TwoTenants]:
    database = Database(database_dsn, max_size=8)
    db = await asyncpg.connect(
        database_dsn.replace("headgate_app@", "postgres@"), server_settings={"search_path": "headgate"}
    )
    unlimited = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    async with running_server(unlimited, database) as server:
        yield await fill(server, db)
    await db.close()
    await database.close()


@pytest.fixture
async def app(both: TwoTenants, database_dsn: str) -> AsyncIterator[asyncpg.Connection]:
    """A bare connection of the application's role, in a transaction that is taken back."""
    conn = await asyncpg.connect(database_dsn, server_settings={"search_path": "headgate"})
    transaction = conn.transaction()
    await transaction.start()
    yield conn
    await transaction.rollback()
    await conn.close()


async def test_both_organisations_have_rows_in_every_table(both: TwoTenants) -> None:
    """Without this the other tests would prove nothing."""
    for table in both.tables:
        assert await both.count(table, both.first) > 0, table
        assert await both.count(table, both.second) > 0, table


async def test_no_operation_shows_or_changes_another_organisations_rows(both: TwoTenants) -> None:
    secrets = await both.secrets()
    forbidden = {secret for ids in secrets.values() for secret in ids}
    # One id of each column is enough to ask for; all of them are looked for.
    asked = sorted({min(ids) for ids in secrets.values()} | {SHARED_RUN})
    texts = [MARK, f"{MARK}_pattern", "shared_pattern"]
    document = both.server.app.api.openapi()
    before = await both.snapshot()
    tried = 0

    # Reading first: what the second organisation writes below holds the first one's ids as its own texts.
    for operation in sorted(operations(document), key=lambda operation: operation.method != "get"):
        if operation.is_endless or (operation.is_public and operation.method != "get"):
            continue
        for probe in probes(document, operation, asked, texts):
            response = await _ask(both.second.client, probe)
            _assert_nothing_leaks(operation, probe, response, forbidden)
            tried += 1

    assert tried > 200
    assert await both.snapshot() == before


async def _ask(client: httpx.AsyncClient, probe: Probe) -> httpx.Response:
    return await client.request(probe.method, probe.url, params=probe.params, json=probe.body)


def _assert_nothing_leaks(operation: Operation, probe: Probe, response: httpx.Response, forbidden: set[str]) -> None:
    sent = f"{probe.url} {probe.body}"
    leaked = [secret for secret in forbidden if secret in response.text and secret not in sent]
    assert leaked == [], (operation.id, probe)
    assert MARK not in response.text or MARK in sent, (operation.id, response.text)
    assert response.status_code < 500, (operation.id, response.text)
    names_a_secret = any(secret in probe.url for secret in forbidden)
    assert not (names_a_secret and response.is_success), (operation.id, probe, response.text)


async def test_a_cursor_of_another_organisation_leads_to_ones_own_rows(both: TwoTenants) -> None:
    forbidden = {secret for ids in (await both.secrets()).values() for secret in ids}
    document = both.server.app.api.openapi()
    followed = 0
    for operation in operations(document):
        takes = {parameter["name"] for parameter in operation.parameters("query")}
        if operation.method != "get" or "cursor" not in takes or operation.parameters("path"):
            continue
        theirs = (await both.first.client.get(operation.path, params={"limit": 1})).json()
        if theirs["next_cursor"] is None:
            continue
        mine = await both.second.client.get(operation.path, params={"cursor": theirs["next_cursor"]})
        assert mine.status_code == 200
        assert [secret for secret in forbidden if secret in mine.text] == []
        followed += 1
    assert followed >= 3


async def test_ingest_of_the_same_names_and_runs_stays_ones_own(both: TwoTenants) -> None:
    before = await both.snapshot()
    runs = await both.count("job_runs", both.second)

    await both.second.send_ok(a_full_event(run=SHARED_RUN) | {"producer": "https://example.org/again"}, an_event())
    answer = await both.second.send(an_event("FAIL", run=SHARED_RUN, time="2026-03-01T09:00:00Z"))

    assert answer.status_code == 201
    assert (await both.second.run(SHARED_RUN))["state"] == "FAIL"
    assert (await both.first.run(SHARED_RUN))["state"] == "COMPLETE"
    assert await both.count("job_runs", both.second) == runs + 1
    assert await both.snapshot() == before


async def test_the_same_event_is_no_duplicate_in_another_organisation(both: TwoTenants) -> None:
    event = an_event()

    answers = [(await tenant.send(event)).status_code for tenant in (both.first, both.second, both.first)]

    assert answers == [201, 201, 200]


async def test_a_query_without_filters_sees_the_own_rows_only(both: TwoTenants, app: asyncpg.Connection) -> None:
    await set_organization(app, both.second.organization_id)

    for table in both.tables:
        seen = await app.fetch(f"SELECT {owner(table)} AS owner FROM {table}")
        assert {row["owner"] for row in seen} == {both.second.organization_id}, table
        assert len(seen) == await both.count(table, both.second), table


@pytest.mark.parametrize("value", [None, "", "00000000-0000-0000-0000-000000000000"])
async def test_without_an_organisation_there_are_no_rows(
    both: TwoTenants, app: asyncpg.Connection, value: str | None
) -> None:
    if value is not None:
        await app.execute("SELECT set_config('headgate.organization_id', $1, true)", value)

    for table in both.tables:
        assert await app.fetchval(f"SELECT count(*) FROM {table}") == 0, table


async def test_views_show_the_own_rows_only(both: TwoTenants, app: asyncpg.Connection) -> None:
    rows = await both.db.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'headgate'::regnamespace AND relkind IN ('v', 'm')"
    )
    views = [row["relname"] for row in rows]
    assert len(views) >= 4
    for view in views:
        assert await app.fetchval(f"SELECT count(*) FROM {view}") == 0, view
    await set_organization(app, both.second.organization_id)
    seen = {view: await app.fetch(f"SELECT organization_id FROM {view}") for view in views}
    assert {row["organization_id"] for rows in seen.values() for row in rows} == {both.second.organization_id}
    assert len([view for view in views if seen[view]]) >= 4


@pytest.mark.parametrize("statement", ["UPDATE", "DELETE"])
async def test_a_change_without_filters_touches_the_own_rows_only(
    both: TwoTenants, app: asyncpg.Connection, statement: str
) -> None:
    before = await both.snapshot()
    await set_organization(app, both.second.organization_id)

    for table in both.tables:
        sql = f"DELETE FROM {table}" if statement == "DELETE" else f"UPDATE {table} SET {owner(table)} = {owner(table)}"
        try:
            async with app.transaction():
                done = await app.execute(sql)
                assert int(done.split()[-1]) == await both.count(table, both.second), table
                raise asyncpg.InsufficientPrivilegeError
        except asyncpg.InsufficientPrivilegeError:
            pass

    assert await both.snapshot() == before


async def test_rows_cannot_be_given_to_another_organisation(both: TwoTenants, app: asyncpg.Connection) -> None:
    await set_organization(app, both.second.organization_id)

    for table in both.tables:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with app.transaction():
                await app.execute(f"UPDATE {table} SET {owner(table)} = $1", both.first.organization_id)


@pytest.mark.parametrize("known", [True, False], ids=["as_another", "as_nobody"])
async def test_rows_cannot_be_made_for_another_organisation(
    both: TwoTenants, app: asyncpg.Connection, known: bool
) -> None:
    if known:
        await set_organization(app, both.second.organization_id)

    for table in both.tables:
        columns = ", ".join(await _own_columns(both.db, table))
        row = await both.db.fetchval(
            f"SELECT to_jsonb(t) FROM {table} t WHERE {owner(table)} = $1 LIMIT 1", both.first.organization_id
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
            async with app.transaction():
                await app.execute(
                    f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE "
                    f"SELECT {columns} FROM jsonb_populate_record(NULL::{table}, $1)",
                    row,
                )


async def _own_columns(db: asyncpg.Connection, table: str) -> list[str]:
    rows = await db.fetch(
        "SELECT quote_ident(attname) AS name FROM pg_attribute "
        "WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        table,
    )
    return [row["name"] for row in rows]


@pytest.mark.parametrize(
    "attempt",
    [
        "SET ROLE headgate_owner",
        "SET ROLE postgres",
        "SET SESSION AUTHORIZATION headgate_owner",
        "ALTER TABLE job_runs DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE job_runs NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY organization ON job_runs",
        "CREATE POLICY all_rows ON job_runs USING (true)",
        "ALTER ROLE headgate_app BYPASSRLS",
        "GRANT headgate_owner TO headgate_app",
        "CREATE TABLE headgate.mine (id integer)",
        "SELECT count(*) FROM lineage_events_default",
        "TRUNCATE job_runs",
        "COPY job_runs TO PROGRAM 'cat'",
    ],
)
async def test_the_application_cannot_lift_its_own_limits(app: asyncpg.Connection, attempt: str) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await app.execute(attempt)
    assert isinstance(refused.value, asyncpg.InsufficientPrivilegeError | asyncpg.InvalidParameterValueError)


async def test_switching_row_security_off_gives_an_error_and_no_rows(app: asyncpg.Connection) -> None:
    await app.execute("SET LOCAL row_security = off")

    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await app.fetch("SELECT * FROM job_runs")


async def test_a_superusers_address_is_subject_to_the_policies_too(both: TwoTenants, database_dsn: str) -> None:
    database = Database(database_dsn.replace("headgate_app@", "postgres@"), max_size=2)
    try:
        # Twice: what comes back to the pool is reset, and must not become the superuser again.
        for _ in range(2):
            async with database.connection() as conn:
                assert await conn.fetchval("SELECT current_user") == "headgate_app"
                assert await conn.fetchval("SELECT session_user") == "postgres"
                for table in both.tables:
                    assert await conn.fetchval(f"SELECT count(*) FROM {table}") == 0, table
            async with database.tenant(both.second.organization_id) as conn:
                for table in both.tables:
                    number = await conn.fetchval(f"SELECT count(*) FROM {table}")
                    assert number == await both.count(table, both.second), table
    finally:
        await database.close()


async def test_a_role_that_cannot_become_the_application_is_refused(both: TwoTenants, database_dsn: str) -> None:
    await both.db.execute("CREATE ROLE stranger LOGIN")
    database = Database(database_dsn.replace("headgate_app@", "stranger@"), max_size=2)
    try:
        with pytest.raises(HeadgateError):
            async with database.connection():
                pass
    finally:
        await database.close()
        await both.db.execute("DROP ROLE stranger")


async def test_an_organisation_does_not_stay_set_after_its_transaction(both: TwoTenants, database_dsn: str) -> None:
    database = Database(database_dsn, max_size=1)
    try:
        async with database.tenant(both.first.organization_id) as conn:
            assert await conn.fetchval("SELECT count(*) FROM job_runs") > 0
        async with database.connection() as conn:
            assert await conn.fetchval("SELECT count(*) FROM job_runs") == 0
    finally:
        await database.close()


async def test_row_level_security_is_on_and_forced_for_every_table(db: asyncpg.Connection) -> None:
    rows = await db.fetch(
        "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity AS forced, pg_get_userbyid(c.relowner) AS owner "
        "FROM pg_class c WHERE c.relnamespace = 'headgate'::regnamespace AND c.relkind IN ('r', 'p')"
    )
    assert len(rows) > 30

    assert {row["relname"] for row in rows if not row["forced"]} == SHARED_TABLES
    assert {row["owner"] for row in rows} == {"headgate_owner"}


async def test_every_tenant_table_has_the_one_policy_for_the_application(db: asyncpg.Connection) -> None:
    """Policies that see everything exist for the owner only, on the tables of the three functions."""
    rows = await db.fetch("SELECT tablename, policyname, roles, qual FROM pg_policies WHERE schemaname = 'headgate'")
    for row in rows:
        if row["roles"] == ["headgate_owner"]:
            assert row["tablename"] in {
                "api_keys",
                "users",
                "invites",
                "organizations",
                "async_task",
                "async_task_attempt",
                "async_batch",
            }
        else:
            assert row["roles"] == ["public"]
            assert row["policyname"] == "organization"
            assert "= ( SELECT current_organization() " in row["qual"]


async def test_the_roles_can_do_no_more_than_they_must(db: asyncpg.Connection) -> None:
    rows = await db.fetch(
        "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication, rolcanlogin "
        "FROM pg_roles WHERE rolname LIKE 'headgate%'"
    )
    roles = {row["rolname"]: dict(row) for row in rows}
    assert set(roles) == {"headgate_owner", "headgate_app"}
    for role in roles.values():
        assert not any(role[power] for power in role if power not in {"rolname", "rolcanlogin"}), role
    assert not roles["headgate_owner"]["rolcanlogin"]
    assert not await db.fetchval("SELECT pg_has_role('headgate_app', 'headgate_owner', 'MEMBER')")
    owned = "SELECT count(*) FROM {} WHERE {} = 'headgate_app'::regrole"
    for catalog, column in (("pg_class", "relowner"), ("pg_proc", "proowner"), ("pg_namespace", "nspowner")):
        assert await db.fetchval(owned.format(catalog, column)) == 0


async def test_exactly_the_known_functions_run_as_their_owner(db: asyncpg.Connection) -> None:
    rows = await db.fetch(
        "SELECT p.proname, p.proconfig, pg_get_userbyid(p.proowner) AS owner, "
        "EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0) AS is_public "
        "FROM pg_proc p WHERE p.pronamespace = 'headgate'::regnamespace AND p.prosecdef"
    )

    assert {row["proname"] for row in rows} == DEFINERS
    for row in rows:
        assert row["owner"] == "headgate_owner"
        assert "search_path=headgate, pg_temp" in row["proconfig"]
        assert not row["is_public"]


async def test_the_known_functions_answer_about_the_one_row_they_are_asked_for(
    both: TwoTenants, app: asyncpg.Connection
) -> None:
    assert await app.fetch("SELECT * FROM authenticate_key($1)", b"unknown") == []
    assert await app.fetch("SELECT * FROM find_login($1, $2)", "%", b"%") == []
    assert await app.fetch("SELECT * FROM find_login(NULL, NULL)") == []
    found = await app.fetch("SELECT * FROM find_login($1, NULL)", both.first.email.upper())
    assert [row["organization_id"] for row in found] == [both.first.organization_id]
