"""Reads a request body within limits, unpacking gzip as it comes. Never holds more than the limits allow."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, NamedTuple

from headgate.errors import TooLarge, Unparsable, WrongEncoding

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
_GZIP = 16 + zlib.MAX_WBITS
_UTF8 = {"utf-8", "utf8", "us-ascii", "ascii"}


class Limits(NamedTuple):
    body_bytes: int
    unpacked_bytes: int


class Disconnected(Exception):
    """The client closed the connection before its body was complete."""


async def read_body(headers: Iterable[tuple[bytes, bytes]], receive: Receive, limits: Limits) -> bytes:
    """The body as JSON bytes. Works with and without Content-Length."""
    encoding, length = _inspect(headers)
    if length is not None and length > limits.body_bytes:
        raise _too_large("the body", length, limits.body_bytes)
    unpack = _Unpacker(limits.unpacked_bytes) if encoding == "gzip" else None
    chunks: list[bytes] = []
    received = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk = message.get("body", b"")
        received += len(chunk)
        if received > limits.body_bytes:
            raise _too_large("the body", received, limits.body_bytes)
        if chunk:
            chunks.append(unpack.feed(chunk) if unpack else chunk)
        if not message.get("more_body", False):
            break
    if unpack:
        unpack.finish()
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _inspect(headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, int | None]:
    encoding, length = "identity", None
    for name, value in headers:
        if name == b"content-encoding":
            encoding = value.decode("latin-1").strip().lower() or "identity"
        elif name == b"content-length":
            length = int(value) if value.isdigit() else None
        elif name == b"content-type" and b"charset" in value.lower():
            _check_charset(value.decode("latin-1"))
    if encoding not in {"identity", "gzip", "x-gzip"}:
        raise WrongEncoding(f"Content-Encoding {encoding!r} is not supported", hint="send the body plain or with gzip")
    return ("gzip" if encoding.endswith("gzip") else encoding), length


def _check_charset(content_type: str) -> None:
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        charset = value.strip().strip("\"'").lower()
        if name.strip().lower() == "charset" and charset not in _UTF8:
            raise WrongEncoding(f"charset {charset!r} is not supported", hint="send JSON as UTF-8")


class _Unpacker:
    """gzip, also of several members, with an end to how much may come out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = limit
        self._gzip = zlib.decompressobj(_GZIP)
        self._fed = False

    def feed(self, chunk: bytes) -> bytes:
        parts = []
        while chunk:
            self._fed = True
            try:
                part = self._gzip.decompress(chunk, self._left + 1)
            except zlib.error as error:
                raise Unparsable(
                    f"the body is not valid gzip: {error}",
                    hint="send gzip, or drop the Content-Encoding header",
                ) from None
            self._left -= len(part)
            if self._left < 0:
                raise _too_large("the unpacked body", None, self._limit)
            parts.append(part)
            chunk = self._gzip.unconsumed_tail or self._gzip.unused_data
            if self._gzip.eof and chunk:
                if not chunk.strip(b"\x00"):
                    break
                self._gzip = zlib.decompressobj(_GZIP)
        return b"".join(parts)

    def finish(self) -> None:
        if not self._fed or not self._gzip.eof:
            raise Unparsable("the gzip body ends too early", hint="send the whole body")


def _too_large(what: str, size: int | None, limit: int) -> TooLarge:
    shown = f"{what} has {size} bytes" if size is not None else what
    return TooLarge(
        f"{shown}, over the limit of {limit}" if size else f"{shown} is over the limit of {limit} bytes",
        hint="send fewer events at once, or raise HEADGATE_MAX_BODY_BYTES or HEADGATE_MAX_UNPACKED_BYTES",
    )
