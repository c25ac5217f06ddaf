"""The server process of the HTTP measurements: the whole application twice in one event loop, on two ports.

One writes with group commit, as released; the other commits each event alone. Everything else is the same.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Sequence
from unittest.mock import patch

import uvloop

from headgate.cli.operate import HttpServer
from headgate.domain.run import Verdict
from headgate.errors import HeadgateError
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.edge import Edge
from headgate.server.ingest import routes
from headgate.server.ingest.batch import Prepared
from headgate.server.ingest.group import GroupWriter, Source
from headgate.settings import Settings

CONNECTIONS = 16


class SingleWriter(GroupWriter):
    """A transaction for each event, on as many connections as the pool has; the rest is the group writer's."""

    async def write(self, source: Source, event: Prepared) -> Verdict:
        (verdict,) = await self._settle([(source, event)])
        if isinstance(verdict, HeadgateError):
            raise verdict
        return verdict


def application(dsn: str, writer: type[GroupWriter]) -> tuple[Edge, Database]:
    settings = Settings(
        rate_global=None, rate_key=None, rate_anonymous=None, database_pool_size=CONNECTIONS, _env_file=None
    )
    database = Database(dsn, max_size=CONNECTIONS, timeout_s=60)
    with patch.object(routes, "GroupWriter", writer):
        return create_app(settings, database), database


async def serve(dsn: str) -> None:
    """Serve until SIGTERM; prints the ports once both answer."""
    ready = asyncio.Semaphore(0)
    servers, databases, ports = [], [], []
    for writer in (GroupWriter, SingleWriter):
        app, database = application(dsn, writer)
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        servers.append(HttpServer(app, listener, ready.release))
        databases.append(database)
        ports.append(listener.getsockname()[1])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _end, servers)
    serving = [asyncio.create_task(server.run_until_told()) for server in servers]
    for _ in servers:
        await ready.acquire()
    print(json.dumps({"group": ports[0], "single": ports[1]}), flush=True)
    await asyncio.gather(*serving)
    for database in databases:
        await database.close()


def _end(servers: Sequence[HttpServer]) -> None:
    for server in servers:
        server.should_exit = True


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
