"""The named queries and the tenant tables, for tests that look at all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import asyncpg

import headgate
from headgate.server.db.queries import Queries

SOURCE = Path(headgate.__file__).parent

# Tables without an organisation: the migrations' own, and secrets of the installation.
SHARED_TABLES = {"schema_migrations", "server_secrets"}

TENANT_TABLES = """
SELECT c.relname
  FROM pg_class c
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'organization_id' AND NOT a.attisdropped
 WHERE c.relnamespace = 'headgate'::regnamespace
   AND c.relkind IN ('r', 'p')
   AND NOT c.relispartition
UNION
SELECT 'organizations'
 ORDER BY 1
"""


class Query(NamedTuple):
    package: str
    name: str
    sql: str

    @property
    def id(self) -> str:
        return f"{self.package.removeprefix('headgate.server').lstrip('.') or 'server'}.{self.name}"


def all_queries() -> list[Query]:
    """Every named query of every slice."""
    found = []
    for file in sorted(SOURCE.rglob("queries.sql")):
        package = ".".join(file.parent.relative_to(SOURCE.parent).parts)
        found += [Query(package, name, sql) for name, sql in Queries(package)]
    return found


async def tenant_tables(conn: asyncpg.Connection) -> list[str]:
    return [row["relname"] for row in await conn.fetch(TENANT_TABLES)]


def tables_used(sql: str, tables: list[str]) -> list[str]:
    """The tenant tables that a statement reads or writes, once for each time that it names one."""
    # Rows copied whole bring their organisation along.
    text = re.sub(r"INSERT INTO \w+\s+SELECT \w+\.\*", "", without_comments(sql))
    pattern = rf"\b(?:FROM|JOIN|UPDATE|INTO|USING)\s+(?:ONLY\s+)?(?:headgate\.)?({'|'.join(tables)})\b"
    return re.findall(pattern, text, re.IGNORECASE)


def without_comments(sql: str) -> str:
    return re.sub(r"--[^\n]*", "", sql)
