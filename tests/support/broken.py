"""Broken bodies for the ingest routes: what clients, proxies and attackers send, and how each must be answered."""

from __future__ import annotations

import copy
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.support.events import Json, a_dataset, a_facet, an_event

SINGLE = "/api/v1/lineage"
SINK = "/api/openlineage"
BATCH = "/api/v1/lineage/batch"
EVENTS = "/api/v1/lineage/events"
METADATA = "/api/v1/ingest/metadata"
SCHEMA = "/api/v1/ingest/schema"
ROUTES = (SINGLE, SINK, BATCH, EVENTS, METADATA, SCHEMA)
ARRAYS = (BATCH, EVENTS)

MIB = 1024 * 1024
GZIP = {"content-encoding": "gzip"}
# One value of each JSON type, and those within a type that programs trip over.
REPLACEMENTS: dict[str, Any] = {
    "null": None,
    "true": True,
    "negative": -1,
    "beyond_bigint": 2**63,
    "beyond_everything": 10**400,
    "fraction": 0.5,
    "empty_text": "",
    "text": "\U0001f600 \u202e x",
    "empty_array": [],
    "array": [[{}], None, 1],
    "empty_object": {},
    "object": {"x": {"": None}},
}

Path = tuple[str | int, ...]
# Where something was changed, to which of the replacements, and the result.
Variant = tuple[Path, str, Json]


class Broken(NamedTuple):
    """A request that cannot be accepted on any route; `status` is the answer."""

    id: str
    body: bytes
    status: int = 400
    headers: Mapping[str, str] = MappingProxyType({})


def body_for(route: str, text: bytes) -> bytes:
    """The same fault where this route would meet it: arrays hold events."""
    return b"[" + text + b"]" if route in ARRAYS else text


def in_event(value: bytes) -> bytes:
    """A valid event with raw JSON text as a member of an unknown facet."""
    return _spliced(an_event(run_facets={"custom": a_facet(member="@@@")}), value)


def _spliced(event: Json, value: bytes) -> bytes:
    return json.dumps(event).encode().replace(b'"@@@"', value)


