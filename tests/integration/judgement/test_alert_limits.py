"""How often is too often: windows, groups, limits and quiet hours; and what is tried again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from headgate.server.outbound import Guard
from headgate.server.queue import Kind, NewTask, content_hash
from headgate.server.worker import Worker
from tests.support.alerts import Telling, a_channel, bodies, channels_by, in_turn
from tests.support.bad_servers import Behaviour, answering, dead_url, hanging
from tests.support.events import a_dataset, an_event

OK = answering(200, "ok")


async def test_the_same_type_of_the_same_dataset_is_told_once_in_the_window(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(dataset)
        telling.clock.turn(minutes=59)
        await telling.tell_of(dataset)
        telling.clock.turn(minutes=1)
        await telling.tell_of(dataset)
    assert await telling.outcomes() == [("SENT", None), ("DEDUPLICATED", "window"), ("SENT", None)]
    assert len(slack.asked) == 2


async def test_another_dataset_type_or_rule_has_a_window_of_its_own(telling: Telling) -> None:
    one, other = await telling.a_dataset("one"), await telling.a_dataset("other")
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(one)
        await telling.tell_of(other)
        await telling.tell_of(one, type="TestFailed")
        await telling.a_rule(slack.url, name="second")
        await telling.tell_of(one)
    assert len(slack.asked) == 4
    assert sorted(await telling.outcomes(), key=str).count(("DEDUPLICATED", "window")) == 1


async def test_without_a_window_everything_is_told(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        await telling.a_rule(slack.url, deduplication_minutes=0)
        for _ in range(3):
            await telling.tell_of(dataset)
    assert len(slack.asked) == 3


async def test_an_incident_is_one_message_whatever_joins_it(telling: Telling) -> None:
    one, other = await telling.a_dataset("one"), await telling.a_dataset("other")
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        incident = await telling.an_incident(one)
        await telling.tell(await telling.a_symptom(incident, one))
        await telling.tell(await telling.a_symptom(incident, other, type="TestFailed"))
        telling.clock.turn(minutes=61)
        await telling.tell(await telling.a_symptom(incident, other, type="RunFailed"))
    assert await telling.outcomes() == [("SENT", None), ("DEDUPLICATED", "grouped"), ("SENT", None)]
    assert [each["incident_id"] for each in await telling.history(incident_id=str(incident))] == [str(incident)] * 3


async def test_symptoms_of_one_batch_are_grouped_too(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        incident = await telling.an_incident(dataset)
        symptoms = [await telling.a_symptom(incident, dataset, type=f"Type{n}") for n in range(5)]
        await telling.make(
            *(NewTask("ALERT", "SYMPTOM", str(s), content_hash(s), {"symptom_id": str(s)}) for s in symptoms)
        )
        await telling.work()
    assert len(slack.asked) == 1
    assert sorted(await telling.outcomes(), key=str) == [*([("DEDUPLICATED", "grouped")] * 4), ("SENT", None)]


async def test_two_workers_at_once_tell_an_incident_once(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        incident = await telling.an_incident(dataset)
        symptoms = [await telling.a_symptom(incident, dataset, type=f"Type{n}") for n in range(6)]
        await telling.make(
            *(NewTask("ALERT", "SYMPTOM", str(s), content_hash(s), {"symptom_id": str(s)}) for s in symptoms)
        )
        workers = [
            Worker(telling.database, [Kind("ALERT", send=telling.alerting.send, batch_size=1)]) for _ in range(3)
        ]
        await asyncio.gather(*(worker.drain() for worker in workers))
    assert len(slack.asked) == 1


async def test_a_task_that_is_done_again_tells_nothing_again(telling: Telling) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url, deduplication_minutes=0)
        await telling.tell_of(await telling.a_dataset())
        await telling.db.execute("UPDATE async_task SET status = 'PENDING' WHERE organization_id = $1", telling.org)
        await telling.work()
    assert len(slack.asked) == 1
    assert await telling.outcomes() == [("SENT", None)]


@pytest.mark.parametrize(
    ("limits", "turn", "told"),
    [
        ({"max_per_minute": 2}, {"seconds": 10}, 2),
        ({"max_per_minute": 2}, {"seconds": 61}, 5),
        ({"max_per_hour": 3}, {"minutes": 5}, 3),
        ({"max_per_hour": 3}, {"minutes": 61}, 5),
    ],
    ids=["minute", "next minute", "hour", "next hour"],
)
async def test_a_rule_says_no_more_than_its_limits(
    telling: Telling, limits: dict[str, Any], turn: dict[str, float], told: int
) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url, deduplication_minutes=0, **limits)
        for number in range(5):
            await telling.tell_of(await telling.a_dataset(f"table_{number}"))
            telling.clock.turn(**turn)
    assert len(slack.asked) == told
    assert (await telling.outcomes()).count(("DEDUPLICATED", "throttled")) == 5 - told


async def test_the_next_message_says_how_many_the_limits_held_back(telling: Telling) -> None:
    with a_channel() as hook:
        config = {"webhook_url": hook.url}
        await telling.a_rule(channel_type="WEBHOOK", channel_config=config, deduplication_minutes=0, max_per_minute=1)
        for number in range(4):
            await telling.tell_of(await telling.a_dataset(f"table_{number}"))
        telling.clock.turn(minutes=2)
        await telling.tell_of(await telling.a_dataset("after"))
        telling.clock.turn(minutes=2)
        await telling.tell_of(await telling.a_dataset("later"))
    assert [each["held_back"] for each in bodies(hook)] == [0, 3, 0]
    assert [each["held_back"] for each in await telling.history(status="SENT")] == [0, 3, 0]


async def test_people_are_told_too_and_a_message_that_is_tried_again_says_the_same(telling: Telling) -> None:
    with a_channel(in_turn(OK, answering(500), OK)) as slack:
        await telling.a_rule(slack.url, deduplication_minutes=0, max_per_hour=1)
        for number in range(3):
            await telling.tell_of(await telling.a_dataset(f"table_{number}"))
        telling.clock.turn(minutes=61)
        await telling.tell_of(await telling.a_dataset("after"))
        await telling.hurry()
    said = "2 earlier alerts of this rule, because of its limits"
    assert [said in asked.body.decode() for asked in slack.asked] == [False, True, True]


NIGHT = {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin", "critical_passes": False}


async def test_quiet_hours_hold_back_and_tell_when_they_are_over(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    # 23:30 in Berlin.
    telling.clock.now = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, quiet_hours=NIGHT)
        incident = await telling.tell_of(dataset)
        await telling.tell(await telling.a_symptom(incident, dataset, type="TestFailed"))
        assert slack.asked == []
        assert await telling.outcomes() == [("DEDUPLICATED", "quiet_hours")] * 2
        due = await telling.db.fetchval(
            "SELECT max(next_run_at - created_at) FROM async_task WHERE organization_id = $1 AND status = 'PENDING'",
            telling.org,
        )
        assert 7.4 < due.total_seconds() / 3600 < 7.6
        telling.clock.now = datetime(2026, 3, 3, 6, 0, 1, tzinfo=UTC)
        await telling.hurry()
    assert len(slack.asked) == 1
    # At the same moment, so in whatever order.
    assert sorted((await telling.outcomes())[2:], key=str) == [("DEDUPLICATED", "grouped"), ("SENT", None)]


async def test_quiet_hours_hold_back_once_in_the_night_in_which_clocks_go_back(telling: Telling) -> None:
    # The second 02:10 of that night in Berlin.
    telling.clock.now = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, quiet_hours=NIGHT | {"to": "02:30"})
        await telling.tell_of(await telling.a_dataset())
        assert slack.asked == []
        assert await telling.task_states() == ["SUCCEEDED", "PENDING"]
        assert 1190 < await held_for_s(telling) < 1230


async def test_what_is_held_back_never_comes_back_at_once(telling: Telling) -> None:
    telling.clock.now = datetime(2026, 3, 3, 5, 59, 58, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, quiet_hours=NIGHT)
        await telling.tell_of(await telling.a_dataset())
    assert 59 < await held_for_s(telling) < 61


async def held_for_s(telling: Telling) -> float:
    due = await telling.db.fetchval(
        "SELECT max(next_run_at - created_at) FROM async_task WHERE organization_id = $1 AND status = 'PENDING'",
        telling.org,
    )
    return float(due.total_seconds())


async def test_what_is_over_by_the_morning_is_not_told(telling: Telling) -> None:
    telling.clock.now = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, quiet_hours=NIGHT)
        await telling.tell_of(await telling.a_dataset())
        await telling.db.execute("UPDATE incidents SET status = 'resolved' WHERE organization_id = $1", telling.org)
        telling.clock.now = datetime(2026, 3, 3, 7, 0, tzinfo=UTC)
        await telling.hurry()
    assert slack.asked == []


async def test_critical_passes_the_quiet_hours_if_the_rule_says_so(telling: Telling) -> None:
    telling.clock.now = datetime(2026, 3, 2, 22, 30, tzinfo=UTC)
    with a_channel() as slack:
        await telling.a_rule(slack.url, quiet_hours=NIGHT | {"critical_passes": True})
        await telling.tell_of(await telling.a_dataset("a"))
        await telling.tell_of(await telling.a_dataset("b"), severity="WARNING")
    assert await telling.outcomes() == [("SENT", None), ("DEDUPLICATED", "quiet_hours")]


@pytest.mark.parametrize(
    "bad", [answering(500, "oops"), answering(503), answering(429, Retry_After="7")], ids=["500", "503", "429"]
)
async def test_a_channel_that_is_unwell_is_tried_again_under_the_same_id(telling: Telling, bad: Behaviour) -> None:
    with a_channel(in_turn(bad, OK)) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
        [kept] = await telling.history()
        assert (kept["status"], kept["reason"], kept["attempts"]) == ("FAILED", "retrying", 1)
        assert kept["error_message"].startswith("answered ")
        assert await telling.task_states() == ["FAILED"]
        await telling.hurry()
    assert await telling.task_states() == ["SUCCEEDED"]
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"], kept["attempts"], kept["error_message"]) == ("SENT", None, 2, None)
    assert {asked.headers["x-headgate-delivery"] for asked in slack.asked} == {kept["id"]}


async def test_retry_after_is_heeded_where_it_is_longer_than_the_pause(telling: Telling) -> None:
    with a_channel(answering(429, Retry_After="600")) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
    wait = await telling.db.fetchval(
        "SELECT next_run_at - now() FROM async_task WHERE organization_id = $1", telling.org
    )
    assert 500 < wait.total_seconds() <= 600


async def test_no_answer_is_tried_again(telling: Telling) -> None:
    telling.channels = channels_by(telling, Guard(telling.settings.alert_allow_private), timeout_s=0.3)
    with a_channel(hanging) as slack:
        await telling.a_rule(slack.url)
        await telling.a_rule(dead_url())
        await telling.tell_of(await telling.a_dataset())
    errors = sorted(each["error_message"] for each in await telling.history())
    assert errors == ["no answer within 0.3 s", "no connection: Connection refused"]
    assert await telling.outcomes() == [("FAILED", "retrying")] * 2


@pytest.mark.parametrize("status", [400, 403, 404, 410])
async def test_a_refusal_is_final_and_the_task_is_done(telling: Telling, status: int) -> None:
    with a_channel(answering(status, "no_service")) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
        await telling.hurry()
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "refused")
    assert kept["response_payload"] == {"status_code": status, "body": "no_service"}
    assert len(slack.asked) == 1
    assert await telling.task_states() == ["SUCCEEDED"]


async def test_in_the_end_it_is_given_up(telling: Telling) -> None:
    with a_channel(answering(500)) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
        for _ in range(8):
            await telling.hurry()
    [kept] = await telling.history()
    assert (kept["status"], kept["reason"]) == ("FAILED", "gave_up")
    assert kept["attempts"] == len(slack.asked) == 6
    assert await telling.task_states() == ["DEAD"]


async def test_what_failed_keeps_nothing_else_back(telling: Telling) -> None:
    dataset = await telling.a_dataset()
    with a_channel(in_turn(answering(500), OK)) as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(dataset)
        await telling.tell_of(dataset)
        assert await telling.outcomes() == [("FAILED", "retrying"), ("SENT", None)]
        # By now it was told by the other one.
        await telling.hurry()
    assert sorted(await telling.outcomes(), key=str) == [("DEDUPLICATED", "window"), ("SENT", None)]
    assert len(slack.asked) == 2


async def test_a_worker_that_died_while_it_sent_is_followed_by_one_that_sends_under_the_same_id(
    telling: Telling,
) -> None:
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(await telling.a_dataset())
        # As it was before the answer came.
        await telling.db.execute(
            "UPDATE alert_history SET status = 'FAILED', reason = 'sending' WHERE organization_id = $1", telling.org
        )
        await telling.db.execute("UPDATE async_task SET status = 'PENDING' WHERE organization_id = $1", telling.org)
        await telling.work()
    assert len({asked.headers["x-headgate-delivery"] for asked in slack.asked}) == 1
    assert len(slack.asked) == 2
    assert await telling.outcomes() == [("SENT", None)]


async def test_what_was_told_of_a_dataset_goes_with_it_into_a_merge_and_back(telling: Telling) -> None:
    tables = [a_dataset("orders_new"), a_dataset("orders_old")]
    await telling.tenant.send_ok(*(an_event(job=table["name"], outputs=[table]) for table in tables))
    rows = await telling.db.fetch("SELECT id FROM datasets WHERE organization_id = $1 ORDER BY name", telling.org)
    new, old = (row["id"] for row in rows)
    with a_channel() as slack:
        await telling.a_rule(slack.url)
        await telling.tell_of(old)
        await telling.tell_of(new, type="TestFailed")
        merge = await telling.post("/api/v1/dataset-merges", {"one": str(new), "other": str(old)})
        assert {each["dataset_id"] for each in await telling.history()} == {merge["survivor_id"]}
        # It is one dataset now, and was told of.
        await telling.tell_of(UUID(merge["survivor_id"]))
        assert (await telling.outcomes())[-1] == ("DEDUPLICATED", "window")
        await telling.post(f"/api/v1/dataset-merges/{merge['id']}/undo", {})
    assert [each["dataset_id"] for each in (await telling.history())[:2]] == [str(old), str(new)]
