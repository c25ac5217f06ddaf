"""The client whose answers are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, TypeVar

import httpx

from headgate.client import accounts
from headgate.client.http import LOOPBACK, Call, bearer, checked_url, no_answer, wait_s
from headgate.client.methods import Methods
from headgate.client.shapes import Page
from headgate.errors import Unavailable

T = TypeVar("T")


class AsyncHeadgateClient(Methods):
    """A connection to one server, for one caller; use it with `async with` or call `close`."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 10,
        attempts: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`attempts` counts tries of a request that the server cannot take now; 1 never waits."""
        parsed = checked_url(url)
        self.url = str(parsed).rstrip("/")
        self._attempts = max(1, attempts)
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=timeout_s,
            transport=transport,
            # A proxy from the environment cannot reach this machine's own loopback.
            trust_env=parsed.host not in LOOPBACK,
        )
        if api_key is not None:
            self._http.headers["Authorization"] = bearer(api_key)

    def __repr__(self) -> str:
        return f"AsyncHeadgateClient({self.url!r})"

    async def __aenter__(self) -> AsyncHeadgateClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def call(self, call: Call[T]) -> T:
        """Send a request, again while the server cannot take it, and read the answer."""
        request = call.request(self._http)
        for attempt in range(1, self._attempts):
            try:
                response = await self._send(request)
            except Unavailable as error:
                if not call.survives(error):
                    raise
                await self._sleep(wait_s(None, attempt))
                continue
            if not call.retries(response):
                return call.answer(response)
            await self._sleep(wait_s(response, attempt))
        return call.answer(await self._send(request))

    async def each(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Every item of a list, page after page."""
        while True:
            page = await self.call(call)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            call = call.after(page.next_cursor)

    async def list_keys(self) -> list[dict[str, Any]]:
        """Every key of the organisation, without the keys themselves."""
        return [key async for key in self.each(accounts.keys())]

    async def login(self, email: str, password: str) -> dict[str, Any]:
        """Open a session; later calls of this client act as that user. Returns what the server says of it."""
        answer = await self.call(accounts.login(email, password))
        self._http.headers["Authorization"] = bearer(str(answer.pop("token", "")))
        # The session goes out as a header; a cookie beside it would be a second identity.
        self._http.cookies.clear()
        return answer

    async def ready(self) -> bool:
        """Whether the server takes requests now; never raises because it does not."""
        try:
            return (await self._send(accounts.ready().request(self._http))).status_code == 200
        except Unavailable:
            return False

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._http.send(request)
        except httpx.RequestError as error:
            raise no_answer(self.url, error) from error
