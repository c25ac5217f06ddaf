"""The rows that a node begins with: what it reads, and what the nodes that it depends on have published."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.read import IncrementalConfig, ReadConfig
from headgate.pipelines.history import Last, Unknown, Watermark
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.record import FieldRecord, NodeRecord
from headgate.pipelines.spark.hadoop import files_for
from headgate.pipelines.spark.read import newer, read
from headgate.pipelines.spark.session import is_connect
from headgate.pipelines.spark.spelling import quoted
from headgate.pipelines.spark.write.base import Batch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
# Formats whose files do not tell the types of their columns.
_UNTYPED = ("csv", "json", "text")


@dataclass(frozen=True)
class Source:
    """Rows to begin with, by the nodes they are of; how far they reach, and what is worth telling about them."""

    frame: DataFrame | None
    others: Mapping[str, DataFrame]
    watermark: Watermark | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Kept:
    """Rows of nodes that write nothing: they stay in staging while the run goes on."""

    batches: dict[Key, Batch] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, key: Key, batch: Batch) -> None:
        with self._lock:
            self.batches[key] = batch


def source(
    spark: SparkSession,
    plan: Plan,
    node: Node,
    done: Mapping[Key, NodeRecord],
    kept: Kept,
    last: Last | Unknown | None,
) -> Source:
    """What a node begins with; `last` is its last published run, asked for if it reads by a watermark."""
    others = {name: _other(spark, plan, (node.pipeline.pipeline, name), done, kept) for name in node.config.depends_on}
    config = node.config.read
    if config is None or node.source is None:
        return Source(next(iter(others.values())) if len(others) == 1 else None, others)
    frame = read(spark, config, node.source, plan.loaded.project.connections[config.connection])
    if config.incremental is None:
        return Source(frame, others)
    rows, mark, notes = _increment(frame, config.incremental, last)
    return Source(rows, others, mark, notes)


def _other(spark: SparkSession, plan: Plan, key: Key, done: Mapping[Key, NodeRecord], kept: Kept) -> DataFrame:
    node = plan.node(key)
    if key in kept.batches:
        batch = kept.batches[key]
        return batch.frame(spark, files_for(spark, batch.staging))
    assert node.config.write is not None
    connection = plan.loaded.project.connections[node.config.write.connection]
    return published(spark, node, connection, done[key].schema if key in done else ())


def published(
    spark: SparkSession, node: Node, connection: ConnectionConfig, fields: tuple[FieldRecord, ...]
) -> DataFrame:
    """The rows of a node's target; `fields` are those of its last run, for what files do not tell."""
    write = node.config.write
    assert write is not None
    assert node.target is not None
    untyped = fields if write.format in _UNTYPED else ()
    block = ReadConfig(
        connection=write.connection,
        path=write.path,
        table=write.table,
        topic=write.topic,
        format=write.format,
        columns=_ddl(untyped) or None,
        options=write.options if write.format in _UNTYPED else {},
    )
    parts = {name.lower() for name in write.partition_by}
    types = {each.name.lower(): each for each in fields if each.name.lower() in parts}
    if not types or write.path is None or untyped:
        return read(spark, block, node.target, connection)
    with _partitions_as_text(spark):
        frame = read(spark, block, node.target, connection)
    if is_connect(spark):
        # There a frame is looked at anew whenever it is used; the session is the node's own.
        spark.conf.set(_INFERENCE, "false")
    return frame.select(*(_typed(name, types.get(name.lower())) for name in frame.columns))


def _typed(name: str, told: FieldRecord | None) -> Column:
    column = F.col(quoted(name))
    return column if told is None else column.cast(told.type).alias(told.name)


def _ddl(fields: tuple[FieldRecord, ...]) -> str:
    return ", ".join(f"{quoted(each.name)} {each.type}" for each in fields)


@contextmanager
def _partitions_as_text(spark: SparkSession) -> Iterator[None]:
    """Names of folders are text; Spark would guess, and take 01 for a number."""
    before = spark.conf.get(_INFERENCE)
    spark.conf.set(_INFERENCE, "false")
    try:
        yield
    finally:
        spark.conf.set(_INFERENCE, str(before))


def _told(last: Last | Unknown) -> str:
    return f"read from the beginning: {last.note}" if isinstance(last, Unknown) else f"the watermark: {last.note}"


def _newest(rows: DataFrame, name: str) -> str | None:
    """As text; a moment with its zone, for the next run may be in another."""
    newest = F.max(F.col(quoted(name)))
    is_moment = isinstance(rows.schema[name].dataType, T.TimestampType)
    found = rows.agg((F.unix_micros(newest) if is_moment else newest.cast("string")).alias("newest")).first()
    if found is None or found["newest"] is None:
        return None
    return (_EPOCH + timedelta(microseconds=found["newest"])).isoformat() if is_moment else str(found["newest"])


def _increment(
    frame: DataFrame, config: IncrementalConfig, last: Last | Unknown | None
) -> tuple[DataFrame, Watermark | None, tuple[str, ...]]:
    """The rows past the watermark, up to the newest that is there now: what comes in later is for the next run."""
    known = last.watermark if isinstance(last, Last) else None
    # Another column is another way of counting.
    value = known.value if known is not None and known.column == config.column else None
    notes = [] if last is None or last.note is None else [_told(last)]
    rows = newer(frame, config, value)
    column = F.col(quoted(config.column))
    newest = _newest(rows, config.column)
    absent = frame.where(column.isNull()).limit(1).count()
    if absent:
        notes.append(f"rows without {config.column!r} are not read: nobody can tell whether they are new")
    if newest is None:
        return rows.where(column.isNotNull()), known if value is not None else None, tuple(notes)
    bound = F.lit(newest).cast(frame.schema[config.column].dataType)
    return rows.where(column <= bound), Watermark(config.column, newest), tuple(notes)
