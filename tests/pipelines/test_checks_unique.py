"""Keys that are there more than once: which of their rows fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.domain.gate import Lot
from headgate.pipelines.config.tests.rows import UniqueTest
from headgate.pipelines.spark import fused
from headgate.pipelines.spark.checks.values import hashable
from tests.pipelines.testing import batch, config, frame_of, named

ROWS = [(1, 10, "a", 1), (2, 10, "b", 2), (3, 20, "a", 3), (4, None, "a", 4), (5, None, "a", 5), (6, 10, "a", 6)]


@pytest.mark.parametrize(
    ("test", "failing"),
    [
        ({"column": "k"}, {1, 2, 6}),
        ({"column": "K"}, {1, 2, 6}),
        ({"columns": ["k", "a b"]}, {1, 6}),
        ({"column": "k", "where": "at < 6"}, {1, 2}),
        ({"column": "k", "keep": "first", "order_by": "at"}, {2, 6}),
        ({"column": "k", "keep": "first", "order_by": ["`a b` DESC", "at DESC"]}, {1, 6}),
        ({"column": "k", "keep": "first", "order_by": "at DESC", "where": "at < 6"}, {1}),
        ({"column": "id"}, set()),
        ({"column": "k", "allow_null": False}, {1, 2, 4, 5, 6}),
        ({"column": "k", "allow_null": False, "where": "at < 5"}, {1, 2, 4}),
        ({"columns": ["id", "k"], "allow_null": False}, {4, 5}),
    ],
    ids=str,
)
def test_rows_of_duplicated_keys_fail(
    spark: SparkSession, tmp_path: Path, test: dict[str, Any], failing: set[int]
) -> None:
    rows = batch(spark, "id int, k int, `a b` string, at int", ROWS)

    staged = fused.sort_rows(spark, rows, fused.Tests(unique=[unique(rows, **test)]), str(tmp_path))

    found = fused.rejected(staged, frozenset({Lot.failed}))
    assert {row["id"] for row in found.select("id").collect()} == failing if found is not None else failing == set()
    assert staged.failures.get("unique1", 0) == len(failing)
    assert staged.total == len(ROWS)


def unique(rows: DataFrame, **fields: Any) -> fused.Unique:
    (test,) = named(config("unique", **fields))
    assert isinstance(test.config, UniqueTest)
    return fused.Unique(test, tuple(hashable(name, "unique", frame_of(rows)) for name in test.config.columns))
