"""What a story says about the run before."""

from __future__ import annotations

from datetime import timedelta

from headgate.pipelines.record import DriftRecord, FieldRecord, Status
from headgate.story.changes import ColumnChange, changes
from tests.unit.story.examples import START, a_node, a_run, a_test, fields


def test_rows_are_compared_node_by_node() -> None:
    before = a_run(a_node("silver.trips", rows_in=100, rows_published=100), a_node("silver.zones", rows_in=5))
    now = a_run(a_node("silver.trips", rows_in=110, rows_published=55), a_node("silver.zones", rows_in=5))

    found = changes(now, before)

    (trips,) = found.moved
    assert (trips.rows_in.now, trips.rows_in.difference, trips.rows_in.share) == ("110", "+10", "+10 %")
    assert (trips.published.difference, trips.published.share) == ("−45", "−45 %")
    assert [node.name for node in found.same] == ["silver.zones"]


def test_a_node_that_did_not_run_is_no_loss_of_rows() -> None:
    before = a_run(a_node(rows_in=100, rows_published=100))
    now = a_run(a_node(status=Status.skipped))

    (trips,) = changes(now, before).moved

    assert trips.published.difference is None
    assert trips.published.note == "skipped now"
    assert trips.published.before == "100"


def test_new_nodes_and_nodes_that_are_gone_are_named() -> None:
    found = changes(a_run(a_node("silver.new", rows_in=1)), a_run(a_node("silver.old")))

    assert found.moved[0].rows_in.note == "new in this run"
    assert found.gone == ("silver.old",)


def test_a_node_that_failed_before_has_nothing_to_compare_with() -> None:
    (trips,) = changes(a_run(a_node(rows_in=9)), a_run(a_node(status=Status.failed))).moved

    assert (trips.rows_in.now, trips.rows_in.note) == ("9", "failed before")


def test_tests_that_began_and_that_ceased_to_fail_are_told_apart() -> None:
    old = (a_test("a"), a_test("b", "failed", 3), a_test("c", "error"))
    new = (a_test("a", "failed", 12), a_test("b"), a_test("c", "failed", 1), a_test("d", "failed", 2))

    found = changes(a_run(a_node(tests=new)), a_run(a_node(tests=old)))

    assert [(test.test, test.before, test.now) for test in found.began] == [
        ("a", "passed", "failed, 12 failing"),
        ("d", "not there", "failed, 2 failing"),
    ]
    assert [test.test for test in found.ceased] == ["b"]
    assert found.still == 1


def test_a_test_that_did_not_run_has_not_ceased_to_fail() -> None:
    before = a_run(a_node(tests=(a_test("a", "failed", 3), a_test("b", "failed", 3))))

    found = changes(a_run(a_node(tests=(a_test("a", "skipped"),))), before)

    assert found.ceased == ()


def test_columns_are_compared_by_name() -> None:
    old = (*fields(id="int", fare="float", zone="string"), FieldRecord("at", "date", nullable=False))
    new = fields(id="int", fare="double", at="date", tip="double")

    (found,) = changes(a_run(a_node(schema=new)), a_run(a_node(schema=old))).columns

    changed = ("fare: float → double", "at: may be null now")
    assert found == ColumnChange("silver.trips", ("tip double",), ("zone string",), changed)


def test_without_columns_to_compare_the_drift_that_the_run_saw_is_told() -> None:
    now = a_run(a_node(drift=DriftRecord(added=("tip",))))

    assert [each.added for each in changes(now, a_run(a_node())).columns] == [("tip",)]


def test_the_time_that_the_run_took_is_compared() -> None:
    now = a_run(ended_at=START + timedelta(seconds=90))
    before = a_run(ended_at=START + timedelta(seconds=60))

    took = changes(now, before).took

    assert (took.now, took.before, took.difference, took.share) == ("1 min 30 s", "1 min", "+30 s", "+50 %")
