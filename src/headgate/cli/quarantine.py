"""`headgate quarantine`: the rows that runs have set apart, and what becomes of them."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.pipelines import (
    AsJson,
    Environment,
    Master,
    OneNode,
    Pipeline,
    Variables,
    echo_json,
    every_problem,
    load_file,
    plan_of,
    stdout_for_results,
)
from headgate.errors import ConfigError, HeadgateError

if TYPE_CHECKING:
    from headgate.pipelines.batches import Batch
    from headgate.pipelines.handling import Shown, Wish
    from headgate.pipelines.plan import Node
    from headgate.pipelines.replays import ReplayRecord

_WIDTH = 80
_SHORT = 8
_VALUE = 60

app = ask.group("Rows that runs have set apart: look at them, correct them, replay or discard them.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")]
NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node whose quarantine it is.")]
BatchId = Annotated[
    str | None,
    typer.Option(
        "--batch", metavar="RUN", help="The run that set them apart, or how its id begins.", show_default=False
    ),
]
NoServer = Annotated[bool, typer.Option("--no-server", help="Tell no server.")]


@app.command("list")
def list_batches(
    file: File = Path("pipeline.yaml"),
    pipeline: Pipeline = None,
    node: OneNode = None,
    environment: Environment = None,
    variables: Variables = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """List the batches in quarantine, the newest first.

    Quarantines on this machine's disks are read without Spark.
    """
    from headgate.pipelines import handling

    with every_problem(as_json):
        made = plan_of(load_file(file, environment, variables), pipeline)
        nodes = [handling.node_of(made, node)] if node is not None else handling.quarantining(made)
        with stdout_for_results():
            found = handling.listed(made, nodes, master)
    now = datetime.now(UTC)
    if as_json:
        echo_json([_batch_json(each, batch, now) for each, batch in found], indent=2)
    elif not found:
        console.note("nothing is in quarantine")
    else:
        for line in _listing(found, now):
            console.say(line)


@app.command()
def show(
    file: File,
    node: NodeName,
    batch: BatchId = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows at most.")] = 20,
    test: Annotated[
        str | None, typer.Option("--test", help="Only rows that fail this test.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all of them to this .csv, .json or .parquet.", show_default=False),
    ] = None,
    pipeline: Pipeline = None,
    environment: Environment = None,
    variables: Variables = None,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Show rows of a batch, by default the newest, and why they were rejected.

    With --output all rows go to a file, each with its `_row_id`: correct the values there, leave out what you cannot
    correct, and give the file to `headgate quarantine replay --rows`. An empty field of a CSV is NULL; columns that
    you delete stay as they are.
    """
    from headgate.pipelines import handling

    with every_problem(as_json):
        wish = _wish(file, node, batch, pipeline, environment, variables, master)
        with stdout_for_results():
            found = handling.exported(wish, output, test) if output else handling.shown(wish, limit, test)
    if as_json:
        told: dict[str, Any] = {"batch": _batch_json(wish.node, found.batch, datetime.now(UTC)), "total": found.total}
        told["rows" if output is None else "output"] = found.rows if output is None else str(output)
        echo_json(told, indent=2)
    elif output:
        console.say(f"{ask.count(found.total, 'row')} in {output}")
    else:
        _show_rows(wish.node, found)


