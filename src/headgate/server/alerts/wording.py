"""What an alert says: the message for people, the fields for programs, and what a mail shows besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import UUID

from headgate.domain.amount import amount
from headgate.domain.incident import Outright
from headgate.domain.verdict import Metric
from headgate.messages.email import Mail, subject_of
from headgate.messages.message import CRITICAL, GOOD, INFO, WARNING, Button, Fact, Look, Message
from headgate.messages.text import number
from headgate.pipelines.alerts.payloads import fields_of, message_of
from headgate.server.alerts.occasions import IncidentFacts, Occasion
from headgate.server.alerts.rules import TEST_TYPE

_LOOKS = {"CRITICAL": CRITICAL, "WARNING": WARNING, "INFO": INFO}
_DOWNSTREAM = "Downstream"
_METRICS = {
    "row_count": "Row count",
    "byte_size": "Size",
    "duration_ms": "Duration",
    "null_share": "Null share",
    "distinct_count": "Distinct values",
    "rows_quarantined": "Rows quarantined",
}
# What late writes and stuck runs are measured by, in the order in which it is said.
_SAID = {
    "written_by": "written by {}",
    "sla_hours": "at most {} h old",
    "last_write_at": "last written {}",
    "known_since": "never written, known since {}",
    "state": "{}",
    "started_at": "started {}",
}


@dataclass(frozen=True)
class Letter:
    """One alert in every form that a channel may want."""

    occasion: Occasion
    message: Message
    public_url: str | None
    held_back: int = 0

    @property
    def title(self) -> str:
        return self.message.title

    def after(self, held_back: int) -> Letter:
        """The same, saying how many alerts before it the limits of the rule have held back."""
        if not held_back:
            return self
        word = "alert" if held_back == 1 else "alerts"
        fact = Fact("🔕", "Not Told", f"{held_back:,} earlier {word} of this rule, because of its limits")
        message = replace(self.message, facts=(fact, *self.message.facts))
        return replace(self, message=message, held_back=held_back)

    def fields(self, delivery_id: UUID) -> dict[str, Any]:
        """What a webhook gets. Fields may be added; none changes its name or meaning."""
        own = {"delivery_id": str(delivery_id), "held_back": self.held_back}
        return {**own, **_fields(self.occasion, self.message, self.public_url)}

    def mail(self, subject_template: str) -> Mail:
        occasion = self.occasion
        reach, curve = occasion.reach, occasion.curve
        # A mail has room for a list of its own.
        facts = tuple(fact for fact in self.message.facts if fact.title != _DOWNSTREAM)
        return Mail(
            message=replace(self.message, facts=facts),
            subject=subject_of(subject_template, _subject_values(occasion, self.message)),
            downstream=() if reach is None else reach.names,
            downstream_count=None if reach is None else reach.total,
            is_more=reach is not None and reach.is_more,
            series_name=None if curve is None else curve.name,
            series=() if curve is None else curve.values,
            amount=partial(_figure, occasion.anomaly.metric if occasion.anomaly else None),
        )


def letter_of(occasion: Occasion, public_url: str | None) -> Letter:
    """The alert, with links if the server knows how it is reached."""
    base = public_url.rstrip("/") if public_url else None
    message = _of_pipeline(occasion, base) if occasion.alert else _of_symptom(occasion, base)
    return Letter(occasion, message, base)


def metric_name(metric: str, column: str | None) -> str:
    name = _METRICS.get(metric, metric)
    return f"{name} of {column}" if column else name


def _of_symptom(occasion: Occasion, base: str | None) -> Message:
    look = _look(occasion)
    incident = occasion.incident
    return Message(
        title=f"{look.icon} HEADGATE: {occasion.name} - {occasion.type}",
        look=look,
        sentence=occasion.sentence,
        at=occasion.at,
        kind=occasion.type,
        heading=(*_subject(occasion), _how_bad(occasion)),
        owner=", ".join(occasion.dataset.owners) if occasion.dataset and occasion.dataset.owners else None,
        place=_place(occasion),
        facts=_facts(occasion),
        reasons=() if incident is None else _reasons(incident, occasion.sentence),
        reasons_title=_how_sure(incident),
        buttons=_buttons(occasion, base),
    )


def _of_pipeline(occasion: Occasion, base: str | None) -> Message:
    """As the run itself tells it, with what only the server knows."""
    assert occasion.alert is not None
    said = message_of(occasion.alert)
    dataset = (Fact("📦", "Dataset", occasion.dataset.urn),) if occasion.dataset else ()
    story = f"{base}/pipelines/{_segment(occasion.alert.pipeline)}/stories/{occasion.run_id}"
    own = (Button("📊 View Story", story),) if base and not occasion.alert.node else ()
    return replace(
        said,
        place=(*said.place, *dataset),
        facts=(*said.facts, *_downstream(occasion)),
        buttons=(*said.buttons, *own, *_buttons(occasion, base)),
    )


def _subject(occasion: Occasion) -> tuple[Fact, ...]:
    if occasion.dataset is not None:
        return (Fact("📦", "Dataset", occasion.dataset.urn),)
    return (Fact("📦", "Job", occasion.job[1]),) if occasion.job else ()


def _how_bad(occasion: Occasion) -> Fact:
    """How bad it is or, of what is over, who has ended it."""
    if occasion.end is None:
        return Fact("🚦", "Severity", occasion.severity)
    return Fact("✅", "Resolved by", occasion.end.by)


def _how_sure(incident: IncidentFacts | None) -> str:
    if incident is None or not incident.confidence:
        return "Likely Cause"
    return f"Likely Cause ({incident.confidence:.0%} sure)"


def _look(occasion: Occasion) -> Look:
    if occasion.end is not None:
        return GOOD
    return INFO if occasion.type == TEST_TYPE else _LOOKS[occasion.severity]


def _place(occasion: Occasion) -> tuple[Fact, ...]:
    found = [
        ("🧱", "Column", occasion.column, True),
        ("🧪", "Test", occasion.test_name, False),
        ("⚙️", _whose_job(occasion), occasion.job[1] if occasion.job and occasion.dataset else None, False),
    ]
    return tuple(Fact(icon, title, value, is_code) for icon, title, value, is_code in found if value)


def _whose_job(occasion: Occasion) -> str:
    """A test fails in one run and is about what another has written: the job is that of the other."""
    return "Written by" if occasion.type == Outright.TestFailed else "Job"


def _facts(occasion: Occasion) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    if (incident := occasion.incident) is not None:
        title = "" if incident.title in occasion.sentence else f" {incident.title}"
        facts.append(Fact("🚨", "Incident", f"#{incident.number}{title}"))
    if (anomaly := occasion.anomaly) is not None:
        if anomaly.actual is not None:
            facts.append(Fact("📈", "Found", _shown(anomaly.metric, anomaly.actual)))
        if anomaly.expected is not None:
            facts.append(Fact("🎯", "Expected", _shown(anomaly.metric, anomaly.expected)))
        if anomaly.score is not None:
            facts.append(Fact("📊", "Deviation", f"{anomaly.score:+.1f} standard deviations"))
    return (*facts, *_downstream(occasion))


def _downstream(occasion: Occasion) -> tuple[Fact, ...]:
    reach = occasion.reach
    if reach is None:
        return ()
    more = "at least " if reach.is_more else ""
    named = f": {', '.join(reach.names[:5])}" if reach.names else ""
    return (Fact("🌊", _DOWNSTREAM, f"{more}{reach.total} dataset{'' if reach.total == 1 else 's'}{named}"),)


def _shown(metric: str | None, value: object) -> str:
    """Bands, figures and times as people write them."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _figure(metric, value)
    if isinstance(value, Mapping) and value.get("low") is not None and value.get("high") is not None:
        return " to ".join(dict.fromkeys(_shown(metric, value[end]) for end in ("low", "high")))
    if isinstance(value, Mapping) and set(value) == {"value"}:
        return _shown(metric, value["value"])
    if isinstance(value, Mapping):
        names = [name for name in dict.fromkeys((*_SAID, *value)) if value.get(name) is not None]
        return ", ".join(_said(name, _shown(metric, value[name])) for name in names)
    if isinstance(value, list):
        return ", ".join(_shown(metric, each) for each in value)
    return _moment(value) if isinstance(value, str) else str(value)


