"""Why a message could not be handed over, in words that are safe to show."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator


def in_words(error: BaseException) -> str:
    """By kind and number: the text of such an error may hold anything.

    >>> in_words(ConnectionRefusedError(111, "https://hooks.example/s3cret"))
    'no connection: Connection refused'
    """
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return f"no secure connection: {getattr(cause, 'verify_message', '') or cause.reason or 'TLS failed'}"
        if isinstance(cause, socket.gaierror):
            return "the name of its host is not known"
        if isinstance(cause, OSError) and cause.errno:
            return f"no connection: {os.strerror(cause.errno)}"
    return f"no connection ({type(error).__name__})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
