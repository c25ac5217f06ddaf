"""What there is to say, before any channel has a word in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import NamedTuple

VERSION = version("headgate")


class Look(NamedTuple):
    """How a message looks: its icon, its colour, and the style of a card."""

    icon: str
    color: str
    style: str


GOOD = Look("✅", "#36a64f", "good")
NEWS = Look("🚀", "#1e90ff", "accent")
BAD = Look("❌", "#dc3545", "attention")
BLOCKED = Look("🚫", "#ff6b35", "attention")
SET_APART = Look("🔒", "#ffc107", "warning")
WARNING = Look("⚠️", "#ffc107", "warning")
CRITICAL = Look("🔴", "#dc3545", "attention")
INFO = Look("ℹ️", "#1e90ff", "accent")


class Fact(NamedTuple):
    """One fact; `is_code` is for paths and the like."""

    icon: str
    title: str
    value: str
    is_code: bool = False


class Button(NamedTuple):
    """A way to more. Channels leave out what they could not open."""

    text: str
    url: str


@dataclass(frozen=True)
class Message:
    """All that is said; `heading` says what it is about, `facts` what is particular to it, `kind` names the event."""

    title: str
    look: Look
    sentence: str
    at: datetime
    kind: str
    heading: tuple[Fact, ...] = ()
    duration_s: float | None = None
    owner: str | None = None
    place: tuple[Fact, ...] = ()
    facts: tuple[Fact, ...] = ()
    reasons: tuple[str, ...] = ()
    reasons_title: str = "Failure Reasons"
    buttons: tuple[Button, ...] = ()

    @property
    def timestamp(self) -> str:
        return self.at.isoformat(timespec="seconds")

    @property
    def footer(self) -> str:
        return f"Headgate {VERSION} | {self.kind}"

    @property
    def whose(self) -> tuple[Fact, ...]:
        """Who looks after it, and where in it."""
        return (*((Fact("👤", "Owner", self.owner),) if self.owner else ()), *self.place)

    @property
    def took(self) -> tuple[Fact, ...]:
        return () if self.duration_s is None else (Fact("⏱", "Duration", f"{self.duration_s:.2f}s"),)


def links(buttons: Sequence[Button], longest: int) -> list[Button]:
    """The buttons that lead somewhere."""
    return [each for each in buttons if each.url.startswith(("http://", "https://")) and len(each.url) <= longest]
