"""Whose turn it is: organisations with something to do, each once, in the order in which they came; and those who
send events before all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from uuid import UUID

from headgate.settings import Rate

_MAX_PACES = 10_000
# A server that cannot keep up says so every second.
PRESSED_S = 2.0
# Recurring work is put off first and for longest, but not for longer than this.
PUT_OFF_S = 30.0


class Rotation:
    """One that has more to do goes to the end, so nobody waits for more than one batch of each of the others."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, None] = {}
        self._has_come = asyncio.Event()

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def add(self, organization_id: UUID) -> None:
        self._waiting.setdefault(organization_id)
        self._has_come.set()

    def next(self) -> UUID | None:
        """The one that waits longest; it leaves the rotation."""
        organization_id = next(iter(self._waiting), None)
        if organization_id is not None:
            del self._waiting[organization_id]
        return organization_id

    async def wait(self, stop: asyncio.Event, seconds: float) -> None:
        """Until somebody comes, or it is time to stop, or long enough."""
        if self._waiting or stop.is_set():
            return
        self._has_come.clear()
        waits = [asyncio.create_task(event.wait()) for event in (self._has_come, stop)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


class Pace:
    """How many tasks a second an organisation may have done; a batch may go beyond, and the next waits for it."""

    def __init__(self, rate: Rate | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = 1 / rate.per_second if rate else 0.0
        self._slack = (rate.burst - 1) * self._interval if rate else 0.0
        self._clock = clock
        self._rested_at: dict[UUID, float] = {}

    def wait_s(self, organization_id: UUID) -> float:
        """How long until it may go on; 0 if it may now."""
        wait_s = self._rested_at.get(organization_id, 0.0) - self._clock() - self._slack
        return wait_s if wait_s > 1e-9 else 0.0

    def spend(self, organization_id: UUID, tasks: int) -> None:
        if not self._interval:
            return
        now = self._clock()
        self._rested_at[organization_id] = max(self._rested_at.get(organization_id, now), now) + tasks * self._interval
        if len(self._rested_at) > _MAX_PACES:
            self._rested_at = {key: at for key, at in self._rested_at.items() if at > now}


class Pressure:
    """Whether those who send events wait: at this process, or at another that said so a moment ago."""

    def __init__(self, is_pressed_here: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_pressed_here = is_pressed_here
        self._clock = clock
        self._until = float("-inf")
        self._since: float | None = None

    def hear(self) -> None:
        """Another process cannot keep up."""
        self._until = self._clock() + PRESSED_S

    def is_on(self) -> bool:
        now = self._clock()
        is_on = self._is_pressed_here() or now < self._until
        self._since = (now if self._since is None else self._since) if is_on else None
        return is_on

    def puts_off(self) -> bool:
        """Whether what can take its time is to be left alone."""
        return self.is_on() and self._since is not None and self._clock() - self._since < PUT_OFF_S
