"""The server process of the reading benchmark: the application as released, and one route that does `SELECT 1`."""

from __future__ import annotations

import sys

import uvloop
from fastapi import FastAPI

from benchmarks.serving import application, serve
from headgate.server.deps import Reads

PING = "/api/v1/bench-ping"


def add_ping(api: FastAPI) -> None:
    """What every other route pays too: the edge, the key, the scope, a transaction of the organisation, JSON."""

    @api.get(PING)
    async def ping(reads: Reads) -> dict[str, int]:
        async with reads.open() as conn:
            return {"one": await conn.fetchval("SELECT 1")}


async def main(dsn: str) -> None:
    app, database = application(dsn)
    add_ping(app.api)  # type: ignore[arg-type]  # the FastAPI application
    await serve(app, database)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
