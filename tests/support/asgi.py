"""A request whose answer a test takes piece by piece, or not at all: what httpx's in-process transport cannot do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from headgate.server.edge import App, Message


class Exchange:
    """One GET in progress. The server's `send` waits while `taking` is not set."""

    def __init__(self, app: App, path: str, query: str, headers: dict[str, str]) -> None:
        self.taking = asyncio.Event()
        self.taking.set()
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self._gone = asyncio.Event()
        self._changed = asyncio.Event()
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "client": ("192.0.2.1", 1),
            "server": ("headgate.test", 80),
        }
        self.task = asyncio.create_task(self._serve(app, scope))

    async def begun(self) -> int:
        """The status, once there is one."""
        await self._until(lambda: self.status != 0, 10)
        return self.status

    async def until(self, text: bytes, seconds: float = 10) -> bytes:
        """The body once it holds this text."""
        await self._until(lambda: text in self.body, seconds)
        return self.body

    async def _until(self, is_there: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while not is_there():
                self._changed.clear()
                await self._changed.wait()

    def hang_up(self) -> None:
        self._gone.set()

    async def _serve(self, app: App, scope: dict[str, Any]) -> None:
        await app(scope, self._receive, self._send)

    async def _receive(self) -> Message:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            await self.taking.wait()
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)
        self._changed.set()


@asynccontextmanager
async def an_exchange(
    app: App, path: str, api_key: str, *, query: str = "", taking: bool = True, **headers: str
) -> AsyncIterator[Exchange]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    exchange = Exchange(app, path, query, {"authorization": f"Bearer {api_key}"} | given)
    if not taking:
        exchange.taking.clear()
    try:
        yield exchange
    finally:
        exchange.hang_up()
        exchange.task.cancel()
        await asyncio.wait([exchange.task])
