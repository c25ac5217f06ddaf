"""How the edges that two agents saw are counted against the expected ones."""

from __future__ import annotations

from benchmarks.comparison.edges import Score, alike, pairs, score


def test_an_influence_said_of_each_column_counts_as_said_of_the_table() -> None:
    expected = pairs([("out", "a.x", "FILTER"), ("out.n", "a.n", "IDENTITY")])
    found = pairs([("out.n", "a.x", "FILTER"), ("out.m", "a.x", "FILTER"), ("out.n", "a.n", "IDENTITY")])
    assert alike(found, expected) == expected


def test_an_influence_on_one_column_stays_with_it() -> None:
    expected = pairs([("out.n", "a.x", "CONDITIONAL"), ("out", "a.x", "FILTER")])
    assert alike(expected, expected) == expected


def test_edges_are_seen_missed_or_beyond_the_expected() -> None:
    expected = [("out.n", "a.n"), ("out.m", "a.m")]
    assert score([("out.n", "a.n"), ("out.k", "a.k")], expected) == Score(seen=1, missed=1, beyond=1)
    assert str(Score(seen=1, missed=1, beyond=1)) == "1 −1 +1"


def test_a_whole_struct_in_place_of_its_field_is_coarse_and_not_wrong() -> None:
    assert score([("out.city", "a.address")], [("out.city", "a.address.city")]) == Score(coarse=1)
