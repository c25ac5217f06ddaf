"""`headgate search`: find a dataset, column, job or run by a part of its name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question

Text = Annotated[str, typer.Argument(help="A name, a part of one, an id.", show_default=False)]
Kind = Annotated[
    list[str] | None,
    typer.Option(help="dataset, column, job, run or pipeline; may be repeated.", show_default=False),
]


def _show(answer: dict[str, Any]) -> None:
    items = answer["items"]
    if not items:
        console.note("nothing looks like that")
    else:
        console.table(("kind", "name", "where", "match"), [_row(item) for item in items])
    if answer["truncated"]:
        console.note("there is more; --limit shows it")
    if answer["indexing"]:
        console.note("new names are still being indexed; search again in a moment")


def add_to(app: typer.Typer) -> None:
    """Add the command."""

    @ask.question(app, "search", show=_show)
    def search(text: Text, kind: Kind = None, limit: ask.Limit = 20) -> Question:
        """Find datasets, columns, jobs and runs by name."""
        from headgate.client import names

        return names.search(text, kinds=kind or (), limit=limit)


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    place = ask.label(item["dataset"]) if item["dataset"] else item["namespace"] or ""
    return item["kind"], item["name"], place, item["match"]
