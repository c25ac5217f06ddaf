"""`headgate incidents`: what is wrong, why, and what to do about it."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, minute, moment

app = ask.group("See what is wrong and why, and say what becomes of it.")

_WIDTH = 80
_SHOWN_SYMPTOMS = 10
_MUTE_DAYS = 30
_ACTIVE = ("open", "acknowledged")

Incident = Annotated[str, typer.Argument(metavar="INCIDENT", help="Its number or id.", show_default=False)]
Reason = Annotated[str | None, typer.Option("--reason", "-r", help="Why; it is kept.", show_default=False)]


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    return str(item["number"]), item["status"], item["severity"], minute(item["opened_at"]), item["title"]


_show_list = ask.show_page(
    ("#", "status", "severity", "opened", "what"), _row, "no incident fits", whole=("#", "status", "severity", "opened")
)


@ask.question(app, "list", show=_show_list)
def list_incidents(
    status: Annotated[
        list[str] | None,
        typer.Option(help="open, acknowledged, muted or resolved; several times for several.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Those that ended or are muted, too.")] = False,
    severity: Annotated[str | None, typer.Option(help="CRITICAL, WARNING or INFO.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(help="Such as TestFailed or RunFailed.", show_default=False)] = None,
    dataset: Annotated[str | None, typer.Option(help="Only on this dataset.", show_default=False)] = None,
    job: Annotated[str | None, typer.Option(help="Only on this job.", show_default=False)] = None,
    assignee: Annotated[str | None, typer.Option(help="Only of this person.", show_default=False)] = None,
    hours: Annotated[int | None, typer.Option(min=1, help="Seen within the last hours.", show_default=False)] = None,
    limit: ask.Limit = 50,
) -> Question:
    """List incidents that go on, the newest first."""
    from headgate.client import incidents

    return incidents.incidents(
        status=() if every else status or _ACTIVE,
        severity=severity,
        kind=kind,
        dataset=dataset,
        job=job,
        assignee=assignee,
        hours=hours,
        limit=limit,
    )


def _show(found: dict[str, Any]) -> None:
    _say(f"#{found['number']}  {found['title']}")
    cause = found["root_cause"] or "not known"
    rows = [
        ("status", _status(found)),
        ("severity", found["severity"]),
        ("opened", moment(found["opened_at"])),
        ("last seen", moment(found["last_seen_at"])),
        ("dataset", found["dataset_urn"]),
        ("column", found["column"]),
        ("job", found["job_name"]),
        ("run", found["run_id"]),
        ("part of", " > ".join(each["job_name"] or each["run_id"] for each in reversed(found["parents"]))),
        ("assignee", found["assignee"]),
    ]
    console.pairs([(name, value) for name, value in rows if value])
    console.say("cause")
    _say(f"{cause}{_sure(found)}", indent=2)
    _show_namesakes(found, indent=2)
    console.say("symptoms")
    for symptom in found["symptoms"][:_SHOWN_SYMPTOMS]:
        _say(f"{_mark(symptom)} {minute(symptom['observed_at'])}  {symptom['sentence']}{_times(symptom)}", indent=2)
    left = found["symptom_count"] - _SHOWN_SYMPTOMS
    if left > 0:
        console.say(f"  and {left} more")
    console.say("downstream")
    for line in _impact(found["impact"]):
        _say(line, indent=2)
    if found["notes"]:
        console.say("notes")
    for each in found["notes"]:
        _say(f"{minute(each['at'])}  {each['actor']}: {each['text']}", indent=2)
    console.note(f"`headgate incidents why {found['number']}` tells what speaks for the cause")


def _sure(found: dict[str, Any]) -> str:
    """How sure a cause is, if any is known."""
    return f" ({found['confidence']:.0%} sure)" if found["confidence"] else ""


def _show_namesakes(found: dict[str, Any], indent: int = 0) -> None:
    """For a dataset that no job is known to write, what it may be called by the job that does."""
    if found["namesakes"]:
        named = " or ".join(f"'{each['urn']}'" for each in found["namesakes"])
        _say(f"It may be {named} by another name;", indent)
        console.say(f"{' ' * indent}  `headgate aliases suggest` tells the rule that would say so")


def _impact(found: dict[str, Any]) -> list[str]:
    if not found["datasets"]:
        return ["nothing is known to be made of it"]
    more = " at least" if found["truncated"] else ""
    counts = f"{ask.count(found['datasets'], 'dataset')}{more}, {ask.count(found['jobs'], 'job')}"
    named = ", ".join(ask.label(each) for each in found["nearest"])
    lines = [f"{counts}; nearest: {named}"]
    return [*lines, f"owners: {', '.join(found['owners'])}"] if found["owners"] else lines


@ask.question(app, show=_show)
def show(incident: Incident) -> Question:
    """Show an incident: how it stands, its likely cause, its symptoms and what lies downstream."""
    from headgate.client import incidents

    return incidents.incident(incident)


def _show_why(found: dict[str, Any]) -> None:
    _say(f"{found['root_cause'] or 'nothing is known'}{_sure(found)}")
    _show_namesakes(found)
    for each in found["evidence"]:
        _say(f"+ {each['sentence']}", indent=2)
        if each["link"]:
            console.say(f"    {each['link']}")
    for each in found["explains"]:
        _say(f"> {_whose(each)}{each['sentence']}", indent=2)
    for each in found["rejected"]:
        who = (each["job"] or {}).get("name") or (each["dataset"] or {}).get("urn") or "?"
        _say(f"- not {who}: {each['reason']}", indent=2)


def _whose(fact: dict[str, Any]) -> str:
    name = (fact["dataset"] or {}).get("urn", "").rpartition("/")[2] or (fact["job"] or {}).get("name")
    return f"{name}: " if name else ""


@ask.question(app, show=_show_why)
def why(incident: Incident) -> Question:
    """Show what speaks for the cause, and what was rejected and why."""
    from headgate.client import incidents

    return incidents.incident_evidence(incident)


def _show_timeline(page: Any) -> None:
    for each in page.items:
        _say(f"{minute(each['at'])}  {each['sentence']}")
    if page.next_cursor:
        console.note(f"the first {len(page.items)} are shown; --limit shows more")


@ask.question(app, show=_show_timeline)
def timeline(incident: Incident, limit: ask.Limit = 100) -> Question:
    """Show what happened to it, in order, and who did it; notes, too."""
    from headgate.client import incidents

    return incidents.incident_timeline(incident, limit=limit)


def _show_change(found: dict[str, Any]) -> None:
    console.say(f"incident {found['number']} is {_status(found)}")


@ask.question(app, show=_show_change)
def ack(incident: Incident, reason: Reason = None) -> Question:
    """Say that somebody looks into it."""
    from headgate.client import incidents

    return incidents.set_incident_status(incident, "acknowledged", reason=reason)


@ask.question(app, show=_show_change)
def resolve(incident: Incident, reason: Reason = None) -> Question:
    """Say that it is over."""
    from headgate.client import incidents

    return incidents.set_incident_status(incident, "resolved", reason=reason)


@ask.question(app, show=_show_change)
def reopen(incident: Incident, reason: Reason = None) -> Question:
    """Say that it is not over, or end a mute."""
    from headgate.client import incidents

    return incidents.set_incident_status(incident, "open", reason=reason)


@ask.question(app, show=_show_change)
def mute(
    incident: Incident,
    days: Annotated[
        int | None, typer.Option(min=1, max=365, help="For how many days; 30, if nothing is said.", show_default=False)
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Until when, such as 2026-12-24 or 2026-12-24T18:00, in UTC.", show_default=False)
    ] = None,
    reason: Reason = None,
) -> Question:
    """Hear nothing more of it for some time."""
    from headgate.client import incidents

    return incidents.set_incident_status(incident, "muted", reason=reason, until=_end_of_mute(days, until).isoformat())


def _end_of_mute(days: int | None, until: str | None) -> datetime:
    if until is None:
        return datetime.now(UTC) + timedelta(days=days or _MUTE_DAYS)
    if days is not None:
        raise typer.BadParameter("give --days or --until, not both", param_hint="--until")
    try:
        at = datetime.fromisoformat(until)
    except ValueError:
        raise typer.BadParameter(
            f"{until!r} is no date; give one such as 2026-12-24 or 2026-12-24T18:00", param_hint="--until"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _show_assigned(found: dict[str, Any]) -> None:
    console.say(f"incident {found['number']} is {found['assignee'] or 'nobody'}'s")


@ask.question(app, show=_show_assigned)
def assign(
    incident: Incident,
    who: Annotated[str | None, typer.Argument(help="Whose it is; nobody's, if not given.", show_default=False)] = None,
) -> Question:
    """Give it to somebody."""
    from headgate.client import incidents

    return incidents.assign_incident(incident, who)


def _show_noted(found: dict[str, Any]) -> None:
    console.say(f"noted on incident {found['number']}")


@ask.question(app, show=_show_noted)
def note(
    incident: Incident, text: Annotated[str, typer.Argument(help="What to remember.", show_default=False)]
) -> Question:
    """Write something down about it."""
    from headgate.client import incidents

    return incidents.note_incident(incident, text)


def _status(found: dict[str, Any]) -> str:
    if found["merged_into"]:
        return f"merged into {found['merged_into']}"
    if found["muted_until"]:
        return f"muted until {minute(found['muted_until'])}"
    if found["resolved_at"]:
        because = f": {found['resolution']}" if found["resolution"] else ""
        return f"resolved by {found['resolved_by']}{because}"
    return str(found["status"])


def _mark(symptom: dict[str, Any]) -> str:
    return "✓" if symptom["cleared_at"] else "✗"


def _times(symptom: dict[str, Any]) -> str:
    return f" ({symptom['count']} times)" if symptom["count"] > 1 else ""


def _say(text: str, indent: int = 0) -> None:
    pad = " " * indent
    for line in textwrap.wrap(text, _WIDTH, initial_indent=pad, subsequent_indent=pad + "  ", break_on_hyphens=False):
        console.say(line)
