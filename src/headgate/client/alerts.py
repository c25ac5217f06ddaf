"""Calls about alerts: rules, what they would send, what was sent, samples, and how mails go out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of

_RULES = "/api/v1/alert-rules"
_EMAIL = "/api/v1/email-settings"


def alert_rules(*, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Alert rules, the newest first; secrets of their channels are masked."""
    return Call("GET", _RULES, page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def alert_rule(rule_id: str) -> Call[Json]:
    """One alert rule."""
    return Call("GET", _rule(rule_id), value_of(Json))


def add_alert_rule(name: str, channel_type: str, channel_config: Mapping[str, Any], **fields: Any) -> Call[Json]:
    """Add a rule; `fields` are those of the API, such as dataset_name, anomaly_type and severity."""
    body = {"name": name, "channel_type": channel_type, "channel_config": channel_config, **fields}
    return Call("POST", _RULES, value_of(Json), body=msgspec.json.encode(body))


def change_alert_rule(rule_id: str, rule: Mapping[str, Any]) -> Call[Json]:
    """Change a rule to what is given; secrets that are left out, or given as they were shown, stay with the URL."""
    return Call("PUT", _rule(rule_id), value_of(Json), body=msgspec.json.encode(rule), repeatable=True)


def switch_alert_rule(rule_id: str, enabled: bool) -> Call[Json]:
    """Turn a rule on or off."""
    body = msgspec.json.encode({"enabled": enabled})
    return Call("PATCH", _rule(rule_id), value_of(Json), body=body, repeatable=True)


def adjust_alert_rule(rule_id: str, **fields: Any) -> Call[Json]:
    """Change some fields of a rule, such as severity and max_per_hour; the others stay, of channel_config too."""
    return Call("PATCH", _rule(rule_id), value_of(Json), body=msgspec.json.encode(fields), repeatable=True)


def remove_alert_rule(rule_id: str) -> Call[None]:
    """Remove a rule; what it sent stays in the history."""
    return Call("DELETE", _rule(rule_id), lambda _: None)


def preview_alert_rule(rule_id: str, *, days: int = 30) -> Call[Json]:
    """What a rule would have sent in the last days. Nothing is sent."""
    return Call("GET", _rule(rule_id) + "/preview", value_of(Json), params=query({"days": days}))


def alert_history(
    *,
    rule_id: str | None = None,
    rule: str | None = None,
    status: str | None = None,
    channel_type: str | None = None,
    dataset: str | None = None,
    incident_id: str | None = None,
    anomaly_id: str | None = None,
    kind: str | None = None,
    since: datetime | str | None = None,
    hours: int | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Call[Page[Json]]:
    """What was sent, held back or failed, the newest first; `rule` is the id or the name of a rule."""
    wanted: dict[str, Value] = {
        "rule_id": rule_id,
        "rule": rule,
        "status": status,
        "channel_type": channel_type,
        "dataset": dataset,
        "incident_id": incident_id,
        "anomaly_id": anomaly_id,
        "type": kind,
        "since": since,
        "hours": hours,
        "limit": limit,
        "cursor": cursor,
    }
    return Call("GET", "/api/v1/alert-history", page_of(Json), params=query(wanted))


def send_test_alert(
    rule_id: str | None = None,
    *,
    channel_type: str | None = None,
    channel_config: Mapping[str, Any] | None = None,
) -> Call[Json]:
    """Send a sample by the channel of a rule, or by one that is given; what the provider answered."""
    given = {"rule_id": rule_id, "channel_type": channel_type, "channel_config": channel_config}
    body = {name: value for name, value in given.items() if value is not None}
    return Call("POST", "/api/v1/test-alert", value_of(Json), body=msgspec.json.encode(body))


def email_settings() -> Call[Json]:
    """How mails are sent; the password is masked."""
    return Call("GET", _EMAIL, value_of(Json))


def set_email_settings(backend: str, **fields: Any) -> Call[Json]:
    """Set how mails are sent; `fields` are those of the API, such as host, username and password."""
    body = msgspec.json.encode({"backend": backend, **fields})
    return Call("PUT", _EMAIL, value_of(Json), body=body, repeatable=True)


def _rule(rule_id: str) -> str:
    return f"{_RULES}/{segment(rule_id)}"