@app.command()
def replay(
    file: File,
    node: NodeName,
    batch: BatchId = None,
    rows: Annotated[
        Path | None,
        typer.Option("--rows", help="Corrected rows, as --output of `show` wrote them.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Test the rows; change nothing.")] = False,
    pipeline: Pipeline = None,
    environment: Environment = None,
    variables: Variables = None,
    master: Master = None,
    no_server: NoServer = False,
    as_json: AsJson = False,
) -> None:
    """Put the rows of a batch, by default the newest, through the node's tests and gate again.

    Those that pass are published: added to the target where a run would replace it, by their keys where the mode has
    keys. A key that a test wants to be there once must not be in the target. Those that fail stay in the batch with
    their new reasons, and so does what --rows leaves out. A row is published once, however often a replay is done or
    dies. The node's steps are not taken again. A later run that overwrites the target overwrites these rows too.

    The gate's rates are those of the replayed rows. What is asked of a whole batch is not asked of a part: row_count
    of the gate, changes of volume, freshness, means and the like.

    Exit code: 0 published, 3 nothing passed the tests or the gate, 2 the file is wrong, 1 anything else.
    """
    from headgate.pipelines import handling

    with every_problem(as_json):
        wish = _wish(file, node, batch, pipeline, environment, variables, master)
        with stdout_for_results():
            record = handling.replayed(wish, given=rows, is_dry=dry_run, has_server=not no_server)
    _show_replay(record, as_json=as_json, is_dry=dry_run)
    raise typer.Exit(_code(record))


