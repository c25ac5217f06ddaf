"""A message for Teams: one Adaptive Card, with texts as long as its size allows.

Teams refuses a message that is too large as a whole, which would lose it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headgate.messages.message import Fact, Message, links
from headgate.messages.text import cut, line
from headgate.messages.webhook import encoded

URL_MAX = 3000
# 28 KB of a message, which Teams counts after it has made UTF-16 of it.
MAX_BYTES = 28_000
# How long texts may be, and how many reasons and buttons there are, until it fits.
_CUTS = ((1000, 20, 6), (500, 20, 6), (250, 20, 6), (100, 20, 6), (40, 20, 3), (40, 5, 1), (20, 0, 0))
_TITLE_MAX = 150

Payload = dict[str, Any]


def teams(message: Message, *, mention: str | None = None) -> Payload:
    """What is posted to a workflow or a connector."""
    for longest, reasons, buttons in _CUTS:
        fitting = replace(message, buttons=message.buttons[:buttons])
        payload = _posted(fitting, mention, longest, reasons)
        if size_of(payload) <= MAX_BYTES:
            break
    return payload


def size_of(payload: Payload) -> int:
    return len(encoded(payload).decode().encode("utf-16-le"))


def is_taken(body: str) -> bool:
    """A connector answers 200 and tells in the text that Teams refused the message."""
    return "HTTP error" not in body and "delivery failed" not in body


def _posted(message: Message, mention: str | None, longest: int, most: int) -> Payload:
    content: Payload = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": _body(message, mention, longest, most),
    }
    if buttons := links(message.buttons, URL_MAX):
        content["actions"] = [_action(each.text, each.url, at) for at, each in enumerate(buttons)]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": content}
    return {"type": "message", "attachments": [attachment]}


def _action(title: str, url: str, at: int) -> Payload:
    shown = {"type": "Action.OpenUrl", "title": cut(line(title), 75), "url": url}
    return shown | {"style": "positive"} if at == 0 else shown


def _body(message: Message, mention: str | None, longest: int, most: int) -> list[Payload]:
    about = " | ".join(f"{fact.title}: {fact.value}" for fact in message.heading)
    heading = [
        _text(_plain(line(message.title), _TITLE_MAX), weight="Bolder", size="Large"),
        _text(_plain(about, longest), isSubtle=True, spacing="None"),
    ]
    if mention:
        heading.append(_text(_plain(mention, longest)))
    facts = [{"title": f"{fact.icon} {fact.title}", "value": _plain(fact.value, longest)} for fact in _facts(message)]
    body: list[Payload] = [
        {"type": "Container", "style": message.look.style, "bleed": True, "items": heading},
        {"type": "Container", "items": [{"type": "FactSet", "facts": facts}]},
    ]
    if message.reasons:
        items = [_text(message.reasons_title, weight="Bolder"), *_listed(message.reasons, longest, most)]
        body.append({"type": "Container", "items": items})
    body.append(_text(message.footer, isSubtle=True, size="Small"))
    return body


def _facts(message: Message) -> list[Fact]:
    """With the titles of a card; its heading says already what it is about."""
    said = (Fact("📅", "Time", message.timestamp), Fact("📝", "Message", message.sentence))
    return [*message.took, *said, *message.whose, *message.facts]


def _listed(reasons: Sequence[str], longest: int, most: int) -> list[Payload]:
    shown = [_text("• " + _plain(line(reason), longest)) for reason in reasons[:most]]
    rest = len(reasons) - most
    return [*shown, *([_text(f"• and {rest} more")] if rest > 0 else [])]


def _text(text: str, **style: Any) -> Payload:
    return {"type": "TextBlock", "text": text, "wrap": True, **style}


def _plain(text: str, longest: int) -> str:
    """Cards read Markdown: what came from data must not become a link."""
    return cut(text.replace("](", "]\u200b(") or "-", longest)
