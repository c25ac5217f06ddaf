"""Makes days of a shop's lines of invoices in the shape of UCI's Online Retail, with its customers and products.

    python generate.py BRONZE [--lines 4000]

writes BRONZE/lines/DAY (Parquet), BRONZE/customers/DAY (CSV) and BRONZE/products/DAY (JSON) for each day. It is known
how many lines have each defect, and the same rows come out whatever the number of partitions.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import gcd
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

LINES, CUSTOMERS, PRODUCTS = 4_000, 500, 200
LINES_AN_INVOICE = 4
# Of each later day.
MOVED, NEW_CUSTOMERS, REPRICED, NEW_PRODUCTS = 40, 10, 20, 5
WITHOUT_EMAIL = 15
# Prime: multiplied by it, row numbers are shuffled without losing one.
STRIDE = 7919
COLUMNS = ("InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country")


@dataclass(frozen=True)
class Defect:
    """What is done to a line's columns, the test of `retail.yaml` that it fails then, and what that test asks for."""

    spoils: Mapping[str, str]
    fails: str | None
    on_fail: str = "warn"


DEFECTS = {
    # No defect, but how this shop books what is sent back.
    "cancelled": Defect({"InvoiceNo": "concat('C', InvoiceNo)", "Quantity": "-Quantity"}, None),
    "wrong sign": Defect({"Quantity": "-Quantity"}, "sign_fits_the_kind", "quarantine"),
    "no such customer": Defect({"CustomerID": "99999"}, "customer_is_known", "quarantine"),
    "no such product": Defect({"StockCode": "concat('9', StockCode)"}, "product_is_known", "fail"),
    "negative price": Defect({"UnitPrice": "-11062.06D"}, "price_is_paid", "fail"),
    "no customer": Defect({"CustomerID": "CAST(NULL AS INT)"}, "has_a_customer"),
    "no description": Defect({"Description": "''"}, "is_described"),
}
SENT_TWICE, SENT_ONCE = "sent twice", "is_sent_once"
TESTS = (*(defect.fails for defect in DEFECTS.values() if defect.fails), SENT_ONCE)
# Of 1,000 lines; customers are missing as often as in the original.
USUAL = dict.fromkeys((*DEFECTS, SENT_TWICE), 1) | {"cancelled": 20, "no customer": 249, "no description": 3}


