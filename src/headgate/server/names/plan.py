"""What an alias rule would do to the datasets that exist: which of them become one, and which get another name.

Works on names and ids alone; reading them and carrying the plan out is the store's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from headgate.domain.names import (
    MAX_NAME_BYTES,
    AliasRule,
    Patterns,
    apply_rules,
    canonical_dataset,
    canonical_urn,
)
from headgate.errors import ConfigError, FieldError, InvalidFields

Name = tuple[str, str]

_VARIABLE = re.compile(r"\{[^{}]*\}")


class Kind(StrEnum):
    merge = "merge"  # the target is another dataset: the two become one
    rename = "rename"  # the target becomes the dataset's own name
    alias = "alias"  # only another of the dataset's names fits: the target leads to it too


class Match(NamedTuple):
    """A name that the rule maps, and to what."""

    dataset_id: UUID
    name: Name
    is_primary: bool
    target: Name
    target_display: str


class Change(NamedTuple):
    kind: Kind
    match: Match
    other_id: UUID | None


def new_rule(pattern: str, canonical: str) -> AliasRule:
    """The rule, if it can work; otherwise which of the two texts is wrong and what to do about it."""
    _checked(pattern, "fine/fine", "pattern", pattern)
    rule = _checked(pattern, canonical, "canonical", canonical)
    sample = canonical_urn(_VARIABLE.sub("x", canonical))
    again = rule.target(sample, sample)
    if again is not None and canonical_urn(again) != sample:
        raise InvalidFields(
            [FieldError("canonical", f"its result {sample!r} fits the pattern and would become {again!r}")],
            hint="narrow the pattern, so that it does not fit what the rule makes",
        )
    return rule


def _checked(pattern: str, canonical: str, path: str, value: str) -> AliasRule:
    try:
        return AliasRule(pattern, canonical)
    except ConfigError as error:
        raise InvalidFields([FieldError(path, error.message, value)], hint=error.hint) from error


def matches(
    names: Iterable[tuple[UUID, str, str, bool]],
    rule: AliasRule,
    earlier: Sequence[AliasRule],
    patterns: Patterns,
) -> Iterator[Match]:
    """The names that the rule maps to something else, unless an earlier rule takes them."""
    for dataset_id, namespace, name, is_primary in names:
        urn = f"{namespace}/{name}"
        if rule.target(urn, urn) is None or any(other.target(urn, urn) for other in earlier):
            continue
        target = apply_rules((namespace, name), [rule], patterns)
        if target is not None and target != (namespace, name):
            display = canonical_dataset(*target, patterns).display_name
            yield Match(dataset_id, (namespace, name), is_primary, _storable(target), display)


def _storable(target: Name) -> Name:
    if len("".join(target).encode()) > MAX_NAME_BYTES:
        raise InvalidFields(
            [FieldError("canonical", f"makes a name of more than {MAX_NAME_BYTES} bytes", "/".join(target)[:120])],
            hint="use a shorter name, or narrow the pattern",
        )
    return target


class Groups:
    """Which datasets become one."""

    def __init__(self) -> None:
        self._leads_to: dict[UUID, UUID] = {}

    def of(self, dataset_id: UUID) -> UUID:
        while dataset_id in self._leads_to:
            dataset_id = self._leads_to[dataset_id]
        return dataset_id

    def join(self, one: UUID, other: UUID) -> bool:
        """Whether this made two groups one."""
        first, second = self.of(one), self.of(other)
        if first != second:
            self._leads_to[first] = second
        return first != second


def plan(found: Iterable[Match], holders: Mapping[Name, UUID]) -> list[Change]:
    """What to do, in order. `holders` tells which dataset a target leads to already.

    Datasets that fit by their own name come first: the first of them names what the others join.
    """
    leads_to = dict(holders)
    groups = Groups()
    changes: list[Change] = []
    for match in sorted(found, key=lambda match: (not match.is_primary, match.name)):
        holder = leads_to.get(match.target)
        if holder is None:
            leads_to[match.target] = match.dataset_id
            changes.append(Change(Kind.rename if match.is_primary else Kind.alias, match, None))
        elif groups.join(match.dataset_id, holder):
            changes.append(Change(Kind.merge, match, holder))
        elif match.is_primary:
            changes.append(Change(Kind.rename, match, None))
    return changes


class Orphan(NamedTuple):
    """A dataset with test results and no producer, and the name under which it gets one."""

    dataset_id: UUID
    name: Name
    target: Name


def orphans_fixed(changes: Iterable[Change], written: set[UUID], tested: set[UUID]) -> list[Orphan]:
    """The datasets with test results but no producer that become one with a dataset that has one."""
    groups = Groups()
    named: dict[UUID, Orphan] = {}
    for change in changes:
        if change.other_id is not None:
            match = change.match
            groups.join(match.dataset_id, change.other_id)
            named[match.dataset_id] = Orphan(match.dataset_id, match.name, match.target)
            named.setdefault(change.other_id, Orphan(change.other_id, match.target, match.target))
    produced = {groups.of(member) for member in named.keys() & written}
    orphans = named.keys() & tested - written
    return sorted((named[each] for each in orphans if groups.of(each) in produced), key=lambda orphan: orphan.name)
