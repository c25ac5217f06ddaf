"""Incidents as they are asked for: lists, counts, impact, who may change what, and what is refused."""

from __future__ import annotations

from typing import Any

from headgate.server.incidents.schemas import IncidentDetailOut
from tests.support.events import a_run_id
from tests.support.incidents import DAY, FAILS, HOUR, PASSES, Shop, a_key, checked, events, wrote


async def test_lists_are_filtered_and_paged(two: Shop) -> None:
    await two.set_status({"id": "2"}, "resolved")
    asked: list[tuple[dict[str, Any], list[int]]] = [
        ({}, [1, 2]),
        ({"status": "open"}, [1]),
        ({"status": ["open", "resolved"]}, [1, 2]),
        ({"severity": "CRITICAL"}, [1, 2]),
        ({"severity": "INFO"}, []),
        ({"kind": "TestFailed"}, [1, 2]),
        ({"kind": "RunFailed"}, []),
        ({"dataset": "marts.other"}, [2]),
        ({"job": "load"}, [1]),
        ({"hours": 1}, []),
        ({"hours": 87_600}, [1, 2]),
        ({"orphan": True}, []),
    ]
    for query, numbers in asked:
        assert [each["number"] for each in await two.incidents(**query)] == numbers, query
    first = await two.get(limit=1)
    second = await two.get(limit=1, cursor=first["next_cursor"])
    assert [page["items"][0]["number"] for page in (first, second)] == [2, 1]
    assert second["next_cursor"] is None


async def test_counts_are_by_status_severity_and_kind(two: Shop) -> None:
    await two.set_status({"id": "2"}, "acknowledged")

    counts = await two.get("/counts", hours=87_600)
    assert (counts["open"], counts["acknowledged"], counts["muted"], counts["resolved"]) == (1, 1, 0, 0)
    assert counts["by_severity"] == {"CRITICAL": 2, "WARNING": 0, "INFO": 0}
    assert counts["by_kind"] == {"TestFailed": 2}


async def test_an_incident_is_found_by_number_and_by_id(failing: Shop) -> None:
    incident = await failing.incident()
    IncidentDetailOut.model_validate(incident)
    for name in ("1", "%231", incident["id"], incident["id"].upper()):
        assert (await failing.get(f"/{name}"))["id"] == incident["id"]


async def test_impact_is_told_by_depth_with_jobs_and_owners(failing: Shop) -> None:
    await failing.send(*wrote("report", HOUR, "reports.daily", "marts.orders"))
    await failing.send(*wrote("export", 2 * HOUR, "files.daily", "reports.daily"))
    owned = {"owners": ["finance"]}
    assert (await failing.tenant.client.patch("/api/v1/datasets/reports.daily", json=owned)).is_success

    impact = await failing.get("/1/impact")

    assert [(each["name"], each["depth"], each["owners"]) for each in impact["items"]] == [
        ("reports.daily", 1, ["finance"]),
        ("files.daily", 2, []),
    ]
    assert [job["name"] for job in impact["jobs"]] == ["export", "report"]
    assert (impact["owners"], impact["totals"]) == (["finance"], {"datasets": 2, "jobs": 2, "owners": 1})
    near = await failing.get("/1/impact", depth=1)
    assert (len(near["items"]), near["truncated"]) == (1, True)


async def test_datasets_know_whether_they_have_an_open_incident(shop: Shop) -> None:
    async def listed(**query: Any) -> list[str]:
        response = await shop.tenant.client.get("/api/v1/datasets", params=query)
        return [item["name"] for item in response.json()["items"]]

    await shop.send_and_work(*wrote("load", 0, "marts.orders", "raw.orders", state="FAIL"))
    assert await listed(has_incident=True) == ["marts.orders"]
    assert await listed(has_incident=False) == ["raw.orders"]

    incident = await shop.incident()
    for status, names in [("muted", []), ("open", ["marts.orders"]), ("resolved", []), ("open", ["marts.orders"])]:
        await shop.set_status(incident, status)
        assert await listed(has_incident=True) == names, status
    await shop.send_and_work(*wrote("load", 300 * DAY, "marts.orders", "raw.orders"))
    assert await listed(has_incident=True) == []


