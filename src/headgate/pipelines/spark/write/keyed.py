"""The modes that tell rows apart by keys, as frames: what the target holds and the batch, to what it is to hold.

Knows nothing of where rows are kept. A key with a NULL in it is equal to no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.errors import ConfigError
from headgate.pipelines.config.write import HistoryConfig, WriteConfig, WriteMode
from headgate.pipelines.spark.spelling import quoted
from headgate.pipelines.spark.write.align import aligned, fit
from headgate.pipelines.spark.write.base import all_of

_CHANGE, _SINCE, _FROM = "_headgate_change", "_headgate_since", "_headgate_from"


@dataclass(frozen=True)
class Merged:
    """What the target is to hold, or what is to be added to it; `rows` are those of the batch that count."""

    frame: DataFrame
    is_whole: bool
    rows: int
    notes: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether the target is to stay as it is."""
        return not self.is_whole and self.rows == 0


def added_columns(config: WriteConfig) -> list[str]:
    """Columns that the target has and the batch has not."""
    if config.mode is not WriteMode.scd2:
        return []
    history = config.history or HistoryConfig()
    return [history.valid_from, history.valid_to, history.is_current]


def target_schema(schema: T.StructType, config: WriteConfig) -> T.StructType:
    """The batch's columns as the target keeps them."""
    if config.mode is not WriteMode.scd2:
        return schema
    history = config.history or HistoryConfig()
    kind = _moment(schema, history)
    fields = [(history.valid_from, kind), (history.valid_to, kind), (history.is_current, T.BooleanType())]
    return T.StructType([*schema.fields, *(T.StructField(name, each) for name, each in fields)])


def check_history(schema: T.StructType, config: WriteConfig) -> None:
    """What only the batch's columns can tell of a history."""
    history = config.history or HistoryConfig()
    for field in ("valid_from", "valid_to", "is_current"):
        name = getattr(history, field)
        if name.lower() in {each.lower() for each in schema.names}:
            raise ConfigError(
                f"write.history.{field}: the batch has a column {name!r} itself",
                hint=f"give another name in history.{field}, or drop the column in transform",
            )
    kind = _moment(schema, history)
    if history.on_missing == "close" and not isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType):
        raise ConfigError(
            f"write.history.on_missing: close needs a time, and {history.effective_at!r} is {kind.simpleString()}",
            hint="say on_missing: keep, or name a date or timestamp in effective_at",
        )


def merge(
    spark: SparkSession,
    config: WriteConfig,
    batch: DataFrame,
    existing: DataFrame | None,
    *,
    rows: int,
    now: datetime,
    staging: str,
    label: str,
) -> Merged:
    """The batch brought together with what is there."""
    whole = target_schema(batch.schema, config)
    if existing is not None:
        _check_has_history(existing, config, label)
        whole = fit(whole, existing.schema, label).schema
        existing = aligned(existing, whole)
    if config.mode is WriteMode.upsert:
        check_repeats(batch, config.keys)
        return _upserted(aligned(batch, whole), existing, config.keys, rows)
    if config.mode is WriteMode.append_once:
        return _appended_once(spark, aligned(batch, whole), existing, config.keys, rows, staging)
    return _History(spark, config, now, staging).merged(batch, existing, whole)


def check_repeats(batch: DataFrame, keys: Sequence[str]) -> None:
    """One row a key: of two nobody can tell which is to stay."""
    present = all_of([F.col(quoted(key)).isNotNull() for key in keys])
    repeated = batch.where(present).groupBy(*map(quoted, keys)).count().where("count > 1")
    found = repeated.agg(F.count(F.lit(1)).alias("keys"), F.sum("count").alias("rows")).first()
    if found is not None and found["keys"]:
        raise ConfigError(
            f"{found['rows']:,} rows of the batch share {found['keys']:,} values of write.keys {', '.join(keys)}",
            hint=f"add a test: {{type: unique, columns: [{', '.join(keys)}], on_fail: quarantine}}",
        )


def _upserted(batch: DataFrame, existing: DataFrame | None, keys: Sequence[str], rows: int) -> Merged:
    if existing is None:
        return Merged(batch, True, rows)
    return Merged(without(existing, batch, keys).unionByName(batch), True, rows)


