"""Serves an application as its own process of a benchmark does."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable

from headgate.cli.operate import HttpServer
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.edge import App, Edge
from headgate.settings import Settings


def application(dsn: str) -> tuple[Edge, Database]:
    """The application as released, without rate limits, on four connections."""
    settings = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    database = Database(dsn, max_size=4, timeout_s=60)
    return create_app(settings, database), database


async def _nothing() -> None:
    """Nothing else runs beside the server."""


async def serve(app: App, database: Database, before_close: Callable[[], Awaitable[None]] = _nothing) -> None:
    """Serve until SIGTERM; prints the port once it answers."""
    listener = socket.create_server(("127.0.0.1", 0))
    ready = asyncio.Event()
    server = HttpServer(app, listener, ready.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, setattr, server, "should_exit", True)
    serving = asyncio.create_task(server.run_until_told())
    await ready.wait()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    await serving
    await before_close()
    await database.close()
