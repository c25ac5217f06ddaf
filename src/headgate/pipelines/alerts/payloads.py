"""The message of an alert for each kind of channel.

A webhook gets one JSON object. Fields may be added to it; none changes its name or meaning:

    source, version      "headgate" and the version that sends
    event, status        on_start ... on_freshness_fail; STARTED, SUCCESS, FAILED, GATE_BLOCKED, QUARANTINED, WARNING
    project, pipeline    as the file names them
    node                 null when the alert speaks of the whole pipeline
    run_id               of the node if there is one, else of the run
    message              one sentence
    at, duration_s       RFC 3339 with its zone; seconds
    owner, story_url     null when there is none
    details              what is particular to the event: gate_details, quarantine_details, ...
    extra                `metadata.extra` of the channel
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import to_builtins

from headgate.messages import slack as _slack
from headgate.messages import teams as _teams
from headgate.messages import webhook as _webhook
from headgate.messages.message import VERSION, Button, Fact, Message
from headgate.messages.webhook import encoded
from headgate.pipelines.alerts.events import Alert
from headgate.pipelines.alerts.facts import LOOKS, facts_of, reasons_of, title_of
from headgate.pipelines.config.alerts import AlertConfig

__all__ = ["VERSION", "encoded", "fields_of", "message_of", "payload_of", "slack", "teams", "webhook"]

Payload = dict[str, Any]


def payload_of(alert: Alert, channel: AlertConfig) -> Payload:
    """What is posted to the channel."""
    return _BUILDERS[channel.type](alert, channel)


def message_of(alert: Alert) -> Message:
    """What the alert says, whatever the channel."""
    return Message(
        title=title_of(alert),
        look=LOOKS[alert.status],
        sentence=alert.message,
        at=alert.at,
        kind=alert.event,
        heading=(Fact("📦", "Project", alert.project), Fact("🚦", "Status", alert.status)),
        duration_s=alert.duration_s,
        owner=alert.owner,
        place=(Fact("🧩", "Node", alert.node),) if alert.node else (),
        facts=tuple(facts_of(alert)),
        reasons=tuple(reasons_of(alert)),
        buttons=(Button("📊 View Story", alert.story_url),) if alert.story_url else (),
    )


def fields_of(alert: Alert) -> Payload:
    """The alert itself, as a webhook gets it."""
    fields: Payload = to_builtins(alert, str_keys=True, enc_hook=str)
    return fields


def slack(alert: Alert, channel: AlertConfig) -> Payload:
    return _slack.slack(message_of(alert), channel=channel.metadata.channel, mention=channel.metadata.mention)


def teams(alert: Alert, channel: AlertConfig) -> Payload:
    return _teams.teams(message_of(alert), mention=channel.metadata.mention)


def webhook(alert: Alert, channel: AlertConfig) -> Payload:
    return _webhook.webhook(fields_of(alert), channel.metadata.extra)


_BUILDERS: dict[str, Callable[[Alert, AlertConfig], Payload]] = {"slack": slack, "teams": teams, "webhook": webhook}
