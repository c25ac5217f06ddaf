"""Slack, Teams and webhooks: one request, and what its answer means."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from headgate.messages import slack, teams, webhook
from headgate.messages.message import VERSION
from headgate.messages.text import masked
from headgate.server.alerts.channels.configs import parts_of
from headgate.server.alerts.wording import Letter
from headgate.server.outbound import Answer, Outbound, Refused, Unreachable

_MAX_QUOTED = 500
_AGAIN = (408, 425, 429)


class Undelivered(Exception):
    """An alert that did not arrive; `may_repeat` says whether it may the next time."""

    def __init__(
        self,
        message: str,
        *,
        may_repeat: bool = False,
        retry_after_s: float = 0,
        response: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.may_repeat = may_repeat
        self.retry_after_s = retry_after_s
        self.response = response


def payload_of(channel_type: str, config: Mapping[str, Any], letter: Letter, delivery_id: UUID) -> dict[str, Any]:
    """What is posted."""
    if channel_type == "SLACK":
        return slack.slack(letter.message, channel=config.get("channel"), mention=config.get("mention"))
    if channel_type == "TEAMS":
        return teams.teams(letter.message, mention=config.get("mention"))
    return webhook.webhook(letter.fields(delivery_id), config.get("extra") or {})


_TAKES: Mapping[str, Callable[[str], bool]] = {
    "SLACK": slack.is_taken,
    "TEAMS": teams.is_taken,
    "WEBHOOK": lambda body: True,
}


async def post(
    outbound: Outbound, channel_type: str, config: Mapping[str, Any], letter: Letter, delivery_id: UUID
) -> dict[str, Any]:
    """Post the alert; what the channel answered, or Undelivered."""
    content = webhook.encoded(payload_of(channel_type, config, letter, delivery_id))
    headers = _headers(channel_type, config, content, delivery_id)
    try:
        answer = await outbound.post(config["webhook_url"], content, headers)
    except Refused as error:
        raise Undelivered(f"{error}; {error.hint}") from None
    except Unreachable as error:
        raise Undelivered(str(error), may_repeat=True) from None
    return _judged(channel_type, config, answer)


def _headers(channel_type: str, config: Mapping[str, Any], content: bytes, delivery_id: UUID) -> dict[str, str]:
    # Teams makes the message twice as large if the encoding is not said.
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"headgate/{VERSION}",
        "Accept-Encoding": "identity",
        webhook.DELIVERY_HEADER: str(delivery_id),
    }
    if channel_type == "WEBHOOK":
        headers |= config.get("headers") or {}
        if secret := config.get("secret"):
            headers[webhook.SIGNATURE_HEADER] = webhook.signature(secret, content, int(time.time()))
    return headers


def _judged(channel_type: str, config: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    body = _quoted(config, answer.body)
    response = {"status_code": answer.status_code, "body": body}
    said = f": {body}" if body else ""
    code = answer.status_code
    if 300 <= code < 400:
        raise Undelivered(
            f"answered {code}: redirects are not followed, use the URL that it leads to", response=response
        )
    if not 200 <= code < 300:
        again = code >= 500 or code in _AGAIN
        pause_s = answer.retry_after_s or 0
        raise Undelivered(f"answered {code}{said}", may_repeat=again, retry_after_s=pause_s, response=response)
    if not _TAKES[channel_type](answer.body):
        raise Undelivered(f"answered {code}, but did not take the message{said}", response=response)
    return response


def _quoted(config: Mapping[str, Any], body: str) -> str:
    """What the channel said in one line, without what it repeats of our secrets."""
    line = masked(" ".join(body.replace("\0", " ").split()), parts_of(config))
    return line if len(line) <= _MAX_QUOTED else line[: _MAX_QUOTED - 1] + "…"
