"""What was sent stays to be seen: after its rule is gone, and for as long as the server is told to keep it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from headgate.server.alerts import jobs
from headgate.server.alerts.jobs import AlertCleaning
from headgate.server.queue import Kind
from headgate.server.worker import Worker
from headgate.settings import Settings
from tests.support.alerts import HISTORY, RULES, Telling, a_channel


async def test_what_a_rule_sent_outlives_it(telling: Telling) -> None:
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, name="sales team")
        await telling.tell_of(await telling.a_dataset())
    response = await telling.tenant.client.delete(f"{RULES}/{rule['id']}")
    assert response.status_code == 204
    for params in ({}, {"rule_id": rule["id"]}, {"rule": rule["id"]}):
        [kept] = await telling.history(**params)
        assert (kept["alert_rule_id"], kept["rule_name"], kept["status"]) == (rule["id"], "sales team", "SENT")


async def test_the_history_of_a_rule_is_asked_for_by_its_name(telling: Telling) -> None:
    with a_channel() as slack:
        for name in ("sales team", "another"):
            await telling.a_rule(slack.url, name=name)
        await telling.tell_of(await telling.a_dataset())
    assert [each["rule_name"] for each in await telling.history(rule="sales team")] == ["sales team"]
    problem = await telling.refused("GET", f"{HISTORY}?rule=zzz", {}, 404)
    assert "'zzz'" in problem["detail"]
    both = await telling.refused("GET", f"{HISTORY}?rule=another&rule_id={uuid4()}", {})
    assert both["errors"][0]["path"] == "query.rule"


async def test_a_rule_of_the_same_name_begins_anew(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        rule = await telling.a_rule(slack.url, name="one")
        await telling.tell_of(dataset)
        await telling.tenant.client.delete(f"{RULES}/{rule['id']}")
        await telling.a_rule(slack.url, name="one")
        await telling.tell_of(dataset)
    assert [each["status"] for each in await telling.history()] == ["SENT", "SENT"]


async def clean(telling: Telling, days: int) -> None:
    cleaning = AlertCleaning(days, clock=telling.clock)
    await Worker(telling.database, [Kind("CLEAN_ALERTS", send=cleaning.send, every_s=3600)]).schedule()
    await Worker(telling.database, [Kind("CLEAN_ALERTS", send=cleaning.send, every_s=3600)]).drain()


async def test_what_is_older_than_is_kept_is_removed_batch_after_batch(
    telling: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "CLEANUP_BATCH", 2)
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        for number in range(5):
            await telling.tell_of(await telling.a_dataset(f"old_{number}"))
        telling.clock.turn(days=40)
        await telling.tell_of(await telling.a_dataset("new"))
        await clean(telling, days=39)
    [kept] = await telling.history()
    assert "new" in kept["title"]


async def test_the_cleaning_recurs_and_the_days_are_a_setting(telling: Telling) -> None:
    [kind] = [each for each in jobs.kinds(telling.settings) if each.task_type == "CLEAN_ALERTS"]
    assert kind.every_s == 3600
    assert Settings(_env_file=None).alert_history_days == 365


@pytest.mark.parametrize("days", [0, 30, "x"])
def test_days_that_windows_look_back_further_than_are_refused(days: Any) -> None:
    with pytest.raises(ValueError, match="alert_history_days"):
        Settings(alert_history_days=days, _env_file=None)


async def test_some_fields_of_a_rule_can_be_changed_alone(telling: Telling) -> None:
    rule = await telling.a_rule("https://hooks.example", severity="CRITICAL", max_per_hour=5)
    path = f"{RULES}/{rule['id']}"
    hours = {"from": "22:00", "to": "07:00", "timezone": "UTC", "critical_passes": True}
    given = {"name": "renamed", "severity": None, "quiet_hours": hours}
    changed = (await telling.tenant.client.patch(path, json=given)).json()
    assert changed == rule | given | {"updated_at": changed["updated_at"]}
    assert (await telling.get(path)) == changed
    await telling.refused("PATCH", path, {})
    await telling.refused("PATCH", path, {"name": None})
    await telling.refused("PATCH", path, {"channel_type": "EMAIL"})
    config = (await telling.tenant.client.patch(path, json={"channel_config": {"channel": "#x"}})).json()
    assert config["channel_config"] == rule["channel_config"] | {"channel": "#x"}
    await telling.refused("PATCH", path, {"channel_config": {"webhook_url": None}})
    await telling.refused("PATCH", path, {"channel_config": {"email_to": []}})
    other = await telling.a_rule("https://hooks.example")
    await telling.refused("PATCH", path, {"name": other["name"]}, 409)


async def test_a_window_counts_across_the_cleaning(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        await telling.a_rule(slack.url, deduplication_minutes=43_200)
        await telling.tell_of(dataset)
        telling.clock.now += timedelta(days=29)
        await clean(telling, days=31)
        await telling.tell_of(dataset)
    assert [each["reason"] for each in await telling.history()] == [None, "window"]
