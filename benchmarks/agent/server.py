"""The server process: the application as released, which also counts the bytes that each key sends."""

from __future__ import annotations

import json
import sys
from collections import Counter

import uvloop

from benchmarks.serving import application, serve
from headgate.server.edge import App, Message, Receive, Scope, Send

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


async def main(dsn: str) -> None:
    app, database = application(dsn)
    await serve(counting(app, Counts()), database)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
