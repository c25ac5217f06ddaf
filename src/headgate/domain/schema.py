"""Schemas of datasets: their hash, and what changed between two of them."""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from headgate.domain.datatype import is_alike, is_same, widens

# Events nest no deeper; a name with more dots than this is just a name with dots.
_MAX_STEPS = 64
_MAX_PARTS = 8
_MAX_TYPE = 60


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
    """What differs between two schemas, and whether readers of the old one can break.

    Of the changed types, `misread` are those that do not hold all that the old ones did, and `respelled` those that
    only have another name.
    """

    type: ChangeType
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    type_changed: tuple[str, ...] = ()
    misread: tuple[str, ...] = ()
    respelled: tuple[str, ...] = ()
    tightened: tuple[str, ...] = ()
    loosened: tuple[str, ...] = ()
    reordered: bool = False
    description: str = ""

    @property
    def breaking(self) -> bool:
        return bool(self.removed or self.misread or self.tightened)

    @property
    def is_respelling(self) -> bool:
        """Whether nothing is other than before but what types are called."""
        other = self.added or self.removed or self.tightened or self.loosened or self.reordered
        return bool(self.respelled) and not other and self.respelled == self.type_changed


NOTHING = "nothing changed"
INITIAL = Change(ChangeType.INITIAL, description="first schema seen")


def schema_hash(fields: Sequence[Field]) -> bytes:
    """SHA-256 over `name:type:nullable` joined by `|`: order counts, comments do not.

    >>> schema_hash([Field("id", "int", False), Field("name", "string"), Field("age", "int", False)]).hex()[:8]
    '402f1dd6'
    """
    text = "|".join(f"{f.name}:{f.type}:{'true' if f.nullable else 'false'}" for f in fields)
    return hashlib.sha256(text.encode()).digest()


def is_same_schema(old: Sequence[Field], new: Sequence[Field], *, as_spelled: bool) -> bool:
    """Whether two schemas say the same. Case and blanks of types never count, their spelling only if it is asked for.

    Two engines may write one table and call its types by other names; one that calls them otherwise than before
    has changed them.
    """
    alike = is_alike if as_spelled else is_same
    return len(old) == len(new) and all(
        (a.name, a.nullable) == (b.name, b.nullable) and alike(a.type, b.type) for a, b in zip(old, new, strict=True)
    )


def diff(old: Sequence[Field], new: Sequence[Field]) -> Change:
    """What happened to turn `old` into `new`."""
    before = {f.name: f for f in old}
    after = {f.name: f for f in new}
    both = [name for name in after if name in before]
    added = tuple(name for name in after if name not in before)
    removed = tuple(name for name in before if name not in after)
    type_changed = tuple(name for name in both if not is_alike(before[name].type, after[name].type))
    misread = tuple(name for name in type_changed if not widens(before[name].type, after[name].type))
    respelled = tuple(name for name in type_changed if is_same(before[name].type, after[name].type))
    tightened = tuple(name for name in both if before[name].nullable and not after[name].nullable)
    loosened = tuple(name for name in both if not before[name].nullable and after[name].nullable)
    reordered = both != [name for name in before if name in after]
    kinds = [
        kind
        for kind, is_so in (
            (ChangeType.ADDED_COLUMN, added),
            (ChangeType.DROPPED_COLUMN, removed),
            (ChangeType.TYPE_CHANGE, type_changed),
            (ChangeType.NULLABILITY, tightened + loosened),
            (ChangeType.REORDERED, reordered),
        )
        if is_so
    ]
    # Schemas that differ only in columns that repeat a name have to be called something.
    change_type = ChangeType.MIXED if len(kinds) > 1 else kinds[0] if kinds else ChangeType.REORDERED
    change = Change(change_type, added, removed, type_changed, misread, respelled, tightened, loosened, reordered)
    return replace(change, description=_describe(before, after, change))


def widened(known: Sequence[Field], reading: Sequence[Field]) -> tuple[Field, ...]:
    """What is known of a schema after one more reader.

    Readers may leave columns out and forget what must not be null, so they only add columns and change types.
    """
    types = {f.name: f for f in reading}
    names = {f.name for f in known}
    kept = (f if is_same(types.get(f.name, f).type, f.type) else types[f.name] for f in known)
    return (*kept, *(f for f in reading if f.name not in names))


def _describe(before: dict[str, Field], after: dict[str, Field], change: Change) -> str:
    parts = []
    if change.added:
        parts.append(f"added {_names(change.added)}")
    if change.removed:
        parts.append(f"removed {_names(change.removed)}")
    retyped = change.type_changed[:20]
    parts.extend(f"'{name}' changed from {before[name].type} to {after[name].type}" for name in retyped)
    if change.tightened:
        parts.append(f"no longer nullable: {_names(change.tightened)}")
    if change.loosened:
        parts.append(f"now nullable: {_names(change.loosened)}")
    if change.reordered:
        parts.append("columns in another order")
    return "; ".join(parts) or NOTHING


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


