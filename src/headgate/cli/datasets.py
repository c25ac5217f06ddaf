"""`headgate datasets`: what there is, and all that is known of one dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, minute, moment
from headgate.cli.lineage import Dataset

if TYPE_CHECKING:
    from headgate.client import Dataset as Listed

app = ask.group("List datasets and look at one.")

Text = Annotated[str | None, typer.Option(help="Only names that hold this.", show_default=False)]
Namespace = Annotated[str | None, typer.Option(help="Only of this namespace.", show_default=False)]
Type = Annotated[str | None, typer.Option("--type", help="Only of this type.", show_default=False)]
Tag = Annotated[str | None, typer.Option(help="Only with this tag.", show_default=False)]
Sort = Annotated[str, typer.Option(help="name, freshness, rows or downstream; with a - before it, the other way.")]
Incident = Annotated[bool, typer.Option("--has-incident", help="Only with an open problem.")]


def _row(item: Listed) -> tuple[str, ...]:
    rows = "" if item.row_count is None else f"{item.row_count:,}"
    state = "failing" if item.has_incident else "external" if item.external else ""
    return ask.label(item), rows, minute(item.last_updated), str(item.downstream_count), state


_show_list = ask.show_page(
    ("dataset", "rows", "last written", "readers", "state"),
    _row,
    "no dataset fits; `headgate search` may help",
    whole=("rows", "last written"),
)


@ask.question(app, "list", show=_show_list)
def list_datasets(
    text: Text = None,
    namespace: Namespace = None,
    type_: Type = None,
    tag: Tag = None,
    has_incident: Incident = False,
    sort: Sort = "name",
    limit: ask.Limit = 50,
) -> Question:
    """List datasets."""
    from headgate.client import datasets

    return datasets.datasets(
        text=text,
        namespace=namespace,
        type=type_,
        tag=tag,
        has_incident=has_incident or None,
        sort=sort,
        limit=limit,
    )


def _show_one(found: dict[str, Any]) -> None:
    rows = [
        ("name", found["name"]),
        ("namespace", found["namespace"]),
        ("id", found["id"]),
        ("type", found["type"]),
        ("state", "dropped" if found["dropped"] else ""),
        ("description", found["description"]),
        ("owners", ", ".join(found["owners"])),
        ("tags", ", ".join(found["tags"])),
        ("last written", moment(found["last_updated"])),
        ("rows", "" if found["row_count"] is None else f"{found['row_count']:,}"),
        ("schema", _schema(found)),
        ("failing tests", str(found["failing_tests"] or "")),
        ("upstream", str(found["upstream_count"])),
        ("downstream", str(found["downstream_count"])),
        ("written by", ", ".join(job["name"] for job in found["producers"])),
        ("read by", ", ".join(job["name"] for job in found["consumers"])),
        ("also known as", "\n".join(f"{alias['namespace']}/{alias['name']}" for alias in found["aliases"])),
    ]
    console.pairs([(name, value) for name, value in rows if value])


def _schema(found: dict[str, Any]) -> str:
    if found["schema_version"] is None:
        return ""
    return f"v{found['schema_version']}, {ask.count(found['column_count'], 'column')}"


@ask.question(app, show=_show_one)
def show(dataset: Dataset) -> Question:
    """Show what is known of a dataset."""
    from headgate.client import datasets

    return datasets.dataset(dataset)
