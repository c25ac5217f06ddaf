"""The facets that Headgate understands: their bodies as structs, and a reader that remembers.

Producers send the same facet bytes again and again, so each distinct body is parsed once. A body that does
not fit its struct is `invalid`: it stays in the raw event, is counted, and yields no facts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from headgate.domain.schema import Field, schema_hash
from headgate.openlineage.anomalies import AnomaliesFacet
from headgate.openlineage.pipelines import FACETS as PIPELINE_FACETS
from headgate.openlineage.stages import execution_totals, stage_row

Count = Annotated[int, Meta(ge=0, le=9_223_372_036_854_775_807)]
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:[^\s]*\Z")
MAX_NESTED_FIELDS = 20_000


class _Base(Struct, rename={"producer": "_producer", "schema_url": "_schemaURL", "deleted": "_deleted"}, gc=False):
    producer: str | UnsetType = UNSET
    schema_url: str | UnsetType = UNSET
    deleted: bool | UnsetType = UNSET


class RunRef(Struct, gc=False):
    runId: UUID  # noqa: N815 - the wire's name


class JobRef(Struct, gc=False):
    namespace: str
    name: str


class RootRef(Struct, gc=False):
    run: RunRef
    job: JobRef | UnsetType = UNSET


class ParentFacet(Struct, gc=False):
    run: RunRef
    job: JobRef | UnsetType = UNSET
    root: RootRef | UnsetType = UNSET


class ErrorFacet(Struct, gc=False):
    message: str


class JobTypeFacet(Struct, rename="camel", gc=False):
    processing_type: str | UnsetType = UNSET
    integration: str | UnsetType = UNSET
    job_type: str | UnsetType | None = UNSET


class SchemaField(Struct):
    name: str
    type: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    nullable: bool | UnsetType | None = UNSET
    fields: list[SchemaField] | UnsetType | None = UNSET


class SchemaFacet(Struct):
    fields: list[SchemaField] | UnsetType | None = UNSET


class Transformation(Struct):
    type: str
    subtype: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    masking: bool | UnsetType | None = UNSET


class InputField(Struct):
    namespace: str
    name: str
    field: str
    transformations: list[Transformation] | UnsetType | None = UNSET


class OutputField(Struct, rename="camel"):
    input_fields: list[InputField]
    transformation_type: str | UnsetType | None = UNSET
    transformation_description: str | UnsetType | None = UNSET


class ColumnLineageFacet(Struct):
    fields: dict[str, OutputField]
    dataset: list[InputField] | UnsetType | None = UNSET


class SymlinkIdentifier(Struct):
    namespace: str
    name: str
    type: str


class SymlinksFacet(Struct):
    identifiers: list[SymlinkIdentifier] | UnsetType = UNSET


class DatasetTypeFacet(Struct, rename="camel"):
    dataset_type: str


class LifecycleFacet(Struct, rename="camel"):
    lifecycle_state_change: str
    previous_identifier: JobRef | UnsetType | None = UNSET


class StatisticsFacet(Struct, rename="camel", gc=False):
    row_count: Count | UnsetType | None = UNSET
    size: Count | UnsetType | None = UNSET
    bytes: Count | UnsetType | None = UNSET
    file_count: Count | UnsetType | None = UNSET
    partition_count: Count | UnsetType | None = UNSET
    column_metrics: dict[str, dict[str, Any]] | UnsetType | None = UNSET


class TestDetail(Struct, kw_only=True, rename={"content_type": "contentType"}):
    """What both forms of a test result may add."""

    severity: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    expected: str | UnsetType | None = UNSET
    actual: str | UnsetType | None = UNSET
    content: str | UnsetType | None = UNSET
    content_type: str | UnsetType | None = UNSET
    params: dict[str, Any] | UnsetType | None = UNSET


class Assertion(TestDetail, kw_only=True):
    assertion: str
    success: bool
    column: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET


class Expectation(Struct, rename="camel"):
    """An assertion as the Great Expectations integration spells it."""

    success: bool
    expectation_type: str | UnsetType | None = UNSET
    assertion: str | UnsetType | None = UNSET
    column: str | UnsetType | None = UNSET


class ExpectationsFacet(Struct):
    assertions: list[Expectation]


class AssertionsFacet(Struct):
    assertions: list[Assertion]


class TestExecution(TestDetail, kw_only=True):
    name: str
    status: str
    type: str | UnsetType | None = UNSET


class TestFacet(Struct):
    tests: list[TestExecution]


class LineageInput(Struct):
    namespace: str
    name: str
    type: str | UnsetType | None = UNSET
    field: str | UnsetType | None = UNSET


class LineageEntry(Struct):
    namespace: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    inputs: list[LineageInput] | UnsetType | None = UNSET


class LineageFacet(Struct):
    """Both the job's form (entries) and the dataset's (inputs)."""

    entries: list[LineageEntry] | UnsetType = UNSET
    inputs: list[LineageInput] | UnsetType = UNSET


class ApplicationFacet(Struct, rename="camel"):
    application_id: str | UnsetType | None = UNSET


class ExecutionFacet(Struct, rename="camel"):
    metrics: dict[str, Any] | UnsetType = UNSET
    executor_memory_mb: Count | UnsetType | None = UNSET
    executor_cores: Count | UnsetType | None = UNSET
    application_id: str | UnsetType | None = UNSET


class StagesFacet(Struct, rename="camel"):
    stages: list[dict[str, Any]]
    application_id: str | UnsetType | None = UNSET


class PartitionFacet(Struct):
    key: str | UnsetType | None = UNSET
    context: dict[str, Any] | UnsetType | None = UNSET


class LocationFacet(Struct):
    location: str | UnsetType | None = UNSET


class OriginFacet(Struct, rename="camel"):
    run_id: UUID
    client_hash: str | UnsetType | None = UNSET


class StagesValue(NamedTuple):
    """Stage costs, read: one row a stage attempt."""

    rows: tuple[dict[str, Any], ...]
    application_id: str | UnsetType | None


class SchemaValue(NamedTuple):
    """A schema facet, read: its columns in order and their hash."""

    fields: tuple[Field, ...]
    hash: bytes


_STRUCTS: Mapping[str, type[Struct]] = {
    "parent": ParentFacet,
    "errorMessage": ErrorFacet,
    "test": TestFacet,
    "jobType": JobTypeFacet,
    "schema": SchemaFacet,
    "columnLineage": ColumnLineageFacet,
    "symlinks": SymlinksFacet,
    "datasetType": DatasetTypeFacet,
    "lifecycleStateChange": LifecycleFacet,
    "outputStatistics": StatisticsFacet,
    "inputStatistics": StatisticsFacet,
    "dataQualityMetrics": StatisticsFacet,
    "dataQualityAssertions": AssertionsFacet,
    "greatExpectations_assertions": ExpectationsFacet,
    "lineage": LineageFacet,
    "spark_applicationDetails": ApplicationFacet,
    "headgate_execution": ExecutionFacet,
    "headgate_stages": StagesFacet,
    "headgate_partition": PartitionFacet,
    "headgate_location": LocationFacet,
    "headgate_origin": OriginFacet,
    "headgate_anomalies": AnomaliesFacet,
    **PIPELINE_FACETS,
}


# Measurements: no two are alike, so remembering them would only push out what repeats.
_UNREPEATED = frozenset(
    {"outputStatistics", "inputStatistics", "dataQualityMetrics", "headgate_anomalies", *PIPELINE_FACETS}
)


class Facet(Struct, frozen=True, eq=False, gc=False):
    """What is known of one facet: its bytes, its base fields, and its value where we understand it."""

    body: bytes
    has_base: bool
    deleted: bool
    is_object: bool
    value: Any
    invalid: bool

    @property
    def digest(self) -> bytes:
        """Eight bytes that stand for the body."""
        return hashlib.blake2b(self.body, digest_size=8).digest()


class FacetReader:
    """Parses facet bodies, each distinct one once."""

    def __init__(self, *, max_entries: int = 8192, max_body: int = 32_768) -> None:
        self._max_entries = max_entries
        self._max_body = max_body
        self._known: dict[tuple[str, bytes], Facet] = {}
        self._bases = msgspec.json.Decoder(_Base)
        self._decoders: dict[str, Callable[[bytes], Any]] = {
            name: msgspec.json.Decoder(struct).decode for name, struct in _STRUCTS.items()
        }

    def read_all(self, facets: dict[str, Any]) -> bool:
        """Put what is known of each body in its place; whether all of them have their base fields."""
        known = self._known
        complete = True
        for name, raw in facets.items():
            body = bytes(raw)
            facet = known.get((name, body)) or self._learn(name, body)
            facets[name] = facet
            if not facet.has_base:
                complete = False
        return complete

    def _learn(self, name: str, body: bytes) -> Facet:
        found = self._parse(name, body)
        if name not in _UNREPEATED and len(body) <= self._max_body:
            if len(self._known) >= self._max_entries:
                self._known.clear()
            self._known[(name, body)] = found
        return found

    def _parse(self, name: str, body: bytes) -> Facet:
        try:
            base = self._bases.decode(body)
        except msgspec.ValidationError:
            return Facet(body, False, False, body[:1] == b"{", None, name in _STRUCTS)
        has_base = are_uris(base.producer, base.schema_url)
        deleted = base.deleted is True
        decode = self._decoders.get(name)
        if decode is None or deleted:
            return Facet(body, has_base, deleted, True, None, False)
        try:
            value = decode(body)
            return Facet(body, has_base, False, True, _finish(value), False)
        except (msgspec.ValidationError, msgspec.DecodeError, ValueError, RecursionError):
            return Facet(body, has_base, False, True, None, True)


def is_uri(value: object) -> bool:
    """Whether a value is an absolute URI, as `producer` and `schemaURL` must be."""
    return isinstance(value, str) and _URI.match(value) is not None


def are_uris(one: object, other: object) -> bool:
    """Whether both are absolute URIs. Few differ from event to event, so the answer is remembered for short ones."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    return _are_uris(one, other) if len(one) + len(other) < 1000 else is_uri(one) and is_uri(other)


