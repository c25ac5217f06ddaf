"""One node on Spark: read, transform, test and stage in one pass, decide, publish."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from msgspec import structs
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from headgate.domain import gate
from headgate.domain.gate import Lot
from headgate.errors import HeadgateError
from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.tests.datasets import VolumeChangeTest
from headgate.pipelines.drift import drift, told
from headgate.pipelines.files import Files
from headgate.pipelines.history import Counts, Last, Unknown
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.publish import Steps
from headgate.pipelines.record import FieldRecord, NodeRecord, Status, TestRecord
from headgate.pipelines.spark import fused, watched
from headgate.pipelines.spark.asked import Asked, ask
from headgate.pipelines.spark.decided import Decision, decide, of_last_publish, of_rows
from headgate.pipelines.spark.figures import Batch as Figured
from headgate.pipelines.spark.figures import Judged, judge, own_figures
from headgate.pipelines.spark.hadoop import files_for
from headgate.pipelines.spark.naming import dataset, inputs
from headgate.pipelines.spark.quarantine import FolderQuarantine
from headgate.pipelines.spark.rejections import with_metadata
from headgate.pipelines.spark.session import is_connect, own_session
from headgate.pipelines.spark.sources import Kept, source
from headgate.pipelines.spark.steps import transform
from headgate.pipelines.spark.write import Batch, Writer, staging_root, writer
from headgate.pipelines.spark.write.apart import TableQuarantine, is_table
from headgate.pipelines.staging import Staging


class Past(Protocol):
    """What is known of earlier runs."""

    def last_published(self, node: Node) -> Last | Unknown: ...

    def row_counts(self, node: Node, runs: int) -> Counts | Unknown: ...

    def for_gate(self, node: Node) -> gate.History: ...


@dataclass
class SparkEngine:
    """Runs nodes in one Spark application."""

    spark: SparkSession
    plan: Plan
    run_id: str
    history: Past
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    kept: Kept = field(default_factory=Kept)
    # Staging that is there as long as the run: rows of nodes without a target, and what quarantines leave.
    opened: ExitStack = field(default_factory=ExitStack)
    sessions: list[SparkSession] = field(default_factory=list)

    def run(self, node: Node, record: NodeRecord, done: Mapping[Key, NodeRecord]) -> NodeRecord:
        session = own_session(self.spark, self.plan.loaded.project)
        self.sessions.append(session)
        try:
            return _Work(self, session, node, record).run(done)
        finally:
            self.sessions.remove(session)
            if is_connect(session):
                # One that is left open keeps the process from ending.
                session.stop()

    def cancel(self) -> None:
        if is_connect(self.spark):
            # Each session of Connect can end only what is its own.
            for session in [*self.sessions]:
                session.interruptAll()
        else:
            self.spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """Let go of all that is still in staging."""
        self.opened.close()


@dataclass
class _Work:
    """One attempt at one node."""

    engine: SparkEngine
    spark: SparkSession
    node: Node
    record: NodeRecord
    # Where rows are set apart, if that is no folder.
    table: TableQuarantine | None = None

    def run(self, done: Mapping[Key, NodeRecord]) -> NodeRecord:
        with self.record.timed("plan"):
            self.record.inputs = inputs(self.spark, self.engine.plan, self.node)
            frame, others = self._frame(done)
            if self._is_refused_by_drift():
                self.record.status = Status.stopped
                return self.record
            asked = ask(self.spark, self.node, frame, others, self._connections, self.engine.now)
            staging = self._staging()
            into = self._writer(frame, staging.files)
        with ExitStack() as until_done:
            folder = until_done.enter_context(staging.opened(self.node.job_name))
            self.table = self._quarantine_table(frame, staging.files, folder)
            self._pass(frame, asked, folder, into)
            if self.node.key in self.engine.kept.batches:
                self.engine.opened.push(until_done.pop_all())
        self.record.note(*staging.notes)
        return self.record

    def _pass(self, frame: DataFrame, asked: Asked, folder: str, into: Writer | None) -> None:
        with self.record.timed("pass"):
            staged = self._staged(frame, asked, folder, into)
        with self.record.timed("decide"):
            decision = self._decide(asked, staged)
        with self.record.timed("publish"):
            self._publish(staged, decision, into)

    @property
    def _connections(self) -> Mapping[str, ConnectionConfig]:
        return self.engine.plan.loaded.project.connections

    def _frame(self, done: Mapping[Key, NodeRecord]) -> tuple[DataFrame, Mapping[str, DataFrame]]:
        plan, config = self.engine.plan, self.node.config
        is_incremental = config.read is not None and config.read.incremental is not None
        last = self.engine.history.last_published(self.node) if is_incremental else None
        found = source(self.spark, plan, self.node, done, self.engine.kept, last)
        self.record.note(*found.notes)
        if found.watermark is not None:
            self.record.watermark = structs.asdict(found.watermark)
        folder = plan.loaded.folder_of(*self.node.loc, "transform")
        frame = transform(self.spark, found.frame, config.transform, found.others, folder)
        # A condition of a test that cannot be worked out for a row is NULL, and not the end; steps keep their own mode.
        self.spark.conf.set("spark.sql.ansi.enabled", "false")
        self.record.schema = tuple(FieldRecord(f.name, f.dataType.simpleString(), f.nullable) for f in frame.schema)
        return frame, found.others

    def _is_refused_by_drift(self) -> bool:
        contract = self.node.config.contract
        policy = "evolve" if contract is None else contract.on_drift
        last = self.engine.history.last_published(self.node)
        if isinstance(last, Unknown) or not last.fields:
            return False
        self.record.drift = drift(last.fields, self.record.schema, policy)
        if self.record.drift is None or policy == "evolve":
            return False
        if policy == "fail":
            self.record.reasons = (told(self.record.drift),)
            return True
        self.record.note(told(self.record.drift))
        return False

    def _staging(self) -> Staging:
        root = staging_root(self.spark, self.node, self.engine.plan.loaded.folder)
        staging = Staging(files_for(self.spark, root), root, self.engine.run_id)
        staging.sweep()
        return staging

    def _writer(self, frame: DataFrame, files: Files) -> Writer | None:
        """Who publishes what is staged: nobody, if others live on the rows in staging."""
        config = self.node.config.write
        if config is None:
            return None
        into = writer(self.spark, self.node, self._connections[config.connection], files)
        into.check(frame.schema)
        return into

    def _quarantine_table(self, frame: DataFrame, files: Files, folder: str) -> TableQuarantine | None:
        config = self.node.config.validation.quarantine
        if config is None or not is_table(config):
            return None
        connection, engine = self._connections[config.connection], self.engine
        table = TableQuarantine(self.spark, self.node, connection, files, folder, engine.run_id, engine.now)
        table.check(frame.schema)
        return table

    def _staged(self, frame: DataFrame, asked: Asked, folder: str, into: Writer | None) -> fused.Staged:
        return fused.sort_rows(
            self.spark,
            frame,
            asked.rows,
            folder,
            format="parquet" if into is None else into.stage_format(),
            partition_by=[] if into is None else into.stage_partitions(),
            options={} if into is None else into.stage_options(),
            measures=asked.measures,
            telling=lambda: watched.told(self.spark, self.engine.plan, self.node, self.record, folder),
        )

    def _decide(self, asked: Asked, staged: fused.Staged) -> Decision:
        judged = self._judged(asked, staged)
        self.record.rows_in = staged.total
        self.record.tests = (*(each.record for each in judged), *self._freshness())
        self.record.profile = asked.profile(staged)
        history = gate.History() if self.node.config.gate is None else self.engine.history.for_gate(self.node)
        decision = decide(self.node, judged, staged.lots, history)
        self.record.gate, self.record.reasons = decision.gate, decision.reasons
        self.record.note(*decision.notes)
        return decision

    def _judged(self, asked: Asked, staged: fused.Staged) -> list[Judged]:
        """How the tests went, in the order of the file."""
        of_rows_by_name = {
            test.name: of_rows(test, staged.failures.get(test.name, 0), staged.total) for test in asked.rows.all
        }
        own = own_figures(self.spark, asked.tests, staged.frame(self.spark), asked.at, asked.datasets)
        batch = self._figured(asked, staged)
        of_batch = {each.record.name: each for each in judge(asked.tests, staged.observed | own, batch)}
        found = of_rows_by_name | of_batch
        return [found[test.name] for test in asked.tests]

    def _figured(self, asked: Asked, staged: fused.Staged) -> Figured:
        runs = [test.config.runs for test in asked.tests if isinstance(test.config, VolumeChangeTest)]
        if not runs:
            return Figured(staged.total, asked.at)
        known = self.engine.history.row_counts(self.node, max(runs))
        rows = () if isinstance(known, Unknown) else known.rows
        return Figured(staged.total, asked.at, rows, known.note)

    def _freshness(self) -> list[TestRecord]:
        config = self.node.config.freshness
        if config is None or config.column is not None:
            return []
        last = self.engine.history.last_published(self.node)
        if isinstance(last, Unknown):
            return [of_last_publish(config, None, self.engine.now)]
        return [of_last_publish(config, last.run.ended_at, self.engine.now)]

    def _publish(self, staged: fused.Staged, decision: Decision, into: Writer | None) -> None:
        record, lots = self.record, decision.published
        if self.node.target is not None:
            record.output = dataset(self.spark, self.node.target)
        set_apart = sum(staged.lots.get(lot, 0) for lot in decision.apart)
        quarantine, steps = self._set_apart(staged, decision, set_apart)
        if lots and into is not None:
            into.prepare(self._batch(staged, lots))
            self._publish_table()
            done = into.publish(self.engine.run_id, record, steps)
            record.rows_published, record.files_published, record.bytes_published = done.rows, done.files, done.bytes
            self.record.note(*done.notes)
        else:
            self._publish_table()
            self.record.note(quarantine.publish(steps) if quarantine is not None and steps is not None else None)
        if lots and into is None:
            self._keep(staged, lots)
        record.rows_valid = staged.total - set_apart
        record.status = Status.published if lots else Status.stopped
        if record.output is None and self.node.target is not None:
            # A table has its name once it is there.
            record.output = dataset(self.spark, self.node.target)
        self._tidy(quarantine)

    def _tidy(self, quarantine: FolderQuarantine | None) -> None:
        """What is published stays so, whatever becomes of old batches."""
        try:
            if self.table is not None:
                self._delete_expired(self.table)
            elif quarantine is not None:
                self.record.note(quarantine.delete_expired())
        except Exception as error:  # of any file system or catalog
            self.record.note(f"batches older than the retention could not be deleted: {error}")

    def _publish_table(self) -> None:
        """By a commit of its own, before that of the target."""
        if self.table is not None:
            self.record.note(*self.table.publish())

    def _delete_expired(self, table: TableQuarantine) -> None:
        gone = table.delete_expired()
        noun = "batch is" if len(gone) == 1 else "batches are"
        self.record.note(f"{len(gone)} {noun} deleted from quarantine, older than the retention" if gone else None)

    def _batch(self, staged: fused.Staged, lots: frozenset[Lot]) -> Batch:
        folders = [staged.folder_of(lot) for lot in Lot if lot in lots]
        folders += [staged.decided_folder_of(lot) for lot in Lot if lot in lots] if staged.has_decided else []
        rows, staging = sum(staged.lots.get(lot, 0) for lot in lots), f"{staged.folder}/publish"
        return Batch(folders, staged.format, staged.schema, rows, staging, self.engine.run_id, self.engine.now)

    def _keep(self, staged: fused.Staged, lots: frozenset[Lot]) -> None:
        batch = self._batch(staged, lots)
        self.engine.kept.keep(self.node.key, batch)
        self.record.rows_published = batch.rows

    def _set_apart(
        self, staged: fused.Staged, decision: Decision, rows: int
    ) -> tuple[FolderQuarantine | None, Steps | None]:
        """Write the rows that are set apart, before files of the pass move."""
        if self.node.quarantine is None:
            if rows:
                self.record.note(f"{rows:,} rows are left out, and there is no quarantine block to keep them")
            return None, None
        quarantine = FolderQuarantine(self.spark, self.node, self.engine.run_id, self.engine.now)
        if self.table is None:
            self.engine.opened.callback(quarantine.files.delete, posixpath.dirname(quarantine.folder))
        rejected = fused.rejected(staged, decision.apart) if rows else None
        if rejected is None:
            return quarantine, None if self.table is not None else quarantine.clear()
        failures = fused.failures_of(staged, decision.apart)
        found = quarantine.record(rejected, rows, failures, is_aborted=not decision.published)
        self.record.quarantine, self.record.rows_quarantined = found, rows
        most = quarantine.config.max_rows
        if most is not None and most < rows:
            self.record.note(f"{most:,} of {rows:,} rejected rows are kept, as max_rows of the quarantine says")
        counted = Observation("headgate_rejected")
        kept = rejected.observe(counted, F.count(F.lit(1)).alias("rows"))
        steps = None
        if self.table is None:
            steps = quarantine.stage(kept, found)
        else:
            limited = kept if most is None else kept.limit(most)
            self.table.stage(with_metadata(limited, quarantine.config, self.node, self.engine.now))
        if (most is None or most >= rows) and counted.get["rows"] != rows:
            raise HeadgateError(f"{rows:,} rows are to be set apart, and {counted.get['rows']:,} were written")
        return quarantine, steps
