"""Ctrl-C and SIGTERM as one thing: the first asks to stop, the second to hurry."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType

# Ctrl-C reaches the whole process group, and a parent may pass it on: that is still one wish.
_SAME_WISH_S = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Replaces the signal handlers while it is entered.

    A signal raises KeyboardInterrupt, unless a listener is there to be told instead.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._first_at: float | None = None
        self._listener: Callable[[], None] | None = None
        self._previous: dict[int, object] = {}
        self.is_hurried = False

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            # nohup asks for SIGHUP to be ignored. A shell does the same to SIGINT of what it runs in the background,
            # where somebody who sends one all the same means it.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal itself returned

    @property
    def is_stopping(self) -> bool:
        return self._first_at is not None

    @property
    def left_s(self) -> float:
        """What is left of the time in which everything has to be stopped."""
        began = self._first_at if self._first_at is not None else time.monotonic()
        return max(0.0, began + self._grace_s - time.monotonic())

    @contextmanager
    def heard_by(self, listener: Callable[[], None]) -> Iterator[None]:
        """Tell `listener` of each signal instead of raising."""
        self._listener = listener
        try:
            if self.is_stopping:
                listener()
            yield
        finally:
            self._listener = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
        elif self.is_hurried or now - self._first_at < _SAME_WISH_S:
            return
        else:
            self.is_hurried = True
        if self._listener is None:
            raise KeyboardInterrupt
        self._listener()
