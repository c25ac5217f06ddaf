"""A message for Slack: Block Kit inside one attachment, whose colour is that of the message.

Slack refuses a message with one text too long, which would lose it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from headgate.messages.message import Button, Fact, Message, links
from headgate.messages.text import cut, escaped_within, line, size

# https://docs.slack.dev/reference/block-kit/blocks
HEADER_MAX = 150
SECTION_MAX = 3000
FIELD_MAX = 2000
FIELDS_MAX = 10
URL_MAX = 3000
BUTTON_MAX = 75
BUTTONS_MAX = 5
_BROADCASTS = {"@here": "<!here>", "@channel": "<!channel>", "@everyone": "<!everyone>"}

Payload = dict[str, Any]


def slack(message: Message, *, channel: str | None = None, mention: str | None = None) -> Payload:
    """What is posted; `channel` is honoured by webhooks that may choose one, `mention` calls people."""
    title = cut(line(message.title), HEADER_MAX)
    attachment = {"color": message.look.color, "fallback": title, "blocks": list(_blocks(message, title))}
    payload: Payload = {"attachments": [attachment]}
    if channel:
        payload["channel"] = channel
    if mention:
        payload["text"] = _mention(mention)
    return payload


def is_taken(body: str) -> bool:
    """Slack says ok; those that speak its language say so in JSON."""
    plain = "".join(body.split()).lower()
    return plain == "ok" or plain.startswith(('{"ok":true', '{"success":true'))


def _blocks(message: Message, title: str) -> Iterator[Payload]:
    yield {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": True}}
    yield _fields(_common(message))
    yield _section(f"*Message:*\n{escaped_within(message.sentence, SECTION_MAX - 20)}")
    if message.facts:
        yield _fields(message.facts)
    if message.reasons:
        yield _section(f"*{message.reasons_title}:*\n{_bullets(message.reasons)}")
    if buttons := links(message.buttons, URL_MAX)[:BUTTONS_MAX]:
        yield {"type": "actions", "elements": [_button(each, at) for at, each in enumerate(buttons)]}
    yield {"type": "divider"}
    yield {"type": "context", "elements": [{"type": "mrkdwn", "text": message.footer}]}


def _common(message: Message) -> list[Fact]:
    return [*message.heading, *message.took, Fact("📅", "Timestamp", message.timestamp), *message.whose]


def _fields(facts: Sequence[Fact]) -> Payload:
    return {"type": "section", "fields": [_field(fact) for fact in facts[:FIELDS_MAX]]}


def _field(fact: Fact) -> Payload:
    room = FIELD_MAX - len(fact.title) - 8
    value = escaped_within(fact.value.replace("`", "'") if fact.is_code else fact.value, room)
    return {"type": "mrkdwn", "text": f"*{fact.title}:*\n" + (f"`{value}`" if fact.is_code else value)}


def _section(text: str) -> Payload:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _bullets(reasons: Sequence[str]) -> str:
    """As many whole reasons as there is room for, and how many are left out."""
    lines: list[str] = []
    used = 0
    for number, reason in enumerate(reasons):
        bullet = "• " + escaped_within(line(reason), 600)
        used += size(bullet) + 1
        if used > SECTION_MAX - 100:
            lines.append(f"• and {len(reasons) - number} more")
            break
        lines.append(bullet)
    return "\n".join(lines)


def _button(button: Button, at: int) -> Payload:
    text = {"type": "plain_text", "text": cut(line(button.text), BUTTON_MAX), "emoji": True}
    return {"type": "button", "text": text, "url": button.url, **({"style": "primary"} if at == 0 else {})}


def _mention(mention: str) -> str:
    """Slack's own form (`<@U123>`) as it is, the three broadcasts translated, all else as text."""
    if mention.startswith(("<@", "<!")) and mention.endswith(">"):
        return mention
    return _BROADCASTS.get(mention, escaped_within(mention, FIELD_MAX))
