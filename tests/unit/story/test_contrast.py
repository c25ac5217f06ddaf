"""Whether the colours of a story can be read, by day and by night (WCAG AA)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

CSS = files("headgate.story").joinpath("templates", "story.css").read_text()
LEAST = 4.5
TEXTS = ("text", "quiet", "link", "published", "stopped", "failed", "skipped", "quarantined")
GROUNDS = ("ground", "card", "soft", "tint-stopped", "tint-failed", "tint-published")


def palettes() -> dict[str, dict[str, str]]:
    light, dark = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    return {name: dict(re.findall(r"--([\w-]+): (#\w{6})", text)) for name, text in (("light", light), ("dark", dark))}


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_text_can_be_read_on_every_ground(mode: str) -> None:
    colours = palettes()[mode]
    weak = {
        (text, ground): round(found, 2)
        for text in TEXTS
        for ground in GROUNDS
        if (found := contrast(colours[text], colours[ground])) < LEAST
    }

    assert weak == {}


def test_night_has_every_colour_of_day() -> None:
    assert palettes()["light"].keys() == palettes()["dark"].keys()
