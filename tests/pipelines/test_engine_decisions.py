"""What becomes of a batch: every cell of the decision table, and what a gate counts before it decides."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headgate.pipelines.record import NodeRecord, Status
from tests.pipelines.projects import NOW, Project, failing, node, told_of
from tests.pipelines.writing import contents

COLUMNS = "id INT, a INT, b INT, c INT"
# Row 1 fails the test that sets apart, 2 the one that fails, 3 the one that warns, 4 the first two; the rest none.
ROWS = [{"id": n, "a": -(n in (1, 4)), "b": -(n in (2, 4)), "c": -(n == 3)} for n in range(1, 11)]


def at_least_0(column: str, on_fail: str, **more: Any) -> dict[str, Any]:
    return {"name": on_fail, "type": "range", "column": column, "min": 0, "on_fail": on_fail, **more}


FAIL, WARN, APART = at_least_0("b", "fail"), at_least_0("c", "warn"), at_least_0("a", "quarantine")
PASSES = {"require_pass_rate": 0.7}
GATES: dict[str, dict[str, Any] | None] = {
    "none": None,
    "passes": PASSES,
    "abort": {"on_fail": "abort"},
    "warn_and_write": {"on_fail": "warn_and_write"},
    "write_valid_only": {"on_fail": "write_valid_only"},
}
REST = [3, 5, 6, 7, 8, 9, 10]
# By gate: the rows that are published and those that are quarantined, with a quarantine block and without.
TABLE: dict[str, tuple[list[int], list[int]]] = {
    "passes": ([2, *REST], [1, 4]),
    "abort": ([], [1, 4]),
    "warn_and_write": ([2, *REST], [1, 4]),
    "write_valid_only": (REST, [1, 2, 4]),
}
BARE: dict[str, list[int]] = {
    "passes": list(range(1, 11)),
    "abort": [],
    "warn_and_write": list(range(1, 11)),
    "write_valid_only": [1, 3, 5, 6, 7, 8, 9, 10],
}


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, NodeRecord]]:
    """Every gate over the same rows, in one run; `bare` nodes have no quarantine block."""
    gates = {name: gate for name, gate in GATES.items() if gate is not None}
    bare_gates = {name: {**gate, "require_pass_rate": 0.8 if gate is PASSES else 0.95} for name, gate in gates.items()}
    nodes = [
        node(name, COLUMNS, APART, FAIL, WARN, quarantine=f"bad_{name}", gate=gate) for name, gate in gates.items()
    ]
    nodes += [node(f"bare_{name}", COLUMNS, FAIL, WARN, gate=gate) for name, gate in bare_gates.items()]
    nodes.append(node("none", COLUMNS, APART, WARN, quarantine="bad_none"))
    nodes.append(node("none_fails", COLUMNS, APART, FAIL, WARN, quarantine="bad_none_fails"))
    project = Project(spark, tmp_path_factory.mktemp("table"), nodes, {"on_error": "fail_later"})
    project.put("raw", ROWS)
    return project, project.run("run-1")


@pytest.mark.parametrize("name", TABLE)
def test_rows_go_where_the_table_says(table: tuple[Project, dict[str, NodeRecord]], name: str) -> None:
    project, ran = table
    published, apart = TABLE[name]
    record = ran[name]

    assert record.status is (Status.published if published else Status.stopped), record.error
    assert project.ids(name) == sorted(published)
    assert project.ids(f"bad_{name}") == apart
    assert record.rows_published == len(published)
    assert record.rows_in == record.rows_valid + record.rows_quarantined == 10
    assert record.rows_quarantined == len(apart)


@pytest.mark.parametrize("name", BARE)
def test_rows_go_where_the_table_says_without_a_quarantine(
    table: tuple[Project, dict[str, NodeRecord]], name: str
) -> None:
    project, ran = table
    record = ran[f"bare_{name}"]

    assert record.status is (Status.published if BARE[name] else Status.stopped), record.error
    assert project.ids(f"bare_{name}") == BARE[name]
    assert record.quarantine is None
    left_out = 2 if name == "write_valid_only" else 0
    assert record.rows_in == record.rows_valid + left_out == 10
    assert any("left out" in note for note in record.notes) == bool(left_out)


def test_without_a_gate_bad_rows_are_set_apart_and_the_rest_is_published(
    table: tuple[Project, dict[str, NodeRecord]],
) -> None:
    project, ran = table
    assert (ran["none"].status, ran["none"].gate) == (Status.published, None)
    assert (project.ids("none"), project.ids("bad_none")) == ([2, *REST], [1, 4])


def test_without_a_gate_a_failing_test_stops_the_node(table: tuple[Project, dict[str, NodeRecord]]) -> None:
    project, ran = table
    assert ran["none_fails"].status is Status.stopped
    assert ran["none_fails"].reasons == ("test 'fail' fails for 2 of 10 rows",)
    assert (project.ids("none_fails"), project.ids("bad_none_fails")) == ([], [1, 4])


def test_verdict_is_told_with_its_reasons(table: tuple[Project, dict[str, NodeRecord]]) -> None:
    _, ran = table
    passed, aborted = ran["passes"].gate, ran["abort"].gate
    assert passed is not None
    assert aborted is not None
    assert (passed.passed, passed.action, passed.pass_rate, passed.passed_rows) == (True, None, 0.7, 7)
    assert (aborted.passed, aborted.action, aborted.failed_rows) == (False, "abort", 3)
    assert aborted.reasons == ("7 of 10 rows pass (70 %), 95 % are required",)
    assert aborted.per_test_rates == {"quarantine": 0.8, "fail": 0.8, "warn": 0.9}
    assert ran["abort"].quarantine is not None
    assert ran["abort"].quarantine.state == "gate_aborted"
    assert ran["warn_and_write"].quarantine is not None
    assert ran["warn_and_write"].quarantine.state == "open"


def gated(name: str, gate: dict[str, Any], *tests: dict[str, Any], **more: Any) -> dict[str, Any]:
    return node(name, "id INT", *tests, gate=gate, **more)


def twentieth(n: int, **more: Any) -> dict[str, Any]:
    """A test that one row in twenty fails, each another one."""
    return {"name": f"t{n}", "type": "custom_sql", "condition": f"id % 20 <> {n}", **more}


@pytest.fixture(scope="module")
def limits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, dict[str, NodeRecord]]:
    """Gates over forty rows, numbered from 1, and over none."""
    lenient: dict[str, Any] = {"require_pass_rate": 0}
    nodes = [
        gated("ten_tests", {"require_pass_rate": 0.51}, *map(twentieth, range(10))),
        gated("exactly", {"require_pass_rate": 0.5}, *map(twentieth, range(10))),
        gated(
            "by_name",
            {**lenient, "thresholds": [{"test": "t1", "min_pass_rate": 0.96}, {"test": "t2", "min_pass_rate": 0.95}]},
            twentieth(1),
            twentieth(2),
        ),
        gated(
            "by_type",
            {**lenient, "thresholds": [{"test": "custom_sql", "min_pass_rate": 0.96}]},
            twentieth(1),
            twentieth(2, on_fail="warn"),
        ),
        gated("too_few", {"row_count": {"min": 41}}),
        gated("too_many", {"row_count": {"max": 39}}),
        gated("as_many", {"row_count": {"min": 40, "max": 40}}),
        gated("unknown_past", {"row_count": {"change_threshold": 0.1}}),
        gated("past_wanted", {"row_count": {"change_threshold": 0.1, "on_missing_history": "fail"}}),
        gated("empty", {}, twentieth(1), source="nothing"),
        gated("empty_counted", {"row_count": {"min": 1}}, twentieth(1), source="nothing"),
        gated("within", lenient, twentieth(1, max_failures=2), twentieth(2, max_failure_rate=0.05)),
        gated("beyond", lenient, twentieth(1, max_failures=1), twentieth(2, max_failure_rate=0.04)),
        node("allowed", "id INT", twentieth(1, max_failures=2)),
        node("not_allowed", "id INT", twentieth(1, max_failures=1)),
        node("apart_beyond", "id INT", twentieth(1, max_failures=1, on_fail="quarantine"), quarantine="bad_beyond"),
    ]
    project = Project(spark, tmp_path_factory.mktemp("limits"), nodes, {"on_error": "fail_later"})
    project.put("raw", [{"id": n} for n in range(1, 41)])
    project.put("nothing", [])
    return project, project.run()


# By node: whether it is published, and what is said if it is not.
SAID: dict[str, tuple[bool, tuple[str, ...]]] = {
    "ten_tests": (False, ("20 of 40 rows pass (50 %), 51 % are required",)),
    "exactly": (True, ()),
    "by_name": (False, ("test 't1' passes for 95 % of the rows, 96 % are required",)),
    "by_type": (
        False,
        (
            "test 't1' passes for 95 % of the rows, 96 % are required",
            "test 't2' passes for 95 % of the rows, 96 % are required",
        ),
    ),
    "too_few": (False, ("40 rows are fewer than 41",)),
    "too_many": (False, ("40 rows are more than 39",)),
    "as_many": (True, ()),
    "unknown_past": (True, ()),
    "past_wanted": (
        False,
        ("the change of the row count is not known: there is no published run to compare with",),
    ),
    "empty": (True, ()),
    "empty_counted": (False, ("0 rows are fewer than 1",)),
    "within": (True, ()),
    "beyond": (
        False,
        (
            "test 't1' fails for 2 of 40 rows, 1 rows are allowed",
            "test 't2' fails for 2 of 40 rows, 4 % are allowed",
        ),
    ),
    "allowed": (True, ()),
    "not_allowed": (False, ("test 't1' fails for 2 of 40 rows, 1 rows are allowed",)),
    "apart_beyond": (False, ("test 't1' fails for 2 of 40 rows, 1 rows are allowed",)),
}


@pytest.mark.parametrize("name", SAID)
def test_gate_keeps_to_its_limits(limits: tuple[Project, dict[str, NodeRecord]], name: str) -> None:
    _, ran = limits
    is_published, reasons = SAID[name]
    assert ran[name].error is None
    assert ran[name].status is (Status.published if is_published else Status.stopped)
    assert ran[name].reasons == reasons


def test_ten_tests_that_fail_other_rows_each_are_half_of_the_rows(
    limits: tuple[Project, dict[str, NodeRecord]],
) -> None:
    _, ran = limits
    assert ran["ten_tests"].gate is not None
    assert ran["ten_tests"].gate.pass_rate == 0.5
    assert failing(ran["ten_tests"]) == {f"t{n}": 2 for n in range(10)}


def test_empty_batch_has_the_full_rate_and_is_published_with_its_columns(
    limits: tuple[Project, dict[str, NodeRecord]],
) -> None:
    project, ran = limits
    assert ran["empty"].gate is not None
    assert (ran["empty"].gate.pass_rate, ran["empty"].rows_in, ran["empty"].rows_published) == (1.0, 0, 0)
    assert project.read("empty").schema.simpleString() == "struct<id:int>"


def test_missing_history_is_noted(limits: tuple[Project, dict[str, NodeRecord]]) -> None:
    _, ran = limits
    wanted = "the change of the row count is not known: there is no published run to compare with"
    assert ran["unknown_past"].notes == (wanted,)
    assert ran["as_many"].notes == ()


def test_limits_of_a_test_are_told(limits: tuple[Project, dict[str, NodeRecord]]) -> None:
    _, ran = limits
    first, second = ran["within"].tests
    assert (first.status, first.failed, first.limit) == ("passed", 2, "at most 2 rows")
    assert (second.status, second.failed, second.limit) == ("passed", 2, "at most 5 %")
    assert told_of(ran["beyond"], "t1").status == "failed"


def test_row_count_is_compared_with_the_last_published_run_and_a_stop_leaves_the_target(
    spark: SparkSession, tmp_path: Path
) -> None:
    gate = {"row_count": {"change_threshold": 0.5}}
    project = Project(spark, tmp_path, [gated("orders", gate), gated("calm", {"row_count": {"change_threshold": 1.0}})])
    project.more = {"on_error": "fail_later"}
    project.put("raw", [{"id": n} for n in range(4)])
    assert {record.status for record in project.run().values()} == {Status.published}
    before = contents(tmp_path / "data" / "orders")

    project.put("raw", [{"id": n} for n in range(4, 8)])
    stopped = project.run(now=NOW + timedelta(days=1))
    again = project.run(now=NOW + timedelta(days=2))["orders"]

    assert stopped["orders"].status is Status.stopped
    assert stopped["orders"].reasons == ("the row count changed by 100 % (4 to 8), 50 % are allowed",)
    assert stopped["calm"].status is Status.published
    assert again.gate is not None
    # A run that was stopped is no measure for the next.
    assert (again.gate.row_count.previous, again.gate.row_count.current) == (4, 8)
    assert contents(tmp_path / "data" / "orders") == before
    assert project.left_over() == []


def test_run_that_is_done_again_replaces_its_own_batch_in_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    tests = [{"type": "range", "column": "id", "min": 0, "on_fail": "quarantine"}]
    project = Project(spark, tmp_path, [node("orders", "id INT", *tests, quarantine="bad")])
    project.put("raw", [{"id": n} for n in (-2, -1, 1, 2)])
    project.run("run-1")
    project.run("run-2")
    assert project.ids("bad") == [-2, -2, -1, -1]

    project.nodes[0]["transform"] = {"steps": [{"sql": "SELECT * FROM df WHERE id <> -1"}]}
    project.run("run-2")
    assert project.ids("bad") == [-2, -2, -1]

    project.nodes[0]["transform"] = {"steps": [{"sql": "SELECT * FROM df WHERE id > 0"}]}
    project.run("run-2")
    assert project.ids("bad") == [-2, -1]
    assert project.ids("orders") == [1, 2]
