"""Shapes of freshness in requests and answers. Every field of an answer is always there."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from headgate.server.bodies import Body
from headgate.server.shapes import DatasetRefOut

MAX_SLA_HOURS = 87_600


class FreshnessIn(Body):
    sla_hours: Annotated[float, Field(strict=True, gt=0, le=MAX_SLA_HOURS, allow_inf_nan=False)]


class FreshnessOut(BaseModel):
    """How fresh a dataset is to be, and is. Without an SLA the rhythm of its writes says when the next is due."""

    dataset: DatasetRefOut
    sla_hours: float | None
    source: str | None
    last_updated: datetime | None
    is_stale: bool
    expected_by: datetime | None
    expected_from: str | None
