"""Moments in queries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from headgate.server.times import read_moment

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-01-31t12:00:00z",
        " 2026-01-31T12:00:00Z ",
        "2026-01-31T12:00:00.000000000Z",
        "2026-01-31T14:00:00+02:00",
        "2026-01-31T14:00:00 02:00",
        "2026-01-31T14:00:00+0200",
        "2026-01-31 07:00:00-05:00",
    ],
)
def test_a_time_with_a_zone_is_a_moment(text: str) -> None:
    assert read_moment(text) == NOON
    assert read_moment(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-01-31T12:00:00", "needs a time zone"),
        ("2026-01-31", "needs a time zone"),
        ("2026-01-31 12:00", "needs a time zone"),
        ("1769860800", "ISO 8601"),
        ("noon", "ISO 8601"),
        ("", "ISO 8601"),
        ("2026-02-30T12:00:00Z", "ISO 8601"),
        ("2026-01-31T12:00:00Z" + "0" * 100, "ISO 8601"),
        ("0001-01-01T00:00:00+14:00", "ISO 8601"),
        ("0001-06-01T00:00:00Z", "calendar"),
        ("9999-06-01T00:00:00Z", "calendar"),
        (1769860800, "ISO 8601"),
    ],
)
def test_what_only_looks_like_a_moment_is_refused(text: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_moment(text)
