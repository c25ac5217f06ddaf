"""How series are judged: what an organisation has set for its datasets and metrics, and what people expect of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from headgate.domain.anomaly import Severity
from headgate.domain.band import MAX_REACH_DAYS
from headgate.domain.patterns import ALL, matches, specificity
from headgate.domain.verdict import Mark, Policy
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries

Q = Queries("headgate.server.anomalies.judging")

DEFAULT: Final = Policy()
# What is judged without a band; a policy can only switch it off.
FRESHNESS: Final = "freshness"
SCHEMA: Final = "schema"
STUCK: Final = "stuck"


class Rule(NamedTuple):
    """A stored policy: for one dataset or for those that fit a pattern, and for one metric or (empty) for all."""

    id: UUID
    dataset_id: UUID | None
    pattern: str | None
    metric: str
    policy: Policy


class Names(NamedTuple):
    """What a dataset goes by."""

    urn: str
    name: str
    display_name: str


class Rules:
    """The policies and marks that count for some datasets."""

    def __init__(
        self, rules: Sequence[Rule], names: Mapping[UUID, Names], marks: Mapping[UUID, Sequence[Record]]
    ) -> None:
        self._rules = rules
        self._names = names
        self._marks = marks
        self._known: dict[tuple[UUID | None, str], Rule | None] = {}

    def rule(self, dataset_id: UUID | None, metric: str) -> Rule | None:
        """The most specific policy for a metric of a dataset, or of what has none; None if there is none."""
        if not self._rules:
            return None
        key = (dataset_id, metric)
        if key not in self._known:
            fitting = [rule for rule in self._rules if self._fits(rule, dataset_id, metric)]
            self._known[key] = max(fitting, key=_weight, default=None)
        return self._known[key]

    def policy(self, dataset_id: UUID | None, metric: str) -> Policy:
        rule = self.rule(dataset_id, metric)
        return DEFAULT if rule is None else rule.policy

    def marks(self, dataset_id: UUID | None, metric: str, column: str | None, partition_key: str) -> list[Mark]:
        found = () if dataset_id is None else self._marks.get(dataset_id, ())
        wanted = {"metric": metric, "column_name": column, "partition_key": partition_key}
        return [
            Mark(row["kind"], row["at"], row["weekday"], row["until"], row["side"])
            for row in found
            if all(row[name] is None or row[name] == value for name, value in wanted.items())
        ]

    def _fits(self, rule: Rule, dataset_id: UUID | None, metric: str) -> bool:
        if rule.metric not in ("", metric):
            return False
        if rule.dataset_id is not None:
            return rule.dataset_id == dataset_id
        if rule.pattern == ALL:
            return True
        names = None if dataset_id is None else self._names.get(dataset_id)
        return names is not None and matches(rule.pattern or "", names)


def _weight(rule: Rule) -> tuple[bool, int, bool]:
    return rule.dataset_id is not None, specificity(rule.pattern or ""), rule.metric != ""


async def hold_names(conn: Connection, organization_id: UUID) -> None:
    """Keep datasets from being merged away until the transaction ends; to be asked for before looking one up."""
    await conn.execute(Q.hold_names, organization_id)


async def load_rules(
    conn: Connection, organization_id: UUID, dataset_ids: Collection[UUID], since: datetime | None = None
) -> Rules:
    """Policies and marks for some datasets; `since` is the earliest moment that is judged, if that is not now."""
    rules = [rule_of(row) for row in await conn.fetch(Q.list_rules, organization_id)]
    ids = list(dataset_ids)
    names: dict[UUID, Names] = {}
    if any(rule.pattern not in (None, ALL) for rule in rules):
        names = {row["id"]: _names(row) for row in await conn.fetch(Q.list_names, organization_id, ids)}
    marks: dict[UUID, list[Record]] = {}
    for row in await conn.fetch(Q.list_marks_of, organization_id, ids, _horizon(rules, since)):
        marks.setdefault(row["dataset_id"], []).append(row)
    return Rules(rules, names, marks)


def rule_of(row: Record) -> Rule:
    return Rule(row["id"], row["dataset_id"], row["pattern"], row["metric"], policy_of(row))


def policy_of(row: Record) -> Policy:
    return Policy(
        enabled=row["enabled"],
        method=row["method"],
        sigma=row["sigma"],
        min_points=row["min_points"],
        window_days=row["window_days"],
        drop_share=row["drop_share"],
        floor_share=row["floor_share"],
        seasonality=row["seasonality"],
        small_sample=row["small_sample"],
        spike_severity=_severity(row["spike_severity"]),
        drop_severity=_severity(row["drop_severity"]),
    )


def widest(policies: Iterable[Policy]) -> int:
    """How many days back the one that looks furthest looks."""
    return max((policy.window_days for policy in policies), default=DEFAULT.window_days)


def _horizon(rules: Sequence[Rule], since: datetime | None) -> datetime:
    """What was over by then says nothing of any value that is looked at; a day more, for what is said of a day."""
    days = max(MAX_REACH_DAYS, widest(rule.policy for rule in rules)) + 1
    try:
        return (since or datetime.now(UTC)) - timedelta(days=days)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _severity(text: str | None) -> Severity | None:
    return None if text is None else Severity(text)


def _names(row: Record) -> Names:
    return Names(f"{row['namespace']}/{row['name']}", row["name"], row["display_name"])
