"""How incidents go on: they end by themselves, people act on them, and all of it is kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headgate.server.incidents.schemas import IncidentEvidenceOut
from tests.support.events import a_run_id, at
from tests.support.incidents import DAY, FAILS, HOUR, PASSES, Shop, a_key, checked, events, wrote
from tests.support.pipeline_events import a_full_record, a_node_end

# --- by themselves ---


async def test_an_incident_ends_when_its_test_passes_again(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 120, PASSES))

    found = await failing.incident()
    assert (found["status"], found["resolved_by"], found["resolution"]) == (
        "resolved", "headgate", "the test passes again",
    )  # fmt: skip
    assert (found["resolved_at"], found["open_symptom_count"]) == (at(120), 0)
    assert ("INCIDENT", "IncidentResolved") in await failing.alerts()


async def test_an_incident_goes_on_while_another_of_its_tests_fails(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 90, ("unique", "id", False)))
    await failing.send_and_work(checked("marts.orders", 120, PASSES))

    found = await failing.incident()
    assert (found["status"], found["symptom_count"], found["open_symptom_count"]) == ("open", 2, 1)


async def test_a_pass_from_before_the_failure_ends_nothing(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 30, PASSES))

    assert (await failing.incident())["status"] == "open"


async def test_a_failure_that_was_over_before_anybody_looked_is_kept_and_troubles_nobody(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, FAILS), checked("marts.orders", 120, PASSES))
    await shop.work()

    found = await shop.incident()
    assert (found["status"], found["resolved_at"], found["symptoms"][0]["cleared_at"]) == ("resolved", at(120), at(120))
    assert await shop.alerts() == []


@pytest.mark.parametrize("results", [(FAILS, PASSES), (PASSES, FAILS)], ids=["fails first", "passes first"])
async def test_a_test_that_fails_beside_one_of_its_name_and_column_that_passes_opens_an_incident(
    shop: Shop, results: tuple[tuple[str, str, bool], ...]
) -> None:
    run = a_run_id()
    await shop.send_and_work(checked("marts.orders", 60, *results, run=run, state="RUNNING"))
    await shop.send_and_work(checked("marts.orders", 90, *results, run=run))
    assert (await shop.incident())["status"] == "open"

    await shop.send_and_work(checked("marts.orders", 120, PASSES, PASSES))

    assert (await shop.incident())["status"] == "resolved"


def from_now(seconds: float = 0) -> float:
    """As tests count seconds."""
    return (datetime.now(UTC) - datetime.fromisoformat(at())).total_seconds() + seconds


async def test_a_failure_by_a_clock_that_is_ahead_is_of_now_and_ends_with_a_pass_that_comes_in_later(
    shop: Shop,
) -> None:
    await shop.send_and_work(*wrote("load", from_now(-HOUR), "marts.orders"))
    await shop.send_and_work(checked("marts.orders", from_now(-60), PASSES))
    await shop.send_and_work(checked("marts.orders", from_now(400 * DAY), FAILS))
    found = await shop.incident()
    assert (found["status"], found["job_name"]) == ("open", "load")
    for told in (found["opened_at"], found["last_seen_at"]):
        assert datetime.fromisoformat(told) <= datetime.now(UTC)
    await shop.set_status(found, "resolved")
    await shop.set_status(found, "open")
    await tended(shop)
    assert (await shop.incident())["status"] == "open", "what passed before says nothing"

    await shop.send_and_work(checked("marts.orders", from_now(), PASSES))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the test passes again")


async def test_a_pass_by_a_clock_that_is_ahead_hides_no_failure_that_comes_in_later(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", from_now(-HOUR), "marts.orders"))
    await shop.send_and_work(checked("marts.orders", from_now(400 * DAY), PASSES))
    await shop.send_and_work(checked("marts.orders", from_now(), FAILS))
    await tended(shop)

    assert (await shop.incident())["status"] == "open"


async def test_clocks_that_are_all_ahead_alike_tell_the_same_story(shop: Shop) -> None:
    run, ahead = a_run_id(), from_now(2 * HOUR)
    await shop.send_and_work(*wrote("load", ahead - 300, "marts.orders", run=run))
    await shop.send_and_work(checked("marts.orders", ahead - 200, PASSES), checked("marts.orders", ahead - 100, FAILS))
    found = await shop.incident()
    assert (found["status"], found["run_id"], found["cause"]["run_id"]) == ("open", run, run)

    await shop.send_and_work(checked("marts.orders", ahead, PASSES))

    assert (await shop.incident())["status"] == "resolved"


async def test_a_run_that_failed_by_a_clock_that_is_ahead_is_over_when_its_job_completes_later(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", from_now(400 * DAY), "marts.orders", state="FAIL"))
    assert (await shop.incident())["status"] == "open"

    await shop.send_and_work(*wrote("load", from_now(), "marts.orders"))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the job completed")


async def test_a_failed_run_is_over_when_its_job_completes(shop: Shop) -> None:
    await shop.send_and_work(*wrote("load", 0, "marts.orders", state="FAIL"))
    assert (await shop.incident())["kind"] == "RunFailed"
    await shop.send_and_work(*wrote("load", HOUR, "marts.orders"))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the job completed")


async def test_a_blocked_gate_is_over_when_the_node_is_published(shop: Shop) -> None:
    await shop.send_and_work(a_node_end(a_run_id(), status="stopped", **a_full_record()))
    assert (await shop.incident())["kind"] == "GateBlocked"
    await shop.send_and_work(a_node_end(a_run_id(), seconds=HOUR))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the node was published again")


async def test_a_metric_that_is_back_to_normal_ends_its_incident(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    await shop.send(*wrote("load", 8 * DAY, "marts.orders", rows=100))
    await shop.work()
    found = await shop.incident()
    assert (found["kind"], found["severity"], found["status"]) == ("RowCountDrop", "CRITICAL", "open")
    linked = await shop.rows("SELECT incident_id FROM anomalies WHERE organization_id = $1")
    assert {str(row["incident_id"]) for row in linked} == {found["id"]}

    await shop.send_and_work(*wrote("load", 9 * DAY, "marts.orders", rows=1005))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the metric is back to normal")


async def test_a_metric_that_stays_where_it_went_has_a_new_level(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    for day in range(8, 14):
        await shop.send_and_work(*wrote("load", day * DAY, "marts.orders", rows=100 + day))

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the metric has a new level")


@pytest.mark.parametrize("status", ["RESOLVED", "FALSE_POSITIVE"])
async def test_an_anomaly_that_is_opened_again_opens_its_incident_again(shop: Shop, status: str) -> None:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    await shop.send_and_work(*wrote("load", 8 * DAY, "marts.orders", rows=100))
    path = f"/api/v1/anomalies/{(await shop.incident())['symptoms'][0]['anomaly_id']}"
    for to, expected in ((status, "resolved"), ("OPEN", "open"), ("ACKNOWLEDGED", "open")):
        assert (await shop.tenant.client.patch(path, json={"status": to})).is_success
        await shop.work()
        found = await shop.incident()
        assert (found["status"], found["open_symptom_count"]) == (expected, int(expected == "open")), to

    assert [kind for kind, _ in await events(shop)].count("reopened") == 1


async def test_an_anomaly_that_a_person_looks_at_after_its_incident_was_resolved_opens_nothing(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    await shop.send_and_work(*wrote("load", 8 * DAY, "marts.orders", rows=100))
    found = await shop.incident()
    await shop.set_status(found, "resolved")
    path = f"/api/v1/anomalies/{found['symptoms'][0]['anomaly_id']}"
    assert (await shop.tenant.client.patch(path, json={"status": "ACKNOWLEDGED"})).is_success
    await shop.work()

    assert (await shop.incident())["status"] == "resolved"


async def test_an_anomaly_that_a_person_resolved_ends_its_incident(shop: Shop) -> None:
    for day in range(8):
        await shop.send(*wrote("load", day * DAY, "marts.orders", rows=1000 + day))
    await shop.send_and_work(*wrote("load", 8 * DAY, "marts.orders", rows=100))
    found = await shop.incident()
    response = await shop.tenant.client.patch(
        f"/api/v1/anomalies/{found['symptoms'][0]['anomaly_id']}", json={"status": "FALSE_POSITIVE"}
    )
    assert response.status_code == 200, response.text
    await tended(shop)

    found = await shop.incident()
    assert (found["status"], found["resolution"]) == ("resolved", "the anomaly was a false alarm")


async def tended(shop: Shop) -> None:
    """Recurring work is due, and done."""
    from headgate.server.incidents.jobs import tend
    from headgate.server.queue import Batch

    async with shop.server.database.tenant(shop.tenant.organization_id) as conn:
        await tend(conn, Batch(shop.tenant.organization_id, "TEND", "", ()))


async def test_what_fails_again_soon_after_its_end_reopens_the_incident(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 120, PASSES))
    await failing.send(*wrote("load", HOUR, "marts.orders"))
    await failing.send_and_work(checked("marts.orders", HOUR + 60, FAILS))

    found = await failing.incident()
    assert (found["status"], found["symptom_count"], found["resolved_at"]) == ("open", 2, None)
    assert ("reopened", "headgate") in await events(failing)
    assert ("INCIDENT", "IncidentReopened") in await failing.alerts()


async def test_what_is_open_again_is_told_by_what_is_wrong_now(failing: Shop) -> None:
    """The run that it began with is known to be well."""
    await failing.send_and_work(checked("marts.orders", 120, PASSES))
    later = a_run_id()
    await failing.send(*wrote("load", HOUR, "marts.orders", run=later))
    await failing.send_and_work(checked("marts.orders", HOUR + 60, ("unique", "id", False), FAILS))

    (found,) = [each for each in await failing.incidents() if each["number"] == 1]
    assert (found["status"], found["run_id"], found["cause"]["run_id"]) == ("open", later, later)
    assert at(HOUR)[:16].replace("T", " ") in found["root_cause"]


async def test_what_goes_on_again_is_joined_by_what_is_upstream_of_it(shop: Shop) -> None:
    await shop.send(*wrote("ingest", -300, "raw.orders"), *wrote("load", 0, "marts.orders", "raw.orders"))
    for second, result in ((60, FAILS), (120, PASSES), (HOUR, FAILS)):
        await shop.send_and_work(checked("marts.orders", second, result))
    await shop.send_and_work(checked("raw.orders", HOUR + 60, FAILS))

    assert (await shop.incident())["symptom_count"] == 2


async def test_what_was_of_another_run_than_was_known_is_joined_by_what_is_upstream_of_it(shop: Shop) -> None:
    await shop.send(*wrote("load", -DAY, "marts.orders"), *wrote("ingest", -300, "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 60, FAILS))
    await shop.send_and_work(*wrote("load", 0, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("raw.orders", 90, FAILS))

    assert (await shop.incident())["symptom_count"] == 2


async def test_what_fails_again_long_after_its_end_is_another_incident(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 120, PASSES))
    await failing.send(*wrote("load", 2 * DAY, "marts.orders"))
    await failing.send_and_work(checked("marts.orders", 2 * DAY + 60, FAILS))

    assert [each["status"] for each in await failing.incidents()] == ["resolved", "open"]


async def test_the_same_run_that_fails_its_test_again_reopens_its_incident_for_a_day(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 120, PASSES))
    await failing.send_and_work(checked("marts.orders", HOUR, FAILS))
    assert (await failing.incident())["symptoms"][0]["count"] == 2
    await failing.send_and_work(checked("marts.orders", 2 * HOUR, PASSES))

    await failing.send_and_work(checked("marts.orders", 3 * DAY, FAILS))

    assert [each["status"] for each in await failing.incidents()] == ["resolved", "open"]


# --- by people ---


async def test_an_incident_is_acknowledged_and_resolved_by_a_person(failing: Shop) -> None:
    incident = await failing.incident()
    acknowledged = await failing.set_status(incident, "acknowledged", reason="looking at it")
    assert (acknowledged["status"], acknowledged["acknowledged_by"]) == ("acknowledged", "first key")
    resolved = await failing.set_status(incident, "resolved", reason="loaded again")

    assert (resolved["status"], resolved["resolved_by"], resolved["resolution"]) == (
        "resolved", "first key", "loaded again",
    )  # fmt: skip
    assert resolved["open_symptom_count"] == 0
    assert await events(failing) == [("opened", "headgate"), ("acknowledged", "first key"), ("resolved", "first key")]


async def test_a_muted_incident_takes_symptoms_in_and_leaves_the_silence_to_the_alerts(failing: Shop) -> None:
    incident = await failing.incident()
    until = datetime.now(UTC) + timedelta(hours=1)
    muted = await failing.set_status(incident, "muted", until=until.isoformat())
    assert (muted["status"], datetime.fromisoformat(muted["muted_until"])) == ("muted", until)
    told = await failing.alerts()

    await failing.send(*wrote("load", HOUR, "marts.orders"))
    await failing.send_and_work(checked("marts.orders", HOUR + 60, FAILS))

    found = await failing.incident()
    assert (found["status"], found["symptom_count"]) == ("muted", 2)
    assert await failing.alerts() == [*told, ("SYMPTOM", "TestFailed")], "they keep that nobody was told"


async def test_a_mute_without_a_time_lasts_thirty_days(failing: Shop) -> None:
    muted = await failing.set_status(await failing.incident(), "muted")

    left = datetime.fromisoformat(muted["muted_until"]) - datetime.now(UTC)
    assert timedelta(days=29, hours=23) < left <= timedelta(days=30)


async def test_a_mute_that_is_over_lets_the_incident_go_on(failing: Shop) -> None:
    await failing.set_status(await failing.incident(), "muted")
    await tended(failing)
    assert (await failing.incident())["status"] == "muted"

    await failing.db.execute("UPDATE incidents SET muted_until = now() - interval '1 s' WHERE status = 'muted'")
    await tended(failing)

    assert (await failing.incident())["status"] == "open"
    assert (await events(failing))[-1] == ("unmuted", "headgate")


async def test_what_was_acknowledged_before_a_mute_is_so_after_it(failing: Shop) -> None:
    incident = await failing.incident()
    acknowledged = await failing.set_status(incident, "acknowledged")
    await failing.set_status(incident, "muted")
    await failing.db.execute("UPDATE incidents SET muted_until = now() - interval '1 s' WHERE status = 'muted'")
    await tended(failing)

    found = await failing.incident()
    assert (found["status"], found["acknowledged_by"]) == ("acknowledged", acknowledged["acknowledged_by"])


async def test_what_had_ended_before_a_mute_is_not_acknowledged_after_it(failing: Shop) -> None:
    incident = await failing.incident()
    for status in ("acknowledged", "resolved", "muted"):
        await failing.set_status(incident, status)

    assert (await failing.incident())["acknowledged_at"] is None


@pytest.mark.parametrize(
    ("status", "until", "said"),
    [
        ("open", "2999-01-01T00:00:00Z", "leave it out with 'open'"),
        ("muted", "2001-01-01T00:00:00Z", "must be in the future"),
        ("muted", "2999-01-01T00:00:00Z", "is more than 365 days away"),
    ],
    ids=["not_muted", "over", "too_long"],
)
async def test_a_bad_end_of_a_mute_is_named(failing: Shop, status: str, until: str, said: str) -> None:
    body = {"status": status, "until": until}
    answer = await failing.tenant.client.patch("/api/v1/incidents/1/status", json=body)

    (error,) = answer.json()["errors"]
    assert answer.status_code == 422
    assert error["path"] == "until"
    assert said in error["message"]


async def test_a_person_reopens_what_was_resolved(failing: Shop) -> None:
    await failing.send_and_work(checked("marts.orders", 120, PASSES))
    reopened = await failing.set_status(await failing.incident(), "open", reason="the test is wrong")
    assert (reopened["status"], reopened["open_symptom_count"]) == ("open", 1)
    await tended(failing)

    assert (await failing.incident())["status"] == "open", "what passed before does not end it again"


async def test_assignee_and_notes_are_kept(failing: Shop) -> None:
    assigned = await failing.change("1/assign", assignee="ann")
    await failing.change("1/notes", text="the source sends empty files on Sundays")

    assert assigned["assignee"] == "ann"
    assert [each["number"] for each in await failing.incidents(assignee="ann")] == [1]
    assert await failing.incidents(assignee="bob") == []
    sentences = [each["sentence"] for each in (await failing.get("/1/timeline"))["items"]]
    assert sentences[1:] == [
        "first key assigned it to ann",
        "first key noted: the source sends empty files on Sundays",
    ]
    assert (await failing.change("1/assign", assignee=None))["assignee"] is None


async def test_two_incidents_become_one(two: Shop) -> None:
    merged = await two.change("2/merge", into=1, reason="the same outage")

    assert (merged["number"], merged["symptom_count"]) == (1, 2)
    gone = await two.get("/2")
    assert (gone["status"], gone["merged_into"], gone["symptom_count"]) == ("resolved", 1, 0)
    assert ("merged_from", "first key") in await events(two)
    await two.send_and_work(checked("marts.other", 120, FAILS))
    assert (await two.get("/1"))["symptom_count"] == 2, "what is seen again is found where it went"
    response = await two.tenant.client.patch("/api/v1/incidents/2/status", json={"status": "open"})
    assert (response.status_code, response.json()["detail"]) == (409, "incident 2 was merged into 1")


async def test_an_incident_is_split(two: Shop) -> None:
    merged = await two.change("2/merge", into=1)
    moved = next(each for each in merged["symptoms"] if each["dataset"]["name"] == "marts.other")
    new = await two.change("1/split", symptoms=[moved["id"]])

    assert (new["number"], new["dataset"]["name"], new["symptom_count"]) == (3, "marts.other", 1)
    assert new["cause"]["job"]["name"] == "other"
    assert (await two.get("/1"))["symptom_count"] == 1
    assert ("split_from", "first key") in await events(two, 3)
    await two.send_and_work(checked("marts.other", 130, PASSES))
    assert [(await two.get(f"/{number}"))["status"] for number in (1, 3)] == ["open", "resolved"]


async def test_what_was_split_off_is_joined_by_what_is_upstream_of_it(failing: Shop) -> None:
    await failing.send(*wrote("feed", -300, "raw.other"), *wrote("other", 0, "marts.other", "raw.other"))
    await failing.send_and_work(checked("marts.other", 90, FAILS))
    merged = await failing.change("2/merge", into=1)
    moved = next(each for each in merged["symptoms"] if each["dataset"]["name"] == "marts.other")
    new = await failing.change("1/split", symptoms=[moved["id"]])
    await failing.send_and_work(checked("raw.other", 120, FAILS))

    assert (await failing.get(f"/{new['number']}"))["symptom_count"] == 2
    assert len(await failing.incidents()) == 3


@pytest.fixture
async def half_well(failing: Shop) -> Shop:
    """With two tests that failed, of which one passes again."""
    await failing.send_and_work(checked("marts.orders", 90, ("unique", "id", False)))
    await failing.send_and_work(checked("marts.orders", 120, PASSES))
    return failing


async def symptom_ids(shop: Shop, *, is_open: bool) -> list[str]:
    found = await shop.get("/1")
    return [each["id"] for each in found["symptoms"] if (each["cleared_at"] is None) is is_open]


async def test_what_is_over_is_split_off_as_an_incident_that_is_over(half_well: Shop) -> None:
    new = await half_well.change("1/split", symptoms=await symptom_ids(half_well, is_open=False))

    assert (new["status"], new["open_symptom_count"]) == ("resolved", 0)
    assert (new["resolved_by"], new["resolved_at"]) == ("headgate", at(120))
    assert (await half_well.get("/1"))["status"] == "open"
    assert ("INCIDENT", "IncidentResolved") not in await half_well.alerts()


async def test_what_has_nothing_open_left_after_a_split_is_over(half_well: Shop) -> None:
    new = await half_well.change("1/split", symptoms=await symptom_ids(half_well, is_open=True))

    assert (new["status"], new["open_symptom_count"]) == ("open", 1)
    rest = await half_well.get("/1")
    assert (rest["status"], rest["resolved_by"], rest["resolved_at"]) == ("resolved", "headgate", at(120))
    assert (await half_well.alerts()).count(("INCIDENT", "IncidentResolved")) == 1


async def test_what_is_split_off_a_resolved_incident_is_resolved_and_nothing_joins_either(half_well: Shop) -> None:
    await half_well.set_status(await half_well.incident(), "resolved", reason="loaded again")
    new = await half_well.change("1/split", symptoms=(await symptom_ids(half_well, is_open=False))[:1])

    assert (new["status"], new["resolution"], new["resolved_by"]) == ("resolved", "loaded again", "first key")
    assert await half_well.rows("SELECT run_id FROM incident_paths WHERE organization_id = $1") == []


@pytest.mark.parametrize(("status", "kept"), [("acknowledged", "acknowledged_by"), ("muted", "muted_until")])
async def test_what_is_split_off_is_in_the_state_of_what_it_was_part_of(
    half_well: Shop, status: str, kept: str
) -> None:
    whole = await half_well.set_status(await half_well.incident(), status)
    new = await half_well.change("1/split", symptoms=await symptom_ids(half_well, is_open=True))

    assert (new["status"], new[kept]) == (status, whole[kept])
    assert new[kept] is not None


async def test_what_was_muted_after_its_end_stays_muted_when_it_is_split(half_well: Shop) -> None:
    await half_well.set_status(await half_well.incident(), "resolved")
    await half_well.set_status(await half_well.incident(), "muted")
    new = await half_well.change("1/split", symptoms=(await symptom_ids(half_well, is_open=False))[:1])

    assert [new["status"], (await half_well.get("/1"))["status"]] == ["muted", "muted"]


async def test_whoever_is_called_headgate_is_believed_like_anybody_else(shop: Shop) -> None:
    await shop.send(*wrote("ingest", -300, "raw.orders"), *wrote("load", 0, "marts.orders", "raw.orders"))
    await shop.send_and_work(checked("marts.orders", 60, FAILS))
    headers = {"authorization": f"Bearer {await a_key(shop, 'headgate', 'write')}"}
    body = {"dataset": "marts.orders"}
    assert (await shop.tenant.client.post("/api/v1/incidents/1/root", json=body, headers=headers)).is_success
    await shop.send_and_work(checked("raw.orders", 90, FAILS))

    found = await shop.incident()
    assert (found["symptom_count"], found["cause"]["dataset"]["name"]) == (2, "marts.orders")
    assert "says headgate" in found["root_cause"]


async def sentences(shop: Shop, number: int = 1) -> list[str]:
    return [each["sentence"] for each in (await shop.get(f"/{number}/timeline"))["items"]]


@pytest.mark.parametrize("status", ["open", "acknowledged", "resolved"])
async def test_a_reason_is_kept_although_the_status_stays(failing: Shop, status: str) -> None:
    incident = await failing.incident()
    before = await failing.set_status(incident, status)
    count = len(await sentences(failing))
    assert (await failing.set_status(incident, status))["status"] == status
    assert len(await sentences(failing)) == count

    again = await failing.set_status(incident, status, reason="as I said")

    assert [again[name] for name in ("status", "acknowledged_at", "resolved_at", "resolution")] == [
        before[name] for name in ("status", "acknowledged_at", "resolved_at", "resolution")
    ]
    assert (await sentences(failing))[count:] == ["first key noted: as I said"]


async def test_what_is_muted_again_is_muted_for_thirty_days_from_then(failing: Shop) -> None:
    incident = await failing.incident()
    await failing.set_status(incident, "muted", until=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    again = await failing.set_status(incident, "muted", reason="the supplier is closed")

    left = datetime.fromisoformat(again["muted_until"]) - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)
    assert (await sentences(failing))[-1].endswith(": the supplier is closed")


async def test_the_timeline_names_the_incident_that_another_came_from_or_went_to(two: Shop) -> None:
    merged = await two.change("2/merge", into=1)
    moved = next(each for each in merged["symptoms"] if each["dataset"]["name"] == "marts.other")
    await two.change("1/split", symptoms=[moved["id"]])

    assert "first key made it part of #1" in await sentences(two, 2)
    assert {"first key made #2 part of it", "first key made #3 of some of its symptoms"} <= {*await sentences(two, 1)}
    assert "first key made it of symptoms of #1" in await sentences(two, 3)


async def test_a_dataset_that_a_person_names_as_the_cause_is_what_is_told(failing: Shop) -> None:
    named = await failing.change("1/root", dataset="marts.orders")

    assert named["root_cause"] == "Dataset 'postgres://db/marts.orders' is the cause, says first key."


async def test_a_named_cause_is_taken_back_and_looked_for_again(failing: Shop) -> None:
    before = await failing.incident()
    run = a_run_id()
    await failing.send(*wrote("unheard_of", -600, "raw.elsewhere", run=run))
    await failing.change("1/root", run=run)
    found = await failing.change("1/root?reason=a guess", "DELETE")

    assert found["cause"] == before["cause"]
    assert (found["root_cause"], found["confidence"]) == (before["root_cause"], before["confidence"])
    assert "first key left the cause to headgate: a guess" in await sentences(failing)
    count = len(await sentences(failing))
    assert (await failing.change("1/root", "DELETE"))["cause"] == before["cause"]
    assert len(await sentences(failing)) == count, "what nobody has named cannot be taken back"


async def test_notes_are_told_with_the_incident(failing: Shop) -> None:
    for text in ("look at the feed", "it was the feed"):
        found = await failing.change("1/notes", text=text)

    assert [(each["actor"], each["text"]) for each in found["notes"]] == [
        ("first key", "look at the feed"),
        ("first key", "it was the feed"),
    ]


async def test_a_person_names_the_cause_and_it_stays(failing: Shop) -> None:
    run = a_run_id()
    await failing.send(*wrote("unheard_of", -600, "raw.elsewhere", run=run))
    named = await failing.change("1/root", run=run)
    assert (named["cause"]["run_id"], named["cause"]["job"]["name"]) == (run, "unheard_of")
    assert (named["cause"]["chosen_by"], named["confidence"]) == ("first key", 1.0)

    await failing.send_and_work(checked("raw.orders", 50, FAILS))

    assert (await failing.get("/1"))["cause"]["run_id"] == run
    evidence = IncidentEvidenceOut.model_validate(await failing.get("/1/evidence"))
    assert evidence.root_cause == f"Job 'unheard_of' at {at(-600)[:16].replace('T', ' ')} is the cause, says first key."


async def test_a_dataset_can_be_the_cause(failing: Shop) -> None:
    named = await failing.change("1/root", dataset="raw.orders")

    assert named["cause"]["dataset"]["name"] == "raw.orders"
