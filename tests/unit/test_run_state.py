"""States of a run: how events may follow each other, which end counts, and that arrival order does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.domain.run import TERMINAL, Course, Moment, RunState, Verdict, check_sequence, in_order, judge
from headgate.errors import InvalidSequence
from headgate.server.ingest.rows import course_of
from tests.support.events import T0

START, RUNNING, OTHER = RunState.START, RunState.RUNNING, RunState.OTHER
COMPLETE, FAIL, ABORT = RunState.COMPLETE, RunState.FAIL, RunState.ABORT
ACTIVE = (START, RUNNING, OTHER)

times = st.integers(0, 6).map(lambda second: T0 + timedelta(seconds=second))
moments = st.tuples(times, st.sampled_from(list(RunState)))
# Runs that have not ended, as often as any.
histories = st.lists(moments, min_size=1, max_size=7) | st.lists(
    st.tuples(times, st.sampled_from(ACTIVE)), min_size=1, max_size=5
)


def seen(second: float, state: RunState) -> Moment:
    return T0 + timedelta(seconds=second), state


def at(second: float) -> datetime:
    return T0 + timedelta(seconds=second)


def course(*events: Moment) -> Course:
    found = Course()
    for event in events:
        found.add(event)
    return found


def one_by_one(events: Sequence[Moment]) -> tuple[Course, list[Verdict]]:
    """What a server knows after taking these events as they come, reading the run anew for each."""
    known = Course()
    verdicts = []
    for event in events:
        (verdict,) = judge(known.end, [event])
        if verdict == Verdict.STORED:
            known.add(event)
            known = course_of(row_of(known))
        verdicts.append(verdict)
    return known, verdicts


def row_of(known: Course) -> Mapping[str, Any]:
    """The run as its row keeps it."""
    times = {f"{state.lower()}_at": known.first.get(state) for state in RunState}
    return {
        **times,
        "started_at": known.started_at,
        "last_event_at": known.last_event_at,
        "last_activity_at": known.last_activity_at,
    }


def accepted_sequence(*states: RunState) -> None:
    check_sequence([seen(second, state) for second, state in enumerate(states)])


@pytest.mark.parametrize(
    "states",
    [
        (START, RUNNING),
        (START, COMPLETE),
        (START, FAIL),
        (START, ABORT),
        (START, RUNNING, RUNNING, COMPLETE),
        (RUNNING, COMPLETE),
        (RUNNING, FAIL),
        (RUNNING, ABORT),
        (COMPLETE, COMPLETE),
        (FAIL, FAIL),
        (ABORT, ABORT),
        (OTHER, START, OTHER, RUNNING, OTHER, COMPLETE, OTHER),
        (COMPLETE,),
        (),
    ],
    ids=" ".join,
)
def test_these_events_may_follow_each_other(states: tuple[RunState, ...]) -> None:
    accepted_sequence(*states)


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ((START, START), "duplicate START"),
        ((START, OTHER, START), "duplicate START"),
        ((RUNNING, START), "backward step from RUNNING to START"),
        ((START, RUNNING, START), "backward step from RUNNING to START"),
        *[
            ((end, other), f"{other} at .* follows the terminal state {end}")
            for end in (COMPLETE, FAIL, ABORT)
            for other in (START, RUNNING, COMPLETE, FAIL, ABORT)
            if other is not end
        ],
        ((COMPLETE, OTHER, RUNNING), "follows the terminal state COMPLETE"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_these_events_may_not_follow_each_other(states: tuple[RunState, ...], reason: str) -> None:
    with pytest.raises(InvalidSequence, match=reason):
        accepted_sequence(*states)


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_a_sequence_is_judged_by_event_time_and_not_by_place(order: tuple[int, ...]) -> None:
    events = [seen(0, START), seen(1, RUNNING), seen(2, RUNNING), seen(3, COMPLETE)]
    check_sequence([events[place] for place in order])


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_events_of_one_instant_sort_as_start_running_other_terminal(order: tuple[int, ...]) -> None:
    events = [seen(0, START), seen(0, RUNNING), seen(0, OTHER), seen(0, COMPLETE)]
    mixed = [events[place] for place in order]

    assert in_order(mixed) == events
    check_sequence(mixed)


@given(st.lists(moments, max_size=6), st.randoms(use_true_random=False))
def test_whether_a_sequence_is_possible_does_not_depend_on_its_order(events: list[Moment], random: Any) -> None:
    mixed = random.sample(events, len(events))
    assert is_possible(mixed) == is_possible(events)


def is_possible(events: list[Moment]) -> bool:
    try:
        check_sequence(events)
    except InvalidSequence:
        return False
    return True


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ([seen(5, COMPLETE)], seen(5, COMPLETE)),
        ([seen(5, COMPLETE), seen(4, FAIL)], seen(4, FAIL)),
        ([seen(5, FAIL), seen(4, COMPLETE)], seen(4, COMPLETE)),
        ([seen(4, COMPLETE), seen(4, ABORT)], seen(4, ABORT)),
        ([seen(4, COMPLETE), seen(4, FAIL)], seen(4, FAIL)),
        ([seen(4, ABORT), seen(4, FAIL), seen(4, COMPLETE)], seen(4, FAIL)),
        ([seen(0, START), seen(9, RUNNING)], None),
    ],
    ids=["only", "earlier FAIL", "earlier COMPLETE", "tie ABORT", "tie FAIL", "three ways", "none"],
)
def test_the_earliest_terminal_counts_and_ties_go_to_fail_then_abort(events: list[Moment], end: Moment | None) -> None:
    for order in permutations(events):
        assert course(*order).end == end


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([seen(3, OTHER)], OTHER),
        ([seen(3, START)], START),
        ([seen(3, START), seen(9, OTHER)], START),
        ([seen(3, START), seen(3, RUNNING)], RUNNING),
        ([seen(3, START), seen(4, RUNNING), seen(5, OTHER)], RUNNING),
        ([seen(3, START), seen(2, RUNNING), seen(5, OTHER)], RUNNING),
        ([seen(3, START), seen(3, COMPLETE)], COMPLETE),
        ([seen(3, START), seen(2, COMPLETE)], COMPLETE),
        ([seen(3, START), seen(4, RUNNING), seen(5, ABORT)], ABORT),
    ],
    ids=lambda value: "" if isinstance(value, list) else value,
)
def test_a_run_is_in_the_state_that_its_events_tell(events: list[Moment], state: RunState) -> None:
    for order in permutations(events):
        assert course(*order).state[1] is state


def test_a_run_started_with_its_earliest_start() -> None:
    for order in permutations([seen(1, OTHER), seen(3, START), seen(5, START), seen(7, COMPLETE)]):
        assert course(*order).started_at == at(3)


def test_a_run_without_start_started_with_its_earliest_event() -> None:
    for order in permutations([seen(4, RUNNING), seen(2, OTHER), seen(7, COMPLETE)]):
        assert course(*order).started_at == at(2)


@given(histories, st.randoms(use_true_random=False))
def test_a_course_does_not_depend_on_the_order_of_arrival(events: list[Moment], random: Any) -> None:
    mixed = random.sample(events, len(events))
    one, other = course(*events), course(*mixed)

    assert one == other
    assert (one.state, one.end, one.started_at, one.window) == (other.state, other.end, other.started_at, other.window)


@given(histories)
@example([seen(5, RUNNING), seen(20, OTHER), seen(10, START)])
def test_a_course_survives_being_stored_between_any_two_events(events: list[Moment]) -> None:
    stored = Course()
    for event in events:
        stored.add(event)
        stored = course_of(row_of(stored))
    whole = course(*events)

    assert (stored.state[1], stored.end, stored.started_at) == (whole.state[1], whole.end, whole.started_at)
    assert (stored.first, stored.last_event_at, stored.last_activity_at) == (
        whole.first,
        whole.last_event_at,
        whole.last_activity_at,
    )


@given(histories, st.randoms(use_true_random=False))
def test_the_end_does_not_depend_on_the_order_of_arrival(events: list[Moment], random: Any) -> None:
    mixed = random.sample(events, len(events))
    known, _ = one_by_one(mixed)

    assert known.end == course(*events).end


@given(histories, st.randoms(use_true_random=False))
def test_a_state_does_not_depend_on_the_order_of_arrival(events: list[Moment], random: Any) -> None:
    mixed = random.sample(events, len(events))
    end = course(*events).end
    # What comes after the end is a matter of arrival by rule; the rest is not.
    inside = [event for event in mixed if end is None or event[0] <= end[0]]
    one, _ = one_by_one(inside)
    other, _ = one_by_one(sorted(inside))

    assert (one.state[1], one.started_at) == (other.state[1], other.started_at)


@given(histories, st.randoms(use_true_random=False))
def test_verdicts_of_a_group_do_not_depend_on_its_order(events: list[Moment], random: Any) -> None:
    mixed = random.sample(list(enumerate(events)), len(events))
    verdicts = judge(None, events)

    again = judge(None, [event for _, event in mixed])
    assert {place: verdict for (place, _), verdict in zip(mixed, again, strict=True)} == dict(enumerate(verdicts))


@given(histories)
def test_what_counts_in_a_group_counts_one_by_one_too(events: list[Moment]) -> None:
    end = course(*events).end
    together = judge(None, events)
    _, alone = one_by_one(events)

    for event, whole, single in zip(events, together, alone, strict=True):
        if event == end or event[1] in ACTIVE:
            assert whole != Verdict.STORED or single == Verdict.STORED


@given(st.lists(moments, min_size=1, max_size=7), st.none() | moments.filter(lambda moment: moment[1] in TERMINAL))
def test_some_terminal_event_is_always_accepted_unless_an_end_is_known(
    events: list[Moment], end: Moment | None
) -> None:
    verdicts = judge(end, events)
    ends = [v for (_, state), v in zip(events, verdicts, strict=True) if state in TERMINAL]

    assert end is not None or not ends or Verdict.STORED in ends
    assert all(v == Verdict.STORED for v in verdicts) or end is not None or ends


@pytest.mark.parametrize(
    ("known", "event", "verdict"),
    [
        (seen(5, COMPLETE), seen(6, FAIL), Verdict.ENDED_OTHERWISE),
        (seen(5, COMPLETE), seen(6, COMPLETE), Verdict.STORED),
        (seen(5, COMPLETE), seen(4, FAIL), Verdict.STORED),
        (seen(5, COMPLETE), seen(5, FAIL), Verdict.STORED),
        (seen(5, FAIL), seen(5, COMPLETE), Verdict.ENDED_OTHERWISE),
        (seen(5, FAIL), seen(5, ABORT), Verdict.ENDED_OTHERWISE),
        *[(seen(5, COMPLETE), seen(6, state), Verdict.AFTER_END) for state in ACTIVE],
        *[(seen(5, COMPLETE), seen(5, state), Verdict.STORED) for state in ACTIVE],
        *[(seen(5, COMPLETE), seen(4, state), Verdict.STORED) for state in ACTIVE],
        *[(None, seen(9, state), Verdict.STORED) for state in RunState],
    ],
    ids=lambda value: f"{value[1]}@{value[0].second}" if isinstance(value, tuple) else getattr(value, "name", "open"),
)
def test_an_event_of_a_known_run_gets_its_verdict(known: Moment | None, event: Moment, verdict: Verdict) -> None:
    assert judge(known, [event]) == [verdict]


def test_in_a_group_the_earliest_terminal_judges_the_others() -> None:
    events = [seen(9, RUNNING), seen(5, COMPLETE), seen(3, FAIL), seen(2, START), seen(8, FAIL)]
    assert judge(None, events) == [
        Verdict.AFTER_END,
        Verdict.ENDED_OTHERWISE,
        Verdict.STORED,
        Verdict.STORED,
        Verdict.STORED,
    ]
