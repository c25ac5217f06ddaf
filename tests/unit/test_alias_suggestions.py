"""Which rules would give tested datasets their producer, from names alone."""

from __future__ import annotations

from uuid import UUID

import pytest

from headgate.domain.names import DEFAULT_PATTERNS
from headgate.server.names.suggest import Named, Pair, Suggestion, shared_end, suggest


def named(urn: str) -> Named:
    """A dataset whose namespace is a server and whose id follows from its name."""
    scheme, _, rest = urn.partition("://")
    server, _, name = rest.partition("/")
    return Named(UUID(int=sum(urn.encode())), f"{scheme}://{server}", name)


def a_pair(orphan: str, candidate: str) -> Pair:
    return Pair(named(orphan), named(candidate))


def suggested(*pairs: Pair) -> list[Suggestion]:
    return suggest(pairs, DEFAULT_PATTERNS)


def rules(*pairs: Pair) -> list[tuple[str, str, int]]:
    return [(each.rule.pattern, each.rule.canonical, len(each.pairs)) for each in suggested(*pairs)]


@pytest.mark.parametrize(
    ("orphan", "candidate", "shared"),
    [
        ("shop.public.orders", "shop.public.orders", "shop.public.orders"),
        ("shop.public.orders", "crm.public.orders", "public.orders"),
        ("new_orders.x", "orders.x", "x"),
        ("silver/orders", "shop.orders", "orders"),
        ("orders", "shop.orders", "orders"),
        ("orders", "items", ""),
        ("", "", ""),
    ],
)
def test_two_names_share_their_last_whole_parts(orphan: str, candidate: str, shared: str) -> None:
    assert shared_end(orphan, candidate) == shared


def test_one_pair_makes_a_rule_for_itself_alone() -> None:
    pair = a_pair("postgres://replica/shop.orders", "postgres://db/shop.orders")

    assert rules(pair) == [("postgres://replica/shop.orders", "postgres://db/shop.orders", 1)]


def test_pairs_of_one_schema_make_a_rule_for_the_schema() -> None:
    pairs = [a_pair(f"postgres://replica/shop.{table}", f"postgres://db/shop.{table}") for table in ("orders", "items")]

    assert rules(*pairs) == [("postgres://replica/shop.{name}", "postgres://db/shop.{name}", 2)]


def test_pairs_of_several_schemas_make_a_rule_for_the_server() -> None:
    tables = ("shop.orders", "shop.items", "crm.people")
    pairs = [a_pair(f"postgres://replica/{table}", f"postgres://db/{table}") for table in tables]

    assert rules(*pairs) == [("postgres://replica/{name}", "postgres://db/{name}", 3)]


def test_paths_keep_their_slashes() -> None:
    pairs = [a_pair(f"s3://copy/{path}", f"s3://lake/{path}") for path in ("a/b/orders", "c/items")]

    assert rules(*pairs) == [("s3://copy/{name*}", "s3://lake/{name*}", 2)]


def test_tables_and_paths_are_brought_together_by_their_last_part() -> None:
    pairs = [a_pair(f"postgres://db/marts.{table}", f"s3://lake/gold/{table}") for table in ("orders", "items")]

    assert rules(*pairs) == [("postgres://db/marts.{name}", "s3://lake/gold/{name}", 2)]


def test_rules_that_help_most_come_first() -> None:
    pairs = [
        a_pair("postgres://x/one.t", "postgres://y/two.t"),
        *(a_pair(f"postgres://replica/shop.{table}", f"postgres://db/shop.{table}") for table in ("a", "b")),
    ]

    assert [count for *_, count in rules(*pairs)] == [2, 1]


def test_the_candidate_that_is_most_alike_is_chosen() -> None:
    near = a_pair("postgres://replica/shop.orders", "postgres://db/shop.orders")
    far = a_pair("postgres://replica/shop.orders", "postgres://db/archive.orders")

    [suggestion] = suggested(far, near)

    assert suggestion.pairs == (near,)
    assert suggestion.confidence == "high"


@pytest.mark.parametrize(
    ("orphan", "candidate"),
    [
        ("snowflake://acc/db.s.ord", "snowflake://acc/DB.S.ORD"),
        ("postgres://db/shop.sales.ord", "postgres://db/shop.Sales.Ord"),
    ],
)
def test_names_that_differ_by_case_alone_are_likely_one(orphan: str, candidate: str) -> None:
    [suggestion] = suggested(a_pair(orphan, candidate))

    assert (suggestion.rule.pattern, suggestion.rule.canonical) == (orphan, candidate)
    assert suggestion.confidence == "high"
    assert (
        suggestion.reason
        == f"both are named {orphan.rpartition('/')[2]!r} but for case, unlike any other written dataset"
    )


