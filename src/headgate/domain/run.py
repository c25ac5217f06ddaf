"""The states of a run and how events may follow each other. Knows nothing of storage or the wire.

What the database decides set by set (which terminal wins, what is refused) follows the order given here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

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
    return sorted(events, key=lambda event: (event[0], _ORDER[event[1]]))


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
