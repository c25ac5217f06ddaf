"""The message of an alert for each kind of channel, within what the channel accepts.

Slack refuses a message with one text too long and Teams one that is too large as a whole; both would lose the alert.

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

from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

from msgspec import json, to_builtins

from headgate.pipelines.alerts.events import Alert
from headgate.pipelines.alerts.facts import LOOKS, Fact, facts_of, reasons_of, timestamp_of, title_of
from headgate.pipelines.config.alerts import AlertConfig

VERSION = version("headgate")

# https://docs.slack.dev/reference/block-kit/blocks
HEADER_MAX = 150
SECTION_MAX = 3000
FIELD_MAX = 2000
FIELDS_MAX = 10
URL_MAX = 3000
# 28 KB of a message, which Teams counts after it has made UTF-16 of it.
TEAMS_MAX_BYTES = 28_000
_TEAMS_CUTS = (1000, 500, 250, 100, 40)
_REASONS_MAX = 20
_BROADCASTS = {"@here": "<!here>", "@channel": "<!channel>", "@everyone": "<!everyone>"}

Payload = dict[str, Any]


def payload_of(alert: Alert, channel: AlertConfig) -> Payload:
    """What is posted to the channel."""
    return _BUILDERS[channel.type](alert, channel)


def slack(alert: Alert, channel: AlertConfig) -> Payload:
    """Block Kit inside one attachment, whose colour is that of the status."""
    look = LOOKS[alert.status]
    title = _cut(_line(title_of(alert)), HEADER_MAX)
    attachment = {"color": look.color, "fallback": title, "blocks": list(_blocks(alert, title))}
    payload: Payload = {"attachments": [attachment]}
    if channel.metadata.channel:
        payload["channel"] = channel.metadata.channel
    if channel.metadata.mention:
        payload["text"] = _mention(channel.metadata.mention)
    return payload


def teams(alert: Alert, channel: AlertConfig) -> Payload:
    """A message with one Adaptive Card, with texts as long as its size allows."""
    for longest in _TEAMS_CUTS:
        payload = _card(alert, channel, longest)
        if teams_size(payload) <= TEAMS_MAX_BYTES:
            break
    return payload


def webhook(alert: Alert, channel: AlertConfig) -> Payload:
    """The alert itself."""
    fields: Payload = to_builtins(alert, str_keys=True, enc_hook=str)
    return {"source": "headgate", "version": VERSION, **fields, "extra": channel.metadata.extra}


_BUILDERS: dict[str, Callable[[Alert, AlertConfig], Payload]] = {"slack": slack, "teams": teams, "webhook": webhook}


def encoded(payload: Payload) -> bytes:
    """As it goes over the wire; what JSON does not know is sent as text."""
    return json.encode(payload, enc_hook=str)


def teams_size(payload: Payload) -> int:
    return len(encoded(payload).decode().encode("utf-16-le"))


def _blocks(alert: Alert, title: str) -> Iterator[Payload]:
    yield {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": True}}
    yield _fields(_common(alert))
    yield _section(f"*Message:*\n{_escaped_within(alert.message, SECTION_MAX - 20)}")
    if facts := facts_of(alert):
        yield _fields(facts)
    if reasons := reasons_of(alert):
        yield _section(f"*Failure Reasons:*\n{_bullets(reasons)}")
    if alert.story_url and _is_link(alert.story_url):
        yield {"type": "actions", "elements": [_button(alert.story_url)]}
    yield {"type": "divider"}
    yield {"type": "context", "elements": [{"type": "mrkdwn", "text": f"Headgate {VERSION} | {alert.event}"}]}


def _common(alert: Alert) -> list[Fact]:
    facts = [
        Fact("📦", "Project", alert.project),
        Fact("🚦", "Status", alert.status),
        Fact("⏱", "Duration", f"{alert.duration_s:.2f}s"),
        Fact("📅", "Timestamp", timestamp_of(alert)),
    ]
    if alert.owner:
        facts.append(Fact("👤", "Owner", alert.owner))
    if alert.node:
        facts.append(Fact("🧩", "Node", alert.node))
    return facts


def _fields(facts: list[Fact]) -> Payload:
    return {"type": "section", "fields": [_field(fact) for fact in facts[:FIELDS_MAX]]}


def _field(fact: Fact) -> Payload:
    room = FIELD_MAX - len(fact.title) - 8
    value = _escaped_within(fact.value.replace("`", "'") if fact.is_code else fact.value, room)
    return {"type": "mrkdwn", "text": f"*{fact.title}:*\n" + (f"`{value}`" if fact.is_code else value)}


def _section(text: str) -> Payload:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _bullets(reasons: list[str]) -> str:
    """As many whole reasons as there is room for, and how many are left out."""
    lines: list[str] = []
    used = 0
    for number, reason in enumerate(reasons):
        line = "• " + _escaped_within(_line(reason), 600)
        used += _size(line) + 1
        if used > SECTION_MAX - 100:
            lines.append(f"• and {len(reasons) - number} more")
            break
        lines.append(line)
    return "\n".join(lines)


def _button(url: str) -> Payload:
    return {
        "type": "button",
        "text": {"type": "plain_text", "text": "📊 View Story", "emoji": True},
        "url": url,
        "style": "primary",
    }


def _mention(mention: str) -> str:
    """Slack's own form (`<@U123>`) as it is, the three broadcasts translated, all else as text."""
    if mention.startswith(("<@", "<!")) and mention.endswith(">"):
        return mention
    return _BROADCASTS.get(mention, _escaped_within(mention, FIELD_MAX))


