"""The events of the demo: made by their script, connected, and complete in what strict validation asks for."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

SHOP = Path(__file__).parents[2] / "examples" / "shop"
EVENTS = [json.loads(line) for line in (SHOP / "events.ndjson").read_text(encoding="utf-8").splitlines()]
RUN_EVENTS = [event for event in EVENTS if "run" in event]


def facets_of(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("facets", "inputFacets", "outputFacets"):
                yield from inner.values()
            yield from facets_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from facets_of(inner)


def test_the_file_is_what_its_script_makes() -> None:
    script = runpy.run_path(str(SHOP / "make_events.py"))

    assert (SHOP / "events.ndjson").read_text(encoding="utf-8") == script["render"]()


def test_every_event_and_facet_has_what_strict_validation_asks_for() -> None:
    for event in EVENTS:
        assert datetime.fromisoformat(event["eventTime"]).tzinfo
        assert event["producer"].startswith("https://")
        assert event["schemaURL"].startswith("https://openlineage.io/spec/")
        for facet in facets_of(event):
            assert facet["_producer"].startswith("https://")
            assert facet["_schemaURL"].startswith("https://openlineage.io/spec/facets/")


def test_every_run_starts_once_and_ends_once() -> None:
    kinds = Counter((UUID(event["run"]["runId"]), event["eventType"]) for event in RUN_EVENTS)

    for run_id in {run_id for run_id, _ in kinds}:
        assert kinds[run_id, "START"] == 1
        assert kinds[run_id, "COMPLETE"] + kinds[run_id, "FAIL"] == 1


def test_every_parent_is_a_run_of_the_file() -> None:
    runs = {event["run"]["runId"]: event["job"]["name"] for event in RUN_EVENTS}
    parents = [event["run"]["facets"]["parent"] for event in RUN_EVENTS if "parent" in event["run"]["facets"]]

    assert parents
    assert all(runs[parent["run"]["runId"]] == parent["job"]["name"] for parent in parents)
    assert {runs[parent["root"]["run"]["runId"]] for parent in parents} == {"shop_daily"}


def test_the_story_has_a_retry_a_schema_change_and_one_failed_test() -> None:
    silver = [event for event in RUN_EVENTS if event["job"]["name"] == "shop.silver_orders"]
    ends = [event["eventType"] for event in silver if event["eventType"] in ("COMPLETE", "FAIL")]
    columns = [
        [field["name"] for field in event["outputs"][0]["facets"]["schema"]["fields"]]
        for event in silver
        if event["eventType"] == "COMPLETE"
    ]
    assertions = [
        assertion
        for event in RUN_EVENTS
        for dataset in event["inputs"]
        for assertion in dataset.get("inputFacets", {}).get("dataQualityAssertions", {}).get("assertions", [])
    ]

    assert ends == ["COMPLETE", "FAIL", "COMPLETE"]
    assert columns[1] == [*columns[0], "currency"]
    assert [(a["assertion"], a["column"]) for a in assertions if not a["success"]] == [("not_null", "customer_id")]
