"""Answers that are streamed from something that has to be given back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class HeldStream(StreamingResponse):
    """Opens what it streams when it is sent and closes it however that ends, even if nobody waits for a first byte.

    What fails on opening is told as any other problem: nothing has been sent by then.
    """

    def __init__(self, opening: AbstractAsyncContextManager[AsyncIterator[bytes]], *, media_type: str) -> None:
        super().__init__((), media_type=media_type)
        self._opening = opening

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._opening as parts:
            self.body_iterator = parts
            await super().__call__(scope, receive, send)