def _card(alert: Alert, channel: AlertConfig, longest: int) -> Payload:
    content: Payload = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": _body(alert, channel, longest),
    }
    if alert.story_url and _is_link(alert.story_url):
        content["actions"] = [
            {"type": "Action.OpenUrl", "title": "📊 View Story", "url": alert.story_url, "style": "positive"}
        ]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [attachment]}


def _body(alert: Alert, channel: AlertConfig, longest: int) -> list[Payload]:
    heading = [
        _text(_cut(_line(title_of(alert)), 150), weight="Bolder", size="Large"),
        _text(_plain(f"Project: {alert.project} | Status: {alert.status}", longest), isSubtle=True, spacing="None"),
    ]
    if channel.metadata.mention:
        heading.append(_text(_plain(channel.metadata.mention, longest)))
    facts = [
        {"title": f"{fact.icon} {fact.title}", "value": _plain(fact.value, longest)} for fact in _card_facts(alert)
    ]
    body: list[Payload] = [
        {"type": "Container", "style": LOOKS[alert.status].style, "bleed": True, "items": heading},
        {"type": "Container", "items": [{"type": "FactSet", "facts": facts}]},
    ]
    if reasons := reasons_of(alert):
        body.append(
            {"type": "Container", "items": [_text("Failure Reasons", weight="Bolder"), *_listed(reasons, longest)]}
        )
    body.append(_text(f"Headgate {VERSION} | {alert.event}", isSubtle=True, size="Small"))
    return body


def _card_facts(alert: Alert) -> list[Fact]:
    """With the titles of a card: the heading says project and status already."""
    facts = [
        Fact("⏱", "Duration", f"{alert.duration_s:.2f}s"),
        Fact("📅", "Time", timestamp_of(alert)),
        Fact("📝", "Message", alert.message),
    ]
    if alert.owner:
        facts.append(Fact("👤", "Owner", alert.owner))
    if alert.node:
        facts.append(Fact("🧩", "Node", alert.node))
    return facts + facts_of(alert)


def _listed(reasons: list[str], longest: int) -> list[Payload]:
    shown = [_text("• " + _plain(_line(reason), longest)) for reason in reasons[:_REASONS_MAX]]
    rest = len(reasons) - _REASONS_MAX
    return [*shown, *([_text(f"• and {rest} more")] if rest > 0 else [])]


def _text(text: str, **style: Any) -> Payload:
    return {"type": "TextBlock", "text": text, "wrap": True, **style}


def _plain(text: str, longest: int) -> str:
    """Cards read Markdown: what came from data must not become a link."""
    return _cut(text.replace("](", "]\u200b(") or "-", longest)


def _is_link(url: str) -> bool:
    return url.startswith(("http://", "https://")) and len(url) <= URL_MAX


def _line(text: str) -> str:
    return " ".join(text.split()) or "-"


def _size(text: str) -> int:
    """Characters as a JavaScript program counts them."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _cut(text: str, longest: int) -> str:
    return text if _size(text) <= longest else _upto(text, longest - 1) + "…"


def _upto(text: str, room: int, width: Callable[[str], int] = _size) -> str:
    used = 0
    for at, letter in enumerate(text):
        used += width(letter)
        if used > room:
            return text[:at]
    return text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escaped_within(text: str, longest: int) -> str:
    """Escaped and cut, never inside an escape."""
    whole = _escaped(text) or "-"
    if _size(whole) <= longest:
        return whole
    return _escaped(_upto(text, longest - 1, lambda letter: _size(_escaped(letter)))) + "…"
