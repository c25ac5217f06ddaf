"""Paths and parameters of requests: a name is one segment, whatever characters it has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote

Value = str | int | bool | datetime | list[str] | None


def segment(text: object) -> str:
    """One segment of a path; a slash inside it does not separate."""
    # A client or proxy would take a lone dot or two for a step in the path.
    quoted = quote(str(text), safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def query(values: Mapping[str, Value]) -> dict[str, str | list[str]]:
    """Query parameters; what is None is left out."""
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Value) -> str | list[str]:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    return value if isinstance(value, list) else str(value)
