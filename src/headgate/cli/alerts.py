"""`headgate alerts`: who is told what, what was sent, and whether it gets there."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, TypeAlias, TypedDict, Unpack

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, minute

app = ask.group("Say who is told what, and see what was sent.")

SECRET = "HEADGATE_ALERT_SECRET"
PASSWORD = "HEADGATE_SMTP_PASSWORD"
NONE = "none"

Rule = Annotated[
    str, typer.Argument(metavar="RULE", help="The name or the id, as `alerts rules` shows it.", show_default=False)
]
Text: TypeAlias = str | None


class Options(TypedDict):
    """What can be said of a rule when it is made, and changed later."""

    description: Annotated[Text, typer.Option(help="What it is for.", show_default=False)]
    dataset: Annotated[Text, typer.Option(help="A name, prefix_* or *.", show_default=False)]
    kind: Annotated[Text, typer.Option(help="Such as RowCountDrop, on_* or *.", show_default=False)]
    severity: Annotated[Text, typer.Option(help="CRITICAL, WARNING, INFO, or any.", show_default=False)]
    owner: Annotated[Text, typer.Option(help="Datasets of this owner.", show_default=False)]
    tag: Annotated[Text, typer.Option(help="Datasets with this tag.", show_default=False)]
    window: Annotated[int | None, typer.Option(min=0, help="Minutes until the same is told again.", show_default=False)]
    per_minute: Annotated[int | None, typer.Option(min=0, help="Messages at most; 0: any.", show_default=False)]
    per_hour: Annotated[int | None, typer.Option(min=0, help="Messages at most; 0: any.", show_default=False)]
    quiet: Annotated[Text, typer.Option(metavar="HH:MM-HH:MM", help="Quiet hours, or none.", show_default=False)]
    timezone: Annotated[Text, typer.Option(help="Of --quiet, such as Europe/Berlin; else UTC.", show_default=False)]
    critical_passes: Annotated[
        bool | None, typer.Option(help="Whether CRITICAL is told in --quiet; else it is.", show_default=False)
    ]
    cc: Annotated[list[str] | None, typer.Option(help="Also to, of mails; none takes it off.", show_default=False)]
    subject: Annotated[Text, typer.Option(help="Of mails, such as [{severity}] {title}; or none.", show_default=False)]
    sign: Annotated[
        bool | None,
        typer.Option(
            "--sign/--no-sign",
            help=f"Sign what webhooks get; the secret is {SECRET}, or asked for.",
            show_default=False,
        ),
    ]


def _wants(item: dict[str, Any]) -> str:
    """What a rule wants to hear of, in a few words."""
    parts = [item["severity"], item["anomaly_type"] or "all", f"of {item['dataset_name'] or 'all datasets'}"]
    parts += [f"owner {item['owner']}" if item["owner"] else None, f"tag {item['tag']}" if item["tag"] else None]
    return " ".join(part for part in parts if part)


def _target(item: dict[str, Any]) -> str:
    config = item["channel_config"]
    return f"{item['channel_type']} {config.get('channel') or config.get('webhook_url') or _listed(config)}".strip()


def _listed(config: dict[str, Any]) -> str:
    return ", ".join(config.get("email_to") or [])


def _rule_row(item: dict[str, Any]) -> tuple[str, ...]:
    return item["name"], _wants(item), _target(item), "on" if item["enabled"] else "off", item["id"]


_show_rules = ask.show_page(
    ("name", "hears", "by", "", "rule"), _rule_row, "no rules yet; `alerts create` makes one", whole=("rule",)
)


@ask.question(app, "rules", show=_show_rules)
def list_rules(limit: ask.Limit = 100) -> Question:
    """List the alert rules, the newest first."""
    from headgate.client import alerts

    return alerts.alert_rules(limit=limit)


def _alert_row(item: dict[str, Any]) -> tuple[str, ...]:
    outcome = f"{item['status']} ({item['reason']})" if item["reason"] else item["status"]
    what = f"{item['title']}\n{item['error_message']}" if item["error_message"] else item["title"]
    # A sample of a channel that is no rule yet has none, and so has what a run of a pipeline sent itself.
    without = "sample" if item["type"] == "TestAlert" else item["source"]
    return minute(item["sent_at"]), item["rule_name"] or without, item["channel_type"], outcome, what


_show_history = ask.show_page(
    ("when", "rule", "by", "outcome", "what"), _alert_row, "nothing was sent", whole=("when", "by")
)


@ask.question(app, show=_show_history)
def history(
    rule: Annotated[str | None, typer.Option(help="Only of this rule: its name or id.", show_default=False)] = None,
    status: Annotated[str | None, typer.Option(help="SENT, FAILED or DEDUPLICATED.", show_default=False)] = None,
    channel: Annotated[str | None, typer.Option(help="EMAIL, SLACK, TEAMS or WEBHOOK.", show_default=False)] = None,
    dataset: Annotated[str | None, typer.Option(help="Only of this dataset.", show_default=False)] = None,
    since: Annotated[str | None, typer.Option(help="Not before this time (ISO 8601).", show_default=False)] = None,
    hours: Annotated[int | None, typer.Option(min=1, help="Within the last hours.", show_default=False)] = None,
    limit: ask.Limit = 50,
) -> Question:
    """List what was sent, held back or failed, the newest first."""
    from headgate.client import alerts

    return alerts.alert_history(
        rule=rule,
        status=status.upper() if status else None,
        channel_type=channel.upper() if channel else None,
        dataset=dataset,
        since=since,
        hours=hours,
        limit=limit,
    )


def _show_test(answer: dict[str, Any]) -> None:
    said = answer["response_payload"] or {}
    console.say(f"{answer['status']} by {answer['channel_type']}")
    for name, value in said.items():
        console.say(f"  {name}: {value}")
    if answer["error_message"]:
        console.say(f"  {answer['error_message']}")


@ask.question(app, show=_show_test)
def test(rule: Rule) -> Question:
    """Send a sample by the channel of a rule, and show what the provider answers."""
    from headgate.client import alerts

    return alerts.send_test_alert(rule)


def _show_preview(answer: dict[str, Any]) -> None:
    rows = [
        (minute(item["at"]), item["severity"], item["reason"] or "would be sent", item["message"])
        for item in answer["items"][:50]
    ]
    if rows:
        console.table(("when", "severity", "outcome", "what"), rows, whole=("when", "severity"))
    held = ", ".join(f"{number} by {reason}" for reason, number in answer["held_back"].items())
    console.say(
        f"{ask.count(answer['would_send'], 'message')} of {answer['matched']} in {ask.count(answer['days'], 'day')}"
        + (f"; held back: {held}" if held else "")
    )


@ask.question(app, show=_show_preview)
def preview(rule: Rule, days: Annotated[int, typer.Option(min=1, max=90, help="How far back.")] = 30) -> Question:
    """Show what a rule would have sent. Nothing is sent."""
    from headgate.client import alerts

    return alerts.preview_alert_rule(rule, days=days)


def _show_made(answer: dict[str, Any]) -> None:
    console.say(answer["id"])
    console.note(f"{answer['name']!r} tells {_target(answer)} of {_wants(answer)}")
    console.note(f"`headgate alerts test {answer['id']}` sends a sample")


@ask.question(app, show=_show_made)
def create(
    name: Annotated[str, typer.Argument(help="What to call it.", show_default=False)],
    channel: Annotated[str, typer.Option(help="slack, teams, webhook or email.", show_default=False)],
    to: Annotated[
        list[str],
        typer.Option(
            envvar="HEADGATE_ALERT_TO", help="URL of a webhook, or addresses; a URL is a secret.", show_default=False
        ),
    ],
    **options: Unpack[Options],
) -> Question:
    """Make a rule."""
    from headgate.client import alerts

    kind_of_channel = channel.upper()
    config = _target_of(kind_of_channel, to) | _channel_parts(options)
    return alerts.add_alert_rule(name, kind_of_channel, config, **_fields(options))


def _fields(options: Options) -> dict[str, Any]:
    """What was given of a rule, as the server calls it; but for its channel."""
    severity = options["severity"]
    given = {
        "description": options["description"],
        "dataset_name": options["dataset"],
        "anomaly_type": options["kind"],
        "severity": severity and severity.upper(),
        "owner": options["owner"],
        "tag": options["tag"],
        "deduplication_minutes": options["window"],
        "max_per_minute": options["per_minute"],
        "max_per_hour": options["per_hour"],
        "quiet_hours": _quiet_hours(options["quiet"], options["timezone"], options["critical_passes"]),
    }
    return {name: None if (name, value) in _NULLS else value for name, value in given.items() if value is not None}


def _target_of(channel: str, to: list[str]) -> dict[str, Any]:
    if channel == "EMAIL":
        return {"email_to": to}
    if len(to) > 1:
        raise typer.BadParameter(
            f"a rule for {channel.lower()} has one URL, and {len(to)} are given; make a rule for each",
            param_hint="--to",
        )
    return {"webhook_url": to[0]}


def _channel_parts(options: Options) -> dict[str, Any]:
    """What of the channel is given; `none` and `--no-sign` take off."""
    cc, subject, sign = options["cc"], options["subject"], options["sign"]
    found: dict[str, Any] = {}
    if cc:
        found["email_cc"] = [] if cc == [NONE] else cc
    if subject is not None:
        found["subject_template"] = None if subject == NONE else subject
    if sign is not None:
        found["secret"] = _secret(SECRET, "Signing secret") if sign else None
    return found


def _secret(variable: str, words: str) -> str:
    """From the environment or typed in: what is on a command line stays in the history of the shell."""
    return os.environ.get(variable) or str(typer.prompt(words, hide_input=True, err=True))


def _quiet_hours(quiet: str | None, timezone: str | None, critical_passes: bool | None) -> dict[str, Any] | str | None:
    if quiet is None or quiet == NONE:
        if timezone is not None or critical_passes is not None:
            raise typer.BadParameter("goes with --quiet HH:MM-HH:MM", param_hint="--timezone, --critical-passes")
        return quiet
    found = re.fullmatch(r"(\d\d:\d\d)-(\d\d:\d\d)", quiet)
    if found is None:
        raise typer.BadParameter(f"{quiet!r} is no span of time; write it as 22:00-07:00", param_hint="--quiet")
    hours = {"from": found[1], "to": found[2], "timezone": timezone or "UTC"}
    return hours | {"critical_passes": critical_passes is not False}


# What the server knows as null.
_NULLS = (("severity", "ANY"), ("max_per_minute", 0), ("max_per_hour", 0), ("quiet_hours", NONE))


def _show_switched(answer: dict[str, Any]) -> None:
    console.say(f"{answer['name']!r} is {'on' if answer['enabled'] else 'off'}")


@ask.question(app, show=_show_switched)
def enable(rule: Rule) -> Question:
    """Turn a rule on."""
    from headgate.client import alerts

    return alerts.switch_alert_rule(rule, True)


@ask.question(app, show=_show_switched)
def disable(rule: Rule) -> Question:
    """Turn a rule off; what happens meanwhile is not told later."""
    from headgate.client import alerts

    return alerts.switch_alert_rule(rule, False)


def _show_changed(answer: dict[str, Any]) -> None:
    console.say(f"{answer['name']!r} tells {_target(answer)} of {_wants(answer)}")


@ask.question(app, show=_show_changed)
def change(
    rule: Rule,
    name: Annotated[Text, typer.Option(help="Another name.", show_default=False)] = None,
    **options: Unpack[Options],
) -> Question:
    """Change what a rule hears of, how often, and how it says it. For another place, make another rule."""
    from headgate.client import alerts

    given = {"name": name, "channel_config": _channel_parts(options) or None}
    said = {key: value for key, value in given.items() if value is not None}
    return alerts.adjust_alert_rule(rule, **said, **_fields(options))


def _show_deleted(_: object, rule: str) -> None:
    console.say(f"{rule} is gone; what it sent stays in `alerts history`")


@ask.question(app, show=_show_deleted)
def delete(rule: Rule) -> Question:
    """Remove a rule. What it sent stays in the history."""
    from headgate.client import alerts

    return alerts.remove_alert_rule(rule)


def _show_email(answer: dict[str, Any]) -> None:
    for name in ("backend", "host", "port", "tls", "username", "password", "from", "subject_template"):
        if answer[name] is not None:
            console.say(f"{name}: {answer[name]}")
    for name in ("email_to", "email_cc"):
        if answer[name]:
            console.say(f"{name}: {', '.join(answer[name])}")


@ask.question(app, show=_show_email)
def email(
    backend: Annotated[Text, typer.Option(help="console, smtp or gmail.", show_default=False)] = None,
    host: Annotated[Text, typer.Option(help="Of the mail server.", show_default=False)] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, show_default=False)] = None,
    tls: Annotated[Text, typer.Option(help="starttls, tls or none.", show_default=False)] = None,
    username: Annotated[
        Text, typer.Option(help=f"Who logs in; the password is {PASSWORD}, or asked for.", show_default=False)
    ] = None,
    keep_password: Annotated[bool, typer.Option("--keep-password", help="Use the one that is stored.")] = False,
    from_: Annotated[Text, typer.Option("--from", help="The user, if not given.", show_default=False)] = None,
    to: Annotated[list[str] | None, typer.Option(help="For rules that name nobody.", show_default=False)] = None,
    cc: Annotated[list[str] | None, typer.Option(help="The same.", show_default=False)] = None,
    subject: Annotated[Text, typer.Option(help="The same.", show_default=False)] = None,
) -> Question:
    """Show how mails are sent, or set all of it with --backend. It takes a key with the scope admin."""
    from headgate.client import alerts

    given = {"host": host, "port": port, "tls": tls, "username": username, "from": from_, "email_to": to}
    given |= {"email_cc": cc, "subject_template": subject}
    fields = {name: value for name, value in given.items() if value}
    if backend is None:
        if fields:
            raise typer.BadParameter("say which one, as all settings are set at once", param_hint="--backend")
        return alerts.email_settings()
    if username and not keep_password:
        fields["password"] = _secret(PASSWORD, f"Password of {username}")
    return alerts.set_email_settings(backend.lower(), **fields)
