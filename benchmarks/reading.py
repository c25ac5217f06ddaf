"""The server process of the reading benchmark: the application as released, and one route that does `SELECT 1`."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys

import uvloop
from fastapi import FastAPI

from headgate.cli.operate import HttpServer
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.deps import Reads
from headgate.settings import Settings

PING = "/api/v1/bench-ping"


def add_ping(api: FastAPI) -> None:
    """What every other route pays too: the edge, the key, the scope, a transaction of the organisation, JSON."""

    @api.get(PING)
    async def ping(reads: Reads) -> dict[str, int]:
        async with reads.open() as conn:
            return {"one": await conn.fetchval("SELECT 1")}


async def serve(dsn: str) -> None:
    """Serve until SIGTERM; prints the port once it answers."""
    settings = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    database = Database(dsn, max_size=4, timeout_s=60)
    app = create_app(settings, database)
    add_ping(app.api)  # type: ignore[arg-type]  # the FastAPI application
    listener = socket.create_server(("127.0.0.1", 0))
    ready = asyncio.Event()
    server = HttpServer(app, listener, ready.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, setattr, server, "should_exit", True)
    serving = asyncio.create_task(server.run_until_told())
    await ready.wait()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    await serving
    await database.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
