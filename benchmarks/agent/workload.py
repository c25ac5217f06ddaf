"""What the Spark sessions are asked to do: small queries of many shapes, and one job over many rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CUSTOMERS = 100_000
VIEWS = ("orders", "customers", "products")

# Every shape comes back several times a round, so that Spark runs code it has compiled before:
# with new constants each time, compiling would hide what an agent costs.
READS = (
    "SELECT id, amount FROM orders WHERE amount > 900",
    "SELECT id, amount * 1.2 AS gross, upper(status) AS status FROM orders WHERE customer_id < 50",
    "SELECT status, count(*) AS orders, sum(amount) AS total FROM orders GROUP BY status",
    "SELECT c.region, avg(o.amount) AS mean FROM orders o JOIN customers c ON o.customer_id = c.id GROUP BY c.region",
    "SELECT o.id, c.name, p.title FROM orders o JOIN customers c ON o.customer_id = c.id "
    "JOIN products p ON o.product_id = p.id WHERE p.price > 50 AND o.status = 'open'",
    "SELECT id, amount, row_number() OVER (PARTITION BY customer_id ORDER BY amount DESC) AS place FROM orders",
    "SELECT day, sum(total) OVER (ORDER BY day) AS so_far "
    "FROM (SELECT day, sum(amount) AS total FROM orders GROUP BY day)",
    "SELECT id, CASE WHEN amount > 500 THEN 'large' WHEN amount > 100 THEN 'middle' ELSE 'small' END AS size "
    "FROM orders",
    "SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE amount > 990)",
    "SELECT id FROM orders UNION ALL SELECT id FROM customers UNION ALL SELECT id FROM products",
    "WITH big AS (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id) "
    "SELECT c.name, b.total FROM big b JOIN customers c ON b.customer_id = c.id ORDER BY b.total DESC LIMIT 10",
    "SELECT DISTINCT region, segment FROM customers",
    "SELECT region, segment, count(*) AS customers FROM customers GROUP BY CUBE (region, segment)",
    "SELECT * FROM orders WHERE amount > (SELECT avg(amount) FROM orders) ORDER BY amount LIMIT 20",
    "SELECT p.category, count(DISTINCT o.customer_id) AS buyers FROM orders o JOIN products p ON o.product_id = p.id "
    "GROUP BY p.category HAVING count(*) > 3",
    "SELECT count(*) AS rows FROM orders",
)
WRITES = (
    ("open_orders", "SELECT id, customer_id, amount FROM orders WHERE status = 'open'"),
    (
        "totals",
        "SELECT c.region, p.category, sum(o.amount) AS total, count(*) AS orders FROM orders o "
        "JOIN customers c ON o.customer_id = c.id JOIN products p ON o.product_id = p.id GROUP BY c.region, p.category",
    ),
    (
        "ranked",
        "SELECT id, customer_id, rank() OVER (PARTITION BY status ORDER BY amount DESC) AS place, "
        "coalesce(status, 'none') AS status FROM orders",
    ),
    ("names", "SELECT concat(name, ' of ', region) AS label, length(name) AS letters FROM customers WHERE id < 500"),
)

BIG = """
SELECT c.region, p.category, f.day,
       sum(f.amount) AS total, avg(f.amount * f.pieces) AS mean, count(*) AS sales, max(f.id) AS last
  FROM sales f
  JOIN many_customers c ON f.customer_id = c.id
  JOIN products p ON f.product_id = p.id
 WHERE f.amount > 10
 GROUP BY c.region, p.category, f.day
"""


def prepare(spark: SparkSession, folder: Path, *, rows: int) -> None:
    """The files that every session reads."""
    _save(_orders(spark, 2_000), folder / "orders")
    _save(_customers(spark, 500), folder / "customers")
    _save(_customers(spark, CUSTOMERS), folder / "many_customers")
    _save(_products(spark), folder / "products")
    _save(_sales(spark, rows), folder / "sales")


def open_views(spark: SparkSession, folder: Path) -> None:
    for name in (*VIEWS, "many_customers", "sales"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)


def small(spark: SparkSession, own: Path, queries: int) -> None:
    """So many small queries, one after the other; a fifth of them write."""
    actions = list(_actions(spark, own))
    for number in range(queries):
        actions[number % len(actions)]()


def big(spark: SparkSession, own: Path) -> None:
    spark.sql(BIG).write.mode("overwrite").parquet(str(own / "sales_by_day"))


def _actions(spark: SparkSession, own: Path) -> Iterator[Callable[[], object]]:
    for number, text in enumerate(READS):
        yield lambda text=text: spark.sql(text).collect()  # type: ignore[misc]  # bound now, not when it is called
        if number % len(WRITES) == len(WRITES) - 1:
            name, query = WRITES[number // len(WRITES)]
            target = str(own / name)
            yield lambda query=query, target=target: spark.sql(query).write.mode("overwrite").parquet(target)  # type: ignore[misc]  # the same


def _save(frame: DataFrame, path: Path) -> None:
    frame.write.parquet(str(path))


def _orders(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 1).selectExpr(
        "id",
        "id % 500 AS customer_id",
        "id % 40 AS product_id",
        "CAST((id * 37) % 1000 AS double) AS amount",
        "CASE WHEN id % 3 = 0 THEN 'open' ELSE 'paid' END AS status",
        "date_add(DATE'2026-01-01', CAST(id % 30 AS int)) AS day",
    )


def _customers(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 1).selectExpr(
        "id", "concat('customer ', id) AS name", "concat('region ', id % 12) AS region", "id % 4 AS segment"
    )


def _products(spark: SparkSession) -> DataFrame:
    return spark.range(0, 40, 1, 1).selectExpr(
        "id", "concat('product ', id) AS title", "id % 7 AS category", "CAST(id * 3 AS double) AS price"
    )


def _sales(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 4).selectExpr(
        "id",
        f"(id * 7919) % {CUSTOMERS} AS customer_id",
        "id % 40 AS product_id",
        "CAST((id * 37) % 1000 AS double) AS amount",
        "id % 5 + 1 AS pieces",
        "date_add(DATE'2026-01-01', CAST(id % 90 AS int)) AS day",
    )
