"""`headgate aliases`: rules that give one dataset's many names one meaning, with a look before the leap."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question

app = ask.group("Let several names mean one dataset.")

Pattern = Annotated[str, typer.Argument(help="Names like this: {v} is text without a slash.", show_default=False)]
Canonical = Annotated[str, typer.Argument(help="Are called this.", show_default=False)]
Position = Annotated[int | None, typer.Option(min=1, help="After all others, if not given.", show_default=False)]
Rule = Annotated[str, typer.Argument(metavar="RULE_ID", help="As `aliases list` shows it.", show_default=False)]


def _rule_row(item: dict[str, Any]) -> tuple[str, ...]:
    return str(item["position"]), item["pattern"], item["canonical"], item["id"]


_show_rules = ask.show_page(
    ("#", "names like", "are called", "rule"),
    _rule_row,
    "no rules yet; `aliases suggest` may know some",
    whole=("rule",),
)


@ask.question(app, "list", show=_show_rules)
def list_aliases(limit: ask.Limit = 100) -> Question:
    """List the rules in the order in which they are tried."""
    from headgate.client import names

    return names.aliases(limit=limit)


def _show_effect(answer: dict[str, Any]) -> None:
    for change in answer["changes"]:
        console.say(f"  {change['kind']:<6}  {change['urn']}\n       →  {change['target_urn']}")
    more = "; the first thousand are shown" if answer["truncated"] else ""
    merges, renames = ask.count(answer["merges"], "merge"), ask.count(answer["renames"], "rename")
    console.say(f"{merges}, {renames}, {ask.count(answer['aliases'], 'alias', 'aliases')}{more}")
    if answer["orphans_fixed"]:
        console.say(f"{ask.count(answer['orphans_fixed'], 'tested dataset')} would find the job that writes it")


@ask.question(app, show=_show_effect)
def preview(pattern: Pattern, canonical: Canonical, position: Position = None) -> Question:
    """Show what a rule would do. Nothing is changed."""
    from headgate.client import names

    return names.preview_alias(pattern, canonical, position=position)


def _show_added(answer: dict[str, Any]) -> None:
    _show_effect(answer)
    console.note(f"`headgate aliases undo {answer['rule']['id']}` takes it back")


@ask.question(app, show=_show_added)
def add(pattern: Pattern, canonical: Canonical, position: Position = None) -> Question:
    """Add a rule and apply it to the datasets that exist."""
    from headgate.client import names

    return names.add_alias(pattern, canonical, position=position)


def _show_undone(answer: dict[str, Any]) -> None:
    console.say(f"removed the rule and took back {ask.count(answer['undone'], 'change')}")


@ask.question(app, show=_show_undone)
def undo(rule: Rule) -> Question:
    """Remove a rule and take back what it did."""
    from headgate.client import names

    return names.undo_alias(rule)


def _show_suggestions(page: Any) -> None:
    """One after the other: names are too long for a table, and people copy them."""
    if not page.items:
        console.note("no suggestions")
        return
    for item in page.items:
        console.say(f"{item['confidence']:<6}  {item['rule']['pattern']}\n     →  {item['rule']['canonical']}")
        resolves = ask.count(item["resolves"], "tested dataset")
        for line in textwrap.wrap(f"{resolves}: {item['reason']}", 72, break_on_hyphens=False):
            console.say(f"        {line}")
    console.note("`headgate aliases preview PATTERN CANONICAL` shows what one would do")
    if page.next_cursor:
        console.note(f"the first {len(page.items)} are shown; --limit shows more")


@ask.question(app, show=_show_suggestions)
def suggest(limit: ask.Limit = 20) -> Question:
    """Suggest rules, the surest first: tested datasets that no job writes, and the written one of the same name."""
    from headgate.client import names

    return names.alias_suggestions(limit=limit)
