"""The states of a run and how events may follow each other. Knows nothing of storage or the wire.

Decides which terminal wins, what is refused, and what the state of a run is; the store holds the locks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum

from headgate.errors import InvalidSequence


class RunState(StrEnum):
    START = "START"
    RUNNING = "RUNNING"
    OTHER = "OTHER"
    FAIL = "FAIL"
    ABORT = "ABORT"
    COMPLETE = "COMPLETE"


TERMINAL = frozenset({RunState.COMPLETE, RunState.FAIL, RunState.ABORT})

# Events of the same instant sort in this order; among terminals the first one wins.
_ORDER = {state: place for place, state in enumerate(RunState)}

Moment = tuple[datetime, RunState]


def in_order(events: Iterable[Moment]) -> list[Moment]:
    """Events by time; at the same instant START, RUNNING, OTHER, then the terminals."""
    return sorted(events, key=_place)


def check_sequence(events: Sequence[Moment]) -> None:
    """Raise `InvalidSequence` unless these events of one run, sorted by time, can follow each other."""
    current: RunState | None = None
    for at, state in in_order(events):
        if state is RunState.OTHER:
            continue
        _check_step(current, state, at)
        current = state


def _check_step(current: RunState | None, following: RunState, at: datetime) -> None:
    if current in TERMINAL and following is not current:
        raise InvalidSequence(
            f"invalid event sequence: {following} at {at.isoformat()} follows the terminal state {current}",
            hint="a run that has ended takes no other state; send later work under a new runId",
        )
    if following is RunState.START and current is RunState.START:
        raise InvalidSequence(
            f"invalid event sequence: duplicate START event at {at.isoformat()}",
            hint="send one START for each runId",
        )
    if following is RunState.START and current is RunState.RUNNING:
        raise InvalidSequence(
            f"invalid event sequence: backward step from RUNNING to START at {at.isoformat()}",
            hint="START must be the earliest event of its run",
        )


class Verdict(IntEnum):
    """What becomes of an event."""

    STORED = 0
    DUPLICATE = 1
    ENDED_OTHERWISE = 2
    AFTER_END = 3


@dataclass(slots=True)
class Course:
    """When a run was first seen in each state, whatever the order in which events arrived."""

    first: dict[RunState, datetime] = field(default_factory=dict)
    first_event_at: datetime | None = None
    last_event_at: datetime | None = None
    last_activity_at: datetime | None = None

    @property
    def end(self) -> Moment | None:
        """The terminal event that counts: the earliest, and at the same instant FAIL, ABORT, COMPLETE."""
        ends = [(at, state) for state, at in self.first.items() if state in TERMINAL]
        return min(ends, key=_place) if ends else None

    @property
    def state(self) -> Moment:
        """The state now, and since when. A run that was seen running has started, whenever its START came."""
        if (end := self.end) is not None:
            return end
        state = next(s for s in (RunState.RUNNING, RunState.START, RunState.OTHER) if s in self.first)
        return self.first[state], state

    @property
    def started_at(self) -> datetime:
        """The earliest START or, without one, the earliest event."""
        started = self.first.get(RunState.START, self.first_event_at)
        assert started is not None, "a course begins with its first event"
        return started

    @property
    def window(self) -> tuple[datetime, datetime]:
        """From the first to the last event."""
        assert self.first_event_at is not None
        assert self.last_event_at is not None
        return min(self.first_event_at, *self.first.values()), self.last_event_at

    def add(self, moment: Moment) -> None:
        at, state = moment
        self.first[state] = min(at, self.first.get(state, at))
        self.first_event_at = min(at, self.first_event_at or at)
        self.last_event_at = max(at, self.last_event_at or at)
        if state not in TERMINAL:
            self.last_activity_at = max(at, self.last_activity_at or at)


_VERSION = re.compile(r"v?\d+(?:\.\d+)*(?:[-+.].*)?")


def producer_name(url: str) -> str:
    """What a producer is called, from its URL: the last part of it that is no version.

    >>> producer_name("https://github.com/correlator-io/dbt-correlator/0.1.0")
    'dbt-correlator'
    """
    parts = [part for part in url.split("#")[0].split("?")[0].split("/") if part]
    return next((part for part in reversed(parts) if not _VERSION.fullmatch(part)), url)


def judge(known_end: Moment | None, moments: Sequence[Moment]) -> list[Verdict]:
    """Which of these new events of one run are accepted, given how it is known to have ended.

    The earliest terminal wins, also over one that was accepted before; a later one must say the same. What
    comes after the end is refused, unless it came before the end was known.
    """
    ends = [moment for moment in moments if moment[1] in TERMINAL]
    if known_end is not None:
        ends.append(known_end)
    if not ends:
        return [Verdict.STORED] * len(moments)
    end_at, end_state = min(ends, key=_place)
    return [_judge_one(moment, end_at, end_state) for moment in moments]


def _judge_one(moment: Moment, end_at: datetime, end_state: RunState) -> Verdict:
    at, state = moment
    if state in TERMINAL:
        return Verdict.STORED if state is end_state else Verdict.ENDED_OTHERWISE
    return Verdict.AFTER_END if at > end_at else Verdict.STORED


def _place(moment: Moment) -> tuple[datetime, int]:
    return moment[0], _ORDER[moment[1]]
