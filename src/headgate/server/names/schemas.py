"""Shapes of the names API: alias rules, merges and name patterns."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from headgate.server.bodies import Body
from headgate.server.names.plan import Kind
from headgate.server.names.suggest import Confidence
from headgate.server.shapes import DatasetRefOut

Text = Annotated[str, Field(min_length=1, max_length=500)]
PatternKind = Literal["time", "geo", "region", "environment", "key_value"]


class AliasRuleIn(Body):
    """Every urn that fits `pattern` becomes `canonical`; `{v}` is text without a slash, `{v*}` any text."""

    pattern: Text = Field(examples=["postgresql://{host}/shop.public.{table}"])
    canonical: Text = Field(examples=["postgres://shop-db/shop.public.{table}"])
    position: int | None = Field(default=None, ge=1, le=1_000_000, description="Left out: after all others")


class AliasRuleOut(BaseModel):
    id: UUID
    position: int
    pattern: str
    canonical: str
    created_by: UUID | None
    created_at: datetime


class AliasRulesOut(BaseModel):
    items: list[AliasRuleOut]
    next_cursor: str | None


class ChangeOut(BaseModel):
    """What happens to one dataset. `merge_id` undoes it, and is null in a preview."""

    kind: Kind
    dataset_id: UUID
    urn: str
    target_urn: str
    target_id: UUID | None
    merge_id: UUID | None


class OrphanOut(BaseModel):
    """A dataset with test results that no job writes, and the name under which a job does."""

    dataset_id: UUID
    urn: str
    target_urn: str


class PreviewOut(BaseModel):
    """What a rule does: counts over everything, and the first thousand changes and orphans."""

    total: int
    datasets: int
    merges: int
    renames: int
    aliases: int
    orphans_fixed: int
    truncated: bool
    changes: list[ChangeOut]
    orphans: list[OrphanOut]


class AppliedOut(PreviewOut):
    rule: AliasRuleOut


class ChangedOut(AppliedOut):
    """`undone` counts what the rule had done before it was changed."""

    undone: int


class RuleTextOut(BaseModel):
    """A rule as it can be sent to `POST /aliases`."""

    pattern: str
    canonical: str


class SuggestionOut(BaseModel):
    """A rule, how many tested datasets without a producer it gives one, and the first of them with its producer's."""

    rule: RuleTextOut
    resolves: int
    orphan: DatasetRefOut
    candidate: DatasetRefOut
    confidence: Confidence
    reason: str


class SuggestionsOut(BaseModel):
    items: list[SuggestionOut]
    next_cursor: str | None


class RemovedOut(BaseModel):
    id: UUID
    undone: int


class MergeIn(Body):
    one: UUID
    other: UUID


class MergeOut(BaseModel):
    """A merge; with `kind` rename or alias, a dataset that was given another name."""

    id: UUID
    kind: Kind
    reason: str
    rule_id: UUID | None
    survivor_id: UUID
    survivor_urn: str
    merged_id: UUID
    merged_urn: str
    merged_at: datetime
    undone_at: datetime | None


class MergesOut(BaseModel):
    items: list[MergeOut]
    next_cursor: str | None


class PatternIn(Body):
    regex: Text = Field(description="Matches one whole segment of a path", examples=["[0-9]{8}"])
    kind: PatternKind
    enabled: bool = Field(default=True, description="Whether a trailing segment like this is dropped from names")


class PatternOut(BaseModel):
    name: str
    regex: str
    kind: PatternKind
    enabled: bool
    source: Literal["default", "organization"]


class PatternsOut(BaseModel):
    items: list[PatternOut]
    next_cursor: str | None
