"""What the facets of pipelines say, and which bodies are wrong. A wrong one is counted and yields nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headgate.openlineage.facts import Facts
from headgate.openlineage.pipelines import utc
from tests.support.events import Json, a_run_id, an_event
from tests.support.facts import facts_of
from tests.support.pipeline_events import (
    a_full_record,
    a_node_end,
    a_node_start,
    a_pipeline_event,
    an_alert,
)

RUN = a_run_id()


def with_body(event: Json, facet: str, **changes: Any) -> Facts:
    """The facts of an event with some of a facet's fields changed."""
    event["run"]["facets"][facet] |= changes
    return facts_of(event)


def test_a_pipeline_run_is_told() -> None:
    facts = facts_of(a_pipeline_event(RUN, "stopped", seconds=60))

    assert facts.invalid_facets == []
    assert facts.pipeline is not None
    facet = facts.pipeline.facet
    assert (facet.project, facet.pipeline, facet.environment, facet.file) == ("shop", "sales", "test", "shop.yaml")
    assert (facet.status, facet.nodes) == ("stopped", ["orders"])
    assert facet.ended_at == datetime(2026, 3, 1, 10, 1, tzinfo=UTC)


def test_a_node_is_told_with_its_datasets_by_their_canonical_names() -> None:
    facts = facts_of(a_node_end(RUN, **a_full_record()))

    assert facts.invalid_facets == []
    assert facts.node is not None
    assert facts.node.output is not None
    assert facts.node.quarantine is not None
    assert (facts.node.output.urn, facts.node.quarantine.urn) == ("s3://lake/silver/orders", "s3://lake/rejects/orders")
    assert facts.node.facet.gate is not None
    assert list(facts.node.facet.watermarks()) == [("updated_at", "2026-03-01")]


def test_the_start_of_a_node_needs_no_more_than_who_it_is() -> None:
    facts = facts_of(a_node_start(RUN))

    assert facts.invalid_facets == []
    assert facts.node is not None
    assert facts.node.facet.name == "orders"


def test_alerts_are_told() -> None:
    facts = facts_of(a_pipeline_event(RUN, alerts=[an_alert(), an_alert(90, channel="mail", node=None)]))

    assert [(alert.channel, alert.node) for alert in facts.alerts] == [("slack", "orders"), ("mail", None)]


def test_an_event_without_such_facets_tells_of_no_pipeline() -> None:
    facts = facts_of(an_event())

    assert (facts.pipeline, facts.node, facts.alerts) == (None, None, [])


@pytest.mark.parametrize(
    ("watermark", "expected"),
    [
        ({"column": "updated_at", "value": "2026-03-01"}, {"updated_at": "2026-03-01"}),
        ({"column": "id", "value": 17}, {"id": "17"}),
        ({"updated_at": "2026-03-01", "id": 17}, {"updated_at": "2026-03-01", "id": "17"}),
        ({"updated_at": None}, {}),
        ({"x" * 1001: "1"}, {}),
        (None, {}),
    ],
    ids=["named", "a number", "by column", "nothing read", "no column's name", "none"],
)
def test_watermarks_are_columns_and_texts(watermark: Json | None, expected: dict[str, str]) -> None:
    facts = facts_of(a_node_end(RUN, watermark=watermark))

    assert facts.node is not None
    assert dict(facts.node.facet.watermarks()) == expected


