"""Following events: each later one once, in the order in which they came."""

from __future__ import annotations

from typing import Any

from headgate.cli.events import arrivals
from headgate.client import Page


class Log:
    """A client of a log that grows while it is watched; newest first, as the server gives it."""

    def __init__(self, *growth: list[int]) -> None:
        self._growth = list(growth)
        self._log: list[int] = []
        self.requests = 0
        self.grow()

    def grow(self, _seconds: float = 0) -> None:
        if not self._growth:
            raise KeyboardInterrupt
        self._log += self._growth.pop(0)

    def events(self, *, limit: int, cursor: str | None = None, **_: Any) -> Page[dict[str, Any]]:
        self.requests += 1
        older = [number for number in sorted(self._log, reverse=True) if cursor is None or number < int(cursor)]
        page = older[:limit]
        return Page([{"id": number} for number in page], str(page[-1]) if len(older) > limit else None)


def watched(log: Log, *, limit: int = 2) -> list[int]:
    seen = []
    arriving = arrivals(
        log,  # type: ignore[arg-type]  # all that is asked of a client
        limit=limit,
        follow=True,
        producer=None,
        outcome=None,
        raw=False,
        sleep=log.grow,
    )
    try:
        for item in arriving:
            seen.append(item["id"])
    except KeyboardInterrupt:
        return seen
    raise AssertionError("following ends with Ctrl-C only")


def test_it_begins_with_the_latest_and_goes_on_with_what_comes() -> None:
    assert watched(Log([1, 2, 3], [4], [], [5, 6])) == [2, 3, 4, 5, 6]


def test_more_than_a_page_at_once_is_not_lost() -> None:
    assert watched(Log([1], list(range(2, 600)), [600])) == list(range(1, 601))


def test_an_empty_log_is_waited_on() -> None:
    assert watched(Log([], [1])) == [1]


def test_a_long_log_without_news_is_asked_for_once_a_look() -> None:
    log = Log(list(range(1, 2000)), [], [], [2000])

    assert watched(log) == [1998, 1999, 2000]
    assert log.requests == 4
