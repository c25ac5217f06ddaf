"""Starts and stops the processes of the server; the only command module that knows `headgate.server`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import typer
from prometheus_client import start_http_server
from pydantic import ValidationError

from headgate.cli import console, logs, operate
from headgate.cli.interrupts import Interrupts
from headgate.cli.operate import HttpServer, Loop, Stop
from headgate.errors import ConfigError, EmbeddedPostgresError, Unavailable
from headgate.local import claim, credentials
from headgate.local.credentials import Credentials
from headgate.server.accounts.store import bootstrap
from headgate.server.app import create_app
from headgate.server.db.embedded import EmbeddedPostgres
from headgate.server.db.migrate import is_current, migrate
from headgate.server.db.pool import APP_ROLE, DATABASE_GONE, Database
from headgate.server.edge import Edge
from headgate.server.kinds import kinds_of
from headgate.server.notices import Notices
from headgate.server.queue import CHANNEL, Bell
from headgate.server.tasks.backlog import Backlog
from headgate.server.tasks.counters import TaskCounters
from headgate.server.telemetry import VERSION, Telemetry
from headgate.server.worker import Worker
from headgate.settings import Settings

DATABASE = "headgate"
# Everything has to be stopped within 20 seconds of the signal.
GRACE_S = 18.0
# Batches that `up` works on at once, and connections that a worker has beside those of its batches.
LANES = 2
_BESIDE_LANES = 4
_DATABASE_WAIT_S = 30.0
_WATCH_EVERY_S = 0.5
_RESTART_S = 5.0
_log = logging.getLogger("headgate.up")


@dataclass(frozen=True)
class Backend:
    """A database to run on: its addresses, what to call it, and what has to run beside it."""

    migration_url: str = field(repr=False)
    application_url: str = field(repr=False)
    description: str
    maintenance_url: str | None = field(default=None, repr=False)
    loops: tuple[Loop, ...] = ()


def up(*, host: str, port: int, data_dir: Path) -> None:
    """Run everything until told to stop."""
    settings = _settings(host=host, port=port)
    began = time.monotonic()
    with (
        _interruptible() as interrupts,
        claim.data_directory(data_dir),
        claim.port(host, port) as listener,
    ):
        # Written before the database knows them: a crash in between heals at the next start.
        known = credentials.ensure(data_dir, claim.url_of(listener))
        with _backend(settings, data_dir, interrupts) as backend:

            def announce() -> None:
                _announce(known, data_dir, backend.description, seconds=time.monotonic() - began)

            async def main(stop: Stop) -> None:
                database = _database(settings, backend.application_url)
                try:
                    await operate.unless_stopped(stop, _prepare(backend, database, known))
                    telemetry, bell = Telemetry(), Bell(database)
                    app = create_app(settings, database, telemetry=telemetry, bell=bell)
                    server = HttpServer(app, listener, announce)
                    worker = worker_inside(app, settings, database, bell, TaskCounters(telemetry.registry))
                    loops = (worker.run, *backend.loops)
                    await operate.until_stopped(stop, http=server, loops=loops)
                finally:
                    await database.close()

            operate.run(main, interrupts)


def worker_inside(app: Edge, settings: Settings, database: Database, bell: Bell, counters: TaskCounters) -> Worker:
    """The worker beside an application; it hears other processes that serve the same database, too."""
    worker = Worker(
        database,
        kinds_of(settings),
        bell=bell,
        counters=counters,
        lanes=min(LANES, max(1, settings.database_pool_size // 4)),
        rate=settings.tasks_rate_tenant,
    )
    api: Any = app.api
    api.state.notices.subscribe(CHANNEL, worker.hear)
    return worker


def serve(*, host: str, port: int) -> None:
    """Serve HTTP until told to stop."""
    settings = _settings(host=host, port=port)
    backend = _external(settings)

    with _interruptible() as interrupts, claim.port(host, port) as listener:

        async def main(stop: Stop) -> None:
            database = _database(settings, backend.application_url)
            try:
                await operate.unless_stopped(stop, _check_schema(database))
                server = HttpServer(
                    create_app(settings, database),
                    listener,
                    lambda: _log.info("serving on %s", claim.url_of(listener)),
                )
                await operate.until_stopped(stop, http=server)
            finally:
                await database.close()

        operate.run(main, interrupts)


def worker(*, concurrency: int, metrics_port: int | None = None) -> None:
    """Work on tasks until told to stop."""
    settings = _settings()
    backend = _external(settings)
    telemetry = Telemetry()
    counters = TaskCounters(telemetry.registry)

    async def main(stop: Stop) -> None:
        # A lane that had to wait for a connection would take the database for gone.
        size = max(settings.database_pool_size, concurrency + _BESIDE_LANES)
        database = Database(backend.application_url, max_size=size, timeout_s=settings.database_timeout_s)
        telemetry.watch_pool(database)
        try:
            await operate.unless_stopped(stop, _check_schema(database))
            _log.info("working on tasks, %d at once", concurrency)
            worker = Worker(
                database, kinds_of(settings), lanes=concurrency, counters=counters, rate=settings.tasks_rate_tenant
            )
            notices = Notices(database)
            notices.subscribe(CHANNEL, worker.hear)
            await notices.start()
            shown = () if metrics_port is None else (Backlog(database, telemetry.registry).keep_fresh,)
            try:
                await operate.until_stopped(stop, loops=[worker.run, *shown])
            finally:
                await notices.stop()
        finally:
            await database.close()

    with _interruptible() as interrupts, _metrics(telemetry, settings.host, metrics_port):
        operate.run(main, interrupts)


@contextmanager
def _metrics(telemetry: Telemetry, host: str, port: int | None) -> Iterator[None]:
    """Prometheus' `/metrics` beside the worker, in a thread of its own, if a port is given."""
    if port is None:
        yield
        return
    try:
        server, thread = start_http_server(port, host, telemetry.registry)
    except OSError as error:
        raise claim.port_taken(host, port) from error
    _log.info("metrics on http://%s:%d/metrics", host, server.server_port)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=2)


