"""A batch from quarantine once more through its node's tests and gate: what passes is published, the rest stays.

Rows are in quarantine as they were after the node's steps, so these are not taken again. Target and batch change in one
publication where both are folders of one file system. Elsewhere the target is first, under a note in the batch that
tells what is going on: whoever comes next ends it, and a target that has the rows already does not take them again.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as T  # noqa: N812

from headgate.domain import gate
from headgate.domain.gate import Lot
from headgate.errors import ConfigError, Conflict
from headgate.pipelines.batches import Batch, BatchNote, Pending
from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.config.tests.rows import ReferenceConfig
from headgate.pipelines.config.write import KEYED, WriteConfig, WriteMode
from headgate.pipelines.corrections import ROW_ID
from headgate.pipelines.files import Files, volume
from headgate.pipelines.history import Unknown
from headgate.pipelines.journal import Owner, owner_in
from headgate.pipelines.places import Kind
from headgate.pipelines.plan import NamedTest, Node, Plan
from headgate.pipelines.record import DatasetRef, FieldRecord, QuarantineRecord, Status, TestRecord
from headgate.pipelines.replays import ReplayRecord, pick
from headgate.pipelines.spark import fused, watched
from headgate.pipelines.spark.asked import Asked, ask
from headgate.pipelines.spark.checks.said import SPARK_ERRORS
from headgate.pipelines.spark.chosen import Chosen, choose
from headgate.pipelines.spark.decided import Decision, decide, of_rows
from headgate.pipelines.spark.engine import Past
from headgate.pipelines.spark.fused import FAILED
from headgate.pipelines.spark.hadoop import files_for
from headgate.pipelines.spark.held import own_columns, union
from headgate.pipelines.spark.naming import dataset
from headgate.pipelines.spark.rejections import added, with_metadata
from headgate.pipelines.spark.sources import published
from headgate.pipelines.spark.spelling import quoted
from headgate.pipelines.spark.stores import Store, store_of
from headgate.pipelines.spark.write import Batch as Staged
from headgate.pipelines.spark.write import Published, Writer, staging_root, writer
from headgate.pipelines.spark.write.base import end_leftovers
from headgate.pipelines.staging import Staging

_SKIPPED = "a test of a whole batch: not asked of a replay, which is a part of one"
_PARTIAL = "_headgate_free_{}"


def as_replayed(node: Node) -> Node:
    """The node as a replay runs it.

    Rows are added where a run would replace what is there, and a key that the replay lacks is not gone. What is asked
    of a whole batch is not asked.
    """
    config = node.config
    assert config.write is not None
    asked = None if config.gate is None else config.gate.model_copy(update={"row_count": None})
    changed = config.model_copy(update={"write": _added_to(config.write), "gate": asked})
    return replace(node, config=changed, tests=tuple(test for test in node.tests if test.config.is_row_level))


def _added_to(write: WriteConfig) -> WriteConfig:
    if write.mode not in KEYED:
        return write.model_copy(update={"mode": WriteMode.append})
    if write.history is None:
        return write
    return write.model_copy(update={"history": write.history.model_copy(update={"on_missing": "keep"})})


@dataclass
class Replay:
    """One replay of one batch, in a session of its own.

    `given` is a file of corrected rows, without which all rows are replayed.
    """

    spark: SparkSession
    plan: Plan
    node: Node
    batch: str | None
    record: ReplayRecord
    past: Past
    given: Path | None = None
    is_dry: bool = False
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    # For tests: a file system that may be told to fail.
    disk: Files | None = None

    def run(self) -> ReplayRecord:
        end_leftovers(self.spark, self.node)
        batch = pick(self._store.batches(), self.batch, self.node)
        self.record.replay_of = batch.note.batch_id
        found = self._again(batch) if not self.is_dry and self._has_ended(batch) else batch
        if found is not None:
            self._replay(found)
        return self.record

    @property
    def run_id(self) -> str:
        return self.record.run_id

    @property
    def _store(self) -> Store:
        return store_of(self.spark, self.plan, self.node, self.disk)

    @property
    def _connections(self) -> Mapping[str, ConnectionConfig]:
        return self.plan.loaded.project.connections

    def _again(self, before: Batch) -> Batch | None:
        """The batch after something was done to it; None if nothing is left."""
        left = next((each for each in self._store.batches() if each.note.batch_id == before.note.batch_id), None)
        if left is None:
            self.record.status = Status.published
            self.record.quarantine = self._told(before.note.left(0, {}, self.now))
        return left

    def _replay(self, batch: Batch) -> None:
        node = as_replayed(self.node)
        with self.record.timed("plan"):
            chosen = choose(self.spark, self._store.rows(batch), batch, self.given)
            self._describe(batch, chosen)
            if chosen.is_empty:
                self._nothing(batch)
                return
            frame = chosen.frame.select(*map(quoted, own_columns(batch.note).names))
            # As in a run: a condition that cannot be worked out for a row is NULL, and not the end.
            self.spark.conf.set("spark.sql.ansi.enabled", "false")
            asked = self._asked(node, frame)
            into = self._writer(node)
            into.check(frame.schema)
        staging = Staging(self._staging_files, self._root, self.run_id)
        staging.sweep()
        with staging.opened(node.job_name) as folder:
            self._judge(node, batch, chosen, asked, self._staged(frame, asked, folder, into), into)
        self.record.note(*staging.notes)

    def _describe(self, batch: Batch, chosen: Chosen) -> None:
        record, address = self.record, self.node.quarantine
        assert address is not None
        record.inputs = (DatasetRef(address.namespace, address.name, address.label),)
        record.rows_skipped, record.rows_left = chosen.skipped, chosen.total
        fields = own_columns(batch.note).fields
        record.schema = tuple(FieldRecord(each.name, each.dataType.simpleString(), each.nullable) for each in fields)
        if batch.note.state == "gate_aborted":
            self.record.note("the run of this batch was stopped by its gate: of its rows, only these are in quarantine")

    def _nothing(self, batch: Batch) -> None:
        self.record.status = Status.published
        self.record.quarantine = self._told(batch.note)
        self.record.note("there is nothing to replay")

    def _asked(self, node: Node, frame: DataFrame) -> Asked:
        asked = ask(self.spark, node, frame, self._others(node), self._connections, self.now)
        free = [] if self._mode(node) in KEYED else list(self._free(node, frame, asked))
        return replace(asked, rows=replace(asked.rows, references=[*asked.rows.references, *free]))

    def _mode(self, node: Node) -> WriteMode:
        assert node.config.write is not None
        return node.config.write.mode

    def _others(self, node: Node) -> dict[str, DataFrame]:
        """What nodes that tests compare with have published."""
        names = {_compared(test) for test in node.tests} - {None}
        return {name: self._published(self.plan.node((node.pipeline.pipeline, name))) for name in names if name}

    def _published(self, node: Node) -> DataFrame:
        if node.config.write is None:
            raise ConfigError(
                f"node {node.config.name!r}, which a test compares with, keeps no rows", hint="give it a write block"
            )
        last = self.past.last_published(node)
        fields = () if isinstance(last, Unknown) else last.fields
        return published(self.spark, node, self._connections[node.config.write.connection], fields)

    def _free(self, node: Node, frame: DataFrame, asked: Asked) -> Iterator[fused.Reference]:
        """For tests of keys: those that no row of the target has. The row that was kept of two is there."""
        target = self._target(node, frame) if asked.rows.unique else None
        for number, unique in enumerate(asked.rows.unique):
            if target is None or not set(unique.columns) <= set(target.columns):
                continue
            columns = [*map(quoted, unique.columns)]
            there = target if unique.config.where is None else target.where(unique.config.where)
            keys = frame.select(*columns).distinct().join(there.select(*columns), list(unique.columns), "left_anti")
            yield fused.Reference(unique.test, keys, unique.columns, _PARTIAL.format(number))

    def _target(self, node: Node, frame: DataFrame) -> DataFrame | None:
        assert node.target is not None
        assert node.config.write is not None
        if node.target.kind is Kind.kafka:
            return None
        fields = tuple(FieldRecord(f.name, f.dataType.simpleString(), f.nullable) for f in frame.schema.fields)
        try:
            found = published(self.spark, node, self._connections[node.config.write.connection], fields)
            _ = found.schema
        except SPARK_ERRORS:  # it was not written yet
            return None
        return found

    def _writer(self, node: Node) -> Writer:
        assert node.config.write is not None
        return writer(self.spark, node, self._connections[node.config.write.connection], self._staging_files)

    @property
    def _root(self) -> str:
        return staging_root(self.spark, self.node, self.plan.loaded.folder)

    @property
    def _staging_files(self) -> Files:
        return self.disk or files_for(self.spark, self._root)

    def _staged(self, frame: DataFrame, asked: Asked, folder: str, into: Writer) -> fused.Staged:
        with self.record.timed("pass"):
            return fused.sort_rows(
                self.spark,
                frame,
                asked.rows,
                folder,
                format=into.stage_format(),
                partition_by=into.stage_partitions(),
                options=into.stage_options(),
                telling=lambda: watched.told(self.spark, self.plan, self.node, self.record, f"{folder}/pass"),
            )

    def _judge(
        self, node: Node, batch: Batch, chosen: Chosen, asked: Asked, staged: fused.Staged, into: Writer
    ) -> None:
        with self.record.timed("decide"):
            decision = self._decide(node, asked, staged)
            apart = sum(staged.lots.get(lot, 0) for lot in decision.apart)
            rows = sum(staged.lots.get(lot, 0) for lot in decision.published)
        self.record.rows_valid, self.record.rows_quarantined = staged.total - apart, apart
        self.record.status = Status.published if rows else Status.stopped
        if not rows and not self.record.reasons:
            self.record.reasons = (f"none of the {staged.total:,} rows passes",)
        if self.is_dry:
            self.record.rows_published = rows
            self.record.note("nothing was written")
        elif decision.published:
            with self.record.timed("publish"):
                self._publish(_Outcome(node, batch, chosen, staged, decision, rows, apart), into)

    def _decide(self, node: Node, asked: Asked, staged: fused.Staged) -> Decision:
        tests = {test.name: test for test in asked.rows.all}
        found = {name: of_rows(test, staged.failures.get(name, 0), staged.total) for name, test in tests.items()}
        self.record.rows_in = staged.total
        self.record.tests = tuple(
            found[test.name].record if test.name in found else _skipped(test) for test in self.node.tests
        )
        judged = [found[test.name] for test in self.node.tests if test.name in found]
        decision = decide(node, judged, staged.lots, gate.History())
        self.record.gate, self.record.reasons = decision.gate, decision.reasons
        self.record.note(*decision.notes)
        return decision

    def _publish(self, outcome: _Outcome, into: Writer) -> None:
        batch, store = outcome.batch, self._store
        note, rest = self._rest(outcome)
        try:
            steps = store.steps(batch, rest, self.run_id, self.now)
            if outcome.rows == 0:
                self.record.note(*store.settle(batch, rest, self.run_id, self.now))
            elif steps is not None and self._is_one_publication():
                into.prepare(self._batch(outcome))
                self._count(into.publish(self.run_id, self.record, steps))
                store.tidy(batch)
            else:
                self._publish_apart(outcome, rest)
        except FileNotFoundError as error:
            raise Conflict(
                f"batch {note.batch_id} was changed by another process meanwhile", hint="replay it again"
            ) from error
        self.record.rows_left, self.record.quarantine = note.rows, self._told(note)
        assert self.node.target is not None
        self.record.output = dataset(self.spark, self.node.target)

    def _rest(self, outcome: _Outcome) -> tuple[BatchNote, str | None]:
        """What stays of the batch, staged."""
        note, chosen = outcome.batch.note, outcome.chosen
        left = chosen.total - outcome.staged.total + outcome.apart
        if left == 0:
            return note.left(0, {}, self.now), None
        config = self.node.config.validation.quarantine
        assert config is not None
        failing = fused.rejected(outcome.staged, outcome.decision.apart) if outcome.apart else None
        rest = self._remaining(chosen, failing, config)
        kept = tuple(dict.fromkeys([*note.added, *added(config)]))
        facts: dict[str, Any] = {"format": config.format, "schema": rest.schema.jsonValue(), "added": kept}
        note = note.left(left, _failures(rest, outcome.staged), self.now, **facts, **chosen.traces(failing))
        return note, self._store.stage(rest, note, self.run_id, self.now)

    def _remaining(self, chosen: Chosen, failing: DataFrame | None, config: QuarantineConfig) -> DataFrame:
        parts = [] if chosen.untouched is None else [chosen.untouched.drop(ROW_ID)]
        if failing is not None:
            once = failing.withColumn(FAILED, F.array_distinct(FAILED))
            parts.append(with_metadata(once, config, self.node, self.now))
        return union(parts)

    def _batch(self, outcome: _Outcome) -> Staged:
        staged, lots = outcome.staged, outcome.decision.published
        folders = [staged.folder_of(lot) for lot in Lot if lot in lots]
        folders += [staged.decided_folder_of(lot) for lot in Lot if lot in lots] if staged.has_decided else []
        staging = f"{staged.folder}/publish"
        return Staged(folders, staged.format, staged.schema, outcome.rows, staging, self.run_id, self.now)

    def _count(self, done: Published) -> None:
        record = self.record
        record.rows_published, record.files_published, record.bytes_published = done.rows, done.files, done.bytes
        self.record.note(*done.notes)

    def _is_one_publication(self) -> bool:
        """Whether target and batch are folders that a rename can reach both of."""
        target, quarantine = self.node.target, self.node.quarantine
        assert target is not None
        assert quarantine is not None
        assert self.node.config.write is not None
        is_folder = target.kind is Kind.folder and self.node.config.write.format not in ("delta", "iceberg")
        return is_folder and volume(target.location) == volume(quarantine.location)

    def _publish_apart(self, outcome: _Outcome, rest: str | None) -> None:
        folder = posixpath.join(self._root, "replays", f"{self.run_id}.{self.node.job_name}")
        frame = self._batch(outcome).frame(self.spark, self._staging_files)
        frame.write.mode("overwrite").parquet(f"{folder}/rows")
        owner, schema = Owner.this(time.time()).token(), frame.schema.jsonValue()
        pending = Pending(self.run_id, owner, folder, schema, outcome.rows, self.now, rest)
        self._store.begin(outcome.batch, pending)
        self._end(outcome.batch, pending)

    def _has_ended(self, batch: Batch) -> bool:
        """End a replay that was begun and not ended; whether there was one."""
        pending = self._store.pending(batch)
        if pending is None:
            return False
        owner = owner_in(f"~{pending.owner}")
        if owner is not None and owner.pid != Owner.this(0).pid and owner.is_alive(time.time(), 600):
            raise Conflict(
                f"batch {batch.note.batch_id} is being replayed by another process", hint="wait until it has ended"
            )
        self.record.note(f"the replay {pending.run_id} had not come to its end: it has now")
        self._end(batch, pending)
        return True

    def _end(self, batch: Batch, pending: Pending) -> None:
        """To the target first, which knows the run's rows if it has them, and then out of the batch."""
        node, schema = as_replayed(self.node), T.StructType.fromJson(pending.schema)
        rows = self.spark.read.schema(schema).parquet(f"{pending.folder}/rows")
        into = self._writer(node)
        into.check(schema)
        tried = f"{pending.folder}/try"
        writing = rows.write.mode("overwrite").format(into.stage_format()).options(**into.stage_options())
        writing.partitionBy(*into.stage_partitions()).save(f"{tried}/pass")
        staged = [f"{tried}/pass"], into.stage_format(), schema, pending.rows, f"{tried}/publish"
        into.prepare(Staged(*staged, pending.run_id, pending.now))
        self._count(into.publish(pending.run_id, self.record, None))
        self._end_batch(batch, pending)
        self._staging_files.delete(pending.folder)

    def _end_batch(self, batch: Batch, pending: Pending) -> None:
        self.record.note(*self._store.settle(batch, pending.rest, pending.run_id, pending.now))

    def _told(self, note: BatchNote) -> QuarantineRecord:
        address = self.node.quarantine
        assert address is not None
        return QuarantineRecord(
            DatasetRef(address.namespace, address.name, address.label),
            address.location,
            note.batch_id,
            note.rows,
            note.failed_tests,
            state=note.state if note.rows else "replayed",
            retention_days=note.retention_days,
        )


@dataclass(frozen=True)
class _Outcome:
    """What was decided about the rows of a batch: `rows` are published, `apart` stay."""

    node: Node
    batch: Batch
    chosen: Chosen
    staged: fused.Staged
    decision: Decision
    rows: int
    apart: int


def _compared(test: NamedTest) -> str | None:
    reference = getattr(test.config, "reference", None)
    return reference.node if isinstance(reference, ReferenceConfig) else None


def _skipped(test: NamedTest) -> TestRecord:
    config = test.config
    return TestRecord(
        test.name, config.kind, str(config.on_fail), "skipped", 0, columns=config.tested_columns, detail=_SKIPPED
    )


def _failures(rest: DataFrame, staged: fused.Staged) -> dict[str, int]:
    """How many rows of what is left fail each test, as far as rows tell."""
    if "_failed_tests" not in rest.columns:
        return {name: count for name, count in staged.failures.items() if count}
    counted = rest.select(F.explode("_failed_tests").alias("test")).groupBy("test").count().collect()
    return {row["test"]: row["count"] for row in sorted(counted)}
