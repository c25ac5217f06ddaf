"""Folders in which rows wait until it is decided what becomes of them.

The name of each says whose it is. One whose process is gone was left by a death, and a later run takes it away; what a
live process is about is left alone, also when both are tries of the same run.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from headgate.pipelines.files import Files
from headgate.pipelines.journal import Owner, owner_in

# Of another machine only the clock tells, and nobody tells how long a batch may take: long enough for any.
OTHER_HOST_AGE_S = 7 * 86_400.0


@dataclass
class Staging:
    """The staging folders of one run below a state folder; `notes` are what could not be tidied up."""

    files: Files
    root: str
    run_id: str
    other_host_age_s: float = OTHER_HOST_AGE_S
    clock: Callable[[], float] = time.time
    notes: list[str] = field(default_factory=list)

    def folder_of(self, name: str) -> str:
        """A folder of this process for one node; nothing is there yet."""
        return posixpath.join(self._folder, f"{self.run_id}.{name}~{Owner.this(self.clock()).token()}")

    @contextmanager
    def opened(self, name: str) -> Iterator[str]:
        """Such a folder, gone with all that is in it however this ends."""
        path = self.folder_of(name)
        try:
            yield path
        finally:
            self.remove(path)

    def remove(self, path: str) -> None:
        try:
            self.files.delete(path)
        except Exception as error:  # rows are where they belong by now: what is left must not fail their run
            if self.files.exists(path):
                self.notes.append(f"{path} is left over and may be deleted: {error}")

    def sweep(self) -> None:
        """Take away what dead processes have left."""
        for path in self.files.folders_in(self._folder):
            owner = owner_in(posixpath.basename(path))
            if owner is not None and not owner.is_alive(self.clock(), self.other_host_age_s):
                self.remove(path)

    @property
    def _folder(self) -> str:
        return posixpath.join(self.root, "staging")
