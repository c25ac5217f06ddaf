"""The client that blocks until it has an answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, TypeVar

import httpx

from headgate.client import accounts
from headgate.client.http import LOOPBACK, Call, bearer, checked_url, no_answer, wait_s
from headgate.client.methods import Methods
from headgate.client.shapes import Page
from headgate.errors import Unavailable

T = TypeVar("T")


class HeadgateClient(Methods):
    """A connection to one server, for one caller; use it as a context manager or call `close`."""

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = 10,
        attempts: int = 4,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`attempts` counts tries of a request that the server cannot take now; 1 never waits."""
        parsed = checked_url(url)
        self.url = str(parsed).rstrip("/")
        self._attempts = max(1, attempts)
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self.url,
            timeout=timeout_s,
            transport=transport,
            # A proxy from the environment cannot reach this machine's own loopback.
            trust_env=parsed.host not in LOOPBACK,
        )
        if api_key is not None:
            self._http.headers["Authorization"] = bearer(api_key)

    def __repr__(self) -> str:
        return f"HeadgateClient({self.url!r})"

    def __enter__(self) -> HeadgateClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def call(self, call: Call[T]) -> T:
        """Send a request, again while the server cannot take it, and read the answer."""
        request = call.request(self._http)
        for attempt in range(1, self._attempts):
            try:
                response = self._send(request)
            except Unavailable as error:
                if not call.survives(error):
                    raise
                self._sleep(wait_s(None, attempt))
                continue
            if not call.retries(response):
                return call.answer(response)
            self._sleep(wait_s(response, attempt))
        return call.answer(self._send(request))

    def each(self, call: Call[Page[T]]) -> Iterator[T]:
        """Every item of a list, page after page."""
        while True:
            page = self.call(call)
            yield from page.items
            if page.next_cursor is None:
                return
            call = call.after(page.next_cursor)

    def list_keys(self) -> list[dict[str, Any]]:
        """Every key of the organisation, without the keys themselves."""
        return list(self.each(accounts.keys()))

    def login(self, email: str, password: str) -> dict[str, Any]:
        """Open a session; later calls of this client act as that user. Returns what the server says of it."""
        answer = self.call(accounts.login(email, password))
        self._http.headers["Authorization"] = bearer(str(answer.pop("token", "")))
        # The session goes out as a header; a cookie beside it would be a second identity.
        self._http.cookies.clear()
        return answer

    def ready(self) -> bool:
        """Whether the server takes requests now; never raises because it does not."""
        try:
            return self._send(accounts.ready().request(self._http)).status_code == 200
        except Unavailable:
            return False

    def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._http.send(request)
        except httpx.RequestError as error:
            raise no_answer(self.url, error) from error
