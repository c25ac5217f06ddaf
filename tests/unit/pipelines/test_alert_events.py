"""From the records of a run to what people hear of it."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.domain.gate import Action, History, Lot, OnFail, Outcome, RowLimits, Rules, judge
from headgate.pipelines.alerts.events import (
    Alert,
    AlertStatus,
    alerts_of_end,
    alerts_of_node,
    alerts_of_node_start,
    alerts_of_start,
)
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.record import DriftRecord, NodeRecord, Status
from tests.support.channels import NOW, STORY, a_gate, a_node, a_quarantine, a_run, a_test, every_alert


def told(record: NodeRecord, event: AlertEvent) -> Alert:
    [found] = [alert for alert in alerts_of_node("shop", record) if alert.event is event]
    return found


def events(record: NodeRecord) -> list[str]:
    return [str(alert.event) for alert in alerts_of_node("shop", record)]


def test_each_pipeline_of_a_run_is_announced() -> None:
    run = a_run(pipelines=("bronze", "silver"), environment="prod")
    found = alerts_of_start(run, owners={"silver": "ann"}, story_url=STORY)
    assert [(each.pipeline, each.owner) for each in found] == [("bronze", None), ("silver", "ann")]
    assert {(each.event, each.status) for each in found} == {(AlertEvent.on_start, AlertStatus.STARTED)}
    assert (found[0].at, found[0].story_url, found[0].node) == (NOW, STORY, None)
    assert found[0].details["run_details"]["environment"] == "prod"


def test_records_give_every_event_that_a_channel_can_ask_for() -> None:
    assert set(every_alert()) == set(AlertEvent)


def test_a_node_without_faults_tells_of_its_success_only() -> None:
    alert = told(a_node(), AlertEvent.on_success)
    assert events(a_node()) == ["on_success"]
    assert (alert.status, alert.node, alert.owner, alert.duration_s) == ("SUCCESS", "customers", "data team", 12.5)
    assert alert.message == "Node silver.customers has published 100 rows."


def test_a_node_that_begins_says_so_with_its_attempt() -> None:
    [alert] = alerts_of_node_start("shop", a_node(ended_at=None, attempt=2))
    assert (alert.event, alert.at, alert.duration_s) == (AlertEvent.on_start, NOW, 0.0)
    assert alert.details == {"run_details": {"attempt": 2}}


def test_a_skipped_node_has_nothing_to_tell() -> None:
    assert events(a_node(status=Status.skipped, tests=(a_test(),))) == []


def test_the_duration_is_the_measured_one_where_there_is_one() -> None:
    assert told(a_node(timings_s={"total": 3.25}), AlertEvent.on_success).duration_s == 3.25


def test_failing_tests_are_named_with_their_reasons() -> None:
    record = a_node(tests=(a_test(), a_test("odd", status="passed"), a_test("sum", status="error", failed=0)))
    alert = told(record, AlertEvent.on_validation_fail)
    found = alert.details["validation_details"]
    assert found["failed_tests"] == ["not_null", "sum"]
    assert found["failure_reasons"] == [
        "test 'not_null' fails for 3 of 100 rows",
        "test 'sum' could not be carried out",
    ]
    assert alert.message == "2 tests of silver.customers failed: not_null, sum."


@pytest.mark.parametrize(("status", "expected"), [("published", "WARNING"), ("stopped", "FAILED")])
def test_a_failing_test_is_a_warning_unless_it_stopped_the_node(status: str, expected: str) -> None:
    record = a_node(status=Status(status), tests=(a_test(),))
    assert told(record, AlertEvent.on_validation_fail).status == expected


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        ("abort", "GATE_BLOCKED", "nothing was published"),
        ("warn_and_write", "WARNING", "all rows were published with a warning"),
        ("write_valid_only", "WARNING", "90 valid rows were published"),
    ],
)
def test_a_gate_that_does_not_pass_says_what_it_did(action: str, status: str, words: str) -> None:
    alert = told(a_node(gate=a_gate(action=action), rows_published=90), AlertEvent.on_gate_block)
    assert alert.status == status
    assert words in alert.message
    assert alert.details["gate_details"] == {
        "pass_rate": 0.9,
        "required_rate": 0.95,
        "failed_rows": 10,
        "total_rows": 100,
        "action": action,
        "failure_reasons": ["90 % of the rows pass, 95 % are required"],
    }


def test_a_gate_that_passes_is_not_told() -> None:
    assert events(a_node(gate=a_gate(passed=True, action=None, reasons=()))) == ["on_success"]


def test_quarantined_rows_are_told_with_their_place_and_tests() -> None:
    alert = told(a_node(quarantine=a_quarantine()), AlertEvent.on_quarantine)
    found = alert.details["quarantine_details"]
    assert alert.status is AlertStatus.QUARANTINED
    assert found["rows_quarantined"] == 1234
    assert found["quarantine_path"].startswith("/lake/silver/customers_bad")
    assert found["failed_tests"] == ["not_null", "email"]
    assert "1,234 rows" in alert.message


def test_an_empty_quarantine_batch_is_not_told() -> None:
    assert events(a_node(quarantine=a_quarantine(rows=0, failed_tests={}))) == ["on_success"]


LIMITS = {
    "min": (RowLimits(min=500), None),
    "max": (RowLimits(max=50), None),
    "change": (RowLimits(change_threshold=0.5), 1000),
    "history": (RowLimits(change_threshold=0.5, passes_without_history=False), None),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_each_limit_of_the_row_count_is_a_breach(limit: str) -> None:
    """The reasons are those that a real gate gives, so that its words and ours cannot part."""
    rows, previous = LIMITS[limit]
    verdict = judge(Rules(rows=rows), {Lot.clean: 100}, [], History(previous))
    assert len(verdict.reasons) == 1
    alert = told(a_node(gate=a_gate(reasons=verdict.reasons)), AlertEvent.on_threshold_breach)
    assert alert.details["threshold_details"]["failure_reasons"] == list(verdict.reasons)


def test_reasons_of_rates_and_tests_are_no_breach_of_the_row_count() -> None:
    outcomes = [Outcome("not_null", "not_null", OnFail.fail, failed=60), Outcome("s", "sum", OnFail.fail, holds=False)]
    rules = Rules(thresholds={"not_null": 0.99}, action=Action.abort)
    verdict = judge(rules, {Lot.clean: 40, Lot.failed: 60}, outcomes, History())
    assert len(verdict.reasons) >= 2
    assert "on_threshold_breach" not in events(a_node(gate=a_gate(reasons=verdict.reasons)))


@pytest.mark.parametrize(
    ("fields", "is_breach"),
    [
        ({"type": "row_count", "failed": 0, "observed": 5.0, "limit": "at least 10"}, True),
        ({"type": "volume_change", "failed": 0, "observed": 0.7, "limit": "50 %"}, True),
        ({"type": "volume_drop", "failed": 0, "observed": 0.7, "limit": "50 %"}, True),
        ({"type": "not_null", "limit": "2 rows"}, True),
        ({"type": "not_null", "limit": "5 rows", "status": "passed"}, False),
        ({"type": "not_null"}, False),
        ({"type": "custom_query", "failed": 4, "observed": 4.0, "limit": "0"}, False),
        ({"type": "mean", "failed": 0, "observed": 0.7, "limit": "at most 0.5"}, False),
    ],
)
def test_volume_tests_and_exceeded_allowances_are_breaches(fields: dict[str, Any], is_breach: bool) -> None:
    assert ("on_threshold_breach" in events(a_node(tests=(a_test(**fields),)))) is is_breach


@pytest.mark.parametrize(("policy", "status"), [("evolve", "WARNING"), ("warn", "WARNING"), ("fail", "FAILED")])
def test_changed_columns_are_told_as_the_policy_takes_them(policy: str, status: str) -> None:
    alert = told(a_node(drift=DriftRecord(added=("a", "b"), removed=("c",), policy=policy)), AlertEvent.on_schema_drift)
    assert alert.status == status
    assert alert.message == "The columns of silver.customers have changed: 2 added, 1 removed."
    assert alert.details["drift_details"]["columns_added"] == ["a", "b"]


def test_an_empty_drift_is_not_told() -> None:
    assert events(a_node(drift=DriftRecord())) == ["on_success"]


def test_old_rows_are_told_with_their_age() -> None:
    stale = a_test("fresh", type="freshness", failed=0, observed="2 days", limit="1 day", columns=("at",))
    alert = told(a_node(tests=(stale,)), AlertEvent.on_freshness_fail)
    assert alert.details["freshness_details"]["observed"] == "2 days"
    assert alert.details["freshness_details"]["column"] == "at"
    assert alert.message == "The rows of silver.customers are too old: test 'fresh' found 2 days, 1 day is allowed."


def test_fresh_rows_are_not_told() -> None:
    assert events(a_node(tests=(a_test("fresh", type="freshness", status="passed"),))) == ["on_success"]


def test_a_broken_node_is_told_by_the_first_line_of_its_error() -> None:
    error = "cannot read 'raw'\ncheck the path\n  at org.apache.spark.Thing(Thing.scala:1)"
    alert = told(a_node(status=Status.failed, error=error), AlertEvent.on_failure)
    assert alert.message == "Node silver.customers has failed: cannot read 'raw'."
    assert alert.status is AlertStatus.FAILED


def test_an_error_without_end_becomes_one_sentence() -> None:
    alert = told(a_node(status=Status.failed, error="x" * 100_000), AlertEvent.on_failure)
    assert len(alert.message) < 600


def test_the_end_of_a_good_run_is_a_success_with_totals() -> None:
    run = a_run(a_node(), a_node(name="orders", rows_published=5, rows_in=7, rows_quarantined=2))
    [alert] = alerts_of_end(run)
    assert (alert.event, alert.status, alert.duration_s) == (AlertEvent.on_success, AlertStatus.SUCCESS, 120.0)
    assert (alert.owner, alert.node) == ("data team", None)
    assert alert.details["run_details"] == {
        "nodes": {"customers": "published", "orders": "published"},
        "rows_in": 107,
        "rows_published": 105,
        "rows_quarantined": 2,
    }


@pytest.mark.parametrize("status", [Status.failed, Status.stopped])
def test_a_pipeline_with_a_bad_node_has_failed(status: Status) -> None:
    run = a_run(a_node(), a_node(name="orders", status=status, error="no space left"))
    [alert] = alerts_of_end(run)
    assert (alert.event, alert.status) == (AlertEvent.on_failure, AlertStatus.FAILED)
    assert alert.details["failure_details"]["failed_nodes"] == ["orders"]
    assert "no space left" in alert.message


def test_each_pipeline_is_told_of_its_own_nodes() -> None:
    run = a_run(a_node(), a_node(pipeline="gold", status=Status.failed), pipelines=("silver", "gold"))
    assert [each.event for each in alerts_of_end(run)] == [AlertEvent.on_success, AlertEvent.on_failure]


def test_a_failure_that_counts_for_nothing_leaves_a_warning() -> None:
    run = a_run(a_node(), a_node(name="orders", status=Status.failed, error="gone"))
    [alert] = alerts_of_end(run, ignored={("silver", "orders")})
    assert (alert.event, alert.status) == (AlertEvent.on_success, AlertStatus.WARNING)
    assert alert.message == "Pipeline silver has published 1 of 2 nodes."


def test_a_pipeline_that_never_began_is_no_success() -> None:
    run = a_run(a_node(status=Status.skipped, notes=("the run was stopped before",)))
    [alert] = alerts_of_end(run)
    assert (alert.event, alert.status) == (AlertEvent.on_failure, AlertStatus.WARNING)
    assert alert.message == "Pipeline silver did not run: the run was stopped before."


def test_owners_that_differ_are_no_owner_of_the_pipeline() -> None:
    [alert] = alerts_of_end(a_run(a_node(owner="ann"), a_node(name="b", owner="bob")))
    assert alert.owner is None
