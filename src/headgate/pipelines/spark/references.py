"""The other side of a test: rows of a node, or of a path or table, that keys refer to or that a batch agrees with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headgate.errors import PipelineProblem
from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.read import ReadConfig
from headgate.pipelines.config.tests import datasets, rows
from headgate.pipelines.config.tests.rows import ReferenceConfig
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import Frame, Unfit, are_comparable
from headgate.pipelines.spark.checks.said import SPARK_ERRORS, said
from headgate.pipelines.spark.checks.values import hashable
from headgate.pipelines.spark.figures.reconcile import fit_reference
from headgate.pipelines.spark.fused import Reference
from headgate.pipelines.spark.read import read


@dataclass(frozen=True)
class References:
    """The other sides of a node's tests: keys for the pass, whole datasets by the names of tests, and what is wrong."""

    keys: Sequence[Reference] = ()
    datasets: Mapping[str, DataFrame] | None = None
    problems: Sequence[PipelineProblem] = ()


def references(
    spark: SparkSession,
    tests: Sequence[NamedTest],
    frame: Frame,
    nodes: Mapping[str, DataFrame],
    connections: Mapping[str, ConnectionConfig],
) -> References:
    """Open what tests refer to; `nodes` are the published rows by node. All that does not fit is told at once."""
    keys, whole, problems = [], {}, []
    for number, test in enumerate(tests):
        try:
            if isinstance(test.config, rows.ForeignKeyTest):
                opened = _opened(spark, test, test.config.reference, nodes, connections)
                keys.append(_keys(test, test.config, number, frame, opened))
            elif isinstance(test.config, datasets.ReconcileTest):
                whole[test.name] = _opened(spark, test, test.config.reference, nodes, connections)
                fit_reference(test.config, frame, Frame(whole[test.name].schema, frame.now))
        except Unfit as error:
            problems.append(PipelineProblem(test.place, f"test {test.name!r}: {error.message}", error.hint))
    return References(keys, whole, problems)


def _opened(
    spark: SparkSession,
    test: NamedTest,
    config: ReferenceConfig,
    nodes: Mapping[str, DataFrame],
    connections: Mapping[str, ConnectionConfig],
) -> DataFrame:
    if config.node is not None:
        return nodes[config.node]
    assert config.connection is not None
    assert test.reference is not None
    block = ReadConfig(
        connection=config.connection,
        path=config.path,
        table=config.table,
        format=config.format,
        options=dict(config.options),
    )
    try:
        opened = read(spark, block, test.reference, connections[config.connection])
        # Spark Connect looks only when it is asked.
        _ = opened.schema
    except SPARK_ERRORS as error:
        hint = "write it first, or correct connection, path or table of its reference"
        raise Unfit(f"{test.reference} cannot be read: {said(error)}", hint) from None
    return opened


def _keys(test: NamedTest, config: rows.ForeignKeyTest, number: int, frame: Frame, opened: DataFrame) -> Reference:
    there = Frame(opened.schema, frame.now)
    columns = [hashable(name, config.kind, frame) for name in config.columns]
    wanted = config.reference_columns or config.columns
    for mine, theirs in zip(config.columns, wanted, strict=True):
        _check_pair(mine, frame, theirs, there, str(test.reference or config.reference.node))
    keys = opened.select(*(there.column(name) for name in wanted))
    return Reference(test, keys, tuple(columns), f"_headgate_known_{number}")


def _check_pair(mine: str, frame: Frame, theirs: str, there: Frame, label: str) -> None:
    here = frame.type_of(mine)
    try:
        found = there.type_of(theirs)
    except Unfit as error:
        raise Unfit(f"there is no column {theirs!r} in {label}", error.hint) from None
    if not are_comparable(here, found):
        raise Unfit(
            f"{mine!r} is {here.simpleString()} and {theirs!r} of {label} is {found.simpleString()}: "
            "they cannot be compared",
            "cast one of them in transform",
        )