@dataclass(frozen=True)
class Day:
    """What is special about a day: defects of 1,000 lines, and lines of the day before that are sent again."""

    title: str
    defects: Mapping[str, int] = field(default_factory=lambda: USUAL)
    sent_again: int = 0
    is_bad: bool = False

    def counts(self, lines: int = LINES) -> dict[str, int]:
        """How many lines have each defect; none has two."""
        return {name: lines * rate // 1000 for name, rate in self.defects.items()}

    def again(self, lines: int = LINES) -> int:
        return lines * self.sent_again // 1000

    def rows(self, lines: int = LINES) -> int:
        return lines + self.counts(lines)[SENT_TWICE] + self.again(lines)

    def expected(self, lines: int = LINES) -> dict[str, int]:
        """How many rows fail each test."""
        counts = self.counts(lines)
        found = {defect.fails: counts[name] for name, defect in DEFECTS.items() if defect.fails}
        return found | {SENT_ONCE: counts[SENT_TWICE]}

    def set_apart(self, lines: int = LINES) -> int:
        """How many rows go to quarantine: on a bad day the gate leaves out those that fail any test but a warning."""
        kinds = {"quarantine", "fail"} if self.is_bad else {"quarantine"}
        counts = self.counts(lines)
        return counts[SENT_TWICE] + sum(counts[name] for name, each in DEFECTS.items() if each.on_fail in kinds)

    def published(self, lines: int = LINES) -> int:
        """How many rows are new to the target."""
        return self.rows(lines) - self.set_apart(lines) - self.again(lines)


DAYS = {
    "2026-03-02": Day("the first day"),
    "2026-03-03": Day("customers move, prices change, and a part of yesterday comes again", sent_again=50),
    "2026-03-04": Day("prices are wrong", USUAL | {"negative price": 60}, is_bad=True),
}


def expected(day: str, lines: int = LINES) -> dict[str, int]:
    """How many rows of a day fail each test of `lines` in `retail.yaml`."""
    return DAYS[day].expected(lines)


def lines_of(spark: SparkSession, day: str, lines: int = LINES) -> DataFrame:
    """The lines of a day, defects and all."""
    found, first = _good_lines(spark, day, lines), 0
    for name, count in DAYS[day].counts(lines).items():
        found = _with_defect(found, name, F.col("place").between(first, first + count - 1))
        first += count
    if again := DAYS[day].again(lines):
        # From the end, where no defect reaches.
        before = _good_lines(spark, list(DAYS)[_number(day) - 1], lines)
        found = found.unionByName(before.where(F.col("place") >= lines - again))
    return found.select(*COLUMNS)


def _with_defect(frame: DataFrame, name: str, is_hit: Column) -> DataFrame:
    if name == SENT_TWICE:
        return frame.unionByName(frame.where(is_hit))
    spoils = DEFECTS[name].spoils.items()
    return frame.withColumns({each: F.when(is_hit, F.expr(wrong)).otherwise(F.col(each)) for each, wrong in spoils})


def _good_lines(spark: SparkSession, day: str, lines: int) -> DataFrame:
    if gcd(STRIDE, lines) != 1:
        raise ValueError(f"{lines} lines a day cannot be shuffled: take no multiple of {STRIDE}")
    opening = int(datetime.fromisoformat(day).replace(hour=8, tzinfo=UTC).timestamp())
    first = 536_365 + _number(day) * 100_000
    invoice = f"(id div {LINES_AN_INVOICE})"
    # The lines of an invoice are of different products: seven apart, and there are more than four times seven.
    product = f"pmod({_drawn(day, invoice, 'product')} + 7 * (id % {LINES_AN_INVOICE}), {PRODUCTS})"
    return spark.range(lines).selectExpr(
        f"pmod(id * {STRIDE}, {lines}) AS place",
        f"CAST({first} + {invoice} AS STRING) AS InvoiceNo",
        f"CAST(10000 + {product} AS STRING) AS StockCode",
        f"concat('PRODUCT ', {product}) AS Description",
        f"CAST(1 + {_drawn(day, 'id', 'quantity')} % 24 AS INT) AS Quantity",
        f"timestamp_seconds({opening} + {invoice} * 36000 div {lines}) AS InvoiceDate",
        f"(25 + {product} * 7) / 100D AS UnitPrice",
        f"CAST(12346 + pmod({_drawn(day, invoice, 'customer')}, {CUSTOMERS}) AS INT) AS CustomerID",
        f"element_at(array('United Kingdom', 'Germany', 'France', 'EIRE'), "
        f"CAST(1 + {_drawn(day, invoice, 'country')} % 4 AS INT)) AS Country",
    )


def _drawn(day: str, by: str, what: str) -> str:
    return f"pmod(xxhash64({by}, '{day}', '{what}'), 1000000)"


def _number(day: str) -> int:
    return list(DAYS).index(day)


def customers_of(spark: SparkSession, day: str) -> DataFrame:
    """All customers on the first day; later those who have moved, and new ones."""
    number = _number(day)
    place = f"pmod(id * {STRIDE}, {CUSTOMERS})"
    moved = f"id < {CUSTOMERS} AND {place} BETWEEN {MOVED * (number - 1)} AND {MOVED * number - 1}"
    first = CUSTOMERS + NEW_CUSTOMERS * (number - 1)
    chosen = f"({moved}) OR id >= {first}" if number else "true"
    email = f"IF({place} < {WITHOUT_EMAIL}, 'none', concat('c', id, '@example.org'))"
    return (
        spark.range(CUSTOMERS + NEW_CUSTOMERS * number)
        .where(chosen)
        .selectExpr(
            "CAST(12346 + id AS INT) AS CustomerID",
            "concat('Customer ', id) AS name",
            f"{email} AS email",
            f"concat('Town ', pmod(id + {number}, 30)) AS city",
            f"DATE '{day}' AS changed_on",
        )
    )


def products_of(spark: SparkSession, day: str) -> DataFrame:
    """All products on the first day; later those with another price, and new ones."""
    number = _number(day)
    place = f"pmod(id * {STRIDE}, {PRODUCTS})"
    repriced = f"id < {PRODUCTS} AND {place} BETWEEN {REPRICED * (number - 1)} AND {REPRICED * number - 1}"
    chosen = f"({repriced}) OR id >= {PRODUCTS + NEW_PRODUCTS * (number - 1)}" if number else "true"
    return (
        spark.range(PRODUCTS + NEW_PRODUCTS * number)
        .where(chosen)
        .selectExpr(
            "CAST(10000 + id AS STRING) AS StockCode",
            "concat('PRODUCT ', id) AS Description",
            f"(25 + id * 7 + {number}) / 100D AS list_price",
        )
    )


def write_day(spark: SparkSession, bronze: Path, day: str, lines: int = LINES) -> None:
    lines_of(spark, day, lines).coalesce(1).write.mode("overwrite").parquet(str(bronze / "lines" / day))
    customers = customers_of(spark, day).coalesce(1).write.mode("overwrite")
    customers.csv(str(bronze / "customers" / day), header=True)
    products_of(spark, day).coalesce(1).write.mode("overwrite").json(str(bronze / "products" / day))


def _session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("retail")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make days of a shop's invoices.")
    parser.add_argument("bronze", type=Path, help="folder to write to")
    parser.add_argument("--lines", type=int, default=LINES, help=f"lines of a day ({LINES:,})")
    given = parser.parse_args()
    spark = _session()
    for day in DAYS:
        write_day(spark, given.bronze, day, given.lines)
    spark.stop()


if __name__ == "__main__":
    main()
