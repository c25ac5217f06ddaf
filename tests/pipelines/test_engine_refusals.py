"""Tests and steps that do not fit their columns: refused before any job of Spark, with the place and the way out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headgate.errors import InvalidPipeline, PipelineProblem
from headgate.pipelines.load import load
from headgate.pipelines.plan import make_plan
from headgate.pipelines.record import FieldRecord
from headgate.pipelines.spark.preflight import check_columns
from tests.pipelines.testing import jobs_of

HEAD = """
project: shop
connections:
  lake: {type: local, base_path: data}
pipelines:
- pipeline: daily
  nodes:
"""
READ = 'read: {connection: lake, path: raw, format: json, columns: "id INT, amount DOUBLE, who STRUCT<city: STRING>"}'
WRITE = "write: {connection: lake, path: orders}"


def refused(spark: SparkSession, folder: Path, nodes: str) -> tuple[list[PipelineProblem], int]:
    """What is said of a file, and the jobs that it took to find it out."""
    (folder / "data" / "raw").mkdir(parents=True)
    file = folder / "shop.yaml"
    file.write_text(HEAD.lstrip() + nodes, encoding="utf-8")

    def tried() -> list[PipelineProblem]:
        with pytest.raises(InvalidPipeline) as caught:
            check_columns(spark, make_plan(load(file)))
        return list(caught.value.problems)

    return jobs_of(spark, tried)


def with_test(test: str) -> str:
    return f"  - name: orders\n    {READ}\n    validation:\n      tests:\n      - {test}\n    {WRITE}\n"


@pytest.mark.parametrize(
    ("test", "message", "hint"),
    [
        (
            "{type: range, column: amonut, min: 0}",
            "test 'range': there is no column 'amonut'",
            r"did you mean 'amount'\?",
        ),
        (
            "{type: not_null, columns: [id, who.citi]}",
            "test 'not_null': there is no column 'who.citi'",
            r"did you mean 'who.city'\?",
        ),
        (
            '{type: regex_match, column: who.city, pattern: "(["}',
            r"test 'regex_match': pattern '\(\[' cannot be used: .*",
            "patterns are in Java's dialect.*",
        ),
        (
            "{type: range, column: amount, min: low}",
            "test 'range': 'low' cannot be compared with 'amount', which is double",
            "correct the value, or cast the column in transform",
        ),
        (
            "{type: schema, columns: [{name: id, type: integr}]}",
            "test 'schema': 'integr' of column 'id' is no type: .*",
            "write it as Spark does.*",
        ),
        (
            "{type: unique, column: who.city}",
            "test 'unique': unique needs columns, and 'who.city' is a field of 'who'",
            "give it a name of its own in transform: who.city AS who_city",
        ),
        (
            '{type: custom_sql, condition: "amonut > 0"}',
            "test 'custom_sql': condition 'amonut > 0' cannot be used: .*amonut.*",
            ".*",
        ),
        (
            '{type: not_null, column: id, where: "count(*) > 1"}',
            r"test 'not_null': where 'count\(\*\) > 1' cannot be used: .*",
            "it is a condition over the columns of one row.*",
        ),
    ],
    ids=lambda value: value if value.startswith("{") else "",
)
def test_test_that_does_not_fit_is_refused_before_any_job(
    spark: SparkSession, tmp_path: Path, test: str, message: str, hint: str
) -> None:
    (problem,), jobs = refused(spark, tmp_path, with_test(test))

    assert jobs == 0
    assert problem.place == f"{tmp_path}/shop.yaml:11:9"
    assert re.fullmatch(message, problem.message), problem.message
    assert re.fullmatch(hint, problem.hint or ""), problem.hint


def test_all_that_does_not_fit_is_told_at_once(spark: SparkSession, tmp_path: Path) -> None:
    nodes = with_test("{type: range, column: amonut, min: 0}") + (
        f"  - name: steps\n    {READ}\n    transform: {{steps: [SELECT ammount FROM df]}}\n"
        "    write: {connection: lake, path: steps}\n"
        "  - name: after\n    depends_on: orders\n    validation: {tests: [{type: not_null, column: idd}]}\n"
        "    write: {connection: lake, path: after}\n"
        "  - name: absent\n    read: {connection: lake, path: nowhere}\n    write: {connection: lake, path: absent}\n"
    )
    problems, jobs = refused(spark, tmp_path, nodes)

    assert jobs == 0
    told = {problem.place.removeprefix(f"{tmp_path}/"): problem.message for problem in problems}
    assert sorted(told) == ["shop.yaml:11:9", "shop.yaml:15:16", "shop.yaml:19:26", "shop.yaml:22:11"]
    assert "ammount" in told["shop.yaml:15:16"]
    assert told["shop.yaml:19:26"] == "test 'not_null': there is no column 'idd'"
    assert "nowhere" in told["shop.yaml:22:11"]


def test_columns_of_nodes_are_known_before_any_job(spark: SparkSession, tmp_path: Path) -> None:
    nodes = with_test("{type: not_null, column: id}") + (
        "  - name: cities\n    depends_on: orders\n    transform: {steps: ['SELECT who.city, id FROM orders']}\n"
    )
    (tmp_path / "data" / "raw").mkdir(parents=True)
    file = tmp_path / "shop.yaml"
    file.write_text(HEAD.lstrip() + nodes, encoding="utf-8")

    found, jobs = jobs_of(spark, lambda: check_columns(spark, make_plan(load(file))))

    assert jobs == 0
    assert found["daily", "cities"] == (FieldRecord("city", "string"), FieldRecord("id", "int"))


Found = dict[str, list[str] | None]


def columns(spark: SparkSession, folder: Path, nodes: str) -> Found:
    """The columns of each node, as `name type`; None where only the run will tell."""
    (folder / "data" / "raw").mkdir(parents=True, exist_ok=True)
    file = folder / "shop.yaml"
    file.write_text(HEAD.lstrip() + nodes, encoding="utf-8")
    found = check_columns(spark, make_plan(load(file)))
    return {
        key[1]: None if fields is None else [f"{each.name} {each.type}" for each in fields]
        for key, fields in found.items()
    }


@pytest.fixture
def cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = "def doubled(df):\n    return df.withColumn('twice', df['id'] * 2)\n"
    (tmp_path / "cleaning.py").write_text(text, encoding="utf-8")
    yield
    sys.modules.pop("cleaning", None)


def zones_and(steps: str, source: str = READ) -> str:
    return (
        f"  - name: zones\n    {READ}\n    write: {{connection: lake, path: zones}}\n"
        f"  - name: orders\n    depends_on: zones\n    {source}\n    transform: {{steps: [{steps}]}}\n    {WRITE}\n"
    )


FUNCTION = '{function: "cleaning:doubled"}'


@pytest.mark.usefixtures("cleaning")
def test_function_over_a_source_that_is_there_is_checked_whatever_the_node_waits_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = columns(
        spark, tmp_path, zones_and(f"SELECT id FROM df, {FUNCTION}, SELECT df.* FROM df JOIN zones USING (id)")
    )

    assert found["orders"] == ["id int", "twice int"]


@pytest.mark.usefixtures("cleaning")
@pytest.mark.parametrize(
    ("steps", "source"),
    [
        (f"SELECT df.* FROM df JOIN zones USING (id), {FUNCTION}", READ),
        (f"SELECT id FROM df, {FUNCTION}", "read: {connection: lake, path: zones}"),
        (FUNCTION, ""),
    ],
    ids=["joined", "read", "depended on"],
)
def test_function_over_rows_to_come_is_left_to_the_run(
    spark: SparkSession, tmp_path: Path, steps: str, source: str
) -> None:
    assert columns(spark, tmp_path, zones_and(steps, source))["orders"] is None


def written_and_read(write: str) -> str:
    """A node that writes id, amount and day so, one that reads its files, and one that depends on it."""
    return (
        f"  - name: orders\n    {READ}\n"
        "    transform: {steps: ['SELECT id, DATE(\"2026-01-05\") AS day, amount FROM df']}\n"
        f"    write: {{connection: lake, path: orders, {write}}}\n"
        "  - name: reader\n    read: {connection: lake, path: orders}\n"
        "    write: {connection: lake, path: read}\n"
        "  - {name: follower, depends_on: orders}\n"
    )


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        ("partition_by: day", ["id int", "amount double", "day date"]),
        ("mode: overwrite_partitions, partition_by: day", ["id int", "amount double", "day date"]),
        ("mode: append", ["id int", "day date", "amount double"]),
        ("mode: upsert, keys: id", ["id int", "day date", "amount double"]),
        ("mode: append_once, keys: id", ["id int", "day date", "amount double"]),
        (
            "mode: scd2, keys: id, history: {effective_at: day}",
            ["id int", "day date", "amount double", "valid_from date", "valid_to date", "is_current boolean"],
        ),
    ],
)
def test_what_a_node_will_write_has_the_columns_that_its_target_is_going_to_have(
    spark: SparkSession, tmp_path: Path, write: str, expected: list[str]
) -> None:
    found = columns(spark, tmp_path, written_and_read(write))

    assert found["reader"] == found["follower"] == expected


@pytest.mark.parametrize(
    ("there", "write", "expected"),
    [
        ("1 AS id, 'a' AS note, 1.5D AS amount, DATE'2026-01-05' AS day", "mode: append", "id note amount day"),
        ("1 AS id, 'a' AS note, 1.5D AS amount, DATE'2026-01-05' AS day", "mode: overwrite", "id day amount"),
        ("1 AS id, 'a' AS note", "mode: upsert, keys: id", "id note day amount"),
        # Readers see new columns or not, by the file that Spark looks at; other types are refused by the writer.
        ("1 AS id, 'a' AS note", "mode: append", None),
        ("'x' AS id, 1.5D AS amount, DATE'2026-01-05' AS day", "mode: append", None),
    ],
)
def test_columns_that_stay_in_a_target_are_among_those_to_come(
    spark: SparkSession, tmp_path: Path, there: str, write: str, expected: str | None
) -> None:
    spark.sql(f"SELECT {there}").write.parquet(str(tmp_path / "data" / "orders"))

    found = columns(spark, tmp_path, written_and_read(write))["reader"]

    assert (None if found is None else " ".join(each.split()[0] for each in found)) == expected


def test_partitions_whose_names_do_not_tell_their_type_are_left_to_who_reads_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    nodes = written_and_read("partition_by: day").replace('DATE("2026-01-05")', '"05"')

    found = columns(spark, tmp_path, nodes)

    assert found["reader"] is None
    assert found["follower"] == ["id int", "amount double", "day string"]
