"""Tests that look at values: what passes, what fails, and what a NULL does; the same in both modes of Spark."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.testing import ansi, batch, config, utc, verdicts

T, F = True, False
NAN = float("nan")
NAMES = ["a.b", "a b", "a`b", "A", "grün", "select", "1st"]


def case(said: str, ddl: str, rows: list[Any], expected: list[bool], **test: Any) -> Any:
    return pytest.param(ddl, rows, expected, test, id=said)


@pytest.mark.parametrize("is_ansi", [True, False], ids=["ansi", "legacy"])
@pytest.mark.parametrize(
    ("ddl", "rows", "expected", "test"),
    [
        case("a NULL is not not_null", "c int", [1, None], [T, F], type="not_null", columns=["c"]),
        case(
            "one of two NULLs is enough",
            "c int, d int",
            [(1, 1), (1, None), (None, None)],
            [T, F, F],
            type="not_null",
            columns=["c", "d"],
        ),
        case(
            "a field of a struct",
            "s struct<c:int>",
            [((1,),), ((None,),), (None,)],
            [T, F, F],
            type="not_null",
            column="s.c",
        ),
        case(
            "blank text is empty",
            "c string",
            ["a", "", " \t\n\u00a0", None],
            [T, F, F, T],
            type="not_empty",
            column="c",
        ),
        case(
            "a NULL may be taken as empty",
            "c string",
            ["a", None],
            [T, F],
            type="not_empty",
            column="c",
            allow_null=False,
        ),
        case(
            "an array has to have items",
            "c array<int>",
            [([1],), ([],), (None,)],
            [T, F, T],
            type="not_empty",
            column="c",
        ),
        case("a map too", "c map<string,int>", [({"a": 1},), ({},), (None,)], [T, F, T], type="not_empty", column="c"),
        case(
            "text among others",
            "c string",
            ["a", "A", "b", None],
            [T, F, F, T],
            type="accepted_values",
            column="c",
            values=["a"],
        ),
        case(
            "case may be ignored",
            "c string",
            ["a", "A", "b"],
            [T, T, F],
            type="accepted_values",
            column="c",
            values=["A"],
            case_sensitive=False,
        ),
        case(
            "a NULL may be refused",
            "c int",
            [1, 2, None],
            [T, F, F],
            type="accepted_values",
            column="c",
            values=[1],
            allow_null=False,
        ),
        case("numbers in text", "c string", ["1", "2"], [T, F], type="accepted_values", column="c", values=[1]),
        case("flags", "c boolean", [True, False], [T, F], type="accepted_values", column="c", values=[True]),
        case(
            "decimals as they are written",
            "c decimal(4,2)",
            [Decimal("0.10"), Decimal("0.11")],
            [T, F],
            type="accepted_values",
            column="c",
            values=[0.1],
        ),
        case(
            "floats as they are written",
            "c float",
            [0.1, 0.2],
            [T, F],
            type="accepted_values",
            column="c",
            values=[0.1],
        ),
        case(
            "dates as text",
            "c date",
            [date(2026, 1, 1), date(2026, 1, 2)],
            [T, F],
            type="accepted_values",
            column="c",
            values=["2026-01-01"],
        ),
        case(
            "forbidden values",
            "c string",
            ["x", "y", None],
            [F, T, T],
            type="forbidden_values",
            column="c",
            values=["x"],
        ),
        case(
            "forbidden and NULL",
            "c string",
            ["x", None],
            [F, F],
            type="forbidden_values",
            column="c",
            values=["x"],
            allow_null=False,
        ),
        case("both bounds count", "c int", [0, 1, 3, 4, None], [F, T, T, F, T], type="range", column="c", min=1, max=3),
        case("or neither", "c int", [1, 2, 3], [F, T, F], type="range", column="c", min=1, max=3, exclusive=True),
        case("a bound between whole numbers", "c bigint", [2, 3, 2**62], [F, T, T], type="range", column="c", min=2.5),
        case("a bound beyond the type", "c tinyint", [1, 127], [T, T], type="range", column="c", max=1000),
        case(
            "large whole numbers keep their digits",
            "c bigint",
            [2**53, 2**53 + 1],
            [T, F],
            type="range",
            column="c",
            max=2**53,
        ),
        case("floats against bounds as written", "c float", [0.1, 0.2], [T, F], type="range", column="c", max=0.1),
        case(
            "decimals against bounds as written",
            "c decimal(10,2)",
            [Decimal("0.30"), Decimal("0.31")],
            [T, F],
            type="range",
            column="c",
            max=0.3,
        ),
        case("NaN is in no range", "c double", [1.0, NAN, None], [T, F, T], type="range", column="c", min=0),
        case(
            "infinity is above all bounds", "c double", [float("inf"), 1.0], [F, T], type="range", column="c", max=1e300
        ),
        case(
            "dates between dates",
            "c date",
            [date(2026, 1, 1), date(2027, 1, 1)],
            [T, F],
            type="range",
            column="c",
            max="2026-12-31",
        ),
        case(
            "times with a zone",
            "c timestamp",
            [utc(2026, 1, 1, 11, 0), utc(2026, 1, 1, 13, 0)],
            [T, F],
            type="range",
            column="c",
            max="2026-01-01T13:00:00+01:00",
        ),
        case("text in its order", "c string", ["a", "b", "c"], [T, T, F], type="range", column="c", max="b"),
        case("a comparison", "c int", [1, 2, None], [F, T, T], type="comparison", column="c", operator=">", value=1),
        case(
            "NaN compares with nothing",
            "c double",
            [NAN, 2.0],
            [F, T],
            type="comparison",
            column="c",
            operator=">",
            value=1,
        ),
        case(
            "but is another value",
            "c double",
            [NAN, 1.0],
            [T, F],
            type="comparison",
            column="c",
            operator="!=",
            value=1,
        ),
        case(
            "a flag against a flag",
            "c boolean",
            [True, False],
            [T, F],
            type="comparison",
            column="c",
            operator="==",
            value=True,
        ),
        case(
            "one column before another",
            "c int, d bigint",
            [(1, 2), (2, 1), (None, 1)],
            [T, F, T],
            type="column_comparison",
            column="c",
            operator="<",
            other="d",
        ),
        case(
            "a date before a time",
            "c date, d timestamp",
            [(date(2026, 1, 1), utc(2026, 1, 1, 1)), (date(2026, 1, 2), utc(2026, 1, 1, 1))],
            [T, F],
            type="column_comparison",
            column="c",
            operator="<=",
            other="d",
        ),
        case(
            "equal within a tolerance of doubles",
            "c double, d double",
            [(1.01, 1.0), (1.02, 1.0), (NAN, 1.0), (float("inf"), 1.0), (None, 1.0)],
            [T, F, F, F, T],
            type="column_comparison",
            column="c",
            operator="=",
            other="d",
            tolerance=0.01,
        ),
        case(
            "differences that overflow are large",
            "c int, d int",
            [(2**31 - 1, -(2**31)), (5, 4)],
            [F, T],
            type="column_comparison",
            column="c",
            operator="=",
            other="d",
            tolerance=1,
        ),
        case(
            "of decimals too",
            "c decimal(38,0), d decimal(38,0)",
            [(Decimal("9" * 38), Decimal("-" + "9" * 38)), (Decimal(5), Decimal(4))],
            [F, T],
            type="column_comparison",
            column="c",
            operator="=",
            other="d",
            tolerance=1,
        ),
        case(
            "not more than a little above",
            "c decimal(4,2), d int",
            [(Decimal("1.05"), 1), (Decimal("1.06"), 1), (Decimal("-9.00"), 1)],
            [T, F, T],
            type="column_comparison",
            column="c",
            operator="<=",
            other="d",
            tolerance=0.05,
        ),
        case(
            "today is not in the future",
            "c date",
            [date(2026, 5, 4), date(2026, 5, 5), None],
            [T, F, T],
            type="not_in_future",
            column="c",
        ),
        case(
            "a tolerance for clocks",
            "c timestamp",
            [utc(2026, 5, 4, 12, 4), utc(2026, 5, 4, 12, 6)],
            [T, F],
            type="not_in_future",
            column="c",
            tolerance="5m",
        ),
        case(
            "times without a zone",
            "c timestamp_ntz",
            [each.replace(tzinfo=None) for each in (utc(2026, 5, 4, 11), utc(2026, 5, 4, 13))],
            [T, F],
            type="not_in_future",
            column="c",
        ),
        case("without a spread nothing is an outlier", "c int", [1, 1000], [T, T], type="outlier", column="c"),
        case("a condition in SQL", "c int", [1, 2, None], [F, T, T], type="custom_sql", condition="c > 1"),
        case(
            "a condition that is NULL",
            "c int",
            [2, None],
            [T, F],
            type="custom_sql",
            condition="c > 1",
            allow_null=False,
        ),
    ],
)
def test_values_pass_or_fail(
    spark: SparkSession, ddl: str, rows: list[Any], expected: list[bool], test: dict[str, Any], is_ansi: bool
) -> None:
    with ansi(spark, is_ansi):
        assert verdicts(batch(spark, ddl, rows), config(**test)) == expected


@pytest.mark.parametrize("name", NAMES)
def test_columns_are_found_by_whatever_name_they_have(spark: SparkSession, name: str) -> None:
    rows = batch(spark, "c string, d int", [("x", 1), ("y", 2), (None, 3)]).toDF(name, "d")
    tests = [
        config("accepted_values", column=name, values=["x"], allow_null=False),
        config("regex_match", column=name, pattern="x", allow_null=False),
        config("date", column=name),
        config("no_pii", columns=[name]),
    ]

    assert [verdicts(rows, test) for test in tests] == [[T, F, F], [T, F, F], [F, F, T], [T, T, T]]


def test_names_are_found_in_another_case(spark: SparkSession) -> None:
    rows = batch(spark, "Customer struct<Id:int>", [((1,),), ((None,),)])

    assert verdicts(rows, config("not_null", column="customer.ID")) == [T, F]


def test_a_column_with_a_dot_in_its_name_comes_before_the_field_of_a_struct(spark: SparkSession) -> None:
    rows = batch(spark, "a struct<b:int>, c int", [((1,), None), ((None,), 2)]).toDF("a", "a.b")

    assert verdicts(rows, config("not_null", column="a.b")) == [F, T]


@pytest.mark.parametrize(
    ("where", "expected"),
    [("c > 1", [T, F, T]), ("c IS NULL", [T, T, F]), ("false", [T, T, T]), ("NULL", [T, T, T])],
)
def test_rows_outside_where_pass(spark: SparkSession, where: str, expected: list[bool]) -> None:
    rows = batch(spark, "c int, d string", [(1, "x"), (2, "x"), (None, "x")])

    assert verdicts(rows, config("accepted_values", column="d", values=["y"], where=where)) == expected


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
def test_today_is_the_day_of_the_session(spark: SparkSession, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    rows = batch(spark, "c date", [date(2026, 5, 4), date(2026, 5, 5), date(2026, 5, 6)])

    passing = verdicts(rows, config("not_in_future", column="c"))

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    # At noon in UTC it is the next day in Auckland already.
    assert passing == [T, zone == "Pacific/Auckland", F]
