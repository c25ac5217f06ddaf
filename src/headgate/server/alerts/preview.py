"""What a rule would have sent: the past played again, with the same decisions."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import heapify, heappop, heappush
from itertools import count
from typing import NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.anomaly import AnomalyType
from headgate.domain.incident import SYMPTOMS
from headgate.pipelines.alerts.events import alert_of_whole, alerts_within_node
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.record import NodeRecord, Status
from headgate.server.alerts.occasions import DatasetFacts, Occasion, of_anomaly, of_news, of_pipeline, of_symptom
from headgate.server.alerts.rules import (
    HOUR,
    MINUTE,
    NEWS,
    PIPELINE_EVENTS,
    Past,
    Reason,
    Rule,
    Source,
    as_bad_as,
    back_at,
    fits,
    held_back,
)
from headgate.server.alerts.store import AlertStore, plain
from headgate.server.db.pool import Record

MAX_OCCASIONS = 5000
MAX_RECORDS = 1000
ANOMALIES = tuple(AnomalyType)
_NEWS = {"reopened": "IncidentReopened", "resolved": "IncidentResolved"}


class Happened(NamedTuple):
    """What there was to tell, since when, and until when it was so."""

    at: datetime
    occasion: Occasion
    over_at: datetime | None = None


# What happened, and whether there was more of it than is looked at.
Told = tuple[list[Happened], bool]


class Played(NamedTuple):
    """One alert: when it would have been sent, and why not if it would not; `was_held` by quiet hours before."""

    at: datetime
    occasion: Occasion
    reason: Reason | None
    was_held: bool = False


def play(rule: Rule, happened: Iterable[Happened], now: datetime) -> Iterator[Played]:
    """What the rule would have made of these until now, in the order of time."""
    # When something of a severity was told last.
    by_incident: defaultdict[UUID | None, dict[str, datetime]] = defaultdict(dict)
    by_subject: defaultdict[tuple[str, str], dict[str, datetime]] = defaultdict(dict)
    sent: deque[datetime] = deque()
    for each, was_held in _in_turn(rule, happened, now):
        at, occasion = each.at, each.occasion
        while sent and at - sent[0] >= HOUR:
            sent.popleft()
        incident = occasion.incident.id if occasion.incident and occasion.source is Source.symptom else None
        severity, subject = occasion.severity, (occasion.subject, occasion.type)
        past = Past(
            grouped_at=_last(by_incident[incident], severity) if incident else None,
            told_at=_last(by_subject[subject], severity),
            in_minute=sum(1 for each in sent if at - each < MINUTE),
            in_hour=len(sent),
        )
        reason = held_back(rule, occasion.about, past, at)
        if reason is None:
            sent.append(at)
            by_subject[subject][severity] = by_incident[incident][severity] = at
        yield Played(at, occasion, reason, was_held)


def _last(told: Mapping[str, datetime], severity: str) -> datetime | None:
    """When something as bad was told last, or something worse."""
    return max((told[each] for each in as_bad_as(severity) if each in told), default=None)


def _in_turn(rule: Rule, happened: Iterable[Happened], now: datetime) -> Iterator[tuple[Happened, bool]]:
    """What the rule hears of and when; what quiet hours hold back comes once more when they are over, if it is not."""
    order = count()
    ahead = [(each.at, next(order), each, False) for each in happened if fits(rule, each.occasion.about)]
    heapify(ahead)
    while ahead:
        at, _, each, was_held = heappop(ahead)
        if was_held and each.over_at is not None and each.over_at <= at:
            continue
        yield each, was_held
        if held_back(rule, each.occasion.about, Past(), at) is Reason.quiet_hours:
            back = back_at(rule, at)
            if back is not None and back <= now:
                heappush(ahead, (back, next(order), each._replace(at=back), True))


async def occasions_since(store: AlertStore, rule: Rule, since: datetime) -> Told:
    """What the rule may have heard of, and whether there was too much of it to look at."""
    sources = [read for types, read in _SOURCES if _may_be(rule, types)]
    parts = [await read(store, since) for read in sources]
    found = sorted((each for part, _ in parts for each in part), key=lambda each: each.at)
    return found, any(is_cut for _, is_cut in parts)


def _may_be(rule: Rule, types: Sequence[str]) -> bool:
    pattern = rule.anomaly_type or "*"
    if pattern == "*":
        return types is SYMPTOMS or (types is ANOMALIES and rule.severity is not None)
    return any(each.startswith(pattern[:-1]) if pattern.endswith("*") else each == pattern for each in types)


async def _of_symptoms(store: AlertStore, since: datetime) -> Told:
    rows = await store.symptoms(since, MAX_OCCASIONS + 1)
    known = await store.datasets([row["dataset_id"] for row in rows if row["dataset_id"]])
    found = [
        Happened(row["at"], of_symptom(plain(row), known.get(row["dataset_id"])), row["over_at"])
        for row in rows[:MAX_OCCASIONS]
    ]
    return found, len(rows) > MAX_OCCASIONS


async def _of_anomalies(store: AlertStore, since: datetime) -> Told:
    rows = await store.anomalies(since, MAX_OCCASIONS + 1)
    known = await store.datasets([row["dataset_id"] for row in rows if row["dataset_id"]])
    found = [
        Happened(row["at"], of_anomaly(plain(row), known.get(row["dataset_id"])), row["over_at"])
        for row in rows[:MAX_OCCASIONS]
    ]
    return found, len(rows) > MAX_OCCASIONS


async def _of_news(store: AlertStore, since: datetime) -> Told:
    rows = await store.news(since, MAX_OCCASIONS + 1)
    known = await store.datasets([row["dataset_id"] for row in rows if row["dataset_id"]])
    found = [
        Happened(row["at"], of_news(plain(row), _NEWS[row["event"]], known.get(row["dataset_id"])), row["over_at"])
        for row in rows[:MAX_OCCASIONS]
    ]
    return found, len(rows) > MAX_OCCASIONS


async def _of_pipelines(store: AlertStore, since: datetime) -> Told:
    nodes = await store.told_nodes(since, MAX_RECORDS + 1)
    runs = await store.told_pipelines(since, MAX_RECORDS + 1)
    targets = {row["output_urn"] for row in nodes if row["output_urn"]}
    datasets = {urn: await store.dataset_called(urn) for urn in sorted(targets)}
    found = [each for row in nodes[:MAX_RECORDS] for each in _of_node(row, datasets.get(row["output_urn"]))]
    found += [each for row in runs[:MAX_RECORDS] for each in _of_run(row)]
    return found, max(len(nodes), len(runs)) > MAX_RECORDS


def _of_node(row: Record, dataset: DatasetFacts | None) -> Iterator[Happened]:
    record = msgspec.convert(msgspec.json.decode(row["record"]), NodeRecord)
    record.status = Status(row["status"])
    for alert in alerts_within_node(row["project"], record):
        yield Happened(row["ended_at"], of_pipeline(alert, row["run_id"], dataset))


def _of_run(row: Record) -> Iterator[Happened]:
    yield _whole(row, AlertEvent.on_start, row["started_at"])
    if row["ended_at"] is not None:
        is_good = row["status"] == "published"
        yield _whole(row, AlertEvent.on_success if is_good else AlertEvent.on_failure, row["ended_at"])


def _whole(row: Record, event: AlertEvent, at: datetime) -> Happened:
    names = {"project": row["project"], "pipeline": row["pipeline"], "run_id": str(row["run_id"])}
    alert = alert_of_whole(event, at, **names, ended_as=row["status"])
    return Happened(at, of_pipeline(alert, row["run_id"], None))


_SOURCES: tuple[tuple[Sequence[str], Callable[[AlertStore, datetime], Awaitable[Told]]], ...] = (
    (SYMPTOMS, _of_symptoms),
    (ANOMALIES, _of_anomalies),
    (NEWS, _of_news),
    (PIPELINE_EVENTS, _of_pipelines),
)
