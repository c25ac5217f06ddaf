"""`headgate replay`: sends stored events to a server, and shows how far it is and what was refused."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from headgate.cli import console
from headgate.errors import ConfigError, HeadgateError
from headgate.local.credentials import DEFAULT_DATA_DIR, target

if TYPE_CHECKING:
    from headgate.cli.delivery import Tally

EXIT_REFUSED, EXIT_INTERRUPTED = 1, 130
_SHOWN_REFUSALS = 20
_LINE_EVERY_S = 5.0


def replay(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Files (.json, .ndjson, .jsonl, or .gz of these), folders, or - for stdin.",
            show_default=False,
        ),
    ],
    url: Annotated[
        str | None, typer.Option(envvar="HEADGATE_URL", help="Server to send to.", show_default=False)
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="HEADGATE_API_KEY", help="Key with the scope 'ingest'.", show_default=False),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=1000, help="Events in one request.")] = 100,
    state: Annotated[
        Path | None,
        typer.Option(
            help="File that records what is sent; replay.json in the data directory, if not given.",
            show_default=False,
        ),
    ] = None,
    no_resume: Annotated[bool, typer.Option("--no-resume", help="Send everything again.")] = False,
    refused: Annotated[
        Path | None,
        typer.Option(help="Add refused events to this file, one JSON object a line.", show_default=False),
    ] = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for a server that is down.")] = 60,
    data_dir: Annotated[
        Path, typer.Option(envvar="HEADGATE_DATA_DIR", help="Where the credentials and the state are.")
    ] = DEFAULT_DATA_DIR,
) -> None:
    """Send stored OpenLineage events to a server.

    Without --url and --api-key it sends to the server that `headgate up` started in this folder. It
    can be stopped at any time: the same command goes on where it stopped, and the server knows an
    event that it already has.

    Exit code: 0 everything is stored, 1 something was refused, 2 it could not be sent.
    """
    from headgate.cli.delivery import Delivery
    from headgate.cli.resume import Journal, target_id
    from headgate.cli.source import find
    from headgate.client import HeadgateClient

    to = target(url, api_key, data_dir)
    sources = find(paths)
    journal = Journal(state or data_dir / "replay.json", target_id(to.url, to.api_key))
    with ExitStack() as stack:
        client = stack.enter_context(HeadgateClient(to.url, to.api_key, attempts=1, timeout_s=60))
        shown = stack.enter_context(_shown())
        delivery = Delivery(
            client,
            journal,
            batch_size=batch_size,
            wait_s=wait,
            resume=not no_resume,
            refused_file=stack.enter_context(_opened(refused, append=not no_resume)) if refused else None,
            on_progress=shown.progress,
            on_pause=shown.pause,
        )
        tally = _run(lambda: delivery.run(sources), delivery.tally, shown)
    _report(tally, files=len(sources), refused_file=refused)
    if tally.refused or tally.refused_before:
        raise typer.Exit(EXIT_REFUSED)


def _run(run: Callable[[], Tally], tally: Tally, shown: Display) -> Tally:
    try:
        return run()
    except KeyboardInterrupt:
        shown.close()
        console.note(f"stopped after {_counts(tally)}\nrun the same command again to go on from there")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except HeadgateError:
        shown.close()
        if tally.events:
            console.note(f"stopped after {_counts(tally)}")
        raise


class Display:
    """Progress as plain lines: for logs, pipes and CI."""

    def __init__(self) -> None:
        self._next_line_at = time.monotonic() + _LINE_EVERY_S

    def progress(self, tally: Tally) -> None:
        if time.monotonic() >= self._next_line_at:
            self._next_line_at = time.monotonic() + _LINE_EVERY_S
            share = f"{100 * _done(tally) // tally.bytes_total}%, " if tally.bytes_total else ""
            console.note(f"{share}{_counts(tally)}")

    def pause(self, error: HeadgateError, pause_s: float) -> None:
        console.note(f"{error.message}; trying again in {pause_s:.1f} s")

    def close(self) -> None:
        """Give the terminal back."""


class Bar(Display):
    """Progress as a bar: for people."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[count]:,} events"),
            TimeRemainingColumn(compact=True),
            console=console.err(),
            transient=True,
            expand=True,
        )
        self._task = self._bar.add_task("", total=None, count=0)
        self._bar.start()

    def progress(self, tally: Tally) -> None:
        self._bar.update(
            self._task,
            description=_shortened(tally.current),
            completed=_done(tally),
            total=tally.bytes_total or None,
            count=tally.events,
        )

    def pause(self, error: HeadgateError, pause_s: float) -> None:
        self._bar.console.print(f"{error.message}; trying again in {pause_s:.1f} s", markup=False, style="yellow")

    def close(self) -> None:
        self._bar.stop()


@contextmanager
def _shown() -> Iterator[Display]:
    display = Bar() if sys.stderr.isatty() else Display()
    try:
        yield display
    finally:
        display.close()


def _report(tally: Tally, *, files: int, refused_file: Path | None) -> None:
    rest = tally.refused - len(tally.refusals[:_SHOWN_REFUSALS])
    if tally.refusals:
        console.table(("where", "why it was refused"), tally.refusals[:_SHOWN_REFUSALS])
    if rest:
        where = f"all of them are in {refused_file}" if refused_file else "--refused FILE keeps all of them"
        typer.echo(f"and {rest:,} more; {where}")
    typer.echo(f"{files:,} {'file' if files == 1 else 'files'}: {_counts(tally)}")
    if tally.done_files:
        typer.echo(f"{tally.done_files:,} of them sent by an earlier call (--no-resume sends them again)")
    if tally.refused_before:
        typer.echo(f"{tally.refused_before:,} events were refused by an earlier call")


def _counts(tally: Tally) -> str:
    return (
        f"{tally.events:,} {'event' if tally.events == 1 else 'events'}, {tally.stored:,} stored, "
        f"{tally.duplicates:,} duplicate, {tally.refused:,} refused"
    )


def _done(tally: Tally) -> int:
    return min(tally.bytes_done + tally.bytes_current, tally.bytes_total)


def _shortened(label: str, width: int = 24) -> str:
    name = Path(label).name
    return name if len(name) <= width else f"{name[: width - 1]}…"


def _opened(path: Path, *, append: bool) -> IO[bytes]:
    try:
        return path.open("ab" if append else "wb")
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written: {error.strerror}", hint="name another file with --refused"
        ) from error
