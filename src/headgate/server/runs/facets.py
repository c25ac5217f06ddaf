"""Puts the facets of a run together from its events. Knows nothing of where the events are kept."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from headgate.server.runs.schemas import ErrorOut

_NOTHING = b"{}"
# JSON readers give up on a number this long, and on the whole answer with it. The raw events have it.
_UNREADABLE = re.compile(rb"[0-9]{4300}")


class _Part(Struct, frozen=True):
    # A producer may leave the map out, or send null.
    facets: dict[str, Raw] | None = None


class _Event(Struct):
    run: _Part = _Part()
    job: _Part = _Part()


class _Base(Struct, rename={"deleted": "_deleted"}):
    deleted: bool = False


class _Error(Struct, rename="camel"):
    message: str
    programming_language: str | None = None
    stack_trace: str | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_base = msgspec.json.Decoder(_Base).decode
_decode_error = msgspec.json.Decoder(_Error).decode


class FacetMap:
    """Facet bodies by name, byte for byte; fed with the latest event first, so that the first one seen stays."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes | None] = {}

    def add(self, facets: dict[str, Raw] | None) -> None:
        for name, raw in (facets or {}).items():
            if name not in self._bodies:
                # A copy, since what was decoded would keep its whole event.
                body = bytes(raw)
                self._bodies[name] = None if _is_deleted(body) or _UNREADABLE.search(body) else body

    def get(self, name: str) -> bytes | None:
        return self._bodies.get(name)

    def out(self) -> dict[str, Raw]:
        present = ((name, body) for name, body in sorted(self._bodies.items()) if body is not None)
        return {name: Raw(body) for name, body in present}


class RunFacets:
    """The facets of a run and of its job, composed from the latest event to the first."""

    def __init__(self) -> None:
        self.run = FacetMap()
        self.job = FacetMap()

    def add(self, event: bytes, *, is_main_job: bool) -> None:
        try:
            found = _decode_event(event)
        except (msgspec.ValidationError, msgspec.DecodeError, RecursionError):
            return
        self.run.add(found.run.facets)
        if is_main_job:
            self.job.add(found.job.facets)

    def error(self, message: str | None) -> ErrorOut | None:
        """What went wrong: the stored message, with what the facet adds to it."""
        if message is None:
            return None
        try:
            facet = _decode_error(self.run.get("errorMessage") or _NOTHING)
        except (msgspec.ValidationError, msgspec.DecodeError):
            return ErrorOut(message=message, programming_language=None, stack_trace=None)
        return ErrorOut(message=message, programming_language=facet.programming_language, stack_trace=facet.stack_trace)


def _is_deleted(body: bytes) -> bool:
    try:
        return _decode_base(body).deleted
    except (msgspec.ValidationError, msgspec.DecodeError):
        return False
