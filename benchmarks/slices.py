"""Interleaving: variants take turns in short slices, so that whatever else the machine does hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

Slice = Callable[[], Awaitable[tuple[int, float]]]


@dataclass
class Tally:
    """What one variant did: events and seconds of each of its slices."""

    events: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, events: int, seconds: float) -> None:
        self.events.append(events)
        self.seconds.append(seconds)

    @property
    def rate(self) -> float:
        return sum(self.events) / sum(self.seconds)

    @property
    def micros(self) -> float:
        """Microseconds an event."""
        return 1e6 / self.rate

    @property
    def rates(self) -> list[float]:
        return [events / seconds for events, seconds in zip(self.events, self.seconds, strict=True)]


async def take_turns(rounds: int, variants: Mapping[str, Slice], *, within_s: float = 300) -> dict[str, Tally]:
    """Run each variant once a round, as many rounds as fit; who begins changes from round to round."""
    tallies = {name: Tally() for name in variants}
    names = list(variants)
    ends_at = time.monotonic() + within_s
    for round_ in range(rounds):
        if round_ > 1 and time.monotonic() > ends_at:
            break
        turn = round_ % len(names)
        for name in names[turn:] + names[:turn]:
            tallies[name].add(*await variants[name]())
    return tallies


def ratio(one: Tally, other: Tally) -> float:
    """How many times faster `one` is, over everything."""
    return one.rate / other.rate


def median_ratio(one: Tally, other: Tally) -> float:
    """The same, as the median over the rounds: one disturbed round does not move it."""
    return statistics.median(mine / theirs for mine, theirs in zip(one.rates, other.rates, strict=True))
