"""Runs an HTTP server and background loops side by side in one event loop, and stops them in order.

Knows when to stop and how long that may take; knows nothing of what it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from socket import socket
from typing import Any, TypeVar

import uvicorn
import uvloop

from headgate.cli.interrupts import Interrupts
from headgate.errors import ConfigError, HeadgateError
from headgate.local.claim import port_taken

T = TypeVar("T")
Loop = Callable[[asyncio.Event], Awaitable[None]]

DRAIN_S = 8
_STOP_S = DRAIN_S + 1.5
_RESTART_AFTER_S = 1.0
_log = logging.getLogger("headgate.up")


@dataclass(frozen=True)
class Stop:
    """The wishes of whoever started us, as events."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hurried: asyncio.Event = field(default_factory=asyncio.Event)


class HttpServer(uvicorn.Server):
    """uvicorn on a socket of ours, without its signal handlers: there is more to stop here than HTTP."""

    def __init__(self, app: Any, listener: socket, on_ready: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_keep_alive=65,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )
        self._listener = listener
        self._on_ready = on_ready

    async def run_until_told(self) -> None:
        address = self._listener.getsockname()
        try:
            await self.serve(sockets=[self._listener])
        except SystemExit as error:  # how uvicorn says that the application did not start
            raise ConfigError("the server did not start", hint="the log above says why") from error
        except OSError as error:
            # Two servers may bind a port while neither listens; only the first to listen gets it.
            raise port_taken(address[0], address[1]) from error

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        # What is meant to go on forever has to be told to end: the server waits for every answer.
        if (end := self.lifespan.state.get("on_shutdown")) is not None:
            end()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def run(main: Callable[[Stop], Coroutine[Any, Any, T]], interrupts: Interrupts) -> T:
    """Run `main` in an event loop of its own; signals set the events of the Stop it gets."""

    async def listening() -> T:
        loop, stop = asyncio.get_running_loop(), Stop()

        def tell() -> None:
            stop.asked.set()
            if interrupts.is_hurried:
                stop.hurried.set()

        def listener() -> None:
            loop.call_soon_threadsafe(tell)

        with interrupts.heard_by(listener):
            return await main(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(listening())


async def unless_stopped(stop: Stop, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; KeyboardInterrupt if we are told to stop before it is there."""
    working, asked = asyncio.create_task(work), asyncio.create_task(stop.asked.wait())
    try:
        await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise KeyboardInterrupt
        return working.result()
    finally:
        await _cancel([working, asked])


async def until_stopped(stop: Stop, *, http: HttpServer | None = None, loops: Sequence[Loop] = ()) -> None:
    """Run everything until told to stop or until the HTTP server fails; then drain and stop all of it."""
    ending = asyncio.Event()
    background = [asyncio.create_task(_kept_running(loop, ending)) for loop in loops]
    serving = [asyncio.create_task(http.run_until_told())] if http else []
    asked = asyncio.create_task(stop.asked.wait())
    try:
        await asyncio.wait([asked, *serving], return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.set()
        if http:
            http.should_exit = True
        await _drain([*serving, *background], stop)
        if http:
            http.force_exit = True
        await _cancel([asked, *serving, *background])
    for task in serving:
        if not task.cancelled():
            task.result()


async def wait(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event, but not longer than this; whether it has come."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def _drain(tasks: Sequence[asyncio.Task[None]], stop: Stop) -> None:
    ends: list[asyncio.Task[Any]] = [asyncio.create_task(stop.hurried.wait())]
    if tasks:
        ends.append(asyncio.create_task(asyncio.wait(tasks)))
        await asyncio.wait(ends, timeout=_STOP_S, return_when=asyncio.FIRST_COMPLETED)
    await _cancel(ends)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=2)


async def _kept_running(loop: Loop, ending: asyncio.Event) -> None:
    while not ending.is_set():
        try:
            await loop(ending)
        except HeadgateError as error:
            _log.warning("%s; trying again", error.message)
        except Exception:  # the boundary of background work: it must not take the server with it
            _log.exception("background work failed; it starts again")
        await wait(ending, _RESTART_AFTER_S)
