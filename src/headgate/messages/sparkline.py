"""A series at a glance, as bars that every mail client shows.

Gmail removes inline SVG and images in data: URIs, Outlook on Windows draws with Word's engine, and pictures from a
server are blocked until the reader allows them and tell the server who read it. Cells of a table with a background
colour are shown by all of them; the text part has the same in block characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST = 30
HEIGHT_PX = 36
_BLOCKS = "▁▂▃▄▅▆▇█"


class Bar(NamedTuple):
    """One point: how high, and whether it is the one that the message is about."""

    height_px: int
    is_last: bool


def bars(values: Sequence[float]) -> list[Bar]:
    """A bar for each of the last points, the lowest never without height."""
    shown = values[-MOST:]
    return [Bar(max(2, round(HEIGHT_PX * share)), at == len(shown) - 1) for at, share in enumerate(_shares(shown))]


def blocks(values: Sequence[float]) -> str:
    """The same in one line of text.

    >>> blocks([1, 2, 3, 8])
    '▂▃▄█'
    """
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(share * len(_BLOCKS)))] for share in _shares(values[-MOST:]))


def _shares(values: Sequence[float]) -> list[float]:
    """Between zero and one. From zero where the values are far from each other, else from the lowest."""
    if not values:
        return []
    low, high = min(values), max(values)
    floor = low if low < 0 or (low > 0 and low > high * 0.6) else 0.0
    span = high - floor
    return [(value - floor) / span if span > 0 else 0.5 for value in values]
