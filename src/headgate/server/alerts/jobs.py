"""Tells people: decides by which rules, sends by their channels, and keeps what became of it.

What is sent cannot be taken back, so a row says that it is under way before it is. Of a worker that dies in between
the next one sends again under the same delivery id: a receiver that looks at it sees the alert once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID, uuid4

from headgate.server.alerts.loading import occasion_of
from headgate.server.alerts.rules import Reason, Rule, back_at, fits, held_back
from headgate.server.alerts.sending import Channel, Channels, Outcome, context_for
from headgate.server.alerts.store import AlertStore, Note, Own, decoded
from headgate.server.alerts.wording import Letter, letter_of
from headgate.server.cleaning import Cleaning
from headgate.server.db.pool import Connection, Database, Record
from headgate.server.queue import Batch, Kind, NewTask, RetryLater, Task, content_hash, enqueue
from headgate.settings import Settings

TASK_TYPE = "ALERT"
BATCH = 20
CLAIM_S = 180
AT_ONCE = 8
CLEANING = "CLEAN_ALERTS"
CLEANUP_BATCH = 10_000
# What is not sent by then is left to the next try: after the claim another worker would send it, too.
BUDGET_S = 100.0
# While it is known that a rule hears of it, and not yet how that went.
_OPEN = (Reason.sending, Reason.retrying)
# So many alerts are tried in the place of one that nobody was told of, one after the other.
MAX_INSTEAD = 5
_OFF = "the rule is off or gone"
_UNWANTED = "the rule does not want to hear of it any more"
_OVER = "there is nothing to tell any more: it is over or gone"
_MUTED = "its incident is muted"

_log = logging.getLogger(__name__)

Clock = Callable[[], datetime]


class Delivery(NamedTuple):
    """One alert on its way to one channel."""

    task: Task
    rule: Rule
    letter: Letter
    id: UUID
    mail: Record | None


class Alerting:
    """The handler of alerts. `channels` and `clock` can be given by tests."""

    def __init__(
        self,
        settings: Settings,
        *,
        channels: Channels | None = None,
        clock: Clock = lambda: datetime.now(UTC),
        budget_s: float = BUDGET_S,
    ) -> None:
        self._settings = settings
        self._channels = channels
        self._clock = clock
        self._budget_s = budget_s

    async def send(self, database: Database, batch: Batch) -> Mapping[int, BaseException]:
        """Tell what the tasks are about; which of them are to be tried again, and why."""
        deadline = time.monotonic() + self._budget_s
        failed: dict[int, BaseException] = {}
        planned: list[Delivery] = []
        # One after the other: a symptom is grouped with one that comes before it.
        for task in batch.tasks:
            try:
                planned += await self._plan(database, task)
            except Exception as error:  # the boundary of a task; the others go on
                _log.warning("an alert could not be prepared: %s", type(error).__name__, extra={"task": task.id})
                failed[task.id] = error
        slots = asyncio.Semaphore(AT_ONCE)
        errors = await asyncio.gather(*(self._deliver(database, each, slots, deadline) for each in planned))
        failed |= {each.task.id: error for each, error in zip(planned, errors, strict=True) if error is not None}
        return failed

    async def _plan(self, database: Database, task: Task) -> list[Delivery]:
        """Which rules hear of it now, each noted as under way."""
        held_for = task.payload.get("held_for")
        async with database.tenant(task.organization_id) as conn:
            store = AlertStore(conn, task.organization_id)
            rules = [rule for rule in await store.enabled() if held_for in (None, str(rule.id))]
            occasion = await occasion_of(store, task, self._clock(), was_held=held_for is not None) if rules else None
            wanted = [rule for rule in rules if occasion is not None and fits(rule, occasion.about)]
            letter = None
            if occasion is not None and wanted:
                letter = letter_of(await store.details(occasion), self._settings.public_url)
            still_on = await store.lock(wanted) if wanted else set()
            own = await store.own(task.id)
            why: dict[UUID, str | None] = {rule.id: _OVER if occasion is None else _UNWANTED for rule in rules}
            goes_on = _MUTED if occasion is not None and occasion.is_muted else None
            why |= {rule.id: goes_on if rule.id in still_on else _OFF for rule in wanted}
            await self._end(store, own, why)
            if letter is None:
                return []
            mail = await store.email_settings()
            found = [
                await self._decide(conn, store, Delivery(task, rule, letter, uuid4(), mail), own.get(rule.id))
                for rule in wanted
                if rule.id in still_on
            ]
        return [each for each in found if each is not None]

    async def _end(self, store: AlertStore, own: Mapping[UUID, Own], reasons: Mapping[UUID, str | None]) -> None:
        """Say of what was to be tried again why it is not; None is for those that are."""
        for rule_id, row in own.items():
            why = reasons.get(rule_id, _OFF)
            if why is not None and row.reason in _OPEN:
                await store.settle(row.id, "FAILED", Reason.refused, self._clock(), error=why)

    async def _decide(self, conn: Connection, store: AlertStore, planned: Delivery, own: Own | None) -> Delivery | None:
        """The alert, noted as under way, or None if it is held back, which is noted as well."""
        task, rule, letter = planned.task, planned.rule, planned.letter
        now, occasion = self._clock(), letter.occasion
        # What was given up is tried again by whoever has its task done once more, unless it is muted by then.
        if own is not None and (occasion.is_muted or own.reason not in (*_OPEN, Reason.gave_up)):
            return None
        past = await store.past(rule, occasion, now, own.id if own else None)
        reason = held_back(rule, occasion.about, past, now)
        if reason is Reason.quiet_hours:
            await self._hold(conn, task, rule, now)
        untold = await store.held_back(rule, now, own) if reason is None else 0
        planned = planned._replace(id=own.id if own else planned.id, letter=letter.after(untold))
        note = Note(
            id=planned.id,
            rule_id=rule.id,
            rule_name=rule.name,
            task_id=task.id,
            channel_type=rule.channel_type,
            channel_context=await context_for(store, rule.channel_type, rule.channel_config),
            title=letter.title,
            status="FAILED" if reason is None else "DEDUPLICATED",
            reason=reason or Reason.sending,
            at=now,
            held_by=past.held_by(reason),
            held_back=untold,
        )
        await self._note(store, planned, own, note)
        return planned if reason is None else None

    async def _note(self, store: AlertStore, planned: Delivery, own: Own | None, note: Note) -> None:
        if own is None:
            await store.note(planned.letter.occasion, note)
            return
        await store.settle(own.id, note.status, note.reason, note.at, held_back=note.held_back, held_by=note.held_by)

    async def _hold(self, conn: Connection, task: Task, rule: Rule, now: datetime) -> None:
        """Come back when the quiet hours are over; if it is still to be told, it is then."""
        back = back_at(rule, now)
        if back is None:
            return
        again = NewTask(
            TASK_TYPE,
            task.resource_type,
            task.resource_id,
            content_hash("held", rule.id, task.id),
            {**task.payload, "held_for": str(rule.id)},
            delay_s=(back - now).total_seconds(),
        )
        await enqueue(conn, task.organization_id, [again])

    async def _deliver(
        self, database: Database, delivery: Delivery, slots: asyncio.Semaphore, deadline: float
    ) -> BaseException | None:
        """Send one and note how it went; what the task failed of, if it is to be tried again."""
        async with slots:
            try:
                outcome = await self._try(database, delivery, deadline)
            except Exception as error:  # the boundary of a task; whatever it is, the history says so
                # Its text may hold anything, a URL too.
                _log.warning("an alert could not be sent: %s", type(error).__name__, extra={"alert": delivery.id})
                outcome = Outcome(None, f"it could not be sent ({type(error).__name__})", may_repeat=True)
            try:
                await self._settle(database, delivery, outcome)
            except Exception as error:  # it is still under way for whoever looks, and looked after by the cleaning
                _log.warning("an alert was lost on its way: %s", type(error).__name__, extra={"alert": delivery.id})
                return error
        if outcome.error is None or not outcome.may_repeat:
            return None
        return RetryLater(outcome.error, outcome.retry_after_s)

    async def _try(self, database: Database, delivery: Delivery, deadline: float) -> Outcome:
        if time.monotonic() > deadline:
            return Outcome(None, "there was no time left for it", may_repeat=True)
        channel = Channel(delivery.task.organization_id, delivery.rule.channel_type, delivery.rule.channel_config)
        return await self._channels_of(database).send(channel, delivery.letter, delivery.id, mail=delivery.mail)

    async def _settle(self, database: Database, delivery: Delivery, outcome: Outcome) -> None:
        now, occasion = self._clock(), delivery.letter.occasion
        status, reason = _verdict(outcome, delivery.task)
        _report(delivery, outcome)
        async with database.tenant(delivery.task.organization_id) as conn:
            store = AlertStore(conn, delivery.task.organization_id)
            await store.settle(
                delivery.id, status, reason, now, tries=1, response=outcome.response, error=outcome.error
            )
            if status == "SENT" and occasion.anomaly is not None:
                await store.mark_alerted(occasion.anomaly.id, now)
            if reason in (Reason.refused, Reason.gave_up):
                await self._tell_instead(conn, store, delivery)

    async def _tell_instead(self, conn: Connection, store: AlertStore, delivery: Delivery) -> None:
        """What was held back because of an alert that nobody got is told in its place: the first of the worst of it.

        If that is not taken either, the next one is; each is tried once, and only so many.
        """
        before = delivery.task.payload.get("instead", {"of": [], "tried": []})
        of, tried = [*before["of"], str(delivery.id)], before["tried"]
        found = await store.first_held(of, tried) if len(tried) < MAX_INSTEAD else None
        if found is None:
            return
        instead = {"of": of, "tried": [*tried, str(found["id"])]}
        payload = {**decoded(found["payload"]), "held_for": str(delivery.rule.id), "instead": instead}
        about = found["resource_type"], found["resource_id"], content_hash("instead", delivery.id)
        await enqueue(conn, delivery.task.organization_id, [NewTask(TASK_TYPE, *about, payload)])

    def _channels_of(self, database: Database) -> Channels:
        if self._channels is None:
            self._channels = Channels.of(database, self._settings)
        return self._channels


class AlertCleaning(Cleaning):
    """Ends what nobody tries any more, and removes what nobody asks for any more."""

    async def clean(self, conn: Connection, organization_id: UUID, now: datetime, before: datetime) -> bool:
        store = AlertStore(conn, organization_id)
        ended = await store.settle_abandoned(now, CLEANUP_BATCH)
        removed = await store.remove_history(before, CLEANUP_BATCH)
        return CLEANUP_BATCH in (ended, removed)


def _verdict(outcome: Outcome, task: Task) -> tuple[str, Reason | None]:
    if outcome.error is None:
        return "SENT", None
    if not outcome.may_repeat:
        return "FAILED", Reason.refused
    return "FAILED", Reason.gave_up if task.is_last_attempt else Reason.retrying


def _report(delivery: Delivery, outcome: Outcome) -> None:
    facts: tuple[object, ...] = (delivery.letter.occasion.type, delivery.rule.name, delivery.rule.channel_type)
    if outcome.error is None:
        _log.info("alert %s of rule %r was sent by %s", *facts)
    else:
        _log.warning("alert %s of rule %r did not arrive by %s: %s", *facts, outcome.error)


def kinds(settings: Settings) -> tuple[Kind, ...]:
    """The work of this slice; it needs to know how the server is reached and where it may send to."""
    return (
        Kind(TASK_TYPE, send=Alerting(settings).send, batch_size=BATCH, claim_s=CLAIM_S),
        AlertCleaning(settings.alert_history_days).kind(CLEANING),
    )
