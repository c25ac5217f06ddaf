"""Shape of a graph around a job. Every field is always there."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel

from headgate.server.shapes import JobOut


class JobTreeOut(JobOut):
    """A job and the jobs whose runs are part of its runs."""

    job_type: str | None
    integration: str | None
    children: list[JobTreeOut]


class GraphNodeOut(BaseModel):
    """A job or a dataset; `depth` is how many jobs away it is, `children` what was rolled up into a job."""

    id: UUID
    kind: str
    namespace: str
    name: str
    urn: str
    display_name: str
    type: str | None
    integration: str | None
    depth: int
    external: bool
    children: list[JobTreeOut]


class GraphEdgeOut(BaseModel):
    """`writes` leads from a job to a dataset, `reads` from a dataset to a job, `contains` from a job to its part."""

    source: UUID
    target: UUID
    kind: str
    last_seen_at: datetime | None


class JobGraphOut(BaseModel):
    root: UUID
    nodes: list[GraphNodeOut]
    edges: list[GraphEdgeOut]
    hierarchy: JobTreeOut
    parents: list[JobOut]
    truncated: bool
    hidden: int