def _said(name: str, value: str) -> str:
    return _SAID[name].format(value) if name in _SAID else f"{name.replace('_', ' ')} {value}"


def _figure(metric: str | None, value: float) -> str:
    """With its unit, as the sentence of the anomaly has it; clients may have metrics of their own."""
    return amount(Metric(metric), value) if metric in tuple(Metric) else number(value)


def _moment(text: str) -> str:
    """A time to the minute; any other text as it is.

    >>> _moment("2026-03-02T11:30:59+02:00"), _moment("RUNNING"), _moment("20260302")
    ('2026-03-02 09:30 UTC', 'RUNNING', '20260302')
    >>> _moment("0001-01-01T00:00:00+14:00")
    '0001-01-01T00:00:00+14:00'
    """
    try:
        found = datetime.fromisoformat(text)
        return text if found.tzinfo is None else f"{found.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):
        return text


def _reasons(incident: IncidentFacts, sentence: str) -> tuple[str, ...]:
    """The cause, and what speaks for it; nothing that the cause, or the message itself, says already."""
    cause = incident.root_cause
    said = f"{cause or ''}\n{sentence}".casefold()
    more = [each for each in dict.fromkeys(incident.evidence) if each.rstrip(" .").casefold() not in said]
    # What evidence says is said of somebody: "wrote 70% fewer rows".
    told = [f"{incident.blamed} {each}" if incident.blamed else each for each in more]
    return tuple(told) if cause is None else (_without_error(cause, sentence), *told)


