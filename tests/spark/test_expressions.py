"""The text of expressions, what counts as masking, and how values are kept out of both."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark_jobs import run_job
from tests.support.watching import Seen, Watched


@pytest.fixture
def orders(watched: Watched) -> Watched:
    watched.spark.sql(
        """SELECT 1 AS id, 2 AS customer_id, 10.5D AS amount, 3 AS quantity, 'paid' AS status, '2024-01-02' AS day,
               named_struct('city', 'Lund', 'zip', '22') AS address, array('x', 'y') AS codes"""
    ).write.parquet(watched.path("orders"))
    watched.spark.read.parquet(watched.path("orders")).createOrReplaceTempView("orders")
    return watched


def written(watched: Watched, query: str) -> Seen:
    return watched.one(lambda: watched.spark.sql(query).write.parquet(watched.path("result")))


def text_of(seen: Seen, target: str, source: str) -> str | None:
    return seen.expressions[f"result.{target}" if target else "result", f"orders.{source}"]


@pytest.mark.parametrize(
    ("expression", "source", "text"),
    [
        ("amount", "amount", None),
        ("amount * quantity + 1", "quantity", "((amount * quantity) + 1)"),
        ("CAST(id AS STRING)", "id", "CAST(id AS STRING)"),
        ("upper(address.city)", "address.city", "upper(address.city)"),
        ("codes[0]", "codes", "codes[0]"),
        ("concat(status, 'it\\'s')", "status", "concat(status, 'it''s')"),
        ("status IN ('a', 'b') AND day IS NOT NULL", "day", "((status IN ('a', 'b')) AND (day IS NOT NULL))"),
        ("status LIKE 'p%' OR NOT id = 3", "id", "((status LIKE 'p%') OR (NOT (id = 3)))"),
        ("CASE WHEN id = 1 THEN amount ELSE 0 END", "amount", "CASE WHEN (id = 1) THEN amount ELSE 0 END"),
        ("CASE WHEN id = 1 THEN amount ELSE 0 END", "id", "(id = 1)"),
        ("nvl(status, day)", "day", "nvl(status, day)"),
        ("struct(id AS n, day)", "id", "struct(id AS n, day AS day)"),
        ("-amount", "amount", "(- amount)"),
        ("transform(codes, c -> upper(c))", "codes", "transform(codes, c -> upper(c))"),
        ("lag(amount, 2) OVER (ORDER BY day DESC)", "amount", "lag(amount, 2) OVER (ORDER BY day DESC)"),
        ("rank() OVER (PARTITION BY status ORDER BY id)", "id", "rank() OVER (PARTITION BY status ORDER BY id)"),
        ("rank() OVER (ORDER BY left(day, 4))", "day", "rank() OVER (ORDER BY left(day, 4))"),
        (
            "sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            "amount",
            "sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        ),
    ],
)
def test_text_of_a_computed_column(orders: Watched, expression: str, source: str, text: str | None) -> None:
    seen = written(orders, f"SELECT {expression} AS value FROM orders")

    assert text_of(seen, "value", source) == text


@pytest.mark.parametrize(
    ("expression", "source", "text"),
    [
        ("sum(amount * quantity)", "amount", "sum((amount * quantity))"),
        ("count(DISTINCT customer_id)", "customer_id", "count(DISTINCT customer_id)"),
        ("max(amount) FILTER (WHERE status = 'paid')", "amount", "max(amount) FILTER (WHERE (status = 'paid'))"),
        ("max(amount) FILTER (WHERE status = 'paid')", "status", "(status = 'paid')"),
    ],
)
def test_text_of_an_aggregate(orders: Watched, expression: str, source: str, text: str) -> None:
    seen = written(orders, f"SELECT {expression} AS value FROM orders GROUP BY day")

    assert text_of(seen, "value", source) == text


def test_an_aggregate_keeps_its_text_behind_later_steps(orders: Watched) -> None:
    seen = written(orders, "SELECT round(total, 1) AS value FROM (SELECT sum(amount) AS total FROM orders)")

    assert text_of(seen, "value", "amount") == "sum(amount)"


def test_each_condition_has_its_own_text(orders: Watched) -> None:
    seen = written(orders, "SELECT id FROM orders WHERE status = 'paid' AND amount > 1 ORDER BY day")

    assert text_of(seen, "", "status") == "(status = 'paid')"
    assert text_of(seen, "", "amount") == "(amount > 1)"
    assert text_of(seen, "", "day") == "day"


def test_a_subquery_is_named_by_what_it_selects(orders: Watched) -> None:
    seen = written(orders, "SELECT quantity + (SELECT max(id) AS most FROM orders) AS value FROM orders")

    assert text_of(seen, "value", "quantity") == "(quantity + (SELECT most …))"


def test_a_function_of_the_user_is_called_by_its_name(orders: Watched) -> None:
    from pyspark.sql.functions import udf

    def shouted(text: str) -> str:
        return text.upper()

    orders.spark.sparkContext.pythonExec = sys.executable
    frame = orders.spark.table("orders").select(udf(shouted, useArrow=False)("status").alias("value"))
    seen = orders.one(lambda: frame.write.parquet(orders.path("result")))

    assert text_of(seen, "value", "status") == "shouted(status)"


def test_a_long_expression_ends_in_an_ellipsis(orders: Watched) -> None:
    seen = written(orders, f"SELECT {' + '.join(['amount'] * 300)} AS value FROM orders")

    text = text_of(seen, "value", "amount")
    assert text is not None
    assert len(text) == 500
    assert text.endswith("…")
    assert "#" not in text


def masked_by(seen: Seen, target: str) -> dict[str, bool]:
    fields = seen.dataset("result")["facets"]["columnLineage"]["fields"][target]["inputFields"]
    return {field["field"]: any(t.get("masking") for t in field["transformations"]) for field in fields}


@pytest.mark.parametrize(
    ("expression", "masking"),
    [
        ("sha2(status, 256)", True),
        ("md5(status)", True),
        ("substring(sha1(status), 1, 4)", True),
        ("hash(status)", True),
        ("xxhash64(status)", True),
        ("crc32(status)", True),
        ("mask(status)", True),
        ("upper(status)", False),
        ("status", False),
    ],
)
def test_hashes_mask_what_they_are_given(orders: Watched, expression: str, masking: bool) -> None:
    seen = written(orders, f"SELECT {expression} AS value FROM orders")

    assert masked_by(seen, "value") == {"status": masking}


def test_a_count_masks_and_a_maximum_does_not(orders: Watched) -> None:
    seen = written(orders, "SELECT count(status) AS n, max(status) AS most FROM orders")

    assert masked_by(seen, "n") == {"status": True}
    assert masked_by(seen, "most") == {"status": False}


def test_masking_is_not_undone_by_later_steps(orders: Watched) -> None:
    seen = written(orders, "SELECT concat(tag, day) AS value FROM (SELECT md5(status) AS tag, day FROM orders)")

    assert masked_by(seen, "value") == {"status": True, "day": False}


JOB = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
folder, *statements = sys.argv[1:]
spark.sql("SELECT 1 AS id, 2.5D AS amount, 'paid' AS status").write.parquet(folder + "/orders")
spark.read.parquet(folder + "/orders").createOrReplaceTempView("orders")
for number, statement in enumerate(statements):
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder}/result{number}' USING parquet {statement}").collect()
"""

