"""Rules, history and e-mail settings of one organisation in the database, and what alerts tell of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.impact import owners_in
from headgate.errors import Conflict, NotFound
from headgate.server.alerts.occasions import Curve, DatasetFacts, Occasion, Reach, names_of
from headgate.server.alerts.rules import Past, QuietHours, Reason, Rule, as_bad_as, pattern_of, urn_of
from headgate.server.alerts.wording import metric_name
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page
from headgate.server.references.datasets import find_datasets, spellings_of_urns
from headgate.server.references.ids import as_id

Q = Queries("headgate.server.alerts")

MAX_RULES = 500
MAX_DOWNSTREAM = 200
# A dataset may have any number of names; so many of the others can be used in rules.
MAX_ALIASES = 50
SHOWN_DOWNSTREAM = 10
POINTS = 30
MAX_HELD_BACK = 10_000
# Whoever was sending and has not said how it went within this time is gone.
IN_FLIGHT = timedelta(minutes=5)
ABANDONED = "its task ended before it was known how it went"


class Own(NamedTuple):
    """What became of a task for one rule so far."""

    id: UUID
    status: str
    reason: str | None
    held_back: int


class Note(NamedTuple):
    """A row of the history."""

    id: UUID
    rule_id: UUID | None
    rule_name: str | None
    task_id: int | None
    channel_type: str
    channel_context: Mapping[str, Any]
    title: str
    status: str
    reason: Reason | None
    at: datetime
    held_by: UUID | None = None
    held_back: int = 0
    attempts: int = 0
    response: Mapping[str, Any] | None = None
    error: str | None = None


class Filters(NamedTuple):
    """Which of the history; what is None does not matter."""

    rule_id: UUID | None = None
    incident_id: UUID | None = None
    dataset_id: UUID | None = None
    anomaly_id: UUID | None = None
    status: str | None = None
    channel_type: str | None = None
    type: str | None = None
    since: datetime | None = None


class AlertStore:
    """The alerts of one organisation, on a connection that has it set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def rules(self, page: Page) -> tuple[Sequence[Record], str | None]:
        rows = await self._conn.fetch(Q.list_rules, self._organization_id, page.at, page.id, page.limit + 1)
        return page.cut(rows)

    async def rule(self, rule_id: UUID, *, lock: bool = False) -> Record:
        row = await self._conn.fetchrow(Q.lock_rule if lock else Q.get_rule, self._organization_id, rule_id)
        if row is None:
            raise NotFound(f"there is no alert rule '{rule_id}'", hint="see GET /api/v1/alert-rules")
        return row

    async def rule_called(self, text: str) -> UUID:
        """The id of the rule that is meant by its name; an id may be that of a rule that is gone."""
        by_id = as_id(text)
        found: UUID | None = by_id or await self._conn.fetchval(Q.find_rule_name, self._organization_id, text)
        if found is None:
            raise NotFound(
                f"there is no alert rule {text!r}",
                hint="see GET /api/v1/alert-rules; one that is gone is asked for by its id",
            )
        return found

    async def add_rule(self, values: Sequence[Any], name: str, created_by: str) -> Record:
        await self._check_name(name, None)
        return await self._conn.fetchrow(Q.insert_rule, self._organization_id, *values, created_by)

    async def change_rule(self, rule_id: UUID, values: Sequence[Any], name: str) -> Record:
        await self._check_name(name, rule_id)
        return await self._conn.fetchrow(Q.update_rule, self._organization_id, rule_id, *values)

    async def remove_rule(self, rule_id: UUID) -> None:
        if await self._conn.fetchval(Q.delete_rule, self._organization_id, rule_id) is None:
            raise NotFound(f"there is no alert rule '{rule_id}'", hint="see GET /api/v1/alert-rules")

    async def _check_name(self, name: str, rule_id: UUID | None) -> None:
        found = await self._conn.fetchrow(Q.count_rules, self._organization_id, name, rule_id)
        if found["is_taken"]:
            raise Conflict(f"there is already an alert rule {name!r}", hint="choose another name, or change that rule")
        if rule_id is None and found["total"] >= MAX_RULES:
            raise Conflict(f"the organisation has {MAX_RULES} alert rules", hint="remove some, or use patterns")

    async def enabled(self) -> list[Rule]:
        rows = await self._conn.fetch(Q.list_enabled_rules, self._organization_id, MAX_RULES)
        return await self.read(rows)

    async def read(self, rows: Sequence[Record]) -> list[Rule]:
        """The rules, knowing what else the urns are that they name."""
        rules = [_rule(row) for row in rows]
        urns = {rule.id: urn_of(rule.dataset_name) for rule in rules if rule.dataset_name and "/" in rule.dataset_name}
        if not urns:
            return rules
        known = await spellings_of_urns(self._conn, self._organization_id, urns.values())
        read = {rule_id: filter(None, map(pattern_of, known[urn])) for rule_id, urn in urns.items()}
        return [replace(rule, spellings=tuple(read.get(rule.id, ()))) for rule in rules]

    async def lock(self, rules: Sequence[Rule]) -> set[UUID]:
        """Decide for these rules alone until the transaction ends; those that are still on."""
        rows = await self._conn.fetch(Q.lock_rules, self._organization_id, [rule.id for rule in rules])
        return {row["id"] for row in rows}

    async def own(self, task_id: int) -> dict[UUID, Own]:
        rows = await self._conn.fetch(Q.list_own_alerts, self._organization_id, task_id)
        return {row["alert_rule_id"]: Own(row["id"], row["status"], row["reason"], row["held_back"]) for row in rows}

    async def past(self, rule: Rule, occasion: Occasion, now: datetime, own_id: UUID | None) -> Past:
        """What the rule told lately; what a pipeline told itself by such a channel counts, too."""
        incident = occasion.incident.id if occasion.incident and occasion.symptom_id else None
        row = await self._conn.fetchrow(
            Q.find_past,
            self._organization_id,
            rule.id,
            incident,
            occasion.subject,
            occasion.type,
            now,
            now - rule.window,
            now - IN_FLIGHT,
            own_id,
            as_bad_as(occasion.severity),
        )
        past = Past(**row)
        if occasion.pipeline is None:
            return past
        told = await self._conn.fetchval(
            Q.find_told_by_pipeline,
            self._organization_id,
            *occasion.pipeline,
            occasion.type,
            rule.channel_type,
            now - rule.window,
        )
        if told is None or (past.told_at is not None and past.told_at >= told):
            return past
        return past._replace(told_at=told, told_by=None)

    async def held_back(self, rule: Rule, now: datetime, own: Own | None) -> int:
        """How many alerts nobody was told of because of the limits; its own earlier tries have said so of some."""
        if rule.max_per_minute is None and rule.max_per_hour is None:
            return 0
        own_id, told = (own.id, own.held_back) if own else (None, 0)
        found: int = await self._conn.fetchval(
            Q.count_held_back, self._organization_id, rule.id, now - IN_FLIGHT, own_id, MAX_HELD_BACK
        )
        return min(told + found, MAX_HELD_BACK)

    async def note(self, occasion: Occasion, note: Note) -> None:
        """Add a row to the history."""
        await self._conn.execute(
            Q.insert_alert,
            self._organization_id,
            note.id,
            note.rule_id,
            note.rule_name,
            note.task_id,
            occasion.anomaly.id if occasion.anomaly else None,
            occasion.incident.id if occasion.incident else None,
            occasion.symptom_id,
            occasion.dataset.id if occasion.dataset else None,
            occasion.run_id,
            occasion.subject,
            occasion.type,
            occasion.severity,
            note.title,
            note.channel_type,
            as_json(note.channel_context),
            note.status,
            note.reason,
            note.held_by,
            note.held_back,
            note.attempts,
            note.at,
            as_json(note.response),
            note.error,
        )

    async def settle(
        self,
        alert_id: UUID,
        status: str,
        reason: Reason | None,
        at: datetime,
        *,
        tries: int = 0,
        response: Mapping[str, Any] | None = None,
        error: str | None = None,
        held_back: int | None = None,
        held_by: UUID | None = None,
    ) -> None:
        """Say how an alert goes on."""
        said = (status, reason, tries, at, as_json(response), error, held_back, held_by)
        await self._conn.execute(Q.settle_alert, self._organization_id, alert_id, *said)

    async def first_held(self, because_of: Sequence[UUID], but: Sequence[UUID]) -> Record | None:
        """The worst alert, the first of several, that was held back because of these, with what its task was about."""
        return await self._conn.fetchrow(Q.find_held, self._organization_id, list(because_of), list(but))

    async def settle_abandoned(self, before: datetime, limit: int) -> int:
        """Say of so many that were under way before a time, and are not any more, that it ended; how many."""
        done: str = await self._conn.execute(
            Q.settle_abandoned_alerts, self._organization_id, before - IN_FLIGHT, limit, ABANDONED
        )
        return int(done.split()[-1])

    async def wake_held(self, rule_id: UUID) -> None:
        """Have what waits for the end of the quiet hours of a rule looked at now."""
        await self._conn.execute(Q.wake_held_tasks, self._organization_id, str(rule_id))

    async def mark_alerted(self, anomaly_id: UUID, at: datetime) -> None:
        await self._conn.execute(Q.mark_alerted, self._organization_id, anomaly_id, at)

    async def history(self, filters: Filters, page: Page) -> tuple[Sequence[Record], str | None]:
        rows = await self._conn.fetch(Q.list_alerts, self._organization_id, *filters, page.at, page.id, page.limit + 1)
        return page.cut(rows, "sent_at")

    async def symptom(self, symptom_id: UUID) -> Record | None:
        return await self._conn.fetchrow(Q.find_symptom, self._organization_id, symptom_id)

    async def incident(self, incident_id: UUID, event: str) -> Record | None:
        """An incident with who made it what the event says, and why."""
        kind = "resolved" if event == "IncidentResolved" else "reopened"
        return await self._conn.fetchrow(Q.find_incident, self._organization_id, incident_id, kind)

    async def anomaly(self, anomaly_id: UUID) -> Record | None:
        """An anomaly that is no symptom."""
        return await self._conn.fetchrow(Q.find_anomaly, self._organization_id, anomaly_id)

    async def anomalies(self, since: datetime, limit: int) -> Sequence[Record]:
        """Those that are no symptoms."""
        rows: Sequence[Record] = await self._conn.fetch(Q.list_mere_anomalies, self._organization_id, since, limit)
        return rows

    async def symptoms(self, since: datetime, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.list_symptoms, self._organization_id, since, limit)
        return rows

    async def news(self, since: datetime, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.list_news, self._organization_id, since, limit)
        return rows

    async def remove_history(self, before: datetime, limit: int) -> int:
        """Remove so many of what was sent before a time; how many there were."""
        done: str = await self._conn.execute(Q.delete_old_alerts, self._organization_id, before, limit)
        return int(done.split()[-1])

    async def told_nodes(self, since: datetime, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.list_told_nodes, self._organization_id, since, limit)
        return rows

    async def told_pipelines(self, since: datetime, limit: int) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(Q.list_told_pipelines, self._organization_id, since, limit)
        return rows

    async def datasets(self, ids: Sequence[UUID]) -> dict[UUID, DatasetFacts]:
        rows = await self._conn.fetch(Q.list_datasets, self._organization_id, list(set(ids)), MAX_ALIASES)
        return {row["id"]: _dataset(row) for row in rows}

    async def dataset_called(self, urn: str) -> DatasetFacts | None:
        """The dataset that a run writes under this name, if the server knows it."""
        found = await find_datasets(self._conn, self._organization_id, urn)
        return (await self.datasets([found[0].id])).get(found[0].id) if len(found) == 1 else None

    async def details(self, occasion: Occasion) -> Occasion:
        """The same with what is downstream and how the metric went."""
        if occasion.dataset is None:
            return occasion
        return occasion.with_details(await self._reach(occasion.dataset.id), await self._curve(occasion))

    async def _reach(self, dataset_id: UUID) -> Reach:
        # The walk counts the dataset itself.
        rows = await self._conn.fetch(Q.list_downstream, self._organization_id, dataset_id, MAX_DOWNSTREAM + 2)
        names = tuple(row["display_name"] for row in rows)
        return Reach(min(len(names), MAX_DOWNSTREAM), len(names) > MAX_DOWNSTREAM, names[:SHOWN_DOWNSTREAM])

    async def _curve(self, occasion: Occasion) -> Curve | None:
        anomaly, dataset = occasion.anomaly, occasion.dataset
        if anomaly is None or anomaly.metric is None or dataset is None:
            return None
        key = f"{anomaly.metric}:{occasion.column}" if occasion.column else anomaly.metric
        rows = await self._conn.fetch(
            Q.list_series, self._organization_id, dataset.id, key, anomaly.partition_key, occasion.at, POINTS
        )
        values = tuple(float(row["value"]) for row in reversed(rows))
        return Curve(metric_name(anomaly.metric, occasion.column), values) if len(values) > 1 else None

    async def email_settings(self) -> Record | None:
        return await self._conn.fetchrow(Q.get_email_settings, self._organization_id)

    async def without_recipients(self) -> list[str]:
        """The names of the rules whose mails go to whom the settings name."""
        rows = await self._conn.fetch(Q.list_rules_without_recipients, self._organization_id)
        return [row["name"] for row in rows]

    async def set_email_settings(self, values: Sequence[Any]) -> Record:
        return await self._conn.fetchrow(Q.set_email_settings, self._organization_id, *values)


