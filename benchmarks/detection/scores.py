"""How often a side was right: of its alarms, of what was planted, and of what was in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.detection.families import Series


@dataclass
class Score:
    """Points by what they were and what was said of them."""

    found: int = 0
    missed: int = 0
    false: int = 0
    quiet: int = 0

    def count(self, series: Series, alarms: Iterable[bool]) -> None:
        for place, alarm in enumerate(alarms):
            if place in series.uncounted:
                continue
            if place in series.wrong:
                self.found += alarm
                self.missed += not alarm
            else:
                self.false += alarm
                self.quiet += not alarm

    def add(self, other: Score) -> None:
        self.found += other.found
        self.missed += other.missed
        self.false += other.false
        self.quiet += other.quiet

    @property
    def precision(self) -> float:
        return _share(self.found, self.found + self.false)

    @property
    def recall(self) -> float:
        return _share(self.found, self.found + self.missed)

    @property
    def f1(self) -> float:
        return _share(2 * self.found, 2 * self.found + self.false + self.missed)

    @property
    def false_per_1000(self) -> float:
        """False alarms among a thousand points that were in order."""
        return 1000 * _share(self.false, self.false + self.quiet)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
