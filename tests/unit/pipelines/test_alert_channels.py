"""Who hears of an alert."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.pipelines.alerts.channels import channels_of, key_of, label_of
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.config.project import ProjectConfig
from tests.support.channels import SECRET, a_channel, an_alert


def alerts(name: str, *events: str, kind: str = "slack", **metadata: Any) -> dict[str, Any]:
    return {"type": kind, "url": f"https://hooks.example/{name}", "on_events": list(events), "metadata": metadata}


def a_project(project: list[Any], pipeline: list[Any], node: list[Any]) -> ProjectConfig:
    lake = {"type": "local", "base_path": "/lake"}
    read = {"connection": "lake", "path": "raw", "format": "parquet"}
    nodes = [{"name": "customers", "read": read, "alerts": node}, {"name": "orders", "read": read}]
    pipelines = [
        {"pipeline": "silver", "nodes": nodes, "alerts": pipeline},
        {
            "pipeline": "gold",
            "nodes": [{"name": "customers", "read": read, "alerts": [alerts("gold", "on_quarantine")]}],
        },
    ]
    fields = {"project": "shop", "connections": {"lake": lake}, "pipelines": pipelines, "alerts": project}
    return ProjectConfig.model_validate(fields)


def heard(project: ProjectConfig, event: str, node: str | None = "customers") -> list[str]:
    found = channels_of(project, an_alert(AlertEvent(event), node=node))
    return [each.url.get_secret_value().rsplit("/", 1)[1] for each in found]


def test_a_node_is_heard_by_its_channels_those_of_its_pipeline_and_of_the_project() -> None:
    event = "on_quarantine"
    project = a_project([alerts("project", event)], [alerts("pipeline", event)], [alerts("node", event)])
    assert heard(project, event) == ["node", "pipeline", "project"]
    assert heard(project, event, "orders") == ["pipeline", "project"]


def test_a_channel_hears_only_what_it_asked_for() -> None:
    project = a_project([alerts("project", "on_gate_block", "on_failure")], [alerts("pipeline", "on_quarantine")], [])
    assert heard(project, "on_quarantine") == ["pipeline"]
    assert heard(project, "on_gate_block") == ["project"]
    assert heard(project, "on_schema_drift") == []


def test_the_same_channel_hears_it_once_by_the_settings_nearest_to_the_node() -> None:
    event = "on_quarantine"
    project = a_project(
        [alerts("a", event, channel="#project"), alerts("b", event)], [], [alerts("a", event, channel="#node")]
    )
    found = channels_of(project, an_alert(AlertEvent(event), node="customers"))
    assert [each.metadata.channel for each in found] == ["#node", None]


def test_the_same_url_of_another_type_is_another_channel() -> None:
    event = "on_quarantine"
    project = a_project([alerts("a", event), alerts("a", event, kind="webhook")], [], [])
    assert heard(project, event) == ["a", "a"]


def test_a_duplicate_that_did_not_ask_for_the_event_takes_nothing_away() -> None:
    project = a_project([alerts("a", "on_quarantine")], [], [alerts("a", "on_failure")])
    assert heard(project, "on_quarantine") == ["a"]


@pytest.mark.parametrize("event", ["on_start", "on_success", "on_failure"])
def test_how_a_single_node_ends_is_for_its_own_channels(event: str) -> None:
    project = a_project([alerts("project", event)], [alerts("pipeline", event)], [alerts("node", event)])
    assert heard(project, event) == ["node"]
    assert heard(project, event, None) == ["pipeline", "project"]


def test_labels_and_keys_hide_the_url() -> None:
    channel = a_channel()
    assert label_of(channel) == "slack hooks.example"
    assert label_of(a_channel(metadata={"channel": "#alerts"})) == "slack #alerts"
    for text in (label_of(channel), key_of(channel), repr(channel), str(channel)):
        assert not any(part in text for part in SECRET.split("/"))


def test_keys_tell_channels_apart() -> None:
    keys = {key_of(a_channel()), key_of(a_channel("teams")), key_of(a_channel(url="https://hooks.example/other"))}
    assert len(keys) == 3


def test_a_host_that_cannot_be_read_still_has_a_label() -> None:
    assert label_of(a_channel(url="https://[broken/x")) == "slack of an unknown host"
