"""Which datasets a rule is about: one, those whose names begin alike, or all. Knows names only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

ALL: Final = "*"


def matches(pattern: str, names: Iterable[str]) -> bool:
    """Whether a pattern means something that goes by any of these names; upper and lower case are the same.

    >>> matches("sales_*", ["warehouse/Sales_2026"])
    False
    >>> matches("sales_*", ["warehouse/Sales_2026", "Sales_2026"])
    True
    """
    wanted = pattern.strip().casefold()
    if wanted.endswith(ALL):
        return any(name.casefold().startswith(wanted[:-1]) for name in names)
    return any(name.casefold() == wanted for name in names)


def specificity(pattern: str) -> int:
    """How much a pattern says: of several that fit, the one that says most counts.

    >>> specificity("*") < specificity("sales_*") < specificity("sales_2026")
    True
    """
    said = pattern.strip()
    return 2 * len(said.removesuffix(ALL)) + (not said.endswith(ALL))
