"""The rows that every side tests: taxi trips, the same on any partitioning, with defects that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 8
# Of ten thousand rows so many have one of the defects; each test finds its own.
DEFECT = 12
# Of ten thousand rows so many have the number of the trip before.
TWICE = 5


def _is_hit(defect: int, share: int) -> str:
    return f"pmod(xxhash64(id, {defect}), 10000) < {share}"


def _number(salt: int, below: int) -> str:
    return f"pmod(xxhash64(id, {salt}), {below})"


def _or_else(defect: int, wrong: str, right: str) -> str:
    return f"CASE WHEN {_is_hit(defect, DEFECT)} THEN {wrong} ELSE {right} END"


_AGAIN = f"CASE WHEN {_is_hit(11, TWICE)} THEN id - 1 ELSE id END"
_PICKUP = f"1760000000 + {_number(21, 30 * 86400)}"
_DROPOFF = f"{_PICKUP} + {_or_else(3, '-60', f'300 + {_number(22, 3600)}')}"
_DISTANCE = f"{_number(24, 4000)} / 100D"
_FARE = f"3 + {_number(24, 4000)} / 40D"
COLUMNS = {
    "trip_id": _or_else(1, "NULL", _AGAIN),
    "vendor": _or_else(2, "'?'", f"element_at(array('CMT', 'VTS', 'DDS'), CAST({_number(23, 3)} + 1 AS INT))"),
    "pickup_at": f"timestamp_seconds({_PICKUP})",
    "dropoff_at": f"timestamp_seconds({_DROPOFF})",
    # A NULL here is none of the defects: it passes.
    "passengers": f"CASE WHEN {_is_hit(12, 100)} THEN NULL ELSE CAST({_or_else(4, '99', _number(25, 7))} AS INT) END",
    "distance": _or_else(5, "-1D", _DISTANCE),
    "rate_code": f"CAST({_or_else(6, '99', f'1 + {_number(26, 6)}')} AS INT)",
    "zone": f"CAST(1 + {_number(27, 265)} AS INT)",
    "fare": _or_else(9, "-5D", _FARE),
    "total": f"{_FARE} + {_or_else(10, '-20D - 100D', f'{_number(28, 1000)} / 100D')}",
    "plate": _or_else(7, "'unknown'", f"concat('T', lpad({_number(29, 1000000)}, 6, '0'), 'C')"),
    "receipt": _or_else(8, "'none'", f"concat('rider', {_number(30, 10000000)}, '@example.com')"),
}


def trips(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, FILES).selectExpr(*(f"{value} AS {name}" for name, value in COLUMNS.items()))
