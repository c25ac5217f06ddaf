"""Decoding and validating, CPU only: what the checks cost on top of msgspec's typed decode into the same structs."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from benchmarks.events import Events
from benchmarks.slices import Slice, Tally, median_ratio, ratio, take_turns
from benchmarks.stage import say
from headgate.openlineage.events import decode_event, facet_maps
from headgate.openlineage.facets import _STRUCTS, FacetReader
from headgate.openlineage.validate import STRICT, check_event, check_text

Read = Callable[[bytes], object]
_decoders: dict[str, Callable[[Any], object]] = {
    name: msgspec.json.Decoder(struct).decode for name, struct in _STRUCTS.items()
}


def decode_typed(body: bytes) -> object:
    """The envelope and every facet that is known, into their structs; nothing checked, nothing remembered."""
    event = decode_event(body)
    for facets in facet_maps(event):
        for name, raw in facets.items():
            decode = _decoders.get(name)
            if decode is not None:
                decode(raw)
    return event


def validating(reader: FacetReader) -> Read:
    def validate(body: bytes) -> object:
        check_text(body, STRICT.max_depth)
        return check_event(body, STRICT, reader)

    return validate


def slice_of(read: Read, events: Events, count: int) -> Slice:
    def measure() -> tuple[int, float]:
        bodies = events.take(count)
        # The CPU's time, not the clock's: nothing here waits, and others may want the core.
        began = time.thread_time()
        for body in bodies:
            read(body)
        return count, time.thread_time() - began

    async def run() -> tuple[int, float]:
        return measure()

    return run


async def measure(*, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Every slice reads events that were never seen; jobs repeat themselves, as they do in life."""
    events = Events(5)
    warm = validating(FacetReader())
    for body in events.take(1000):
        warm(body)
    variants: dict[str, Callable[[], Awaitable[tuple[int, float]]]] = {
        "validate": slice_of(warm, events, 100),
        # A reader that may keep no body at all meets each facet as if for the first time.
        "validate_cold": slice_of(validating(FacetReader(max_body=0)), events, 100),
        "decode_typed": slice_of(decode_typed, events, 100),
        "decode_envelope": slice_of(decode_event, events, 100),
    }
    say(f"decoding and validating: {rounds} rounds of 100 events")
    tallies = await take_turns(rounds, variants)
    return {f"{name}_us": tally.micros for name, tally in tallies.items()}, _ratios(tallies)


def _ratios(tallies: dict[str, Tally]) -> dict[str, float]:
    """Times, not rates: how much longer validating takes."""
    decode = tallies["decode_typed"]
    return {
        "validate_vs_decode": ratio(decode, tallies["validate"]),
        "validate_vs_decode_median": median_ratio(decode, tallies["validate"]),
        "validate_vs_decode_cold": ratio(decode, tallies["validate_cold"]),
        "validate_vs_envelope": ratio(tallies["decode_envelope"], tallies["validate"]),
    }
