"""Two schemas field by field, changes in a few words, and the paths of nested fields."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.schema import (
    Field,
    FieldChange,
    column_count,
    compare,
    diff,
    last_changes,
    moved_names,
    parents_of,
    path_of,
    summary,
)

ID = Field("id", "int", False)
NAME = Field("name", "string")
AGE = Field("age", "int")

columns = st.builds(Field, st.sampled_from("abcdef"), st.sampled_from(["int", "string"]), st.booleans())
schemas = st.lists(columns, max_size=6, unique_by=lambda field: field.name).map(tuple)
Schema = tuple[Field, ...]


def changes(old: Schema, new: Schema) -> list[tuple[str, str]]:
    return [(item.name, str(item.changes[0])) for item in compare(old, new)]


def test_fields_stand_in_the_new_order_and_removed_ones_where_they_were() -> None:
    old = (ID, NAME, AGE, Field("city", "string"))
    new = (ID, AGE, Field("email", "string"), Field("city", "string"))
    assert changes(old, new) == [
        ("id", "unchanged"),
        ("name", "removed"),
        ("age", "unchanged"),
        ("email", "added"),
        ("city", "unchanged"),
    ]


def test_a_field_has_its_places_counted_from_one() -> None:
    (gone, kept) = compare((NAME, ID), (ID,))
    assert (gone.name, gone.before_position, gone.after_position) == ("name", 1, None)
    assert (kept.name, kept.before_position, kept.after_position, kept.is_moved) == ("id", 2, 1, False)


@pytest.mark.parametrize(
    ("old", "new", "expected", "breaks"),
    [
        (None, NAME, ["added"], []),
        (NAME, None, ["removed"], ["removed"]),
        (NAME, NAME, ["unchanged"], []),
        (NAME, Field("name", "int"), ["type"], ["type"]),
        (NAME, Field("name", "text"), ["type"], []),
        (NAME, Field("name", " String"), ["unchanged"], []),
        (Field("name", "int"), Field("name", "bigint"), ["type"], []),
        (NAME, Field("name", "string", False), ["nullability"], ["nullability"]),
        (Field("name", "string", False), NAME, ["nullability"], []),
        (NAME, Field("name", "int", False), ["type", "nullability"], ["type", "nullability"]),
        (NAME, Field("name", "string", True, "a comment"), ["unchanged"], []),
    ],
    ids=["added", "removed", "same", "type", "other name", "other case", "wider", "tightened", "loosened",
         "type and tightened", "comment"],
)  # fmt: skip
def test_a_field_says_what_became_of_it_and_what_breaks(
    old: Field | None, new: Field | None, expected: list[str], breaks: list[str]
) -> None:
    (item,) = compare((old,) if old else (), (new,) if new else ())
    assert ([*item.changes], [*item.breaks]) == (expected, breaks)


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ("abcd", "abcd", ""),
        ("abcd", "bcda", "a"),
        ("abcd", "dabc", "d"),
        ("abcd", "axbycd", ""),
        ("abcd", "bd", ""),
        ("", "ab", ""),
    ],
)
def test_only_what_left_its_order_has_moved(before: str, after: str, moved: str) -> None:
    assert moved_names(before, after) == set(moved)


@given(st.permutations("abcdef"))
def test_as_few_fields_as_possible_have_moved(after: list[str]) -> None:
    moved = moved_names("abcdef", after)
    assert [name for name in after if name not in moved] == sorted(set(after) - moved)
    longest = max(
        len(kept)
        for size in range(len(after) + 1)
        for kept in (
            tuple(name for place, name in enumerate(after) if mask >> place & 1)
            for mask in range(2 ** len(after))
            if mask.bit_count() == size
        )
        if list(kept) == sorted(kept)
    )
    assert len(after) - len(moved) == longest


@given(schemas, schemas)
def test_a_comparison_holds_both_schemas(old: Schema, new: Schema) -> None:
    items = compare(old, new)
    before = sorted((item for item in items if item.before), key=lambda item: item.before_position or 0)
    after = sorted((item for item in items if item.after), key=lambda item: item.after_position or 0)
    assert tuple(item.before for item in before) == old
    assert tuple(item.after for item in after) == new


@given(schemas, schemas)
def test_field_by_field_and_as_a_whole_the_change_is_the_same(old: Schema, new: Schema) -> None:
    items, change = compare(old, new), diff(old, new)

    def named(kind: FieldChange) -> set[str]:
        return {item.name for item in items if kind in item.changes}

    assert named(FieldChange.ADDED) == set(change.added)
    assert named(FieldChange.REMOVED) == set(change.removed)
    assert named(FieldChange.TYPE) == set(change.type_changed)
    assert named(FieldChange.NULLABILITY) == {*change.tightened, *change.loosened}
    assert bool(named(FieldChange.MOVED)) == change.reordered
    assert any(item.breaks for item in items) == change.breaking


@given(st.lists(schemas, min_size=2, max_size=5))
def test_a_step_by_step_history_explains_every_difference(history: list[Schema]) -> None:
    found = last_changes(list(enumerate(history, start=1)))
    explained = {name for name, change in found if change is not FieldChange.UNCHANGED}
    different = {
        item.name
        for item in compare(history[0], history[-1])
        if {*item.changes} - {FieldChange.UNCHANGED, FieldChange.MOVED}
    }
    assert different <= explained


def test_the_latest_change_of_each_kind_counts() -> None:
    text, other = Field("a", "text"), Field("b", "int")
    found = last_changes([(1, (other,)), (2, (other, text)), (3, (other,)), (4, (other, text)), (5, (other, text))])
    assert found[("a", FieldChange.ADDED)] == 4
    assert found[("a", FieldChange.REMOVED)] == 3
    assert ("a", FieldChange.TYPE) not in found


LOYALTY = Field("loyalty_tier", "STRING")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (None, tuple(Field(f"c{n}", "int") for n in range(12)), "Initial schema (12 columns)"),
        (None, (ID,), "Initial schema (1 column)"),
        ((ID,), (ID, LOYALTY), "+loyalty_tier (new column)"),
        ((ID, NAME), (ID,), "-name (removed)"),
        ((ID,), (ID, Field("created_at", "T"), Field("updated_at", "T")), "+created_at, +updated_at"),
        ((Field("email", "VARCHAR"),), (Field("email", "STRING"),), "email: VARCHAR→STRING (type change)"),
        ((Field("email", ""),), (Field("email", "STRING"),), "email: unknown→STRING (type change)"),
        ((NAME,), (Field("name", "string", False),), "name: nullable→not null (nullability)"),
        ((ID,), (Field("id", "int"),), "id: not null→nullable (nullability)"),
        ((ID, NAME), (NAME, ID), "columns reordered"),
        ((ID, NAME), (NAME, ID, LOYALTY), "+loyalty_tier, columns reordered"),
        ((ID, NAME), (LOYALTY, ID, NAME), "+loyalty_tier (new column)"),
        ((ID, NAME), (ID, NAME), "nothing changed"),
        ((ID, NAME), (ID, LOYALTY), "+loyalty_tier, -name"),
        ((ID,), (ID, *(Field(f"c{n}", "int") for n in range(10))), "+c0, +c1, +c2, +c3, +c4, +c5, +c6, +c7 and 2 more"),
        ((ID,), (ID, Field("a", "struct"), Field("a.b", "int")), "+a (new column)"),
        ((Field("a", "struct"),), (Field("a", "struct"), Field("a.b", "int")), "+a.b (new column)"),
    ],
)  # fmt: skip
def test_a_summary_says_a_change_in_a_few_words(old: Schema | None, new: Schema, text: str) -> None:
    assert summary(old, new) == text


def test_a_summary_shortens_the_types_of_large_structures() -> None:
    text = summary((Field("a", "int"),), (Field("a", "struct<" + "x" * 5000 + ">"),))
    assert len(text) < 100
    assert text.endswith("… (type change)")


@pytest.mark.parametrize(
    ("name", "names", "path"),
    [
        ("id", {"id"}, ("id",)),
        ("address.street", {"address"}, ("address", "street")),
        ("a.b.c", {"a", "a.b"}, ("a", "b", "c")),
        ("a.b.c", {"a"}, ("a", "b.c")),
        ("a.b.c", {"a.b"}, ("a.b", "c")),
        ("a.b", {"a.b"}, ("a.b",)),
        ("." * 100, {"", "."}, ("." * 100,)),
    ],
)
def test_a_dot_parts_a_name_only_below_a_field_that_exists(name: str, names: set[str], path: tuple[str, ...]) -> None:
    assert path_of(name, names) == path
    assert ".".join(path) == name


def test_parents_are_named_in_full() -> None:
    assert parents_of("a.b.c", {"a", "a.b"}) == ["a", "a.b"]
    assert parents_of("a.b", {"a.b"}) == []


def test_what_is_nested_is_a_part_of_its_column() -> None:
    assert column_count([ID, Field("a", "struct"), Field("a.b", "int"), Field("x.y", "int")]) == 3


@pytest.mark.parametrize("order", list(permutations("abc")), ids="".join)
def test_a_reordering_alone_breaks_nobody(order: tuple[str, ...]) -> None:
    items = compare([Field(name, "int") for name in "abc"], [Field(name, "int") for name in order])
    assert not any(item.breaks for item in items)
