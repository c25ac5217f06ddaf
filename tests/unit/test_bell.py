"""The bell: at once in this process, gathered for the others, and never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from headgate.errors import Unavailable
from headgate.server.queue import PRESSED, Bell, content_hash, noting_made

ONE, TWO = UUID(int=1), UUID(int=2)


class Told:
    """A database that notes which organisations are told of, or that is gone."""

    def __init__(self, *, is_gone: bool = False) -> None:
        self.notices: list[list[str]] = []
        self.is_gone = is_gone

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Told]:
        if self.is_gone:
            raise Unavailable("gone")
        yield self

    async def execute(self, _: str, __: str, organizations: list[str]) -> None:
        self.notices.append(sorted(organizations))


def a_bell(told: Told) -> Bell:
    given: Any = told
    return Bell(given)


async def test_workers_of_this_process_hear_it_at_once() -> None:
    bell = a_bell(Told())
    heard: list[UUID] = []
    bell.listen(heard.append)
    bell.ring(ONE)
    assert heard == [ONE]
    await bell.stop()


async def test_rings_in_quick_succession_are_one_notice() -> None:
    told = Told()
    bell = a_bell(told)
    for each in (ONE, TWO, ONE, ONE):
        bell.ring(each)
    await bell.stop()
    assert told.notices == [[str(ONE), str(TWO)]]


async def test_a_ring_while_others_are_told_is_told_too() -> None:
    told = Told()
    bell = a_bell(told)
    bell.ring(ONE)
    await asyncio.sleep(0.02)
    bell.ring(TWO)
    await bell.stop()
    assert told.notices == [[str(ONE)], [str(TWO)]]


async def test_a_database_that_is_gone_is_nobodys_problem_here() -> None:
    told = Told(is_gone=True)
    bell = a_bell(told)
    bell.ring(ONE)
    await asyncio.sleep(0.05)
    told.is_gone = False
    bell.ring(TWO)
    await bell.stop()
    assert told.notices == [[str(TWO)]]


async def test_others_are_told_of_pressure_at_most_once_a_second() -> None:
    told = Told()
    bell = a_bell(told)
    for _ in range(3):
        bell.press()
    bell.ring(ONE)
    await bell.stop()
    bell.press()
    await bell.stop()
    assert told.notices == [[str(ONE), f"{PRESSED}{bell.id}"]]


async def test_a_bell_that_never_rang_stops() -> None:
    await a_bell(Told()).stop()


def test_notes_of_what_was_made_do_not_mix() -> None:
    with noting_made() as outer:
        with noting_made() as inner:
            inner.add(ONE)
        assert (outer, inner) == (set(), {ONE})


def test_the_hash_tells_parts_apart() -> None:
    assert len({content_hash("a", "b"), content_hash("ab"), content_hash("a", "", "b"), content_hash()}) == 4
    assert len(content_hash("x")) == 64
