"""Great Expectations' side: it validates, and what it cannot do (split, reasons, two outputs) is written by hand.

Duplicates are reported, but stay among the valid rows: to find them a second time would cost it more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import great_expectations
from great_expectations import expectations as gxe
from great_expectations.core.expectation_suite import ExpectationSuite
from great_expectations.data_context.types.base import ProgressBarsConfig
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from benchmarks.pipelines import suite

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.expectations.expectation import Expectation
    from pyspark.sql import SparkSession

# The larger column first.
_PAIRS = {"ends_after_start": ("dropoff_at", "pickup_at"), "total_covers_fare": ("total", "fare")}
_CONDITIONS = {name: f"coalesce({condition}, true)" for name, condition in suite.PASSES.items()}


def works(spark: SparkSession, source: Path, target: Path) -> dict[str, Callable[[], None]]:
    batches = _batches()

    def run() -> None:
        # It keeps what it has read in memory, where the next read of the same path would find it.
        spark.catalog.clearCache()
        frame = spark.read.parquet(str(source))
        batch = batches.get_batch(batch_parameters={"dataframe": frame})
        if batch.validate(_suite()).success:
            raise RuntimeError("Great Expectations has found nothing")
        is_valid = " AND ".join(_CONDITIONS.values())
        names = F.array(*(F.when(~F.expr(each), F.lit(name)) for name, each in _CONDITIONS.items()))
        frame.where(is_valid).write.parquet(str(target / "gx" / "valid"))
        rejected = frame.where(f"NOT ({is_valid})").withColumn("_failed_tests", F.array_compact(names))
        rejected.write.parquet(str(target / "gx" / "rejected"))

    return {"gx": run}


def _batches() -> BatchDefinition:
    context = great_expectations.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.add_spark("spark").add_dataframe_asset("trips")
    return asset.add_batch_definition_whole_dataframe("all")


def _suite() -> ExpectationSuite:
    unique = gxe.ExpectColumnValuesToBeUnique(column="trip_id")
    return ExpectationSuite("ten", expectations=[*map(_expectation, suite.TEN), unique])


def _expectation(test: suite.Test) -> Expectation:
    match test["type"]:
        case "not_null":
            return gxe.ExpectColumnValuesToNotBeNull(column=test["column"])
        case "accepted_values":
            return gxe.ExpectColumnValuesToBeInSet(column=test["column"], value_set=test["values"])
        case "range":
            return gxe.ExpectColumnValuesToBeBetween(
                column=test["column"], min_value=test["min"], max_value=test["max"]
            )
        case "regex_match":
            return gxe.ExpectColumnValuesToMatchRegex(column=test["column"], regex=test["pattern"])
        case _:
            larger, smaller = _PAIRS[test["name"]]
            return gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A=larger, column_B=smaller, or_equal=True)