def _without_error(cause: str, sentence: str) -> str:
    """Of a run that failed the message has the error already.

    >>> _without_error("Job 'load' at 10:00 failed: no disk.", "a run of load failed: no disk")
    "Job 'load' at 10:00 failed."
    """
    error = sentence.partition(": ")[2].strip(" .")
    return cause.replace(f": {error}", "", 1) if error else cause


def _links(occasion: Occasion, base: str | None) -> dict[str, str | None]:
    """As the paths of the web pages are."""
    found, incident = occasion.dataset, occasion.incident
    paths = {
        "incident": f"incidents/{incident.id}" if incident else None,
        "dataset": f"datasets/{_segment(found.namespace)}/{_segment(found.name)}" if found else None,
        "run": f"runs/{occasion.run_id}" if occasion.run_id else None,
    }
    return {name: f"{base}/{path}" if base and path else None for name, path in paths.items()}


def _segment(name: str) -> str:
    return quote(name, safe="")


def _buttons(occasion: Occasion, base: str | None) -> tuple[Button, ...]:
    run = "🧪 View Test Run" if occasion.type == Outright.TestFailed else "⚙️ View Run"
    words = {"incident": "🚨 View Incident", "dataset": "📦 View Dataset", "run": run}
    return tuple(Button(words[name], url) for name, url in _links(occasion, base).items() if url)


def _subject_values(occasion: Occasion, message: Message) -> dict[str, str]:
    return {
        "severity": "RESOLVED" if occasion.end else occasion.severity,
        "anomaly_type": occasion.type,
        "dataset_name": occasion.name,
        "title": message.title,
        "incident": f"#{occasion.incident.number}" if occasion.incident else "",
        "job_name": occasion.job[1] if occasion.job else "",
        "owner": message.owner or "",
    }


def _fields(occasion: Occasion, message: Message, base: str | None) -> dict[str, Any]:
    return {
        "event": occasion.type,
        "source_kind": str(occasion.source),
        "severity": occasion.severity,
        "title": message.title,
        "message": occasion.sentence,
        "at": occasion.at.isoformat(),
        "dataset": _dataset_fields(occasion),
        "column": occasion.column,
        "job": {"namespace": occasion.job[0], "name": occasion.job[1]} if occasion.job else None,
        "run_id": str(occasion.run_id) if occasion.run_id else None,
        "test_name": occasion.test_name,
        "anomaly": _anomaly_fields(occasion),
        "incident": _incident_fields(occasion),
        "downstream": _reach_fields(occasion),
        "links": _links(occasion, base),
        "pipeline_event": fields_of(occasion.alert) if occasion.alert else None,
    }


def _dataset_fields(occasion: Occasion) -> dict[str, Any] | None:
    found = occasion.dataset
    if found is None:
        return None
    told = {**found._asdict(), "id": str(found.id), "urn": found.urn}
    del told["names"]
    return told


def _anomaly_fields(occasion: Occasion) -> dict[str, Any] | None:
    found = occasion.anomaly
    return None if found is None else {**found._asdict(), "id": str(found.id)}


def _incident_fields(occasion: Occasion) -> dict[str, Any] | None:
    found, end = occasion.incident, occasion.end
    if found is None:
        return None
    told = {**found._asdict(), "id": str(found.id)}
    del told["blamed"]
    ended = {"resolved_by": end and end.by, "resolution": end and end.reason}
    return {**told, **ended, "resolved_at": occasion.at.isoformat() if end else None}


def _reach_fields(occasion: Occasion) -> dict[str, Any] | None:
    found = occasion.reach
    return None if found is None else {"count": found.total, "is_more": found.is_more, "nearest": found.names}
