"""Tests that do not fit a batch are refused before any job, all of them at once, with the way out."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.pipelines.spark.checks.refusals import refusals
from tests.pipelines.testing import batch, config, jobs_of, named

COLUMNS = "id int, email string, born date, at timestamp, local timestamp_ntz, price decimal(6,2), small tinyint, "
MORE = "score double, paid boolean, tags array<string>, extra map<string,int>, home struct<city:string>"


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return batch(spark, COLUMNS + MORE, [(None,) * 12])


def refused(said: str, message: str, hint: str = "", **test: Any) -> Any:
    return pytest.param(message, hint, test, id=said)


@pytest.mark.parametrize(
    ("message", "hint", "test"),
    [
        refused(
            "a column that is not there",
            "there is no column 'e-mail'",
            "did you mean 'email'?",
            type="email",
            column="e-mail",
        ),
        refused("in another case", "no column 'EMIAL'", "did you mean 'email'?", type="email", column="EMIAL"),
        refused(
            "a field that is not there",
            "no column 'home.town'",
            "did you mean 'home.city'?",
            type="not_null",
            column="home.town",
        ),
        refused(
            "one like it", "no column 'home.citty'", "did you mean 'home.city'?", type="not_null", column="home.citty"
        ),
        refused("a name like no other", "no column 'zzz'", "its columns: id, email", type="not_null", column="zzz"),
        refused(
            "the second of two columns", "no column 'idd'", "did you mean 'id'?", type="not_null", columns=["id", "idd"]
        ),
        refused(
            "a pattern for numbers",
            "regex_match tests text, and 'id' is int",
            "cast it",
            type="regex_match",
            column="id",
            pattern="1",
        ),
        refused(
            "a length of numbers", "length tests text, and 'id' is int", "cast it", type="length", column="id", min=1
        ),
        refused("a date that is one already", "date tests text, and 'born' is date", type="date", column="born"),
        refused(
            "emptiness of numbers",
            "not_empty tests text, arrays and maps, and 'id' is int",
            "use not_null",
            type="not_empty",
            column="id",
        ),
        refused(
            "times that are text",
            "not_in_future tests dates and times, and 'email' is string",
            type="not_in_future",
            column="email",
        ),
        refused("outliers of text", "outlier tests numbers, and 'email' is string", type="outlier", column="email"),
        refused(
            "a word among numbers",
            "'x' cannot be a value of 'id', which is int",
            type="accepted_values",
            column="id",
            values=["x"],
        ),
        refused(
            "half a whole number", "2.5 cannot be a value of 'id'", type="accepted_values", column="id", values=[1, 2.5]
        ),
        refused(
            "a number that is too large",
            "300 cannot be a value of 'small', which is tinyint: it is too large",
            type="accepted_values",
            column="small",
            values=[300],
        ),
        refused(
            "too many digits",
            "1.234 cannot be a value of 'price', which is decimal(6,2)",
            type="accepted_values",
            column="price",
            values=[1.234],
        ),
        refused(
            "a flag that is a number",
            "1 cannot be a value of 'paid'",
            type="accepted_values",
            column="paid",
            values=[1],
        ),
        refused(
            "a day that is none",
            "'2026-02-30' cannot be compared with 'born'",
            type="range",
            column="born",
            max="2026-02-30",
        ),
        refused(
            "a number as a day", "5 cannot be compared with 'born', which is date", type="range", column="born", max=5
        ),
        refused(
            "a zone where there are none",
            "cannot be compared with 'local'",
            type="range",
            column="local",
            max="2026-01-01T00:00:00Z",
        ),
        refused(
            "a number against text",
            "'email' is text, and 5 is not",
            "write the bound as text",
            type="comparison",
            column="email",
            operator=">",
            value=5,
        ),
        refused(
            "a range of arrays",
            "cannot be compared with 'tags', which is array<string>",
            type="range",
            column="tags",
            min=1,
        ),
        refused(
            "text against a number",
            "'email' is string and 'id' is int",
            "cast one",
            type="column_comparison",
            column="email",
            operator="=",
            other="id",
        ),
        refused(
            "maps", "'extra' is map<string,int>", type="column_comparison", column="extra", operator="=", other="extra"
        ),
        refused(
            "a tolerance of dates",
            "tolerance tests numbers, and 'born' is date",
            type="column_comparison",
            column="born",
            operator="=",
            other="at",
            tolerance=1,
        ),
        refused(
            "case of numbers",
            "case_sensitive: false tests text",
            type="accepted_values",
            column="id",
            values=[1],
            case_sensitive=False,
        ),
        refused(
            "a key in a struct",
            "unique needs columns, and 'home.city' is a field of 'home'",
            "home.city AS home_city",
            type="unique",
            column="home.city",
        ),
        refused("a key that is a map", "unique compares values, and 'extra' is map", type="unique", column="extra"),
        refused(
            "a pattern that is none",
            "pattern '(' cannot be used",
            "Java's dialect",
            type="regex_match",
            column="email",
            pattern="(",
        ),
        refused(
            "Python's named groups",
            "pattern '(?P<a>x)' cannot be used",
            "Java's dialect",
            type="regex_match",
            column="email",
            pattern="(?P<a>x)",
        ),
        refused(
            "an escape of nothing",
            "pattern 'a\\\\b' cannot be used",
            "%, _",
            type="like",
            column="email",
            pattern="a\\b",
        ),
        refused(
            "a format that is none",
            "format 'YYYY-bb' cannot be used",
            "yyyy-MM-dd",
            type="date",
            column="email",
            format="YYYY-bb",
        ),
        refused("fields that are none", "Syntax error", type="json_schema", column="email", fields="id BIGINTT NOT"),
        refused(
            "required but not a field",
            "No such struct field",
            type="json_schema",
            column="email",
            fields="id INT",
            required=["idd"],
        ),
        refused(
            "SQL that is none",
            "condition 'id >< 1' cannot be used",
            "condition over the columns",
            type="custom_sql",
            condition="id >< 1",
        ),
        refused("SQL with other columns", "condition 'idd > 1' cannot be used", type="custom_sql", condition="idd > 1"),
        refused("SQL that is no condition", "condition 'id + 1' cannot be used", type="custom_sql", condition="id + 1"),
        refused(
            "an aggregate",
            "condition 'sum(id) > 1' cannot be used",
            "without aggregates",
            type="custom_sql",
            condition="sum(id) > 1",
        ),
        refused(
            "a window", "cannot be used", "windows", type="custom_sql", condition="row_number() OVER (ORDER BY id) = 1"
        ),
        refused("more rows than there were", "cannot be used", type="custom_sql", condition="explode(array(true))"),
        refused(
            "chance", "condition 'rand() > 0.5' cannot be used", "random", type="custom_sql", condition="rand() > 0.5"
        ),
        refused("where that is none", "where 'id =' cannot be used", type="not_null", column="id", where="id ="),
        refused(
            "where that is no condition", "where 'email' cannot be used", type="unique", column="id", where="email"
        ),
        refused("where of a figure", "where 'nope' cannot be used", type="mean", column="id", min=1, where="nope"),
        refused(
            "an order of other columns",
            "order_by 'nope DESC' cannot be used",
            "updated_at DESC",
            type="unique",
            column="id",
            keep="first",
            order_by="nope DESC",
        ),
        refused("a mean of text", "mean tests numbers, and 'email' is string", type="mean", column="email", min=1),
        refused(
            "freshness of numbers",
            "freshness tests dates and times, and 'id' is int",
            type="freshness",
            column="id",
            max_age="1d",
        ),
        refused("a share of NULLs of nothing", "there is no column 'nope'", type="null_rate", column="nope", max=0.1),
        refused(
            "different maps",
            "distinct_count compares values, and 'extra' is map",
            type="distinct_count",
            column="extra",
            min=1,
        ),
        refused(
            "hours of dates",
            "'born' is a date, and every is no whole number of days",
            "every: 1d",
            type="no_gaps",
            column="born",
            every="1h",
        ),
        refused("gaps of text", "no_gaps tests dates and times", type="no_gaps", column="email", every="1h"),
        refused(
            "a part of text",
            "low to high tests numbers",
            type="distribution",
            column="email",
            threshold=1,
            expected=[{"low": 0, "share": 0.5}, {"high": 0, "share": 0.5}],
        ),
        refused(
            "a part that cannot be",
            "'x' cannot be a value of 'id'",
            type="distribution",
            column="id",
            threshold=1,
            expected=[{"value": "x", "share": 0.5}, {"value": 1, "share": 0.5}],
        ),
        refused(
            "a query that is none",
            "query 'SELECT nope FROM df' cannot be used",
            "called df",
            type="custom_query",
            query="SELECT nope FROM df",
        ),
        refused(
            "a query without a figure",
            "gives id int, email string, and > compares one number",
            type="custom_query",
            query="SELECT id, email FROM {df}",
            operator=">",
            value=1,
        ),
        refused(
            "a type that is none",
            "'integr' of column 'id' is no type",
            "decimal(10,2)",
            type="schema",
            columns=[{"name": "id", "type": "integr"}],
        ),
        refused(
            "intervals of two kinds",
            "start 'id' is int and end 'born' is date",
            type="no_overlap",
            columns=["email"],
            start="id",
            end="born",
        ),
        refused(
            "sums of text",
            "reconcile tests numbers, and 'email' is string",
            type="reconcile",
            reference={"node": "n"},
            sums=["email"],
        ),
        refused(
            "a part of the volume",
            "volume_drop compares all rows with those of earlier runs",
            "use row_count",
            type="volume_drop",
            threshold=0.5,
            where="id > 1",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    spark: SparkSession, rows: DataFrame, message: str, hint: str, test: dict[str, Any]
) -> None:
    [problem] = refusals(spark, rows, named(config(**test)))

    assert problem.place == "shop.yaml:1"
    assert problem.message.startswith(f"test '{test['type']}1': ")
    assert message in problem.message
    assert hint in (problem.hint or "")
    assert "SQLSTATE" not in problem.message


def test_all_that_is_wrong_is_told_at_once_and_no_job_runs(spark: SparkSession, rows: DataFrame) -> None:
    tests = named(
        config("not_null", column="nope"),
        config("regex_match", column="email", pattern="["),
        config("regex_match", column="email", pattern="^a"),
        config("custom_sql", condition="id + 1"),
        config("custom_sql", condition="id > 1", where="zip(x)"),
        config("like", column="email", pattern="\\"),
        config("custom_query", query="SELECT"),
        config("schema", columns=[{"name": "id", "type": "strin"}]),
        config("mean", column="email", min=1),
    )

    problems, jobs = jobs_of(spark, lambda: refusals(spark, rows, tests))

    assert sorted(problem.place for problem in problems) == [f"shop.yaml:{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9)]
    assert jobs == 0


def test_tests_that_fit_are_not_refused_and_no_job_runs(spark: SparkSession, rows: DataFrame) -> None:
    tests = named(
        config("not_null", columns=["id", "home.city"]),
        config("unique", columns=["ID"], keep="first", order_by=["at DESC", "upper(email)"]),
        config("regex_match", column="email", pattern=r"^[^@]+@(?<host>\S++)$", where="paid AND home.city IS NOT NULL"),
        config("like", column="email", pattern="%\\_%"),
        config("date", column="email", format="dd.MM.yyyy"),
        config("json_schema", column="email", fields="id INT, a STRUCT<b: INT>", required=["id", "a.b"]),
        config("custom_sql", condition="try_divide(id, score) > 1 OR array_contains(tags, 'x')"),
        config("accepted_values", column="price", values=[1, 2.5, 100]),
        config("range", column="small", min=-1000.5, max=1000),
        config("foreign_key", column="id", reference={"node": "n"}),
        config("mean", column="price", min=1, where="paid"),
        config("distinct_count", column="home.city", min=1),
        config(
            "custom_query", query="SELECT count(*) FROM {df} d WHERE d.id IS NULL", operator="<", value=5, where="paid"
        ),
        config("schema", columns=[{"name": "id", "type": "integer"}, {"name": "price", "type": "NUMERIC(6,2)"}]),
        config("no_overlap", keys=["id"], start="born", end="at"),
        config("no_gaps", column="born", every="7d"),
    )

    assert jobs_of(spark, lambda: refusals(spark, rows, tests)) == ([], 0)
