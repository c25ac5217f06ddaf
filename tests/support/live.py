"""The application behind a real socket, in a thread of its own: for producers that block, retry and compress."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import uvloop

from headgate.cli.claim import port, url_of
from headgate.cli.operate import HttpServer
from headgate.server.accounts.store import bootstrap
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.settings import Settings


@dataclass(frozen=True)
class Live:
    """Where the server listens, and a key that may do everything there."""

    url: str
    api_key: str


@contextmanager
def live_server(settings: Settings, dsn: str) -> Iterator[Live]:
    """Serve the database at `dsn` on a free port until the block ends."""
    listener = port("127.0.0.1", 0)
    live = Live(url_of(listener), f"hg_live_{secrets.token_urlsafe(32)}")
    ready, serving = threading.Event(), threading.Event()
    servers: list[HttpServer] = []

    async def serve() -> None:
        database = Database(dsn, max_size=8)
        try:
            await bootstrap(
                database, organization="Live", email="admin@live.example.org", password="x" * 16, api_key=live.api_key
            )
            servers.append(HttpServer(create_app(settings, database), listener, ready.set))
            await servers[0].run_until_told()
        finally:
            await database.close()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        finally:
            ready.set()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="live") as thread:
        ended = thread.submit(run)
        try:
            assert ready.wait(30), "the server did not start within 30 s"
            if ended.done():
                ended.result()
            yield live
        finally:
            for server in servers:
                server.should_exit = True
            ended.result(timeout=30)
