"""Which run is the cause: by time, by evidence, by the way it took."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.domain import evidence
from headgate.domain.cause import Candidate, DatasetRef, Evidence, EvidenceKind, Failure, JobRef, Ranking, rank

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
ROWS_LOST = evidence.measured(EvidenceKind.row_count, 400, 1000, -9.0)
ROWS_DOUBLED = evidence.measured(EvidenceKind.row_count, 2000, 1000, 9.0)
NULLS = evidence.measured(EvidenceKind.null_share, 0.6, 0.01, 30.0, column="email")
DROPPED = evidence.schema_diff(removed=["email"])[0]
FAILED = evidence.run_failed("FAIL", "out of memory")
LATE = evidence.run_late(NOON - DAY, NOON - 3 * HOUR, NOON - 2 * HOUR, DAY.total_seconds())
NEW_SQL = evidence.code_changed("its SQL")


def a_failure(type_: str = "TestFailed", **more: object) -> Failure:
    base = Failure(type_, NOON, DatasetRef("mart", "db/mart"), "email", "not_null_mart_email")
    return replace(base, **more)  # type: ignore[arg-type]


def a_candidate(key: str, depth: int, *found: Evidence | None, **more: object) -> Candidate:
    """A run of the job `key` that wrote the dataset `key`, so many steps upstream, hours before noon."""
    base = Candidate(
        key=key,
        dataset=DatasetRef(key, f"db/{key}"),
        depth=depth,
        run_id=f"run-{key}",
        job=JobRef("etl", key),
        started_at=NOON - (depth + 2) * HOUR,
        ended_at=NOON - (depth + 1) * HOUR,
        state="COMPLETE",
        via_column=True,
        columns=frozenset({"email"}),
        evidence=tuple(each for each in found if each is not None),
    )
    return replace(base, **more)  # type: ignore[arg-type]


def a_chain(*found: tuple[Evidence | None, ...]) -> list[Candidate]:
    """mart <- silver <- bronze <- raw, as many as there are evidences."""
    names = ["mart", "silver", "bronze", "raw"][: len(found)]
    return [
        a_candidate(name, depth, *found[depth], upstream=tuple(names[depth + 1 : depth + 2]))
        for depth, name in enumerate(names)
    ]


def cause_of(ranking: Ranking) -> str | None:
    return ranking.cause.key if ranking.cause is not None else None


def reason_for(ranking: Ranking, key: str) -> str:
    return next(each.reason for each in ranking.rejected if each.candidate.key == key)


# --- time ---


def test_each_of_five_daily_failures_is_blamed_on_its_own_days_run() -> None:
    runs = [
        a_candidate(f"day-{day}", 0, started_at=NOON + day * DAY - 2 * HOUR, ended_at=NOON + day * DAY - HOUR)
        for day in range(5)
    ]
    for day in range(5):
        # The loader would hand over one of them; even with all, none that came later is chosen.
        known = [replace(run, depth=day - place) if place <= day else run for place, run in enumerate(runs)]
        ranking = rank(a_failure(observed_at=NOON + day * DAY), known)

        assert cause_of(ranking) == f"day-{day}"
        later = [each for each in ranking.rejected if "after the failure was observed" in each.reason]
        assert {each.candidate.key for each in later} == {f"day-{place}" for place in range(day + 1, 5)}


def test_a_run_that_ended_after_the_failure_is_rejected_however_much_speaks_for_it() -> None:
    later = a_candidate("silver", 1, DROPPED, NULLS, ended_at=NOON + timedelta(seconds=1))
    ranking = rank(a_failure(), [a_candidate("mart", 0, upstream=("silver",)), later])

    assert cause_of(ranking) == "mart"
    assert reason_for(ranking, "silver").startswith("ended at 2026-03-10T12:00:01")


def test_a_run_that_ended_at_the_very_moment_may_be_the_cause() -> None:
    assert cause_of(rank(a_failure(), [a_candidate("mart", 0, NULLS, ended_at=NOON)])) == "mart"


def test_a_run_that_only_started_after_the_failure_is_rejected() -> None:
    ranking = rank(a_failure(), [a_candidate("mart", 0, FAILED, started_at=NOON + HOUR, ended_at=None)])

    assert ranking.cause is None
    assert reason_for(ranking, "mart").startswith("started at")


def test_evidence_of_a_later_time_counts_for_nothing() -> None:
    found = DROPPED._replace(at=NOON + HOUR)
    ranking = rank(a_failure(), a_chain((), (found,)))

    assert cause_of(ranking) == "mart"


KINDS_OF_FACTS = [
    ROWS_LOST, ROWS_DOUBLED, NULLS, DROPPED, FAILED, LATE, NEW_SQL, evidence.missing_input("db/raw"),
    evidence.failing_tests(["unique"]), evidence.measured(EvidenceKind.duration, 9e5, 1e5, 5.0),
    evidence.measured(EvidenceKind.volume, 100, 1000, -9.0),
    evidence.measured(EvidenceKind.quarantine_burst, 90, 3, 9.0),
]  # fmt: skip


@st.composite
def scenes(draw: st.DrawFn) -> list[Candidate]:
    """Any graph, cycles and dangling keys included, of runs before and after the failure."""
    keys = [f"c{number}" for number in range(draw(st.integers(0, 12)))]
    some_keys = st.lists(st.sampled_from([*keys, "unknown"]), max_size=4).map(tuple)
    ended = st.none() | st.integers(-48, 48).map(lambda hours: NOON + hours * HOUR)
    facts = st.lists(st.sampled_from(KINDS_OF_FACTS), max_size=3)
    return [
        a_candidate(
            key,
            draw(st.integers(0, 4)),
            *draw(facts),
            upstream=draw(some_keys),
            started_at=None,
            ended_at=draw(ended),
            via_column=draw(st.booleans()),
            columns=draw(st.sampled_from([frozenset(), frozenset({"email"}), frozenset({"other"})])),
            is_measured=draw(st.booleans()),
        )
        for key in keys
    ]


FAILURES = [
    a_failure(),
    a_failure(column=None, test="row_count_between"),
    a_failure("RunFailed", column=None, test=None, detail="column email cannot be resolved"),
    a_failure("FreshnessMissed", column=None, test=None),
    a_failure("DurationSpike", column=None, test=None, dataset=None),
]


@settings(max_examples=150, deadline=None)
@given(scenes(), st.sampled_from(FAILURES))
def test_a_later_run_is_never_chosen_and_nobody_is_left_out(scene: list[Candidate], failure: Failure) -> None:
    ranking = rank(failure, scene)

    early = [each for each in scene if each.ended_at is None or each.ended_at <= failure.observed_at]
    assert (ranking.cause is None) is not bool(early)
    assert ranking.cause is None or ranking.cause in early
    assert 0.0 <= ranking.confidence <= 1.0
    told = [each.candidate.key for each in ranking.rejected] + ([ranking.cause.key] if ranking.cause else [])
    assert sorted(told) == sorted(each.key for each in scene)
    assert all(each.reason for each in ranking.rejected)


@settings(max_examples=75, deadline=None)
@given(scenes(), st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(scene: list[Candidate], rng: object) -> None:
    # Cycles are cut somewhere, and where depends on where one begins: only graphs have one answer.
    places = {each.key: place for place, each in enumerate(scene)}
    graph = [
        replace(each, upstream=tuple(dict.fromkeys(key for key in each.upstream if places.get(key, -1) > place)))
        for place, each in enumerate(scene)
    ]
    shuffled = list(graph)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]

    assert cause_of(rank(a_failure(), shuffled)) == cause_of(rank(a_failure(), graph))


# --- each kind of evidence ---


@pytest.mark.parametrize(
    ("failure", "found"),
    [
        (a_failure(), DROPPED),
        (a_failure(), evidence.schema_diff(type_changed=["email"])[0]),
        (a_failure(), NULLS),
        (a_failure(), LATE),
        (a_failure(column=None, test="row_count"), ROWS_LOST),
        (a_failure("RowCountDrop", column=None), FAILED),
        (a_failure("RowCountDrop", column=None), evidence.missing_input("db/raw")),
        (a_failure("RowCountDrop", column=None), evidence.measured(EvidenceKind.quarantine_burst, 500, 2, 9.0)),
        (a_failure("VolumeDrop", column=None), evidence.measured(EvidenceKind.volume, 100, 1000, -9.0)),
        (a_failure("FreshnessMissed", column=None), LATE),
        (a_failure("FreshnessMissed", column=None), FAILED),
        (a_failure("FreshnessMissed", column=None), evidence.measured(EvidenceKind.duration, 9e5, 1e5, 9.0)),
        (a_failure("RunFailed", column=None), DROPPED),
        (a_failure(), evidence.failing_tests(["not_null_silver_email"], column="email")),
        (a_failure(), NEW_SQL),
    ],
    ids=lambda value: value.kind if isinstance(value, Evidence) else f"{value.type}_{value.test}",
)
def test_a_parent_with_evidence_is_the_cause_before_a_quiet_producer(failure: Failure, found: Evidence) -> None:
    ranking = rank(failure, a_chain((), (found,), ()))

    assert cause_of(ranking) == "silver"
    assert ranking.evidence == (found,)
    assert found.sentence in ranking.sentence
    assert reason_for(ranking, "bronze") == "nothing unusual is known of it"


def test_without_any_evidence_the_producing_run_is_the_answer_with_little_confidence() -> None:
    ranking = rank(a_failure(), a_chain((), (), ()))

    assert cause_of(ranking) == "mart"
    assert ranking.confidence < 0.2
    assert ranking.sentence == (
        "Job 'mart' at 2026-03-10 11:00 wrote 'db/mart'; nothing unusual is known upstream of it."
    )


def test_a_dataset_that_no_run_is_known_to_have_written_has_no_cause_to_be_sure_of() -> None:
    ranking = rank(a_failure(), [Candidate(key="mart", dataset=DatasetRef("1", "db/mart"), depth=0)])

    assert ranking.sentence == "No run is known that wrote 'db/mart'."
    assert ranking.confidence == 0


def test_a_run_that_is_stuck_has_begun_and_not_written() -> None:
    (run,) = [each for each in a_chain((), (), ()) if each.depth == 0]
    stuck = replace(run, ended_at=None, started_at=run.ended_at, state="RUNNING")
    failure = replace(a_failure(), type="StuckRun", run_id=stuck.run_id)

    assert rank(failure, [stuck]).sentence == (
        "Job 'mart' began at 2026-03-10 11:00 and has not ended; nothing unusual is known upstream of it."
    )
    # One that streams writes all the same.
    streamed = replace(failure, type="TestFailed")
    assert "Job 'mart' at 2026-03-10 11:00 wrote 'db/mart'" in rank(streamed, [stuck]).sentence


def test_without_candidates_there_is_no_cause() -> None:
    ranking = rank(a_failure(), [])

    assert (ranking.cause, ranking.confidence, ranking.rejected) == (None, 0.0, ())


def test_a_drop_in_the_source_explains_the_drops_after_it() -> None:
    failure = a_failure(column=None, test="row_count_mart")
    ranking = rank(failure, a_chain((ROWS_LOST,), (ROWS_LOST,), (ROWS_LOST,), (ROWS_LOST,)))

    assert cause_of(ranking) == "raw"
    assert ranking.explains == (ROWS_LOST, ROWS_LOST, ROWS_LOST)
    assert reason_for(ranking, "silver").endswith("which follows from 'raw'")
    assert "3 steps upstream of 'db/mart'" in ranking.sentence


def test_a_failed_input_is_the_cause_before_those_who_only_pass_on_what_they_read() -> None:
    """Two jobs whose code is as before show the nulls that the third, which failed, has brought about."""
    failed = a_candidate("bronze", 2, FAILED, via_column=False, columns=frozenset(), is_measured=False)
    way = [a_candidate("mart", 0, NULLS, upstream=("silver",)), a_candidate("silver", 1, NULLS, upstream=("bronze",))]

    assert cause_of(rank(a_failure(), [*way, failed])) == "bronze"


def test_what_nobody_else_wrote_is_not_passed_on() -> None:
    """A dataset from outside explains nothing as long as nothing is known of it."""
    outside = a_candidate("landing", 1, run_id=None, job=None, is_measured=False)
    read = [a_candidate("mart", 0, NULLS, upstream=("landing",)), outside]
    alone = [a_candidate("mart", 0, NULLS)]

    by_read, by_itself = rank(a_failure(), read), rank(a_failure(), alone)

    assert cause_of(by_read) == cause_of(by_itself) == "mart"
    assert by_read.confidence > 0.7


def test_a_change_passes_undiminished_through_tables_that_show_a_part_of_it() -> None:
    def more(rows: int) -> tuple[Evidence | None]:
        return (evidence.measured(EvidenceKind.row_count, rows, 1000, 9.0),)

    ranking = rank(a_failure(column=None, test="unique_mart"), a_chain(more(2100), more(1400), more(1420), more(2750)))

    assert cause_of(ranking) == "raw"
    assert all(each.score < 0.1 for each in ranking.rejected)


def test_a_small_dip_upstream_does_not_explain_a_large_drop() -> None:
    dip = evidence.measured(EvidenceKind.row_count, 860, 1000, -3.0)
    lost = evidence.measured(EvidenceKind.row_count, 50, 1000, -9.0)

    assert cause_of(rank(a_failure(column=None, test="row_count"), a_chain((lost,), (dip,)))) == "mart"


def test_more_rows_upstream_do_not_explain_fewer() -> None:
    assert cause_of(rank(a_failure("RowCountDrop", column=None), a_chain((ROWS_LOST,), (ROWS_DOUBLED,)))) == "mart"


def test_changed_sql_with_quiet_inputs_is_the_cause_itself() -> None:
    ranking = rank(a_failure(column=None, test="unique_mart"), a_chain((ROWS_DOUBLED,), (ROWS_DOUBLED, NEW_SQL), ()))

    assert cause_of(ranking) == "silver"
    assert "ran with its SQL changed" in ranking.sentence


def test_changed_sql_that_changed_nothing_is_rejected_for_that() -> None:
    ranking = rank(a_failure(), a_chain((NULLS,), (NEW_SQL, NULLS._replace(weight=0.01)), (DROPPED,)))
    quiet = rank(a_failure(), a_chain((NULLS,), (NEW_SQL,)))

    assert cause_of(ranking) == "bronze"
    assert cause_of(quiet) == "mart"
    assert reason_for(quiet, "silver") == "ran with its SQL changed, but what it wrote was as usual"


def test_the_dropped_column_is_the_cause_of_the_failed_run_that_asks_for_it() -> None:
    failure = a_failure("RunFailed", column=None, test=None, detail="[UNRESOLVED_COLUMN] `email` cannot be resolved")
    other = evidence.schema_diff(removed=["phone"])[0]
    ranking = rank(failure, [
        a_candidate("mart", 0, FAILED, upstream=("silver", "side")),
        a_candidate("silver", 1, DROPPED, columns=frozenset(), via_column=False),
        a_candidate("side", 1, other, columns=frozenset(), via_column=False),
    ])  # fmt: skip

    assert cause_of(ranking) == "silver"


def test_an_added_column_that_the_error_speaks_of_is_the_cause() -> None:
    failed = evidence.run_failed("FAIL", "schema mismatch: unexpected column 'currency'")
    failure = a_failure("RunFailed", column=None, test=None, detail=f"a run of mart {failed.sentence}")

    def cause(*names: str) -> str | None:
        return cause_of(rank(failure, a_chain((failed,), tuple(evidence.schema_diff(added=names)))))

    assert cause("note", "currency") == "silver"
    assert cause("note") == "mart"


def test_an_error_on_the_way_may_speak_of_the_column_as_well() -> None:
    failed = evidence.run_failed("FAIL", "unexpected column 'currency'")
    late = a_failure("FreshnessMissed", column=None, test=None)
    ranking = rank(late, a_chain((), (failed,), tuple(evidence.schema_diff(added=["currency"]))))

    assert cause_of(ranking) == "bronze"


def test_a_failed_run_that_nothing_explains_is_its_own_cause() -> None:
    ranking = rank(a_failure("RunFailed", column=None, test=None), a_chain((FAILED,), ()))

    assert cause_of(ranking) == "mart"
    assert "failed: out of memory" in ranking.sentence


def test_a_failed_parent_that_was_made_up_for_counts_less_than_one_that_was_not() -> None:
    soon = evidence.run_failed("FAIL", None, made_up_at=NOON - HOUR)
    failure = a_failure("RowCountDrop", column=None)
    ranking = rank(failure, [
        a_candidate("mart", 0, upstream=("a", "b")), a_candidate("a", 1, soon), a_candidate("b", 1, FAILED),
    ])  # fmt: skip

    assert cause_of(ranking) == "b"


# --- columns ---


def test_what_the_failing_column_is_made_of_comes_before_what_is_odd_beside_it() -> None:
    ranking = rank(a_failure(), [
        a_candidate("mart", 0, upstream=("dim", "facts")),
        a_candidate("dim", 1, NEW_SQL, is_measured=False),
        a_candidate("facts", 1, ROWS_LOST, via_column=False, columns=frozenset()),
    ])  # fmt: skip

    assert cause_of(ranking) == "dim"


def test_two_not_null_failures_on_different_columns_have_different_causes() -> None:
    nulls_elsewhere = evidence.measured(EvidenceKind.null_share, 0.9, 0.0, 30.0, column="customer")
    scene = [
        a_candidate("mart", 0, upstream=("contacts", "orders")),
        a_candidate("contacts", 1, NULLS),
        a_candidate("orders", 1, nulls_elsewhere),
    ]
    by_email = [replace(each, columns=frozenset({"email"})) for each in scene]
    by_customer = [replace(each, columns=frozenset({"customer"})) for each in scene]

    assert cause_of(rank(a_failure(column="email"), by_email)) == "contacts"
    assert cause_of(rank(a_failure(column="customer", test="not_null_mart_customer"), by_customer)) == "orders"
    reason = reason_for(rank(a_failure(column="email"), by_email), "orders")
    assert reason.endswith("but the failing column is not made of it")


def test_column_lineage_beats_table_lineage() -> None:
    by_table = a_candidate("by_table", 1, NULLS, via_column=False, columns=frozenset())
    by_column = a_candidate("by_column", 1, NULLS)

    ranking = rank(a_failure(), [a_candidate("mart", 0, upstream=("by_table", "by_column")), by_table, by_column])

    assert cause_of(ranking) == "by_column"


def test_a_renamed_column_is_known_by_a_part_of_its_name() -> None:
    phone = evidence.measured(EvidenceKind.null_share, 0.6, 0.01, 30.0, column="phone")
    ranking = rank(a_failure(column="customer_email"), [
        a_candidate("mart", 0, upstream=("a", "b")),
        a_candidate("a", 1, phone, via_column=False, columns=frozenset()),
        a_candidate("b", 1, NULLS, via_column=False, columns=frozenset()),
    ])  # fmt: skip

    assert cause_of(ranking) == "b"


# --- ways, ties, sizes ---


def test_nearer_beats_farther_on_equal_evidence() -> None:
    ranking = rank(a_failure("FreshnessMissed", column=None), [
        a_candidate("mart", 0, upstream=("near", "between")),
        a_candidate("near", 1, FAILED),
        a_candidate("between", 1, upstream=("far",)),
        a_candidate("far", 2, FAILED),
    ])  # fmt: skip

    assert cause_of(ranking) == "near"


def test_a_tie_goes_to_the_more_recent_and_then_always_to_the_same() -> None:
    mart = a_candidate("mart", 0, upstream=("a", "b"))
    older, newer = a_candidate("a", 1, FAILED, ended_at=NOON - 9 * HOUR), a_candidate("b", 1, FAILED)
    failure = a_failure("FreshnessMissed", column=None)

    assert cause_of(rank(failure, [mart, older, newer])) == "b"
    same = replace(older, ended_at=newer.ended_at)
    assert cause_of(rank(failure, [mart, same, newer])) == cause_of(rank(failure, [mart, newer, same])) == "a"
    assert rank(failure, [mart, same, newer]).confidence < 0.6


def test_the_batch_that_was_written_over_counts_less_than_the_one_that_was_read() -> None:
    mart = a_candidate("mart", 0, upstream=("old", "new"))
    old, new = a_candidate("old", 1, NULLS, is_superseded=True), a_candidate("new", 1, NULLS)

    assert cause_of(rank(a_failure(), [mart, old, new])) == "new"
    assert cause_of(rank(a_failure(), [mart, old, replace(new, evidence=())])) == "old"


def test_a_cycle_ends() -> None:
    scene = [
        a_candidate("mart", 0, NULLS, upstream=("silver",)),
        a_candidate("silver", 1, NULLS, upstream=("mart", "silver", "raw")),
        a_candidate("raw", 2, DROPPED, upstream=("silver",)),
    ]

    assert cause_of(rank(a_failure(), scene)) == "raw"


def test_confidence_falls_with_a_rival_and_with_an_unseen_input() -> None:
    alone = rank(a_failure(), a_chain((NULLS,), (NULLS,)))
    rival = rank(a_failure(), [
        a_candidate("mart", 0, NULLS, upstream=("a", "b")), a_candidate("a", 1, NULLS), a_candidate("b", 1, DROPPED),
    ])  # fmt: skip
    mart, silver = a_chain((NULLS,), ())
    blind = rank(a_failure(), [mart, replace(silver, is_measured=False)])

    assert alone.confidence > 0.9 > rival.confidence
    assert blind.confidence < rank(a_failure(), [mart, silver]).confidence


def test_the_chain_of_the_cause_is_passed_through() -> None:
    mart = a_candidate("mart", 0, NULLS, chain=("dag", "dag.task", "app"))

    assert rank(a_failure(), [mart]).chain == ("dag", "dag.task", "app")


def test_a_missing_run_is_told_by_its_job() -> None:
    late = a_candidate("silver", 1, LATE, run_id=None, started_at=None, ended_at=None)
    ranking = rank(a_failure("FreshnessMissed", column=None), [a_candidate("mart", 0, upstream=("silver",)), late])

    assert ranking.sentence.startswith("Job 'silver' had not run by 2026-03-10 10:00, though expected by")


def test_a_thousand_candidates_take_milliseconds() -> None:
    found = [(), (ROWS_LOST,), (NULLS, NEW_SQL), (ROWS_LOST, DROPPED)]
    scene = [
        a_candidate(f"c{number}", number // 100, *found[number % 4 if number % 7 == 0 else 0],
                    upstream=tuple(f"c{number + step}" for step in (90, 100, 110)))
        for number in range(1000)
    ]  # fmt: skip
    taken = []
    for _ in range(10):
        started = time.process_time()
        ranking = rank(a_failure(), scene)
        taken.append(time.process_time() - started)

    assert len(ranking.rejected) == 999
    # Five milliseconds on a quiet machine; the tests of others may be running.
    assert min(taken) < 0.025


# --- weighing ---


@pytest.mark.parametrize(
    ("kind", "value", "expected", "score"),
    [
        (EvidenceKind.row_count, 400, 1000, 2.0),
        (EvidenceKind.row_count, 950, 1000, -9.0),
        (EvidenceKind.null_share, 0.011, 0.01, 9.0),
        (EvidenceKind.row_count, 400, None, None),
        (EvidenceKind.quarantine_burst, 1, 100, -9.0),
    ],
    ids=["within_the_band", "too_small", "a_few_more_nulls", "nothing_to_compare_with", "less_in_quarantine"],
)
def test_what_is_nothing_unusual_is_no_evidence(
    kind: EvidenceKind, value: float, expected: float | None, score: float | None
) -> None:
    assert evidence.measured(kind, value, expected, score) is None


def test_the_farther_off_the_more_a_figure_weighs() -> None:
    weights = [
        each.weight
        for value in (800, 600, 300, 0)
        if (each := evidence.measured(EvidenceKind.row_count, value, 1000, (value - 1000) / 50)) is not None
    ]

    assert weights == sorted(weights)
    assert len(weights) == 4
    assert weights[-1] <= 1.0


def test_a_run_that_may_still_come_is_not_late() -> None:
    assert evidence.run_late(NOON - DAY, NOON, NOON, DAY.total_seconds()) is None


def test_a_dropped_column_weighs_more_than_a_type_and_an_added_one_hardly_anything() -> None:
    dropped, retyped, added, _ = evidence.schema_diff(removed=["a"], type_changed=["b"], added=["c", "d"])

    assert dropped.weight > retyped.weight > 0.5 > added.weight
    assert (added.sentence, added.column) == ("added the column 'c'", "c")
    assert [each.sentence for each in evidence.schema_diff(added=list("abcdef"))] == ["added 6 columns"]
    assert [each.weight for each in evidence.schema_diff(breaking=True)] == [0.4]
    assert evidence.schema_diff() == []


def test_a_long_error_is_cut_to_its_first_line() -> None:
    told = evidence.run_failed("ABORT", "x" * 500 + "\nat line 1")

    assert told.sentence.startswith("was aborted: xxx")
    assert len(told.sentence) < 250
    assert evidence.run_failed("FAIL", "  ").sentence == "failed"


def test_many_failed_tests_are_counted() -> None:
    assert evidence.failing_tests([]) is None
    told = evidence.failing_tests([f"t{number}" for number in range(7)])
    assert told is not None
    assert told.sentence == "wrote what failed the tests 't0', 't1', 't2', 't3', 't4' and 2 more"


VERBS = {"wrote", "took", "set", "dropped", "changed", "added", "failed", "was", "had", "did", "ran"}


@pytest.mark.parametrize(
    "found",
    [
        *KINDS_OF_FACTS,
        *evidence.schema_diff(removed=["a"], type_changed=["b"], added=["c"]),
        *evidence.schema_diff(breaking=True),
        evidence.run_failed("ABORT", None, made_up_at=NOON),
    ],
    ids=lambda found: found.sentence[:20],
)
def test_each_piece_of_evidence_reads_on_from_the_name_of_a_job(found: Evidence) -> None:
    ranking = rank(a_failure(column=None, test="check"), a_chain((), (found._replace(weight=0.9),)))

    assert found.sentence.split()[0].rstrip(":") in VERBS
    assert ranking.sentence.startswith("Job 'silver")
    assert f" {found.sentence}" in ranking.sentence


def test_every_kind_of_evidence_is_read_like_that() -> None:
    assert {found.kind for found in KINDS_OF_FACTS if found} == set(EvidenceKind)


def test_what_failed_a_test_is_told_in_a_whole_sentence() -> None:
    ranking = rank(a_failure(), a_chain((), (evidence.failing_tests(["nn"], column="email"),)))

    assert "Job 'silver' at 2026-03-10 10:00 wrote what failed the test 'nn'" in ranking.sentence


# --- what the failing column is not made of ---


def test_what_is_off_the_way_of_the_column_is_named_and_never_sure() -> None:
    mart = a_candidate("mart", 0, upstream=("names", "rows"))
    rows = a_candidate("rows", 1, ROWS_LOST, via_column=False, columns=frozenset())
    found = rank(a_failure(), [mart, a_candidate("names", 1), rows])

    assert cause_of(found) == "rows"
    assert found.confidence < 0.6
    assert "though column 'email' is not made of it" in found.sentence
    # Where nobody tells what the column is made of, it may be.
    blind = rank(a_failure(), [mart, replace(a_candidate("names", 1), via_column=False), rows])
    assert "not made of it" not in blind.sentence


@pytest.mark.parametrize(
    ("error", "is_own"),
    [
        ("FATAL: password authentication failed for user 'etl'", True),
        ("java.net.ConnectException: Connection refused", True),
        ("Container killed by YARN for exceeding memory limits", True),
        ("cannot resolve 'email' given input columns", False),
    ],
)
def test_a_run_that_fails_of_its_surroundings_is_its_own_cause(error: str, is_own: bool) -> None:
    failed = evidence.run_failed("FAIL", error)
    mart = a_candidate("mart", 0, failed, state="FAIL", upstream=("raw",))
    failure = a_failure("RunFailed", column=None, test=None, detail=f"a run of mart failed: {error}")
    found = rank(failure, [mart, a_candidate("raw", 1, evidence.failing_tests(["accepted_values"]))])

    assert (cause_of(found) == "mart" and found.confidence >= 0.6) is is_own