def migrate_database() -> list[str]:
    """Apply what is missing and return the names of the files applied."""
    return asyncio.run(_migrate(_external(_settings())))


def _settings(**given: object) -> Settings:
    try:
        settings = Settings(**given)  # type: ignore[arg-type]  # pydantic checks them
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = "_".join(["HEADGATE", *map(str, first["loc"])]).upper()
        message = str(first["msg"]).removeprefix("Value error, ")
        raise ConfigError(f"{name}: {message}", hint=f"correct or unset {name}") from None
    logs.configure(settings.log_level, settings.log_format)
    return settings


def _database(settings: Settings, url: str) -> Database:
    return Database(url, max_size=settings.database_pool_size, timeout_s=settings.database_timeout_s)


@contextmanager
def _interruptible() -> Iterator[Interrupts]:
    """Being told to stop is a normal end: by then everything that was started has been stopped."""
    with Interrupts(GRACE_S) as interrupts:
        try:
            yield interrupts
        except KeyboardInterrupt:
            _log.debug("stopped before the start was complete")


@contextmanager
def _backend(settings: Settings, data_dir: Path, interrupts: Interrupts) -> Iterator[Backend]:
    """The database of the settings, or one that lives in the data directory as long as we do."""
    if settings.database_url is not None:
        yield _external(settings)
        return
    postgres = EmbeddedPostgres(data_dir / "postgres")
    try:
        running = postgres.start()
    except KeyboardInterrupt:  # any other failure has cleaned up, or left a recovering server on purpose
        _stop(postgres, interrupts)
        raise
    try:
        yield Backend(
            migration_url=postgres.dsn(user="postgres", database=DATABASE),
            application_url=postgres.dsn(user=APP_ROLE, database=DATABASE),
            description=f"embedded PostgreSQL in {data_dir / 'postgres'}",
            maintenance_url=running.admin_dsn,
            loops=(lambda ending: _watch(postgres, ending),),
        )
    finally:
        _stop(postgres, interrupts)


