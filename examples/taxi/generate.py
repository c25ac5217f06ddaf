"""Makes days of taxi trips in the shape that New York publishes, with defects whose every count is known.

    python generate.py BRONZE [--trips 20000] [--day 2026-01-05]

writes Parquet to BRONZE/trips/DAY for each day, and BRONZE/zones/zones.csv. Values are hashes of row numbers and
defects go by places in the day, so that the same rows come out whatever the number of partitions.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import gcd
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

TRIPS = 20_000
SECONDS_A_DAY = 86_400
# Prime: multiplied by it, row numbers are shuffled without losing one.
STRIDE = 7919
# What a total is made of.
AMOUNTS = (
    *("fare_amount", "extra", "mta_tax", "tip_amount", "tolls_amount"),
    *("improvement_surcharge", "congestion_surcharge", "airport_fee"),
)
COLUMNS = (
    *("VendorID", "tpep_pickup_datetime", "tpep_dropoff_datetime", "passenger_count", "trip_distance", "RatecodeID"),
    *("store_and_fwd_flag", "PULocationID", "DOLocationID", "payment_type", "fare_amount", "extra", "mta_tax"),
    *("tip_amount", "tolls_amount", "improvement_surcharge", "total_amount", "congestion_surcharge", "airport_fee"),
)
# As many as there are; 264 and 265 stand for places that nobody knows.
BOROUGHS = {"EWR": 1, "Queens": 69, "Bronx": 43, "Manhattan": 69, "Staten Island": 20, "Brooklyn": 61}
ZONES = sum(BOROUGHS.values())
AIRPORTS = {1: "Newark Airport", 132: "JFK Airport", 138: "LaGuardia Airport"}
NOWHERE = [(264, "Unknown", "N/A", "N/A"), (265, "N/A", "Outside of NYC", "N/A")]


@dataclass(frozen=True)
class Defect:
    """What is done to a trip's columns, and the tests of `taxi.yaml` that it fails then."""

    spoils: Mapping[str, str]
    fails: tuple[str, ...]
    is_set_apart: bool = True


_REFUND = {name: f"-{name}" for name in (*AMOUNTS, "total_amount")}
_BACKWARDS = {"tpep_dropoff_datetime": "tpep_pickup_datetime - INTERVAL 7 MINUTES"}
DEFECTS = {
    "backwards": Defect(_BACKWARDS, ("ends_after_it_begins",)),
    "endless": Defect({"tpep_dropoff_datetime": "CAST(NULL AS TIMESTAMP)"}, ("times_are_known",)),
    "refund": Defect(_REFUND, ("fare_is_paid",)),
    "backwards refund": Defect(_REFUND | _BACKWARDS, ("fare_is_paid", "ends_after_it_begins")),
    "other year": Defect(
        {name: f"{name} - INTERVAL 8401 DAYS" for name in ("tpep_pickup_datetime", "tpep_dropoff_datetime")},
        ("is_of_the_day",),
    ),
    "wrong total": Defect({"total_amount": "total_amount + 5"}, ("total_is_the_sum",)),
    "nobody counted": Defect({"passenger_count": "CAST(NULL AS BIGINT)"}, ("passengers_are_counted",)),
    "from nowhere": Defect({"PULocationID": "264 + CAST(id % 2 AS INT)"}, ("pickup_is_known",)),
    "to nowhere": Defect({"DOLocationID": "265"}, ("dropoff_is_known",), is_set_apart=False),
    "empty": Defect({"passenger_count": "0L"}, ("somebody_rides",), is_set_apart=False),
    "unknown rate": Defect({"RatecodeID": "99L"}, ("rate_is_known",), is_set_apart=False),
    "unmoved": Defect({"trip_distance": "0D"}, ("distance_has_a_fare",), is_set_apart=False),
}
# Trips that come a second time, as they are.
SENT_TWICE, SENT_ONCE = "sent twice", "is_sent_once"
TESTS = (*dict.fromkeys(test for defect in DEFECTS.values() for test in defect.fails), SENT_ONCE)
# Of 1,000 trips. There is always something.
USUAL = dict.fromkeys((*DEFECTS, SENT_TWICE), 1) | {"empty": 4, "unmoved": 3, "unknown rate": 2}