STATEMENTS = {
    "SELECT 'it''s 8' AS a, 'say \\'9\\'' AS b, \"x\" AS c": "SELECT ? AS a, ? AS b, ? AS c",
    "SELECT 1 AS `it's 5`, id AS c2 FROM orders": "SELECT ? AS `it's 5`, id AS c2 FROM orders",
    "SELECT 1e5 AS a1, 1.5E-3 AS a2, .5 AS a3, 10L AS a4, -2.5BD AS a5": (
        "SELECT ? AS a1, ? AS a2, ? AS a3, ? AS a4, -? AS a5"
    ),
    "SELECT 7 AS a -- was 'hidden'\n, 8 /* hidden /* 3 */ 4 */ AS b": "SELECT ? AS a  \n, ?   AS b",
    "SELECT r'\\d\\' AS a, X'1F' AS b, DATE '2024-01-01' AS c": "SELECT ? AS a, ? AS b, DATE ? AS c",
    "SELECT /*+ BROADCAST(o2) */ o1.id FROM orders o1 JOIN orders o2 ON o1.id = o2.id AND o1.amount <> 3": (
        "SELECT /*+ BROADCAST(o2) */ o1.id FROM orders o1 JOIN orders o2 ON o1.id = o2.id AND o1.amount <> ?"
    ),
    "SELECT amount * 7 AS x, concat(status, 'hidden') AS y FROM orders WHERE status <> 'hidden' OR id IS NULL": (
        "SELECT amount * ? AS x, concat(status, ?) AS y FROM orders WHERE status <> ? OR id IS NULL"
    ),
}


@pytest.fixture(scope="module")
def masked_events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Events of a job that masks literals, as it spools them."""
    folder = tmp_path_factory.mktemp("masked")
    conf = {"spark.headgate.maskLiterals": "true", "spark.headgate.spoolDir": str(folder / "spool")}
    finished = run_job(JOB, conf=conf, args=[str(folder), *STATEMENTS])
    assert finished.returncode == 0, finished.stderr
    return list(spooled(folder / "spool"))


def spooled(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.iterdir()):
        yield from map(json.loads, file.read_text().splitlines())


def outputs_named(events: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [out for event in events for out in event.get("outputs", []) if out["name"].endswith(f"/{name}")]


@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_values_are_masked_in_the_text_of_a_statement(masked_events: list[dict[str, Any]], number: int) -> None:
    masked = list(STATEMENTS.values())[number]

    statements = {
        event["job"]["facets"]["sql"]["query"]
        for event in masked_events
        if any(out["name"].endswith(f"/result{number}") for out in event.get("outputs", []))
    }

    assert statements == {f"INSERT OVERWRITE DIRECTORY ? USING parquet {masked}"}


def test_values_are_masked_in_expressions(masked_events: list[dict[str, Any]]) -> None:
    number = len(STATEMENTS) - 1
    facet = outputs_named(masked_events, f"result{number}")[-1]["facets"]["columnLineage"]

    texts = {
        column: field["inputFields"][0]["transformations"][0]["description"]
        for column, field in facet["fields"].items()
    }
    rows = {field["field"]: field["transformations"][0]["description"] for field in facet["dataset"]}

    assert texts == {"x": "(amount * ?)", "y": "concat(status, ?)"}
    assert rows["status"] == "((NOT (status = ?)) OR (id IS NULL))"


def test_no_value_is_anywhere_in_a_masked_event(masked_events: list[dict[str, Any]]) -> None:
    assert "hidden" not in json.dumps(masked_events)
