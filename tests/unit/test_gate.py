"""The gate: which rates and counts let a batch through, and which rows then go where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.gate import (
    Action,
    History,
    Lot,
    OnFail,
    Outcome,
    RowLimits,
    Rules,
    Verdict,
    judge,
    published,
    quarantined,
    stops,
)

CLEAN, WARNED, FAILED, APART = Lot.clean, Lot.warned, Lot.failed, Lot.quarantined


def lots(clean: int = 0, warned: int = 0, failed: int = 0, apart: int = 0) -> dict[Lot, int]:
    return {CLEAN: clean, WARNED: warned, FAILED: failed, APART: apart}


def a_test(name: str = "t", failed: int = 0, on_fail: OnFail = OnFail.fail, **more: Any) -> Outcome:
    return Outcome(name, more.pop("type", "not_null"), on_fail, failed, **more)


def of_batch(name: str = "t", *, holds: bool, on_fail: OnFail = OnFail.fail, detail: str | None = None) -> Outcome:
    return Outcome(name, "row_count", on_fail, is_row_level=False, holds=holds, detail=detail)


def verdict(counts: dict[Lot, int], *tests: Outcome, history: History | None = None, **rules: Any) -> Verdict:
    return judge(Rules(**rules), counts, tests, history or History())


def verdict_of(action: Action | None) -> Verdict:
    """One that passed, or one that did not and does this."""
    rate = 1.0 if action else 0.0
    return verdict(lots(clean=1, failed=1), require_pass_rate=rate, action=action or Action.abort)


@pytest.mark.parametrize(
    ("gate", "reach_the_target", "reach_the_quarantine"),
    [
        ("none", {CLEAN, WARNED, FAILED}, {APART}),
        ("passes", {CLEAN, WARNED, FAILED}, {APART}),
        ("abort", set(), {APART}),
        ("warn_and_write", {CLEAN, WARNED, FAILED}, {APART}),
        ("write_valid_only", {CLEAN, WARNED}, {APART, FAILED}),
    ],
)
def test_which_rows_go_where(gate: str, reach_the_target: set[Lot], reach_the_quarantine: set[Lot]) -> None:
    decided = None if gate == "none" else verdict_of(None if gate == "passes" else Action(gate))

    assert published(decided) == reach_the_target
    assert quarantined(decided) == reach_the_quarantine


def test_ten_tests_that_fail_different_twentieths_of_the_rows_are_a_rate_of_one_half() -> None:
    tests = [a_test(f"t{n}", failed=5, on_fail=OnFail.quarantine) for n in range(10)]
    found = verdict(lots(clean=50, apart=50), *tests)

    assert (found.passed, found.pass_rate, found.failed_rows) == (False, 0.5, 50)
    assert set(found.per_test_rates.values()) == {0.95}
    assert found.reasons == ("50 of 100 rows pass (50 %), 95 % are required",)


def test_warnings_do_not_count_against_the_rate() -> None:
    found = verdict(lots(warned=100), a_test(failed=100, on_fail=OnFail.warn))

    assert (found.passed, found.pass_rate) == (True, 1.0)


def test_an_empty_batch_has_a_rate_of_one_and_only_its_row_count_stops_it() -> None:
    assert verdict(lots(), a_test(), require_pass_rate=1.0, thresholds={"t": 1.0}).passed
    found = verdict(lots(), rows=RowLimits(min=1))
    assert (found.passed, found.pass_rate, found.reasons) == (False, 1.0, ("0 rows are fewer than 1",))


@pytest.mark.parametrize(("clean", "passes"), [(95, True), (94, False)])
def test_a_rate_is_met_exactly(clean: int, passes: bool) -> None:
    assert verdict(lots(clean=clean, failed=100 - clean)).passed is passes


@pytest.mark.parametrize("of", [3, 7, 9, 11, 20, 97])
def test_a_rate_that_is_a_quotient_is_met_by_its_own_rows(of: int) -> None:
    for rows in range(of + 1):
        assert verdict(lots(clean=rows, failed=of - rows), require_pass_rate=rows / of).passed


def test_a_rate_just_short_is_never_told_as_the_one_required() -> None:
    found = verdict(lots(clean=9_499_999, failed=500_001))

    assert found.reasons == ("9,499,999 of 10,000,000 rows pass (94.9999 %), 95 % are required",)


def test_thresholds_go_by_name_and_then_by_type() -> None:
    tests = [
        a_test("emails", failed=3, type="regex_match"),
        a_test("phones", failed=2, type="regex_match"),
        a_test("regex_match", failed=1, type="custom_sql"),
    ]
    counts = lots(clean=94, failed=6)

    by_name = verdict(counts, *tests, require_pass_rate=0, thresholds={"emails": 0.98})
    assert by_name.reasons == ("test 'emails' passes for 97 % of the rows, 98 % are required",)
    # A test of that name hides the type.
    assert verdict(counts, *tests, require_pass_rate=0, thresholds={"regex_match": 0.99}).passed
    by_type = verdict(counts, *tests[:2], require_pass_rate=0, thresholds={"regex_match": 0.99})
    assert [reason.partition(" passes")[0] for reason in by_type.reasons] == ["test 'emails'", "test 'phones'"]


def test_thresholds_apply_in_addition_to_the_rate() -> None:
    found = verdict(lots(clean=90, failed=10), a_test(failed=10), thresholds={"t": 0.8})

    assert (found.passed, len(found.reasons)) == (False, 1)


def test_a_threshold_holds_for_a_warning_too() -> None:
    assert not verdict(lots(warned=100), a_test(failed=50, on_fail=OnFail.warn), thresholds={"t": 0.9}).passed
    of_all = verdict(lots(clean=1), of_batch(holds=False, on_fail=OnFail.warn, detail="9 < 10"), thresholds={"t": 1})
    assert of_all.reasons == ("test 't' fails: 9 < 10",)


def test_a_test_of_the_batch_stops_it_once_whatever_else_is_said() -> None:
    broken = of_batch(holds=False, detail="9 rows, at least 10 are asked for")

    assert verdict(lots(clean=9), broken, thresholds={"t": 1.0}).reasons == (
        "test 't' fails: 9 rows, at least 10 are asked for",
    )
    assert verdict(lots(clean=9), of_batch(holds=False, on_fail=OnFail.warn)).passed
    assert verdict(lots(clean=9), of_batch(holds=True), thresholds={"t": 1.0}).passed


@pytest.mark.parametrize(
    ("limits", "previous", "total", "reasons"),
    [
        ({"min": 100}, None, 99, ("99 rows are fewer than 100",)),
        ({"min": 100}, None, 100, ()),
        ({"max": 1000}, None, 1001, ("1,001 rows are more than 1,000",)),
        ({"max": 1000}, None, 1000, ()),
        ({"change_threshold": 0.5}, 100, 50, ()),
        ({"change_threshold": 0.5}, 100, 49, ("the row count changed by 51 % (100 to 49), 50 % are allowed",)),
        ({"change_threshold": 0.5}, 100, 150, ()),
        ({"change_threshold": 0.5}, 100, 151, ("the row count changed by 51 % (100 to 151), 50 % are allowed",)),
        ({"change_threshold": 0.5}, 0, 0, ()),
        ({"change_threshold": 0.5}, 0, 5, ("the row count changed by 100 % (0 to 5), 50 % are allowed",)),
        ({"change_threshold": 1.0}, 0, 5, ()),
        ({"change_threshold": 0.1}, 10, 11, ()),
    ],
)
def test_row_counts(limits: dict[str, Any], previous: int | None, total: int, reasons: tuple[str, ...]) -> None:
    found = verdict(lots(clean=total), history=History(previous), rows=RowLimits(**limits))

    assert found.reasons == reasons
    assert (found.row_count.current, found.row_count.previous) == (total, previous)


def test_a_gate_without_history_passes_with_a_note_or_fails_as_it_was_told() -> None:
    gone = History(note="the server did not answer")
    passing = verdict(lots(clean=1), history=gone, rows=RowLimits(change_threshold=0.5))
    failing = verdict(lots(clean=1), rows=RowLimits(change_threshold=0.5, passes_without_history=False))

    assert passing.passed
    assert passing.notes == ("the change of the row count is not known: the server did not answer",)
    assert failing.reasons == ("the change of the row count is not known: there is no published run to compare with",)


@pytest.mark.parametrize(
    ("failed", "limits", "passes"),
    [
        (0, {}, True),
        (1, {}, False),
        (3, {"max_failures": 3}, True),
        (4, {"max_failures": 3}, False),
        (10, {"max_failure_rate": 0.1}, True),
        (11, {"max_failure_rate": 0.1}, False),
        (5, {"max_failures": 4, "max_failure_rate": 0.1}, False),
        (4, {"max_failures": 4, "max_failure_rate": 0.01}, False),
    ],
)
def test_a_test_passes_within_all_the_limits_it_has(failed: int, limits: dict[str, Any], passes: bool) -> None:
    assert a_test(failed=failed, **limits).passes(100) is passes


def test_a_rate_of_no_rows_is_within_every_limit() -> None:
    assert a_test(max_failure_rate=0.0).passes(0)


def test_a_limit_that_is_exceeded_blocks_the_gate_and_says_which() -> None:
    found = verdict(lots(clean=98, failed=2), a_test(failed=2, max_failures=1, max_failure_rate=0.5))

    assert found.reasons == ("test 't' fails for 2 of 100 rows, 1 rows and 50 % are allowed",)


def test_without_a_gate_failing_tests_stop_the_node_and_warnings_and_quarantines_do_not() -> None:
    tests = [
        a_test("stop", failed=2),
        a_test("warn", failed=2, on_fail=OnFail.warn),
        a_test("apart", failed=2, on_fail=OnFail.quarantine),
        a_test("too_many_apart", failed=2, on_fail=OnFail.quarantine, max_failures=1),
        a_test("allowed", failed=2, max_failures=2),
        of_batch("batch", holds=False, detail="too old"),
    ]
    assert stops(tests, 10) == [
        "test 'stop' fails for 2 of 10 rows",
        "test 'too_many_apart' fails for 2 of 10 rows, 1 rows are allowed",
        "test 'batch' fails: too old",
    ]


counts = st.fixed_dictionaries({lot: st.integers(0, 10_000) for lot in Lot})
rates = st.floats(0, 1)


@given(counts, rates, st.sampled_from(Action))
def test_every_row_goes_to_one_place_at_most_and_none_is_lost_but_by_abort(
    rows: dict[Lot, int], rate: float, action: Action
) -> None:
    decided = verdict(rows, require_pass_rate=rate, action=action)
    target, apart = published(decided), quarantined(decided)

    assert not target & apart
    lost = set(Lot) - target - apart
    assert lost == ({CLEAN, WARNED, FAILED} if decided.action is Action.abort else set())
    assert decided.passed_rows + decided.failed_rows == sum(rows.values())


@given(counts, rates, st.integers(0, 1000))
def test_more_failing_rows_never_turn_a_refusal_into_a_pass(rows: dict[Lot, int], rate: float, more: int) -> None:
    moved = min(more, rows[CLEAN])
    worse = rows | {CLEAN: rows[CLEAN] - moved, FAILED: rows[FAILED] + moved}
    rules = {"require_pass_rate": rate, "thresholds": {"t": rate}}
    before = verdict(rows, a_test(failed=rows[FAILED]), **rules)
    after = verdict(worse, a_test(failed=worse[FAILED]), **rules)

    assert before.passed or not after.passed
    assert after.pass_rate <= before.pass_rate


@given(counts, rates)
def test_a_verdict_has_an_action_and_a_reason_exactly_when_it_does_not_pass(rows: dict[Lot, int], rate: float) -> None:
    found = verdict(rows, require_pass_rate=rate)

    assert (found.action is None) == found.passed == (not found.reasons)
