"""Which events of the log are new, although ids become visible out of order. Pure; the caller reads the log.

An id is drawn before its transaction commits, so a lower one may show up after a higher one. Whatever is at most
the highest id of a look belongs to a transaction that had begun by then. Once all of those have ended, nothing below
that id can come any more, and it becomes the floor; above the floor, events are read again and told apart by id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection


class Watermark:
    def __init__(self, floor: int) -> None:
        self.floor = floor
        self._top = floor
        self._seen: set[int] = set()
        # Highest id of a look, and the first transaction that had not begun by then.
        self._looks: deque[tuple[int, int]] = deque()

    def look(self, ids: Collection[int], oldest_open: int, next_begin: int) -> set[int]:
        """The new ones among all visible ids above the floor, of one snapshot with these bounds of transactions."""
        new = set(ids) - self._seen
        self._seen |= new
        self._top = max(self._top, max(ids, default=self._top))
        if self._top > (self._looks[-1][0] if self._looks else self.floor):
            self._looks.append((self._top, next_begin))
        while self._looks and self._looks[0][1] <= oldest_open:
            self.floor = max(self.floor, self._looks.popleft()[0])
        self._seen = {seen for seen in self._seen if seen > self.floor}
        return new

    def skip(self) -> None:
        """Give up on what may still come below the highest id: too much lies above the floor to read it again."""
        self.floor = self._top
        self._seen.clear()
        self._looks.clear()
