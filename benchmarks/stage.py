"""Where the benchmark runs: a PostgreSQL of its own with the settings of `headgate up`, and databases in it."""

from __future__ import annotations

import os
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import asyncpg

from headgate.server.accounts.store import bootstrap
from headgate.server.db.embedded import EmbeddedPostgres
from headgate.server.db.migrate import OWNER_ROLE, migrate
from headgate.server.db.pool import APP_ROLE, SCHEMA, Database

_began = time.monotonic()


def say(text: str) -> None:
    """Progress, to stderr: stdout is for the figures."""
    print(f"[{time.monotonic() - _began:6.1f} s] {text}", file=sys.stderr, flush=True)


def elapsed_s() -> float:
    return time.monotonic() - _began


@dataclass(frozen=True)
class Organization:
    id: UUID
    api_key: str


class Stage:
    """The server and its databases, made as they are asked for."""

    def __init__(self, postgres: EmbeddedPostgres, directory: Path) -> None:
        self._postgres = postgres
        self._directory = directory

    async def create(self, name: str) -> Store:
        conn = await asyncpg.connect(self._postgres.dsn(user="postgres", database="postgres"))
        await conn.execute(f"CREATE DATABASE {name}")
        await conn.close()
        admin_dsn = self._postgres.dsn(user="postgres", database=name)
        await migrate(admin_dsn)
        return Store(name, admin_dsn, self._postgres.dsn(user=APP_ROLE, database=name))

    def sync_ms(self, rounds: int = 100) -> float:
        """How long this disk takes to make one page durable: half of what a lone commit costs."""
        path = self._directory / "sync-probe"
        handle = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
        times = []
        for _ in range(rounds):
            os.pwrite(handle, bytes(8192), 0)
            began = time.perf_counter()
            os.fdatasync(handle)
            times.append(time.perf_counter() - began)
        os.close(handle)
        path.unlink()
        return statistics.median(times) * 1000


@dataclass(frozen=True)
class Store:
    """One migrated database."""

    name: str
    admin_dsn: str
    application_dsn: str

    @asynccontextmanager
    async def application(self, connections: int) -> AsyncIterator[Database]:
        database = Database(self.application_dsn, max_size=connections)
        try:
            yield database
        finally:
            await database.close()

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[asyncpg.Connection]:
        conn = await asyncpg.connect(self.admin_dsn, server_settings={"search_path": SCHEMA})
        try:
            await conn.execute(f"SET ROLE {OWNER_ROLE}")
            yield conn
        finally:
            await conn.close()

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[asyncpg.Connection]:
        """A superuser's connection outside of Headgate's schema."""
        conn = await asyncpg.connect(self.admin_dsn, server_settings={"search_path": "public"})
        try:
            yield conn
        finally:
            await conn.close()

    async def add_organization(self, name: str) -> Organization:
        api_key = f"hg_live_{secrets.token_urlsafe(32)}"
        async with self.application(2) as database:
            email = f"admin@{name.lower().replace(' ', '-')}.example.org"
            await bootstrap(database, organization=name, email=email, password=secrets.token_hex(8), api_key=api_key)
        async with self.plain() as conn:
            found: UUID = await conn.fetchval("SELECT id FROM headgate.organizations WHERE name = $1", name)
        return Organization(found, api_key)

    async def size(self) -> int:
        async with self.plain() as conn:
            size: int = await conn.fetchval("SELECT pg_database_size(current_database())")
        return size


@contextmanager
def stage() -> Iterator[Stage]:
    """A PostgreSQL with real durability, gone with all its data afterwards."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as name:
        postgres = EmbeddedPostgres(Path(name) / "postgres")
        postgres.start()
        try:
            yield Stage(postgres, Path(name))
        finally:
            postgres.remove()
