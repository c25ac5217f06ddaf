"""What figures say as evidence, in the words that incidents and messages quote."""

from __future__ import annotations

import pytest

from headgate.domain.evidence import measured
from headgate.domain.scene import EvidenceKind


@pytest.mark.parametrize(
    ("kind", "value", "expected", "sentence"),
    [
        ("row_count", 400, 1000, "wrote 60% fewer rows than expected: 400 instead of about 1,000"),
        ("row_count", 501_000, 1000, "wrote 50,000% more rows than expected: 501,000 instead of about 1,000"),
        ("volume", 1e7, 1e8, "wrote 90% fewer bytes than expected: 10 MB instead of about 100 MB"),
        ("duration", 3.6e6, 3e5, "took 60 min instead of about 5 min"),
        ("null_share", 0.6, 0.01, "wrote 60.0% nulls in 'mail' instead of about 1.0%"),
        ("quarantine_burst", 90, 3, "set 90 rows apart instead of about 3"),
    ],
)
def test_figures_are_told_with_their_units(kind: str, value: float, expected: float, sentence: str) -> None:
    column = "mail" if kind == "null_share" else None
    found = measured(EvidenceKind(kind), value, expected, 9.0, column=column)
    assert found is not None
    assert found.sentence == sentence


def test_what_is_nothing_out_of_the_ordinary_is_no_evidence() -> None:
    assert measured(EvidenceKind.row_count, 1010, 1000, 9.0) is None
    assert measured(EvidenceKind.row_count, 400, 1000, -1.0) is None
