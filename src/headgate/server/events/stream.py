"""The stream as an HTTP answer: server-sent events until the client or the server has enough."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from headgate.server.events.feed import Message
from headgate.server.events.hub import Hub, Listener

MEDIA_TYPE = "text/event-stream"

_RETRY_MS = 2000
# A client that takes nothing for so long is given up.
_SEND_S = 60.0
_LAST_WORDS_S = 1.0
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that gather an answer before they pass it on would hold it forever.
    (b"x-accel-buffering", b"no"),
]

IsAllowed = Callable[[], Awaitable[bool]]


class EventStream(StreamingResponse):
    """Listens to the hub while the answer lasts; `is_allowed` is asked again at every heartbeat."""

    media_type = MEDIA_TYPE

    def __init__(
        self, hub: Hub, organization_id: UUID, types: frozenset[str], after: int | None, is_allowed: IsAllowed
    ) -> None:
        super().__init__(())
        self._hub = hub
        self._organization_id = organization_id
        self._types = types
        self._after = after
        self._is_allowed = is_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._hub.listen(self._organization_id, self._types, self._after) as listener:
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            telling = asyncio.create_task(self._tell(listener, send))
            ends = [asyncio.create_task(_until_gone(receive)), asyncio.create_task(listener.closed.wait())]
            try:
                await asyncio.wait([telling, *ends], return_when=asyncio.FIRST_COMPLETED)
                if not ends[0].done():
                    await asyncio.wait([telling], timeout=_LAST_WORDS_S)
            finally:
                for task in (telling, *ends):
                    task.cancel()
                await asyncio.wait([telling, *ends])
            _check(telling)

    async def _tell(self, listener: Listener, send: Send) -> None:
        loop = asyncio.get_running_loop()
        # Whoever hangs up before the first message comes back with the id it came with.
        told_id = listener.floor if self._after is None else self._after
        beat_at = loop.time() + self._hub.heartbeat_s
        await _send(send, b"retry: %d\nid: %d\n\n" % (_RETRY_MS, told_id))
        while not listener.closed.is_set():
            messages = await listener.take(max(0.0, beat_at - loop.time()))
            # Now, before anything else is awaited: afterwards it may cover messages that wait.
            floor = listener.floor
            body = write(messages, told_id)
            if loop.time() >= beat_at:
                if not await self._is_allowed():
                    break
                beat_at = loop.time() + self._hub.heartbeat_s
                body += b": heartbeat\n\n"
            if floor != told_id:
                told_id = floor
                body += b"id: %d\n\n" % told_id
            if body:
                await _send(send, body)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def write(messages: Sequence[Message], event_id: int) -> bytes:
    """Messages as they go over the wire. Their id is the one before them: whoever resumes may hear them again."""
    return b"".join(
        b"event: %s\nid: %d\ndata: %s\n\n" % (message.type.encode(), event_id, message.body) for message in messages
    )


async def _send(send: Send, body: bytes) -> None:
    async with asyncio.timeout(_SEND_S):
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _check(telling: asyncio.Task[None]) -> None:
    """Raise what went wrong on our side; a client that is gone or takes nothing is no fault."""
    error = None if telling.cancelled() else telling.exception()
    if error is not None and not isinstance(error, OSError):
        raise error


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
