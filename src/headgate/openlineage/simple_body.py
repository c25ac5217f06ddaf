"""The two simple JSON payloads as typed values, and every reason to refuse one.

Knows fields, types and times; what an OpenLineage event looks like is for the other simple modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect

from headgate.domain.names import MAX_NAME_BYTES
from headgate.errors import FieldError, InvalidFields
from headgate.openlineage.explain import kind_of, shown, unparsable, wrong
from headgate.openlineage.validate import check_text

# A payload is kept whole inside its event, four levels down from where it came in; events may nest 64 deep.
MAX_DEPTH = 60
HINT = "correct the listed fields and send the payload again"

Text = Annotated[str, Meta(pattern=r"\S")]
Count = Annotated[int, Meta(ge=0, le=9_223_372_036_854_775_807)]
F = TypeVar("F", bound=Struct)


class Moment(datetime):
    """A time as payloads spell it: ISO 8601, in UTC when no zone is given."""


class Status(Enum):
    """How a job ended, as the OpenLineage event type that says so."""

    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    RUNNING = "RUNNING"
    ABORT = "ABORT"

    @classmethod
    def _missing_(cls, value: object) -> Status | None:
        return _STATUSES.get(value.strip().lower()) if isinstance(value, str) else None


_WORDS = {
    Status.COMPLETE: ("Success", "Succeeded", "Complete", "Completed", "Finished"),
    Status.FAIL: ("Failed", "Fail", "Failure", "Error"),
    Status.RUNNING: ("Running", "Started"),
    Status.ABORT: ("Cancelled", "Canceled", "Killed", "Aborted", "Abort"),
}
_STATUSES = {word.lower(): status for status, words in _WORDS.items() for word in words}


class Declared(Struct, frozen=True):
    name: Text
    type: str | None = None
    location: str | None = None
    database: str | None = None
    catalog: str | None = None

    def has_place(self) -> bool:
        return any(part and part.strip() for part in (self.location, self.database, self.catalog))


class Edge(Struct, frozen=True):
    source: Text
    target: Text
    job_id: str | None = None
    job_name: str | None = None


class ColumnPair(Struct, frozen=True):
    source_table: Text
    source_column: Text
    target_table: Text
    target_column: Text
    transformation_type: str | None = None
    expression: str | None = None


class Statistics(Struct, frozen=True):
    row_count: Count | None = None
    byte_size: Count | None = None
    file_count: Count | None = None
    partition_count: Count | None = None


class Anomaly(Struct, frozen=True):
    dataset_name: Text
    anomaly_type: Text
    current_value: float
    expected_value: float
    threshold: float
    message: str
    severity: str | None = None
    detected_at: Moment | None = None


class Metadata(Struct, frozen=True):
    """Body of `POST /api/v1/ingest/metadata`."""

    job_id: Text
    api_version: str | None = None
    job_name: str | None = None
    application_id: str | None = None
    timestamp: Moment | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    status: Status | None = None
    error_message: str | None = None
    inputs: list[Declared] | None = None
    outputs: list[Declared] | None = None
    lineage_edges: list[Edge] | None = None
    column_lineage: list[ColumnPair] | None = None
    metrics: dict[Text, Statistics | None] | None = None
    anomalies: list[Anomaly] | None = None
    execution_metrics: dict[str, Any] | None = None
    executor_memory_mb: Count | None = None
    executor_cores: Count | None = None
    partition_key: str | None = None
    partition_context: dict[str, Any] | None = None


class Column(Struct, frozen=True):
    name: Text
    data_type: Text
    nullable: bool | None = None
    description: str | None = None


class Snapshot(Struct, frozen=True):
    dataset_name: Text
    fields: list[Column]
    version_hash: str | None = None


class Schemas(Struct, frozen=True):
    """Body of `POST /api/v1/ingest/schema`; the times and the application are ours, to tell runs apart."""

    job_id: Text
    schemas: list[Snapshot]
    api_version: str | None = None
    application_id: str | None = None
    timestamp: Moment | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None


class Body(NamedTuple):
    """A payload as it was sent, unknown fields and all."""

    sent: dict[str, Any]

    def refuse_long(self, names: Iterable[str]) -> None:
        """Raise for every field that holds one of these names; do nothing without names."""
        too_long = set(names)
        message = f"takes more than {MAX_NAME_BYTES} bytes together with its namespace"
        errors = [FieldError(path, message, shown(text)) for path, text in _strings(self.sent) if text in too_long]
        if errors:
            raise InvalidFields(errors, hint=HINT)


def read(body: bytes, form: type[F]) -> tuple[Body, F]:
    """The payload as sent and as typed values; `Unparsable`, or `InvalidFields` with every wrong field."""
    check_text(body, MAX_DEPTH)
    try:
        sent = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise unparsable(error) from None
    errors = list(_nul_errors(sent)) if b"\\u0000" in body else []
    try:
        payload = msgspec.convert(sent, form, dec_hook=_read_moment)
    except msgspec.ValidationError as error:
        found = list(_wrong_fields(sent, inspect.type_info(form), "")) or [FieldError("$", str(error))]
        raise InvalidFields([*found, *errors], hint=HINT) from None
    if errors:
        raise InvalidFields(errors, hint="remove the NUL character; PostgreSQL cannot store it in text")
    return Body(sent), payload


def name_fits(namespace: str, name: str) -> bool:
    return len(namespace.encode()) + len(name.encode()) <= MAX_NAME_BYTES


def _read_moment(kind: type, value: object) -> Moment:
    if not isinstance(value, str):
        raise ValueError(f"must be a time, is {kind_of(value)}")
    try:
        at = Moment.fromisoformat(value.strip())
        at = (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("must be a time in ISO 8601, such as 2026-01-31T12:00:00Z") from None
    if not 1 < at.year < 9999:
        raise ValueError("is out of the calendar's range")
    return at


def _wrong_fields(value: object, kind: inspect.Type, path: str) -> Iterator[FieldError]:
    """Everything in which a decoded value differs from what `msgspec.convert` would take."""
    match kind:
        case inspect.UnionType():
            if value is not None:
                wanted = next(part for part in kind.types if not isinstance(part, inspect.NoneType))
                yield from _wrong_fields(value, wanted, path)
        case inspect.StructType():
            yield from _wrong_members(value, kind, path)
        case inspect.ListType():
            if not isinstance(value, list):
                yield wrong(path, "an array", value)
                return
            for place, item in enumerate(value):
                yield from _wrong_fields(item, kind.item_type, f"{path}[{place}]")
        case inspect.DictType():
            if not isinstance(value, dict):
                yield wrong(path, "an object", value)
                return
            for key, item in value.items():
                yield from _wrong_fields(key, kind.key_type, _join(path, key))
                yield from _wrong_fields(item, kind.value_type, _join(path, key))
        case _:
            if message := _wrong_leaf(value, kind):
                yield FieldError(path, message, shown(value))


def _wrong_members(value: object, kind: inspect.StructType, path: str) -> Iterator[FieldError]:
    if not isinstance(value, dict):
        yield wrong(path or "$", "an object", value)
        return
    for field in kind.fields:
        at = f"{path}.{field.encode_name}".lstrip(".")
        if value.get(field.encode_name) is not None:
            yield from _wrong_fields(value[field.encode_name], field.type, at)
        elif field.required:
            yield FieldError(at, "is required")


def _wrong_leaf(value: object, kind: inspect.Type) -> str | None:
    match kind:
        case inspect.StrType():
            if not isinstance(value, str):
                return f"must be a string, is {kind_of(value)}"
            return "must not be empty" if kind.pattern and not value.strip() else None
        case inspect.IntType():
            return _wrong_count(value)
        case inspect.FloatType():
            if isinstance(value, bool) or not isinstance(value, int | float):
                return f"must be a number, is {kind_of(value)}"
            return None if abs(value) <= 1.7976931348623157e308 else "is out of range"
        case inspect.BoolType():
            return None if isinstance(value, bool) else f"must be true or false, is {kind_of(value)}"
        case inspect.EnumType():
            words = [word for group in _WORDS.values() for word in group]
            return None if Status._missing_(value) else f"must be one of {', '.join(words)}"
        case inspect.CustomType():
            return _wrong_moment(value)
        case _:
            return None


def _wrong_count(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"must be a whole number, is {kind_of(value)}"
    if value < 0:
        return "must not be negative"
    return None if value <= 9_223_372_036_854_775_807 else "is larger than a 64-bit number"


def _wrong_moment(value: object) -> str | None:
    try:
        _read_moment(Moment, value)
    except ValueError as error:
        return str(error)
    return None


def _nul_errors(sent: object) -> Iterator[FieldError]:
    for path, text in _strings(sent):
        if "\x00" in text:
            yield FieldError(path.replace("\x00", "\\u0000"), "holds the character U+0000")


def _strings(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every string in a decoded value, keys included, with its path."""
    if isinstance(value, str):
        yield path or "$", value
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _strings(item, f"{path}[{place}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            at = _join(path, key)
            yield at, key
            yield from _strings(item, at)


def _join(path: str, key: str) -> str:
    if key.isidentifier():
        return f"{path}.{key}".lstrip(".")
    return f"{path}[{msgspec.json.encode(key).decode()}]"
