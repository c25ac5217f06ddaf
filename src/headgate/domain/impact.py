"""What a change downstream of a dataset or column amounts to: how critical it is, and whose pipelines it hits.

Knows nothing of how the reach was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


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


def criticality(datasets: int, columns: int) -> Criticality:
    """How critical a change is that reaches so many datasets, or so many columns.

    >>> criticality(3, 1).value
    'HIGH'
    """
    reached = (grade for grade, least, columns_least in _GRADES if datasets >= least or columns >= columns_least)
    return next(reached, Criticality.LOW)


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
