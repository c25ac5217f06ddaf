"""The messages of alerts, held against what each channel accepts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.pipelines.alerts.events import Alert, AlertStatus
from headgate.pipelines.alerts.payloads import VERSION, encoded, payload_of, slack, teams, webhook
from headgate.pipelines.config.alerts import AlertEvent
from tests.support.channels import STORY, a_channel, an_alert, every_alert, slack_problems, teams_problems

PROBLEMS = {"slack": slack_problems, "teams": teams_problems, "webhook": lambda payload: []}
COLORS = {
    "SUCCESS": "#36a64f",
    "STARTED": "#1e90ff",
    "FAILED": "#dc3545",
    "GATE_BLOCKED": "#ff6b35",
    "QUARANTINED": "#ffc107",
    "WARNING": "#ffc107",
}
STYLES = {
    "SUCCESS": "good",
    "STARTED": "accent",
    "FAILED": "attention",
    "GATE_BLOCKED": "attention",
    "QUARANTINED": "warning",
    "WARNING": "warning",
}


def blocks_of(alert: Alert, **metadata: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = slack(alert, a_channel(metadata=metadata))["attachments"][0]["blocks"]
    return found


def fields_of(alert: Alert) -> dict[str, str]:
    pairs = [field["text"].split(":*\n", 1) for block in blocks_of(alert) for field in block.get("fields", ())]
    return {title.removeprefix("*"): value for title, value in pairs}


def card_of(alert: Alert, **metadata: Any) -> dict[str, Any]:
    card: dict[str, Any] = teams(alert, a_channel("teams", metadata=metadata))["attachments"][0]["content"]
    return card


def facts_of_card(alert: Alert) -> dict[str, str]:
    sets = [item for part in card_of(alert)["body"] for item in part.get("items", ()) if item["type"] == "FactSet"]
    return {fact["title"]: fact["value"] for each in sets for fact in each["facts"]}


def monster(event: AlertEvent, letter: str) -> Alert:
    """An alert in which every text is far too long."""
    long = letter * 40_000
    names = [f"{letter * 300}{number}" for number in range(200)]
    details = {
        "gate_details": {
            "pass_rate": 0.5,
            "required_rate": 0.9,
            "failed_rows": 10**12,
            "failure_reasons": [long] * 300,
        },
        "quarantine_details": {"rows_quarantined": 10**12, "quarantine_path": long, "failed_tests": names},
        "validation_details": {"failed_tests": names, "rows_in": 1},
        "drift_details": {"columns_added": names, "columns_removed": names, "columns_changed": names, "policy": long},
        "freshness_details": {"column": long, "observed": long, "limit": long},
        "failure_details": {"failed_nodes": names},
    }
    texts = {"message": long, "owner": long, "node": long, "pipeline": long, "project": long}
    return an_alert(event, details=details, story_url=STORY, **texts)


@pytest.mark.parametrize("kind", ["slack", "teams", "webhook"])
@pytest.mark.parametrize("event", list(AlertEvent))
@pytest.mark.parametrize("story_url", [None, STORY])
def test_every_event_is_accepted_by_every_channel(kind: str, event: AlertEvent, story_url: str | None) -> None:
    payload = payload_of(every_alert(story_url)[event], a_channel(kind))
    assert PROBLEMS[kind](json.loads(encoded(payload))) == []


@pytest.mark.parametrize("kind", ["slack", "teams"])
@pytest.mark.parametrize("event", list(AlertEvent))
@pytest.mark.parametrize("letter", ["a", "&", "é", "漢", "😀", '"', "\n"], ids=ascii)
def test_texts_without_end_stay_within_the_limits(kind: str, event: AlertEvent, letter: str) -> None:
    payload = payload_of(monster(event, letter), a_channel(kind, metadata={"mention": letter * 5000}))
    assert PROBLEMS[kind](json.loads(encoded(payload))) == []


@pytest.mark.parametrize("kind", ["slack", "teams"])
@pytest.mark.parametrize("event", list(AlertEvent))
def test_an_alert_that_says_nothing_has_no_empty_texts(kind: str, event: AlertEvent) -> None:
    bare = an_alert(event, message="", project="", pipeline="")
    assert PROBLEMS[kind](json.loads(encoded(payload_of(bare, a_channel(kind))))) == []


@pytest.mark.parametrize("status", list(AlertStatus))
def test_a_status_has_its_colour_and_style(status: AlertStatus) -> None:
    alert = an_alert(status=status)
    assert slack(alert, a_channel())["attachments"][0]["color"] == COLORS[status]
    assert card_of(alert)["body"][0]["style"] == STYLES[status]


def test_a_slack_message_has_the_parts_in_order() -> None:
    alert = every_alert()[AlertEvent.on_gate_block]
    kinds = [block["type"] for block in blocks_of(alert)]
    assert kinds == ["header", "section", "section", "section", "section", "actions", "divider", "context"]


def test_the_header_names_headgate_the_pipeline_and_the_status() -> None:
    header = blocks_of(every_alert()[AlertEvent.on_gate_block])[0]
    assert header["text"]["text"] == "🚫 HEADGATE: silver - GATE_BLOCKED"


def test_the_fields_say_whose_what_when_and_how_long() -> None:
    found = fields_of(an_alert(duration_s=12.345, owner="data team"))
    assert found == {
        "Project": "shop",
        "Status": "FAILED",
        "Duration": "12.35s",
        "Timestamp": "2026-03-01T12:00:00+00:00",
        "Owner": "data team",
    }


def test_a_blocked_gate_shows_rates_and_reasons_as_a_list() -> None:
    alert = every_alert()[AlertEvent.on_gate_block]
    found = fields_of(alert)
    assert (found["Pass Rate"], found["Required"], found["Rows Failed"]) == ("90.0%", "95.0%", "10")
    texts = [block["text"]["text"] for block in blocks_of(alert) if block["type"] == "section" and "text" in block]
    assert texts[-1] == (
        "*Failure Reasons:*\n• 90 % of the rows pass, 95 % are required\n• 100 rows are fewer than 500"
    )


def test_a_rate_just_below_what_is_required_does_not_look_the_same() -> None:
    details = {"gate_details": {"pass_rate": 0.9496, "required_rate": 0.95, "failed_rows": 1}}
    found = fields_of(an_alert(AlertEvent.on_gate_block, details=details))
    assert (found["Pass Rate"], found["Required"]) == ("94.96%", "95.0%")


def test_quarantined_rows_show_their_number_place_and_tests() -> None:
    found = fields_of(every_alert()[AlertEvent.on_quarantine])
    assert found["Rows Quarantined"] == "1,234"
    assert found["Quarantine Table"] == "`/lake/silver/customers_bad/_source_batch_id=n1`"
    assert found["Failed Tests"] == "not_null, email"


def test_changed_columns_are_listed() -> None:
    found = fields_of(every_alert()[AlertEvent.on_schema_drift])
    assert (found["Columns Added"], found["Columns Removed"]) == ("loyalty_tier", "legacy_id")


def test_the_footer_says_version_and_event() -> None:
    footer = blocks_of(an_alert())[-1]["elements"][0]["text"]
    assert footer == f"Headgate {VERSION} | on_failure"


def test_the_button_leads_to_the_story() -> None:
    [actions] = [block for block in blocks_of(an_alert(story_url=STORY)) if block["type"] == "actions"]
    assert actions["elements"][0]["url"] == STORY
    assert actions["elements"][0]["text"]["text"].endswith("View Story")


@pytest.mark.parametrize("url", [None, "/tmp/story.html", "https://x/" + "a" * 3000])
def test_a_story_that_no_button_can_lead_to_gets_none(url: str | None) -> None:
    alert = an_alert(story_url=url)
    assert all(block["type"] != "actions" for block in blocks_of(alert))
    assert "actions" not in card_of(alert)


def test_slack_gets_the_channel_of_the_metadata() -> None:
    assert slack(an_alert(), a_channel(metadata={"channel": "#data-alerts"}))["channel"] == "#data-alerts"
    assert "channel" not in slack(an_alert(), a_channel())


@pytest.mark.parametrize(
    ("mention", "text"), [("@here", "<!here>"), ("<@U123>", "<@U123>"), ("a <b> & c", "a &lt;b&gt; &amp; c")]
)
def test_a_mention_is_written_as_slack_reads_it(mention: str, text: str) -> None:
    assert slack(an_alert(), a_channel(metadata={"mention": mention}))["text"] == text


def test_what_came_from_data_cannot_speak_slacks_language() -> None:
    alert = an_alert(message="<!channel> a && b <https://evil|click>", owner="<!here>")
    text = json.dumps(blocks_of(alert))
    assert "<!" not in text
    assert "&lt;!channel&gt; a &amp;&amp; b" in text


def test_a_cut_never_leaves_half_an_escape() -> None:
    for extra in range(8):
        message = blocks_of(an_alert(message="x" * extra + "&" * 5000))[2]["text"]["text"]
        assert message.endswith("&amp;…")


def test_reasons_that_do_not_fit_are_counted() -> None:
    details = {"gate_details": {"failure_reasons": [f"reason {number} " + "x" * 300 for number in range(100)]}}
    text = blocks_of(an_alert(AlertEvent.on_gate_block, details=details))[4]["text"]["text"]
    shown = text.count("• reason")
    assert 1 < shown < 20
    assert text.endswith(f"• and {100 - shown} more")


def test_a_card_has_the_titles_of_its_event() -> None:
    gate = facts_of_card(every_alert()[AlertEvent.on_gate_block])
    assert {"⏱ Duration", "📅 Time", "📝 Message", "📊 Pass Rate", "🎯 Required", "❌ Rows Failed"} <= gate.keys()
    assert gate["📊 Pass Rate"] == "90.0%"
    rows = facts_of_card(every_alert()[AlertEvent.on_quarantine])
    assert rows["🔒 Rows Quarantined"] == "1,234"
    assert rows["❌ Failed Tests"] == "not_null, email"


def test_a_card_names_headgate_and_leads_to_the_story() -> None:
    card = card_of(every_alert()[AlertEvent.on_gate_block])
    assert card["body"][0]["items"][0]["text"] == "🚫 HEADGATE: silver - GATE_BLOCKED"
    [action] = card["actions"]
    assert (action["type"], action["url"]) == ("Action.OpenUrl", STORY)


def test_a_card_lists_the_reasons() -> None:
    text = json.dumps(card_of(every_alert()[AlertEvent.on_gate_block]), ensure_ascii=False)
    assert "• 90 % of the rows pass, 95 % are required" in text


def test_what_came_from_data_becomes_no_link_in_a_card() -> None:
    assert "](" not in json.dumps(card_of(an_alert(message="[click](https://evil)")), ensure_ascii=False)


def test_a_card_of_usual_size_is_not_cut() -> None:
    assert facts_of_card(an_alert(message="m" * 900))["📝 Message"] == "m" * 900


def test_a_webhook_gets_every_field_of_the_alert() -> None:
    alert = every_alert()[AlertEvent.on_quarantine]
    found = json.loads(encoded(webhook(alert, a_channel("webhook", metadata={"extra": {"team": "a"}}))))
    assert set(found) == {*Alert.__struct_fields__, "source", "version", "extra"}
    assert (found["event"], found["status"], found["node"]) == ("on_quarantine", "QUARANTINED", "customers")
    assert found["at"] == "2026-03-01T12:00:12.500000Z"
    assert found["details"]["quarantine_details"]["rows_quarantined"] == 1234
    assert found["extra"] == {"team": "a"}


def test_values_that_json_does_not_know_are_sent_as_text() -> None:
    alert = an_alert(details={"x": {"value": complex(1, 2)}})
    assert json.loads(encoded(webhook(alert, a_channel("webhook"))))["details"]["x"]["value"] == "(1+2j)"


def test_no_message_holds_the_url_of_its_channel() -> None:
    for kind in PROBLEMS:
        assert b"s3cr3tt0k3n" not in encoded(payload_of(an_alert(), a_channel(kind)))
