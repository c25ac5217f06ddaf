"""Reads text as an id; what is none is None, since it may still be a name."""

from __future__ import annotations

from uuid import UUID

_AS_WRITTEN = 36


def as_id(text: str) -> UUID | None:
    """An id as answers write it, with its hyphens: 32 digits without them may be what somebody calls a table."""
    return as_any_id(text) if len(text) == _AS_WRITTEN else None


def as_any_id(text: str) -> UUID | None:
    """An id in any spelling, where a name that looks like one does no harm."""
    try:
        return UUID(text)
    except ValueError:
        return None
