"""Tests that read text: patterns, lengths, formats, codes, and what should not be there."""

from __future__ import annotations

import operator
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.pipelines.config.tests import rows
from headgate.pipelines.spark.checks.codes import COUNTRIES_2, COUNTRIES_3, CURRENCIES, IBAN_LENGTHS
from headgate.pipelines.spark.checks.frame import Frame

_LABEL = "(?!-)[A-Za-z0-9-]{1,63}+(?<!-)"
_TOP = "(?:[A-Za-z]{2,63}|[Xx][Nn]--[A-Za-z0-9-]{2,59})"
_H16 = "[0-9A-Fa-f]{1,4}"
_IPV4 = r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_IPV6 = "|".join(
    [
        rf"(?:{_H16}:){{7}}{_H16}",
        rf"(?:{_H16}:){{6}}{_IPV4}",
        *(rf"(?:{_H16}:){{{before}}}(?::{_H16}){{1,{7 - before}}}" for before in range(1, 7)),
        rf":(?::{_H16}){{1,7}}",
        rf"(?:{_H16}:){{1,7}}:",
        *(rf"(?:{_H16}:){{{before}}}:(?:{_H16}:){{0,{5 - before}}}{_IPV4}" for before in range(1, 6)),
        rf"::(?:{_H16}:){{0,5}}{_IPV4}",
        "::",
    ]
)
# Java's $ matches before a last line break too, and groups that repeat take stack for each round: so \z, bounds and
# possessive repeats, which also keep long texts from taking quadratic time.
FORMATS = {
    "email": rf"\A(?=.{{3,254}}\z)[A-Za-z0-9._%+'-]++@(?:{_LABEL}\.){{1,20}}{_TOP}\z",
    "url": r"\A[A-Za-z][A-Za-z0-9+.-]*+://[^\s/?#]++\S*+\z",
    "uuid": r"\A[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}\z",
    "ipv4": rf"\A{_IPV4}\z",
    "ipv6": rf"\A(?:{_IPV6})\z",
}
ISO_8601 = {
    "date": r"\A\d{4}-\d{2}-\d{2}\z",
    "timestamp": r"\A\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?\z",
}
_CARD = r"(?<!\d)(?:\d[ -]?){12,18}\d(?!\d)"
_IBAN = "|".join(
    rf"\b(?:{'|'.join(countries)})\d{{2}}(?: ?[A-Z0-9]){{{length - 4}}}(?![A-Z0-9])"
    for length, countries in IBAN_LENGTHS.items()
)
PERSONAL = {
    "email": rf"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]++@(?:{_LABEL}\.){{1,20}}[A-Za-z]{{2}}",
    "ssn": r"(?<![\d-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])",
    "phone": r"\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){6,12}(?!\d)",
    "ip_address": rf"(?<![\d.]){_IPV4}(?![\d.])",
}


def regex_match(test: rows.RegexMatchTest, frame: Frame) -> Column:
    found = frame.text(test.column, "regex_match").rlike(test.pattern)
    return ~found if test.negate else found


def like(test: rows.LikeTest, frame: Frame) -> Column:
    found = frame.text(test.column, "like").like(test.pattern)
    return ~found if test.negate else found


def length(test: rows.LengthTest, frame: Frame) -> Column:
    size = F.length(frame.text(test.column, "length"))
    low = size >= test.min if test.min is not None else None
    high = size <= test.max if test.max is not None else None
    return reduce(operator.and_, [each for each in (low, high) if each is not None])


def formatted(test: rows.FormatTest, frame: Frame) -> Column:
    return frame.text(test.column, test.type).rlike(FORMATS[test.type])


def readable_time(test: rows.DateFormatTest, frame: Frame) -> Column:
    column = frame.text(test.column, test.type)
    if test.format is not None:
        return _unless_null(column, F.try_to_timestamp(column, F.lit(test.format)).isNotNull())
    # Spark reads `now`, `2020` and `12:30` too.
    read = F.expr(f"try_cast({frame.path(test.column)} AS {test.type})")
    return _unless_null(column, column.rlike(ISO_8601[test.type]) & read.isNotNull())


def json(test: rows.JsonTest, frame: Frame) -> Column:
    column = frame.text(test.column, "json")
    return _unless_null(column, _is_json(column))


def _is_json(column: Column) -> Column:
    """Spark stops reading after the first value: text that may follow is found by what is put around it.

    A text that is one item of a list as well as one member of an object is one value and nothing else.
    """
    item, member = F.concat(F.lit("["), column, F.lit("]")), F.concat(F.lit('{"a":'), column, F.lit("}"))
    return _parsed(item).isNotNull() & _parsed(member).isNotNull()


def _parsed(column: Column) -> Column:
    # Spark 3.5 has no variants.
    return F.try_parse_json(column) if hasattr(F, "try_parse_json") else F.get_json_object(column, "$")


def json_schema(test: rows.JsonSchemaTest, frame: Frame) -> Column:
    column = frame.text(test.column, "json_schema")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_headgate_corrupt"}
    read = F.from_json(column, f"{test.fields}, _headgate_corrupt STRING", options)
    required = [_part(read, name).isNotNull() for name in test.required]
    fits = reduce(operator.and_, required, read.getField("_headgate_corrupt").isNull())
    # What is no JSON at all is NULL to from_json.
    return _unless_null(column, _is_json(column) & read.isNotNull() & fits)


def _part(read: Column, name: str) -> Column:
    return reduce(lambda column, part: column.getField(part), name.split("."), read)


def code(test: rows.CodeTest, frame: Frame) -> Column:
    column = frame.text(test.column, test.type)
    if test.type == "currency_code":
        known = CURRENCIES
    else:
        known = {2: COUNTRIES_2, 3: COUNTRIES_3}.get(test.letters or 0, COUNTRIES_2 | COUNTRIES_3)
    return (column if test.case_sensitive else F.upper(column)).isin(sorted(known))


def no_pii(test: rows.NoPiiTest, frame: Frame) -> Column:
    return reduce(
        operator.and_, [~_has(kind, frame.text(name, "no_pii")) for name in test.columns for kind in test.kinds]
    )


def _has(kind: str, column: Column) -> Column:
    if kind == "credit_card":
        return F.exists(_found(column, _CARD), lambda each: F.call_function("luhn_check", _without_gaps(each)))
    if kind == "iban":
        return F.exists(_found(column, _IBAN), _is_iban)
    return column.rlike(PERSONAL[kind])


def _found(column: Column, pattern: str) -> Column:
    return F.regexp_extract_all(column, F.lit(pattern), F.lit(0))


def _without_gaps(text: Column) -> Column:
    return F.translate(text, " -", "")


def _is_iban(text: Column) -> Column:
    """ISO 13616: the first four characters last, letters as 10 to 35, and the rest by 97 is 1."""
    plain = _without_gaps(text)
    moved = F.concat(F.substring(plain, 5, 34), F.substring(plain, 1, 4))

    def appended(rest: Column, each: Column) -> Column:
        code = F.ascii(each)
        return F.when(code < 58, (rest * 10 + code - 48) % 97).otherwise((rest * 100 + code - 55) % 97)

    return F.aggregate(F.split(moved, ""), F.lit(0), appended) == 1


def _unless_null(column: Column, condition: Column) -> Column:
    """NULL where there is nothing to read, so that allow_null decides."""
    return F.when(column.isNotNull(), condition)