@app.command()
def discard(
    file: File,
    node: NodeName,
    batch: Annotated[str, typer.Option("--batch", metavar="RUN", help="The run, or how its id begins.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    pipeline: Pipeline = None,
    environment: Environment = None,
    variables: Variables = None,
    master: Master = None,
    no_server: NoServer = False,
    as_json: AsJson = False,
) -> None:
    """Delete a batch for good; the server is told who did."""
    from headgate.pipelines import handling

    with every_problem(as_json):
        wish = _wish(file, node, batch, pipeline, environment, variables, master)
        if not yes:
            _confirm(wish)
        with stdout_for_results():
            record = handling.discarded(wish, has_server=not no_server)
    if as_json:
        echo_json(_replay_json(record))
    else:
        console.say(f"batch {record.replay_of} of {wish.node.job_name} is discarded")


def _confirm(wish: Wish) -> None:
    if not sys.stdin.isatty():
        raise ConfigError("rows that are discarded do not come back", hint="add --yes if that is what you want")
    typer.confirm(f"delete the rows of batch {wish.batch}… of {wish.node.job_name} for good?", abort=True, err=True)


def _wish(
    file: Path,
    node: str,
    batch: str | None,
    pipeline: str | None,
    environment: str | None,
    variables: list[str] | None,
    master: str | None,
) -> Wish:
    from headgate.pipelines.handling import Wish, node_of
    from headgate.pipelines.plan import Plan

    made = plan_of(load_file(file, environment, variables), pipeline)
    found = node_of(made, node)
    rest = tuple(each for each in (*made.nodes, *made.others) if each.key != found.key)
    return Wish(Plan(made.loaded, (found,), rest), found, batch, master)


def _listing(found: list[tuple[Node, Batch]], now: datetime) -> Iterator[str]:
    """Node by node: a line for each batch, and below it how many rows fail which tests."""
    by_node: dict[str, list[Batch]] = {}
    for node, batch in found:
        by_node.setdefault(f"{node.job_name} in {node.quarantine}", []).append(batch)
    for head, listed in by_node.items():
        yield head
        rows = [ask.count(batch.note.rows, "row") for batch in listed]
        for batch, count in zip(listed, rows, strict=True):
            when = ask.minute(batch.note.rejected_at.astimezone(UTC).isoformat())
            parts = batch.note.batch_id[:_SHORT], when, f"{count:>{max(map(len, rows))}}", _state(batch, now)
            yield f"  {'  '.join(parts)}{_kept(batch, now)}"
            tests = batch.note.failed_tests.items()
            yield from _filled(", ".join(f"{name}\xa0{count:,}" for name, count in tests), indent=12)
        yield ""


def _kept(batch: Batch, now: datetime) -> str:
    """For how long still."""
    if batch.note.expires_at is None or batch.note.is_expired(now):
        return ""
    return f", until {batch.note.expires_at.astimezone(UTC):%Y-%m-%d}"


def _state(batch: Batch, now: datetime) -> str:
    return "expired" if batch.note.is_expired(now) else batch.note.state


def _batch_json(node: Node, batch: Batch, now: datetime) -> dict[str, Any]:
    note = batch.note
    return {
        "node": node.job_name,
        "batch_id": note.batch_id,
        "rejected_at": note.rejected_at,
        "replayed_at": note.replayed_at,
        "rows": note.rows,
        "failed_tests": note.failed_tests,
        "state": _state(batch, now),
        "expires_at": note.expires_at,
        "location": batch.folder,
    }


def _show_rows(node: Node, found: Shown) -> None:
    note = found.batch.note
    when = ask.minute(note.rejected_at.astimezone(UTC).isoformat())
    console.say(f"batch {note.batch_id} of {node.job_name}\nrejected {when} UTC, {ask.count(note.rows, 'row')}\n")
    for row in found.rows:
        for line in _row_lines(row):
            console.say(line)
    if found.total > len(found.rows):
        console.note(f"{len(found.rows):,} of {found.total:,} rows are shown; --limit shows more, --output writes all")


def _row_lines(row: dict[str, Any]) -> Iterator[str]:
    """One row: its id and the tests that it fails, its values, and the reason in words."""
    tests, reason = row.get("_failed_tests") or [], row.get("_rejection_reason")
    yield from _filled(f"{row['_row_id'][:12]}  {', '.join(tests)}")
    own = {name: value for name, value in row.items() if not _is_added(name)}
    yield from _filled("  ".join(f"{name}:\xa0{_value(value)}" for name, value in own.items()), indent=2)
    if reason:
        yield from _filled(f"why: {reason}", indent=2)
    yield ""


def _is_added(name: str) -> bool:
    return name in ("_row_id", "_failed_tests", "_rejection_reason", "_rejected_at", "_original_node")


def _filled(text: str, indent: int = 0) -> list[str]:
    pad = " " * indent
    lines = textwrap.wrap(text, _WIDTH, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def _value(value: Any) -> str:
    """A value on one line and in one piece, if it is not too long."""
    if value is None:
        return "NULL"
    text = value.replace(".000000Z", "Z") if isinstance(value, str) else _compact(value)
    shown = text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"
    return repr(shown) if shown != shown.strip() or not shown else shown.replace("\n", "⏎").replace(" ", "\xa0")


def _compact(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _show_replay(record: ReplayRecord, *, as_json: bool, is_dry: bool) -> None:
    if as_json:
        echo_json(_replay_json(record) | {"dry_run": is_dry})
        return
    name = f"{record.pipeline}.{record.name}"
    if record.error is not None:
        console.fail(HeadgateError.code, f"{name}: {record.error}")
        return
    would = "would be " if is_dry else ""
    left = record.rows_left if not is_dry else record.rows_left - record.rows_published
    console.say(
        f"{name}: {ask.count(record.rows_in, 'row')} of batch {record.replay_of[:_SHORT]} replayed, "
        f"{record.rows_published:,} {would}published, {left:,} left"
    )
    if record.rows_skipped:
        console.say(f"{ask.count(record.rows_skipped, 'row')} of the file had left the batch before: skipped")
    for said in (*record.reasons, *record.notes, *_failed(record)):
        for line in textwrap.wrap(said, _WIDTH, subsequent_indent="  ", break_on_hyphens=False):
            console.say(line)


def _failed(record: ReplayRecord) -> list[str]:
    failing = [test for test in record.tests if test.failed]
    return [f"test {test.name} fails for {ask.count(test.failed, 'row')}" for test in failing]


def _replay_json(record: ReplayRecord) -> dict[str, Any]:
    from msgspec import to_builtins

    found: dict[str, Any] = to_builtins(record, str_keys=True)
    return found


def _code(record: ReplayRecord) -> int:
    from headgate.pipelines.record import EXIT_CODES

    return EXIT_CODES[record.status]
