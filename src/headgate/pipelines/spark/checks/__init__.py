"""Tests of rows as Spark columns: pure functions from what a test says to whether a row passes."""

from headgate.pipelines.spark.checks.frame import Unfit
from headgate.pipelines.spark.checks.passing import passes

__all__ = ["Unfit", "passes"]
