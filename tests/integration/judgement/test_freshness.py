"""Datasets that should have been written: by what a person or a pipeline says, else by the rhythm of their writes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import httpx
import pytest

from headgate.server.anomalies import jobs
from headgate.server.anomalies.watching import watch
from headgate.server.incidents import jobs as incidents
from headgate.server.queue import Batch
from headgate.server.worker import Worker
from tests.support.anomalies import Judging, a_load, spelled
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event

RUN = a_run_id()


def now() -> datetime:
    return datetime.now(UTC)


def ago(**span: float) -> datetime:
    return now() - timedelta(**span)


def path(dataset: str = "orders") -> str:
    return f"/api/v1/datasets/{dataset}/freshness-sla"


async def put(judging: Judging, hours: Any, dataset: str = "orders") -> httpx.Response:
    return await judging.tenant.client.put(path(dataset), json={"sla_hours": hours})


async def freshness(judging: Judging) -> Json:
    response = await judging.tenant.client.get(path())
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


async def written(judging: Judging, at: datetime, table: str = "orders") -> None:
    await judging.detect(await judging.sent(a_load(at, table=table, job=f"load_{table}")))


async def in_the_catalog(judging: Judging, dataset: str = "orders") -> Json:
    found: Json = (await judging.tenant.client.get(f"/api/v1/datasets/{dataset}")).json()
    return found


async def test_an_sla_is_set_read_changed_and_removed(judging: Judging) -> None:
    await written(judging, ago(hours=1))
    assert (await freshness(judging))["sla_hours"] is None

    first = (await put(judging, 6)).json()
    assert (first["sla_hours"], first["source"], first["is_stale"], first["expected_from"]) == (6, "user", False, "sla")
    assert (await put(judging, 0.5)).json()["is_stale"] is True
    shown = await in_the_catalog(judging)
    assert (shown["sla_hours"], shown["is_stale"], shown["last_updated"] is not None) == (0.5, True, True)
    assert (await judging.tenant.client.delete(path())).status_code == 204
    assert (await judging.tenant.client.delete(path())).status_code == 204
    after = await freshness(judging)
    assert (after["sla_hours"], after["source"], after["is_stale"]) == (None, None, False)


@pytest.mark.parametrize("hours", [0, -1, "soon", None, 1e9, "NaN", True], ids=repr)
async def test_an_sla_that_makes_no_sense_is_refused(judging: Judging, hours: Any) -> None:
    await written(judging, ago(hours=1))

    assert (await put(judging, hours)).status_code == 422
    assert (await put(judging, 1, dataset="nothing")).status_code == 404


async def test_a_dataset_that_is_older_than_its_sla_is_critical(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    await put(judging, 4)

    await judging.watch()

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["severity"], found["dataset"]) == ("FreshnessMissed", "CRITICAL", "orders")
    assert (found["run_id"], found["job_name"]) == (None, "load_orders")
    assert "SLA is 4 hours" in found["description"]
    assert [task["payload"]["anomaly_id"] for task in await judging.tasks("CORRELATE")] == [str(found["id"])]
    (row,) = await judging.rows("SELECT * FROM freshness_sla WHERE organization_id = $1")
    assert row["is_stale"] is True
    assert row["last_updated_at"] is not None


async def test_a_lapse_is_told_once_and_the_next_one_again(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    await put(judging, 4)
    for hours in range(3):
        await judging.watch(now() + timedelta(hours=hours))
    assert await judging.types() == ["FreshnessMissed"]

    await written(judging, now())
    (row,) = await judging.rows("SELECT * FROM freshness_sla WHERE organization_id = $1")
    assert row["is_stale"] is False
    await judging.watch(now() + timedelta(hours=1))
    assert await judging.types() == ["FreshnessMissed"]
    await judging.watch(now() + timedelta(hours=5))
    assert await judging.types() == ["FreshnessMissed", "FreshnessMissed"]


async def test_a_shorter_sla_is_looked_at_in_the_next_round(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    await put(judging, 10)
    await judging.watch()
    assert await judging.anomalies() == []

    await put(judging, 2)
    await judging.watch()
    assert await judging.types() == ["FreshnessMissed"]


async def test_what_was_never_written_is_as_old_as_it_is_known(judging: Judging) -> None:
    await judging.sent(a_load(ago(hours=30), state="START"))
    await put(judging, 24)

    await judging.watch()

    (found,) = await judging.anomalies(anomaly_type="FreshnessMissed")
    assert found["description"].startswith("it was never written since it is known, for 30 hours, since ")
    assert found["description"].endswith("; its SLA is 24 hours")
    assert found["actual_value"]["last_write_at"] is None
    assert datetime.fromisoformat(found["actual_value"]["known_since"]) < ago(hours=29)
    assert (await freshness(judging))["last_updated"] is None


async def test_what_was_never_written_is_not_missed_any_more_when_less_is_asked_and_again_when_more_is(
    judging: Judging,
) -> None:
    await judging.sent(a_load(ago(hours=30), state="START"))
    await put(judging, 24)
    await judging.watch()

    await put(judging, 1)
    await judging.watch()
    assert [row["status"] for row in await judging.anomalies(anomaly_type="FreshnessMissed")] == ["OPEN"]
    await put(judging, 48)
    await judging.watch()
    (found,) = await judging.anomalies(anomaly_type="FreshnessMissed")
    assert (found["status"], found["resolution_notes"]) == (
        "RESOLVED", "its SLA is 48 hours now, and it is not known for longer",
    )  # fmt: skip
    await put(judging, 24)
    await judging.watch()
    first, again = await judging.anomalies(anomaly_type="FreshnessMissed")
    assert (first["status"], again["status"]) == ("RESOLVED", "OPEN")
    assert again["observed_at"] > ago(minutes=5)


async def test_a_first_write_that_is_heard_of_late_ends_the_lapse(judging: Judging) -> None:
    await judging.sent(a_load(ago(hours=30), state="START", run=RUN))
    await put(judging, 24)
    await judging.watch()
    worker = Worker(judging.database, [kind for kind in (*jobs.KINDS, *incidents.KINDS) if kind.every_s is None])
    await worker.drain()

    await judging.sent(a_load(ago(hours=29), run=RUN))
    await worker.drain()

    (found,) = await judging.anomalies(anomaly_type="FreshnessMissed")
    assert found["status"] == "RESOLVED"
    assert "heard of late" in found["resolution_notes"]


async def test_an_sla_of_one_hour_is_said_as_one(judging: Judging) -> None:
    await written(judging, ago(minutes=50))
    await put(judging, 0.5)
    await judging.watch()
    await put(judging, 1)
    await judging.watch()

    (found,) = await judging.anomalies()
    assert found["resolution_notes"] == "its SLA is 1 hour now, and the last write is not older"


async def copied(judging: Judging, count: int, step: timedelta) -> None:
    """The only run so far, so many times more, each a while after the one before."""
    await judging.db.execute(
        """INSERT INTO job_runs (organization_id, run_id, job_id, job_ids, state, started_at, complete_at,
                                 last_event_at, output_ids, producer)
           SELECT $1, gen_random_uuid(), r.job_id, r.job_ids, 'COMPLETE', t.at, t.at, t.at, r.output_ids, r.producer
             FROM job_runs r
            CROSS JOIN generate_series(1, $3) i
            CROSS JOIN LATERAL (SELECT r.complete_at + i * $2::interval
                                       + abs(hashint4(i)) % 600 * interval '0.1 seconds' AS at) t
            WHERE r.organization_id = $1""",
        judging.organization_id,
        step,
        count,
    )


async def writes_of(judging: Judging) -> list[datetime]:
    dataset_id = await judging.dataset_id()
    return list(await judging.db.fetchval("SELECT latest_writes($1, $2)", judging.organization_id, dataset_id))


@pytest.mark.parametrize("minutes", [1, 5, 15, 25])
async def test_what_is_written_every_few_minutes_has_a_rhythm(judging: Judging, minutes: int) -> None:
    first, step = ago(days=20), timedelta(minutes=minutes)
    await written(judging, first)
    await copied(judging, int(timedelta(days=18) / step), step)

    known = await freshness(judging)

    last = datetime.fromisoformat(known["last_updated"])
    assert abs(last - first - timedelta(days=18)) < step + timedelta(minutes=1)
    assert known["expected_from"] == "rhythm"
    assert timedelta(hours=1) < datetime.fromisoformat(known["expected_by"]) - last < timedelta(hours=3)
    assert len(await writes_of(judging)) <= 1000


@pytest.mark.parametrize(("minutes", "days"), [(35, 40), (60, 120), (1440, 60)], ids=str)
async def test_of_what_is_written_less_often_each_of_the_latest_writes_counts(
    judging: Judging, minutes: int, days: int
) -> None:
    step = timedelta(minutes=minutes)
    await written(judging, ago(days=days))
    await copied(judging, int(timedelta(days=days - 1) / step), step)

    writes = await writes_of(judging)

    assert len(writes) == min(1000, 1 + int(timedelta(days=days - 1) / step))
    gaps = [after - at for at, after in pairwise(writes)]
    assert max(abs(gap - step) for gap in gaps) <= timedelta(minutes=1)


async def test_a_backfill_is_no_rhythm(judging: Judging) -> None:
    await judging.watch()
    last = ago(hours=3, minutes=30)
    for days in range(29, -1, -1):
        await written(judging, last - timedelta(days=days))
    for minute in range(90):
        await written(judging, last + timedelta(minutes=90 + minute))

    await judging.watch()
    await judging.watch(now() + timedelta(hours=18))

    assert await judging.anomalies() == []
    known = await freshness(judging)
    assert known["expected_from"] == "rhythm"
    assert datetime.fromisoformat(known["expected_by"]) > last + timedelta(days=1)


async def test_a_rhythm_is_learnt_and_a_missing_write_is_a_warning(judging: Judging) -> None:
    await judging.watch()
    for days in range(29, -1, -1):
        await written(judging, ago(days=days))

    await judging.watch()
    assert await judging.anomalies() == []
    known = await freshness(judging)
    assert (known["expected_from"], known["is_stale"]) == ("rhythm", False)
    await judging.watch(now() + timedelta(hours=20))
    assert await judging.anomalies() == []
    await judging.watch(now() + timedelta(hours=40))

    (found,) = await judging.anomalies()
    assert (found["anomaly_type"], found["severity"], found["metadata"]) == (
        "FreshnessMissed", "WARNING", {"by": "rhythm"},
    )  # fmt: skip


async def stale(judging: Judging) -> tuple[bool, bool, bool, str]:
    """What the freshness, the dataset, the list of datasets and its status say."""
    listed = (await judging.tenant.client.get("/api/v1/datasets")).json()["items"]
    (status,) = (await judging.tenant.client.get("/api/v1/status", params={"ids": listed[0]["id"]})).json()["items"]
    return (
        (await freshness(judging))["is_stale"],
        (await in_the_catalog(judging))["is_stale"],
        listed[0]["is_stale"],
        status["state"],
    )


async def test_what_is_late_by_its_rhythm_is_stale_until_it_is_written(judging: Judging) -> None:
    await judging.watch()
    for days in range(31, 1, -1):
        await written(judging, ago(days=days))
    assert await stale(judging) == (False, False, False, "ok")
    await judging.db.execute(
        "UPDATE watched_datasets SET since = now() - interval '30 days' WHERE organization_id = $1",
        judging.organization_id,
    )
    await judging.watch()
    assert await judging.types() == ["FreshnessMissed"]
    assert await stale(judging) == (True, True, True, "stale")

    await written(judging, now())

    assert await stale(judging) == (False, False, False, "ok"), "whether its anomaly was looked at yet or not"


async def test_what_a_person_says_is_no_lapse_is_not_stale(judging: Judging) -> None:
    await judging.watch()
    for days in range(29, -1, -1):
        await written(judging, ago(days=days))
    await judging.watch(now() + timedelta(hours=40))
    (found,) = await judging.anomalies()
    assert (await stale(judging))[0] is True

    await judging.tenant.client.patch(f"/api/v1/anomalies/{found['id']}", json={"status": "FALSE_POSITIVE"})

    assert await stale(judging) == (False, False, False, "ok")


async def test_a_longer_sla_counts_at_once_and_what_an_sla_missed_says_nothing_without_it(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    await put(judging, 1)
    await judging.watch()
    assert await judging.types() == ["FreshnessMissed"]
    assert await stale(judging) == (True, True, True, "stale")

    await put(judging, 100)
    assert await stale(judging) == (False, False, False, "ok")
    await judging.tenant.client.delete(path())
    assert await stale(judging) == (False, False, False, "ok")


async def test_what_stopped_before_anybody_watched_is_left_in_peace(judging: Judging) -> None:
    for days in range(60, 30, -1):
        await written(judging, ago(days=days))

    await judging.watch()
    await judging.watch(now() + timedelta(days=5))

    assert await judging.anomalies() == []


async def test_what_was_dropped_is_not_waited_for(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    dropped = {"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")}
    await judging.sent(an_event(job="drop", time=spelled(ago(hours=4)), outputs=[a_dataset("orders", facets=dropped)]))
    await put(judging, 1)

    await judging.watch()

    assert await judging.anomalies() == []


async def test_freshness_can_be_left_alone(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    await put(judging, 1)
    policy = {"dataset": "orders", "metric": "freshness", "enabled": False}
    assert (await judging.tenant.client.post("/api/v1/detection-policies", json=policy)).status_code == 201

    await judging.watch()

    assert await judging.anomalies() == []


async def test_a_round_looks_at_so_many_and_the_next_one_goes_on(
    judging: Judging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_DATASETS", 2)
    for number in range(5):
        await written(judging, ago(hours=5), table=f"t{number}")
        await put(judging, 1, dataset=f"t{number}")

    counts = []
    for _ in range(4):
        await judging.watch()
        counts.append(len(await judging.anomalies()))

    assert counts == [2, 4, 5, 5]


async def test_a_pipelines_freshness_block_is_watched_too(judging: Judging) -> None:
    await written(judging, ago(hours=5))
    await judging.db.execute(
        """INSERT INTO freshness_sla (organization_id, dataset_id, sla_hours, source, told_at)
           VALUES ($1, $2, 1, 'pipeline', now())""",
        judging.organization_id,
        await judging.dataset_id(),
    )
    await judging.watch()

    assert await judging.types() == ["FreshnessMissed"]
    assert (await freshness(judging))["source"] == "pipeline"
    assert (await put(judging, 9)).json()["source"] == "user"


# --- writes that are heard of late ---


async def looked_into(judging: Judging, *events: Json) -> None:
    """Send events, judge them, and have causes looked for."""
    await judging.tenant.send_ok(*events)
    kinds = [kind for kind in (*jobs.KINDS, *incidents.KINDS) if kind.every_s is None]
    await Worker(judging.database, kinds).drain()


async def tended(judging: Judging) -> None:
    async with judging.database.tenant(judging.organization_id) as conn:
        await incidents.tend(conn, Batch(judging.organization_id, "TEND", "", ()))


async def the_incident(judging: Judging) -> Json:
    (found,) = (await judging.tenant.client.get("/api/v1/incidents")).json()["items"]
    whole: Json = (await judging.tenant.client.get(f"/api/v1/incidents/{found['id']}")).json()
    return whole


async def a_missed_write(judging: Judging, last: datetime, sla_hours: float) -> None:
    await looked_into(judging, a_load(last))
    await put(judging, sla_hours)
    await judging.watch()
    await looked_into(judging)
    assert ((await the_incident(judging))["status"], await judging.types()) == ("open", ["FreshnessMissed"])


async def test_a_write_that_had_come_in_time_and_is_heard_of_late_ends_what_was_told(judging: Judging) -> None:
    await a_missed_write(judging, ago(hours=5), sla_hours=4)
    ended = ago(hours=2)

    await looked_into(judging, a_load(ended))

    (found,) = await judging.anomalies()
    reason = f"the write was heard of late: it had ended at {ended:%Y-%m-%d %H:%M} UTC, before it was due"
    assert (found["status"], found["resolved_by"], found["resolution_notes"]) == ("RESOLVED", "headgate", reason)
    incident = await the_incident(judging)
    assert (incident["status"], incident["resolution"]) == ("resolved", reason)
    assert [each["cleared_at"] is not None for each in incident["symptoms"]] == [True]
    await judging.watch()
    assert len(await judging.anomalies()) == 1, "it is not late again"


async def test_what_is_late_again_after_that_write_is_told_again(judging: Judging) -> None:
    await a_missed_write(judging, ago(hours=50), sla_hours=4)
    await looked_into(judging, a_load(ago(hours=47)))
    assert (await the_incident(judging))["status"] == "resolved"

    await judging.watch()
    await looked_into(judging)

    assert [row["status"] for row in await judging.anomalies()] == ["RESOLVED", "OPEN"]
    assert (await the_incident(judging))["status"] == "open"


async def test_an_even_earlier_write_that_is_heard_of_late_changes_nothing(judging: Judging) -> None:
    await a_missed_write(judging, ago(hours=5), sla_hours=4)

    await looked_into(judging, a_load(ago(hours=6)), a_load(ago(hours=2), state="FAIL", job="other"))
    await tended(judging)

    assert [row["status"] for row in await judging.anomalies(anomaly_type="FreshnessMissed")] == ["OPEN"]


async def test_who_opens_it_again_is_not_contradicted(judging: Judging) -> None:
    await a_missed_write(judging, ago(hours=5), sla_hours=4)
    await looked_into(judging, a_load(ago(hours=2)))
    path = f"/api/v1/incidents/{(await the_incident(judging))['id']}/status"
    response = await judging.tenant.client.patch(path, json={"status": "open", "reason": "that write was empty"})
    assert response.is_success, response.text

    await tended(judging)

    assert (await the_incident(judging))["status"] == "open"
    assert [row["status"] for row in await judging.anomalies()] == ["OPEN"]


async def test_a_late_word_that_comes_before_anybody_looks_into_it_counts(judging: Judging) -> None:
    await looked_into(judging, a_load(ago(hours=5)))
    await put(judging, 4)
    await judging.watch()
    await judging.detect(await judging.sent(a_load(ago(hours=2))))
    await looked_into(judging)

    await tended(judging)

    assert [row["status"] for row in await judging.anomalies()] == ["RESOLVED"]
    assert (await the_incident(judging))["status"] == "resolved"


# --- clocks that are ahead ---


async def a_write_ahead(judging: Judging, received: datetime) -> None:
    """A write that says to be of next year, and was heard of some time ago."""
    await looked_into(judging, a_load(ago(days=-365)))
    await judging.db.execute(
        "UPDATE job_runs SET updated_at = $2 WHERE organization_id = $1", judging.organization_id, received
    )


async def test_a_write_that_says_to_be_of_the_future_counts_when_it_was_heard_of(judging: Judging) -> None:
    received = ago(hours=3)
    await a_write_ahead(judging, received)

    assert (await put(judging, 4)).json()["is_stale"] is False
    found = (await put(judging, 1)).json()
    assert (found["last_updated"], found["is_stale"]) == (spelled(received), True)
    await judging.watch()
    assert await judging.types() == ["FreshnessMissed"]


async def test_a_clock_may_be_a_little_ahead(judging: Judging) -> None:
    at = ago(minutes=-4)
    await looked_into(judging, a_load(at))

    assert (await put(judging, 1)).json()["last_updated"] == spelled(at)


async def test_the_next_write_ends_what_is_missing_since_one_of_the_future(judging: Judging) -> None:
    await a_write_ahead(judging, ago(hours=3))
    await put(judging, 1)
    await judging.watch()
    await looked_into(judging)
    assert (await the_incident(judging))["status"] == "open", "a write of the future is none since then"

    await looked_into(judging, a_load(ago(minutes=1)))

    assert [(row["status"], row["resolution_notes"]) for row in await judging.anomalies()] == [
        ("RESOLVED", "the dataset was written")
    ]
    assert (await the_incident(judging))["status"] == "resolved"


# --- an SLA that asks for less ---


async def less_is_asked(judging: Judging, sla_hours: float | None) -> None:
    if sla_hours is None:
        assert (await judging.tenant.client.delete(path())).status_code == 204
    else:
        assert (await put(judging, sla_hours)).is_success
    await judging.watch()
    await looked_into(judging)


@pytest.mark.parametrize(
    ("sla_hours", "reason"),
    [
        (48, "its SLA is 48 hours now, and the last write is not older"),
        (None, "it has no SLA now, and by its rhythm no write is missing"),
    ],
    ids=["longer", "none"],
)
async def test_what_an_sla_no_longer_asks_for_is_not_missing(
    judging: Judging, sla_hours: float | None, reason: str
) -> None:
    await a_missed_write(judging, ago(hours=5), sla_hours=4)

    await less_is_asked(judging, sla_hours)

    (found,) = await judging.anomalies()
    assert (found["status"], found["resolved_by"], found["resolution_notes"]) == ("RESOLVED", "headgate", reason)
    incident = await the_incident(judging)
    assert (incident["status"], [each["cleared_at"] is not None for each in incident["symptoms"]]) == (
        "resolved",
        [True],
    )
    assert (await freshness(judging))["is_stale"] is False


async def test_what_is_still_too_old_stays_missing(judging: Judging) -> None:
    await a_missed_write(judging, ago(hours=50), sla_hours=4)

    await less_is_asked(judging, 48)

    (found,) = await judging.anomalies()
    assert (found["status"], found["expected_value"]["sla_hours"]) == ("OPEN", 48)
    assert (await the_incident(judging))["status"] == "open"


async def test_an_sla_that_asks_for_more_again_is_missed_again(judging: Judging) -> None:
    await a_missed_write(judging, ago(hours=5), sla_hours=4)
    await less_is_asked(judging, 48)

    await put(judging, 3)
    await judging.watch()
    await looked_into(judging)

    assert sorted(row["status"] for row in await judging.anomalies()) == ["OPEN", "RESOLVED"]
    told = (await judging.tenant.client.get("/api/v1/incidents")).json()["items"]
    assert "open" in {each["status"] for each in told}
