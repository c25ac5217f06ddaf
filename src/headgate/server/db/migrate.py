"""Brings a database to this version: roles, schema, then each migration file once, under one lock."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources

import asyncpg

from headgate.errors import MigrationError
from headgate.server.db.pool import SCHEMA, Connection

OWNER_ROLE = "headgate_owner"
_LOCK = 7_208_642
# Roles belong to the whole server, locks to one database: a migration of another one may be making the same roles.
_MADE_MEANWHILE = (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError, asyncpg.InternalServerError)
_ROLE_TRIES = 5
_FILE = re.compile(r"^(?P<version>\d{4})_(?:pre|post)_[a-z0-9_]+\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations() -> list[Migration]:
    """Every migration file in order; a misnamed or repeated number is refused."""
    found: dict[int, Migration] = {}
    for entry in resources.files("headgate.server.db.migrations").iterdir():
        if not entry.name.endswith(".sql"):
            continue
        match = _FILE.match(entry.name)
        if match is None:
            raise MigrationError(f"{entry.name!r} is not named NNNN_pre_what.sql or NNNN_post_what.sql")
        version = int(match["version"])
        if version in found:
            raise MigrationError(f"two migrations share the number {version:04}: {found[version].name}, {entry.name}")
        found[version] = Migration(version, entry.name, entry.read_text(encoding="utf-8"))
    return [found[version] for version in sorted(found)]


async def migrate(dsn: str) -> list[str]:
    """Apply what is missing and return the names of the files applied."""
    conn = await asyncpg.connect(dsn, server_settings={"search_path": SCHEMA, "timezone": "UTC"})
    try:
        await conn.execute("SELECT pg_advisory_lock($1)", _LOCK)
        await _prepare(conn)
        return await _apply_missing(conn)
    finally:
        await conn.close()


async def is_current(conn: Connection) -> bool:
    """Whether every migration of this version has been applied."""
    try:
        applied = await conn.fetchval("SELECT count(*) FROM schema_migrations")
    except asyncpg.UndefinedTableError:
        return False
    return bool(applied >= len(migrations()))


async def _prepare(conn: Connection) -> None:
    try:
        await _make_roles(conn)
        await conn.execute(f"SET ROLE {OWNER_ROLE}")
    except asyncpg.InsufficientPrivilegeError as error:
        user = await conn.fetchval("SELECT session_user")
        raise MigrationError(
            f"the database role {user!r} may not prepare the database: {error}",
            hint="connect as a role with CREATEROLE and CREATE on the database, or make the roles by hand as in "
            "docs/operations.md, and name it in HEADGATE_MIGRATION_URL",
        ) from error


async def _make_roles(conn: Connection) -> None:
    sql = resources.files("headgate.server.db").joinpath("roles.sql").read_text(encoding="utf-8")
    for _ in range(_ROLE_TRIES - 1):
        with suppress(*_MADE_MEANWHILE):
            await conn.execute(sql)
            return
    await conn.execute(sql)


async def _apply_missing(conn: Connection) -> list[str]:
    rows = await conn.fetch("SELECT version, checksum FROM schema_migrations")
    applied = {row["version"]: row["checksum"] for row in rows}
    done = []
    for migration in migrations():
        if migration.version in applied:
            _check_unchanged(migration, applied[migration.version])
            continue
        await _apply(conn, migration)
        done.append(migration.name)
    return done


def _check_unchanged(migration: Migration, checksum: str) -> None:
    if migration.checksum != checksum:
        raise MigrationError(
            f"{migration.name} differs from what was applied to this database",
            hint="an applied migration never changes; put the change into a new file",
        )


async def _apply(conn: Connection, migration: Migration) -> None:
    try:
        async with conn.transaction():
            await conn.execute(migration.sql)
            await conn.execute(
                "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration.name} failed: {error}", hint="nothing of it was kept") from error
