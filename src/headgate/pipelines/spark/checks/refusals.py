"""What cannot be tested, told before the first job: columns, types, patterns and SQL that do not fit the batch.

Spark analyses and folds what is given it here, and reads no data.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.errors import PipelineProblem
from headgate.pipelines.config.tests import datasets, rows
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import Frame, Unfit
from headgate.pipelines.spark.checks.passing import LOCAL, passes
from headgate.pipelines.spark.checks.said import SPARK_ERRORS, said
from headgate.pipelines.spark.checks.values import hashable, ordering
from headgate.pipelines.spark.figures.contract import type_named
from headgate.pipelines.spark.figures.measures import fit, measures_of
from headgate.pipelines.spark.figures.own import query_frame

_WHERE_HINT = "it is a condition over the columns of one row, without aggregates, windows and random values"


@dataclass(frozen=True)
class _Trial:
    """Something that Spark can be asked about: what of which test, and how."""

    test: NamedTest
    what: str
    column: Column
    hint: str | None = None


@dataclass(frozen=True)
class _Refusal:
    test: NamedTest
    message: str
    hint: str | None = None

    @property
    def problem(self) -> PipelineProblem:
        return PipelineProblem(self.test.place, f"test {self.test.name!r}: {self.message}", self.hint)


def refusals(spark: SparkSession, frame: DataFrame, tests: Sequence[NamedTest]) -> list[PipelineProblem]:
    """All that is wrong with these tests of this batch."""
    found = _unfit(frame, tests)
    rest = _without(tests, found)
    found += _tried(_conditions(rest), lambda trials: _analysed(spark, frame, trials))
    found += _tried(_patterns(rest), lambda trials: _folded(spark, trials))
    rest = _without(rest, found)
    found += _queries(spark, frame, rest)
    found += _types(spark, rest)
    found += _tried(_verdicts(frame, rest), lambda trials: _selected(frame, trials))
    return [each.problem for each in found]


def _without(tests: Sequence[NamedTest], refused: Sequence[_Refusal]) -> list[NamedTest]:
    names = {each.test.name for each in refused}
    return [test for test in tests if test.name not in names]


def _verdicts(frame: DataFrame, tests: Sequence[NamedTest]) -> list[_Trial]:
    at = Frame(frame.schema, datetime.now(UTC))
    local = [test for test in tests if type(test.config) in LOCAL]
    return [_Trial(test, test.config.kind, passes(test.config, at)) for test in local]


def _unfit(frame: DataFrame, tests: Sequence[NamedTest]) -> list[_Refusal]:
    at, problems = Frame(frame.schema, datetime.now(UTC)), []
    for test in tests:
        try:
            _fit(test, at)
        except Unfit as error:
            problems.append(_Refusal(test, error.message, error.hint))
        except SPARK_ERRORS as error:
            problems.append(_Refusal(test, said(error)))
    return problems


def _fit(test: NamedTest, at: Frame) -> None:
    config = test.config
    if isinstance(config, rows.UniqueTest | rows.ForeignKeyTest):
        for name in config.columns:
            hashable(name, config.kind, at)
    elif type(config) in LOCAL:
        passes(config, at)
    fit(config, at)
    measures_of([test], at)


def _conditions(tests: Sequence[NamedTest]) -> list[_Trial]:
    trials = []
    for test in tests:
        if test.config.where is not None:
            trials.append(_Trial(test, f"where {test.config.where!r}", F.expr(test.config.where), _WHERE_HINT))
        if isinstance(test.config, rows.CustomSqlTest):
            text = test.config.condition
            trials.append(_Trial(test, f"condition {text!r}", F.expr(text), _WHERE_HINT))
        if isinstance(test.config, rows.UniqueTest):
            for each in test.config.order_by:
                ordered = F.expr(ordering(each)[0]).isNull()
                trials.append(_Trial(test, f"order_by {each!r}", ordered, "write it as `updated_at DESC`"))
    return trials


def _patterns(tests: Sequence[NamedTest]) -> list[_Trial]:
    text, trials = F.col("s"), []
    for test in tests:
        match test.config:
            case rows.RegexMatchTest(pattern=pattern):
                hint = "patterns are in Java's dialect: close what is open, and put \\ before what is meant as it is"
                trials.append(_Trial(test, f"pattern {pattern!r}", text.rlike(pattern), hint))
            case rows.LikeTest(pattern=pattern):
                hint = "\\ stands before %, _ and \\ only: write \\\\ for the character itself"
                trials.append(_Trial(test, f"pattern {pattern!r}", text.like(pattern), hint))
            case rows.DateFormatTest(format=str(pattern)):
                hint = "write it in Spark's datetime patterns, as yyyy-MM-dd HH:mm:ss"
                read = F.try_to_timestamp(text, F.lit(pattern))
                trials.append(_Trial(test, f"format {pattern!r}", read, hint))
    return trials


def _tried(trials: list[_Trial], ask: Callable[[list[_Trial]], None]) -> list[_Refusal]:
    """All at once, and one by one only to find out which are wrong."""
    if not trials or _answer(trials, ask) is None:
        return []
    answers = [(trial, _answer([trial], ask)) for trial in trials]
    return [
        _Refusal(trial.test, f"{trial.what} cannot be used: {answer}", trial.hint)
        for trial, answer in answers
        if answer is not None
    ]


def _answer(trials: list[_Trial], ask: Callable[[list[_Trial]], None]) -> str | None:
    try:
        ask(trials)
    except SPARK_ERRORS as error:
        return said(error)
    return None


def _analysed(spark: SparkSession, frame: DataFrame, trials: list[_Trial]) -> None:
    for trial in trials:
        # A filter takes conditions only, and neither aggregates nor windows.
        frame = frame.where(trial.column)
    _ = frame.schema
    # A join takes nothing that is random: rows would be judged differently when they are looked at again.
    nothing = spark.range(0).select()
    _ = frame.join(nothing, reduce(operator.and_, [trial.column for trial in trials])).schema


def _folded(spark: SparkSession, trials: list[_Trial]) -> None:
    # A constant relation is worked out while the query is planned: there is no job.
    spark.sql("SELECT s FROM VALUES ('2020-01-01') AS t(s)").select(*(trial.column for trial in trials)).collect()


def _selected(frame: DataFrame, trials: list[_Trial]) -> None:
    _ = frame.select(*(trial.column.alias(f"c{n}") for n, trial in enumerate(trials))).schema


def _queries(spark: SparkSession, frame: DataFrame, tests: Sequence[NamedTest]) -> list[_Refusal]:
    problems = []
    for test in tests:
        if isinstance(test.config, datasets.CustomQueryTest):
            try:
                query_frame(spark, frame, test.config)
            except Unfit as error:
                problems.append(_Refusal(test, error.message, error.hint))
    return problems


def _types(spark: SparkSession, tests: Sequence[NamedTest]) -> list[_Refusal]:
    problems = []
    for test in tests:
        if isinstance(test.config, datasets.SchemaTest):
            for spec in test.config.columns:
                try:
                    type_named(spark, spec)
                except PySparkException as error:
                    message = f"{spec.type!r} of column {spec.name!r} is no type: {said(error)}"
                    problems.append(_Refusal(test, message, "write it as Spark does: bigint, string, decimal(10,2)"))
    return problems