def test_of_two_that_are_alike_the_one_that_is_spelled_alike_is_chosen() -> None:
    pairs = [a_pair("postgres://replica/shop.ord", f"postgres://db/{name}") for name in ("Shop.Ord", "shop.ord")]

    [suggestion] = suggested(*pairs)

    assert (suggestion.pairs, suggestion.confidence) == ((pairs[1],), "high")


def test_case_is_told_where_only_the_end_is_alike() -> None:
    [suggestion] = suggested(a_pair("postgres://replica/a.ord", "postgres://db/b.Ord"))

    assert suggestion.reason == "both names end in 'ord' but for case, unlike any other written dataset"


def test_what_is_surer_comes_before_what_would_help_more() -> None:
    unsure = [
        a_pair(f"postgres://replica/shop.{table}", f"postgres://{server}/shop.{table}")
        for table in ("a", "b")
        for server in ("one", "two")
    ]
    sure = a_pair("postgres://replica/crm.people", "postgres://db/crm.people")

    assert [(each.confidence, len(each.pairs)) for each in suggested(*unsure, sure)] == [("high", 1), ("low", 2)]


@pytest.mark.parametrize(
    ("candidates", "confidence", "reason"),
    [
        (["postgres://db/shop.orders"], "high", "both are named 'shop.orders', unlike any other written dataset"),
        (["postgres://db/crm.orders"], "medium", "both names end in 'orders', unlike any other written dataset"),
        (
            ["postgres://db/shop.orders", "postgres://old/shop.orders"],
            "low",
            "both are named 'shop.orders', like another written dataset",
        ),
        (
            ["postgres://db/a.orders", "postgres://db/b.orders", "postgres://db/c.orders"],
            "low",
            "both names end in 'orders', like 2 other written datasets",
        ),
    ],
)
def test_confidence_has_its_reason(candidates: list[str], confidence: str, reason: str) -> None:
    [suggestion] = suggested(*(a_pair("postgres://replica/shop.orders", each) for each in candidates))

    assert (suggestion.confidence, suggestion.reason) == (confidence, reason)


def test_suggestions_do_not_depend_on_the_order_of_what_was_found() -> None:
    pairs = [
        a_pair("postgres://replica/shop.orders", "postgres://db/shop.orders"),
        a_pair("postgres://replica/shop.orders", "postgres://old/shop.orders"),
        a_pair("postgres://replica/shop.items", "postgres://old/shop.items"),
    ]

    assert suggested(*pairs) == suggested(*reversed(pairs))
    assert [each.pairs[0].candidate.namespace for each in suggested(*pairs)] == ["postgres://old"]


@pytest.mark.parametrize(
    ("orphan", "candidate"),
    [
        ("postgres://a/weird{name.orders", "postgres://b/shop.orders"),
        (f"postgres://a/{'x' * 500}.orders", "postgres://b/shop.orders"),
    ],
    ids=["brace", "too long"],
)
def test_names_that_no_rule_can_say_are_left_out(orphan: str, candidate: str) -> None:
    assert suggested(a_pair(orphan, candidate)) == []


def test_a_rule_that_would_lead_another_orphan_astray_is_not_suggested() -> None:
    pairs = [
        a_pair("postgres://replica/shop.orders", "postgres://one/shop.orders"),
        a_pair("postgres://replica/shop.items", "postgres://one/shop.items"),
        a_pair("postgres://replica/crm.people", "postgres://two/crm.people"),
    ]

    assert rules(*pairs) == [
        ("postgres://replica/shop.{name}", "postgres://one/shop.{name}", 2),
        ("postgres://replica/crm.people", "postgres://two/crm.people", 1),
    ]


def test_no_rule_feeds_itself() -> None:
    pairs = [a_pair(f"postgres://db/{table}", f"postgres://db/shop.{table}") for table in ("orders", "items")]

    found = suggested(*pairs)

    assert [len(each.pairs) for each in found] == [1, 1]
    assert all("{" not in each.rule.pattern for each in found)


def test_nothing_comes_of_nothing() -> None:
    assert suggested() == []