@dataclass(frozen=True)
class Day:
    """What is special about a day: defects of 1,000 trips, columns that are left out, and how many trips come."""

    title: str
    defects: Mapping[str, int] = field(default_factory=lambda: USUAL)
    without: tuple[str, ...] = ()
    share: float = 1.0

    def size(self, trips: int) -> int:
        return round(trips * self.share)

    def counts(self, trips: int = TRIPS) -> dict[str, int]:
        """How many trips have each defect; none has two."""
        return {name: self.size(trips) * rate // 1000 for name, rate in self.defects.items()}

    def rows(self, trips: int = TRIPS) -> int:
        return self.size(trips) + self.counts(trips)[SENT_TWICE]

    def expected(self, trips: int = TRIPS) -> dict[str, int]:
        """How many rows fail each test."""
        counts = self.counts(trips)
        found = dict.fromkeys(TESTS, 0) | {SENT_ONCE: counts[SENT_TWICE]}
        for name, defect in DEFECTS.items():
            for test in defect.fails:
                found[test] += counts[name]
        return found

    def set_apart(self, trips: int = TRIPS) -> int:
        """How many rows go to quarantine."""
        counts = self.counts(trips)
        return counts[SENT_TWICE] + sum(counts[name] for name, defect in DEFECTS.items() if defect.is_set_apart)


DAYS = {
    "2026-01-05": Day("a day like any other"),
    "2026-01-06": Day("another one"),
    "2026-01-07": Day(
        "many bad rows", USUAL | {"refund": 30, "other year": 20, "from nowhere": 15, "nobody counted": 10}
    ),
    "2026-01-08": Day("a broken meter: one total of four is wrong", USUAL | {"wrong total": 250}),
    "2026-01-09": Day("a column is missing", without=("store_and_fwd_flag",)),
    "2026-01-10": Day("the file is cut off after a tenth", share=0.1),
    "2026-01-11": Day("all is well again"),
}


def expected(day: str, trips: int = TRIPS) -> dict[str, int]:
    """How many rows of a day fail each test of `taxi.yaml`."""
    return DAYS[day].expected(trips)


def trips_of(spark: SparkSession, day: str, trips: int = TRIPS) -> DataFrame:
    """The trips of a day, defects and all."""
    special = DAYS[day]
    size = special.size(trips)
    if size > SECONDS_A_DAY or gcd(STRIDE, size) != 1:
        raise ValueError(
            f"{size} trips a day cannot be told apart: take up to {SECONDS_A_DAY}, and no multiple of {STRIDE}"
        )
    good = spark.range(size).selectExpr("id", f"pmod(id * {STRIDE}, {size}) AS place", *_values(day, size))
    found, first = good, 0
    for name, count in special.counts(trips).items():
        found = _with_defect(found, name, F.col("place").between(first, first + count - 1))
        first += count
    return found.select(*(name for name in COLUMNS if name not in special.without))


def _with_defect(frame: DataFrame, name: str, is_hit: Column) -> DataFrame:
    if name == SENT_TWICE:
        return frame.unionByName(frame.where(is_hit))
    spoils = DEFECTS[name].spoils.items()
    return frame.withColumns({each: F.when(is_hit, F.expr(wrong)).otherwise(F.col(each)) for each, wrong in spoils})


def _values(day: str, size: int) -> list[str]:
    """The 19 columns of a good trip. A column may name those before it."""
    midnight = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())

    def drawn(what: str, of: int) -> str:
        return f"pmod(xxhash64(id, '{day}', '{what}'), {of})"

    return [
        f"1 + {drawn('vendor', 2)} AS VendorID",
        # A second of its own for each, so that no two trips are alike.
        f"timestamp_seconds({midnight} + id * {SECONDS_A_DAY} div {size}) AS tpep_pickup_datetime",
        f"(50 + {drawn('distance', 1950)}) / 100D AS trip_distance",
        "tpep_pickup_datetime + make_dt_interval(0, 0, 2, trip_distance * 150) AS tpep_dropoff_datetime",
        f"1 + pmod({drawn('passengers', 9)}, 6) AS passenger_count",
        f"IF({drawn('rate', 20)} = 0, 2L, 1L) AS RatecodeID",
        f"IF({drawn('forwarded', 50)} = 0, 'Y', 'N') AS store_and_fwd_flag",
        f"CAST(1 + {drawn('from', ZONES)} AS INT) AS PULocationID",
        f"CAST(1 + {drawn('to', ZONES)} AS INT) AS DOLocationID",
        f"IF({drawn('payment', 10)} < 7, 1L, 2L) AS payment_type",
        "round(3 + 2.5D * trip_distance, 2) AS fare_amount",
        f"{drawn('extra', 3)} * 0.5D AS extra",
        "0.5D AS mta_tax",
        f"IF(payment_type = 1, round(fare_amount * {drawn('tip', 6)} * 0.05D, 2), 0D) AS tip_amount",
        f"IF({drawn('tolls', 20)} = 0, 6.55D, 0D) AS tolls_amount",
        "0.3D AS improvement_surcharge",
        "2.5D AS congestion_surcharge",
        "IF(PULocationID IN (132, 138), 1.25D, 0D) AS airport_fee",
        f"round({' + '.join(AMOUNTS)}, 2) AS total_amount",
    ]


def zones() -> Iterator[tuple[int, str, str, str]]:
    """TLC's lookup: LocationID, Borough, Zone, service_zone."""
    boroughs = [name for name, count in BOROUGHS.items() for _ in range(count)]
    for number, borough in enumerate(boroughs, 1):
        kind = "Yellow Zone" if borough == "Manhattan" else "Boro Zone"
        kind = "Airports" if number in AIRPORTS else kind
        yield number, borough, AIRPORTS.get(number, f"{borough} {number}"), "EWR" if borough == "EWR" else kind
    yield from NOWHERE


def write_zones(bronze: Path) -> None:
    path = bronze / "zones" / "zones.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("LocationID", "Borough", "Zone", "service_zone"))
        writer.writerows(zones())


def write_day(spark: SparkSession, bronze: Path, day: str, trips: int = TRIPS) -> None:
    trips_of(spark, day, trips).coalesce(2).write.mode("overwrite").parquet(str(bronze / "trips" / day))


def _session() -> SparkSession:
    builder = SparkSession.builder.master("local[2]").appName("taxi")
    for name in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(name, "false")
    return builder.getOrCreate()


def main() -> None:
    parser = argparse.ArgumentParser(description="Make days of taxi trips.")
    parser.add_argument("bronze", type=Path, help="folder to write to")
    parser.add_argument("--trips", type=int, default=TRIPS, help=f"trips of a usual day ({TRIPS:,})")
    parser.add_argument("--day", action="append", choices=DAYS, help="only this day; may be repeated")
    given = parser.parse_args()
    spark = _session()
    write_zones(given.bronze)
    for day in given.day or DAYS:
        write_day(spark, given.bronze, day, given.trips)
    spark.stop()


if __name__ == "__main__":
    main()
