"""Finds the dataset that a caller means: by id, urn, bare name or the name it is shown under.

Any spelling that a producer ever sent leads to its dataset: it is read as ingest reads it, under the organisation's
alias rules and name patterns. What several datasets answer to is a conflict that
names them; what none answers to is not found, with the names that come nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, NamedTuple
from uuid import UUID

import msgspec
from fastapi import Path

from headgate.domain.names import (
    DEFAULT_PATTERNS,
    AliasRule,
    Patterns,
    apply_rules,
    canonical_dataset,
    compile_rules,
    split_urn,
)
from headgate.errors import ConfigError, Conflict, NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.references.ids import as_id
from headgate.server.references.nearest import nearest_datasets
from headgate.server.shapes import DatasetRefOut

Q = Queries("headgate.server.references")

MAX_SHOWN = 10
_MAX_CUTS = 50

DatasetRef = Annotated[
    str,
    Path(
        description="Id, percent-encoded urn, bare name, or `bucket:name`",
        min_length=1,
        max_length=4000,
        examples=["postgres%3A%2F%2Fshop-db%2Fshop.public.orders"],
    ),
]


class Dataset(NamedTuple):
    """A dataset that exists."""

    id: UUID
    namespace: str
    name: str
    display_name: str
    type: str | None

    @property
    def urn(self) -> str:
        return f"{self.namespace}/{self.name}"

    def out(self) -> DatasetRefOut:
        return DatasetRefOut(**self._asdict(), urn=self.urn)


async def find_dataset(conn: Connection, organization_id: UUID, text: str) -> Dataset:
    """The one dataset that `text` means; Conflict if there are several, NotFound if there is none."""
    found = await find_datasets(conn, organization_id, text)
    if len(found) == 1:
        return found[0]
    if found:
        urns = [dataset.urn for dataset in found[:MAX_SHOWN]]
        raise Conflict(
            f"{text!r} means {len(found)} datasets: {', '.join(urns)}",
            hint="give the urn or the id of one of them",
            candidates=[{"id": str(dataset.id), "urn": dataset.urn} for dataset in found[:MAX_SHOWN]],
        )
    raise await unknown_dataset(conn, organization_id, text)


async def find_datasets(conn: Connection, organization_id: UUID, text: str) -> list[Dataset]:
    """Every dataset that `text` may mean, by the first way of reading it that fits any."""
    by_id = as_id(text)
    if by_id is not None:
        rows = await conn.fetch(Q.find_id, organization_id, by_id)
        if rows:
            return _datasets(rows)
    if cuts := split_urn(text)[:_MAX_CUTS]:
        spellings = await spellings_of(conn, organization_id, cuts)
        namespaces, names = [key[0] for key in spellings], [key[1] for key in spellings]
        rows = await conn.fetch(Q.find_names, organization_id, namespaces, names)
        if rows:
            return _datasets(rows[:1])
    for query in (Q.find_bare_name, Q.find_shown_name, Q.find_last_part):
        rows = await conn.fetch(query, organization_id, text.strip())
        if rows:
            return _datasets(rows)
    return []


async def unknown_dataset(conn: Connection, organization_id: UUID, text: str) -> NotFound:
    near = await nearest_datasets(conn, organization_id, text)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "list them at /api/v1/datasets"
    return NotFound(f"no dataset {text!r}", hint=hint, nearest=near)


async def spellings_of(
    conn: Connection, organization_id: UUID, keys: Sequence[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The names under which ingest may have put what is called one of these, in the order to look for them."""
    return _spellings(keys, await _naming(conn, organization_id))


async def spellings_of_urns(conn: Connection, organization_id: UUID, urns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The urns under which ingest may have put each of these, itself left out; text that is none has none."""
    naming = await _naming(conn, organization_id)
    return {urn: _other_urns(urn, naming) for urn in urns}


@dataclass(frozen=True, eq=False)
class _Naming:
    """How an organisation names things; one object for as long as that stays, so that it can be remembered by it."""

    patterns: Patterns
    rules: tuple[AliasRule, ...]


async def _naming(conn: Connection, organization_id: UUID) -> _Naming:
    row = await conn.fetchrow(Q.get_naming, organization_id)
    return _compiled(row["patterns"], row["rules"])


@lru_cache(maxsize=256)
def _compiled(patterns: str, rules: str) -> _Naming:
    try:
        compiled = DEFAULT_PATTERNS.with_own(msgspec.json.decode(patterns))
    except ConfigError:
        # As ingest does: rules that cannot be used leave the defaults standing.
        compiled = DEFAULT_PATTERNS
    return _Naming(compiled, compile_rules((pattern, canonical) for pattern, canonical in msgspec.json.decode(rules)))


def _spellings(cuts: Sequence[tuple[str, str]], naming: _Naming) -> list[tuple[str, str]]:
    """Names to look for, the longest namespace first: where a rule leads, what it is canonically, as it stands."""
    read: dict[tuple[str, str], None] = {}
    for cut in cuts:
        ruled = apply_rules(cut, naming.rules, naming.patterns)
        canonical = canonical_dataset(*cut, naming.patterns)
        for key in (ruled, canonical[:2], cut):
            if key is not None:
                read[key] = None
    return list(read)


@lru_cache(maxsize=4096)
def _other_urns(urn: str, naming: _Naming) -> tuple[str, ...]:
    read = ("/".join(key) for key in _spellings(split_urn(urn)[:_MAX_CUTS], naming))
    return tuple(dict.fromkeys(each for each in read if each != urn))


def _datasets(rows: Sequence[Record]) -> list[Dataset]:
    return [Dataset(**dict(row)) for row in rows]
