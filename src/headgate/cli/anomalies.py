"""`headgate anomalies`: what is out of the ordinary, and what people make of it."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, minute, moment

app = ask.group("List what is out of the ordinary, look at it and deal with it.")

_WIDTH = 80
# What is a sentence; all else people may want to copy.
_WRAPPED = frozenset({"why", "measured", "expected", "changed"})


class Expect(StrEnum):
    """For how long such values are expected."""

    once = "once"
    weekday = "weekday"


Anomaly = Annotated[str, typer.Argument(metavar="ID", help="As `anomalies list` shows it.", show_default=False)]
Dataset = Annotated[str | None, typer.Option(help="Only of this dataset.", show_default=False)]
Type = Annotated[
    list[str] | None, typer.Option("--type", help="Such as RowCountDrop; may be repeated.", show_default=False)
]
Severity = Annotated[
    list[str] | None, typer.Option(help="INFO, WARNING or CRITICAL; may be repeated.", show_default=False)
]
Status = Annotated[
    list[str] | None, typer.Option(help="OPEN, RESOLVED and so on; may be repeated.", show_default=False)
]
Job = Annotated[str | None, typer.Option(help="Only of this job.", show_default=False)]
Column = Annotated[str | None, typer.Option(help="Only of this column.", show_default=False)]
Run = Annotated[str | None, typer.Option(help="Only of this run.", show_default=False)]
Hours = Annotated[int | None, typer.Option(min=1, help="Only of the last hours.", show_default=False)]
Notes = Annotated[str | None, typer.Option(help="What there is to say about it.", show_default=False)]
Expected = Annotated[
    Expect | None, typer.Option(help="Expect such values on that day, or on that day every week.", show_default=False)
]


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    column = f".{item['column']}" if item["column"] else ""
    partition = f" [{item['partition_key']}]" if item["partition_key"] else ""
    value = _value(item["actual_value"], item["metric"])
    measured = f", {value}" if item["metric"] and value else ""
    where = f"{_about(item)}{column}{partition}{measured}, {item['status'].lower()}"
    return item["id"], minute(item["detected_at"]), f"{item['severity'].lower()} {item['type']}\n{where}"


def _about(item: dict[str, Any]) -> str:
    if item["dataset"]:
        return str(item["dataset"]["display_name"])
    return str(item["job"]["name"]) if item["job"] else ""


_show_page = ask.show_page(
    ("anomaly", "found", "what and where"), _row, "nothing out of the ordinary", whole=("anomaly", "found")
)


@ask.question(app, "list", show=_show_page)
def list_anomalies(
    dataset: Dataset = None,
    type_: Type = None,
    severity: Severity = None,
    status: Status = None,
    job: Job = None,
    column: Column = None,
    run: Run = None,
    hours: Hours = None,
    limit: ask.Limit = 50,
) -> Question:
    """List anomalies, the latest first."""
    from headgate.client import anomalies

    return anomalies.anomalies(
        limit,
        dataset=dataset,
        type=type_,
        severity=severity and [each.upper() for each in severity],
        status=status and [each.upper() for each in status],
        job=job,
        column=column,
        run=run,
        hours=hours,
    )


def _show(found: dict[str, Any]) -> None:
    where, job = found["dataset"], found["job"]
    rows = [
        ("anomaly", found["id"]),
        ("what", f"{found['type']}, {found['severity']}, {found['status'].lower()}"),
        ("why", found["description"]),
        ("dataset", where["urn"] if where else ""),
        ("column", found["column"]),
        ("partition", found["partition_key"]),
        ("job", f"{job['namespace']}/{job['name']}" if job else found["job_name"]),
        ("run", found["run_id"]),
        ("measured", _value(found["actual_value"], found["metric"])),
        ("expected", _band(found["expected_value"], found["metric"])),
        ("off by", _score(found["deviation_score"])),
        ("observed", moment(found["observed_at"])),
        ("found", f"{moment(found['detected_at'])} by the {found['source']}"),
        ("incident", found["incident_id"]),
    ]
    rows += [("changed", _change(change)) for change in found["changes"]]
    told = [(name, value) for name, value in rows if value]
    indent = max(len(name) for name, _ in told) + 4
    console.pairs([(name, _wrapped(value, indent) if name in _WRAPPED else value) for name, value in told])


def _wrapped(text: str, indent: int) -> str:
    lines = textwrap.wrap(text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False)
    return f"\n{' ' * indent}".join(lines)


def _value(told: dict[str, Any] | None, metric: str | None) -> str:
    known = {name: each for name, each in (told or {}).items() if each is not None}
    value = known.get("value")
    if isinstance(value, int | float):
        return _amount(value, metric)
    return ", ".join(f"{name} {each}" for name, each in known.items())


def _band(told: dict[str, Any] | None, metric: str | None) -> str:
    low, high = (told or {}).get("low"), (told or {}).get("high")
    if low is None or high is None:
        return _value(told, metric)
    return f"{_amount(low, metric)} to {_amount(high, metric)}"


def _amount(value: float, metric: str | None) -> str:
    """A value as sentences say it; of what is not known to us, as it is."""
    from headgate.domain.amount import amount
    from headgate.domain.verdict import Metric

    known = {each.value: each for each in Metric}.get(metric or "")
    return f"{value:,.6g}" if known is None else amount(known, value)


def _score(score: float | None) -> str:
    return "" if score is None else f"{score:+.1f} standard deviations"


def _change(change: dict[str, Any]) -> str:
    notes = f": {change['notes']}" if change["notes"] else ""
    return f"{moment(change['at'])} to {change['to'].lower()} by {change['by'] or 'nobody'}{notes}"


@ask.question(app, show=_show)
def show(anomaly: Anomaly) -> Question:
    """Show one anomaly: what was measured, what was expected, and why it matters."""
    from headgate.client import anomalies

    return anomalies.anomaly(anomaly)


def _show_changed(found: dict[str, Any]) -> None:
    console.say(f"{found['type']} of {_about(found) or found['run_id']} is {found['status'].lower()}")


def _changed(anomaly: str, status: str, notes: str | None, expect: Expect | None = None) -> Question:
    from headgate.client import anomalies

    mark = None if expect is None else {"kind": expect.value}
    return anomalies.change_anomaly(anomaly, status=status, notes=notes, expect=mark)


@ask.question(app, show=_show_changed)
def ack(anomaly: Anomaly, notes: Notes = None) -> Question:
    """Say that somebody is looking at it."""
    return _changed(anomaly, "ACKNOWLEDGED", notes)


@ask.question(app, show=_show_changed)
def resolve(anomaly: Anomaly, notes: Notes = None, expect: Expected = None) -> Question:
    """Say that it is dealt with."""
    return _changed(anomaly, "RESOLVED", notes, expect)


@ask.question(app, "false-positive", show=_show_changed)
def false_positive(anomaly: Anomaly, notes: Notes = None, expect: Expected = None) -> Question:
    """Say that it was none: the value becomes a part of what is usual."""
    return _changed(anomaly, "FALSE_POSITIVE", notes, expect)


def _show_expected(found: dict[str, Any]) -> None:
    console.say(f"such values of {_about(found) or found['run_id']} are expected")


@ask.question(app, show=_show_expected)
def expect(
    anomaly: Anomaly,
    on: Annotated[
        Expect | None, typer.Option("--on", help="That day, or that day every week.", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Until when, such as 2026-12-24 or 2026-12-24T18:00, in UTC.", show_default=False)
    ] = None,
    all_metrics: Annotated[bool, typer.Option("--all-metrics", help="Whatever is measured of the same data.")] = False,
    notes: Notes = None,
) -> Question:
    """Say that values as high, or as low, are to be expected; that day, if nothing else is said."""
    from headgate.client import anomalies

    if on is not None and until is not None:
        raise typer.BadParameter("give --on or --until, not both", param_hint="--until")
    mark: dict[str, Any] = {"kind": (on or Expect.once).value, "all_metrics": all_metrics}
    if until is not None:
        mark |= {"kind": "until", "until": _end(until).isoformat()}
    return anomalies.change_anomaly(anomaly, notes=notes, expect=mark)


def _end(until: str) -> datetime:
    try:
        at = datetime.fromisoformat(until)
    except ValueError:
        raise typer.BadParameter(
            f"{until!r} is no date; give one such as 2026-12-24 or 2026-12-24T18:00", param_hint="--until"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _policy_row(item: dict[str, Any]) -> tuple[str, ...]:
    from headgate.domain.verdict import DEFAULT

    usual = vars(DEFAULT) | {"enabled": True}
    others = [f"{name} {item[name]}" for name in usual if name != "enabled" and item[name] != usual[name]]
    how = ", ".join(others) or "as usual" if item["enabled"] else "not judged"
    return item["id"], f"{item['dataset']}, {item['metric'] or 'all metrics'}\n{how}"


_show_policies = ask.show_page(
    ("policy", "what and how"), _policy_row, "everything is judged as usual", whole=("policy",)
)


@ask.question(app, show=_show_policies)
def policies(limit: ask.Limit = 50) -> Question:
    """List how series are judged where that is not the default."""
    from headgate.client import anomalies

    return anomalies.detection_policies(limit=limit)
