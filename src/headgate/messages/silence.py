"""Where messages are sent to is a secret, and the HTTP libraries log it: not while one is on its way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_TALKATIVE = ("httpx", *(f"httpcore.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")))
_posting: ContextVar[bool] = ContextVar("posting", default=False)


@contextmanager
def unlogged() -> Iterator[None]:
    """No URL, redirect or header of this thread or task is logged meanwhile; those of others are as ever."""
    for name in _TALKATIVE:
        logging.getLogger(name).addFilter(_is_of_others)
    token = _posting.set(True)
    try:
        yield
    finally:
        _posting.reset(token)


def _is_of_others(record: logging.LogRecord) -> bool:
    return not _posting.get()
