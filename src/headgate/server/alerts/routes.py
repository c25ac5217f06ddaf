"""Routes of alerts: rules, what they would send, what was sent, samples, and how mails go out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from uuid import UUID, uuid4

from fastapi import Depends, Path, Query, Request

from headgate.domain.anomaly import Severity
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.alerts import schemas
from headgate.server.alerts.channels import configs
from headgate.server.alerts.occasions import Occasion
from headgate.server.alerts.preview import Played, occasions_since, play
from headgate.server.alerts.rules import TEST_TYPE, Reason, Source
from headgate.server.alerts.sending import Channel, Channels, context_for
from headgate.server.alerts.settings import answer_settings, row_of_settings
from headgate.server.alerts.store import AlertStore, Filters, Note, as_json, decoded
from headgate.server.alerts.wording import letter_of
from headgate.server.db.pool import Record
from headgate.server.deps import Admin, Db, Reads, Writer
from headgate.server.pagination import Paged
from headgate.server.problems import problems
from headgate.server.references.datasets import find_dataset
from headgate.server.routing import new_router
from headgate.server.shapes import DatasetRefOut
from headgate.server.times import Moment

MAX_SHOWN = 1000
router = new_router("/api/v1", "alerts")


async def channels_of(request: Request) -> Channels:
    """One for the application: it keeps the key that it has read."""
    state = request.app.state
    if not hasattr(state, "alert_channels"):
        state.alert_channels = Channels.of(state.database, state.settings)
    # Handlers use it inside a transaction, where another connection must not be waited for.
    await state.alert_channels.vault.ready()
    found: Channels = state.alert_channels
    return found


Ways = Annotated[Channels, Depends(channels_of)]
RuleRef = Annotated[str, Path(max_length=200, description="The id or the name of a rule")]
Days = Annotated[int, Query(ge=1, le=90, description="How far back")]


@router.get("/alert-rules")
async def list_alert_rules(reads: Reads, page: Paged) -> schemas.RulePage:
    """Alert rules, newest first. Secrets of their channels are masked."""
    async with reads.open() as conn:
        rows, cursor = await AlertStore(conn, reads.organization_id).rules(page)
    return schemas.RulePage(items=[_rule(row) for row in rows], next_cursor=cursor)


@router.post("/alert-rules", status_code=201, responses=problems(Conflict))
async def create_alert_rule(body: schemas.RuleIn, caller: Writer, database: Db, ways: Ways) -> schemas.RuleOut:
    """Adds a rule. Nothing is sent for what happened before."""
    config = configs.read_config(body.channel_type, body.channel_config, ways.guard)
    stored = await configs.seal(config, ways.vault, caller.organization_id)
    async with database.tenant(caller.organization_id) as conn:
        store = AlertStore(conn, caller.organization_id)
        await _check_recipients(store, body.channel_type, stored)
        return _rule(await store.add_rule(_values(body, stored), body.name, caller.name))


@router.get("/alert-rules/{rule_id}", responses=problems(NotFound))
async def get_alert_rule(rule_id: RuleRef, reads: Reads) -> schemas.RuleOut:
    """One rule."""
    async with reads.open() as conn:
        store = AlertStore(conn, reads.organization_id)
        return _rule(await store.rule(await store.rule_called(rule_id)))


@router.put("/alert-rules/{rule_id}", responses=problems(NotFound, Conflict))
async def change_alert_rule(
    rule_id: RuleRef, body: schemas.RuleIn, request: Request, caller: Writer, database: Db, ways: Ways
) -> schemas.RuleOut:
    """Changes a rule to what is sent.

    Secrets of the channel that are left out, or sent as they were shown, stay as long as its URL does.
    """
    organization_id = caller.organization_id
    async with database.tenant(organization_id) as conn:
        store = AlertStore(conn, organization_id)
        before = await store.rule(await store.rule_called(rule_id), lock=True)
        old = decoded(before["channel_config"]) if before["channel_type"] == body.channel_type else None
        stored = await _stored(body.channel_type, body.channel_config, old, ways, organization_id)
        await _check_recipients(store, body.channel_type, stored)
        after = await _changed(store, before, _values(body, stored), body.name)
    request.app.state.bell.ring(organization_id)
    return _rule(after)


@router.patch("/alert-rules/{rule_id}", responses=problems(NotFound, Conflict))
async def switch_alert_rule(
    rule_id: RuleRef, body: schemas.RuleChangeIn, request: Request, caller: Writer, database: Db, ways: Ways
) -> schemas.RuleOut:
    """Turns a rule on or off, or changes some of it. What happens while it is off is not told later."""
    organization_id = caller.organization_id
    async with database.tenant(organization_id) as conn:
        store = AlertStore(conn, organization_id)
        before = await store.rule(await store.rule_called(rule_id), lock=True)
        hours = decoded(before["quiet_hours"])
        fields = {**before, "quiet_hours": hours} | body.given
        fields["quiet_hours"] = as_json(fields["quiet_hours"])
        if "channel_config" in body.model_fields_set:
            old = decoded(before["channel_config"])
            given = configs.shown(old) | body.channel_config
            stored = await _stored(before["channel_type"], given, old, ways, organization_id)
            await _check_recipients(store, before["channel_type"], stored)
            fields["channel_config"] = as_json(stored)
        after = await _changed(store, before, [fields[name] for name in _STORED], fields["name"])
    request.app.state.bell.ring(organization_id)
    return _rule(after)


@router.delete("/alert-rules/{rule_id}", status_code=204, responses=problems(NotFound))
async def delete_alert_rule(rule_id: RuleRef, caller: Writer, database: Db) -> None:
    """Removes a rule. What it sent stays in the history."""
    async with database.tenant(caller.organization_id) as conn:
        store = AlertStore(conn, caller.organization_id)
        await store.remove_rule(await store.rule_called(rule_id))


@router.get("/alert-rules/{rule_id}/preview", responses=problems(NotFound))
async def preview_alert_rule(rule_id: RuleRef, reads: Reads, days: Days = 30) -> schemas.PreviewOut:
    """What the rule, on or off, would have sent for what happened in the last days. Nothing is sent."""
    now = datetime.now(UTC)
    async with reads.open() as conn:
        store = AlertStore(conn, reads.organization_id)
        [rule] = await store.read([await store.rule(await store.rule_called(rule_id))])
        happened, is_cut = await occasions_since(store, rule, now - timedelta(days=days))
    played = list(play(rule, happened, now))
    held = Counter(str(each.reason) for each in played if each.reason)
    return schemas.PreviewOut(
        rule_id=rule.id,
        days=days,
        matched=sum(not each.was_held for each in played),
        would_send=len(played) - held.total(),
        held_back={str(reason): held[reason] for reason in Reason if held[reason]},
        truncated=is_cut or len(played) > MAX_SHOWN,
        items=[_previewed(each) for each in reversed(played[-MAX_SHOWN:])],
    )


@router.get("/alert-history", responses=problems(NotFound, Conflict))
async def list_alert_history(
    reads: Reads,
    page: Paged,
    rule_id: UUID | None = None,
    rule: Annotated[str | None, Query(max_length=200, description="The id or the name of a rule")] = None,
    status: schemas.AlertStatus | None = None,
    channel_type: schemas.ChannelType | None = None,
    dataset: Annotated[str | None, Query(max_length=4000, description="Id, urn or name")] = None,
    incident_id: UUID | None = None,
    anomaly_id: UUID | None = None,
    type_: Annotated[str | None, Query(alias="type", max_length=100)] = None,
    since: Annotated[Moment | None, Query(description="Not before")] = None,
    hours: Annotated[int | None, Query(ge=1, le=87_600, description="Within the last hours, instead of since")] = None,
) -> schemas.AlertPage:
    """What was sent, held back or failed, newest first, with what runs of pipelines sent by their own files."""
    begin = _begin(since, hours)
    if rule is not None and rule_id is not None:
        raise InvalidFields([FieldError("query.rule", "does not go with `rule_id`", rule)], hint="give one of the two")
    async with reads.open() as conn:
        found = None if dataset is None else await find_dataset(conn, reads.organization_id, dataset)
        dataset_id = None if found is None else found.id
        store = AlertStore(conn, reads.organization_id)
        of_rule = rule_id if rule is None else await store.rule_called(rule)
        filters = Filters(of_rule, incident_id, dataset_id, anomaly_id, status, channel_type, type_, begin)
        rows, cursor = await store.history(filters, page)
    return schemas.AlertPage(items=[_alert(row) for row in rows], next_cursor=cursor)


@router.post("/test-alert", responses=problems(NotFound))
async def send_test_alert(
    body: schemas.TestIn, request: Request, caller: Writer, database: Db, ways: Ways
) -> schemas.TestOut:
    """Sends a sample at once by the channel of a rule, or by one that is given, and says what the provider answered."""
    organization_id = caller.organization_id
    async with database.tenant(organization_id) as conn:
        store = AlertStore(conn, organization_id)
        rule_id, name, channel_type, stored = await _channel(body, store, ways, organization_id)
        context = await context_for(store, channel_type, stored)
        mail = await store.email_settings()
    sample = _sample(caller.name)
    letter, alert_id = letter_of(sample, request.app.state.settings.public_url), uuid4()
    outcome = await ways.send(Channel(organization_id, channel_type, stored), letter, alert_id, mail=mail)
    status = schemas.AlertStatus.SENT if outcome.error is None else schemas.AlertStatus.FAILED
    reason = None if outcome.error is None else Reason.gave_up if outcome.may_repeat else Reason.refused
    note = Note(
        id=alert_id,
        rule_id=rule_id,
        rule_name=name,
        task_id=None,
        channel_type=channel_type,
        channel_context=context,
        title=letter.title,
        status=status,
        reason=reason,
        at=datetime.now(UTC),
        attempts=1,
        response=outcome.response,
        error=outcome.error,
    )
    async with database.tenant(organization_id) as conn:
        await AlertStore(conn, organization_id).note(sample, note)
    return schemas.TestOut(
        id=alert_id,
        status=status,
        channel_type=schemas.ChannelType(channel_type),
        channel_context=context,
        response_payload=None if outcome.response is None else dict(outcome.response),
        error_message=outcome.error,
    )


@router.get("/email-settings")
async def get_email_settings(reads: Reads) -> schemas.EmailSettingsOut:
    """How mails are sent; until somebody says otherwise, to the log of the server."""
    async with reads.open() as conn:
        return answer_settings(await AlertStore(conn, reads.organization_id).email_settings())


@router.put("/email-settings", responses=problems(Conflict))
async def set_email_settings(
    body: schemas.EmailSettingsIn, caller: Admin, database: Db, ways: Ways
) -> schemas.EmailSettingsOut:
    """Sets how mails are sent. The password is stored encrypted and never shown."""
    async with database.tenant(caller.organization_id) as conn:
        store = AlertStore(conn, caller.organization_id)
        before = await store.email_settings()
        if not body.email_to:
            await _check_nobody_depends(store)
        values = await row_of_settings(body, before, ways, caller.organization_id)
        return answer_settings(await store.set_email_settings([*values, caller.name]))


async def _stored(
    channel_type: str, given: dict[str, Any], old: dict[str, Any] | None, ways: Channels, organization_id: UUID
) -> dict[str, Any]:
    """The channel as it is stored, with the secrets that stay."""
    filled = await configs.completed(given, old, ways.vault, organization_id)
    return await configs.seal(configs.read_config(channel_type, filled, ways.guard), ways.vault, organization_id)


async def _check_recipients(store: AlertStore, channel_type: str, stored: dict[str, Any]) -> None:
    """Refuse a rule whose mails would go to nobody."""
    if channel_type != "EMAIL" or stored.get("email_to"):
        return
    settings = await store.email_settings()
    if settings is None or not settings["email_to"]:
        raise InvalidFields(
            [FieldError("channel_config.email_to", "names nobody, and neither do the e-mail settings")],
            hint="give addresses here, or set `email_to` by PUT /api/v1/email-settings first",
        )


async def _check_nobody_depends(store: AlertStore) -> None:
    """Refuse settings without recipients while there are rules that have no others."""
    names = await store.without_recipients()
    if names:
        told = ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
        raise Conflict(
            f"`email_to` names nobody, and mails of the alert rules {told} would go to nobody",
            hint="keep an address in `email_to`, or give these rules `email_to` of their own, or remove them",
        )


async def _changed(store: AlertStore, before: Record, values: Sequence[Any], name: str) -> Record:
    """The rule with other values. What its quiet hours held back is looked at now if they are others."""
    after = await store.change_rule(before["id"], values, name)
    if after["quiet_hours"] != before["quiet_hours"]:
        await store.wake_held(before["id"])
    return after


def _begin(since: datetime | None, hours: int | None) -> datetime | None:
    if since is not None and hours is not None:
        raise InvalidFields(
            [FieldError("query.hours", "does not go with `since`", str(hours))], hint="give either `since` or `hours`"
        )
    return since if hours is None else datetime.now(UTC) - timedelta(hours=hours)


async def _channel(
    body: schemas.TestIn, store: AlertStore, ways: Channels, organization_id: UUID
) -> tuple[UUID | None, str | None, str, dict[str, Any]]:
    """The id and the name of the rule, if it is one, and its channel."""
    is_given = body.channel_type is not None and body.channel_config is not None
    if (body.rule_id is None) != is_given:
        raise InvalidFields(
            [FieldError("rule_id", "has to be given, or channel_type and channel_config have to, and not all of them")],
            hint='send {"rule_id": "…"}, or {"channel_type": "SLACK", "channel_config": {"webhook_url": "https://…"}}',
        )
    if body.rule_id is not None:
        row = await store.rule(await store.rule_called(body.rule_id))
        return row["id"], row["name"], row["channel_type"], decoded(row["channel_config"])
    assert body.channel_type is not None
    assert body.channel_config is not None
    config = configs.read_config(body.channel_type, body.channel_config, ways.guard)
    return None, None, str(body.channel_type), await configs.seal(config, ways.vault, organization_id)


def _sample(sender: str) -> Occasion:
    return Occasion(
        source=Source.symptom,
        type=TEST_TYPE,
        severity=Severity.INFO,
        subject="test",
        sentence=f"This is a test that {sender} has sent. Nothing is wrong.",
        at=datetime.now(UTC),
    )


# In the order of the columns of the query.
_STORED = (
    *("name", "description", "dataset_name", "anomaly_type", "severity", "owner", "tag", "channel_type"),
    *("channel_config", "enabled", "deduplication_minutes", "max_per_minute", "max_per_hour", "quiet_hours"),
)


def _values(body: schemas.RuleIn, stored: dict[str, Any]) -> list[Any]:
    hours = body.quiet_hours
    return [
        body.name,
        body.description,
        body.dataset_name,
        body.anomaly_type,
        body.severity,
        body.owner,
        body.tag,
        body.channel_type,
        as_json(stored),
        body.enabled,
        body.deduplication_minutes,
        body.max_per_minute,
        body.max_per_hour,
        None if hours is None else as_json(hours.model_dump(by_alias=True)),
    ]


def _rule(row: Record) -> schemas.RuleOut:
    hours = decoded(row["quiet_hours"])
    fields = dict(row) | {
        "channel_config": configs.shown(decoded(row["channel_config"])),
        "quiet_hours": None if hours is None else schemas.QuietHoursOut(**hours),
    }
    return schemas.RuleOut(**fields)


def _alert(row: Record) -> schemas.AlertOut:
    fields = dict(row) | {
        "channel_context": decoded(row["channel_context"]),
        "response_payload": decoded(row["response_payload"]),
    }
    return schemas.AlertOut(**fields)


def _previewed(played: Played) -> schemas.PreviewItem:
    occasion = played.occasion
    found, incident = occasion.dataset, occasion.incident
    shape = None
    if found is not None:
        names = {"namespace": found.namespace, "name": found.name, "urn": found.urn, "display_name": found.display_name}
        shape = DatasetRefOut(id=found.id, **names, type=found.type)
    return schemas.PreviewItem(
        at=played.at,
        type=occasion.type,
        severity=Severity(occasion.severity),
        message=occasion.sentence,
        dataset=shape,
        incident_id=incident.id if incident else None,
        incident_number=incident.number if incident else None,
        status=schemas.AlertStatus.SENT if played.reason is None else schemas.AlertStatus.DEDUPLICATED,
        reason=played.reason,
    )
