"""The server process: the application and one worker in one event loop, as `headgate up` has them."""

from __future__ import annotations

import asyncio
import sys

import uvloop

from benchmarks.serving import serve
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.kinds import kinds_of
from headgate.server.queue import Bell
from headgate.server.worker import Worker
from headgate.settings import Settings


async def main(dsn: str) -> None:
    settings = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    database = Database(dsn, max_size=8, timeout_s=60)
    bell = Bell(database)
    stop = asyncio.Event()
    working = asyncio.create_task(Worker(database, kinds_of(settings), bell=bell).run(stop))
    await serve(create_app(settings, database, bell=bell), database, before_close=lambda: _end(stop, working))


async def _end(stop: asyncio.Event, working: asyncio.Task[None]) -> None:
    stop.set()
    await working


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
