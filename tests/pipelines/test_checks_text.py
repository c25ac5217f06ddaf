"""Tests that read text: what passes, what fails, and what a NULL does; the same in both modes of Spark."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.testing import ansi, batch, config, verdicts

GOOD_AND_BAD = [
    ({"type": "regex_match", "pattern": "^a+$"}, ["a", "aaa"], ["b", "ba", ""]),
    ({"type": "regex_match", "pattern": "a", "negate": True}, ["b", ""], ["a", "bab"]),
    ({"type": "like", "pattern": "a%_c"}, ["abc", "axxc"], ["ac", "abcd", "Abc"]),
    ({"type": "like", "pattern": "10\\%"}, ["10%"], ["100"]),
    ({"type": "like", "pattern": "a%", "negate": True}, ["b"], ["a", "ab"]),
    ({"type": "length", "min": 2, "max": 3}, ["ab", "äöü", "日本"], ["", "a", "abcd"]),
    (
        {"type": "email"},
        ["a@x.de", "a.b+c@mail.example.co.uk", "o'hara@x.io", "a@xn--80ak6aa92e.com", "a@b.xn--p1ai"],
        [
            "",
            "a",
            "a@x",
            "@x.de",
            "a@x..de",
            "a@-x.de",
            "a@x-.de",
            "a b@x.de",
            "a@x.de\n",
            "a@x.d",
            "a" * 250 + "@x.de",
        ],
    ),
    (
        {"type": "url"},
        ["http://x.de", "https://x.de:80/a?b#c", "s3a://bucket/key", "ftp://h"],
        ["", "x.de", "http://", "http:// x", "http://x.de/a b", "http://x.de\n", "://x"],
    ),
    (
        {"type": "uuid"},
        ["00000000-0000-0000-0000-000000000000", "0189CE2E-7b1a-7000-8000-abcdefABCDEF"],
        [
            "",
            "0189ce2e7b1a70008000abcdefabcdef",
            "0189ce2e-7b1a-7000-8000-abcdefabcdeg",
            "00000000-0000-0000-0000-000000000000\n",
        ],
    ),
    (
        {"type": "ipv4"},
        ["0.0.0.0", "255.255.255.255", "10.1.2.3"],
        ["", "256.1.1.1", "1.2.3", "01.2.3.4", "1.2.3.4.5", "1.2.3.4\n"],
    ),
    (
        {"type": "ipv6"},
        ["::", "::1", "2001:db8::1", "1:2:3:4:5:6:7:8", "fe80::", "::ffff:10.0.0.1", "1::8", "1:2:3:4:5:6:1.2.3.4"],
        ["", ":", ":::", "1:2:3:4:5:6:7", "1::2::3", "12345::", "1:2:3:4:5:6:7:8:9", "g::1", "::1\n"],
    ),
    (
        {"type": "date"},
        ["2026-01-31", "2024-02-29"],
        ["", "2026-02-30", "2026", "2026-1-1", "now", "2026-01-01T10:00:00", " 2026-01-01"],
    ),
    (
        {"type": "timestamp"},
        ["2026-01-31", "2026-01-31 10:00", "2026-01-31T10:00:00.123456Z", "2026-01-31T10:00:00+05:30"],
        ["", "12:30", "now", "2026-01-31T25:00:00", "2026-02-30 10:00:00", "31/01/2026"],
    ),
    (
        {"type": "date", "format": "dd/MM/yyyy"},
        ["31/01/2026"],
        ["", "2026-01-31", "32/01/2026", "1/1/2026", "31/01/2026x"],
    ),
    ({"type": "timestamp", "format": "yyyyMMddHHmmss"}, ["20260131235959"], ["20260131", "2026013123595"]),
    (
        {"type": "json"},
        ["{}", "[]", "1", '"a"', "null", ' {"a": [1, {"b": null}]} ', "true"],
        [
            "",
            " ",
            "{",
            "{a: 1}",
            "{'a': 1}",
            '{"a": 1} more',
            "1, 2",
            "1] , [2",
            '1, "b": 2',
            '{"a": 1}{"b": 2}',
            "undefined",
        ],
    ),
    (
        {"type": "json_schema", "fields": "id BIGINT, tags ARRAY<STRING>, at STRUCT<x: INT>", "required": ["id"]},
        ['{"id": 1}', '{"id": 1, "tags": ["a"]}', '{"id": 1, "more": true}'],
        [
            "",
            "x",
            "[1]",
            "null",
            '{"id": "x"}',
            '{"tags": []}',
            '{"id": null}',
            '{"id": 1, "tags": 5}',
            '{"id": 1} more',
            '{"id": 1.5}',
        ],
    ),
    (
        {"type": "json_schema", "fields": "at STRUCT<x: INT>", "required": ["at.x"]},
        ['{"at": {"x": 1}}'],
        ['{"at": {}}', "{}"],
    ),
    ({"type": "country_code"}, ["DE", "DEU", "US"], ["", "de", "XX", "GER", "Germany"]),
    ({"type": "country_code", "letters": 2}, ["DE"], ["DEU", "D"]),
    ({"type": "country_code", "letters": 3, "case_sensitive": False}, ["deu", "DEU"], ["DE"]),
    ({"type": "currency_code"}, ["EUR", "USD", "XCG"], ["", "eur", "DEM", "€"]),
    (
        {"type": "no_pii", "kinds": ["email"]},
        ["", "nobody", "a@b", "at @ home"],
        ["write to a.b@sub.x.de!", "a@x.de"],
    ),
    (
        {"type": "no_pii", "kinds": ["credit_card"]},
        ["", "4111 1111 1111 1112", "1234567890123", "41111111111111111111111"],
        ["4111 1111 1111 1111", "card 1234567890123, then 5500-0000-0000-0004."],
    ),
    ({"type": "no_pii", "kinds": ["ssn"]}, ["", "000-12-3456", "123-45-67890", "2026-01-3456"], ["ssn 123-45-6789"]),
    (
        {"type": "no_pii", "kinds": ["iban"]},
        ["", "DE88370400440532013000", "AB12CDEF34567890", "INVOICE DE89"],
        ["DE89370400440532013000", "pay GB29 NWBK 6016 1331 9268 19 NOW", "NO93 8601 1117 947"],
    ),
    ({"type": "no_pii", "kinds": ["phone"]}, ["", "12345678", "+1"], ["call +49 30 1234567", "+1 (555) 123-4567"]),
    ({"type": "no_pii", "kinds": ["ip_address"]}, ["", "1.2.3", "1.2.3.4.5", "300.1.1.1"], ["from 10.0.0.1 today"]),
]
IDS = [" ".join(map(str, test.values())) for test, _, _ in GOOD_AND_BAD]


@pytest.mark.parametrize("is_ansi", [True, False], ids=["ansi", "legacy"])
@pytest.mark.parametrize(("test", "good", "bad"), GOOD_AND_BAD, ids=IDS)
def test_text_passes_or_fails(
    spark: SparkSession, test: dict[str, Any], good: list[str], bad: list[str], is_ansi: bool
) -> None:
    column = {"columns": ["c"]} if test["type"] == "no_pii" else {"column": "c"}
    values = [*good, *bad]
    with ansi(spark, is_ansi):
        found = dict(zip(values, verdicts(batch(spark, "c string", values), config(**test, **column)), strict=True))

    assert {value for value, passes in found.items() if not passes} == set(bad)
    assert None not in found.values()


@pytest.mark.parametrize("allow_null", [True, False])
@pytest.mark.parametrize("test", [test for test, _, _ in GOOD_AND_BAD], ids=IDS)
def test_allow_null_decides_about_a_null(spark: SparkSession, test: dict[str, Any], allow_null: bool) -> None:
    column = {"columns": ["c"]} if test["type"] == "no_pii" else {"column": "c"}

    assert verdicts(batch(spark, "c string", [None]), config(**test, **column, allow_null=allow_null)) == [allow_null]


def test_what_is_private_is_found_in_any_of_the_columns(spark: SparkSession) -> None:
    rows = batch(spark, "c string, d string", [("x", "y"), (None, "a@x.de"), ("a@x.de", None), (None, "y")])

    assert verdicts(rows, config("no_pii", columns=["c", "d"])) == [True, False, False, True]


@pytest.mark.parametrize("type", ["email", "url", "ipv6", "json", "no_pii"])
def test_long_text_takes_neither_the_stack_nor_forever(spark: SparkSession, type: str) -> None:  # noqa: A002 - as files say it
    long = ["a" * 300_000, "a@" + "a." * 100_000, "http://" + "a" * 200_000 + " ", "1 " * 100_000, "[" * 900]
    column = {"columns": ["c"]} if type == "no_pii" else {"column": "c"}
    began = time.monotonic()

    verdicts(batch(spark, "c string", long), config(type, **column))

    assert time.monotonic() - began < 20
