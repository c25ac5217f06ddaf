"""The server process: the application as released, which also counts the bytes that each key sends."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections import Counter

import uvloop

from headgate.cli.operate import HttpServer
from headgate.server.app import create_app
from headgate.server.db.pool import Database
from headgate.server.edge import App, Message, Receive, Scope, Send
from headgate.settings import Settings

COUNTS = "/bench/counts"


class Counts:
    """Requests, bytes as sent and bytes of JSON, by the key they came with."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.json: Counter[str] = Counter()

    def add(self, key: str, size: int, tail: bytes, *, is_gzip: bool) -> None:
        self.requests[key] += 1
        self.sent[key] += size
        # gzip ends with the size of what went in.
        self.json[key] += int.from_bytes(tail[-4:], "little") if is_gzip else size

    def of(self, key: str) -> bytes:
        found = {"requests": self.requests[key], "sent": self.sent[key], "json": self.json[key]}
        return json.dumps(found).encode()


def counting(app: App, counts: Counts) -> App:
    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        key = headers.get(b"authorization", b"").decode().rpartition(" ")[2]
        if scope.get("path") == COUNTS:
            await _reply(send, counts.of(key))
            return
        size, tail = 0, b""

        async def heard() -> Message:
            nonlocal size, tail
            message = await receive()
            body = message.get("body", b"")
            size, tail = size + len(body), (tail + body[-4:])[-4:]
            return message

        await app(scope, heard, send)
        if scope.get("method") == "POST":
            counts.add(key, size, tail, is_gzip=headers.get(b"content-encoding") == b"gzip")

    return count


async def _reply(send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


async def serve(dsn: str) -> None:
    """Serve until SIGTERM; prints the port once it answers."""
    settings = Settings(rate_global=None, rate_key=None, rate_anonymous=None, _env_file=None)
    database = Database(dsn, max_size=4, timeout_s=60)
    listener = socket.create_server(("127.0.0.1", 0))
    ready = asyncio.Event()
    server = HttpServer(counting(create_app(settings, database), Counts()), listener, ready.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, setattr, server, "should_exit", True)
    serving = asyncio.create_task(server.run_until_told())
    await ready.wait()
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    await serving
    await database.close()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1]))