def _external(settings: Settings) -> Backend:
    if settings.database_url is None:
        raise ConfigError(
            "HEADGATE_DATABASE_URL is not set",
            hint="set it to postgresql://user:password@host:5432/database, "
            "or use `headgate up`, which brings its own PostgreSQL and a worker",
        )
    url = settings.database_url.get_secret_value()
    migration_url = settings.migration_url.get_secret_value() if settings.migration_url else url
    return Backend(migration_url, url, description=f"PostgreSQL at {_place_of(url)}")


def _stop(postgres: EmbeddedPostgres, interrupts: Interrupts) -> None:
    try:
        postgres.stop(timeout_s=1 if interrupts.is_hurried else max(2.0, interrupts.left_s - 1))
    except KeyboardInterrupt:  # told to hurry
        postgres.stop(timeout_s=1)


async def _watch(postgres: EmbeddedPostgres, ending: asyncio.Event) -> None:
    """Start PostgreSQL again whenever it is gone; in short tries, as a stop waits for the current one."""
    while not await operate.wait(ending, _WATCH_EVERY_S):
        if await asyncio.to_thread(postgres.running) is None:
            _log.warning("PostgreSQL is gone; starting it again")
            try:
                await asyncio.to_thread(postgres.start, _RESTART_S)
                _log.info("PostgreSQL is back")
            except EmbeddedPostgresError as error:
                _log.error("%s", error.message)


async def _prepare(backend: Backend, database: Database, known: Credentials) -> None:
    if backend.maintenance_url:
        await _create_database(backend.maintenance_url)
    await _patiently(lambda: _migrate(backend), _DATABASE_WAIT_S)
    await bootstrap(
        database,
        organization=known.organization,
        email=known.email,
        password=known.password,
        api_key=known.api_key,
    )


async def _create_database(maintenance_url: str) -> None:
    conn = await asyncpg.connect(maintenance_url)
    try:
        if not await conn.fetchval("SELECT true FROM pg_database WHERE datname = $1", DATABASE):
            await conn.execute(f"CREATE DATABASE {DATABASE}")
    finally:
        await conn.close()


async def _migrate(backend: Backend) -> list[str]:
    try:
        return await migrate(backend.migration_url)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise ConfigError(f"{backend.description} refuses us: {error}", hint=_URL_HINT) from error
    except asyncpg.ClientConfigurationError as error:
        raise ConfigError(f"the database URL cannot be used: {error}", hint=_URL_HINT) from error
    except DATABASE_GONE as error:
        reason = str(error) or type(error).__name__
        raise Unavailable(f"{backend.description} does not answer: {reason}", hint=_URL_HINT) from error


_URL_HINT = "check HEADGATE_DATABASE_URL (or HEADGATE_MIGRATION_URL), and that the server runs"


async def _check_schema(database: Database) -> None:
    try:
        async with database.connection() as conn:
            if await is_current(conn):
                return
    except Unavailable as error:
        # It may come back while we serve; until then requests are answered with 503.
        _log.warning("%s; going on without it", error.message)
        return
    raise ConfigError("the database schema is older than this version", hint="run `headgate migrate`")


async def _patiently(attempt: Callable[[], Awaitable[object]], wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            await attempt()
            return
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise
            _log.warning("%s; trying again", error.message)
        await asyncio.sleep(1)


def _place_of(url: str) -> str:
    """Host and database of a URL, never its password."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 5432}{parts.path}"
    except ValueError:
        return "an address that cannot be read"


def _announce(known: Credentials, data_dir: Path, database: str, *, seconds: float) -> None:
    typer.secho(f"Headgate {VERSION} is ready after {seconds:.1f} s", bold=True)
    typer.echo()
    console.pairs(
        [
            ("URL", known.url),
            ("API docs", f"{known.url}/docs"),
            ("Credentials", str(data_dir / credentials.FILE)),
            ("Database", database),
        ]
    )
    typer.echo("\nSend it events from a file:\n\n  headgate replay events.ndjson\n")
    typer.echo("or from any OpenLineage client, with the api_key of the credentials:\n")
    typer.echo(f"  export OPENLINEAGE_URL={known.url}\n  export OPENLINEAGE_API_KEY=hg_live_…")
    typer.echo("\nCtrl-C stops everything.")
