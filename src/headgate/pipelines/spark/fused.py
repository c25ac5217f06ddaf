"""One pass over a batch: every row is tested, sorted into its lot, and written to staging.

A row's lot is the worst that its tests make of it. Clean rows are never looked at again; what is left is small, and is
read from staging to be counted, decided and explained.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.domain.gate import Lot, OnFail
from headgate.errors import HeadgateError
from headgate.pipelines.config.tests import rows
from headgate.pipelines.plan import NamedTest
from headgate.pipelines.spark.checks.frame import has_equality
from headgate.pipelines.spark.checks.literals import is_text
from headgate.pipelines.spark.checks.passing import scoped
from headgate.pipelines.spark.checks.values import ordering
from headgate.pipelines.spark.spelling import nullable, quoted

LOT = "_headgate_lot"
UNDECIDED = "undecided"
FAILED = "_headgate_failed"
_COUNT = "_headgate_rows"
_WAS_EMPTY = "_headgate_was_empty"
# Beyond so many duplicated keys both sides are shuffled instead of one sent everywhere.
_BROADCAST_KEYS = 2_000_000


@dataclass(frozen=True)
class Reference:
    """Keys that a foreign key may refer to, under the names of the columns that refer to them."""

    test: NamedTest
    keys: DataFrame
    columns: tuple[str, ...]
    flag: str


@dataclass(frozen=True)
class Unique:
    """A test of keys, with the names that their columns have in the batch."""

    test: NamedTest
    columns: tuple[str, ...]

    @property
    def config(self) -> rows.UniqueTest:
        assert isinstance(self.test.config, rows.UniqueTest)
        return self.test.config


@dataclass(frozen=True)
class Tests:
    """The tests of a batch that can tell rows apart."""

    local: Sequence[tuple[NamedTest, Column]] = ()
    unique: Sequence[Unique] = ()
    references: Sequence[Reference] = ()

    @property
    def all(self) -> list[NamedTest]:
        references, unique = [each.test for each in self.references], [each.test for each in self.unique]
        return [*(test for test, _ in self.local), *references, *unique]


@dataclass
class Staged:
    """A batch in staging: how many rows each lot has, and how many fail each test."""

    folder: str
    format: str
    schema: T.StructType
    partition_by: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict)
    lots: dict[Lot, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    # Of the rows that may be set apart, by lot.
    failures_in: dict[Lot, dict[str, int]] = field(default_factory=dict)
    observed: dict[str, Any] = field(default_factory=dict)
    # Rows whose lot was settled after the pass; they stand in a folder of their own.
    judged: DataFrame | None = None
    has_decided: bool = False

    @property
    def total(self) -> int:
        return sum(self.lots.values())

    def frame(self, spark: SparkSession) -> DataFrame:
        """All rows of the batch, as they were staged."""
        return _staged_rows(spark, self).drop(LOT)

    def folder_of(self, lot: Lot) -> str:
        return f"{self.folder}/pass/{LOT}={lot}"

    def decided_folder_of(self, lot: Lot) -> str:
        return f"{self.folder}/decided/{LOT}={lot}"


def sort_rows(
    spark: SparkSession,
    frame: DataFrame,
    tests: Tests,
    folder: str,
    *,
    format: str = "parquet",  # noqa: A002 - as Spark calls it
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    measures: Mapping[str, Column] | None = None,
    telling: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Staged:
    """Write the batch to staging by lots, and count.

    `measures` are aggregates over all rows, taken on the way; `telling` goes around the one write of all rows.
    """
    staged = Staged(folder, format, frame.schema, partition_by, dict(options or {}))
    duplicates = _duplicates(spark, frame, tests.unique, folder)
    observation = Observation("headgate")
    # Observed last: what comes before is one piece of generated code, and would be two around it.
    sorted_rows = _with_lots(frame, tests, duplicates).observe(
        observation, F.count(F.lit(1)).alias(_COUNT), *_named(measures or {})
    )
    with telling():
        _write(sorted_rows, f"{folder}/pass", staged)
    found = {row[LOT]: row["count"] for row in _staged_rows(spark, staged).groupBy(LOT).count().collect()}
    staged.observed = dict(observation.get)
    seen, written = staged.observed.pop(_COUNT), sum(found.values())
    if seen != written:
        # Spark did a part of the work twice, and saw its rows twice; or some were lost.
        _check_nothing_lost(frame, seen, written)
        staged.observed = _measured(staged.frame(spark), measures or {})
    staged.lots = {Lot(lot): count for lot, count in found.items() if lot != UNDECIDED}
    if set(found) - {Lot.clean}:
        _judge_rest(spark, staged, tests, has_undecided=UNDECIDED in found)
    return staged


def _named(measures: Mapping[str, Column]) -> list[Column]:
    return [column.alias(name) for name, column in measures.items()]


def _measured(frame: DataFrame, measures: Mapping[str, Column]) -> dict[str, Any]:
    row = frame.agg(*_named(measures)).first() if measures else None
    return {} if row is None else row.asDict()


def _check_nothing_lost(frame: DataFrame, seen: int, written: int) -> None:
    if frame.count() != written:
        raise HeadgateError(f"{seen:,} rows came in and {written:,} were written: rows were lost or made on the way")


def _with_lots(frame: DataFrame, tests: Tests, duplicates: DataFrame | None) -> DataFrame:
    columns = frame.columns
    sorted_rows, flags = _with_references(frame, tests.references)
    sorted_rows, candidates = _with_candidates(sorted_rows, tests.unique, duplicates)
    candidate = reduce(operator.or_, candidates) if candidates else None
    passing = [(test.config.on_fail, column) for test, column in [*tests.local, *flags]]
    return sorted_rows.withColumn(LOT, _lot(passing, candidate)).select(*map(quoted, columns), LOT)


def _lot(passing: Sequence[tuple[OnFail, Column]], candidate: Column | None = None) -> Column:
    by_kind = {kind: [column for on_fail, column in passing if on_fail is kind] for kind in OnFail}
    whole = {kind: _all(columns) for kind, columns in by_kind.items() if columns}
    is_clean = _all([*whole.values(), *([] if candidate is None else [~candidate])])
    lot = F.when(is_clean, F.lit(str(Lot.clean)))
    if candidate is not None:
        lot = lot.when(candidate, F.lit(UNDECIDED))
    for kind, name in ((OnFail.quarantine, Lot.quarantined), (OnFail.fail, Lot.failed)):
        if kind in whole:
            lot = lot.when(~whole[kind], F.lit(str(name)))
    return lot.otherwise(F.lit(str(Lot.warned)))


def _all(columns: Sequence[Column]) -> Column:
    return reduce(operator.and_, columns) if columns else F.lit(True)


def _with_references(
    frame: DataFrame, references: Sequence[Reference]
) -> tuple[DataFrame, list[tuple[NamedTest, Column]]]:
    flags = []
    for reference in references:
        keys = reference.keys.toDF(*(f"{reference.flag}_{n}" for n in range(len(reference.columns)))).distinct()
        keys = keys.withColumn(reference.flag, F.lit(True))
        pairs = [frame[quoted(name)] == keys[f"{reference.flag}_{n}"] for n, name in enumerate(reference.columns)]
        frame = frame.join(keys, reduce(operator.and_, pairs), "left")
        is_known = F.col(reference.flag).isNotNull()
        is_absent = reduce(operator.or_, [F.col(quoted(name)).isNull() for name in reference.columns])
        allowed = F.lit(reference.test.config.allow_null)
        flags.append((reference.test, scoped(reference.test.config, F.when(is_absent, allowed).otherwise(is_known))))
    return frame, flags


def _duplicates(spark: SparkSession, frame: DataFrame, tests: Sequence[Unique], folder: str) -> DataFrame | None:
    """Hashes of keys that are there more than once, by test; from a job that reads nothing but the keys."""
    if not tests:
        return None
    twice = _twice(frame, tests)
    twice.write.mode("overwrite").parquet(f"{folder}/duplicates")
    found = spark.read.schema("n INT, h BIGINT").parquet(f"{folder}/duplicates")
    count = found.count()
    if count == 0:
        return None
    return F.broadcast(found) if count <= _BROADCAST_KEYS else found


def _twice(frame: DataFrame, tests: Sequence[Unique]) -> DataFrame:
    if len(tests) == 1:
        hashes = frame.select(_key_hash(tests[0]).alias("h"))
        # Grouped by the hash alone, which is a good deal cheaper than by two columns.
        return _repeated(hashes, "h").select(F.lit(0).alias("n"), "h")
    keys = [F.struct(F.lit(n).alias("n"), _key_hash(test).alias("h")) for n, test in enumerate(tests)]
    return _repeated(frame.select(F.inline(F.array(*keys))), "n", "h")


def _repeated(hashes: DataFrame, *by: str) -> DataFrame:
    return hashes.where("h IS NOT NULL").groupBy(*by).count().where("count > 1").select(*by)


def _key_hash(test: Unique) -> Column:
    """NULL for rows that the test does not compare: outside `where`, or with a NULL in the key."""
    columns = [F.col(quoted(name)) for name in test.columns]
    present = reduce(operator.and_, [column.isNotNull() for column in columns])
    return F.when(present & _is_in_scope(test), F.xxhash64(*columns))


def _is_in_scope(test: Unique) -> Column:
    where = test.config.where
    return F.lit(True) if where is None else F.coalesce(F.expr(where), F.lit(False))


def _lacks_key(test: Unique) -> Column:
    """Whether a NULL in the key breaks the test."""
    if test.config.allow_null:
        return F.lit(False)
    absent = reduce(operator.or_, [F.col(quoted(name)).isNull() for name in test.columns])
    return absent & _is_in_scope(test)


def _with_candidates(
    frame: DataFrame, tests: Sequence[Unique], duplicates: DataFrame | None
) -> tuple[DataFrame, list[Column]]:
    """Marks of the rows that a unique test may refuse."""
    marks = [_lacks_key(test) for test in tests if not test.config.allow_null]
    if duplicates is None:
        return frame, marks
    for n, test in enumerate(tests):
        mark = f"_headgate_twice_{n}"
        of_test = duplicates.where(F.col("n") == n).select(F.col("h").alias(mark))
        frame = frame.join(of_test, _key_hash(test) == F.col(mark), "left")
        marks.append(F.col(mark).isNotNull())
    return frame, marks


def _staged_rows(spark: SparkSession, staged: Staged) -> DataFrame:
    """What is in staging, with the types it had: partition values are text to the file system."""
    schema = T.StructType([*staged.schema.fields, T.StructField(LOT, T.StringType())])
    reader = spark.read.format(staged.format).schema(nullable(schema))
    return reader.load(f"{staged.folder}/pass").select(*map(quoted, schema.names))


def _judge_rest(spark: SparkSession, staged: Staged, tests: Tests, *, has_undecided: bool) -> None:
    rest = _staged_rows(spark, staged).where(F.col(LOT) != str(Lot.clean))
    rest, flags = _with_references(rest, tests.references)
    rest, unique_flags = _with_exact_keys(rest, tests.unique if has_undecided else ())
    passing = [*tests.local, *flags, *unique_flags]
    lot = _lot([(test.config.on_fail, column) for test, column in passing])
    rest = _with_empty_texts(rest, staged, lot)
    names = F.array(*(F.when(~column, F.lit(test.name)) for test, column in passing))
    exact = F.when(F.col(LOT) == UNDECIDED, lot).otherwise(F.col(LOT))
    judged = rest.withColumn(FAILED, F.filter(names, lambda name: name.isNotNull())).withColumn(f"{LOT}_exact", exact)
    staged.judged = judged.select(*map(quoted, staged.schema.names), LOT, FAILED, f"{LOT}_exact")
    _count_rest(staged, tests)
    if has_undecided:
        _write_decided(staged)


def _with_empty_texts(rest: DataFrame, staged: Staged, lot: Column) -> DataFrame:
    """With the empty texts that Spark has made NULL in the names of folders.

    Rows that would be of another lot with the NULL had one.
    """
    parts = {name.lower() for name in staged.partition_by}
    texts = [each.name for each in staged.schema.fields if each.name.lower() in parts and is_text(each.dataType)]
    if not texts:
        return rest
    rest = rest.withColumn(_WAS_EMPTY, (F.col(LOT) != UNDECIDED) & (F.col(LOT) != lot))
    for name in texts:
        column = F.col(quoted(name))
        rest = rest.withColumn(name, F.when(F.col(_WAS_EMPTY) & column.isNull(), F.lit("")).otherwise(column))
    return rest


def _with_exact_keys(rest: DataFrame, tests: Sequence[Unique]) -> tuple[DataFrame, list[tuple[NamedTest, Column]]]:
    """Hashes only say who might be twice; here the keys themselves are compared, among those few."""
    flags = []
    for n, test in enumerate(tests):
        passes = f"_headgate_unique_{n}"
        is_compared = _key_hash(test).isNotNull() & (F.col(LOT) == UNDECIDED)
        fine = (~is_compared | _is_single(test, rest, is_compared)) & ~_lacks_key(test)
        rest = rest.withColumn(passes, fine)
        flags.append((test.test, F.col(passes)))
    return rest, flags


def _is_single(test: Unique, rest: DataFrame, is_compared: Column) -> Column:
    keys = Window.partitionBy(*(F.col(quoted(name)) for name in test.columns), is_compared)
    if test.config.keep == "first":
        order = [_ordering(each) for each in test.config.order_by]
        return F.row_number().over(keys.orderBy(*order, *_any_order(rest))) == 1
    return F.count(F.lit(1)).over(keys) == 1


def _ordering(text: str) -> Column:
    name, is_downwards = ordering(text)
    return F.expr(name).desc() if is_downwards else F.expr(name).asc()


def _any_order(frame: DataFrame) -> list[Column]:
    """By all columns, so that the same row is the first whenever it is asked; what has no order goes by its text."""
    columns = [(F.col(quoted(each.name)), each.dataType) for each in frame.schema.fields]
    return [column if has_equality(kind) else column.cast("string") for column, kind in columns]


def _count_rest(staged: Staged, tests: Tests) -> None:
    assert staged.judged is not None
    names = [test.name for test in tests.all]
    per_test = [F.count_if(F.array_contains(FAILED, name)).alias(f"t{n}") for n, name in enumerate(names)]
    found = staged.judged.groupBy(f"{LOT}_exact").agg(F.count(F.lit(1)).alias(_COUNT), *per_test).collect()
    clean = staged.lots.get(Lot.clean, 0)
    staged.lots = dict.fromkeys(Lot, 0) | {Lot(row[0]): row[_COUNT] for row in found}
    staged.lots[Lot.clean] += clean
    staged.failures_in = {Lot(row[0]): {name: row[f"t{n}"] for n, name in enumerate(names)} for row in found}
    staged.failures = {name: sum(counts[name] for counts in staged.failures_in.values()) for name in names}


def _write_decided(staged: Staged) -> None:
    assert staged.judged is not None
    undecided = staged.judged.where(F.col(LOT) == UNDECIDED).drop(LOT, FAILED).withColumnRenamed(f"{LOT}_exact", LOT)
    _write(undecided, f"{staged.folder}/decided", staged)
    staged.has_decided = True


def failures_of(staged: Staged, lots: frozenset[Lot]) -> dict[str, int]:
    """How many rows of these lots fail each test, without those that none fails."""
    found: dict[str, int] = {}
    for lot in lots:
        for name, count in staged.failures_in.get(lot, {}).items():
            found[name] = found.get(name, 0) + count
    return {name: found[name] for name in staged.failures if found.get(name)}


def rejected(staged: Staged, lots: frozenset[Lot]) -> DataFrame | None:
    """The rows of these lots with the tests that they fail, as `_headgate_failed`."""
    if staged.judged is None:
        return None
    return staged.judged.where(F.col(f"{LOT}_exact").isin([str(lot) for lot in lots])).drop(LOT, f"{LOT}_exact")


def _write(frame: DataFrame, folder: str, staged: Staged) -> None:
    writer = frame.write.mode("overwrite").format(staged.format).options(**staged.options)
    writer.partitionBy(LOT, *staged.partition_by).save(folder)
