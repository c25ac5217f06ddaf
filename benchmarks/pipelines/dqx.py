"""DQX's side: checks as its documentation writes them, split into two frames, and both written.

Its client for a workspace is a stand-in, because nothing here needs one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

from databricks.labs.dqx import check_funcs
from databricks.labs.dqx.engine import DQEngine
from databricks.labs.dqx.rule import DQDatasetRule, DQRowRule, DQRule
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from benchmarks.pipelines import suite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def works(spark: SparkSession, source: Path, target: Path) -> dict[str, Callable[[], None]]:
    def run() -> None:
        engine = DQEngine(MagicMock(), spark)
        found = engine.apply_checks_and_split(spark.read.parquet(str(source)), _checks())
        found[0].write.parquet(str(target / "dqx" / "valid"))
        found[1].write.parquet(str(target / "dqx" / "rejected"))

    return {"dqx": run}


def _checks() -> list[DQRule]:
    unique = DQDatasetRule(name="trip_once", check_func=check_funcs.is_unique, columns=["trip_id"])
    return [*map(_check, suite.TEN), unique]


def _check(test: suite.Test) -> DQRule:
    def rule(check: Callable[..., Any], column: str | None = None, **arguments: Any) -> DQRule:
        return DQRowRule(name=test["name"], check_func=check, column=column, check_func_kwargs=arguments)

    match test["type"]:
        case "not_null":
            return rule(check_funcs.is_not_null, test["column"])
        case "accepted_values":
            # Text by itself would be taken for the name of a column.
            return rule(check_funcs.is_in_list, test["column"], allowed=list(map(F.lit, test["values"])))
        case "range":
            # Its limits are of the column's own type.
            kind = int if test["column"] == "passengers" else float
            limits = {"min_limit": kind(test["min"]), "max_limit": kind(test["max"])}
            return rule(check_funcs.is_in_range, test["column"], **limits)
        case "regex_match":
            return rule(check_funcs.regex_match, test["column"], regex=test["pattern"])
        case _:
            return rule(check_funcs.sql_expression, expression=suite.PASSES[test["name"]])
