"""Schemas: their hash, what a change is called, and where a sighting belongs in a history."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.schema import ChangeType, Field, Placement, diff, is_same_schema, place, schema_hash, widened
from tests.support.events import T0

ID = Field("id", "int", False)
NAME = Field("name", "string")
AGE = Field("age", "int", False)
V1 = (ID, NAME, AGE)
V2 = (*V1, Field("email", "string"), Field("city", "string"))
V3 = (Field("id", "int"), NAME, Field("age", "string"), Field("email", "string"), Field("city", "string"))
V4 = (ID, NAME, Field("age", "string"), Field("city", "string"))
V5 = (ID, Field("name", "string", False), Field("age", "string"), Field("city", "string"))

columns = st.builds(Field, st.sampled_from("abcd"), st.sampled_from(["int", "string"]), st.booleans())
schemas = st.lists(columns, min_size=1, max_size=4, unique_by=lambda field: field.name).map(tuple)


def test_a_hash_is_sha256_over_name_type_and_nullability_joined_by_bars() -> None:
    assert schema_hash(V1) == hashlib.sha256(b"id:int:false|name:string:true|age:int:false").digest()


@pytest.mark.parametrize(
    "other",
    [
        (NAME, ID, AGE),
        (ID, NAME, Field("age", "bigint", False)),
        (ID, Field("name", "string", False), AGE),
        (ID, Field("nam", "string"), AGE),
        (ID, NAME),
    ],
    ids=["order", "type", "nullability", "name", "fewer"],
)
def test_a_hash_changes_with_everything_but_comments(other: tuple[Field, ...]) -> None:
    assert schema_hash(other) != schema_hash(V1)


def test_comments_do_not_change_the_hash() -> None:
    commented = (Field("id", "int", False, "the key"), NAME, Field("age", "int", False, ""))
    assert schema_hash(commented) == schema_hash(V1)


@pytest.mark.parametrize(
    ("old", "new", "change_type", "breaking", "description"),
    [
        (V1, V2, ChangeType.ADDED_COLUMN, False, "added 'email', 'city'"),
        (V2, V3, ChangeType.MIXED, True, "'age' changed from int to string; now nullable: 'id', 'age'"),
        (V3, V4, ChangeType.MIXED, True, "removed 'email'; no longer nullable: 'id'"),
        (V4, V5, ChangeType.NULLABILITY, True, "no longer nullable: 'name'"),
        (V5, V1, ChangeType.MIXED, True, "removed 'city'; 'age' changed from string to int; "
         "no longer nullable: 'age'; now nullable: 'name'"),
        ((ID,), (Field("id", "int"),), ChangeType.NULLABILITY, False, "now nullable: 'id'"),
        ((ID, NAME), (ID,), ChangeType.DROPPED_COLUMN, True, "removed 'name'"),
        ((ID,), (Field("id", "date", False),), ChangeType.TYPE_CHANGE, True, "'id' changed from int to date"),
        ((ID,), (Field("id", "bigint", False),), ChangeType.TYPE_CHANGE, False, "'id' changed from int to bigint"),
        ((ID,), (Field("id", "integer", False),), ChangeType.TYPE_CHANGE, False, "'id' changed from int to integer"),
        ((ID, NAME), (NAME, ID), ChangeType.REORDERED, False, "columns in another order"),
        ((ID, NAME), (ID, AGE, NAME), ChangeType.ADDED_COLUMN, False, "added 'age'"),
        (V1, (NAME, AGE), ChangeType.DROPPED_COLUMN, True, "removed 'id'"),
        ((ID, NAME), (NAME, AGE, ID), ChangeType.MIXED, False, "added 'age'; columns in another order"),
        (V1, (AGE, NAME), ChangeType.MIXED, True, "removed 'id'; columns in another order"),
        ((ID,), (AGE,), ChangeType.MIXED, True, "added 'age'; removed 'id'"),
    ],
    ids=["v1 v2", "v2 v3", "v3 v4", "v4 v5", "v5 v1", "loosened", "dropped", "retyped", "wider", "other name",
         "reordered", "added between", "dropped before", "added and reordered", "dropped and reordered", "replaced"],
)  # fmt: skip
def test_a_change_is_named_described_and_judged(
    old: tuple[Field, ...], new: tuple[Field, ...], change_type: ChangeType, breaking: bool, description: str
) -> None:
    change = diff(old, new)
    assert (change.type, change.breaking, change.description) == (change_type, breaking, description)


@pytest.mark.parametrize(
    ("new", "as_spelled", "is_same"),
    [
        ((Field("ID", "int", False), NAME, AGE), False, False),
        ((Field("id", "INT ", False), Field("name", "String"), AGE), True, True),
        ((Field("id", "integer", False), Field("name", "varchar"), AGE), True, False),
        ((Field("id", "integer", False), Field("name", "varchar"), AGE), False, True),
        ((Field("id", "bigint", False), NAME, AGE), False, False),
        ((Field("id", "integer"), NAME, AGE), False, False),
        ((NAME, ID, AGE), False, False),
        ((ID, NAME), False, False),
    ],
    ids=["name", "case", "spelling", "only spelling", "type", "nullability", "order", "fewer"],
)
def test_schemas_of_two_engines_are_the_same_if_they_mean_the_same(
    new: tuple[Field, ...], as_spelled: bool, is_same: bool
) -> None:
    assert is_same_schema(V1, new, as_spelled=as_spelled) == is_same


@pytest.mark.parametrize(
    ("new", "is_respelling"),
    [
        ((ID, Field("name", "text"), AGE), True),
        ((Field("id", "bigint", False), Field("name", "text"), AGE), False),
        ((ID, Field("name", "text")), False),
        ((ID, Field("name", "text", False), AGE), False),
        (V1, False),
    ],
    ids=["only names", "also a type", "also fewer", "also nullability", "nothing"],
)
def test_a_respelling_changes_nothing_but_what_types_are_called(new: tuple[Field, ...], is_respelling: bool) -> None:
    assert diff(V1, new).is_respelling == is_respelling


def test_a_change_lists_its_columns_in_their_order() -> None:
    change = diff(V3, V5)
    assert (change.added, change.removed, change.type_changed) == ((), ("email",), ())
    assert (change.tightened, change.loosened) == (("id", "name"), ())


def test_a_description_of_many_columns_stays_short() -> None:
    change = diff((ID,), (ID, *(Field(f"c{n}", "int") for n in range(500))))
    assert change.description.endswith("and 480 more")
    assert len(change.added) == 500


@given(schemas, schemas)
def test_every_difference_in_the_hash_has_a_name(old: tuple[Field, ...], new: tuple[Field, ...]) -> None:
    change = diff(old, new)
    other = change.added or change.removed or change.type_changed or change.tightened or change.loosened
    assert bool(other or change.reordered) == (schema_hash(old) != schema_hash(new))
    assert (change.type is ChangeType.REORDERED) == (not other)
    assert (change.description == "nothing changed") == (old == new)


@given(schemas, schemas)
def test_a_change_back_is_the_change_turned_round(old: tuple[Field, ...], new: tuple[Field, ...]) -> None:
    there, back = diff(old, new), diff(new, old)
    assert set(there.added) == set(back.removed)
    assert set(there.type_changed) == set(back.type_changed)
    assert set(there.tightened) == set(back.loosened)


@pytest.mark.parametrize(
    ("reading", "known_after"),
    [
        ((NAME,), V1),
        ((AGE, ID), V1),
        ((Field("id", "int", True),), V1),
        (V1, V1),
        ((NAME, Field("extra", "int")), (*V1, Field("extra", "int"))),
    ],
    ids=["one column", "other order", "nullability lost", "all of it", "unknown column"],
)
def test_a_reader_takes_nothing_away_from_what_is_known(
    reading: tuple[Field, ...], known_after: tuple[Field, ...]
) -> None:
    assert widened(V1, reading) == known_after


def test_a_reader_may_see_another_type() -> None:
    assert Field("name", "int") in widened(V1, (Field("name", "int"),))
    assert len(widened(V1, (Field("name", "int"),))) == len(V1)


A, B, C = b"a", b"b", b"c"


@pytest.mark.parametrize(
    ("history", "second", "seen", "placement"),
    [
        ([], 5, A, Placement(0)),
        ([(1, A)], 5, A, None),
        ([(1, A)], 1, A, None),
        ([(1, A)], 5, B, Placement(1)),
        ([(5, A)], 1, A, Placement(0, moves_next=True)),
        ([(5, A)], 1, B, Placement(0)),
        ([(1, A), (5, B)], 3, A, None),
        ([(1, A), (5, B)], 3, B, Placement(1, moves_next=True)),
        ([(1, A), (5, B)], 3, C, Placement(1)),
        ([(1, A), (5, B)], 6, A, Placement(2)),
        ([(1, A), (5, B), (7, A)], 6, A, Placement(2, moves_next=True)),
    ],
    ids=["first", "same", "same instant", "changed", "began earlier", "before the first", "still the one before",
         "already the next", "in between", "return", "return seen earlier"],
)  # fmt: skip
def test_a_sighting_has_its_place_in_a_history(
    history: list[tuple[int, bytes]], second: int, seen: bytes, placement: Placement | None
) -> None:
    dated = [(T0 + timedelta(seconds=s), hash_) for s, hash_ in history]
    assert place(dated, T0 + timedelta(seconds=second), seen) == placement


Sighting = tuple[int, bytes]


def placed(sightings: list[Sighting] | tuple[Sighting, ...]) -> list[Sighting]:
    """The history that these sightings leave, as a store would keep it."""
    history: list[Sighting] = []
    for second, hash_ in sightings:
        dated = [(T0 + timedelta(seconds=s), h) for s, h in history]
        found = place(dated, T0 + timedelta(seconds=second), hash_)
        if found is None:
            continue
        if found.moves_next:
            history[found.after] = (second, hash_)
        else:
            history.insert(found.after, (second, hash_))
    return history


def collapsed(sightings: list[Sighting]) -> list[Sighting]:
    """Sightings in time order, without those that repeat the one before."""
    ordered = sorted(sightings)
    return [s for before, s in zip([None, *ordered], ordered, strict=False) if before is None or before[1] != s[1]]


distinct_times = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from([A, B, C])), max_size=6, unique_by=lambda sighting: sighting[0]
)


@given(distinct_times)
def test_sightings_in_time_order_leave_one_version_a_change(sightings: list[Sighting]) -> None:
    assert placed(sorted(sightings)) == collapsed(sightings)


@given(distinct_times, st.randoms(use_true_random=False))
def test_a_history_is_a_line_of_time_without_repeats_whatever_arrives_when(
    sightings: list[Sighting], random: object
) -> None:
    mixed = random.sample(sightings, len(sightings))  # type: ignore[attr-defined]  # hypothesis gives a Random
    history = placed(mixed)

    assert history == sorted(history)
    assert all(one[1] != other[1] for one, other in pairwise(history))
    assert set(history) <= set(sightings)
    assert {hash_ for _, hash_ in history} == {hash_ for _, hash_ in sightings}


@given(st.permutations([(1, A), (4, B), (9, C)]))
def test_schemas_seen_once_each_leave_the_same_history_in_any_order(sightings: list[Sighting]) -> None:
    assert placed(sightings) == [(1, A), (4, B), (9, C)]


def test_a_return_to_an_older_schema_is_a_version_of_its_own() -> None:
    assert placed([(1, A), (4, B), (9, A)]) == [(1, A), (4, B), (9, A)]
    assert placed([(9, A), (4, B), (1, A)]) == [(1, A), (4, B), (9, A)]
