"""The events of a run, as a strict server reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4, uuid5

import pytest
from openlineage.client.event_v2 import RunEvent

from headgate.openlineage.facts import Facts
from headgate.pipelines.alerts.events import Alert, AlertStatus
from headgate.pipelines.alerts.send import Outcome, Sent
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.emit.events import Events, pipeline_run_id
from headgate.pipelines.emit.facets import MAX_ERROR, encoded
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.record import ColumnProfile, DatasetRef, NodeRecord, RunRecord, Status
from headgate.pipelines.record import TestRecord as OneTest
from tests.support.events import Json
from tests.support.facts import facts_of
from tests.support.pipeline_runs import TWO_PIPELINES, a_plan, a_record, an_ended
from tests.unit.pipelines.samples import plan_of

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return a_plan(tmp_path)


@pytest.fixture
def events(plan: Plan) -> Events:
    return Events(plan, ("spark", "4.2.0"))


@pytest.fixture
def run(plan: Plan) -> RunRecord:
    return a_record(plan, started_at=AT)


@pytest.fixture
def orders(plan: Plan) -> Node:
    return plan.node(("daily", "orders"))


def sent(event: RunEvent) -> Json:
    found: Json = json.loads(encoded(event))
    return found


def told(event: RunEvent) -> Facts:
    """What the server takes from an event; nothing of it may be invalid."""
    facts = facts_of(sent(event))
    assert facts.invalid_facets == []
    return facts


def end_of(events: Events, run: RunRecord, node: Node, **record: Any) -> tuple[Json, Facts]:
    *_, last = events.node_ended(run, node, an_ended(node, **record))
    return sent(last), told(last)


def verdicts_of(events: Events, run: RunRecord, node: Node, *tests: OneTest, **record: Any) -> Facts:
    _, end, _ = events.node_ended(run, node, an_ended(node, tests=tests, **record))
    return told(end)


def test_the_run_of_the_only_pipeline_is_the_run_itself(events: Events, run: RunRecord) -> None:
    start = events.pipeline_started(run, "daily")

    facts = told(start)

    assert facts.run_id == UUID(run.run_id)
    assert (facts.event_type, facts.event_time, facts.job) == ("START", AT, ("shop", "daily"))
    assert facts.pipeline is not None
    assert facts.pipeline.facet.nodes == ["orders", "totals"]
    assert sent(start)["job"]["facets"]["jobType"]["jobType"] == "PIPELINE"
    assert sent(start)["job"]["facets"]["ownership"]["owners"] == [{"name": "data@example.org"}]
    assert sent(start)["job"]["facets"]["documentation"]["description"] == "What was sold."
    assert sent(start)["run"]["facets"]["processing_engine"]["version"] == "4.2.0"


def test_of_several_pipelines_each_has_a_run_of_its_own_that_names_the_whole(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, TWO_PIPELINES)
    run = a_record(plan, started_at=AT)

    daily, hourly = (told(Events(plan).pipeline_started(run, name)) for name in ("daily", "hourly"))

    assert (daily.run_id, hourly.run_id) == (uuid5(UUID(run.run_id), "daily"), uuid5(UUID(run.run_id), "hourly"))
    assert daily.pipeline is not None
    assert daily.pipeline.facet.run_id == run.run_id


@pytest.mark.parametrize(
    ("status", "kind"), [("published", "COMPLETE"), ("skipped", "ABORT"), ("stopped", "FAIL"), ("failed", "FAIL")]
)
def test_how_a_pipeline_ended_is_told_by_the_type_of_its_last_event(
    events: Events, run: RunRecord, status: str, kind: str
) -> None:
    run.status, run.ended_at = Status(status), AT + timedelta(minutes=1)

    facts = told(events.pipeline_ended(run, "daily"))

    assert (facts.event_type, facts.event_time) == (kind, run.ended_at)
    assert facts.pipeline is not None
    assert facts.pipeline.facet.status == status


def test_each_of_several_pipelines_ends_as_its_own_nodes_did(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, TWO_PIPELINES)
    run = a_record(plan, started_at=AT, ended_at=AT)
    clicks = an_ended(plan.node(("hourly", "clicks")), status=Status.failed, error="no disk")
    run.nodes, run.status = [an_ended(plan.node(("daily", "orders"))), clicks], Status.failed

    daily, hourly = (told(Events(plan).pipeline_ended(run, name)) for name in ("daily", "hourly"))

    assert (daily.event_type, hourly.event_type) == ("COMPLETE", "FAIL")
    assert hourly.error == "hourly.clicks: no disk"


def test_a_run_that_was_broken_off_is_aborted(events: Events, run: RunRecord, orders: Node) -> None:
    run.is_interrupted, run.status = True, Status.failed

    assert told(events.pipeline_ended(run, "daily")).event_type == "ABORT"
    assert end_of(events, run, orders, status=Status.failed, error="cancelled")[1].event_type == "ABORT"


def test_a_run_that_was_complete_when_it_was_broken_off_is_complete(
    events: Events, run: RunRecord, orders: Node
) -> None:
    run.is_interrupted, run.status, run.nodes = True, Status.published, [an_ended(orders)]

    assert told(events.pipeline_ended(run, "daily")).event_type == "COMPLETE"


def test_alerts_are_told_with_the_end_of_their_pipeline(events: Events, run: RunRecord) -> None:
    def an_alert(pipeline: str) -> Sent:
        alert = Alert(AlertEvent.on_gate_block, AlertStatus.GATE_BLOCKED, "shop", pipeline, run.run_id, "Stopped.", AT)
        return Sent(alert, "slack", "slack #data", Outcome.failed, AT, "no answer within 5 s")

    facts = told(events.pipeline_ended(run, "daily", [an_alert("daily"), an_alert("other")]))

    (alert,) = facts.alerts
    assert (alert.event, alert.channel, alert.outcome) == ("on_gate_block", "slack #data", "failed")
    assert (alert.reason, alert.message, alert.at) == ("no answer within 5 s", "Stopped.", AT)


def test_the_start_of_a_node_says_who_it_is_and_what_it_is_about_to_read_and_write(
    events: Events, run: RunRecord, orders: Node
) -> None:
    record = NodeRecord("daily", "orders", str(uuid4()), started_at=AT, attempt=2)

    facts = told(events.node_started(run, orders, record))

    assert (facts.job, facts.event_type, facts.event_time) == (("shop", "daily.orders"), "START", AT)
    assert facts.parent_run == UUID(run.run_id)
    assert facts.node is not None
    assert (facts.node.facet.name, facts.node.facet.attempt) == ("orders", 2)
    uses = [(use.role, use.key) for use in facts.uses]
    assert uses == [("input", ("s3://lake", "bronze/orders")), ("output", ("s3://lake", "silver/orders"))]


def test_the_end_of_a_node_has_its_record_whole(events: Events, run: RunRecord, orders: Node) -> None:
    record = an_ended(orders)
    *_, last = events.node_ended(run, orders, record)

    facts = told(last)

    assert facts.node is not None
    facet = facts.node.facet
    assert (facet.gate, facet.quarantine, facet.tests) == (record.gate, record.quarantine, record.tests)
    assert (facet.rows_in, facet.rows_published, facet.profile) == (100, 97, record.profile)
    assert facet.freshness is not None
    assert facet.freshness.max_age_hours == 36
    assert facet.inputs == (DatasetRef("s3://lake", "bronze/orders", "bronze/orders"),)


def test_the_target_of_a_published_node_is_told_with_schema_size_profile_and_label(
    events: Events, run: RunRecord, orders: Node
) -> None:
    _, facts = end_of(events, run, orders)

    target = next(use for use in facts.uses if use.key == ("s3://lake", "silver/orders"))
    assert target.schema is not None
    assert [(each.name, each.type, each.nullable) for each in target.schema.fields] == [
        ("id", "bigint", False),
        ("total", "decimal(10,2)", True),
    ]
    assert [link[:2] for link in target.symlinks] == [("headgate:shop", "silver/orders")]
    metrics = {metric.direction: metric for metric in facts.metrics if metric.dataset[:2] == target.key}
    assert (metrics["output"].row_count, metrics["output"].byte_size, metrics["output"].file_count) == (97, 2048, 2)
    assert metrics["profile"].columns == {
        "id": {"nullCount": 0, "distinctCount": 97, "min": 1, "max": 97},
        "total": {"nullCount": 2},
    }


def test_rows_that_were_set_apart_are_an_output_too(events: Events, run: RunRecord, orders: Node) -> None:
    _, facts = end_of(events, run, orders)

    metric = next(each for each in facts.metrics if each.dataset[:2] == ("s3://lake", "silver/rejects"))
    assert (metric.direction, metric.row_count) == ("output", 3)


def test_labels_of_another_environment_are_other_names(events: Events, plan: Plan, orders: Node) -> None:
    _, facts = end_of(events, a_record(plan, environment="prod"), orders)

    assert {link[0] for use in facts.uses for link in use.symlinks} == {"headgate:shop/prod"}


@pytest.mark.parametrize("status", [Status.stopped, Status.failed])
def test_what_was_not_published_leaves_no_schema_and_no_size_on_the_target(
    events: Events, run: RunRecord, orders: Node, status: Status
) -> None:
    event, facts = end_of(events, run, orders, status=status, error="broken", quarantine=None)

    assert facts.event_type == "FAIL"
    assert [use.key for use in facts.uses if use.role == "output"] == [("s3://lake", "silver/orders")]
    assert facts.metrics == []
    assert set(event["outputs"][0]["facets"]) == {"symlinks"}
    assert facts.error == "daily.orders: broken"


def test_a_node_that_was_skipped_touches_no_dataset(events: Events, run: RunRecord, orders: Node) -> None:
    record = NodeRecord("daily", "orders", str(uuid4()), notes=("the run was stopped before",))

    (event,) = events.node_ended(run, orders, record)

    facts = told(event)
    assert (facts.event_type, facts.uses) == ("ABORT", [])
    assert facts.node is not None
    assert facts.node.facet.status == "skipped"


def test_a_node_lives_on_what_those_before_it_have_written(events: Events, run: RunRecord, plan: Plan) -> None:
    _, facts = end_of(events, run, plan.node(("daily", "totals")), tests=())

    assert [use.key for use in facts.uses if use.role == "input"] == [("s3://lake", "silver/orders")]


def test_a_node_lives_on_what_those_have_read_that_write_nothing(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        """
        project: shop
        connections: {bronze: {type: s3, base_path: s3a://lake/bronze}}
        pipelines:
          - pipeline: daily
            nodes:
              - {name: a, read: {connection: bronze, path: a}}
              - {name: b, depends_on: a, write: {connection: bronze, path: b}}
        """,
    )

    start = Events(plan).node_started(a_record(plan), plan.node(("daily", "b")), NodeRecord("daily", "b", str(uuid4())))

    assert [use.key[1] for use in told(start).uses] == ["bronze/a", "bronze/b"]


def test_tables_whose_names_only_the_session_knows_are_told_by_the_record_alone(tmp_path: Path) -> None:
    plan = plan_of(
        tmp_path,
        """
        project: shop
        connections: {lake: {type: catalog, database: db}}
        pipelines:
          - pipeline: daily
            nodes:
              - {name: a, read: {connection: lake, table: raw}, write: {connection: lake, table: clean}}
        """,
    )
    node = plan.node(("daily", "a"))
    source, target = (
        DatasetRef("hive://meta", "db.raw", "lake.raw"),
        DatasetRef("hive://meta", "db.clean", "lake.clean"),
    )

    start = told(Events(plan).node_started(a_record(plan), node, NodeRecord("daily", "a", str(uuid4()))))
    _, end = end_of(Events(plan), a_record(plan), node, inputs=(source,), output=target)

    assert start.uses == []
    assert [use.key for use in end.uses] == [("hive://meta", "db.raw"), ("hive://meta", "db.clean")]


def test_tests_are_told_by_a_child_run_as_assertions_on_the_target(
    events: Events, run: RunRecord, orders: Node
) -> None:
    record = an_ended(orders)
    start, end, _ = events.node_ended(run, orders, record)

    facts = told(end)

    assert told(start).run_id == facts.run_id
    assert (facts.job, facts.is_test, facts.parent_run) == (("shop", "daily.orders.tests"), True, UUID(record.run_id))
    assert facts.root_run == UUID(run.run_id)
    assert {test.dataset[:2] for test in facts.tests if test.dataset} == {("s3://lake", "silver/orders")}
    not_null, row_count = facts.tests
    assert (not_null.name, not_null.column, not_null.status, not_null.severity) == ("not_null", "id", "failed", "warn")
    assert (not_null.expected, not_null.actual) == ("no row fails", "3 of 100 rows fail")
    assert not_null.detail["params"] == {"failed": 3, "evaluated": 100, "on_fail": "quarantine", "columns": ["id"]}
    assert (row_count.status, row_count.severity, row_count.column) == ("passed", "warn", None)
    assert (row_count.expected, row_count.actual) == ("at least 1", "100")


def test_a_test_keeps_its_name_beside_its_type(events: Events, run: RunRecord, orders: Node) -> None:
    facts = verdicts_of(events, run, orders, OneTest("ids are there", "not_null", "fail", "passed", 0, ("a", "b")))

    assert [(test.name, test.assertion, test.column) for test in facts.tests] == [("ids are there", "not_null", None)]


def test_a_test_that_broke_is_no_failed_one(events: Events, run: RunRecord, orders: Node) -> None:
    broken = OneTest("slow", "custom_sql", "fail", "error", 0, detail="it took too long")
    skipped = OneTest("late", "freshness", "warn", "skipped", 0)
    passed = OneTest("size", "row_count", "fail", "passed", 0)

    facts = verdicts_of(events, run, orders, broken, skipped, passed)

    found = {test.name: test.status for test in facts.tests}
    assert found == {"slow": "error", "late": "skipped", "size": "passed"}
    assert {test.dataset[:2] for test in facts.tests if test.dataset} == {("s3://lake", "silver/orders")}


def test_an_event_is_the_same_each_time_it_is_made(events: Events, run: RunRecord, orders: Node) -> None:
    record = an_ended(orders)

    first, again = ([encoded(event) for event in events.node_ended(run, orders, record)] for _ in range(2))

    assert first == again


def test_values_that_no_server_takes_do_not_cost_the_event(events: Events, run: RunRecord, orders: Node) -> None:
    odd = {"id": ColumnProfile(0, 1, float("nan"), AT), "total": ColumnProfile(0, 1, {1: b"\xff"}, object())}

    event, facts = end_of(events, run, orders, profile=odd, error="cut\x00 off \ud800" + "x" * 50_000)

    assert facts.error is not None
    assert facts.error.startswith("daily.orders: cut\ufffd off ?")
    assert len(facts.error) < MAX_ERROR + 50
    assert event["outputs"][0]["facets"]["dataQualityMetrics"]["columnMetrics"]["id"] == {
        "nullCount": 0,
        "distinctCount": 1,
    }


def test_the_pipeline_run_of_a_run_with_one_pipeline_is_the_run(run: RunRecord) -> None:
    assert pipeline_run_id(run, "daily") == run.run_id
