"""Patterns of dataset names: what they mean, and which of several says most."""

from __future__ import annotations

import pytest

from headgate.domain.patterns import matches, specificity


@pytest.mark.parametrize(
    ("pattern", "names", "fits"),
    [
        ("*", ["anything"], True),
        ("*", [], False),
        ("sales_*", ["sales_2026"], True),
        ("sales_*", ["Sales_"], True),
        ("sales_*", ["presales_2026"], False),
        ("sales_*", ["x", "sales_1"], True),
        ("orders", ["orders"], True),
        ("orders", ["ORDERS"], True),
        ("orders", ["orders_v2"], False),
        (" orders ", ["orders"], True),
    ],
)
def test_a_pattern_means_a_name_or_its_beginning(pattern: str, names: list[str], fits: bool) -> None:
    assert matches(pattern, names) is fits


def test_a_name_says_more_than_its_beginning_and_a_long_beginning_more_than_a_short_one() -> None:
    patterns = ["*", "s*", "sales_*", "sales_2026*", "sales_2026"]

    assert sorted(patterns, key=specificity) == patterns
