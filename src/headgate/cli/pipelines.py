"""`headgate validate`, `plan`, `graph` and `run`: pipelines from their file to what was published."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import console, progress
from headgate.cli.interrupts import Interrupts
from headgate.errors import ConfigError, HeadgateError, InvalidPipeline, PipelineProblem

if TYPE_CHECKING:
    from headgate.pipelines.assemble import Assembly
    from headgate.pipelines.load import Loaded
    from headgate.pipelines.plan import Key, Plan
    from headgate.pipelines.record import FieldRecord, NodeRecord, RunRecord

EXIT_USER, EXIT_INTERRUPTED = 2, 130
_GRACE_S = 60.0
_CANCEL_EVERY_S = 1.0
_WIDTH = 80
_DEFAULT_FILE = Path("pipeline.yaml")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The pipeline file.")]
Environment = Annotated[str | None, typer.Option("--env", help="Environment of the file.", show_default=False)]
Variables = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="Value of a variable; may be repeated.", show_default=False),
]
Pipeline = Annotated[str | None, typer.Option("--pipeline", help="Only this pipeline.", show_default=False)]
OneNode = Annotated[str | None, typer.Option("--node", help="Only this node.", show_default=False)]
FromNode = Annotated[str | None, typer.Option("--from", help="This node and all that follow it.", show_default=False)]
Master = Annotated[
    str | None, typer.Option("--master", help="Where Spark runs: local[4], yarn, sc://host, …", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


class Format(StrEnum):
    """How `headgate graph` draws."""

    tree = "tree"
    mermaid = "mermaid"
    dot = "dot"
    json = "json"


def add_to(app: typer.Typer) -> None:
    """Add the commands to the application."""
    for command in (run, plan, validate, graph):
        app.command()(command)


def validate(
    file: File = _DEFAULT_FILE,
    environment: Environment = None,
    variables: Variables = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of pipeline files instead.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file without Spark and list all that is wrong with it.

    Each problem is a line `file:line:column: message`. Exit code: 0 nothing is wrong, 2 something is.
    """
    if schema:
        from headgate.pipelines.schema import text

        typer.echo(text(), nl=False)
        return
    try:
        found = plan_of(load_file(file, environment, variables))
    except InvalidPipeline as error:
        _show_invalid(error.problems, as_json)
        raise typer.Exit(EXIT_USER) from None
    if as_json:
        echo_json({"valid": True, "file": str(file), "nodes": len(found.nodes), "problems": []})
    else:
        console.say(f"{file} is valid: {_head(found)}")


def plan(
    file: File = _DEFAULT_FILE,
    pipeline: Pipeline = None,
    node: OneNode = None,
    from_node: FromNode = None,
    environment: Environment = None,
    variables: Variables = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Start Spark and check that steps and tests fit the columns.")
    ] = False,
    master: Master = None,
    as_json: AsJson = False,
) -> None:
    """Show what would run, in which order, and what each node reads, tests and writes."""
    with every_problem(as_json):
        made = plan_of(load_file(file, environment, variables), pipeline, node, from_node)
        found = _columns(made, master) if columns else None
    _show_plan(made, found, as_json)


def graph(
    file: File = _DEFAULT_FILE,
    pipeline: Pipeline = None,
    node: OneNode = None,
    from_node: FromNode = None,
    environment: Environment = None,
    variables: Variables = None,
    form: Annotated[Format, typer.Option("--format", help="How to draw it.")] = Format.tree,
    as_json: AsJson = False,
) -> None:
    """Draw how the nodes hang together."""
    from headgate.cli import planned

    with every_problem(as_json):
        made = plan_of(load_file(file, environment, variables), pipeline, node, from_node)
    drawn = planned.picture(made)
    if as_json or form is Format.json:
        echo_json(planned.picture_json(drawn), indent=2)
        return
    draw = {Format.tree: planned.tree, Format.mermaid: planned.mermaid, Format.dot: planned.dot}[form]
    for line in draw(drawn):
        console.say(line)