BAD: list[tuple[str, str, dict[str, Any], int]] = [
    ("PATCH", "1/status", {"status": "fixed"}, 422),
    ("PATCH", "1/status", {}, 422),
    ("PATCH", "1/status", {"status": "open", "until": "2999-01-01T00:00:00Z"}, 422),
    ("PATCH", "1/status", {"status": "muted", "until": "2001-01-01T00:00:00Z"}, 422),
    ("PATCH", "1/status", {"status": "muted", "until": "2999-01-01T00:00:00Z"}, 422),
    ("PATCH", "1/status", {"status": "muted", "until": "tomorrow"}, 422),
    ("PATCH", "1/status", {"status": "open", "reason": ""}, 422),
    ("PATCH", "99/status", {"status": "open"}, 404),
    ("PATCH", "nonsense/status", {"status": "open"}, 404),
    ("PATCH", "99999999999999999999/status", {"status": "open"}, 404),
    ("POST", "1/assign", {}, 422),
    ("POST", "1/assign", {"assignee": "x" * 201}, 422),
    ("POST", "1/notes", {"text": " "}, 422),
    ("POST", "1/notes", {"text": "a\u0000b"}, 422),
    ("POST", "1/merge", {"into": 1}, 409),
    ("POST", "1/merge", {"into": 7}, 404),
    ("POST", "1/merge", {}, 422),
    ("POST", "1/merge", {"into": True}, 422),
    ("POST", "1/merge", {"into": 1.0}, 422),
    ("POST", "1/merge", {"into": 0}, 422),
    ("POST", "1/merge", {"into": "x" * 65}, 422),
    ("POST", "1/split", {"symptoms": []}, 422),
    ("POST", "1/split", {"symptoms": [a_run_id()]}, 422),
    ("POST", "1/root", {}, 422),
    ("POST", "1/root", {"run": a_run_id(), "dataset": "marts.orders"}, 422),
    ("POST", "1/root", {"run": a_run_id()}, 404),
    ("POST", "1/root", {"dataset": "no.such.table"}, 404),
    ("POST", "1/root", {"run": "yesterday's"}, 422),
]


async def test_what_cannot_be_done_is_refused_with_a_reason_and_changes_nothing(failing: Shop) -> None:
    before = await failing.incident()
    for method, path, body, status in BAD:
        response = await failing.tenant.client.request(method, f"/api/v1/incidents/{path}", json=body)
        assert response.status_code == status, (path, body, response.text)
        assert response.json()["detail"], (path, body)
        assert response.json()["hint"], (path, body)
    assert await failing.incident() == before
    assert len(await events(failing)) == 1


async def test_the_only_symptom_of_an_incident_cannot_be_split_off(failing: Shop) -> None:
    symptom = (await failing.incident())["symptoms"][0]["id"]
    response = await failing.tenant.client.post("/api/v1/incidents/1/split", json={"symptoms": [symptom]})

    assert (response.status_code, response.json()["detail"]) == (409, "incident 1 has no other symptoms")


async def test_what_is_resolved_has_to_be_opened_before_it_is_acknowledged(failing: Shop) -> None:
    await failing.set_status(await failing.incident(), "resolved")
    response = await failing.tenant.client.patch("/api/v1/incidents/1/status", json={"status": "acknowledged"})

    assert (response.status_code, response.json()["hint"]) == (409, "it can become: muted, open")


async def test_what_is_muted_after_its_end_comes_back_muted_and_ends_with_the_mute(failing: Shop) -> None:
    await failing.set_status(await failing.incident(), "resolved")
    await failing.set_status(await failing.incident(), "muted")
    told = await failing.alerts()
    await failing.send(*wrote("load", HOUR, "marts.orders"))
    await failing.send_and_work(checked("marts.orders", HOUR + 60, FAILS))
    found = await failing.incident()
    assert (found["status"], found["open_symptom_count"]) == ("muted", 1)
    assert await failing.alerts() == [*told, ("SYMPTOM", "TestFailed")]

    await failing.send_and_work(checked("marts.orders", HOUR + 90, PASSES))
    assert (await failing.incident())["status"] == "resolved"


async def test_readers_see_and_do_not_change(failing: Shop) -> None:
    headers = {"authorization": f"Bearer {await a_key(failing, 'reader', 'read')}"}
    client = failing.tenant.client
    assert (await client.get("/api/v1/incidents/1", headers=headers)).status_code == 200
    refused = await client.patch("/api/v1/incidents/1/status", json={"status": "resolved"}, headers=headers)
    assert refused.status_code == 403
