"""Every named query against a migrated database: it can be prepared, it is used, and it names its organisation."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from headgate.server.db.embedded import EmbeddedPostgres
from headgate.server.db.migrate import migrate
from headgate.server.db.pool import SCHEMA
from tests.support.sql import SHARED_TABLES, SOURCE, Query, all_queries, tables_used, tenant_tables, without_comments

QUERIES = all_queries()
# What the caller says the organisation is; its row in organizations, which is looked up by that, says the same.
# In a trigger it is the row that says whose it is.
CALLER = r"(?:\$1\b|p_organization\b|current_organization\(\)|o\.id\b|NEW\.organization_id\b)"
by_query = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.id)


@pytest.fixture(scope="module", params=["embedded_postgres", "debian_postgres"], ids=["embedded", "debian"])
def postgres(request: pytest.FixtureRequest) -> EmbeddedPostgres:
    server: EmbeddedPostgres = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
async def migrated(postgres: EmbeddedPostgres) -> AsyncIterator[asyncpg.Connection]:
    """The application's connection to a database that was migrated just now."""
    maintenance = await asyncpg.connect(postgres.dsn(user="postgres", database="postgres"))
    await maintenance.execute("CREATE DATABASE queries")
    await migrate(postgres.dsn(user="postgres", database="queries"))
    dsn = postgres.dsn(user="headgate_app", database="queries")
    conn = await asyncpg.connect(dsn, server_settings={"search_path": SCHEMA})
    yield conn
    await conn.close()
    await maintenance.execute("DROP DATABASE queries WITH (FORCE)")
    await maintenance.close()


@by_query
async def test_every_query_can_be_prepared(migrated: asyncpg.Connection, query: Query) -> None:
    statement = await migrated.prepare(query.sql)

    given = {int(number) for number in re.findall(r"\$(\d+)", without_comments(query.sql))}
    assert len(statement.get_parameters()) == len(given) == max(given, default=0)


async def test_every_query_on_a_tenant_table_names_the_organization(migrated: asyncpg.Connection) -> None:
    """Once for each table it touches; row-level security would catch it, but a query says what it means."""
    tables = await tenant_tables(migrated)
    assert "lineage_events" in tables

    careless = [query.id for query in QUERIES if not _names_organization(query.sql, tables)]

    assert careless == []


async def test_every_function_on_a_tenant_table_names_the_organization(migrated: asyncpg.Connection) -> None:
    tables = await tenant_tables(migrated)
    functions = await migrated.fetch(
        "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'headgate'::regnamespace AND NOT prosecdef "
        "AND has_function_privilege(oid, 'EXECUTE')"
    )
    assert len(functions) > 5

    careless = [row["proname"] for row in functions if not _names_organization(row["prosrc"], tables)]

    assert careless == []


def _names_organization(sql: str, tables: list[str]) -> bool:
    used = tables_used(sql, tables)
    scoped = [table for table in used if table != "organizations"]
    mentions = len(re.findall(r"\borganization_id\b", without_comments(sql)))
    # Joined tables may follow each other, but one of them has to follow what the caller says.
    if scoped and not re.search(rf"\borganization_id(?: =|',) {CALLER}|(?:SELECT|VALUES \() *{CALLER}", sql):
        return False
    by_id = re.search(rf"\b(?:o\.)?id = (?:{CALLER}|\w+\.organization_id)|\(id, name", sql)
    return mentions >= len(scoped) and (len(scoped) == len(used) or by_id is not None)


async def test_every_table_belongs_to_an_organization_or_is_known_to_be_shared(migrated: asyncpg.Connection) -> None:
    rows = await migrated.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'headgate'::regnamespace AND relkind IN ('r', 'p') "
        "AND NOT relispartition"
    )

    assert {row["relname"] for row in rows} - set(await tenant_tables(migrated)) == SHARED_TABLES


def test_every_query_is_used() -> None:
    code = "\n".join(file.read_text() for file in SOURCE.rglob("*.py"))

    assert [query.id for query in QUERIES if not re.search(rf"\b(?:Q|_sql)\.{query.name}\b", code)] == []


def test_every_query_says_what_it_does_in_one_line() -> None:
    silent = [query.id for query in QUERIES if not re.match(r"-- \S.*\n(?!--)", query.sql)]

    assert silent == []