class FieldChange(StrEnum):
    """What became of one field, the weightiest first."""

    ADDED = "added"
    REMOVED = "removed"
    TYPE = "type"
    NULLABILITY = "nullability"
    MOVED = "moved"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One field of two schemas, with its places in them, counted from 1."""

    name: str
    before: Field | None
    after: Field | None
    before_position: int | None
    after_position: int | None
    is_moved: bool

    @property
    def changes(self) -> tuple[FieldChange, ...]:
        """Everything that became of it."""
        if self.before is None:
            return (FieldChange.ADDED,)
        if self.after is None:
            return (FieldChange.REMOVED,)
        told = (
            (FieldChange.TYPE, not is_alike(self.before.type, self.after.type)),
            (FieldChange.NULLABILITY, self.before.nullable != self.after.nullable),
            (FieldChange.MOVED, self.is_moved),
        )
        return tuple(change for change, is_so in told if is_so) or (FieldChange.UNCHANGED,)

    @property
    def breaks(self) -> tuple[FieldChange, ...]:
        """Those of its changes that readers of the old schema can break on."""
        return tuple(change for change in self.changes if self._is_breaking(change))

    def _is_breaking(self, change: FieldChange) -> bool:
        if self.before is None or self.after is None:
            return change is FieldChange.REMOVED
        if change is FieldChange.TYPE:
            return not widens(self.before.type, self.after.type)
        return change is FieldChange.NULLABILITY and self.before.nullable


def compare(old: Sequence[Field], new: Sequence[Field]) -> tuple[FieldDiff, ...]:
    """Every field of either schema: those of the new one in order, removed ones where they used to stand."""
    before = {f.name: (f, place) for place, f in enumerate(old, start=1)}
    after = {f.name: (f, place) for place, f in enumerate(new, start=1)}
    moved = moved_names(list(before), list(after))
    nowhere = (None, None)

    def one(name: str) -> FieldDiff:
        (was, was_at), (is_, is_at) = before.get(name, nowhere), after.get(name, nowhere)
        return FieldDiff(name, was, is_, was_at, is_at, name in moved)

    gone: dict[str | None, list[str]] = {}
    last: str | None = None
    for name in before:
        if name in after:
            last = name
        else:
            gone.setdefault(last, []).append(name)
    names = list(gone.get(None, ()))
    for name in after:
        names += [name, *gone.get(name, ())]
    return tuple(one(name) for name in names)


def moved_names(before: Sequence[str], after: Sequence[str]) -> frozenset[str]:
    """The fewest names that have to move to bring those that both have from one order into the other."""
    places = {name: place for place, name in enumerate(before)}
    common = [name for name in after if name in places]
    # The longest run of names that keep their order stays (patience sorting); the others move.
    ends: list[int] = []
    chains: list[tuple[str, Any]] = []
    for name in common:
        length = bisect_left(ends, places[name])
        chain = (name, chains[length - 1] if length else None)
        ends[length : length + 1] = [places[name]]
        chains[length : length + 1] = [chain]
    stays: set[str] = set()
    link = chains[-1] if chains else None
    while link is not None:
        stays.add(link[0])
        link = link[1]
    return frozenset(common) - stays


def last_changes(versions: Sequence[tuple[int, Sequence[Field]]]) -> dict[tuple[str, FieldChange], int]:
    """In which version each field last changed in each way, given numbered schemas in order."""
    found: dict[tuple[str, FieldChange], int] = {}
    for (_, before), (number, after) in pairwise(versions):
        found |= {(item.name, change): number for item in compare(before, after) for change in item.changes}
    return found


def path_of(name: str, names: Container[str]) -> tuple[str, ...]:
    """The steps of a nested field's dotted name. A dot parts steps only below a field that exists.

    >>> path_of("address.street", {"address", "address.street"}), path_of("a.b", {"a.b"})
    (('address', 'street'), ('a.b',))
    """
    if name.count(".") > _MAX_STEPS:
        return (name,)
    dots = [place for place, character in enumerate(name) if character == "." and name[:place] in names]
    begins, ends = [0, *(dot + 1 for dot in dots)], [*dots, len(name)]
    return tuple(name[begin:end] for begin, end in zip(begins, ends, strict=True))


def summary(old: Sequence[Field] | None, new: Sequence[Field]) -> str:
    """A change in a few words, as in a list of versions.

    >>> summary([Field("id", "int")], [Field("id", "int"), Field("loyalty_tier", "string")])
    '+loyalty_tier (new column)'
    """
    if old is None:
        count = column_count(new)
        return f"Initial schema ({count} column{'' if count == 1 else 's'})"
    before, after = {f.name: f for f in old}, {f.name: f for f in new}
    change = diff(old, new)
    parts: list[tuple[str, str | None]] = [
        *((f"+{name}", "new column") for name in _outermost(change.added, after)),
        *((f"-{name}", "removed") for name in _outermost(change.removed, before)),
        *((f"{n}: {_type(before[n])}→{_type(after[n])}", "type change") for n in change.type_changed),
        *((f"{name}: nullable→not null", "nullability") for name in change.tightened),
        *((f"{name}: not null→nullable", "nullability") for name in change.loosened),
        *([("columns reordered", None)] if change.reordered else []),
    ]
    if len(parts) == 1:
        text, kind = parts[0]
        return text if kind is None else f"{text} ({kind})"
    shown = ", ".join(text for text, _ in parts[:_MAX_PARTS])
    return shown + (f" and {len(parts) - _MAX_PARTS} more" if len(parts) > _MAX_PARTS else "") or NOTHING


def column_count(fields: Sequence[Field]) -> int:
    """How many columns there are; what is nested in one is a part of it."""
    names = {f.name for f in fields}
    return sum(len(path_of(name, names)) == 1 for name in names)


def _outermost(names: Sequence[str], known: Container[str]) -> list[str]:
    """Without those nested in another of them."""
    among = set(names)
    return [name for name in names if not any(parent in among for parent in parents_of(name, known))]


def parents_of(name: str, names: Container[str]) -> list[str]:
    """The fields that a nested one lies in, outermost first."""
    steps = path_of(name, names)
    return [".".join(steps[:depth]) for depth in range(1, len(steps))]


def _type(field: Field) -> str:
    text = field.type or "unknown"
    return text if len(text) <= _MAX_TYPE else text[: _MAX_TYPE - 1] + "…"
