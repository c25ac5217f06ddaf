"""Bringing a database to this version: once, at the same time, again, by humble roles, on every PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import runpy
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.errors import MigrationError
from headgate.server.db import migrate as migrate_module
from headgate.server.db.embedded import EmbeddedPostgres, debian_binaries, wheel_binaries
from headgate.server.db.migrate import Migration, is_current, migrate, migrations
from headgate.server.db.pool import SCHEMA, Database
from headgate.settings import Settings
from tests.conftest import FAST, Cluster
from tests.support.absent import lacking
from tests.support.events import a_dataset, a_facet, an_event
from tests.support.full_event import a_full_event
from tests.support.server import running_server

ROOT = Path(__file__).parents[2]
NAMES = [migration.name for migration in migrations()]
PARENTS = ("lineage_events", "dataset_metrics")


def servers() -> dict[str, Path | None]:
    """Every PostgreSQL at hand: the wheel's newest and older ones, and Debian's."""
    newest = wheel_binaries()
    older = [path for path in newest.parents[1].glob("pginstall*/bin") if path != newest]
    return {newest.parent.name: newest} | {path.parent.name: path for path in older} | {"debian": debian_binaries()}


@pytest.fixture(scope="module", params=servers())
def postgres(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    """A server on which nobody has migrated yet, so that there are no roles either."""
    binaries = servers()[request.param]
    if binaries is None:
        lacking("Debian's postgresql package is not installed: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="headgate-test-") as directory:
        Path(directory).chmod(0o755)
        postgres = EmbeddedPostgres(Path(directory) / "postgres", settings=FAST, binaries=binaries)
        postgres.start()
        yield postgres
        postgres.remove()


@asynccontextmanager
async def a_database(postgres: EmbeddedPostgres, name: str, owner: str = "postgres") -> AsyncIterator[str]:
    """The superuser's address of a new, empty database."""
    conn = await asyncpg.connect(postgres.dsn(user="postgres", database="postgres"))
    try:
        await conn.execute(f"CREATE DATABASE {name} OWNER {owner}")
        yield postgres.dsn(user="postgres", database=name)
        await conn.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await conn.close()


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    conn = await asyncpg.connect(dsn, server_settings={"search_path": SCHEMA})
    try:
        yield conn
    finally:
        await conn.close()


async def test_databases_of_one_new_server_can_be_migrated_at_the_same_time(postgres: EmbeddedPostgres) -> None:
    """First of all: roles belong to the whole server, and here they do not exist yet."""
    async with a_database(postgres, "one") as one, a_database(postgres, "two") as two:
        async with connected(one) as conn:
            assert await conn.fetchval("SELECT count(*) FROM pg_roles WHERE rolname LIKE 'headgate%'") == 0

        done = await asyncio.gather(migrate(one), migrate(two))

    assert list(done) == [NAMES, NAMES]


async def test_a_second_migration_does_nothing(postgres: EmbeddedPostgres) -> None:
    async with a_database(postgres, "twice") as dsn:
        assert await migrate(dsn) == NAMES
        async with connected(dsn) as conn:
            before = await conn.fetch("SELECT * FROM schema_migrations ORDER BY version")
            assert await is_current(conn)

            assert await migrate(dsn) == []

            assert await conn.fetch("SELECT * FROM schema_migrations ORDER BY version") == before


async def test_of_several_at_the_same_time_one_migrates_and_the_others_wait(postgres: EmbeddedPostgres) -> None:
    async with a_database(postgres, "crowd") as dsn:
        done = await asyncio.gather(*(migrate(dsn) for _ in range(5)))

    assert sorted(done) == [[], [], [], [], NAMES]


