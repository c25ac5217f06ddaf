"""Real PostgreSQL for every test that needs one: a server a session, a copy of a migrated template a test."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from headgate.server.db.embedded import EmbeddedPostgres, debian_binaries
from headgate.server.db.migrate import migrate
from headgate.server.db.pool import Database
from headgate.settings import Settings
from tests.support.absent import lacking
from tests.support.server import Server, running_server
from tests.support.spark_jobs import quick_java

TEMPLATE = "headgate_template"
_numbers = itertools.count(1)

# Durability is the embedded tests' business; here it would only cost time.
FAST = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_wal_size": "256MB",
}
# One test of each takes minutes, and the processes that it starts take most of them.
LONGEST = frozenset({"test_demo.py", "test_tasks_killed.py"})
# What the servers of two test processes take, with the databases of a few tests.
ROOM_BYTES = 4 * 1024**3


def pytest_configure() -> None:
    """Every Spark that a test starts, by whatever command, inherits how its JVM is to start."""
    os.environ["SPARK_SUBMIT_OPTS"] = str(quick_java())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first: unit, then integration, then what is marked slow.

    Those of Spark are kept together by what is in their session: another needs another JVM. Among the slow files
    the long ones come first, so that no core waits for one of them at the end.
    """
    slow = Counter(item.path for item in items if item.get_closest_marker("slow") is not None)

    def cost(item: pytest.Item) -> tuple[int, int, str]:
        path = str(item.path)
        if item.get_closest_marker("slow") is not None:
            return (2, 0 if item.path.name in LONGEST else 1, f"{10_000 - slow[item.path]:05} {path}")
        kind = 2 if "/tests/spark/" in path else 1 if "pipelines" in path else 0
        return (0 if "/unit/" in path else 1, kind, path)

    items.sort(key=cost)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """Commands configure logging for their process, the libraries' too; here that process goes on."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {logger: logger.level for logger in _loggers()}
    yield
    root.handlers[:] = handlers
    for logger in _loggers():
        logger.setLevel(levels.get(logger, logging.NOTSET))


def _loggers() -> list[logging.Logger]:
    known = logging.Logger.manager.loggerDict.values()
    return [logging.getLogger(), *(each for each in known if isinstance(each, logging.Logger))]


class Cluster:
    """A server of the session and the template that each test's database is copied from."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self.postgres = postgres
        self._ahead: asyncio.Task[str] | None = None

    def admin_dsn(self, database: str) -> str:
        return self.postgres.dsn(user="postgres", database=database)

    def app_dsn(self, database: str) -> str:
        return self.postgres.dsn(user="headgate_app", database=database)

    async def prepare(self) -> None:
        await self._admin(f"CREATE DATABASE {TEMPLATE}")
        await migrate(self.admin_dsn(TEMPLATE))

    async def create(self) -> str:
        """A database of one's own. The next one is copied while this one is used."""
        name = await (self._ahead or self._copy())
        self._ahead = asyncio.create_task(self._copy())
        return name

    async def close(self) -> None:
        if self._ahead is not None:
            await self._ahead

    async def _copy(self) -> str:
        name = f"test_{next(_numbers)}"
        # Copies files, which takes a good half of the time of copying by way of the log.
        await self._admin(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE} STRATEGY FILE_COPY")
        return name

    async def drop(self, name: str) -> None:
        await self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    async def _admin(self, sql: str) -> None:
        conn = await asyncpg.connect(self.admin_dsn("postgres"))
        try:
            await conn.execute(sql)
        finally:
            await conn.close()


def _in_memory() -> Path | None:
    """A place in memory, if there is one with room: each test's database is nearly a thousand files."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES else None


def _started(binaries: Path | None) -> Iterator[EmbeddedPostgres]:
    with tempfile.TemporaryDirectory(prefix="headgate-test-", dir=_in_memory()) as directory:
        # Run by root, the server is another user, and goes elsewhere if it cannot pass.
        Path(directory).chmod(0o711)
        postgres = EmbeddedPostgres(Path(directory) / "postgres", settings=FAST, binaries=binaries)
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.remove()


@pytest.fixture(scope="session")
def embedded_postgres() -> Iterator[EmbeddedPostgres]:
    yield from _started(None)


@pytest.fixture(scope="session")
def debian_postgres() -> Iterator[EmbeddedPostgres]:
    binaries = debian_binaries()
    if binaries is None:
        lacking("Debian's postgresql package is not installed: apt-get install postgresql")
    yield from _started(binaries)


@pytest.fixture(scope="session")
async def cluster(embedded_postgres: EmbeddedPostgres) -> AsyncIterator[Cluster]:
    cluster = Cluster(embedded_postgres)
    await cluster.prepare()
    yield cluster
    await cluster.close()


@pytest.fixture(scope="session")
async def debian_cluster(debian_postgres: EmbeddedPostgres) -> AsyncIterator[Cluster]:
    cluster = Cluster(debian_postgres)
    await cluster.prepare()
    yield cluster
    await cluster.close()


@pytest.fixture
async def database_name(cluster: Cluster) -> AsyncIterator[str]:
    name = await cluster.create()
    yield name
    await cluster.drop(name)


@pytest.fixture
async def database(cluster: Cluster, database_name: str) -> AsyncIterator[Database]:
    """The application's pool on a fresh, migrated database."""
    database = Database(cluster.app_dsn(database_name), max_size=8)
    yield database
    await database.close()


@pytest.fixture
async def db(cluster: Cluster, database_name: str) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection to the same database, to look at what is really there."""
    conn = await asyncpg.connect(cluster.admin_dsn(database_name), server_settings={"search_path": "headgate"})
    yield conn
    await conn.close()


@pytest.fixture
def settings() -> Settings:
    return Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)


@pytest.fixture
async def server(settings: Settings, database: Database) -> AsyncIterator[Server]:
    """The whole application in this process, with one organisation and its keys."""
    async with running_server(settings, database) as server:
        yield server
