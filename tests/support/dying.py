"""Disks that stop working in the middle of a publication."""

from __future__ import annotations

import json
from typing import Any

from headgate.pipelines.files import LocalFiles


class Recording(LocalFiles):
    """Stops at the first journal entry, with the publication that it is about."""

    def __init__(self) -> None:
        self.entry: dict[str, Any] = {}

    def write_text(self, path: str, text: str) -> None:
        if "/journal/" in path:
            self.entry = json.loads(text)
            raise InterruptedError
        super().write_text(path, text)


class Dying(LocalFiles):
    """Disks that are gone after so many steps: nothing that comes then is done, and no undoing either."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def _step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise ConnectionError("gone")

    def rename(self, path: str, to: str) -> None:
        self._step()
        super().rename(path, to)

    def delete(self, path: str) -> None:
        self._step()
        super().delete(path)

    def write_text(self, path: str, text: str) -> None:
        self._step()
        super().write_text(path, text)
