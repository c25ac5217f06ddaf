"""Shapes that answers of several slices share. Every field is always there."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel


class DatasetRefOut(BaseModel):
    """Which dataset: enough to show it and to ask for more."""

    id: UUID
    namespace: str
    name: str
    urn: str
    display_name: str
    type: str | None


class JobOut(BaseModel):
    """Which job."""

    id: UUID
    namespace: str
    name: str
