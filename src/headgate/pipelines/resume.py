"""The runs of a file that are recorded beside it: the latest, and the one to go on with."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote

from msgspec import structs

from headgate.errors import ConfigError, NotFound
from headgate.pipelines.home import FOLDER, Home
from headgate.pipelines.plan import Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def home_of(file: Path) -> Home:
    """Where the runs of a file are recorded; nothing is made."""
    return Home(file.resolve().parent / FOLDER)


def latest(file: Path) -> RunRecord | None:
    """The run of a file that began last."""
    return max(_runs_of(file), key=lambda run: run.started_at or _LONG_AGO, default=None)


def _runs_of(file: Path) -> Iterator[RunRecord]:
    home, own = home_of(file), str(file.resolve())
    for path in home.runs.glob("*.json"):
        run = home.load_record(unquote(path.stem))
        if run.file == own:
            yield run


def resumable(file: Path, run_id: str | None) -> RunRecord:
    """The run to go on with: the one that is named, else the latest of the file."""
    run = latest(file) if run_id is None else home_of(file).load_record(run_id)
    if run is None:
        raise NotFound(f"no run of {str(file)!r} is recorded beside it", hint="run it without --resume")
    if run.file != str(file.resolve()):
        raise ConfigError(f"run {run.run_id} was one of {run.file}", hint="name that file")
    if run.status is Status.published:
        raise ConfigError(f"run {run.run_id} was published: nothing is left to do", hint="run it without --resume")
    return run


def narrowed(plan: Plan, earlier: RunRecord) -> tuple[Plan, list[NodeRecord]]:
    """The nodes of an earlier run that are still in the file, and the records of those that it has published."""
    keys = {(node.pipeline, node.name) for node in earlier.nodes}
    everything = (*plan.nodes, *plan.others)
    chosen = tuple(node for node in everything if node.key in keys and node.config.enabled)
    known = {node.key for node in chosen}
    if not chosen:
        raise ConfigError(f"the file has no node of run {earlier.run_id} any more", hint="run it without --resume")
    # What a node without a target had, went with the run.
    keep = {node.key for node in chosen if node.target is not None}
    done = [node for node in earlier.nodes if node.status is Status.published and (node.pipeline, node.name) in keep]
    said = f"published by run {earlier.run_id}"
    carried = [structs.replace(node, notes=(*node.notes, said)) for node in done]
    return Plan(plan.loaded, chosen, tuple(node for node in everything if node.key not in known)), carried
