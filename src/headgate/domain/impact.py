"""What a change amounts to downstream: which tables it hits for sure, how critical it is, whose pipelines they are.

Knows nothing of how the reach was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID


class Criticality(StrEnum):
    CRITICAL = "CRITICAL"
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


_GRADES = (
    (Criticality.CRITICAL, 5, 10),
    (Criticality.HIGH, 3, 5),
    (Criticality.MEDIUM, 2, 3),
)


class Affected(NamedTuple):
    """How a table is reached. `reads_column` is None where no column lineage tells."""

    depth: int
    reads_column: bool | None = None
    columns: tuple[str, ...] = ()

    @property
    def certainty(self) -> str:
        return "table" if self.reads_column is None else "column"


def criticality(datasets: int, columns: int) -> Criticality:
    """How critical a change is that reaches so many datasets, or so many columns.

    >>> criticality(3, 1).value
    'HIGH'
    """
    reached = (grade for grade, least, columns_least in _GRADES if datasets >= least or columns >= columns_least)
    return next(reached, Criticality.LOW)


def judged(
    downstream: Mapping[UUID, int], sure: Mapping[UUID, Affected], possible: Mapping[UUID, Affected]
) -> dict[UUID, Affected]:
    """Each table with what is known of it: what column lineage shows, what it leaves open, what it rules out."""
    ruled_out = {dataset: Affected(depth, reads_column=False) for dataset, depth in downstream.items()}
    readings = (ruled_out, possible, sure)
    found = {dataset: table for reading in readings for dataset, table in reading.items()}
    return {
        dataset: table._replace(depth=min(reading[dataset].depth for reading in readings if dataset in reading))
        for dataset, table in found.items()
    }


def pipeline_of(job: str, parent: str | None = None, root: str | None = None) -> str:
    """The pipeline that a job belongs to: what started it, else what its name begins with, else itself.

    >>> pipeline_of("silver_pipeline.dedupe_customers")
    'silver_pipeline'
    """
    return root or parent or job.rpartition(".")[0] or job


def owners_in(facet: object) -> list[str]:
    """Names in an ownership facet, in its order, each once. A facet that is not shaped like one names nobody."""
    owners = facet.get("owners") if isinstance(facet, Mapping) else None
    names = [_name(owner) for owner in owners] if isinstance(owners, list) else []
    return list(dict.fromkeys(name for name in names if name))


def _name(owner: Any) -> str:
    name = owner.get("name") if isinstance(owner, Mapping) else None
    return name.strip() if isinstance(name, str) else ""
