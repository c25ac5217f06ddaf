"""Figures in words: counts, shares, durations, times and sizes as a reader wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

NONE = "–"
MAX_DIGITS = 4
MAX_TEXT = 120


def number(value: float | None) -> str:
    """
    >>> number(1234567), number(0.5), number(1234.5678), number(None)
    ('1,234,567', '0.5', '1,234.57', '–')
    """
    if value is None:
        return NONE
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    text = f"{value:,.2f}" if abs(value) >= 1000 else f"{value:,.6g}"
    return _short(text)


def count(value: int, noun: str, plural: str | None = None) -> str:
    """
    >>> count(1, "row"), count(12345, "row")
    ('1 row', '12,345 rows')
    """
    return f"{value:,} {noun if value == 1 else plural or noun + 's'}"


def difference(value: int) -> str:
    """
    >>> difference(1200), difference(-3), difference(0)
    ('+1,200', '−3', '±0')
    """
    return f"{_sign(value)}{abs(value):,}"


def percent(share: float | None) -> str:
    """With as many digits as matter: what is not all is never shown as all.

    >>> percent(0.5), percent(0.12345), percent(0.999987), percent(0.0000001), percent(1.0)
    ('50 %', '12.3 %', '99.9987 %', '< 0.0001 %', '100 %')
    """
    if share is None:
        return NONE
    if share in (0, 1):
        return f"{share:.0%}".replace("%", " %")
    distance = min(abs(share), abs(1 - share)) * 100
    digits = max(1, 1 - math.floor(math.log10(distance)))
    if digits > MAX_DIGITS:
        return "< 0.0001 %" if share < 0.5 else "> 99.9999 %" if share < 1 else _percent(share, MAX_DIGITS)
    return _percent(share, digits)


def apart(share: float, other: float) -> str:
    """A share with the digits that tell it from another one: 94.996 % beside 95 %.

    >>> apart(0.94996, 0.95), apart(0.98, 0.95)
    ('94.996 %', '98 %')
    """
    shown = percent(share)
    for digits in range(2, MAX_DIGITS + 5):
        if share == other or shown != percent(other):
            break
        shown = _percent(share, digits)
    return shown


def change(current: int, previous: int) -> str:
    """By which share a count has grown or shrunk.

    >>> change(110, 100), change(50, 100), change(350, 100), change(5, 0), change(7, 7)
    ('+10 %', '−50 %', '+250 %', 'from none', 'no change')
    """
    if current == previous:
        return "no change"
    if previous == 0:
        return "from none"
    share = (current - previous) / previous
    digits = min(max(0, 1 - math.floor(math.log10(abs(share) * 100))), MAX_DIGITS)
    return _sign(share) + _percent(abs(share), digits)


def duration(seconds: float | None) -> str:
    """
    >>> duration(0.034), duration(12.34), duration(252), duration(7500), duration(100000)
    ('34 ms', '12.3 s', '4 min 12 s', '2 h 5 min', '1 d 4 h')
    """
    if seconds is None:
        return NONE
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{_short(f'{seconds:.1f}')} s"
    for size, small, names in ((86_400, 3_600, ("d", "h")), (3_600, 60, ("h", "min")), (60, 1, ("min", "s"))):
        whole, rest = divmod(round(seconds / small), size // small)
        if whole:
            return f"{whole} {names[0]} {rest} {names[1]}" if rest else f"{whole} {names[0]}"
    return f"{seconds:.0f} s"


def elapsed_s(started_at: datetime | None, ended_at: datetime | None) -> float | None:
    if started_at is None or ended_at is None:
        return None
    return (utc(ended_at) - utc(started_at)).total_seconds()


def utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def instant(at: datetime | None) -> str:
    """
    >>> instant(datetime.fromisoformat("2026-03-01T09:30:05+01:00"))
    '2026-03-01 08:30:05 UTC'
    """
    return NONE if at is None else f"{utc(at):%Y-%m-%d %H:%M:%S} UTC"


def size(count_of_bytes: int | None) -> str:
    """
    >>> size(999), size(1_500_000), size(2 * 10**12)
    ('999 bytes', '1.5 MB', '2 TB')
    """
    if count_of_bytes is None:
        return NONE
    value, units = float(count_of_bytes), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{_short(f'{value:.3g}' if value < 1000 else f'{value:,.0f}')} {units[0]}"


def plain(value: Any) -> str:
    """A value of the data as text; its figures are names as often as counts, and stay as they are."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return cut(", ".join(f"{key}: {plain(each)}" for key, each in value.items()))
    if isinstance(value, list | tuple):
        return cut(", ".join(plain(each) for each in value))
    return cut(str(value))


def cut(text: str, most: int = MAX_TEXT) -> str:
    """
    >>> cut("a long sentence", 8)
    'a long …'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def cut_middle(text: str, most: int) -> str:
    """Names tell most at their ends.

    >>> cut_middle("lake/silver/daily_trips", 13)
    'lake/…y_trips'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) * 7 // 12
    return text[: most - 1 - tail] + "…" + text[-tail:]


def _percent(share: float, digits: int) -> str:
    return f"{_short(f'{share * 100:,.{digits}f}')} %"


def _sign(value: float) -> str:
    return "+" if value > 0 else "−" if value < 0 else "±"


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
