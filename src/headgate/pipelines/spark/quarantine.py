"""The quarantine of a node: one batch a run, published with its target or by itself, deleted when its time is over."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from headgate.pipelines.batches import BatchNote, batch_steps, delete_expired, write_note
from headgate.pipelines.config.quarantine import QuarantineConfig
from headgate.pipelines.files import Files
from headgate.pipelines.journal import Owner, owner_in
from headgate.pipelines.places import Address
from headgate.pipelines.plan import Node
from headgate.pipelines.publish import Steps, batch_prefix, gather, previous_folder, publish, state_folder
from headgate.pipelines.record import DatasetRef, QuarantineRecord
from headgate.pipelines.spark.hadoop import files_for
from headgate.pipelines.spark.rejections import added, flat, samples, with_metadata, written_as
from headgate.pipelines.staging import OTHER_HOST_AGE_S, Staging


@dataclass
class FolderQuarantine:
    """A quarantine of files: a folder for each run."""

    spark: SparkSession
    node: Node
    run_id: str
    now: datetime
    disk: Files | None = None
    # What could not be taken away.
    _left: list[str] = field(default_factory=list)

    @property
    def config(self) -> QuarantineConfig:
        assert self.node.config.validation.quarantine is not None
        return self.node.config.validation.quarantine

    @property
    def address(self) -> Address:
        assert self.node.quarantine is not None
        return self.node.quarantine

    @property
    def files(self) -> Files:
        return self.disk or files_for(self.spark, self.address.location)

    @property
    def folder(self) -> str:
        """Where a replay stages what is to stay: whoever ends one that died needs it, so it is nobody's."""
        return posixpath.join(self._staging, self.run_id, f"{self.node.job_name}.quarantine")

    @property
    def _staging(self) -> str:
        # Beside the quarantine, which need not be on the target's disk.
        return posixpath.join(state_folder(self.address.location), "staging")

    def stage(self, rejected: DataFrame, record: QuarantineRecord) -> Steps:
        """Write the batch beside the quarantine; answers the renames that publish it."""
        self.sweep()
        rows = with_metadata(_limited(rejected, self.config.max_rows), self.config, self.node, self.now)
        owned = f"{self.folder}~{Owner.this(time.time()).token()}"
        return self._stage_in(owned, rows, self._note(record, rows))

    def stage_rows(self, rows: DataFrame, note: BatchNote) -> Steps:
        """The same with rows that are all they should be; the batch may be one of another run."""
        return self._stage_in(self.folder, rows, note)

    def _stage_in(self, folder: str, rows: DataFrame, note: BatchNote) -> Steps:
        self.files.delete(folder)
        written, staged = f"{folder}/written", f"{folder}/batch"
        shaped = flat(rows) if note.format == "csv" else rows
        shaped.write.format(note.format).options(**written_as(note.format)).save(written)
        gather(self.files, [written], staged, prefix=batch_prefix(note.batch_id, note.node))
        write_note(self.files, staged, note)
        steps = self._steps(staged, note.batch_id)
        steps.trash.append(folder)
        return steps

    def sweep(self) -> None:
        """Take away what runs that died have staged here."""
        staging = Staging(self.files, state_folder(self.address.location), self.run_id)
        for run in self.files.folders_in(self._staging):
            # Those with an owner are swept with their target's.
            if owner_in(posixpath.basename(run)) is None:
                self._sweep_run(run, staging)
        self._left += staging.notes

    def _sweep_run(self, run: str, staging: Staging) -> None:
        dead = [path for path in self.files.folders_in(run) if _is_of_a_dead_process(path)]
        for path in dead:
            staging.remove(path)
        if dead and not self.files.folders_in(run) and not self.files.files_in(run):
            staging.remove(run)

    def clear(self, batch_id: str | None = None) -> Steps | None:
        """What takes a batch away, by default that of an earlier try; None if there is none."""
        self.sweep()
        steps = self._steps(None, batch_id or self.run_id)
        return steps if steps.moves else None

    def _steps(self, staged: str | None, batch_id: str) -> Steps:
        location, job = self.address.location, self.node.job_name
        previous = f"{previous_folder(location, self.run_id, job)}/quarantine"
        return batch_steps(self.files, staged, location, batch_id, job, previous)

    def publish(self, steps: Steps) -> str | None:
        """By itself, when the target is not published."""
        location = self.address.location
        return publish(self.files, location, self.run_id, f"{self.node.job_name}.quarantine", steps)

    def record(self, rejected: DataFrame, rows: int, failures: dict[str, int], *, is_aborted: bool) -> QuarantineRecord:
        return QuarantineRecord(
            DatasetRef(self.address.namespace, self.address.name, self.address.label),
            self.address.location,
            self.run_id,
            rows,
            failures,
            state="gate_aborted" if is_aborted else "open",
            retention_days=self.config.retention_days,
            samples=samples(rejected, self.config.samples),
        )

    def delete_expired(self) -> str | None:
        """Answers what is worth telling, also of what was left over before."""
        return "; ".join(filter(None, [self._expired(), *self._left])) or None

    def _expired(self) -> str | None:
        location, days = self.address.location, self.config.retention_days
        gone = delete_expired(self.files, location, self.node.job_name, self.now, self.run_id, days)
        if not gone:
            return None
        rows = sum(batch.note.rows for batch in gone)
        noun = "batch is" if len(gone) == 1 else "batches are"
        return f"{len(gone)} {noun} deleted from quarantine, older than the retention ({rows:,} rows)"

    def _note(self, record: QuarantineRecord, rows: DataFrame) -> BatchNote:
        return BatchNote(
            record.batch_id,
            self.node.job_name,
            self.now,
            min(record.rows, self.config.max_rows or record.rows),
            record.failed_tests,
            record.state,
            record.retention_days,
            self.config.format,
            rows.schema.jsonValue(),
            added(self.config),
        )


def _is_of_a_dead_process(path: str) -> bool:
    owner = owner_in(posixpath.basename(path))
    return owner is not None and not owner.is_alive(time.time(), OTHER_HOST_AGE_S)


def _limited(frame: DataFrame, most: int | None) -> DataFrame:
    return frame if most is None else frame.limit(most)
