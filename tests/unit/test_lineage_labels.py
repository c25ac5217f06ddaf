"""The one word that says how a column came out of another."""

from __future__ import annotations

import pytest

from headgate.domain.lineage import Label, kinds_of, label_of
from headgate.openlineage.simple_datasets import _TRANSFORMATIONS


def a_kind(text: str) -> dict[str, object]:
    type_, _, subtype = text.partition("/")
    return {"type": type_, "subtype": subtype or None, "masking": False}


@pytest.mark.parametrize(
    ("kinds", "label"),
    [
        ("DIRECT/IDENTITY", Label.DIRECT),
        ("DIRECT", Label.DIRECT),
        ("DIRECT/TRANSFORMATION", Label.EXPRESSION),
        ("DIRECT/AGGREGATION", Label.AGGREGATE),
        ("DIRECT/CAST", Label.EXPRESSION),
        ("INDIRECT/JOIN", Label.JOIN),
        ("INDIRECT/FILTER", Label.FILTER),
        ("INDIRECT/CONDITIONAL", Label.CASE),
        ("INDIRECT/GROUP_BY", Label.AGGREGATE),
        ("INDIRECT/WINDOW", Label.AGGREGATE),
        ("INDIRECT/SORT", Label.EXPRESSION),
        ("INDIRECT", Label.EXPRESSION),
        ("IDENTITY", Label.DIRECT),
        ("", Label.DIRECT),
        ("INDIRECT/JOIN DIRECT/IDENTITY", Label.DIRECT),
        ("DIRECT/IDENTITY DIRECT/AGGREGATION", Label.AGGREGATE),
        ("INDIRECT/SORT INDIRECT/FILTER", Label.FILTER),
    ],
)
def test_a_kind_has_a_label(kinds: str, label: Label) -> None:
    assert label_of([a_kind(kind) for kind in kinds.split()], None) is label


@pytest.mark.parametrize("word", Label)
def test_what_a_simple_form_says_comes_back_as_itself(word: Label) -> None:
    assert label_of([a_kind("/".join(_TRANSFORMATIONS[word]))], None) is word


@pytest.mark.parametrize(
    ("kind", "expression", "label"),
    [
        ("DIRECT/TRANSFORMATION", "CASE WHEN a > 1 THEN b END", Label.CASE),
        ("DIRECT/TRANSFORMATION", "(case a\n when 1 then b end)", Label.CASE),
        ("DIRECT/TRANSFORMATION", "upper(name)", Label.EXPRESSION),
        ("DIRECT/TRANSFORMATION", "case_id + 1", Label.EXPRESSION),
        ("DIRECT/TRANSFORMATION", "concat('case', when)", Label.EXPRESSION),
        ("DIRECT/AGGREGATION", "case when sum(a) > 1 then 1 end", Label.AGGREGATE),
        ("DIRECT/IDENTITY", "case when", Label.DIRECT),
        ("INDIRECT/SORT", "case when a then b end", Label.EXPRESSION),
    ],
)
def test_an_expression_that_is_a_case_is_one(kind: str, expression: str, label: Label) -> None:
    assert label_of([a_kind(kind)], expression) is label


def test_kinds_are_told_once_and_in_two_types() -> None:
    kinds = [a_kind("DIRECT/IDENTITY"), a_kind("DIRECT/IDENTITY"), a_kind("INDIRECT"), a_kind("MASKED")]
    assert kinds_of(kinds) == [("DIRECT", "IDENTITY"), ("INDIRECT", None), ("DIRECT", "MASKED")]