async def test_the_migrated_database_takes_events(postgres: EmbeddedPostgres) -> None:
    """Not only the definitions: every function is run once on this version of PostgreSQL."""
    async with a_database(postgres, "works") as dsn:
        await migrate(dsn)
        database = Database(dsn.replace("postgres@", "headgate_app@", 1), max_size=4)
        unlimited = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
        async with running_server(unlimited, database) as server:
            full, failed = a_full_event(), an_event("FAIL")
            await server.tenant.send_ok(full, an_event("START"), failed, a_full_event(run=full["run"]["runId"]))
            assert (await server.tenant.run(full["run"]["runId"]))["state"] == "COMPLETE"
            assert (await server.tenant.run(failed["run"]["runId"]))["state"] == "FAIL"
        await database.close()


async def test_the_outbox_of_the_version_before_becomes_tasks(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, failed, bare = (str(uuid4()) for _ in range(3))
    dataset, version, nobody = str(uuid4()), str(uuid4()), str(UUID(int=0))
    rows = [
        ("run_finished", run, None, {"state": "COMPLETE"}),
        ("run_finished", failed, None, {"state": "FAIL"}),
        ("metrics_recorded", run, dataset, {}),
        ("metrics_recorded", bare, dataset, {}),
        ("metrics_recorded", nobody, dataset, {}),
        ("test_failed", run, dataset, {"test": "not_null", "column": "id", "severity": "error"}),
        ("test_failed", run, dataset, {"test": "unique", "column": "id", "severity": "error"}),
        ("schema_changed", run, dataset, {"version_id": version, "breaking": True}),
        ("dataset_stats", None, None, {"all": [dataset]}),
        ("cleanup_idempotency", None, None, {}),
    ]
    monkeypatch.setattr(migrate_module, "migrations", lambda: migrations()[:15])
    async with a_database(postgres, "before_tasks") as dsn, connected(dsn) as conn:
        await migrate(dsn)
        org = await conn.fetchval(
            "INSERT INTO organizations (name, slug, tenant_code) VALUES ('A', 'a', 'a') RETURNING id"
        )
        for kind, run_id, dataset_id, payload in rows:
            await conn.execute(
                "INSERT INTO outbox (organization_id, kind, run_id, dataset_id, payload) VALUES ($1, $2, $3, $4, $5)",
                *(org, kind, run_id, dataset_id, json.dumps(payload)),
            )
        monkeypatch.undo()
        await migrate(dsn)

        tasks = await conn.fetch("SELECT * FROM async_task")
        notes = await conn.fetch("SELECT organization_id, payload FROM dataset_stats_notes")
        outbox = await conn.fetchval("SELECT to_regclass('outbox')")
    found = [(t["task_type"], t["resource_type"], t["resource_id"], json.loads(t["payload"])) for t in tasks]
    expected = [
        ("CORRELATE", "RUN", failed, {"kind": "run_failed"}),
        ("CORRELATE", "TEST", run, {"kind": "tests"}),
        ("DETECT", "DATASET", dataset, {}),
        ("DETECT", "RUN", run, {}),
        ("DETECT", "RUN", bare, {}),
        ("DETECT", "RUN", failed, {}),
        ("DETECT", "RUN", run, {"dataset_id": dataset, "schema_version": version}),
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert {(t["organization_id"], t["status"], t["tenant_code"]) for t in tasks} == {(org, "PENDING", "a")}
    assert [(note["organization_id"], json.loads(note["payload"])) for note in notes] == [(org, {"all": [dataset]})]
    assert outbox is None


async def test_a_changed_migration_is_refused(postgres: EmbeddedPostgres) -> None:
    async with a_database(postgres, "changed") as dsn:
        await migrate(dsn)
        async with connected(dsn) as conn:
            await conn.execute("UPDATE schema_migrations SET checksum = 'another' WHERE version = 1")

        with pytest.raises(MigrationError, match=f"{NAMES[0]} differs from what was applied"):
            await migrate(dsn)


async def test_of_a_migration_that_fails_nothing_is_kept(
    postgres: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Migration(9999, "9999_pre_bad.sql", "CREATE TABLE half_done (id integer); SELECT 1 / 0;")
    monkeypatch.setattr(migrate_module, "migrations", lambda: [*migrations(), bad])
    async with a_database(postgres, "failing") as dsn:
        with pytest.raises(MigrationError, match=r"9999_pre_bad.sql failed: division by zero"):
            await migrate(dsn)

        async with connected(dsn) as conn:
            assert await conn.fetchval("SELECT to_regclass('half_done')") is None
            assert await conn.fetchval("SELECT max(version) FROM schema_migrations") == len(NAMES)
            assert not await is_current(conn)
        monkeypatch.undo()
        assert await migrate(dsn) == []


async def test_a_role_that_may_create_roles_can_migrate(postgres: EmbeddedPostgres) -> None:
    async with connected(postgres.dsn(user="postgres", database="postgres")) as admin:
        # As on a server of the user's own where headgate has never been.
        await admin.execute("DROP ROLE IF EXISTS headgate_app")
        await admin.execute("DROP ROLE IF EXISTS headgate_owner")
        await admin.execute("CREATE ROLE migrator LOGIN CREATEROLE")
    async with a_database(postgres, "humble", owner="migrator"):
        dsn = postgres.dsn(user="migrator", database="humble")

        assert await migrate(dsn) == NAMES
        assert await migrate(dsn) == []

        async with connected(postgres.dsn(user="headgate_app", database="humble")) as conn:
            assert await is_current(conn)
            assert await conn.fetchval("SELECT count(*) FROM job_runs") == 0
    async with connected(postgres.dsn(user="postgres", database="postgres")) as admin:
        await admin.execute("DROP OWNED BY migrator CASCADE")
        await admin.execute("DROP ROLE migrator")


async def test_a_role_that_may_not_gets_told_what_it_needs(postgres: EmbeddedPostgres) -> None:
    async with connected(postgres.dsn(user="postgres", database="postgres")) as admin:
        await admin.execute("CREATE ROLE nobody LOGIN")
    async with a_database(postgres, "forbidden") as dsn:
        with pytest.raises(MigrationError, match="the database role 'nobody' may not prepare the database") as refused:
            await migrate(dsn.replace("postgres@", "nobody@", 1))

        assert "CREATEROLE" in str(refused.value.hint)
        async with connected(dsn) as conn:
            assert await conn.fetchval("SELECT to_regnamespace('headgate')") is None
    async with connected(postgres.dsn(user="postgres", database="postgres")) as admin:
        await admin.execute("DROP ROLE nobody")


async def test_roles_made_by_hand_are_enough(postgres: EmbeddedPostgres) -> None:
    """The other way of docs/operations.md, for migrators that may not create roles."""
    async with connected(postgres.dsn(user="postgres", database="postgres")) as admin:
        for role in ("headgate_owner NOLOGIN", "headgate_app LOGIN"):
            name = role.split()[0]
            if not await admin.fetchval("SELECT true FROM pg_roles WHERE rolname = $1", name):
                await admin.execute(f"CREATE ROLE {role}")
        await admin.execute("CREATE ROLE plain_migrator LOGIN")
        await admin.execute("GRANT headgate_owner TO plain_migrator")
    async with a_database(postgres, "by_hand") as dsn:
        async with connected(dsn) as conn:
            await conn.execute("CREATE SCHEMA headgate AUTHORIZATION headgate_owner")
            await conn.execute("GRANT USAGE ON SCHEMA headgate TO headgate_app")

        assert await migrate(dsn.replace("postgres@", "plain_migrator@", 1)) == NAMES
    async with connected(postgres.dsn(user="postgres", database="postgres")) as admin:
        await admin.execute("DROP ROLE plain_migrator")


async def test_months_ahead_have_partitions(db: asyncpg.Connection) -> None:
    now = datetime.now(UTC)
    months = [divmod(now.year * 12 + now.month - 1 + step, 12) for step in range(-1, 4)]

    for parent in PARENTS:
        found = await db.fetch(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = $1::text::regclass",
            parent,
        )
        expected = {f"{parent}_{year}_{month + 1:02}" for year, month in months}
        assert {row["relname"] for row in found} == expected | {f"{parent}_default"}


async def test_the_application_makes_missing_partitions_and_no_more(database: Database, db: asyncpg.Connection) -> None:
    async with database.connection() as conn:
        assert await conn.fetchval("SELECT ensure_partitions()") == 0
        assert await conn.fetchval("SELECT ensure_partitions(6)") == 3 * len(PARENTS)
        assert await conn.fetchval("SELECT ensure_partitions(6)") == 0
    last = await db.fetchval(
        "SELECT max(relname) FROM pg_class WHERE relname LIKE 'lineage_events_2%' AND relkind = 'r'"
    )
    await db.execute(f"DROP TABLE {last}")
    async with database.connection() as conn:
        assert await conn.fetchval("SELECT ensure_partitions(6)") == 1


async def test_partitions_can_be_made_by_several_at_once(database: Database) -> None:
    async def make() -> int:
        async with database.connection() as conn:
            made: int = await conn.fetchval("SELECT ensure_partitions(5)")
            return made

    assert sum(await asyncio.gather(*(make() for _ in range(5)))) == 2 * len(PARENTS)


async def test_a_month_that_is_in_the_default_partition_already_stays_there(
    database: Database, db: asyncpg.Connection
) -> None:
    later = "now() + interval '5 months'"
    await db.execute(
        "INSERT INTO dataset_metrics (organization_id, dataset_id, measured_at, run_id, direction) "
        f"VALUES (gen_random_uuid(), gen_random_uuid(), {later}, gen_random_uuid(), 'output')"
    )

    async with database.connection() as conn:
        made = await conn.fetchval("SELECT ensure_partitions(6)")

    assert made == 3 * len(PARENTS) - 1
    assert await db.fetchval("SELECT count(*) FROM dataset_metrics_default") == 1


@pytest.mark.parametrize("year", [1999, 2019, 2099])
async def test_metrics_of_any_year_are_stored(
    cluster: Cluster, database: Database, db: asyncpg.Connection, settings: Settings, year: int
) -> None:
    output = a_dataset("old", outputFacets={"outputStatistics": a_facet(rowCount=7)})
    async with running_server(settings, database) as server:
        await server.tenant.send_ok(an_event(outputs=[output], time=f"{year}-01-31T23:59:59Z"))

    rows = await db.fetch("SELECT tableoid::regclass::text AS place, row_count FROM dataset_metrics")
    assert [tuple(row) for row in rows] == [("dataset_metrics_default", 7)]


def test_migrations_are_numbered_without_gaps() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, len(NAMES) + 1))


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (["1_pre_x.sql"], "'1_pre_x.sql' is not named"),
        (["0001_later_x.sql"], "'0001_later_x.sql' is not named"),
        (["0001_pre_X.sql"], "'0001_pre_X.sql' is not named"),
        (["0001_pre_a.sql", "0001_post_b.sql"], "two migrations share the number 0001"),
    ],
    ids=["short number", "unknown phase", "upper case", "repeated number"],
)
def test_a_misnamed_migration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], complaint: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("SELECT 1;")
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)

    with pytest.raises(MigrationError, match=complaint):
        migrations()


def test_every_migration_gives_up_soon_when_a_table_is_locked() -> None:
    assert [m.name for m in migrations() if "SET LOCAL lock_timeout = '5s'" not in m.sql] == []


async def test_the_committed_schema_is_what_the_migrations_give(
    embedded_postgres: EmbeddedPostgres, cluster: Cluster, database_name: str
) -> None:
    if not (wheel_binaries() / "pg_dump").exists():
        lacking("the wheel has no pg_dump on this platform")
    script = runpy.run_path(str(ROOT / "scripts" / "dump_schema.py"))

    given = await asyncio.to_thread(script["dump"], cluster.admin_dsn(database_name))

    assert given == script["TARGET"].read_text(), "run `make schema`"
