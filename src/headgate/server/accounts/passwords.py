"""Password hashing off the event loop. Knows argon2 and how much of it may run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from headgate.errors import Unavailable

MIN_CHARS = 10
MAX_BYTES = 1024

_AT_ONCE = 2
_MAX_WAITING = 64
_Result = TypeVar("_Result")


class Passwords:
    """Hashes and verifies, two at once: each takes 19 MiB and a core for some tens of milliseconds."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(password))

    async def verify(self, password_hash: str | None, password: str) -> bool:
        """Whether the password is right. Without a hash, for a user that does not exist, it takes as long."""
        return await self._in_thread(lambda: self._matches(password_hash, password))

    def _matches(self, password_hash: str | None, password: str) -> bool:
        nobody = self._nobody
        try:
            return self._hasher.verify(password_hash or nobody, password) and password_hash is not None
        except (VerificationError, InvalidHashError):
            return False

    @cached_property
    def _nobody(self) -> str:
        return self._hasher.hash("nobody has this password")

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        if self._waiting >= _MAX_WAITING:
            raise Unavailable("too many people are logging in at once", hint="retry after a moment")
        self._waiting += 1
        try:
            async with self._slots:
                return await asyncio.to_thread(work)
        finally:
            self._waiting -= 1
