"""What lineage means, whoever stores it: the one word that says how a column came out of another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum


class Label(StrEnum):
    """How a column came to be, in one word."""

    DIRECT = "DIRECT"
    EXPRESSION = "EXPRESSION"
    AGGREGATE = "AGGREGATE"
    JOIN = "JOIN"
    FILTER = "FILTER"
    CASE = "CASE"


# Strongest first: what a value is made of says more than what merely decided about it.
_LABELS: Mapping[tuple[str, str], Label] = {
    ("DIRECT", "AGGREGATION"): Label.AGGREGATE,
    ("DIRECT", "TRANSFORMATION"): Label.EXPRESSION,
    ("DIRECT", "IDENTITY"): Label.DIRECT,
    ("DIRECT", ""): Label.DIRECT,
    ("INDIRECT", "JOIN"): Label.JOIN,
    ("INDIRECT", "FILTER"): Label.FILTER,
    ("INDIRECT", "CONDITIONAL"): Label.CASE,
    ("INDIRECT", "GROUP_BY"): Label.AGGREGATE,
    ("INDIRECT", "WINDOW"): Label.AGGREGATE,
    ("INDIRECT", "SORT"): Label.EXPRESSION,
}
_CASE = re.compile(r"[\s(]*case\b.*\bwhen\b", re.IGNORECASE | re.DOTALL)


def label_of(kinds: Iterable[Mapping[str, object]], expression: str | None) -> Label:
    """The label of a column edge, from the kinds (`type`, `subtype`) it was sent with and its expression.

    A subtype that we do not know still tells that something was done to the value.
    """
    told = {(type_, (subtype or "").upper()) for type_, subtype in kinds_of(kinds)}
    direct = {kind for kind in told if kind[0] == "DIRECT"}
    counted = direct or told or {("DIRECT", "")}
    label = next((label for kind, label in _LABELS.items() if kind in counted), Label.EXPRESSION)
    is_case = label is Label.EXPRESSION and bool(direct) and expression is not None and _CASE.match(expression)
    return Label.CASE if is_case else label


def kinds_of(kinds: Iterable[Mapping[str, object]]) -> list[tuple[str, str | None]]:
    """Type (DIRECT or INDIRECT) and subtype of each kind, each once; a type that is neither is a direct subtype."""
    found: dict[tuple[str, str | None], None] = {}
    for kind in kinds:
        type_, subtype = _text(kind.get("type")), _text(kind.get("subtype"))
        found[(type_, subtype) if type_ in ("DIRECT", "INDIRECT") else ("DIRECT", subtype or type_)] = None
    return list(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
