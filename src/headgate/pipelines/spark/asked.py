"""What a node asks of its batch: its tests and its profile, made ready for the columns that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession

from headgate.errors import InvalidPipeline
from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.node import ProfileConfig
from headgate.pipelines.config.tests import rows
from headgate.pipelines.plan import NamedTest, Node
from headgate.pipelines.record import ColumnProfile
from headgate.pipelines.spark import fused
from headgate.pipelines.spark.checks.frame import Frame
from headgate.pipelines.spark.checks.passing import LOCAL, passes
from headgate.pipelines.spark.checks.refusals import refusals
from headgate.pipelines.spark.checks.values import hashable
from headgate.pipelines.spark.figures import measures_of, outlier_figures, profile_measures, profile_of
from headgate.pipelines.spark.figures.contract import with_contract
from headgate.pipelines.spark.references import references


@dataclass(frozen=True)
class Asked:
    """The tests of a batch: those of its rows for the pass, and the other sides of those that have one."""

    tests: Sequence[NamedTest]
    at: Frame
    rows: fused.Tests
    datasets: Mapping[str, DataFrame] = field(default_factory=dict)
    # None if no profile is wanted; no names are all columns.
    profiled: Sequence[str] | None = None

    @property
    def measures(self) -> dict[str, Column]:
        """Aggregates to be taken in the pass."""
        wanted = measures_of(self.tests, self.at)
        return wanted if self.profiled is None else wanted | profile_measures(self.at, self.profiled)

    def profile(self, staged: fused.Staged) -> dict[str, ColumnProfile]:
        return {} if self.profiled is None else profile_of(staged.observed, self.at, self.profiled)


def ask(
    spark: SparkSession,
    node: Node,
    frame: DataFrame,
    others: Mapping[str, DataFrame],
    connections: Mapping[str, ConnectionConfig],
    now: datetime,
) -> Asked:
    """Make the tests of a node ready; all that do not fit these columns are told at once, before any job."""
    tests = with_contract(node.tests, node.config.contract)
    at = Frame(frame.schema, now)
    problems = refusals(spark, frame, tests)
    refused = {problem.place for problem in problems}
    found = references(spark, [test for test in tests if test.place not in refused], at, others, connections)
    if problems := [*problems, *found.problems]:
        raise InvalidPipeline(problems)
    at = replace(at, figures=outlier_figures(tests, frame, at))
    local = [(test, passes(test.config, at)) for test in tests if type(test.config) in LOCAL]
    unique = [_unique(test, test.config, at) for test in tests if isinstance(test.config, rows.UniqueTest)]
    return Asked(tests, at, fused.Tests(local, unique, found.keys), found.datasets or {}, _profiled(node))


def _unique(test: NamedTest, config: rows.UniqueTest, at: Frame) -> fused.Unique:
    return fused.Unique(test, tuple(hashable(name, config.kind, at) for name in config.columns))


def _profiled(node: Node) -> Sequence[str] | None:
    wanted = node.config.validation.profile
    if isinstance(wanted, ProfileConfig):
        return wanted.columns
    return [] if wanted else None
