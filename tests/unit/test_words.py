"""Words of names, and what leads to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.words import (
    IN_LAST_PART,
    IN_NAME,
    IN_NAMESPACE,
    MAX_TAIL,
    MAX_WORD,
    MAX_WORDS,
    Key,
    after,
    after_word,
    alike,
    can_be_mistyped,
    first_words,
    keys_of,
    last_part,
    phrase,
    pieces,
    split_humps,
    suffixes,
    tokens,
    words,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("shop.public.orders", ["shop", "public", "orders"]),
        ("postgres://shop-db:5432", ["postgres", "shop", "db", "5432"]),
        ("Orders_2024", ["orders", "2024"]),
        ("  --..  ", []),
        ("", []),
        ("заказы/Июнь", ["заказы", "июнь"]),
        ("Straße", ["strasse"]),
        ("ＦＵＬＬ", ["full"]),
        ("हिन्दी तालिका", ["हिन्दी", "तालिका"]),
        ("订单.明细", ["订单", "明细"]),
        ("naïve_café", ["naïve", "café"]),
    ],
)
def test_words_are_runs_of_letters_and_digits_in_one_case(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_two_ways_to_write_a_letter_are_one() -> None:
    assert words("cafe\u0301") == words("caf\u00e9")


def test_separators_mean_nothing() -> None:
    assert phrase("shop.public.orders") == phrase("shop/public orders") == phrase("SHOP__public-orders")


def test_very_long_words_are_cut() -> None:
    assert words("a" * 500) == ["a" * MAX_WORD]


def test_tokens_are_different_and_few() -> None:
    assert tokens("orders shop Orders") == ["orders", "shop"]
    assert len(tokens(" ".join(f"w{number}" for number in range(100)))) == 8


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("shop.public.orders", "orders"),
        ("silver/orders.v2", "orders.v2"),
        ("/data/orders/", "orders"),
        ("orders", "orders"),
        ("orders.", "orders."),
        ("/", "/"),
    ],
)
def test_last_part_is_what_people_say(name: str, part: str) -> None:
    assert last_part(name) == part


def test_a_search_may_begin_at_each_word_and_counts_most_at_the_last_part() -> None:
    assert keys_of("postgres://shop-db", "shop.public.orders_daily") == {
        Key(IN_NAMESPACE, "postgres shop db shop public orders daily"),
        Key(IN_NAMESPACE, "shop db shop public orders daily"),
        Key(IN_NAMESPACE, "db shop public orders daily"),
        Key(IN_NAME, "shop public orders daily"),
        Key(IN_NAME, "public orders daily"),
        Key(IN_LAST_PART, "orders daily"),
        Key(IN_NAME, "daily"),
    }


def test_humps_are_words_and_are_not() -> None:
    assert keys_of("", "OrderItems") == {
        Key(IN_LAST_PART, "orderitems"),
        Key(IN_LAST_PART, "order items"),
        Key(IN_NAME, "items"),
    }


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("OrderItems", "Order Items"),
        ("HTTPServer", "HTTP Server"),
        ("orders2Load", "orders2 Load"),
        ("ORDERS", "ORDERS"),
    ],
)
def test_humps_are_split_where_a_word_begins(text: str, split: str) -> None:
    assert split_humps(text) == split


@given(st.text(max_size=3000), st.text(max_size=3000))
def test_keys_of_any_name_are_few_and_short(namespace: str, name: str) -> None:
    found = keys_of(namespace, name)

    assert len(found) <= 2 * MAX_WORDS
    for key in found:
        assert 0 < len(key.tail) <= MAX_TAIL
        assert key.tail == key.tail.strip()
        assert "\n" not in key.tail


@given(st.text(max_size=200), st.text(max_size=200))
def test_every_word_of_a_short_name_begins_a_key(namespace: str, name: str) -> None:
    spoken = [*words(namespace), *words(name)][-MAX_WORDS:]

    assert {word[:MAX_TAIL] for word in spoken} <= first_words(keys_of(namespace, name))


def test_suffixes_lead_to_a_word_from_its_inside() -> None:
    assert suffixes("order") == ["order", "rder", "der", "er"]
    assert suffixes("x") == ["x"]
    assert len(suffixes("0" * MAX_WORD)) == 24


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("täble名", ["täble名", "äble名", "ble名", "le名", "e名", "名"]),
        ("订单", ["订单", "单"]),
        ("naïve", ["naïve", "aïve", "ïve", "ve"]),
    ],
)
def test_one_letter_that_is_not_ascii_leads_to_a_word_too(word: str, found: list[str]) -> None:
    assert suffixes(word) == found


@given(st.text(min_size=1, max_size=20), st.text(max_size=20))
def test_what_begins_with_a_text_lies_between_it_and_its_end(prefix: str, rest: str) -> None:
    begin, text, end = (each.encode("utf-8", "surrogatepass") for each in (prefix, prefix + rest, after(prefix)))

    assert begin <= text < end or "\U0010ffff" in rest


def test_phrases_of_a_word_lie_between_it_and_its_end() -> None:
    assert "order" <= "order items" < after_word("order")
    assert after_word("order") <= "orders"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("custmers", "customers"),
        ("cusotmers", "customers"),
        ("oders", "orders"),
        ("ordrs", "orders"),
        ("paymets", "payments"),
        ("заказi", "заказы"),
    ],
)
def test_mistyped_word_is_found_by_a_piece_of_it_and_by_likeness(typed: str, meant: str) -> None:
    known = ["customers", "custody", "orders", "borders", "payments", "paints", "заказы", "показы"]

    assert any(piece in meant for piece in pieces(typed))
    assert alike(typed, known, 3)[0][0] == meant


def test_words_that_have_little_in_common_are_not_alike() -> None:
    assert [word for word, _ in alike("nothing", ["orders", "clothing", "customers"], 3)] == ["clothing"]
    assert alike("xyz", ["orders"], 3) == []
    assert alike("orders", [], 3) == []


def test_numbers_and_short_words_are_never_mistyped() -> None:
    assert [can_be_mistyped(token) for token in ("12345", "ab", "abc", "q42024")] == [False, False, True, True]
