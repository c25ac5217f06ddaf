"""Layer 1: which events are acceptable, and every reason why one is not.

The fast way decodes straight into structs and checks the little that types cannot say. Only when that fails
does the slow way walk the whole body and list each wrong field with its path.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

import msgspec
from msgspec import UNSET, Struct

from headgate.domain.names import MAX_NAME_BYTES
from headgate.errors import FieldError, InvalidFields, Unparsable
from headgate.openlineage.events import Event, decode_event, facet_maps
from headgate.openlineage.explain import (
    FIRST,
    LAST,
    Rules,
    field_errors,
    mend,
    name_bytes,
    nul_paths,
    read_document,
    unparsable,
)
from headgate.openlineage.facets import FacetReader, are_uris, is_uri

_NO_BRACKETS = bytes(b for b in range(256) if b not in b"{}[]")
_NO_MARKS = bytes(b for b in range(256) if b not in b'{}[]"')
_AS_BRACES = bytes.maketrans(b"[]", b"{}")

STRICT = Rules()


class Checked(Struct, frozen=True, eq=False, gc=False):
    """An acceptable event and how it was read. Its facets are `Facet` values now."""

    event: Event
    kind: str
    event_time: datetime
    lenient: bool


def check_text(body: bytes, max_depth: int) -> None:
    """Refuse what is not UTF-8 or nests too deep, before anything is decoded."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise Unparsable(
                f"the body is not UTF-8: byte {error.start} is {body[error.start]:#04x}",
                hint="send JSON as UTF-8",
            ) from None
    if _depth_over(body, max_depth):
        raise Unparsable(
            f"the body nests deeper than {max_depth} levels", hint="flatten the facet that nests this deep"
        )


def check_event(body: bytes, rules: Rules, reader: FacetReader) -> Checked:
    """The event in `body`, or `InvalidFields` with everything that is wrong with it."""
    try:
        event = decode_event(body)
        lenient = False
    except msgspec.ValidationError:
        event, lenient = _slow(body, rules)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unparsable(error) from None
    # One byte is found many times faster than six, and few events hold a backslash at all.
    if b"\\" in body and b"\\u0000" in body:
        _refuse_nul(body)
    return _check_fields(event, lenient, body, rules, reader)


def _check_fields(event: Event, lenient: bool, body: bytes, rules: Rules, reader: FacetReader) -> Checked:
    kind = "run" if event.run is not UNSET else "dataset" if event.dataset is not UNSET else "job"
    event_time = event.eventTime
    if event_time.tzinfo is None:
        if not rules.lenient:
            _explain(body, rules)
        lenient, event_time = True, event_time.replace(tzinfo=UTC)
    if (
        not (1 < event_time.year < 9999 or FIRST <= event_time <= LAST)
        or (kind == "job" and event.job is UNSET)
        or (kind == "run" and (event.job is UNSET or (event.eventType is UNSET and rules.require_event_type)))
        or not _names_fit(event)
    ):
        _explain(body, rules)
    if not are_uris(event.producer, event.schemaURL):
        if not (rules.lenient and event.schemaURL is UNSET and is_uri(event.producer)):
            _explain(body, rules)
        lenient = True
    for facets in facet_maps(event):
        if reader.read_all(facets):
            continue
        if not rules.lenient:
            _explain(body, rules)
        if not all(facet.is_object for facet in facets.values()):  # type: ignore[attr-defined]  # read above
            # Null, which leniency leaves out; anything else is refused there.
            return _check_fields(*_slow(body, rules), body, rules, reader)
        lenient = True
    return Checked(event, kind, event_time, lenient)


def _names_fit(event: Event) -> bool:
    if event.job is not UNSET and not name_fits(event.job.namespace, event.job.name):
        return False
    if event.dataset is not UNSET and not name_fits(event.dataset.namespace, event.dataset.name):
        return False
    for side in (event.inputs, event.outputs):
        for part in side or ():
            if not name_fits(part.namespace, part.name):
                return False
    return True


@lru_cache(maxsize=20_000)
def name_fits(namespace: str, name: str) -> bool:
    """Whether a dataset or job can have this name: not blank, and within the limit."""
    return bool(namespace.strip() and name.strip()) and name_bytes(namespace, name) <= MAX_NAME_BYTES


def _slow(body: bytes, rules: Rules) -> tuple[Event, bool]:
    """An event whose types do not fit the structs: refuse it, or mend what leniency or its kind allows."""
    document = read_document(body)
    errors = list(field_errors(document, rules))
    if errors:
        raise InvalidFields(errors, hint="see the OpenLineage specification, core schema 2-0-2")
    assert isinstance(document, dict)
    mended = mend(document)
    try:
        return decode_event(msgspec.json.encode(mended)), rules.lenient
    except msgspec.ValidationError as error:
        raise InvalidFields([FieldError("$", str(error))]) from None


def _explain(body: bytes, rules: Rules) -> None:
    """Raise with every wrong field. The fast way has already found at least one."""
    errors = list(field_errors(read_document(body), rules))
    if errors:
        raise InvalidFields(errors, hint="see the OpenLineage specification, core schema 2-0-2")
    raise InvalidFields([FieldError("$", "is not an OpenLineage event")])


def _refuse_nul(body: bytes) -> None:
    """Raise if a string really holds U+0000; `\\\\u0000` inside a JSON string is harmless text."""
    errors = [FieldError(path, "holds the character U+0000") for path in nul_paths(read_document(body), "")]
    if errors:
        raise InvalidFields(errors, hint="remove the NUL character; PostgreSQL cannot store it in text")


def _depth_over(body: bytes, limit: int) -> bool:
    # Most events do not even hold as many objects and arrays as may nest.
    if len(body.translate(None, _NO_BRACKETS)) <= 2 * limit:
        return False
    marks = _structure(body)
    # Removing the innermost pairs lowers the depth by one, and 2 x limit marks cannot nest deeper than limit: few
    # rounds settle almost every body, at C speed.
    for settled in range(limit):
        if len(marks) <= 2 * (limit - settled):
            return False
        shorter = marks.replace(b"{}", b"")
        if len(shorter) == len(marks):
            return False  # unbalanced, which is for the decoder to say
        marks = shorter
    return bool(marks)


def _structure(body: bytes) -> bytes:
    """The brackets of a body that are not inside strings, all of them as braces."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = body.translate(None, _NO_MARKS).replace(b'""', b"")
    if b'"' in marks:
        marks = b"".join(marks.split(b'"')[::2])
    return marks.translate(_AS_BRACES)