def _rule(row: Record) -> Rule:
    hours = decoded(row["quiet_hours"])
    return Rule(
        id=row["id"],
        name=row["name"],
        channel_type=row["channel_type"],
        channel_config=decoded(row["channel_config"]),
        dataset_name=row["dataset_name"],
        anomaly_type=row["anomaly_type"],
        severity=row["severity"],
        owner=row["owner"],
        tag=row["tag"],
        deduplication_minutes=row["deduplication_minutes"],
        max_per_minute=row["max_per_minute"],
        max_per_hour=row["max_per_hour"],
        quiet_hours=QuietHours.of(hours) if hours else None,
    )


def decoded(value: str | None) -> Any:
    """The value of a jsonb column."""
    return None if value is None else msgspec.json.decode(value)


def as_json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value, enc_hook=str).decode()


def plain(row: Record) -> dict[str, Any]:
    """A symptom or an incident with its JSON read."""
    found = dict(row)
    for name in ("cause", "expected_value", "actual_value"):
        if isinstance(found.get(name), str):
            found[name] = decoded(found[name])
    return found


def _dataset(row: Record) -> DatasetFacts:
    owners = owners_in(decoded(row["ownership"])) if row["owners"] is None else row["owners"]
    shown = (row["id"], row["namespace"], row["name"], row["display_name"], row["type"])
    keys = [(row["namespace"], row["name"]), *((namespace, name) for namespace, name in row["aliases"])]
    return DatasetFacts(*shown, tuple(owners), tuple(row["tags"]), names_of(row["display_name"], *keys))