def _appended_once(
    spark: SparkSession, batch: DataFrame, existing: DataFrame | None, keys: Sequence[str], rows: int, staging: str
) -> Merged:
    if existing is None:
        return Merged(batch, True, rows)
    # Written down first: it is counted and then written again in the target's format and partitions.
    without(batch, existing, keys).write.mode("overwrite").parquet(f"{staging}/unseen")
    unseen = spark.read.schema(batch.schema).parquet(f"{staging}/unseen")
    count = unseen.count()
    return Merged(unseen, False, count, left_out(rows - count))


def left_out(count: int) -> tuple[str, ...]:
    return (f"{count:,} rows were left out: their keys are there already",) if count else ()


def without(rows: DataFrame, others: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows whose key the others have not."""
    known = others.select(*(F.col(quoted(key)).alias(f"_headgate_key_{n}") for n, key in enumerate(keys)))
    return rows.join(known, _same_key(keys), "left_anti")


def _same_key(keys: Sequence[str]) -> Column:
    same: Column = all_of([F.col(quoted(key)) == F.col(f"_headgate_key_{n}") for n, key in enumerate(keys)])
    return same


def _check_has_history(existing: DataFrame, config: WriteConfig, label: str) -> None:
    there = {name.lower() for name in existing.columns}
    for name in added_columns(config):
        if name.lower() not in there:
            raise ConfigError(
                f"{label} has no column {name!r}: it was not written by mode scd2",
                hint="write the history elsewhere, or add its columns to what is there",
            )


def _moment(schema: T.StructType, history: HistoryConfig) -> T.DataType:
    if history.effective_at is None:
        return T.TimestampType()
    return next(each.dataType for each in schema.fields if each.name.lower() == history.effective_at.lower())


@dataclass(frozen=True)
class _History:
    """A slowly changing dimension of type 2.

    A row that differs from its key's current one in a tracked column becomes the current one, and the other ends where
    it begins. What differs in other columns only, or begins at the same moment, is put right in place; what begins
    before the current one came too late.
    """

    spark: SparkSession
    config: WriteConfig
    now: datetime
    staging: str

    @property
    def history(self) -> HistoryConfig:
        return self.config.history or HistoryConfig()

    def merged(self, batch: DataFrame, existing: DataFrame | None, schema: T.StructType) -> Merged:
        self._check_keys(batch)
        since = self._since(batch)
        if existing is None:
            return Merged(self._open(batch.withColumn(_SINCE, since), schema, _SINCE), True, batch.count())
        changes = self._changes(batch.withColumn(_SINCE, since), existing)
        counts = {row[_CHANGE]: row["count"] for row in changes.groupBy(_CHANGE).count().collect()}
        closing = self._closing(existing, changes)
        if not closing and not counts.keys() - {"same", "late"}:
            return Merged(existing, False, 0, (*_told(counts, 0), "nothing has changed"))
        opened = self._open(changes.where(F.col(_CHANGE).isin("new", "changed")), schema, _SINCE)
        mended = self._open(changes.where(F.col(_CHANGE) == "mended"), schema, _FROM)
        kept = self._kept(existing, changes)
        rows = sum(counts.get(each, 0) for each in ("new", "changed", "mended"))
        return Merged(kept.unionByName(opened).unionByName(mended), True, rows, _told(counts, closing))

    def _check_keys(self, batch: DataFrame) -> None:
        keys = self.config.keys
        if batch.where(~all_of([F.col(quoted(key)).isNotNull() for key in keys])).limit(1).count():
            raise ConfigError(
                f"the batch has rows with a NULL in write.keys {', '.join(keys)}: such a row has no history",
                hint=f"add a test: {{type: not_null, columns: [{', '.join(keys)}], on_fail: quarantine}}",
            )
        check_repeats(batch, keys)

    def _since(self, batch: DataFrame) -> Column:
        kind, name = _moment(batch.schema, self.history), self.history.effective_at
        run = F.lit(self.now.isoformat()).cast("timestamp")
        if name is None:
            return run
        is_time = isinstance(kind, T.DateType | T.TimestampType | T.TimestampNTZType)
        return F.coalesce(F.col(quoted(name)), run.cast(kind)) if is_time else F.col(quoted(name))

    def _changes(self, batch: DataFrame, existing: DataFrame) -> DataFrame:
        """The batch with what each row does to its key, written down, since it is looked at several times."""
        names = [name for name in batch.columns if name != _SINCE and not self._is_key(name)]
        there = {name.lower(): name for name in existing.columns}
        before = [F.col(quoted(there[name.lower()])).alias(f"_headgate_was_{n}") for n, name in enumerate(names)]
        current = existing.where(F.col(quoted(self.history.is_current))).select(
            *(F.col(quoted(key)).alias(f"_headgate_key_{n}") for n, key in enumerate(self.config.keys)),
            F.col(quoted(self.history.valid_from)).alias(_FROM),
            F.lit(True).alias("_headgate_there"),
            *before,
        )
        joined = batch.join(current, _same_key(self.config.keys), "left")
        same = {name: _is_same(batch.schema[name], f"_headgate_was_{n}") for n, name in enumerate(names)}
        changed = joined.withColumn(_CHANGE, self._change(same)).select(*map(quoted, batch.columns), _FROM, _CHANGE)
        changed.write.mode("overwrite").parquet(f"{self.staging}/changes")
        return self.spark.read.schema(changed.schema).parquet(f"{self.staging}/changes")

    def _change(self, same: dict[str, Column]) -> Column:
        track = {name.lower() for name in self.history.track}
        moment = (self.history.effective_at or "").lower()
        tracked = [
            is_same for name, is_same in same.items() if (name.lower() in track if track else name.lower() != moment)
        ]
        is_same = all_of(tracked)
        return (
            F.when(F.col("_headgate_there").isNull(), "new")
            .when(F.col(_SINCE) < F.col(_FROM), "late")
            .when(all_of(list(same.values())), "same")
            .when(is_same | (F.col(_SINCE) == F.col(_FROM)), "mended")
            .otherwise("changed")
        )

    def _is_key(self, name: str) -> bool:
        return name.lower() in {key.lower() for key in self.config.keys}

    def _closing(self, existing: DataFrame, changes: DataFrame) -> int:
        if self.history.on_missing == "keep":
            return 0
        return without(existing.where(F.col(quoted(self.history.is_current))), changes, self.config.keys).count()

    def _kept(self, existing: DataFrame, changes: DataFrame) -> DataFrame:
        """What is there, with an end where the batch sets one; what it puts right is left out."""
        history = self.history
        is_current = F.col(quoted(history.is_current))
        marks = changes.select(
            *(F.col(quoted(key)).alias(f"_headgate_key_{n}") for n, key in enumerate(self.config.keys)), _SINCE, _CHANGE
        )
        joined = existing.join(marks, _same_key(self.config.keys) & is_current, "left")
        change = F.coalesce(F.col(_CHANGE), F.lit("missing"))
        ends = is_current & change.isin("changed", *(["missing"] if history.on_missing == "close" else []))
        kind = existing.schema[history.valid_to].dataType
        end = F.col(_SINCE)
        if history.on_missing == "close":
            now = F.lit(self.now.isoformat()).cast("timestamp").cast(kind)
            end = F.when(change == "changed", end).otherwise(now)
        kept = joined.where(~(is_current & (change == "mended")))
        columns = {history.valid_to: F.when(ends, end).otherwise(F.col(quoted(history.valid_to)))}
        columns[history.is_current] = is_current & ~ends
        return kept.select(*(columns.get(name, F.col(quoted(name))).alias(name) for name in existing.columns))

    def _open(self, rows: DataFrame, schema: T.StructType, since: str) -> DataFrame:
        history = self.history
        opened = rows.withColumns(
            {
                history.valid_from: F.col(since),
                history.valid_to: F.lit(None),
                history.is_current: F.lit(True),
            }
        )
        return aligned(opened, schema)


def _is_same(field: T.StructField, was: str) -> Column:
    column, other = F.col(quoted(field.name)), F.col(was)
    if _has_no_order(field.dataType):
        return F.to_json(F.struct(column.alias("v"))).eqNullSafe(F.to_json(F.struct(other.alias("v"))))
    return column.eqNullSafe(other)


def _has_no_order(kind: Any) -> bool:
    """Maps, and whatever holds one, cannot be compared."""
    text = kind.simpleString()
    return "map<" in text or "variant" in text


def _told(counts: dict[str, int], closing: int) -> tuple[str, ...]:
    words = {
        "new": "{:,} new keys",
        "changed": "{:,} keys have a new version",
        "mended": "{:,} current versions were put right in place",
        "late": "{:,} rows were left out: they begin before the current version of their key",
    }
    told = [text.format(counts[kind]) for kind, text in words.items() if counts.get(kind)]
    return (*told, *([f"{closing:,} keys were closed: the batch lacks them"] if closing else []))
