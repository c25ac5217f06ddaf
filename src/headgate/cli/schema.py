"""`headgate schema`: the columns of a dataset, now and over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, moment
from headgate.cli.lineage import Dataset

if TYPE_CHECKING:
    from headgate.client import Page, SchemaChange, SchemaVersion

app = ask.group("Look at schemas and how they changed.")

At = Annotated[str | None, typer.Option(help="As it was then, such as 2026-01-31T06:00:00Z.", show_default=False)]
From = Annotated[str | None, typer.Option("--from", help="Version, such as v3; the one before --to, if not given.")]
To = Annotated[str | None, typer.Option("--to", help="Version, such as v5; the current one, if not given.")]
_MARKS = {"added": "+", "removed": "-", "type": "~", "nullability": "~", "moved": "↕", "unchanged": " "}


def _show_schema(found: SchemaVersion) -> None:
    until = f"until {moment(found.valid_to)}" if found.valid_to else "current"
    console.say(f"v{found.version}, since {moment(found.valid_from)}, {until}")
    rows = [(f.name, f.type or "", _nullable(f.nullable), f.description or "") for f in found.fields]
    console.table(("column", "type", "null", "description"), rows)


@ask.question(app, show=_show_schema)
def show(dataset: Dataset, at: At = None) -> Question:
    """Show the columns of a dataset, now or at a time."""
    from headgate.client import datasets

    return datasets.schema(dataset, at=at)


def _show_history(page: Page[SchemaChange]) -> None:
    if not page.items:
        console.note("no schema of it is known: nobody has sent one")
        return
    rows = [
        (f"v{item.version}", moment(item.valid_from), item.summary + (" (breaking)" if item.breaking else ""))
        for item in page.items
    ]
    console.table(("Version", "Captured at", "Changes"), rows)


@ask.question(app, show=_show_history)
def history(dataset: Dataset, limit: ask.Limit = 20) -> Question:
    """Show the versions of a schema, newest first, and what changed in each."""
    from headgate.client import datasets

    return datasets.schema_history(dataset, limit=limit)


def _show_diff(answer: dict[str, Any]) -> None:
    fields = answer["fields"]
    names = max((len(field["name"]) for field in fields), default=0)
    types = max((len(_type(field)) for field in fields), default=0)
    for field in fields:
        mark, what = _MARKS[field["change"]], _change(field)
        console.say(f"{mark} {field['name']:<{names}}  {_type(field):<{types}}  ({what})".rstrip())
    if answer["breaking"]:
        console.say("\nThis change is breaking.")
    for reader in answer["readers"]:
        console.say(f"  {reader['column']} is read by {_reader(reader)}")


@ask.question(app, show=_show_diff)
def diff(dataset: Dataset, from_: From = None, to: To = None) -> Question:
    """Compare two versions of a schema; without options, the current one with the one before."""
    from headgate.client import datasets

    return datasets.schema_diff(dataset, from_=from_, to=to)


def _type(field: dict[str, Any]) -> str:
    before, after = field["before"], field["after"]
    if field["change"] == "type":
        return f"{before['type']} → {after['type']}"
    return str((after or before)["type"] or "")


def _change(field: dict[str, Any]) -> str:
    since = f" in v{field['since_version']}" if field.get("since_version") else ""
    words = {
        "added": f"added{since}",
        "removed": f"removed{since}",
        "type": f"type changed{since}",
        "nullability": f"{_null_change(field)}{since}",
        "moved": f"moved{since}",
        "unchanged": "unchanged",
    }
    return words[field["change"]] + (", breaking" if field["breaking"] else "")


def _null_change(field: dict[str, Any]) -> str:
    return "may be null now" if (field["after"] or {}).get("nullable") else "must not be null now"


def _reader(reader: dict[str, Any]) -> str:
    dataset = ask.label(reader["dataset"])
    column = f".{reader['target_column']}" if reader.get("target_column") else ""
    return f"{dataset}{column} ({reader['job']['name']})"


def _nullable(value: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[value]
