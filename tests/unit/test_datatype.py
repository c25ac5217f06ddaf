"""Types of columns: spellings that mean the same, and changes that readers survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.domain.datatype import canonical, is_alike, is_same, widens

SAME = [
    "int|INT|Integer|int4|INT32|int(11)|IntegerType",
    "bigint|BIGINT|long|int8|INT64|LongType()",
    "smallint|short|int2|int16",
    "tinyint|byte|ByteType",
    "string|STRING|varchar|text|utf8|large_string|StringType|character varying|CHAR VARYING|varchar(16777216)",
    "double|float8|FLOAT64|double precision|float(53)",
    "float|real|float4|float32",
    "boolean|BOOL",
    "decimal(10,2)|NUMERIC(10, 2)|number( 10,2 )|decimal128(10, 2)|DecimalType(10,2)",
    "decimal(10)|numeric(10,0)",
    "decimal|numeric",
    "varchar(20)|character varying(20)|VARCHAR( 20 )",
    "char(3)|CHARACTER(3)|bpchar(3)",
    "binary|bytea|BYTES|varbinary|large_binary",
    "date|DATE|date32|date32[day]",
    "timestamp|timestamp_ntz|datetime|TIMESTAMP WITHOUT TIME ZONE|timestamp(6) without time zone|timestamp[us]",
    "time|TIME WITHOUT TIME ZONE|time64[us]|time(9)",
    "timestamptz|timestamp_ltz|timestamp_tz|timestamp with time zone|timestamp(6) with time zone|timestamp[us, tz=UTC]",
    "timestamp(3)|timestamp[ms]",
    "array<int>|ARRAY<INTEGER>|list<item: int32>|int[]|integer[3]|array(int)|integer array|ArrayType(IntegerType,true)",
    "map<string,int>|MAP<VARCHAR, INTEGER>|map(varchar,int4)",
    "struct<a:int,b:array<string>>|STRUCT<a: INT, b: ARRAY<TEXT>>|row(a int, b array(text))|struct<`a` int,b text[]>",
    "struct<a:int not null>|STRUCT<a: INTEGER NOT NULL>",
    "geography|GEOGRAPHY",
]


@pytest.mark.parametrize("line", SAME, ids=[line.partition("|")[0] for line in SAME])
def test_spellings_of_different_engines_mean_the_same_type(line: str) -> None:
    first, *others = line.split("|")
    assert others
    assert [other for other in others if not is_same(first, other)] == []


def test_types_that_differ_stay_apart() -> None:
    found = [canonical(line.partition("|")[0]) for line in SAME]
    assert len(set(found)) == len(SAME)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("struct<a:int>", "struct<A:int>"),
        ("enum('A')", "enum('a')"),
        ("int", "int unsigned"),
        ("decimal", "decimal(10,0)"),
        ("array<int>", "array<bigint>"),
        ("timestamp", "timestamptz"),
    ],
)
def test_what_only_looks_alike_is_not_the_same(one: str, other: str) -> None:
    assert not is_same(one, other)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tinyint", "SMALLINT"),
        ("int", "bigint"),
        ("float", "double precision"),
        ("decimal(10,2)", "numeric(12,2)"),
        ("varchar(10)", "varchar(20)"),
        ("varchar(10)", "text"),
        ("varbinary(8)", "bytea"),
        ("timestamp(3)", "timestamp"),
        ("array<int>", "array<long>"),
        ("map<string,float>", "map<string,double>"),
        ("struct<a:int,b:string>", "struct<a:bigint,b:string,c:int>"),
        ("struct<a:int not null>", "struct<a:int>"),
    ],
)
def test_readers_survive_a_wider_type_but_not_the_way_back(old: str, new: str) -> None:
    assert widens(old, new)
    assert not widens(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int", "string"),
        ("string", "int"),
        ("int", "double"),
        ("bigint", "float"),
        ("date", "timestamp"),
        ("timestamp", "timestamptz"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("decimal(10,2)", "decimal"),
        ("char(3)", "char(5)"),
        ("boolean", "int"),
        ("array<int>", "array<string>"),
        ("array<int>", "int"),
        ("struct<a:int,b:int>", "struct<a:int>"),
        ("map<int,int>", "map<string,int>"),
        ("struct", "struct<a:int>"),
    ],
)
def test_what_loses_or_misreads_values_is_no_wider_type(old: str, new: str) -> None:
    assert not widens(old, new)


@pytest.mark.parametrize(
    "text",
    ["", " ", "decimal(", "array<", "array<>", "a>b", "(((", "map<int>", "struct<a>", "timestamp(²)", "x" * 100_000,
     "array<" * 500 + "int" + ">" * 500, "timestamp(" + "9" * 10_000 + ")", " " * 50_000 + "x", "[]", "not null"],
)  # fmt: skip
def test_a_text_that_is_no_type_is_a_type_of_its_own(text: str) -> None:
    assert is_same(text, text.upper())
    assert not is_same(text, "int")


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("decimal(10,2)", " DECIMAL(10, 2)", True),
        ("int", "integer", False),
        ("struct<a:int>", "struct<A:int>", False),
    ],
)
def test_case_and_blanks_are_no_other_spelling(one: str, other: str, alike: bool) -> None:
    assert is_alike(one, other) == alike


@given(st.text(alphabet='<>()[],: `"abint0123'))
def test_any_text_can_be_compared(text: str) -> None:
    assert is_same(text, f" {text} ")
    assert widens(text, text)
