"""How commands speak: errors, summaries and tables, the same everywhere.

Results go to stdout, everything else to stderr. rich is loaded only by what needs it, because
`headgate version` should answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

from headgate.errors import HeadgateError, InvalidFields

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_FIELD_ERRORS = 10


def out() -> Console:
    """The console for results."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def err() -> Console:
    """The console for everything that is not the result."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=False)


def printable(text: str) -> str:
    """Text that a terminal only shows: whoever may send events must not be able to steer it."""
    return "".join(mark if mark.isprintable() or mark == "\n" else "\N{REPLACEMENT CHARACTER}" for mark in text)


def say(text: str) -> None:
    """A line of the result, on stdout."""
    typer.echo(printable(text))


def note(text: str) -> None:
    """A plain line on stderr."""
    typer.echo(printable(text), err=True)


def fail(code: str, message: str, *, hint: str | None = None, correlation_id: object = None) -> None:
    """The one shape of an error on the command line."""
    head = typer.style(f"error[{code}]:", fg=typer.colors.RED, bold=True) if _is_colored() else f"error[{code}]:"
    typer.echo(f"{head} {printable(message)}", err=True)
    if hint:
        note(f"hint: {hint}")
    if correlation_id:
        note(f"correlation id: {correlation_id}")


def show_error(error: HeadgateError) -> None:
    fail(error.code, error.message, hint=error.hint, correlation_id=error.context.get("correlation_id"))
    if isinstance(error, InvalidFields) and len(error.errors) > 1:
        for item in error.errors[:_SHOWN_FIELD_ERRORS]:
            note(f"  {item.path}: {item.message}")


def pairs(rows: Iterable[tuple[str, str]]) -> None:
    """Aligned `name  value` lines on stdout; values are never cut, because people copy them."""
    listed = list(rows)
    width = max(len(name) for name, _ in listed)
    for name, value in listed:
        say(f"  {name:<{width}}  {value}")


def table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], *, whole: Sequence[str] = (), to_stderr: bool = False
) -> None:
    """A borderless table that folds long cells instead of cutting them; those of `whole` columns stay on one line."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column, overflow="fold", no_wrap=column in whole)
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    (err() if to_stderr else out()).print(drawn)


def _is_colored() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ
