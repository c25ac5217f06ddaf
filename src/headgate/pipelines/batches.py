"""Batches in a quarantine of files: each has files of its own, and beside them a note that says what it is.

The files of a run are in one folder, which nodes may share: names of files begin with what tells whose they are.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from headgate.errors import ConfigError
from headgate.pipelines.files import Files
from headgate.pipelines.journal import Move
from headgate.pipelines.publish import BATCH, Steps, batch_prefix, previous_folder, publish

Kind = TypeVar("Kind")
# Begins as names do that readers of data pass over.
_NOTE, _PENDING = "_headgate.{}.json", "_headgate.{}.pending.json"


class BatchNote(msgspec.Struct, frozen=True):
    """What a batch is: the rows that one run of a node has set apart, and why.

    `schema` is Spark's own, of all columns of the files; `added` are those of them that no row had before. What
    corrections have made of rows is in `moved`, from row id to row id; `gone` has the numbers of rows that have left
    while others just like them are still here.
    """

    batch_id: str
    node: str
    rejected_at: datetime
    rows: int
    failed_tests: dict[str, int] = {}
    state: str = "open"
    retention_days: int | None = None
    format: str = "parquet"
    schema: dict[str, Any] = {}
    added: tuple[str, ...] = ()
    moved: dict[str, str] = {}
    gone: dict[str, tuple[int, ...]] = {}
    replayed_at: datetime | None = None

    @property
    def expires_at(self) -> datetime | None:
        return None if self.retention_days is None else self.rejected_at + timedelta(days=self.retention_days)

    def is_expired(self, now: datetime) -> bool:
        return self.expires_at is not None and self.expires_at < now

    def is_older(self, now: datetime, days: int) -> bool:
        return self.rejected_at + timedelta(days=days) < now

    def left(self, rows: int, failed_tests: Mapping[str, int], now: datetime, **more: Any) -> BatchNote:
        """The note of what a replay leaves."""
        return structs.replace(self, rows=rows, failed_tests=dict(failed_tests), replayed_at=now, **more)


class Pending(msgspec.Struct, frozen=True):
    """A replay whose target is no part of the batch's publication: what there is to be done, until all of it is.

    `owner` is the process. Rows for the target are in `folder`, of Spark's `schema`; what stays of the batch is in
    `rest`, if anything does.
    """

    run_id: str
    owner: str
    folder: str
    schema: dict[str, Any]
    rows: int
    now: datetime
    rest: str | None = None


@dataclass(frozen=True)
class Batch:
    """A batch and where its rows are."""

    folder: str
    note: BatchNote

    @property
    def prefix(self) -> str:
        return batch_prefix(self.note.batch_id, self.note.node)

    @property
    def pending_path(self) -> str:
        return posixpath.join(self.folder, _PENDING.format(self.note.node))

    def files(self, files: Files) -> list[str]:
        """The files with its rows."""
        return [path for path in files.files_in(self.folder) if posixpath.basename(path).startswith(self.prefix)]

    def pending(self, files: Files) -> Pending | None:
        """The replay that was begun and not ended, if there is one."""
        if not files.exists(self.pending_path):
            return None
        return _decoded(files, self.pending_path, Pending)


def folder_of(location: str, batch_id: str) -> str:
    return posixpath.join(location, f"{BATCH}={batch_id}")


def write_note(files: Files, folder: str, note: BatchNote) -> None:
    files.write_text(posixpath.join(folder, _NOTE.format(note.node)), msgspec.json.encode(note).decode())


def write_pending(files: Files, batch: Batch, pending: Pending) -> None:
    files.write_text(batch.pending_path, msgspec.json.encode(pending).decode())


def batches(files: Files, location: str, node: str) -> list[Batch]:
    """The batches of a node, the oldest first."""
    return sorted(_of(files, location, node), key=lambda batch: batch.note.rejected_at)


def _of(files: Files, location: str, node: str) -> Iterator[Batch]:
    for folder in files.folders_in(location):
        name, _, _ = posixpath.basename(folder).partition("=")
        note = posixpath.join(folder, _NOTE.format(node))
        if name == BATCH and files.exists(note):
            yield Batch(folder, _decoded(files, note, BatchNote))


def _decoded(files: Files, path: str, kind: type[Kind]) -> Kind:
    try:
        return msgspec.json.decode(files.read_text(path), type=kind)
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"{path} does not tell what the batch is: {error}", hint="restore it from a backup, or delete the batch"
        ) from None


def batch_steps(files: Files, staged: str | None, location: str, batch_id: str, node: str, previous: str) -> Steps:
    """From the folder `staged`, which holds rows and note, to the batch, in place of what it was.

    Without a staged one, that is only taken away. File by file: others may be about theirs in the same folder.
    """
    folder, prefix, steps = folder_of(location, batch_id), batch_prefix(batch_id, node), Steps()
    own = {_NOTE.format(node), _PENDING.format(node)}
    for path in files.files_in(folder):
        name = posixpath.basename(path)
        if name.startswith(prefix) or name in own:
            steps.set_aside(posixpath.join(folder, name), posixpath.join(previous, name), files)
    for path in files.files_in(staged) if staged is not None else ():
        name = posixpath.basename(path)
        if name.startswith(prefix) or name in own:
            steps.moves.append(Move(posixpath.join(staged or "", name), posixpath.join(folder, name)))
            steps.files.append(posixpath.join(folder, name))
    steps.trash = [previous] if steps.trash else []
    return steps


def delete_batch(files: Files, location: str, batch: Batch, run_id: str) -> str | None:
    """Delete a batch, all of it or nothing; answers what could not be tidied up, if something could not."""
    previous = previous_folder(location, run_id, f"{batch.note.node}.{batch.note.batch_id}")
    steps = batch_steps(files, None, location, batch.note.batch_id, batch.note.node, previous)
    note = publish(files, location, run_id, f"{batch.note.node}.{batch.note.batch_id}", steps)
    drop_hollow(files, batch.folder)
    return note


def drop_hollow(files: Files, folder: str) -> None:
    """Delete the folder of a batch that nothing is left of."""
    if not files.files_in(folder) and not files.folders_in(folder):
        files.delete(folder)


def delete_expired(files: Files, location: str, node: str, now: datetime, run_id: str, days: int | None) -> list[Batch]:
    """Delete the batches that are older than `days`; answers which. One that is half replayed is not over yet.

    What the file says now counts, and not what it said when a batch was made.
    """
    if days is None:
        return []
    gone = [
        batch
        for batch in batches(files, location, node)
        if batch.note.is_older(now, days) and not files.exists(batch.pending_path)
    ]
    for batch in gone:
        delete_batch(files, location, batch, run_id)
    return gone