@lru_cache(maxsize=4096)
def _are_uris(one: str, other: str) -> bool:
    return is_uri(one) and is_uri(other)


def _finish(value: Any) -> Any:
    if isinstance(value, SchemaFacet):
        return _read_schema(value)
    if isinstance(value, ExpectationsFacet):
        return _read_expectations(value)
    if isinstance(value, StagesFacet):
        return StagesValue(tuple(stage_row(stage) for stage in value.stages), value.application_id)
    if isinstance(value, ExecutionFacet):
        sizes = {"executor_memory_mb": value.executor_memory_mb, "executor_cores": value.executor_cores}
        return StagesValue((execution_totals(value.metrics or {}, **sizes),), value.application_id)
    return value


def _read_expectations(facet: ExpectationsFacet) -> AssertionsFacet:
    found = []
    for item in facet.assertions:
        name = item.expectation_type or item.assertion
        if not isinstance(name, str):
            raise ValueError("an assertion has no type")
        found.append(Assertion(assertion=name, success=item.success, column=item.column))
    return AssertionsFacet(found)


def _read_schema(facet: SchemaFacet) -> SchemaValue | None:
    fields: list[Field] = []
    _flatten(facet.fields or (), "", fields)
    if not fields:
        return None
    return SchemaValue(tuple(fields), schema_hash(fields))


def _flatten(fields: Any, prefix: str, into: list[Field]) -> None:
    for field in fields:
        if len(into) >= MAX_NESTED_FIELDS:
            raise ValueError("too many fields")
        name = f"{prefix}{field.name}"
        nullable = field.nullable if isinstance(field.nullable, bool) else True
        into.append(Field(name, field.type or "", nullable, field.description or None))
        _flatten(field.fields or (), f"{name}.", into)
