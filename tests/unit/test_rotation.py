"""Whose turn it is, and how often: without a database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest

from headgate.server import worker
from headgate.server.rotation import PRESSED_S, PUT_OFF_S, Pace, Pressure, Rotation
from headgate.server.worker import Worker
from headgate.settings import Rate

ONE, TWO, THREE = (UUID(int=number) for number in (1, 2, 3))


class Slow:
    """A database that takes its time, by a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.now = 1000.0
        self.asked = 0
        self._seconds = seconds

    def monotonic(self) -> float:
        return self.now

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Slow]:
        yield self

    async def fetch(self, *_: object) -> list[object]:
        self.asked += 1
        self.now += self._seconds
        return []


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.01, 1), (0.5, 10), (40, 30)], ids=["quick", "slow", "very slow"])
async def test_a_look_that_took_long_is_not_the_last_for_long(
    monkeypatch: pytest.MonkeyPatch, took_s: float, pause_s: float
) -> None:
    slow: Any = Slow(took_s)
    monkeypatch.setattr(worker, "time", slow)
    looking = Worker(slow, [])
    await looking.step()
    slow.now += pause_s - 0.1
    await looking.step()
    assert slow.asked == 1
    slow.now += 0.2
    await looking.step()
    assert slow.asked == 2


def test_each_has_its_turn_in_the_order_in_which_it_came() -> None:
    rotation = Rotation()
    for each in (TWO, ONE, TWO, THREE, ONE):
        rotation.add(each)
    assert [rotation.next() for _ in range(4)] == [TWO, ONE, THREE, None]
    assert rotation.is_empty


def test_one_with_more_to_do_goes_behind_the_others() -> None:
    rotation = Rotation()
    for each in (ONE, TWO):
        rotation.add(each)
    turns = []
    for _ in range(4):
        turn = rotation.next()
        assert turn is not None
        rotation.add(turn)
        turns.append(turn)
    assert turns == [ONE, TWO, ONE, TWO]


async def test_whoever_comes_ends_the_wait_of_every_lane() -> None:
    rotation, stop = Rotation(), asyncio.Event()
    waits = [asyncio.create_task(rotation.wait(stop, 60)) for _ in range(3)]
    await asyncio.sleep(0)
    rotation.add(ONE)
    await asyncio.wait_for(asyncio.gather(*waits), 1)


async def test_a_wait_ends_when_it_is_time_to_stop_or_long_enough() -> None:
    rotation, stop = Rotation(), asyncio.Event()
    await asyncio.wait_for(rotation.wait(stop, 0.01), 1)
    waiting = asyncio.create_task(rotation.wait(stop, 60))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(waiting, 1)
    await asyncio.wait_for(rotation.wait(stop, 60), 1)


async def test_nobody_waits_while_somebody_has_something_to_do() -> None:
    rotation = Rotation()
    rotation.add(ONE)
    await asyncio.wait_for(rotation.wait(asyncio.Event(), 60), 1)


async def test_a_wait_can_be_canceled() -> None:
    waiting = asyncio.create_task(Rotation().wait(asyncio.Event(), 60))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_rate_nobody_waits() -> None:
    pace = Pace(None)
    pace.spend(ONE, 1_000_000)
    assert pace.wait_s(ONE) == 0


def test_a_batch_beyond_the_rate_is_paid_for_before_the_next() -> None:
    clock = Clock()
    pace = Pace(Rate(per_second=10, burst=5), clock=clock)
    pace.spend(ONE, 4)
    assert pace.wait_s(ONE) == 0
    pace.spend(ONE, 101)
    assert pace.wait_s(ONE) == pytest.approx(10.1)
    assert pace.wait_s(TWO) == 0
    clock.now += 10
    assert pace.wait_s(ONE) == pytest.approx(0.1)
    clock.now += 0.2
    assert pace.wait_s(ONE) == 0


def test_those_who_have_rested_are_forgotten() -> None:
    clock = Clock()
    pace = Pace(Rate(per_second=10, burst=5), clock=clock)
    for number in range(10_000):
        pace.spend(UUID(int=number), 1)
    clock.now += 60
    pace.spend(ONE, 1)
    pace.spend(UUID(int=20_000), 1)
    assert len(pace._rested_at) == 2


def test_the_word_of_another_process_holds_for_a_moment() -> None:
    clock = Clock()
    pressure = Pressure(lambda: False, clock=clock)
    assert not pressure.is_on()
    pressure.hear()
    assert pressure.is_on()
    clock.now += PRESSED_S - 0.1
    pressure.hear()
    clock.now += PRESSED_S - 0.1
    assert pressure.is_on()
    clock.now += 0.2
    assert not pressure.is_on()


def test_what_can_wait_is_put_off_while_there_is_pressure_but_not_for_ever() -> None:
    clock, is_pressed = Clock(), True
    pressure = Pressure(lambda: is_pressed, clock=clock)
    assert pressure.puts_off()
    clock.now += PUT_OFF_S - 0.1
    assert pressure.puts_off()
    clock.now += 0.2
    assert pressure.is_on()
    assert not pressure.puts_off()
    is_pressed = False
    assert not pressure.puts_off()
    is_pressed = True
    assert pressure.puts_off()
