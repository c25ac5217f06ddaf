"""The tests that every side runs, as a pipeline file says them; each peer says the same in its own words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Test = dict[str, Any]
UNIQUE: Test = {"name": "trip_once", "type": "unique", "column": "trip_id"}
TEN: list[Test] = [
    {"name": "trip_known", "type": "not_null", "column": "trip_id"},
    {"name": "vendor_known", "type": "accepted_values", "column": "vendor", "values": ["CMT", "VTS", "DDS"]},
    {
        "name": "ends_after_start",
        "type": "column_comparison",
        "column": "pickup_at",
        "operator": "<=",
        "other": "dropoff_at",
    },
    {"name": "passengers_fit", "type": "range", "column": "passengers", "min": 0, "max": 9},
    {"name": "distance_in_town", "type": "range", "column": "distance", "min": 0, "max": 1000},
    {"name": "rate_known", "type": "accepted_values", "column": "rate_code", "values": [1, 2, 3, 4, 5, 6]},
    {"name": "plate_valid", "type": "regex_match", "column": "plate", "pattern": "^T[0-9]{6}C$"},
    {"name": "receipt_sent", "type": "regex_match", "column": "receipt", "pattern": r"^[^@\s]+@[^@\s]+\.[a-z]+$"},
    {"name": "fare_positive", "type": "range", "column": "fare", "min": 0, "max": 10000},
    {"name": "total_covers_fare", "type": "custom_sql", "condition": "total >= fare"},
]


def fifty() -> list[Test]:
    """The ten and forty more without a regex, which every row passes that passes the ten."""
    return [*TEN, *({"name": f"more_{n}", **test} for n, test in enumerate(_more()))]


def _more() -> Iterator[Test]:
    for n in range(5):
        yield {"type": "range", "column": "fare", "min": -1000 - n, "max": 20_000 + n}
        yield {"type": "comparison", "column": "distance", "operator": "<", "value": 5_000 + n}
        yield {"type": "length", "column": "vendor", "min": 1, "max": 20 + n}
        yield {"type": "forbidden_values", "column": "vendor", "values": [f"X{n}", f"Y{n}"]}
        yield {"type": "accepted_values", "column": "rate_code", "values": [1, 2, 3, 4, 5, 6, 99, 100 + n]}
        yield {"type": "range", "column": "pickup_at", "min": f"200{n}-01-01", "max": f"209{n}-01-01"}
        yield {"type": "custom_sql", "condition": f"zone + {n} BETWEEN 1 AND {300 + n}"}
        yield {"type": "not_null", "columns": ["zone", "vendor", "plate", "receipt", "total"][: n + 1]}


def quarantining(tests: Sequence[Test]) -> list[Test]:
    return [{**test, "on_fail": "quarantine"} for test in tests]


# How a row passes each of the ten, in SQL; a NULL passes, as it does in the tests themselves.
PASSES = {
    "trip_known": "trip_id IS NOT NULL",
    "vendor_known": "vendor IN ('CMT', 'VTS', 'DDS')",
    "ends_after_start": "pickup_at <= dropoff_at",
    "passengers_fit": "passengers BETWEEN 0 AND 9",
    "distance_in_town": "distance BETWEEN 0 AND 1000",
    "rate_known": "rate_code IN (1, 2, 3, 4, 5, 6)",
    "plate_valid": "plate RLIKE '^T[0-9]{6}C$'",
    "receipt_sent": r"receipt RLIKE r'^[^@\s]+@[^@\s]+\.[a-z]+$'",
    "fare_positive": "fare BETWEEN 0 AND 10000",
    "total_covers_fare": "total >= fare",
}
