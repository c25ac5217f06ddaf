"""A message for a mailbox: one HTML part that every mail client shows, and a text part that says the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from functools import cache
from importlib.resources import files
from string import Formatter

from jinja2 import BaseLoader, Environment, StrictUndefined, Template

from headgate.messages import sparkline
from headgate.messages.message import Fact, Message, links
from headgate.messages.text import cut, line, number

DEFAULT_SUBJECT = "[{severity}] {anomaly_type} on {dataset_name}"
SUBJECT_FIELDS = ("severity", "anomaly_type", "dataset_name", "title", "incident", "job_name", "owner")
_SUBJECT_MAX = 200
_URL_MAX = 3000


@dataclass(frozen=True)
class Mail:
    """What a mail says beyond the message: whom it hits downstream, and how the metric went."""

    message: Message
    subject: str
    downstream: Sequence[str] = ()
    downstream_count: int | None = None
    is_more: bool = False
    series_name: str | None = None
    series: Sequence[float] = field(default_factory=tuple)
    # How a value of the series is written.
    amount: Callable[[float], str] = number


@dataclass(frozen=True)
class Envelope:
    """From whom to whom, as plain addresses; by `delivery_id` a mail that was sent twice is seen to be one."""

    sender: str
    to: Sequence[str]
    cc: Sequence[str]
    delivery_id: str
    at: datetime


def subject_of(template: str, values: Mapping[str, str]) -> str:
    """The subject with its fields filled in, in one line; only names are known, no attributes of anything.

    >>> subject_of("[{severity}] on {dataset_name}", {"severity": "CRITICAL", "dataset_name": "orders"})
    '[CRITICAL] on orders'
    """
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            parts.append(values.get(name, ""))
    return cut(line("".join(parts)), _SUBJECT_MAX)


def problem_of_subject(template: str) -> str | None:
    """What is wrong with the template of a subject, if anything is."""
    if not template.isprintable() or not template.strip():
        return "has to be one line of text"
    try:
        found = list(Formatter().parse(template))
    except ValueError as error:
        return f"has an odd brace: {error}"
    for _, name, form, conversion in found:
        if name is not None and name not in SUBJECT_FIELDS:
            return f"names the field {name!r}; known are {', '.join(SUBJECT_FIELDS)}"
        if form or conversion:
            return f"gives {name!r} a format; a field is {{{name}}} and nothing more"
    return None


def email(mail: Mail, envelope: Envelope) -> EmailMessage:
    """The mail, ready to be sent."""
    made = EmailMessage(policy=SMTP.clone(max_line_length=900))
    made["Subject"] = mail.subject
    made["From"] = envelope.sender
    made["To"] = ", ".join(envelope.to)
    if envelope.cc:
        made["Cc"] = ", ".join(envelope.cc)
    made["Date"] = format_datetime(envelope.at)
    made["Message-ID"] = f"<{envelope.delivery_id}@{envelope.sender.rpartition('@')[2]}>"
    made["X-Headgate-Delivery"] = envelope.delivery_id
    # No out-of-office replies to alerts.
    made["Auto-Submitted"] = "auto-generated"
    made.set_content(text_of(mail), cte="quoted-printable")
    made.add_alternative(html_of(mail), subtype="html", cte="quoted-printable")
    return made


def html_of(mail: Mail) -> str:
    """One table within the other with styles at each element: mail clients know no style sheets."""
    return _template("alert.html").render(
        mail=mail,
        message=mail.message,
        facts=_facts(mail.message),
        buttons=links(mail.message.buttons, _URL_MAX),
        bars=sparkline.bars(mail.series),
        height_px=sparkline.HEIGHT_PX,
        low=mail.amount(min(mail.series)) if mail.series else "",
        high=mail.amount(max(mail.series)) if mail.series else "",
        last=mail.amount(mail.series[-1]) if mail.series else "",
    )


def text_of(mail: Mail) -> str:
    """The same for those who read text."""
    said = mail.message
    lines = [said.title, "", said.sentence, ""]
    lines += [f"{fact.title}: {line(fact.value)}" for fact in _facts(said)]
    if said.reasons:
        lines += ["", f"{said.reasons_title}:", *(f"- {line(reason)}" for reason in said.reasons)]
    if mail.series:
        lines += ["", f"{mail.series_name}: {sparkline.blocks(mail.series)} (now {mail.amount(mail.series[-1])})"]
    if mail.downstream_count is not None:
        more = "at least " if mail.is_more else ""
        lines += ["", f"Downstream datasets: {more}{mail.downstream_count}", *(f"- {line(n)}" for n in mail.downstream)]
    lines += ["", *(f"{each.text}: {each.url}" for each in links(said.buttons, _URL_MAX)), "", said.footer, ""]
    return "\n".join(lines)


def _facts(message: Message) -> list[Fact]:
    return [
        *message.heading,
        *message.took,
        Fact("📅", "Time", message.timestamp),
        *message.whose,
        *message.facts,
    ]


@cache
def _templates() -> Environment:
    return Environment(
        loader=BaseLoader(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@cache
def _template(name: str) -> Template:
    text = files("headgate.messages").joinpath("templates", name).read_text(encoding="utf-8")
    return _templates().from_string(text)