def unparsable() -> Iterator[Broken]:
    """Not JSON in UTF-8, wherever it comes in."""
    whole = json.dumps(an_event()).encode()
    yield Broken("empty", b"")
    yield Broken("whitespace", b" \r\n\t ")
    yield Broken("garbage", b"\x00\xff\xfe not json")
    yield Broken("html", b"<html><body>502 Bad Gateway</body></html>")
    yield Broken("single_quotes", b"{'run': 1}")
    yield Broken("comment", whole[:-1] + b" /* why */}")
    yield Broken("trailing_comma", whole[:-1] + b",}")
    yield Broken("two_documents", whole + whole)
    yield Broken("byte_order_mark", b"\xef\xbb\xbf" + whole)
    yield Broken("utf16", whole.decode().encode("utf-16"))
    for at in (1, len(whole) // 3, len(whole) - 1):
        yield Broken(f"truncated_at_{at}", whole[:at])
    for name, value in _BAD_VALUES.items():
        yield Broken(name, in_event(value))
    for depth in (100, 10_000, 100_000):
        yield Broken(f"arrays_{depth}_deep", in_event(b"[" * depth + b"]" * depth))
        yield Broken(f"objects_{depth}_deep", in_event(b'{"a":' * depth + b"1" + b"}" * depth))
        yield Broken(f"arrays_{depth}_deep_and_not_closed", b"[" * depth)


_BAD_VALUES = {
    "invalid_utf8": b'"\xff"',
    "truncated_utf8": b'"\xe2\x82"',
    "overlong_utf8": b'"\xc0\xaf"',
    "utf8_surrogate": b'"\xed\xa0\x80"',
    "nan": b"NaN",
    "infinity": b"Infinity",
    "negative_infinity": b"-Infinity",
    "hexadecimal": b"0x10",
    "leading_zero": b"01",
    "plus_sign": b"+1",
    "lone_minus": b"-",
    "no_exponent": b"1e",
    "raw_nul": b'"a\x00b"',
    "raw_newline": b'"a\nb"',
    "lone_high_surrogate": b'"\\ud800"',
    "lone_low_surrogate": b'"\\udc00"',
    "two_high_surrogates": b'"\\ud800\\ud800"',
    "short_escape": b'"\\u12"',
    "unknown_escape": b'"\\x41"',
    "python_none": b"None",
    "undefined": b"undefined",
}


def badly_packed() -> Iterator[Broken]:
    """Wrong or lying Content-Encoding, and gzip that is broken or a bomb."""
    whole = json.dumps(an_event()).encode()
    packed = gzip.compress(whole)
    yield Broken("gzip_truncated", packed[:-12], headers=GZIP)
    yield Broken("gzip_without_its_checksum", packed[:-8], headers=GZIP)
    yield Broken("gzip_header_only", packed[:10], headers=GZIP)
    yield Broken("gzip_of_nothing", gzip.compress(b""), headers=GZIP)
    yield Broken("gzip_of_garbage", gzip.compress(b"\xff\x00garbage"), headers=GZIP)
    yield Broken("gzip_wrong_checksum", packed[:-8] + b"\0\0\0\0" + packed[-4:], headers=GZIP)
    yield Broken("gzip_then_garbage", packed + b"garbage", headers=GZIP)
    yield Broken("gzip_twice", gzip.compress(packed), headers=GZIP)
    yield Broken("no_gzip_at_all", whole, headers=GZIP)
    yield Broken("nothing_as_gzip", b"", headers=GZIP)
    yield Broken("zlib_as_gzip", zlib.compress(whole), headers=GZIP)
    yield Broken("gzip_not_announced", packed)
    yield Broken("gzip_bomb", gzip.compress(b" " * (80 * MIB), 9), 413, GZIP)
    yield Broken("gzip_bomb_of_members", gzip.compress(b" " * MIB, 9) * 80, 413, GZIP)
    yield Broken("too_large", b" " * (33 * MIB), 413)
    for encoding in ("br", "zstd", "deflate", "compress", "gzip, gzip", "x" * 5000, "\xff"):
        headers = {"content-encoding": encoding}
        yield Broken(f"encoding_{encoding[:10].encode().hex()}", whole, 415, headers)
    yield Broken("charset_utf16", whole, 415, {"content-type": "application/json; charset=utf-16"})
    yield Broken("charset_unknown", whole, 415, {"content-type": "application/json; charset=\xff"})


def replacements(body: Json) -> Iterator[Variant]:
    """The body with each of its fields, in turn, as each JSON type; and without the field."""
    for path in paths_of(body):
        for name, value in REPLACEMENTS.items():
            yield path, name, replaced(body, path, value)
        if isinstance(path[-1], str):
            yield path, "absent", without(body, path)


def paths_of(value: Any, prefix: Path = ()) -> Iterator[Path]:
    """Every place inside a JSON value, members of objects and of arrays."""
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in members:
        yield (*prefix, key)
        yield from paths_of(child, (*prefix, key))


def replaced(body: Any, path: Path, value: Any) -> Any:
    changed = copy.deepcopy(body)
    _parent(changed, path)[path[-1]] = value
    return changed


def without(body: Any, path: Path) -> Any:
    changed = copy.deepcopy(body)
    del _parent(changed, path)[path[-1]]
    return changed


def _parent(body: Any, path: Path) -> Any:
    for key in path[:-1]:
        body = body[key]
    return body


def _many(datasets: int) -> list[Json]:
    return [a_dataset(f"t{number}") for number in range(datasets)]


def _wide_lineage(columns: int) -> Json:
    source = {"namespace": "postgres://db:5432", "name": "narrow", "field": "c"}
    fields = {f"c{number}": {"inputFields": [source | {"field": f"s{number}"}]} for number in range(columns)}
    return {"columnLineage": a_facet(fields=fields)}


# Events that are valid and much larger than any sane producer's.
LARGE_EVENTS: dict[str, Callable[[], Json]] = {
    "100000_inputs": lambda: an_event(inputs=_many(100_000)),
    "1000_inputs_by_1000_outputs": lambda: an_event(inputs=_many(1000), outputs=_many(2000)[1000:]),
    "10_mb_in_an_unknown_facet": lambda: an_event(run_facets={"custom": a_facet(text="x" * 10 * MIB)}),
    "10_mb_in_a_known_facet": lambda: an_event(run_facets={"errorMessage": a_facet(message="x" * 10 * MIB)}),
    "10_mb_in_a_job_facet": lambda: an_event(job_facets={"sql": a_facet(query="x" * 10 * MIB)}),
    "100000_facets": lambda: an_event(run_facets={f"f{number}": a_facet() for number in range(100_000)}),
    "5000_columns_of_lineage": lambda: an_event(outputs=[a_dataset("wide", facets=_wide_lineage(5000))]),
    "100_by_100_edges": lambda: an_event(inputs=_many(100), outputs=_many(200)[100:]),
}
