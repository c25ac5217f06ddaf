"""A small PySpark job as anyone would write it: nothing in it knows of Headgate.

    headgate spark run examples/spark/revenue.py LAKE

reads two CSV files beside it and writes bronze, silver and gold tables as Parquet below the folder LAKE.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, to_date

HERE = Path(__file__).parent


def main(lake: str) -> None:
    spark = SparkSession.builder.appName("revenue").getOrCreate()

    def stored(frame: DataFrame, path: str) -> DataFrame:
        frame.write.mode("overwrite").parquet(f"{lake}/{path}")
        return spark.read.parquet(f"{lake}/{path}")

    orders = stored(spark.read.csv(str(HERE / "orders.csv"), header=True, inferSchema=True), "bronze/orders")
    customers = stored(spark.read.csv(str(HERE / "customers.csv"), header=True, inferSchema=True), "bronze/customers")

    paid = stored(
        orders.where("status = 'paid'").select("order_id", "customer_id", to_date("ordered_at").alias("day"), "amount"),
        "silver/paid_orders",
    )
    revenue = (
        paid.join(customers, "customer_id")
        .groupBy("day", "country")
        .agg(expr("sum(amount) AS revenue"), expr("count(order_id) AS orders"))
    )
    stored(revenue, "gold/revenue_by_country").orderBy("day", "country").show()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: revenue.py LAKE")
    main(str(Path(sys.argv[1]).resolve()))
