"""Texts made to fit: cut to a length, escaped, and without what must not be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

# Shorter ones are in words that are none.
SHORTEST_SECRET = 6


def line(text: str) -> str:
    """In one line, and never empty: channels refuse empty texts."""
    return " ".join(text.split()) or "-"


def size(text: str) -> int:
    """Characters as a JavaScript program counts them."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, longest: int) -> str:
    return text if size(text) <= longest else _upto(text, longest - 1) + "…"


def escaped(text: str) -> str:
    """As Slack wants text that is not its markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escaped_within(text: str, longest: int) -> str:
    """Escaped and cut, never inside an escape."""
    whole = escaped(text) or "-"
    if size(whole) <= longest:
        return whole
    return escaped(_upto(text, longest - 1, lambda letter: size(escaped(letter)))) + "…"


def number(value: float) -> str:
    """As people write it: no exponent, unless it would fill the line.

    >>> number(91410.2), number(12.3456)
    ('91,410', '12.35')
    """
    if not abs(value) < 1e18 or 0 < abs(value) < 1e-9:
        return f"{value:.3g}"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{Decimal(f'{value:.4g}'):f}"


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for each of these.

    >>> masked("login of me/hunter22 was refused", ["hunter22", "me"])
    'login of me/*** was refused'
    """
    for secret in sorted({each for each in secrets if len(each) >= SHORTEST_SECRET}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _upto(text: str, room: int, width: Callable[[str], int] = size) -> str:
    used = 0
    for at, letter in enumerate(text):
        used += width(letter)
        if used > room:
            return text[:at]
    return text