def run(
    file: File = _DEFAULT_FILE,
    earlier: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run that --resume goes on with.", show_default=False)
    ] = None,
    pipeline: Pipeline = None,
    node: OneNode = None,
    from_node: FromNode = None,
    environment: Environment = None,
    variables: Variables = None,
    master: Master = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Plan and check the columns; write nothing.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the latest run of the file, or with RUN, where it stopped.")
    ] = False,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Nodes that may run side by side.")] = 4,
    no_server: Annotated[bool, typer.Option("--no-server", help="Neither ask nor tell a server.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="End with the run as one line of JSON.")] = False,
) -> None:
    """Run the pipelines of a file: read, test, decide by the gates, publish.

    Ctrl-C stops it cleanly; `--resume` goes on from the node that failed. What the project's own functions print
    goes to stderr.

    Exit code: 0 published, 3 stopped by a gate or a test, 2 the file is wrong, 1 anything else, 130 Ctrl-C.
    """
    from headgate.pipelines.assemble import Wishes

    with every_problem(as_json):
        loaded = load_file(file, environment, variables)
        _refuse_mixed(resume, earlier, [pipeline, node, from_node])
        made = plan_of(loaded, pipeline, node, from_node)
        if dry_run:
            _show_dry(made, _columns(made, master), as_json)
            return
        assembly, was_stopped = _run(made, Wishes(master, parallel, not no_server), resume, earlier)
    _report(assembly, as_json)
    raise typer.Exit(EXIT_INTERRUPTED if was_stopped else _code(assembly.record))


def _refuse_mixed(resume: bool, earlier: str | None, selection: list[str | None]) -> None:
    if earlier is not None and not resume:
        raise ConfigError(f"{earlier!r} is one argument too many", hint="--resume takes a run; --help shows the rest")
    if resume and any(selection):
        raise ConfigError("--resume runs the nodes of the earlier run", hint="leave out --pipeline, --node and --from")


def _run(made: Plan, wishes: Any, resume: bool, earlier: str | None) -> tuple[Assembly, bool]:
    from headgate.pipelines import assemble
    from headgate.pipelines.resume import resumable

    record = None
    if resume:
        file = made.loaded.file
        made, record = assemble.resumed(made, resumable(file, earlier))
    with stdout_for_results(), progress.shown() as display:
        assembly = assemble.Assembly(made, record or assemble.new_run(made), wishes, display)
        return assembly, _supervised(assembly)


def _supervised(assembly: Assembly) -> bool:
    """Run it in a thread of its own, since signals come to this one; whether somebody stopped it."""
    outcome: Future[RunRecord] = Future()
    # Begun in the main thread, Spark would take Ctrl-C for itself.
    thread = threading.Thread(target=_settle, args=(assembly, outcome), name="run", daemon=True)
    wished = threading.Event()
    with Interrupts(_GRACE_S) as interrupts, interrupts.heard_by(wished.set):
        thread.start()
        while thread.is_alive():
            if wished.is_set():
                _stop(assembly, thread, interrupts)
            thread.join(0.1)
    outcome.result()
    return interrupts.is_stopping


def _settle(assembly: Assembly, outcome: Future[RunRecord]) -> None:
    try:
        outcome.set_result(assembly.run())
    except BaseException as error:  # told by the thread that waits
        outcome.set_exception(error)


def _stop(assembly: Assembly, thread: threading.Thread, interrupts: Interrupts) -> None:
    console.note("stopping; Ctrl-C again to end at once")
    while thread.is_alive():
        # Again and again: a node between two jobs begins the next one all the same.
        assembly.stop()
        thread.join(_CANCEL_EVERY_S)
        if interrupts.is_hurried:
            assembly.abandon()
            os._exit(EXIT_INTERRUPTED)


@contextmanager
def stdout_for_results() -> Iterator[None]:
    """Meanwhile all that is printed goes to stderr: by functions of the project, and by Spark, which inherits it."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:
        kept = None
    try:
        if kept is not None:
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


@contextmanager
def every_problem(as_json: bool) -> Iterator[None]:
    """List all that is wrong with a file; whatever happens, who asked for JSON gets some."""
    try:
        yield
    except InvalidPipeline as error:
        if as_json:
            echo_json({"run_id": None, "status": "failed", "nodes": [], "problems": _as_json(error.problems)})
        for problem in error.problems:
            _note_problem(problem)
        console.fail(error.code, _count_problems(len(error.problems)))
        raise typer.Exit(EXIT_USER) from None
    except Exception as error:
        if as_json:
            said = error.message if isinstance(error, HeadgateError) else f"{type(error).__name__}: {error}"
            echo_json({"run_id": None, "status": "failed", "nodes": [], "error": said})
        raise


def load_file(file: Path, environment: str | None, variables: list[str] | None) -> Loaded:
    from headgate.pipelines.load import load

    return load(file, environment=environment, variables=dict(_variable(each) for each in variables or ()))


def _variable(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--var {given!r} is not NAME=VALUE", hint="as in --var DAY=2026-01-31")
    return name.strip(), value


def plan_of(loaded: Loaded, pipeline: str | None = None, only: str | None = None, start: str | None = None) -> Plan:
    from headgate.pipelines.plan import make_plan

    return make_plan(loaded, pipeline=pipeline, only=only, start=start)


def _columns(made: Plan, master: str | None) -> dict[Key, tuple[FieldRecord, ...] | None]:
    from headgate.pipelines.assemble import columns_of

    with stdout_for_results():
        return columns_of(made, master)


def _show_invalid(problems: list[PipelineProblem], as_json: bool) -> None:
    if as_json:
        echo_json({"valid": False, "problems": _as_json(problems)})
        return
    for problem in problems:
        console.say(f"{problem.place}: {problem.message}")
        if problem.hint:
            console.say(f"  hint: {problem.hint}")
    console.note(_count_problems(len(problems)))


def _note_problem(problem: PipelineProblem) -> None:
    console.note(f"{problem.place}: {problem.message}")
    if problem.hint:
        console.note(f"  hint: {problem.hint}")


def _count_problems(number: int) -> str:
    return "1 problem" if number == 1 else f"{number} problems"


def _as_json(problems: list[PipelineProblem]) -> list[dict[str, Any]]:
    return [{"place": each.place, "message": each.message, "hint": each.hint} for each in problems]


def _head(made: Plan) -> str:
    from headgate.cli import planned

    return planned.head(made)


def _show_plan(made: Plan, columns: dict[Key, tuple[FieldRecord, ...] | None] | None, as_json: bool) -> None:
    from headgate.cli import planned

    if as_json:
        echo_json(planned.as_json(made, columns), indent=2)
        return
    console.say(planned.head(made) + "\n")
    for line in planned.lines(made, columns):
        console.say(line)
    if columns is not None:
        console.note(planned.checked(made, columns))


def _show_dry(made: Plan, columns: dict[Key, tuple[FieldRecord, ...] | None], as_json: bool) -> None:
    """As a run ends: with `--json` in one line, the last of all."""
    from headgate.cli import planned

    if as_json:
        echo_json({"run_id": None, "status": "skipped", **planned.as_json(made, columns)})
    else:
        _show_plan(made, columns, as_json)


def _report(assembly: Assembly, as_json: bool) -> None:
    """How it ended: a table and the reasons, or one line of JSON that is the last of all."""
    record = assembly.record
    if as_json:
        echo_json({**record.as_json(), "story": str(assembly.story) if assembly.story else None})
        return
    rows = [_row(node) for node in record.nodes]
    console.table(("node", "status", "rows in", "valid", "quarantined", "gate", "time"), rows, whole=("status", "time"))
    for node in record.nodes:
        for line in _why(node):
            console.say(line)
    console.say(f"\nrun {record.run_id} {_ended(record)}")
    if assembly.story is not None:
        console.say(f"story: {assembly.story}")
    if record.status in ("failed", "stopped"):
        console.note(f"after a repair, `headgate run {_shown(assembly)} --resume` goes on from there")


def _shown(assembly: Assembly) -> str:
    file = assembly.plan.loaded.file
    return str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)


def _ended(record: RunRecord) -> str:
    return {"skipped": "had nothing to do"}.get(record.status, f"was {record.status}")


def _row(node: NodeRecord) -> tuple[str, ...]:
    took = progress.span(node.timings_s["total"]) if "total" in node.timings_s else ""
    name = f"{node.pipeline}.{node.name}"
    if node.status == "skipped":
        return (name, str(node.status), "", "", "", "", took)
    counts = (f"{count:,}" for count in (node.rows_in, node.rows_valid, node.rows_quarantined))
    return (name, str(node.status), *counts, _gate(node), took)


def _gate(node: NodeRecord) -> str:
    if node.gate is None:
        return ""
    # Rounded down: 94.96 % must not be shown as the 95 % that it is not.
    rate = f"{int(node.gate.pass_rate * 1000) / 10:g} %"
    return rate if node.gate.passed else f"{rate} {node.gate.action}"


def _why(node: NodeRecord) -> Iterator[str]:
    """What there is to say of a node that did not go as it should, or not quite."""
    name = f"{node.pipeline}.{node.name}"
    if node.error is not None:
        yield f"\n{name} failed:\n{_indented(node.error)}"
    said = [*node.reasons, *(note for note in node.notes if note not in node.reasons)]
    if node.quarantine is not None:
        said.append(f"{node.quarantine.rows:,} rows are in {node.quarantine.dataset.label}")
    for each in said:
        yield textwrap.fill(f"{name}: {each}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.strip().splitlines())


def _code(record: RunRecord) -> int:
    from headgate.pipelines.record import exit_code

    return exit_code(record)


def echo_json(answer: object, *, indent: int = 0) -> None:
    import msgspec

    encoded = msgspec.json.encode(answer)
    typer.echo((msgspec.json.format(encoded, indent=indent) if indent else encoded).decode())
