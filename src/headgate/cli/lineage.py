"""`headgate lineage`: what a dataset is made from, what is made from it, and what a change would hit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headgate.cli import ask, console, trees
from headgate.cli.ask import Question

if TYPE_CHECKING:
    from headgate.client.shapes import ColumnStep, Lineage

app = ask.group("Follow data from dataset to dataset.")

Dataset = Annotated[str, typer.Argument(help="Id, urn, or any name of it.", show_default=False)]
Depth = Annotated[int, typer.Option(min=1, max=20, help="How many steps to follow.")]
Columns = Annotated[bool, typer.Option("--columns", help="Also show which column goes into which.")]
AsOf = Annotated[str | None, typer.Option(help="As it was then, such as 2026-01-31T06:00:00Z.", show_default=False)]
Column = Annotated[str | None, typer.Option(help="Only what reads this column.", show_default=False)]
IfSchemaChanges = Annotated[bool, typer.Option("--if-schema-changes", help="What a change of its schema would hit.")]
_COUNTED = {"table": "downstream table", "pipeline": "pipeline"}


def _show_upstream(answer: Lineage) -> None:
    _show_tree(answer, is_up=True)


def _show_downstream(answer: Lineage) -> None:
    _show_tree(answer, is_up=False)


@ask.question(app, show=_show_upstream)
def upstream(dataset: Dataset, depth: Depth = 3, columns: Columns = False, as_of: AsOf = None) -> Question:
    """Show what a dataset is made from."""
    from headgate.client import lineage

    return lineage.upstream(dataset, depth=depth, columns=columns or None, as_of=as_of)


@ask.question(app, show=_show_downstream)
def downstream(dataset: Dataset, depth: Depth = 3, columns: Columns = False, as_of: AsOf = None) -> Question:
    """Show what is made from a dataset."""
    from headgate.client import lineage

    return lineage.downstream(dataset, depth=depth, columns=columns or None, as_of=as_of)


def _show_impact(answer: dict[str, Any], dataset: str, column: str | None, if_schema_changes: bool) -> None:
    what = f"A schema change to {dataset}" if if_schema_changes else f"A change of {dataset}"
    what = f"A change of {column} in {dataset}" if column else what
    if not answer["tables"]:
        console.say(f"{what} would affect nothing that is known.")
        return
    console.say(f"⚠  {what} would affect:")
    for table in answer["tables"]:
        console.say(f"  - {ask.label(table)}{_aside(table, with_columns=column is not None)}")
    tables, pipelines = (ask.count(answer["totals"][thing + "s"], said) for thing, said in _COUNTED.items())
    more = f", {answer['hidden']} more not shown" if answer["truncated"] else ""
    console.say(f"\n  Total: {tables} in {pipelines}{more}; criticality {answer['criticality']}")
    if answer["owners"]:
        console.say(f"  Owners: {', '.join(answer['owners'])}")


@ask.question(app, show=_show_impact)
def impact(dataset: Dataset, column: Column = None, if_schema_changes: IfSchemaChanges = False) -> Question:
    """Show what a change of a dataset, or of one column of it, would hit."""
    from headgate.client import lineage

    # Whoever names a column wants to know who reads it, not all that lies below.
    return lineage.impact(dataset, if_schema_changes=if_schema_changes or column is not None or None, column=column)


def _show_tree(answer: Lineage, *, is_up: bool) -> None:
    for line in trees.lines(_graph(answer, is_up=is_up), str(answer.root)):
        console.say(line)
    if len(answer.nodes) == 1:
        console.note("nothing upstream of it is known" if is_up else "nothing downstream of it is known")
    if answer.truncated:
        console.note(f"{answer.hidden} more are not shown; --depth shows more")


def _graph(answer: Lineage, *, is_up: bool) -> trees.Graph:
    """The tree of an answer. Downstream a step names the job that makes it, upstream the jobs that write the source."""
    writers: dict[str, set[str]] = defaultdict(set)
    jobs: dict[tuple[str, str], set[str]] = defaultdict(set)
    notes: dict[str, list[ColumnStep]] = defaultdict(list)
    for edge in answer.edges:
        source, target = str(edge.source), str(edge.target)
        near, far = (target, source) if is_up else (source, target)
        writers[target].add(edge.job.name)
        jobs[near, far].add(edge.job.name)
        notes[far] += edge.columns or ()
    steps: dict[str, list[trees.Step]] = defaultdict(list)
    for (near, far), names in jobs.items():
        steps[near].append(trees.Step(far, tuple(sorted(writers[far] if is_up else names))))
    leaves = {
        str(node.id): trees.Leaf(ask.label(node), node.depth, node.external, _columns(notes[str(node.id)]))
        for node in answer.nodes
    }
    return trees.Graph(leaves, steps)


def _columns(steps: Iterable[ColumnStep]) -> tuple[str, ...]:
    """A line for each source column and what happens to it, with all that it goes into."""
    targets: dict[tuple[str, str], set[str]] = defaultdict(set)
    for step in steps:
        how = f"{step.label}: {step.expression}" if step.expression else step.label
        targets[step.source, how].add(step.target or "(every row)")
    return tuple(f"{source} → {', '.join(sorted(into))}  {how}" for (source, how), into in sorted(targets.items()))


def _aside(table: dict[str, Any], *, with_columns: bool) -> str:
    said = table["description"] or _pipelines(table["pipelines"])
    columns = ", ".join(table["columns"]) if with_columns else ""
    return (f" ({said})" if said else "") + (f": {columns}" if columns else "")


def _pipelines(names: Iterable[Any]) -> str:
    found = sorted({name if isinstance(name, str) else name["name"] for name in names})
    return f"{len(found)} pipelines write it" if len(found) > 1 else "".join(found)
