"""Which renames bring a staged batch to its target, by write mode. Pure but for listing what is there."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headgate.pipelines.config.write import WriteMode
from headgate.pipelines.files import Files, copies
from headgate.pipelines.journal import Journal, Move, Publication

STATE = ".headgate"
BATCH = "_source_batch_id"
# How the name of a file begins that only tells the columns of a target without rows.
EMPTY = "empty-"


@dataclass
class Steps:
    """Renames in order, what may be deleted after, and the files that the target gets."""

    moves: list[Move] = field(default_factory=list)
    trash: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def replace(self, staged: str, target: str, previous: str, files: Files) -> None:
        """Put a folder where another may be."""
        self.set_aside(target, previous, files)
        self.moves.append(Move(staged, target))

    def set_aside(self, target: str, previous: str, files: Files) -> None:
        """Take away what is there, if anything is."""
        if files.exists(target):
            self.moves.append(Move(target, previous))
            self.trash.append(previous)

    def after(self, first: Steps | None) -> Steps:
        """Both as one publication."""
        if first is None:
            return self
        return Steps([*first.moves, *self.moves], [*first.trash, *self.trash], [*first.files, *self.files])


def state_folder(target: str) -> str:
    """Where staging, journal and what is being replaced live: beside the target, so that renames stay cheap."""
    return posixpath.join(posixpath.dirname(target.rstrip("/")), STATE)


def journal_folder(target: str) -> str:
    """Where publications to a target are written down, and where a later run looks for what a dead one has left."""
    return posixpath.join(state_folder(target), "journal")


def previous_folder(target: str, run_id: str, job_name: str) -> str:
    """Where that which a node replaces waits until it may be deleted."""
    return posixpath.join(state_folder(target), "previous", f"{run_id}.{job_name}")


def batch_prefix(run_id: str, job_name: str) -> str:
    """How names of files begin that a node appends in a run: one that is done again finds its own."""
    return f"{hashlib.sha256(f'{run_id}|{job_name}'.encode()).hexdigest()[:16]}-"


@dataclass(frozen=True)
class LastBatch:
    """What a node has last added to a target: the run, and the folders in it that got files.

    Put in place by the publication itself, so that a run that is done again can tell whether it was published.
    """

    run_id: str
    parts: tuple[str, ...]

    @staticmethod
    def path(target: str, job_name: str) -> str:
        return posixpath.join(state_folder(target), "batches", f"{job_name}.{posixpath.basename(target)}.json")

    @classmethod
    def of(cls, files: Files, target: str, job_name: str) -> LastBatch | None:
        path = cls.path(target, job_name)
        if not files.exists(path):
            return None
        read = json.loads(files.read_text(path))
        return cls(read["run_id"], tuple(read["parts"]))

    def write(self, files: Files, path: str) -> None:
        files.write_text(path, json.dumps({"run_id": self.run_id, "parts": list(self.parts)}))


def publish(
    files: Files, target: str, run_id: str, job_name: str, steps: Steps, facts: Mapping[str, Any] | None = None
) -> str | None:
    """Do the steps, all or none; answers what could not be tidied up, if something could not."""
    is_copied = copies(target)
    moves = by_file(files, steps.moves) if is_copied else steps.moves
    trash = [*steps.trash, *_around(steps.trash, target)]
    publication = Publication(run_id, job_name, moves, trash, dict(facts or {}), is_copied)
    return Journal(files, journal_folder(target)).publish(publication)


def _around(trash: Collection[str], target: str) -> list[str]:
    """The folders of this run that what is replaced waits in: they would be left empty."""
    root = posixpath.join(state_folder(target), "previous", "")
    names = {path.removeprefix(root).partition("/")[0] for path in trash if path.startswith(root)}
    return sorted({f"{root}{name}" for name in names} - set(trash))


def by_file(files: Files, moves: Iterable[Move]) -> list[Move]:
    """The same for each file: an object store has no folders that could be renamed as one."""
    found = []
    for move in moves:
        for path in _below(files, move.source):
            relative = path.removeprefix(move.source)
            found.append(Move(path, f"{move.target}{relative}"))
    return found


def _below(files: Files, path: str) -> Iterator[str]:
    """Every file of a folder, or the file itself."""
    folder, name = posixpath.split(path)
    if name in map(posixpath.basename, files.files_in(folder)):
        yield path
        return
    yield from (posixpath.join(path, posixpath.basename(each)) for each in files.files_in(path))
    for each in files.folders_in(path):
        yield from _below(files, posixpath.join(path, posixpath.basename(each)))


def target_steps(
    files: Files,
    mode: WriteMode,
    publish: str,
    target: str,
    previous: str,
    *,
    prefix: str | None = None,
    parts: Collection[str] = (),
) -> Steps:
    """From the folder `publish`, which holds the new files in their partitions, to the target.

    `prefix` is how names of this batch's files begin, `parts` are folders that an earlier try may have left some in.
    """
    inside = list(walk(files, publish))
    steps = Steps(files=[posixpath.join(target, relative) for relative in inside])
    if mode in (WriteMode.append, WriteMode.overwrite_partitions) and inside and files.exists(target):
        # Such a file is right in the target, where partitioned rows are not: it would be no part of it.
        _set_own_aside(steps, files, [""], target, previous, EMPTY)
    if mode is WriteMode.append and files.exists(target):
        if prefix is not None:
            _set_own_aside(steps, files, {*parts_of(inside), *parts}, target, previous, prefix)
        steps.moves += [Move(posixpath.join(publish, each), posixpath.join(target, each)) for each in inside]
    elif mode is WriteMode.overwrite_partitions and files.exists(target):
        for part in parts_of(inside):
            staged, there, before = (
                posixpath.join(each, part) if part else each for each in (publish, target, previous)
            )
            steps.replace(staged, there, before, files)
    else:
        steps.replace(publish, target, previous, files)
    if steps.trash and previous not in steps.trash:
        steps.trash.append(previous)
    return steps


def parts_of(inside: Iterable[str]) -> list[str]:
    """The folders that files are in."""
    return sorted({posixpath.dirname(each) for each in inside})


def _set_own_aside(steps: Steps, files: Files, parts: Collection[str], target: str, previous: str, prefix: str) -> None:
    """What an earlier try of the same run has appended."""
    for part in sorted(parts):
        for path in files.files_in(posixpath.join(target, part) if part else target):
            name = posixpath.basename(path)
            if name.startswith(prefix):
                steps.set_aside(posixpath.join(target, part, name), posixpath.join(previous, part, name), files)


def walk(files: Files, folder: str, within: str = "") -> Iterator[str]:
    """Data files below a folder, relative to it; what Spark keeps for itself is left out."""
    here = posixpath.join(folder, within) if within else folder
    for path in files.files_in(here):
        name = posixpath.basename(path)
        if not name.startswith(("_", ".")):
            yield posixpath.join(within, name) if within else name
    for path in files.folders_in(here):
        name = posixpath.basename(path)
        if is_data(name):
            yield from walk(files, folder, posixpath.join(within, name) if within else name)


def is_data(name: str) -> bool:
    """Folders that begin with _ or . are not data, unless they are partitions."""
    return not name.startswith(".") and (not name.startswith("_") or "=" in name)


def partitions_of(files: Files, folder: str) -> list[str]:
    """Columns that a folder's own folders are named after, outermost first."""
    found: list[str] = []
    here: str | None = folder
    while here is not None:
        inner = [path for path in files.folders_in(here) if "=" in posixpath.basename(path)]
        here = inner[0] if inner else None
        found += [posixpath.basename(here).partition("=")[0]] if here is not None else []
    return found


def gather(files: Files, sources: Iterable[str], publish: str, *, prefix: str = "") -> int:
    """Bring the files of several staged folders into one, partitions kept; answers how many there are."""
    found = {source: inside for source in sources if (inside := list(walk(files, source)))}
    count = sum(map(len, found.values()))
    if len(found) == 1 and not prefix and not files.exists(publish):
        files.rename(next(iter(found)), publish)
        return count
    files.make_folder(publish)
    for number, (source, inside) in enumerate(found.items()):
        for relative in inside:
            files.rename(posixpath.join(source, relative), posixpath.join(publish, _named(relative, prefix, number)))
    return count


def _named(relative: str, prefix: str, number: int) -> str:
    # Files that one task has written to several folders have the same name.
    part, name = posixpath.split(relative)
    return posixpath.join(part, f"{prefix}{number}-{name}" if prefix or number else name)