WRONG_PIPELINES: dict[str, Json] = {
    "no project": {"project": None},
    "an empty name": {"pipeline": ""},
    "names too long": {"project": "p" * 1000, "pipeline": "q" * 501},
    "an unknown status": {"status": "fine"},
    "nodes that are no names": {"nodes": [1]},
    "no time": {"started_at": "yesterday"},
    "no year": {"ended_at": "0001-01-01T00:00:00+14:00"},
}
WRONG_NODES: dict[str, Json] = {
    "no project": {"project": None},
    "no name": {"name": ""},
    "names too long": {"name": "n" * 1500},
    "an unknown status": {"status": "running"},
    "rows below zero": {"rows_in": -1},
    "rows beyond all numbers": {"rows_published": 2**63},
    "an attempt beyond all": {"attempt": 2**31},
    "a time beyond the calendar": {"ended_at": "9999-12-31T23:59:59-14:00"},
    "tests that are none": {"tests": [{"name": "x"}]},
    "a gate without a verdict": {"gate": {"pass_rate": 1}},
    "an output without a name": {"output": {"namespace": "s3://lake"}},
    "freshness of no time": {"freshness": {"max_age_hours": 0}},
    "freshness of too much": {"freshness": {"max_age_hours": 1e9}},
    "columns that are none": {"schema": ["id"]},
}
BATCHES: dict[str, Json] = {
    "an unknown state": {"state": "lost"},
    "no id": {"batch_id": ""},
    "an id too long": {"batch_id": "b" * 1001},
    "rows below zero": {"rows": -1},
    "kept for ever and a day": {"retention_days": 10**6},
}
WRONG_ALERTS: dict[str, Any] = {
    "no list": {"alerts": "many"},
    "no event": {"alerts": [{"channel": "slack", "outcome": "sent", "at": "2026-03-01T10:00:00Z"}]},
    "no time": {"alerts": [an_alert() | {"at": "soon"}]},
    "no such year": {"alerts": [an_alert() | {"at": "0001-01-01T00:00:00Z"}]},
}


@pytest.mark.parametrize("changes", WRONG_PIPELINES.values(), ids=WRONG_PIPELINES)
def test_a_wrong_body_of_a_pipeline_is_counted(changes: Json) -> None:
    facts = with_body(a_pipeline_event(RUN, "published"), "headgate_pipeline", **changes)

    assert (facts.invalid_facets, facts.pipeline) == (["headgate_pipeline"], None)


@pytest.mark.parametrize("changes", WRONG_NODES.values(), ids=WRONG_NODES)
def test_a_wrong_body_of_a_node_is_counted(changes: Json) -> None:
    facts = with_body(a_node_end(RUN, **a_full_record()), "headgate_node", **changes)

    assert (facts.invalid_facets, facts.node) == (["headgate_node"], None)


@pytest.mark.parametrize("rates", [{"pass_rate": 1.5}, {"required": -0.1}, {"per_test_rates": {"ids": 1e308}}], ids=str)
def test_a_rate_that_is_none_is_counted(rates: Json) -> None:
    event = a_node_end(RUN, **a_full_record())
    gate = event["run"]["facets"]["headgate_node"]["gate"] | rates
    facts = with_body(event, "headgate_node", gate=gate)

    assert (facts.invalid_facets, facts.node) == (["headgate_node"], None)


@pytest.mark.parametrize("changes", BATCHES.values(), ids=BATCHES)
def test_a_wrong_batch_is_counted(changes: Json) -> None:
    event = a_node_end(RUN, **a_full_record())
    batch = event["run"]["facets"]["headgate_node"]["quarantine"] | changes
    facts = with_body(event, "headgate_node", quarantine=batch)

    assert (facts.invalid_facets, facts.node) == (["headgate_node"], None)


@pytest.mark.parametrize("changes", WRONG_ALERTS.values(), ids=WRONG_ALERTS)
def test_wrong_alerts_are_counted_and_the_run_is_still_told(changes: Json) -> None:
    facts = with_body(a_pipeline_event(RUN, "published", alerts=[]), "headgate_alerts", **changes)

    assert (facts.invalid_facets, facts.alerts) == (["headgate_alerts"], [])
    assert facts.pipeline is not None


def test_a_facet_that_was_taken_back_tells_nothing() -> None:
    facts = with_body(a_node_end(RUN), "headgate_node", _deleted=True)

    assert (facts.invalid_facets, facts.node) == ([], None)


def test_an_output_whose_name_cannot_be_one_is_left_out() -> None:
    output = {"namespace": "s3://lake", "name": "x" * 3000, "label": "silver/x"}
    facts = with_body(a_node_end(RUN), "headgate_node", output=output)

    assert facts.node is not None
    assert facts.node.output is None


def test_a_time_without_a_zone_is_read_as_utc() -> None:
    assert utc(datetime(2026, 3, 1, 10)) == datetime(2026, 3, 1, 10, tzinfo=UTC)  # noqa: DTZ001 - the case
    assert utc(None) is None
