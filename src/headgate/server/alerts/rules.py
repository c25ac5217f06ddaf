"""What a rule wants to hear of, and when it has heard enough. Functions of values; knows no database and no channel."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headgate.domain.anomaly import Severity, read_type
from headgate.domain.incident import SYMPTOMS
from headgate.pipelines.config.alerts import AlertEvent

NEWS = ("IncidentReopened", "IncidentResolved")
PIPELINE_EVENTS = tuple(str(each) for each in AlertEvent)
TYPES = (*SYMPTOMS, *NEWS, *PIPELINE_EVENTS)
TEST_TYPE = "TestAlert"

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
# Stands in a urn for what a pattern leaves open; names have no such character.
_REST = "\ue000"
_CLOCK = re.compile(r"^([01]\d|2[0-3]):[0-5]\d$")


class Reason(StrEnum):
    """Why an alert was not sent, or how far one that is not there yet is."""

    window = "window"
    grouped = "grouped"
    throttled = "throttled"
    quiet_hours = "quiet_hours"
    muted = "muted"
    sending = "sending"
    retrying = "retrying"
    refused = "refused"
    gave_up = "gave_up"


class Source(StrEnum):
    """What there is to tell of."""

    symptom = "symptom"
    anomaly = "anomaly"
    incident = "incident"
    pipeline = "pipeline"


class QuietHours(NamedTuple):
    """When nobody wants to be woken, by the clock of a place."""

    begin: time
    end: time
    zone: ZoneInfo
    critical_passes: bool

    @classmethod
    def of(cls, stored: dict[str, Any]) -> QuietHours:
        begin, end = time.fromisoformat(stored["from"]), time.fromisoformat(stored["to"])
        return cls(begin, end, ZoneInfo(stored["timezone"]), stored["critical_passes"])

    def until(self, now: datetime) -> datetime | None:
        """When they are over, or None if it is none of them."""
        local = now.astimezone(self.zone)
        clock = local.time().replace(tzinfo=None)
        if not self._holds(clock):
            return None
        days = 0 if clock < self.end else 1
        over = datetime.combine(local.date() + timedelta(days=days), self.end, self.zone)
        # When clocks are changed a time comes twice or never: of its two readings the later one is ahead of us.
        return max(over.replace(fold=fold).astimezone(UTC) for fold in (0, 1))

    def _holds(self, clock: time) -> bool:
        if self.begin < self.end:
            return self.begin <= clock < self.end
        return clock >= self.begin or clock < self.end


@dataclass(frozen=True)
class Rule:
    """Whom to tell of what, and how often."""

    id: UUID
    name: str
    channel_type: str
    channel_config: dict[str, Any] = field(repr=False)
    dataset_name: str | None = None
    # What its name is, too, if it is a urn: as it is kept, and where the alias rules lead.
    spellings: tuple[str, ...] = ()
    anomaly_type: str | None = None
    severity: str | None = None
    owner: str | None = None
    tag: str | None = None
    deduplication_minutes: int = 60
    max_per_minute: int | None = None
    max_per_hour: int | None = None
    quiet_hours: QuietHours | None = None

    @property
    def window(self) -> timedelta:
        return timedelta(minutes=self.deduplication_minutes)


class About(NamedTuple):
    """What a rule looks at: the names of the dataset in every spelling, whose it is, and how it is tagged."""

    source: Source
    type: str
    severity: str
    names: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    is_muted: bool = False
    # That something is well again wakes nobody, however bad it was.
    is_good: bool = False


class Past(NamedTuple):
    """What the rule has told lately: of the same incident, of the same, by which alerts, and how much of all.

    Only what was as bad counts, or worse: that something gets worse is always told. Limits count everything.
    """

    grouped_at: datetime | None = None
    told_at: datetime | None = None
    in_minute: int = 0
    in_hour: int = 0
    grouped_by: UUID | None = None
    told_by: UUID | None = None

    def held_by(self, reason: Reason | None) -> UUID | None:
        """The alert that another is held back because of."""
        return {Reason.grouped: self.grouped_by, Reason.window: self.told_by}.get(reason) if reason else None


def fits(rule: Rule, about: About) -> bool:
    """Whether the rule wants to hear of it."""
    return (
        _wants(rule, about)
        and rule.severity in (None, about.severity)
        and _is_meant(rule, about.names)
        and (rule.owner is None or rule.owner.lower() in (each.lower() for each in about.owners))
        and (rule.tag is None or rule.tag in about.tags)
    )


def _wants(rule: Rule, about: About) -> bool:
    """All symptoms unless something is named; the news of incidents and pipelines have to be.

    Of an anomaly that is no symptom only those hear that ask for its type, or for what is as mild.
    """
    if rule.anomaly_type in (None, "*"):
        return about.source is Source.symptom or (about.source is Source.anomaly and rule.severity is not None)
    return _is_like(rule.anomaly_type, about.type)


def _is_meant(rule: Rule, names: Iterable[str]) -> bool:
    if rule.dataset_name in (None, "*"):
        return True
    patterns = (rule.dataset_name, *rule.spellings)
    return any(_is_like(pattern, name) for name in names for pattern in patterns)


def urn_of(pattern: str) -> str:
    """A pattern as a urn that can be read as any other; a server alone is all that is on it."""
    if not pattern.endswith("*"):
        return pattern
    begin = pattern[:-1]
    _, separator, server = begin.partition("://")
    return f"{begin}/{_REST}" if separator and "/" not in server else begin + _REST


def pattern_of(urn: str) -> str | None:
    """The pattern that such a urn is; None where more follows what is left open, which no pattern can say.

    A urn without a server is the beginning of all of its kind.
    """
    begin, mark, more = urn.partition(_REST)
    if not mark:
        return urn
    return None if more else f"{begin.removesuffix('/') if begin.endswith(':///') else begin}*"


def as_bad_as(severity: str) -> list[str]:
    """This severity and what is worse: what was told so lately is enough."""
    return [str(each) for each in Severity if each.rank >= Severity(severity).rank]


def _is_like(pattern: str | None, name: str) -> bool:
    """The name itself, or its beginning with a star."""
    if pattern is not None and pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return pattern == name


def held_back(rule: Rule, about: About, past: Past, now: datetime) -> Reason | None:
    """Why the rule is silent now, or None if it is to be told."""
    if about.is_muted:
        return Reason.muted
    if _is_quiet(rule, about, now):
        return Reason.quiet_hours
    if past.grouped_at is not None and now - past.grouped_at < rule.window:
        return Reason.grouped
    if past.told_at is not None and now - past.told_at < rule.window:
        return Reason.window
    if rule.max_per_minute is not None and past.in_minute >= rule.max_per_minute:
        return Reason.throttled
    if rule.max_per_hour is not None and past.in_hour >= rule.max_per_hour:
        return Reason.throttled
    return None


def back_at(rule: Rule, now: datetime) -> datetime | None:
    """When what the quiet hours hold back is looked at again; None if they hold nothing."""
    until = rule.quiet_hours.until(now) if rule.quiet_hours else None
    # However soon they are over: nothing comes back at once, and again and again.
    return None if until is None else max(now + MINUTE, until + timedelta(seconds=1))


def _is_quiet(rule: Rule, about: About, now: datetime) -> bool:
    hours = rule.quiet_hours
    passes = about.severity == Severity.CRITICAL and not about.is_good
    if hours is None or (hours.critical_passes and passes):
        return False
    return hours.until(now) is not None


def read_rule_type(text: str) -> str | None:
    """The type as we spell it; a beginning with a star stays as it is; None for one that there is not.

    >>> read_rule_type("SCHEMA_CHANGE"), read_rule_type("on_*"), read_rule_type("testfailed"), read_rule_type("x*")
    ('SchemaChange', 'on_*', 'TestFailed', None)
    """
    if text.endswith("*"):
        return text if any(each.startswith(text[:-1]) for each in TYPES) else None
    known = read_type(text)
    if known is not None:
        return str(known)
    plain = text.replace("_", "").lower()
    return next((each for each in TYPES if each.replace("_", "").lower() == plain), None)


def problem_of_hours(begin: str, end: str, zone: str) -> tuple[str, str] | None:
    """The field that is wrong, and why."""
    for name, text in (("from", begin), ("to", end)):
        if not _CLOCK.match(text):
            return name, "is no time of day: write it as 22:00"
    if begin == end:
        return "to", "is the same as `from`: leave quiet_hours out, or turn the rule off if it is never to be told"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "timezone", "is no time zone: write it as Europe/Berlin or UTC"
    return None
