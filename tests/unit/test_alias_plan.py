"""What an alias rule does to the datasets that exist, decided on names alone."""

from __future__ import annotations

from uuid import UUID

import pytest

from headgate.domain.names import DEFAULT_PATTERNS, compile_rules
from headgate.errors import InvalidFields
from headgate.server.names.plan import Change, Kind, Match, matches, new_rule, orphans_fixed, plan

A, B, C, D = (UUID(int=number) for number in range(1, 5))
ORDERS = ("postgres://db", "orders")


def a_match(dataset_id: UUID, name: str = "", *, target: tuple[str, str] = ORDERS, is_primary: bool = True) -> Match:
    return Match(dataset_id, ("old", name or str(dataset_id)), is_primary, target, target[1])


def kinds(changes: list[Change]) -> list[tuple[Kind, UUID, UUID | None]]:
    return [(change.kind, change.match.dataset_id, change.other_id) for change in changes]


def test_dataset_joins_the_one_that_has_the_target() -> None:
    assert kinds(plan([a_match(A)], {ORDERS: B})) == [(Kind.merge, A, B)]


def test_dataset_takes_a_target_that_nobody_has() -> None:
    assert kinds(plan([a_match(A)], {})) == [(Kind.rename, A, None)]


def test_several_datasets_become_one_under_a_new_name() -> None:
    changes = plan([a_match(B), a_match(A), a_match(C)], {})

    assert kinds(changes) == [(Kind.rename, A, None), (Kind.merge, B, A), (Kind.merge, C, A)]


def test_target_that_is_another_name_of_the_dataset_becomes_its_own() -> None:
    assert kinds(plan([a_match(A)], {ORDERS: A})) == [(Kind.rename, A, None)]


def test_dataset_that_fits_by_another_of_its_names_keeps_its_own() -> None:
    assert kinds(plan([a_match(A, is_primary=False)], {})) == [(Kind.alias, A, None)]
    assert plan([a_match(A, is_primary=False)], {ORDERS: A}) == []


def test_dataset_that_fits_twice_is_changed_once() -> None:
    found = [a_match(A, "x", is_primary=False), a_match(A, "y")]

    assert kinds(plan(found, {})) == [(Kind.rename, A, None)]
    assert kinds(plan(found, {ORDERS: B})) == [(Kind.merge, A, B)]


def test_tested_dataset_without_producer_is_fixed_by_one_that_has_a_producer() -> None:
    changes = plan([a_match(A), a_match(B)], {ORDERS: C})

    def fixed(written: set[UUID], tested: set[UUID]) -> set[UUID]:
        return {orphan.dataset_id for orphan in orphans_fixed(changes, written, tested)}

    assert fixed(written={C}, tested={A, B, C}) == {A, B}
    assert fixed(written={B}, tested={A, B}) == {A}
    assert fixed(written=set(), tested={A, B, C}) == set()
    assert orphans_fixed(plan([a_match(D)], {}), written=set(), tested={D}) == []


def test_names_that_the_rule_maps_are_found() -> None:
    rule = new_rule("postgres://{host}/shop.{table}", "postgres://db/{table}")
    names = [
        (A, "postgres://replica", "shop.orders", True),
        (B, "postgres://replica", "crm.orders", True),
        (C, "postgres://x/y", "shop.orders", True),
    ]

    found = list(matches(names, rule, [], DEFAULT_PATTERNS))

    assert [(match.dataset_id, match.target) for match in found] == [(A, ("postgres://db", "orders"))]


def test_name_that_an_earlier_rule_takes_is_left_to_it() -> None:
    earlier = compile_rules([("postgres://replica/shop.orders", "postgres://db/first")])
    rule = new_rule("postgres://replica/shop.{table}", "postgres://db/{table}")
    names = [(A, "postgres://replica", "shop.orders", True), (B, "postgres://replica", "shop.items", True)]

    assert [match.dataset_id for match in matches(names, rule, earlier, DEFAULT_PATTERNS)] == [B]


def test_name_that_is_its_own_target_is_left_alone() -> None:
    rule = new_rule("postgres://{host}/{table}", "postgres://db/{table}")

    assert list(matches([(A, "postgres://db", "orders", True)], rule, [], DEFAULT_PATTERNS)) == []


def test_target_that_is_too_long_for_a_name_is_refused() -> None:
    rule = new_rule("a/{x}", f"b/{'y' * 490}{{x}}")

    with pytest.raises(InvalidFields, match="more than 2000 bytes"):
        list(matches([(A, "a", "z" * 1600, True)], rule, [], DEFAULT_PATTERNS))


@pytest.mark.parametrize(
    ("pattern", "canonical", "path", "part"),
    [
        ("postgres://{host/x", "postgres://db/x", "pattern", "brace"),
        ("a/{x}{y}", "b/{x}", "pattern", "side by side"),
        ("a/{x}/{x}", "b/{x}", "pattern", "twice"),
        ("a/{x}", "b/{y}", "canonical", "'y'"),
        ("a/{x}", "b", "canonical", "no name"),
        ("a/{x}", "b/{", "canonical", "brace"),
        ("a/{x*}", "a/sub/{x}", "canonical", "fits the pattern"),
    ],
    ids=["open brace", "no text between", "variable twice", "unknown variable", "no name", "brace", "feeds itself"],
)
def test_rule_that_cannot_work_says_which_text_is_wrong(pattern: str, canonical: str, path: str, part: str) -> None:
    with pytest.raises(InvalidFields) as refusal:
        new_rule(pattern, canonical)

    [error] = refusal.value.errors
    assert error.path == path
    assert part in error.message
    assert refusal.value.hint
