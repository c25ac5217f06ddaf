"""Alerts of every event, channels to send them to, and what Slack and Teams refuse.

The limits are those of https://docs.slack.dev/reference/block-kit and of Microsoft's page on incoming webhooks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from headgate.pipelines.alerts.events import Alert, AlertStatus, alerts_of_end, alerts_of_node, alerts_of_start
from headgate.pipelines.config.alerts import AlertConfig, AlertEvent
from headgate.pipelines.record import (
    DatasetRef,
    DriftRecord,
    GateRecord,
    NodeRecord,
    QuarantineRecord,
    RowCountRecord,
    RunRecord,
    Status,
    TestRecord,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SECRET = "T0SECRET0/B0SECRET0/s3cr3tt0k3n"
STORY = "https://headgate.example/runs/0001"


def a_channel(kind: str = "slack", url: str = f"https://hooks.example/services/{SECRET}", **fields: Any) -> AlertConfig:
    fields.setdefault("on_events", list(AlertEvent))
    return AlertConfig.model_validate({"type": kind, "url": url, **fields})


def a_test(name: str = "not_null", **fields: Any) -> TestRecord:
    facts = {"type": "not_null", "on_fail": "fail", "status": "failed", "failed": 3, "evaluated": 100, **fields}
    return TestRecord(name=name, **facts)


def a_gate(**fields: Any) -> GateRecord:
    facts: dict[str, Any] = {
        "passed": False,
        "pass_rate": 0.9,
        "required": 0.95,
        "action": "abort",
        "total_rows": 100,
        "passed_rows": 90,
        "failed_rows": 10,
        "per_test_rates": {"not_null": 0.9},
        "row_count": RowCountRecord(100, 1000, 0.9),
        "reasons": ("90 % of the rows pass, 95 % are required",),
    }
    return GateRecord(**{**facts, **fields})


def a_quarantine(**fields: Any) -> QuarantineRecord:
    dataset = DatasetRef("file", "/lake/silver/customers_bad", "silver/customers_bad")
    facts: dict[str, Any] = {"rows": 1234, "failed_tests": {"not_null": 1200, "email": 34}}
    location = "/lake/silver/customers_bad/_source_batch_id=n1"
    return QuarantineRecord(dataset=dataset, location=location, batch_id="n1", **{**facts, **fields})


def a_node(**fields: Any) -> NodeRecord:
    facts: dict[str, Any] = {
        "pipeline": "silver",
        "name": "customers",
        "run_id": "n1",
        "status": Status.published,
        "started_at": NOW,
        "ended_at": NOW + timedelta(seconds=12.5),
        "rows_in": 100,
        "rows_published": 100,
        "owner": "data team",
    }
    return NodeRecord(**{**facts, **fields})


def a_run(*nodes: NodeRecord, **fields: Any) -> RunRecord:
    facts: dict[str, Any] = {"run_id": "r1", "project": "shop", "pipelines": ("silver",), "started_at": NOW}
    facts |= {"ended_at": NOW + timedelta(minutes=2), "nodes": list(nodes)}
    return RunRecord(**{**facts, **fields})


def an_alert(event: AlertEvent = AlertEvent.on_failure, **fields: Any) -> Alert:
    """A plain alert; `every_alert` has those of real records."""
    facts: dict[str, Any] = {"status": AlertStatus.FAILED, "project": "shop", "pipeline": "silver", "run_id": "r1"}
    return Alert(**{"event": event, "message": "It broke.", "at": NOW, **facts, **fields})


def every_alert(story_url: str | None = STORY) -> dict[AlertEvent, Alert]:
    """One alert for each event, from records that give it."""
    worst = a_node(
        status=Status.stopped,
        gate=a_gate(reasons=("90 % of the rows pass, 95 % are required", "100 rows are fewer than 500")),
        tests=(
            a_test(on_fail="quarantine"),
            a_test("fresh", type="freshness", failed=0, observed="2 days", limit="1 day", columns=("updated_at",)),
        ),
        quarantine=a_quarantine(),
        drift=DriftRecord(added=("loyalty_tier",), removed=("legacy_id",), changed=("email: string to int",)),
    )
    found = [
        *alerts_of_start(a_run(), story_url=story_url),
        *alerts_of_node("shop", worst, story_url=story_url),
        *alerts_of_end(a_run(a_node()), story_url=story_url),
    ]
    return {alert.event: alert for alert in found}


def slack_problems(payload: dict[str, Any]) -> list[str]:
    """What Slack would refuse, or show wrongly."""
    problems = _unknown(payload, {"attachments", "channel", "text"}, "message")
    if len(payload["attachments"]) != 1:
        problems.append("there is not one attachment")
    for attachment in payload["attachments"]:
        blocks = attachment["blocks"]
        if not 1 <= len(blocks) <= 50:
            problems.append(f"{len(blocks)} blocks")
        problems += [problem for block in blocks for problem in _block_problems(block)]
    json.dumps(payload)
    return problems


def _block_problems(block: dict[str, Any]) -> Iterator[str]:
    kind = block["type"]
    if kind == "header":
        yield from _text_problems(block["text"], "plain_text", 150, kind)
    elif kind == "section" and "text" in block:
        yield from _text_problems(block["text"], "mrkdwn", 3000, kind)
    elif kind == "section":
        yield from _list_problems(block["fields"], 2000, "field")
    elif kind == "context":
        yield from _list_problems(block["elements"], 3000, kind)
    elif kind == "actions":
        for button in block["elements"]:
            yield from _text_problems(button["text"], "plain_text", 75, "button")
            if len(button["url"]) > 3000 or not button["url"].startswith("http"):
                yield "a button has no good url"
    elif kind != "divider":
        yield f"an unknown block {kind}"


def _list_problems(texts: list[dict[str, Any]], longest: int, where: str) -> Iterator[str]:
    if not 1 <= len(texts) <= 10:
        yield f"{where}: {len(texts)} of them"
    for text in texts:
        yield from _text_problems(text, "mrkdwn", longest, where)


def _text_problems(text: dict[str, Any], kind: str, longest: int, where: str) -> Iterator[str]:
    said = text["text"]
    if text["type"] != kind:
        yield f"{where}: {text['type']} instead of {kind}"
    if not 1 <= len(said.encode("utf-16-le")) // 2 <= longest:
        yield f"{where}: {len(said)} characters"
    if kind == "mrkdwn":
        bare = said.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")
        if set(bare) & set("&<>"):
            yield f"{where}: something is not escaped"


CARD_ELEMENTS = {"TextBlock": {"text"}, "FactSet": {"facts"}, "Container": {"items"}}
STYLES = {"default", "emphasis", "good", "attention", "warning", "accent"}


def teams_problems(payload: dict[str, Any]) -> list[str]:
    """What a Teams workflow would refuse."""
    problems = _unknown(payload, {"type", "attachments"}, "message")
    # Counted as Teams does: after it has made UTF-16 of it.
    size = len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-16-le"))
    if size > 28 * 1024:
        problems.append(f"{size} bytes")
    [attachment] = payload["attachments"]
    card = attachment["content"]
    if payload["type"] != "message" or attachment["contentType"] != "application/vnd.microsoft.card.adaptive":
        problems.append("it is no message with a card")
    if card["type"] != "AdaptiveCard" or card["version"] not in ("1.2", "1.3", "1.4", "1.5") or "$schema" not in card:
        problems.append("it is no card that Teams knows")
    problems += [problem for element in card["body"] for problem in _element_problems(element)]
    for action in card.get("actions", []):
        if action["type"] != "Action.OpenUrl" or not action["title"] or not action["url"].startswith("http"):
            problems.append("an action opens nothing")
    return problems


def _element_problems(element: dict[str, Any]) -> Iterator[str]:
    kind = element["type"]
    if kind not in CARD_ELEMENTS or not CARD_ELEMENTS[kind] <= element.keys():
        yield f"a wrong element {kind}"
    if element.get("style", "default") not in STYLES:
        yield f"an unknown style {element['style']}"
    if kind == "TextBlock" and not element["text"]:
        yield "an empty text"
    for fact in element.get("facts", ()):
        if not fact["title"] or not fact["value"] or not isinstance(fact["value"], str):
            yield f"an empty fact {fact}"
    for item in element.get("items", ()):
        yield from _element_problems(item)


def _unknown(payload: dict[str, Any], known: set[str], where: str) -> list[str]:
    return [f"{where}: unknown field {name}" for name in payload.keys() - known]
