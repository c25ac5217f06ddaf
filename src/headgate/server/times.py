"""Moments in queries: ISO 8601 with a time zone, and nothing that merely looks like one."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from pydantic import BeforeValidator

_MAX_LENGTH = 64
# An unescaped + arrives as a space.
_LOST_PLUS = re.compile(r" (?=\d\d:?\d\d$)")


def read_moment(value: object) -> datetime:
    """A moment in UTC; ValueError says what is wrong with the text."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or len(value) > _MAX_LENGTH:
        raise ValueError("must be a time in ISO 8601, such as 2026-01-31T12:00:00Z")
    try:
        at = datetime.fromisoformat(_LOST_PLUS.sub("+", value.strip().upper()))
        moment = None if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a time in ISO 8601, such as 2026-01-31T12:00:00Z") from None
    if moment is None:
        raise ValueError("needs a time zone, such as a trailing Z")
    if not 1 < moment.year < 9999:
        raise ValueError("is out of the calendar's range")
    return moment


Moment = Annotated[datetime, BeforeValidator(read_moment)]
