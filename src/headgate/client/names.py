"""Calls about names: search, alias rules and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.client.http import Call
from headgate.client.paths import Value, query, segment
from headgate.client.shapes import Json, Page, page_of, value_of

_BASE = "/api/v1/aliases"


def search(text: str, *, kinds: Sequence[str] = (), limit: int = 20) -> Call[Json]:
    """Datasets, columns, jobs, runs and pipelines whose names look like the text, best first."""
    wanted: dict[str, Value] = {"q": text, "kind": list(kinds) or None, "limit": limit}
    return Call("GET", "/api/v1/search", value_of(Json), params=query(wanted))


def aliases(*, limit: int = 100, cursor: str | None = None) -> Call[Page[Json]]:
    """Alias rules in the order in which they are tried."""
    return Call("GET", _BASE, page_of(Json), params=query({"limit": limit, "cursor": cursor}))


def preview_alias(pattern: str, canonical: str, *, position: int | None = None) -> Call[Json]:
    """What a rule would do. Nothing is changed."""
    return Call("POST", f"{_BASE}/preview", value_of(Json), body=_rule(pattern, canonical, position), repeatable=True)


def add_alias(pattern: str, canonical: str, *, position: int | None = None) -> Call[Json]:
    """Add a rule and apply it to the datasets that exist."""
    return Call("POST", _BASE, value_of(Json), body=_rule(pattern, canonical, position))


def undo_alias(rule_id: str) -> Call[Json]:
    """Remove a rule and take back what it did."""
    return Call("POST", f"{_BASE}/{segment(rule_id)}/undo", value_of(Json))


def alias_suggestions(*, limit: int = 100) -> Call[Page[Json]]:
    """Rules that would bring tested datasets together with those that jobs write."""
    return Call("GET", f"{_BASE}/suggestions", page_of(Json), params=query({"limit": limit}))


def _rule(pattern: str, canonical: str, position: int | None) -> bytes:
    body: dict[str, Any] = {"pattern": pattern, "canonical": canonical}
    return msgspec.json.encode(body if position is None else body | {"position": position})
