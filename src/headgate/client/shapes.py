"""Answers of the server as values. Fields that a newer server adds are ignored."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

import httpx
import msgspec

from headgate.client.http import decoded

T = TypeVar("T")
Json = dict[str, Any]


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; `next_cursor` is None on the last one."""

    items: list[T]
    next_cursor: str | None = None


class Job(msgspec.Struct, frozen=True):
    id: UUID
    namespace: str
    name: str


class DatasetRef(msgspec.Struct, frozen=True):
    """Which dataset."""

    id: UUID
    namespace: str
    name: str
    urn: str
    display_name: str
    type: str | None


class Dataset(DatasetRef, frozen=True):
    """A dataset in a list; `dataset` gives all that is known of one."""

    description: str | None
    owners: list[str]
    tags: list[str]
    last_updated: datetime | None
    row_count: int | None
    downstream_count: int
    upstream_count: int
    external: bool
    has_incident: bool


class Node(DatasetRef, frozen=True):
    """A dataset in a lineage graph; `depth` is its distance from the root."""

    depth: int
    external: bool


class ColumnStep(msgspec.Struct, frozen=True):
    """A column that goes into another; the target is None when it is the whole dataset."""

    source: str
    target: str | None
    label: str
    expression: str | None


class Edge(msgspec.Struct, frozen=True):
    source: UUID
    target: UUID
    job: Job
    last_seen_at: datetime
    completed: bool
    columns: list[ColumnStep] | None


class Lineage(msgspec.Struct, frozen=True):
    """A part of the lineage graph; `hidden` counts what was left out of it."""

    root: UUID
    nodes: list[Node]
    edges: list[Edge]
    truncated: bool
    hidden: int


class ColumnRef(msgspec.Struct, frozen=True):
    dataset_id: UUID
    namespace: str
    name: str
    column: str | None


class Kind(msgspec.Struct, frozen=True):
    type: str
    subtype: str | None


class ColumnEdge(msgspec.Struct, frozen=True):
    source: ColumnRef
    target: ColumnRef
    kinds: list[Kind]
    label: str
    expression: str | None
    job: Job


class ColumnLineage(msgspec.Struct, frozen=True):
    edges: list[ColumnEdge]
    truncated: bool


class SchemaField(msgspec.Struct, frozen=True):
    name: str
    type: str | None
    nullable: bool | None
    description: str | None


class SchemaVersion(msgspec.Struct, frozen=True):
    version: int
    fields: list[SchemaField]
    valid_from: datetime
    valid_to: datetime | None
    change_type: str
    description: str
    breaking: bool


class SchemaChange(msgspec.Struct, frozen=True):
    """A version in the history of a schema."""

    version: int
    summary: str
    change_type: str
    breaking: bool
    valid_from: datetime
    valid_to: datetime | None


def page_of(shape: type[T]) -> Callable[[httpx.Response], Page[T]]:
    """Reads a page of items of this shape."""
    return lambda response: decoded(response, Page[shape])  # type: ignore[valid-type]


def value_of(shape: type[T]) -> Callable[[httpx.Response], T]:
    """Reads one value of this shape."""
    return lambda response: decoded(response, shape)
