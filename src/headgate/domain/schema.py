"""Schemas of datasets: their hash, and what changed between two of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Field:
    """A column. Nested fields are flattened into dotted names by whoever reads the wire."""

    name: str
    type: str
    nullable: bool = True
    description: str | None = None


class ChangeType(StrEnum):
    INITIAL = "INITIAL"
    ADDED_COLUMN = "ADDED_COLUMN"
    DROPPED_COLUMN = "DROPPED_COLUMN"
    TYPE_CHANGE = "TYPE_CHANGE"
    NULLABILITY = "NULLABILITY"
    REORDERED = "REORDERED"
    MIXED = "MIXED"


@dataclass(frozen=True, slots=True)
class Change:
    """What differs between two schemas, and whether readers of the old one can break."""

    type: ChangeType
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    type_changed: tuple[str, ...] = ()
    tightened: tuple[str, ...] = ()
    loosened: tuple[str, ...] = ()
    description: str = ""

    @property
    def breaking(self) -> bool:
        return bool(self.removed or self.type_changed or self.tightened)


INITIAL = Change(ChangeType.INITIAL, description="first schema seen")


def schema_hash(fields: Sequence[Field]) -> bytes:
    """SHA-256 over `name:type:nullable` joined by `|`: order counts, comments do not.

    >>> schema_hash([Field("id", "int", False), Field("name", "string"), Field("age", "int", False)]).hex()[:8]
    '402f1dd6'
    """
    text = "|".join(f"{f.name}:{f.type}:{'true' if f.nullable else 'false'}" for f in fields)
    return hashlib.sha256(text.encode()).digest()


def diff(old: Sequence[Field], new: Sequence[Field]) -> Change:
    """What happened to turn `old` into `new`."""
    before = {f.name: f for f in old}
    after = {f.name: f for f in new}
    both = [name for name in after if name in before]
    added = tuple(name for name in after if name not in before)
    removed = tuple(name for name in before if name not in after)
    type_changed = tuple(name for name in both if before[name].type != after[name].type)
    tightened = tuple(name for name in both if before[name].nullable and not after[name].nullable)
    loosened = tuple(name for name in both if not before[name].nullable and after[name].nullable)
    kinds = [
        kind
        for kind, names in (
            (ChangeType.ADDED_COLUMN, added),
            (ChangeType.DROPPED_COLUMN, removed),
            (ChangeType.TYPE_CHANGE, type_changed),
            (ChangeType.NULLABILITY, tightened + loosened),
        )
        if names
    ]
    change_type = ChangeType.MIXED if len(kinds) > 1 else kinds[0] if kinds else ChangeType.REORDERED
    description = _describe(before, after, added, removed, type_changed, tightened, loosened)
    return Change(change_type, added, removed, type_changed, tightened, loosened, description)


def widened(known: Sequence[Field], reading: Sequence[Field]) -> tuple[Field, ...]:
    """What is known of a schema after one more reader.

    Readers may leave columns out and forget what must not be null, so they only add columns and change types.
    """
    types = {f.name: f for f in reading}
    names = {f.name for f in known}
    kept = (f if types.get(f.name, f).type == f.type else types[f.name] for f in known)
    return (*kept, *(f for f in reading if f.name not in names))


def _describe(
    before: dict[str, Field],
    after: dict[str, Field],
    added: tuple[str, ...],
    removed: tuple[str, ...],
    type_changed: tuple[str, ...],
    tightened: tuple[str, ...],
    loosened: tuple[str, ...],
) -> str:
    parts = []
    if added:
        parts.append(f"added {_names(added)}")
    if removed:
        parts.append(f"removed {_names(removed)}")
    parts.extend(f"'{name}' changed from {before[name].type} to {after[name].type}" for name in type_changed[:20])
    if tightened:
        parts.append(f"no longer nullable: {_names(tightened)}")
    if loosened:
        parts.append(f"now nullable: {_names(loosened)}")
    return "; ".join(parts) or "columns in another order"


def _names(names: tuple[str, ...], most: int = 20) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a schema seen at some time belongs in a history: after `after` versions, replacing none.

    `moves_next` means that it is the schema of the version that follows, which just began earlier.
    """

    after: int
    moves_next: bool = False


def place(history: Sequence[tuple[datetime, bytes]], at: datetime, hash_: bytes) -> Placement | None:
    """Place of a sighting in (valid_from, hash) pairs in time order; None when it tells nothing new.

    Sightings may come late: the history they leave does not depend on their order, as far as the versions
    themselves can tell.
    """
    after = sum(1 for valid_from, _ in history if valid_from <= at)
    if after and history[after - 1][1] == hash_:
        return None
    if after < len(history) and history[after][1] == hash_:
        return Placement(after, moves_next=True)
    return Placement(after)
