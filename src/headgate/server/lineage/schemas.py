"""Shapes of lineage in answers. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from headgate.domain.lineage import Label
from headgate.server.shapes import DatasetRefOut, JobOut


class NodeOut(DatasetRefOut):
    depth: int = Field(description="Fewest steps from the root")
    external: bool = Field(description="No job is known to write it")


class EdgeKindOut(BaseModel):
    type: Literal["DIRECT", "INDIRECT"]
    subtype: str | None


class EdgeColumnOut(BaseModel):
    source: str
    target: str | None = Field(description="Null where the source column influences the whole dataset")
    label: Label
    kinds: list[EdgeKindOut]
    expression: str | None


class EdgeOut(BaseModel):
    source: UUID
    target: UUID
    job: JobOut
    last_seen_at: datetime
    completed: bool = Field(description="False while only failed or unfinished runs have shown this edge")
    columns: list[EdgeColumnOut] | None = Field(description="Null unless asked for with `columns=true`")


class LineageOut(BaseModel):
    root: UUID
    nodes: list[NodeOut]
    edges: list[EdgeOut]
    truncated: bool = Field(description="Whether anything known was left out")
    hidden: int = Field(description="How many datasets next to those shown are known and left out")


class NeighbourOut(NodeOut):
    hidden_up: int = Field(description="Direct sources of this dataset that are not shown")
    hidden_down: int = Field(description="Direct targets of this dataset that are not shown")


class NeighbourhoodOut(BaseModel):
    root: UUID
    nodes: list[NeighbourOut]
    edges: list[EdgeOut]
    truncated: bool
    hidden: int


class StepOut(BaseModel):
    source: UUID
    target: UUID
    jobs: list[JobOut]
    last_seen_at: datetime


class PathOut(BaseModel):
    length: int
    nodes: list[NodeOut]
    edges: list[StepOut]


class PathsOut(BaseModel):
    from_: UUID = Field(alias="from")
    to: UUID
    paths: list[PathOut] = Field(description="Shortest first")
    truncated: bool = Field(description="Whether there may be more")


class MapOut(BaseModel):
    """Columns of one table of datasets: the same place in each array is the same dataset."""

    total: int = Field(description="Datasets there are, shown or not")
    truncated: bool
    namespaces: list[str] = Field(description="What `namespace` counts in")
    types: list[str] = Field(description="What `type` counts in")
    ids: list[UUID]
    names: list[str]
    namespace: list[int]
    type: list[int | None]
    ranks: list[int] = Field(description="Layer: edges lead to a higher one, unless they close a cycle")
    status: list[str] = Field(description="ok, failing, stale or unknown")
    edges: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(
        description="Pairs of places, source first"
    )
