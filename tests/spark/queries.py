"""Varied queries over a small shop, each with the table and column edges that it makes.

Plain data: the test suite, the version matrix and the comparison with other agents all run these.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Place(Protocol):
    """Where a query runs: a session, and names for what it writes."""

    @property
    def spark(self) -> SparkSession: ...

    def path(self, name: str) -> str: ...

    def table(self, name: str) -> str: ...


@dataclass(frozen=True)
class Query:
    """One user action. `columns` holds lines of `target <- table.column KIND`; a target `*` is every column alike."""

    name: str
    reads: tuple[str, ...]
    columns: str
    sql: str | None = None
    frame: Callable[[Place], DataFrame] | None = None
    setup: Callable[[Place], object] | None = None
    action: Callable[[Place], object] | None = None
    writes: str = "result"
    since: tuple[int, int] = (3, 5)
    needs_pandas: bool = False

    def prepare(self, place: Place) -> None:
        if self.setup is not None:
            self.setup(place)

    def run(self, place: Place) -> object:
        """The action itself; by default the query is written to a folder of parquet files."""
        if self.action is not None:
            return self.action(place)
        frame = self.frame(place) if self.frame is not None else place.spark.sql(self.sql or "")
        return frame.write.parquet(place.path(self.writes))

    @property
    def edges(self) -> set[tuple[str, str]]:
        return {(source, self.writes) for source in self.reads}

    @property
    def column_edges(self) -> set[str]:
        return set(column_edges(self.columns, self.writes))


def column_edges(lines: str, target: str) -> Sequence[str]:
    """`total <- orders.amount SUM` of target `result` is `result.total <- orders.amount SUM`."""
    found = []
    for line in filter(None, map(str.strip, lines.splitlines())):
        column, origin = line.split(" <- ")
        found.append(f"{target} <- {origin}" if column == "*" else f"{target}.{column} <- {origin}")
    return found


def prepare_shop(spark: SparkSession, folder: str) -> None:
    """Writes the tables that all queries read."""
    for name, text in SHOP.items():
        spark.sql(text).write.mode("overwrite").parquet(f"{folder}/{name}")


def open_shop(spark: SparkSession, folder: str) -> None:
    """Temporary views by which the queries know the tables; their functions run in this interpreter."""
    spark.sparkContext.pythonExec = sys.executable
    for name in SHOP:
        spark.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name)


SHOP = {
    "orders": """
        SELECT * FROM VALUES
            (1, 1, 10.5D, 2, 'paid', '2024-01-01'), (2, 1, 20.0D, 1, 'open', '2024-01-02'),
            (3, 2, 5.0D, 4, 'paid', '2024-01-02'), (4, 3, 7.5D, 1, 'lost', '2024-01-03')
        AS t(id, customer_id, amount, quantity, status, day)""",
    "customers": """
        SELECT id, name, email, country, named_struct('city', city, 'zip', zip) AS address
        FROM VALUES (1, 'Ada', 'ada@example.org', 'GB', 'London', 'N1'), (2, 'Bo', 'bo@example.org', 'SE', 'Lund', '22')
        AS t(id, name, email, country, city, zip)""",
    "items": """
        SELECT order_id, array(named_struct('sku', sku, 'price', price)) AS lines, map('colour', colour) AS labels,
            array(sku, colour) AS codes
        FROM VALUES (1, 'a-1', 5.25D, 'red'), (2, 'b-2', 20.0D, 'blue') AS t(order_id, sku, price, colour)""",
    "refunds": "SELECT * FROM VALUES (1, 3.5D), (9, 1.0D) AS t(order_id, amount)",
}


def _python_udf(place: Place) -> DataFrame:
    from pyspark.sql.functions import col, udf

    def priced(amount: float, quantity: int) -> float:
        return amount * quantity

    # By rows and not through Arrow, so that neither pandas nor pyarrow is needed.
    function = udf(priced, "double", useArrow=False)
    return place.spark.table("orders").select("id", function(col("amount"), col("quantity")).alias("total"))


def _pandas_udf(place: Place) -> DataFrame:
    import pandas
    from pyspark.sql.functions import pandas_udf

    def doubled(amount: Any) -> Any:
        return amount * 2

    doubled.__annotations__ = {"amount": pandas.Series, "return": pandas.Series}
    return place.spark.table("orders").select("id", pandas_udf(doubled, "double")("amount").alias("twice"))


def _grouped_pandas_udf(place: Place) -> DataFrame:
    import pandas
    from pyspark.sql.functions import pandas_udf

    def middle(amount: Any) -> float:
        return float(amount.median())

    middle.__annotations__ = {"amount": pandas.Series, "return": float}
    return place.spark.table("orders").groupBy("status").agg(pandas_udf(middle, "double")("amount").alias("middle"))


def _map_in_pandas(place: Place) -> DataFrame:
    def halved(batches: Any) -> Any:
        for batch in batches:
            yield batch.assign(half=batch["amount"] / 2)[["id", "half"]]

    return place.spark.table("orders").select("id", "amount").mapInPandas(halved, "id int, half double")


def _apply_in_pandas(place: Place) -> DataFrame:
    def largest(rows: Any) -> Any:
        return rows.nlargest(1, "amount")[["customer_id", "amount"]]

    orders = place.spark.table("orders").select("customer_id", "amount")
    return orders.groupBy("customer_id").applyInPandas(largest, "customer_id int, amount double")


def _union_by_name(place: Place) -> DataFrame:
    orders = place.spark.table("orders").selectExpr("id AS order_id", "amount", "status")
    return orders.unionByName(place.spark.table("refunds").select("amount", "order_id"), allowMissingColumns=True)


def _self_join(place: Place) -> DataFrame:
    from pyspark.sql.functions import col

    first, second = place.spark.table("orders").alias("first"), place.spark.table("orders").alias("second")
    same = (col("first.customer_id") == col("second.customer_id")) & (col("first.id") < col("second.id"))
    return first.join(second, same).select(col("first.id").alias("earlier"), col("second.amount").alias("later_amount"))


def _pivot(place: Place) -> DataFrame:
    return place.spark.table("orders").groupBy("customer_id").pivot("status", ["paid", "open"]).sum("amount")


def _column_chain(place: Place) -> DataFrame:
    from pyspark.sql import functions
    from pyspark.sql.functions import col, lit

    return (
        place.spark.table("orders")
        .withColumn("gross", col("amount") * col("quantity"))
        .withColumn("tax", col("gross") * lit(0.2))
        .withColumn("gross", functions.round(col("gross") + col("tax"), 2))
        .withColumnRenamed("id", "order_id")
        .select("order_id", "gross", "tax")
    )


def _cached(place: Place) -> DataFrame:
    from pyspark.sql import functions

    paid = place.spark.table("orders").where("status = 'paid'").select("customer_id", "amount").cache()
    paid.count()
    return paid.groupBy("customer_id").agg(functions.sum("amount").alias("total"))


def _temporary_views(place: Place) -> DataFrame:
    spark = place.spark
    spark.sql("SELECT id, customer_id, amount * quantity AS total FROM orders").createOrReplaceTempView("totals")
    spark.sql("SELECT customer_id, max(total) AS best FROM totals GROUP BY customer_id").createOrReplaceTempView("best")
    return spark.sql("SELECT c.name, b.best FROM best b JOIN customers c ON c.id = b.customer_id")


def _stored_views(place: Place) -> None:
    orders, paid, sums = place.table("sales"), place.table("paid_sales"), place.table("sums")
    place.spark.sql(f"CREATE TABLE {orders} USING parquet AS SELECT id, customer_id, amount, status FROM orders")
    place.spark.sql(f"CREATE VIEW {paid} AS SELECT customer_id, amount FROM {orders} WHERE status = 'paid'")
    place.spark.sql(f"CREATE VIEW {sums} AS SELECT customer_id, sum(amount) AS total FROM {paid} GROUP BY customer_id")


def _partitioned(place: Place) -> None:
    place.spark.sql(
        f"CREATE TABLE {place.table('daily')} (id INT, amount DOUBLE, day STRING) USING parquet PARTITIONED BY (day)"
    )


def _insert(text: str) -> Callable[[Place], object]:
    """An INSERT whose `{name}` is the table of that name."""

    def action(place: Place) -> object:
        return place.spark.sql(text.format(daily=place.table("daily")))

    return action


def _drop_columns(place: Place) -> DataFrame:
    return place.spark.table("customers").drop("email", "address").filter("country <> 'SE'")


def _drop_duplicates(place: Place) -> DataFrame:
    return (
        place.spark.table("orders").select("customer_id", "status", "amount").dropDuplicates(["customer_id", "status"])
    )


QUERIES: list[Query] = [
    Query(
        "inner join and aggregate",
        reads=("orders", "customers"),
        sql="""SELECT c.country, sum(o.amount * o.quantity) AS total, count(*) AS orders
               FROM orders o JOIN customers c ON o.customer_id = c.id WHERE o.status = 'paid' GROUP BY c.country""",
        columns="""
            country <- customers.country IDENTITY
            total <- orders.amount AGGREGATION
            total <- orders.quantity AGGREGATION
            * <- orders.customer_id JOIN
            * <- customers.id JOIN
            * <- orders.status FILTER
            * <- customers.country GROUP_BY""",
    ),
    Query(
        "left join with using",
        reads=("orders", "refunds"),
        frame=lambda place: (
            place.spark.table("orders")
            .selectExpr("id AS order_id", "status")
            .join(place.spark.table("refunds"), "order_id", "left")
        ),
        columns="""
            order_id <- orders.id IDENTITY
            status <- orders.status IDENTITY
            amount <- refunds.amount IDENTITY
            * <- orders.id JOIN
            * <- refunds.order_id JOIN""",
    ),
    Query(
        "semi join",
        reads=("orders", "refunds"),
        sql="SELECT id, amount FROM orders LEFT SEMI JOIN refunds ON orders.id = refunds.order_id",
        columns="""
            id <- orders.id IDENTITY
            amount <- orders.amount IDENTITY
            * <- orders.id FILTER
            * <- refunds.order_id FILTER""",
    ),
    Query(
        "anti join",
        reads=("orders", "refunds"),
        frame=lambda place: (
            place.spark.table("orders")
            .join(place.spark.table("refunds").withColumnRenamed("order_id", "id"), "id", "left_anti")
            .select("id", "status")
        ),
        columns="""
            id <- orders.id IDENTITY
            status <- orders.status IDENTITY
            * <- orders.id FILTER
            * <- refunds.order_id FILTER""",
    ),
    Query(
        "cross join",
        reads=("orders", "customers"),
        sql="SELECT o.id, c.name FROM orders o CROSS JOIN customers c",
        columns="""
            id <- orders.id IDENTITY
            name <- customers.name IDENTITY""",
    ),
    Query(
        "self-join with aliases",
        reads=("orders",),
        frame=_self_join,
        columns="""
            earlier <- orders.id IDENTITY
            later_amount <- orders.amount IDENTITY
            * <- orders.customer_id JOIN
            * <- orders.id JOIN""",
    ),
    Query(
        "union all",
        reads=("orders", "refunds"),
        sql="SELECT id AS ref, amount FROM orders UNION ALL SELECT order_id, -amount FROM refunds",
        columns="""
            ref <- orders.id IDENTITY
            ref <- refunds.order_id IDENTITY
            amount <- orders.amount IDENTITY
            amount <- refunds.amount TRANSFORMATION""",
    ),
    Query(
        "union by name with a missing column",
        reads=("orders", "refunds"),
        frame=_union_by_name,
        columns="""
            order_id <- orders.id IDENTITY
            order_id <- refunds.order_id IDENTITY
            amount <- orders.amount IDENTITY
            amount <- refunds.amount IDENTITY
            status <- orders.status IDENTITY""",
    ),
    Query(
        "intersect",
        reads=("orders", "refunds"),
        sql="SELECT id FROM orders INTERSECT SELECT order_id FROM refunds",
        columns="""
            id <- orders.id IDENTITY
            * <- refunds.order_id FILTER""",
    ),
    Query(
        "except",
        reads=("orders", "customers"),
        sql="SELECT customer_id FROM orders EXCEPT SELECT id FROM customers WHERE country = 'SE'",
        columns="""
            customer_id <- orders.customer_id IDENTITY
            * <- customers.id FILTER
            * <- customers.country FILTER""",
    ),
    Query(
        "common table expression used twice",
        reads=("orders",),
        sql="""WITH totals AS (SELECT customer_id, sum(amount) AS total FROM orders GROUP BY customer_id)
               SELECT a.customer_id, a.total, b.total AS other FROM totals a JOIN totals b ON a.total < b.total""",
        columns="""
            customer_id <- orders.customer_id IDENTITY
            total <- orders.amount AGGREGATION
            other <- orders.amount AGGREGATION
            * <- orders.amount JOIN
            * <- orders.customer_id GROUP_BY""",
    ),
    Query(
        "nested common table expressions",
        reads=("orders", "customers"),
        sql="""WITH paid AS (SELECT * FROM orders WHERE status = 'paid'),
                    best AS (WITH ranked AS (SELECT customer_id, amount FROM paid)
                             SELECT customer_id, max(amount) AS best FROM ranked GROUP BY customer_id)
               SELECT upper(c.name) AS name, b.best FROM best b JOIN customers c ON c.id = b.customer_id""",
        columns="""
            name <- customers.name TRANSFORMATION
            best <- orders.amount AGGREGATION
            * <- orders.status FILTER
            * <- orders.customer_id GROUP_BY
            * <- orders.customer_id JOIN
            * <- customers.id JOIN""",
    ),
    Query(
        "scalar subquery",
        reads=("orders", "refunds"),
        sql="SELECT id, amount - (SELECT avg(amount) FROM refunds WHERE order_id > 0) AS above FROM orders",
        columns="""
            id <- orders.id IDENTITY
            above <- orders.amount TRANSFORMATION
            above <- refunds.amount AGGREGATION
            above <- refunds.order_id FILTER""",
    ),
    Query(
        "correlated scalar subquery",
        reads=("orders", "customers"),
        sql="SELECT c.name, (SELECT max(o.amount) FROM orders o WHERE o.customer_id = c.id) AS best FROM customers c",
        columns="""
            name <- customers.name IDENTITY
            best <- orders.amount AGGREGATION
            best <- orders.customer_id FILTER
            best <- customers.id FILTER""",
    ),
    Query(
        "in a subquery",
        reads=("orders", "customers"),
        sql="SELECT id, amount FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE country = 'GB')",
        columns="""
            id <- orders.id IDENTITY
            amount <- orders.amount IDENTITY
            * <- orders.customer_id FILTER
            * <- customers.id FILTER
            * <- customers.country FILTER""",
    ),
    Query(
        "not exists, correlated",
        reads=("orders", "refunds"),
        sql="""SELECT o.id FROM orders o
               WHERE NOT EXISTS (SELECT 1 FROM refunds r WHERE r.order_id = o.id AND r.amount > 1)""",
        columns="""
            id <- orders.id IDENTITY
            * <- orders.id FILTER
            * <- refunds.order_id FILTER
            * <- refunds.amount FILTER""",
    ),
    Query(
        "window functions",
        reads=("orders",),
        sql="""SELECT id, rank() OVER (PARTITION BY customer_id ORDER BY amount DESC) AS place,
                   sum(quantity) OVER (PARTITION BY customer_id ORDER BY day) AS running,
                   lag(amount, 1) OVER (ORDER BY day) AS previous FROM orders""",
        columns="""
            id <- orders.id IDENTITY
            place <- orders.customer_id WINDOW
            place <- orders.amount WINDOW
            running <- orders.quantity AGGREGATION
            running <- orders.customer_id WINDOW
            running <- orders.day WINDOW
            previous <- orders.amount TRANSFORMATION
            previous <- orders.day WINDOW""",
    ),
    Query(
        "the first row of each group",
        reads=("orders",),
        sql="""SELECT customer_id, amount FROM (
                   SELECT *, row_number() OVER (PARTITION BY customer_id ORDER BY day DESC) AS n FROM orders)
               WHERE n = 1""",
        columns="""
            customer_id <- orders.customer_id IDENTITY
            amount <- orders.amount IDENTITY
            * <- orders.customer_id FILTER
            * <- orders.day FILTER""",
    ),
    Query(
        "cube",
        reads=("orders",),
        frame=lambda place: (
            place.spark.table("orders").cube("status", "day").sum("amount").toDF("status", "day", "total")
        ),
        columns="""
            status <- orders.status IDENTITY
            day <- orders.day IDENTITY
            total <- orders.amount AGGREGATION
            * <- orders.status GROUP_BY
            * <- orders.day GROUP_BY""",
    ),
    Query(
        "rollup with grouping",
        reads=("orders",),
        sql="""SELECT status, day, grouping(day) AS all_days, max(amount) AS most FROM orders
               GROUP BY status, day WITH ROLLUP""",
        columns="""
            status <- orders.status IDENTITY
            day <- orders.day IDENTITY
            most <- orders.amount AGGREGATION
            * <- orders.status GROUP_BY
            * <- orders.day GROUP_BY""",
    ),
    Query(
        "explode an array",
        reads=("items",),
        sql="SELECT order_id, explode(codes) AS code FROM items",
        columns="""
            order_id <- items.order_id IDENTITY
            code <- items.codes TRANSFORMATION""",
    ),
    Query(
        "explode a map",
        reads=("items",),
        sql="SELECT order_id, explode(labels) AS (label, value) FROM items",
        columns="""
            order_id <- items.order_id IDENTITY
            label <- items.labels TRANSFORMATION
            value <- items.labels TRANSFORMATION""",
    ),
    Query(
        "lateral view over an array of structs",
        reads=("items",),
        sql="""SELECT order_id, line.price * 2 AS price, n FROM items
               LATERAL VIEW posexplode(lines) exploded AS n, line WHERE line.sku LIKE 'a%'""",
        columns="""
            order_id <- items.order_id IDENTITY
            price <- items.lines.price TRANSFORMATION
            n <- items.lines TRANSFORMATION
            * <- items.lines.sku FILTER""",
    ),
    Query(
        "inline",
        reads=("items",),
        sql="SELECT order_id, inline(lines) FROM items",
        columns="""
            order_id <- items.order_id IDENTITY
            sku <- items.lines.sku TRANSFORMATION
            price <- items.lines.price TRANSFORMATION""",
    ),
    Query(
        "Python function",
        reads=("orders",),
        frame=_python_udf,
        columns="""
            id <- orders.id IDENTITY
            total <- orders.amount TRANSFORMATION
            total <- orders.quantity TRANSFORMATION""",
    ),
    Query(
        "pandas function",
        reads=("orders",),
        frame=_pandas_udf,
        needs_pandas=True,
        columns="""
            id <- orders.id IDENTITY
            twice <- orders.amount TRANSFORMATION""",
    ),
    Query(
        "pandas function of a group",
        reads=("orders",),
        frame=_grouped_pandas_udf,
        needs_pandas=True,
        columns="""
            status <- orders.status IDENTITY
            middle <- orders.amount AGGREGATION
            * <- orders.status GROUP_BY""",
    ),
    Query(
        "map in pandas",
        reads=("orders",),
        frame=_map_in_pandas,
        needs_pandas=True,
        columns="""
            id <- orders.id TRANSFORMATION
            id <- orders.amount TRANSFORMATION
            half <- orders.id TRANSFORMATION
            half <- orders.amount TRANSFORMATION""",
    ),
    Query(
        "apply in pandas",
        reads=("orders",),
        frame=_apply_in_pandas,
        needs_pandas=True,
        columns="""
            customer_id <- orders.customer_id TRANSFORMATION
            customer_id <- orders.amount TRANSFORMATION
            amount <- orders.customer_id TRANSFORMATION
            amount <- orders.amount TRANSFORMATION
            * <- orders.customer_id GROUP_BY""",
    ),
    Query(
        "case",
        reads=("orders",),
        sql="""SELECT id, CASE WHEN status = 'paid' THEN amount WHEN quantity > 3 THEN 0 ELSE -amount END AS due
               FROM orders""",
        columns="""
            id <- orders.id IDENTITY
            due <- orders.status CONDITIONAL
            due <- orders.quantity CONDITIONAL
            due <- orders.amount TRANSFORMATION""",
    ),
    Query(
        "case inside a sum",
        reads=("orders",),
        sql="""SELECT day, sum(CASE WHEN amount > 10 THEN amount ELSE 0 END) AS large,
                   nullif(day, '2024-01-01') AS later
               FROM orders GROUP BY day""",
        columns="""
            day <- orders.day IDENTITY
            large <- orders.amount AGGREGATION
            large <- orders.amount CONDITIONAL
            later <- orders.day TRANSFORMATION
            later <- orders.day CONDITIONAL
            * <- orders.day GROUP_BY""",
    ),
    Query(
        "nested structs",
        reads=("customers",),
        sql="""SELECT address.city, upper(address.zip) AS zip, address,
                   named_struct('n', name, 'a', address).a.city AS again
               FROM customers""",
        columns="""
            city <- customers.address.city IDENTITY
            zip <- customers.address.zip TRANSFORMATION
            address <- customers.address IDENTITY
            again <- customers.address.city IDENTITY""",
    ),
    Query(
        "arrays of structs",
        reads=("items",),
        sql="""SELECT lines.sku AS skus, lines[0].price AS first_price, transform(lines, l -> l.price * 2) AS doubled
               FROM items""",
        columns="""
            skus <- items.lines.sku IDENTITY
            first_price <- items.lines.price TRANSFORMATION
            doubled <- items.lines TRANSFORMATION""",
    ),
    Query(
        "select star",
        reads=("refunds",),
        sql="SELECT * FROM refunds",
        columns="""
            order_id <- refunds.order_id IDENTITY
            amount <- refunds.amount IDENTITY""",
    ),
    Query(
        "drop columns",
        reads=("customers",),
        frame=_drop_columns,
        columns="""
            id <- customers.id IDENTITY
            name <- customers.name IDENTITY
            country <- customers.country IDENTITY
            * <- customers.country FILTER""",
    ),
    Query(
        "drop duplicates",
        reads=("orders",),
        frame=_drop_duplicates,
        columns="""
            customer_id <- orders.customer_id IDENTITY
            status <- orders.status IDENTITY
            amount <- orders.amount IDENTITY
            * <- orders.customer_id GROUP_BY
            * <- orders.status GROUP_BY""",
    ),
    Query(
        "select distinct",
        reads=("orders",),
        sql="SELECT DISTINCT customer_id, upper(status) AS state FROM orders",
        columns="""
            customer_id <- orders.customer_id IDENTITY
            state <- orders.status TRANSFORMATION
            * <- orders.customer_id GROUP_BY
            * <- orders.status GROUP_BY""",
    ),
    Query(
        "union without duplicates",
        reads=("orders", "refunds"),
        sql="SELECT id AS ref FROM orders UNION SELECT order_id FROM refunds",
        columns="""
            ref <- orders.id IDENTITY
            ref <- refunds.order_id IDENTITY
            * <- orders.id GROUP_BY
            * <- refunds.order_id GROUP_BY""",
    ),
    Query(
        "pivot",
        reads=("orders",),
        frame=_pivot,
        columns="""
            customer_id <- orders.customer_id IDENTITY
            paid <- orders.amount AGGREGATION
            paid <- orders.status CONDITIONAL
            open <- orders.amount AGGREGATION
            open <- orders.status CONDITIONAL
            * <- orders.customer_id GROUP_BY
            * <- orders.status GROUP_BY""",
    ),
    Query(
        "unpivot",
        reads=("orders",),
        frame=lambda place: (
            place.spark.table("orders")
            .selectExpr("id", "amount", "CAST(quantity AS DOUBLE) AS quantity")
            .unpivot("id", ["amount", "quantity"], "measure", "value")
        ),
        columns="""
            id <- orders.id IDENTITY
            value <- orders.amount IDENTITY
            value <- orders.quantity TRANSFORMATION""",
    ),
    Query(
        "stack",
        reads=("orders",),
        sql="SELECT id, stack(2, 'amount', amount, 'quantity', quantity * 1.0D) AS (measure, value) FROM orders",
        columns="""
            id <- orders.id IDENTITY
            value <- orders.amount TRANSFORMATION
            value <- orders.quantity TRANSFORMATION""",
    ),
    Query(
        "cached frame",
        reads=("orders",),
        frame=_cached,
        columns="""
            customer_id <- orders.customer_id IDENTITY
            total <- orders.amount AGGREGATION
            * <- orders.status FILTER
            * <- orders.customer_id GROUP_BY""",
    ),
    Query(
        "temporary views over temporary views",
        reads=("orders", "customers"),
        frame=_temporary_views,
        columns="""
            name <- customers.name IDENTITY
            best <- orders.amount AGGREGATION
            best <- orders.quantity AGGREGATION
            * <- orders.customer_id GROUP_BY
            * <- orders.customer_id JOIN
            * <- customers.id JOIN""",
    ),
    Query(
        "views of views",
        reads=("sales", "sums"),
        setup=_stored_views,
        frame=lambda place: place.spark.sql(f"SELECT customer_id, total * 2 AS doubled FROM {place.table('sums')}"),
        columns="""
            customer_id <- sales.customer_id IDENTITY
            doubled <- sales.amount AGGREGATION
            * <- sales.status FILTER
            * <- sales.customer_id GROUP_BY""",
    ),
    Query(
        "insert into a static partition",
        reads=("orders",),
        writes="daily",
        setup=_partitioned,
        action=_insert(
            "INSERT INTO {daily} PARTITION (day = '2024-01-02') SELECT id, amount FROM orders WHERE day = '2024-01-02'"
        ),
        columns="""
            id <- orders.id IDENTITY
            amount <- orders.amount IDENTITY
            * <- orders.day FILTER""",
    ),
    Query(
        "insert into dynamic partitions",
        reads=("orders",),
        writes="daily",
        setup=_partitioned,
        action=_insert("INSERT OVERWRITE {daily} SELECT id, quantity, substring(day, 1, 7) FROM orders"),
        columns="""
            id <- orders.id IDENTITY
            amount <- orders.quantity IDENTITY
            day <- orders.day TRANSFORMATION""",
    ),
    Query(
        "insert with a column list in another order",
        reads=("orders",),
        writes="daily",
        setup=_partitioned,
        action=_insert("INSERT INTO {daily} (day, amount, id) SELECT day, amount, customer_id FROM orders"),
        columns="""
            id <- orders.customer_id IDENTITY
            amount <- orders.amount IDENTITY
            day <- orders.day IDENTITY""",
    ),
    Query(
        "insert by position",
        reads=("orders",),
        writes="daily",
        setup=_partitioned,
        action=lambda place: (
            place.spark.table("orders").select("quantity", "amount", "status").write.insertInto(place.table("daily"))
        ),
        columns="""
            id <- orders.quantity IDENTITY
            amount <- orders.amount IDENTITY
            day <- orders.status IDENTITY""",
    ),
    Query(
        "aggregate with a filter clause",
        reads=("orders",),
        sql="SELECT day, sum(amount) FILTER (WHERE status = 'paid') AS paid FROM orders GROUP BY day",
        columns="""
            day <- orders.day IDENTITY
            paid <- orders.amount AGGREGATION
            paid <- orders.status FILTER
            * <- orders.day GROUP_BY""",
    ),
    Query(
        "count distinct, having and order",
        reads=("orders",),
        sql="""SELECT status, count(DISTINCT customer_id) AS customers, count(*) AS n FROM orders
               GROUP BY status HAVING sum(amount) > 5 ORDER BY status""",
        columns="""
            status <- orders.status IDENTITY
            customers <- orders.customer_id AGGREGATION
            * <- orders.status GROUP_BY
            * <- orders.amount FILTER
            * <- orders.status SORT""",
    ),
    Query(
        "chain of columns",
        reads=("orders",),
        frame=_column_chain,
        columns="""
            order_id <- orders.id IDENTITY
            gross <- orders.amount TRANSFORMATION
            gross <- orders.quantity TRANSFORMATION
            tax <- orders.amount TRANSFORMATION
            tax <- orders.quantity TRANSFORMATION""",
    ),
    Query(
        "hashes",
        reads=("customers",),
        sql="""SELECT id, sha2(email, 256) AS email, concat(name, md5(email)) AS tag
               FROM customers ORDER BY country LIMIT 5""",
        columns="""
            id <- customers.id IDENTITY
            email <- customers.email TRANSFORMATION
            tag <- customers.name TRANSFORMATION
            tag <- customers.email TRANSFORMATION
            * <- customers.country SORT""",
    ),
    Query(
        "lateral join",
        reads=("orders", "customers"),
        sql="""SELECT c.name, best.amount, best.bonus FROM customers c, LATERAL (
                   SELECT o.amount, o.amount + c.id AS bonus FROM orders o WHERE o.customer_id = c.id) best""",
        columns="""
            name <- customers.name IDENTITY
            amount <- orders.amount IDENTITY
            bonus <- orders.amount TRANSFORMATION
            bonus <- customers.id TRANSFORMATION
            * <- orders.customer_id FILTER
            * <- customers.id FILTER""",
    ),
    Query(
        "recursive common table expression",
        reads=("orders",),
        since=(4, 1),
        sql="""WITH RECURSIVE steps(n, amount) AS (
                   SELECT 1, amount FROM orders WHERE id = 1 UNION ALL SELECT n + 1, amount * 2 FROM steps WHERE n < 3)
               SELECT n, amount FROM steps""",
        columns="""
            amount <- orders.amount IDENTITY
            amount <- orders.amount TRANSFORMATION
            * <- orders.id FILTER""",
    ),
    Query("literals only", reads=(), sql="SELECT 1 AS one, 'two' AS two, current_date() AS today", columns=""),
]
