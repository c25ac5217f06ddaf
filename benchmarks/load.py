"""The load generator: a process of its own with raw connections, so that the client is not what is measured.

Reads one order a line from stdin and answers each with a line: how long it took, and every request's latency.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, cast

import uvloop

from benchmarks.events import Events

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length: "


class Client(asyncio.Protocol):
    """One keep-alive connection that has one request under way at a time."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._transport: asyncio.WriteTransport | None = None
        self._sent_at = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(_END_OF_HEAD)
        if not end or len(body) < _length(head):
            return
        self._work.done(time.perf_counter() - self._sent_at, self._received)
        self._received = b""
        self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._work.fail(f"the server closed a connection: {exc}")

    def send_next(self) -> None:
        request = self._work.take()
        if request is not None:
            assert self._transport is not None
            self._sent_at = time.perf_counter()
            self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Work:
    """Requests to be sent, each once, by whichever client is free."""

    def __init__(self, requests: list[bytes]) -> None:
        self._requests = requests
        self._left = len(requests)
        self.latencies: list[float] = []
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def take(self) -> bytes | None:
        return self._requests.pop() if self._requests else None

    def done(self, latency: float, answer: bytes) -> None:
        if not answer.startswith(b"HTTP/1.1 20"):
            self.fail(f"an event was not accepted: {answer[:2000]!r}")
        self.latencies.append(latency)
        self._left -= 1
        if self._left == 0 and not self.finished.done():
            self.finished.set_result(None)

    def fail(self, reason: str) -> None:
        if not self.finished.done():
            self.finished.set_exception(RuntimeError(reason))


def _length(head: bytes) -> int:
    start = head.lower().find(_LENGTH) + len(_LENGTH)
    return int(head[start:].partition(b"\r\n")[0])


def requests_of(events: list[bytes], order: dict[str, Any]) -> list[bytes]:
    head = (
        f"POST {order['path']} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {order['key']}\r\n"
        "Content-Type: application/json\r\nContent-Length: "
    ).encode()
    size = order.get("batch", 0)
    bodies = [b"[" + b",".join(events[i : i + size]) + b"]" for i in range(0, len(events), size)] if size else events
    return [b"%b%d\r\n\r\n%b" % (head, len(body), body) for body in reversed(bodies)]


async def carry_out(order: dict[str, Any], events: Events) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    work = Work(requests_of(events.take(order["events"]), order))
    connecting = [
        loop.create_connection(lambda: Client(work), "127.0.0.1", order["port"]) for _ in range(order["clients"])
    ]
    clients = [client for _, client in await asyncio.gather(*connecting)]
    began = time.perf_counter()
    for client in clients:
        client.send_next()
    await work.finished
    seconds = time.perf_counter() - began
    for client in clients:
        client.close()
    return {"events": order["events"], "seconds": seconds, "latencies_ms": [t * 1000 for t in work.latencies]}


async def main() -> None:
    events = Events(int(sys.argv[1]))
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await carry_out(json.loads(line), events)), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
