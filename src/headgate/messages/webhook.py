"""A message for programs: one JSON object, and a signature that says who sent it and when."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from msgspec import json

from headgate.messages.message import VERSION

SIGNATURE_HEADER = "X-Headgate-Signature"
DELIVERY_HEADER = "X-Headgate-Delivery"

Payload = dict[str, Any]


def webhook(fields: Mapping[str, Any], extra: Mapping[str, Any]) -> Payload:
    """The fields of an alert, who sends it, and what the channel wants sent along."""
    return {"source": "headgate", "version": VERSION, **fields, "extra": extra}


def encoded(payload: Mapping[str, Any]) -> bytes:
    """As it goes over the wire; what JSON does not know is sent as text."""
    return json.encode(payload, enc_hook=str)


def signature(secret: str, body: bytes, at: int) -> str:
    """`t=<seconds>,v1=<hex>`: HMAC-SHA256 of `<seconds>.<body>`, so that an old message cannot be sent again as new.

    >>> signature("s3cret", b"{}", 1700000000)[:18]
    't=1700000000,v1=97'
    """
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, "sha256").hexdigest()
    return f"t={at},v1={signed}"
