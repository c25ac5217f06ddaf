"""`headgate incidents` and both clients against a real server, in a terminal of 80 columns."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from headgate.client import AsyncHeadgateClient, HeadgateClient
from headgate.server.db.pool import Database
from headgate.server.incidents.jobs import KINDS
from headgate.server.worker import Worker
from tests.conftest import Cluster
from tests.support.asking import Ask, Output, asking_server
from tests.support.incidents import checked, wrote
from tests.support.live import Live, live_server

LONG = "a_test_with_a_name_that_says_everything_there_is_to_say_about_what_it_looks_at"


@pytest.fixture(scope="module")
async def shop(cluster: Cluster) -> AsyncIterator[Live]:
    """A server with two incidents."""
    async with live_server(cluster) as live:
        events = [
            *wrote("warehouse.nightly.load_orders", 0, "warehouse.marts.orders_by_customer", "raw.orders"),
            checked("warehouse.marts.orders_by_customer", 60, (LONG, "email", False)),
            *wrote("report", 300, "reports.daily", "warehouse.marts.orders_by_customer"),
            *wrote("other", 0, "marts.other", state="FAIL", error="java.lang.OutOfMemoryError\n\tat line 7"),
        ]
        for response in await live.replay(*(json.dumps(event).encode() for event in events)):
            assert response.status_code == 201, response.text
        database = Database(cluster.app_dsn(await live.db.fetchval("SELECT current_database()")))
        await Worker(database, KINDS).drain()
        await database.close()
        yield live


@pytest.fixture
def ask(shop: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking_server(shop, monkeypatch, capsys, "incidents")


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "1"], ["show", "2"], ["why", "1"], ["timeline", "1"]], ids=" ".join
)
def test_questions_are_answered_in_text_of_80_columns_and_in_json(ask: Ask, arguments: list[str]) -> None:
    text, machine = ask(*arguments), ask(*arguments, "--json")

    assert (text.code, machine.code) == (0, 0), text.err + machine.err
    assert max(map(len, text.out.splitlines())) <= 80, text.out
    assert isinstance(json.loads(machine.out), dict)


def test_an_incident_is_shown_with_its_cause_and_symptoms(ask: Ask) -> None:
    number = next(item["number"] for item in _listed(ask) if item["kind"] == "TestFailed")
    shown = ask("show", str(number)).out

    for part in ("status", "open", "CRITICAL", "postgres://db/warehouse.marts.orders_by_customer", "cause", "symptoms"):
        assert part in shown
    assert "✗ 2026-03-01 10:01" in shown
    assert "1 dataset, 1 job; nearest: reports.daily" in shown


def test_an_incident_goes_through_its_life(ask: Ask) -> None:
    number = str(next(item["number"] for item in _listed(ask) if item["kind"] == "RunFailed"))
    for arguments, told in [
        (("ack", number), f"incident {number} is acknowledged\n"),
        (("assign", number, "ann"), f"incident {number} is ann's\n"),
        (("note", number, "more memory"), f"noted on incident {number}\n"),
        (("resolve", number, "--reason", "more memory"), f"incident {number} is resolved by first key: more memory\n"),
        (("reopen", number), f"incident {number} is open\n"),
        (("assign", number), f"incident {number} is nobody's\n"),
    ]:
        assert ask(*arguments) == Output(0, told, "")
    assert "first key: more memory" in ask("show", number).out
    told = ask("timeline", number).out.splitlines()
    assert [line[18:] for line in told][1:4] == [
        "first key acknowledged it", "first key assigned it to ann", "first key noted: more memory"
    ]  # fmt: skip
    until = f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%d}"
    assert ask("mute", number, "--until", until).out == f"incident {number} is muted until {until} 00:00\n"
    muted = ask("mute", number, "--days", "2")
    assert muted.out.startswith(f"incident {number} is muted until 20")
    assert number not in [str(item["number"]) for item in _listed(ask)]
    assert number in [str(item["number"]) for item in _listed(ask, "--all")]
    assert ask("reopen", number).out == f"incident {number} is open\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "99"], 2, "no incident '99'"),
        (["timeline", "99"], 2, "no incident '99'"),
        (["ack", "99"], 2, "`headgate incidents list` lists them"),
        (["mute", "1", "--days", "0"], 2, "days"),
        (["mute", "1", "--until", "soon"], 2, "'soon' is no date"),
        (["mute", "1", "--until", "2001-01-01"], 2, "until"),
        (["mute", "1", "--until", "2999-01-01", "--days", "2"], 2, "not both"),
        (["list", "--status", "broken"], 2, "--status"),
        (["list", "--dataset", "no.such"], 2, "no dataset 'no.such'"),
    ],
    ids=["unknown", "no timeline", "hint", "no days", "no date", "past", "both", "status", "dataset"],
)
def test_what_cannot_be_answered_says_why(ask: Ask, arguments: list[str], code: int, said: str) -> None:
    answer = ask(*arguments)

    assert answer.code == code
    assert said in answer.err


def _listed(ask: Ask, *more: str) -> list[dict[str, object]]:
    items: list[dict[str, object]] = json.loads(ask("list", "--json", *more).out)["items"]
    return items


async def test_both_clients_ask_all_that_there_is(shop: Live) -> None:
    async with AsyncHeadgateClient(shop.url, shop.api_key) as client:
        page = await client.incidents(status=["open", "acknowledged", "muted"], kind="TestFailed")
        number = page.items[0]["number"]
        assert (await client.incident(number))["number"] == number
        assert (await client.incident_evidence(number))["cause"]["job"]["name"] == "warehouse.nightly.load_orders"
        assert [each["name"] for each in (await client.incident_impact(number, depth=1))["items"]] == ["reports.daily"]
        assert [event["kind"] for event in (await client.incident_timeline(number)).items] == ["opened"]
        assert (await client.incident_counts())["by_kind"]["TestFailed"] == 1
        assert (await client.orphans(hours=87_600)).items == []
        assert (await client.correlation(hours=87_600))["correlation_rate"] == 1.0
        named = await client.set_incident_root(number, dataset="raw.orders")
        assert named["cause"]["dataset"]["name"] == "raw.orders"
        assert (await client.forget_incident_root(number))["cause"]["chosen_by"] == "headgate"


def test_the_blocking_client_merges_and_splits(shop: Live) -> None:
    with HeadgateClient(shop.url, shop.api_key) as client:
        first, second = sorted(item["number"] for item in client.incidents().items)[:2]
        merged = client.merge_incident(second, first, reason="one night")
        assert merged["symptom_count"] == 2
        moved = merged["symptoms"][-1]["id"]
        assert client.split_incident(first, [moved])["symptom_count"] == 1
        assert client.set_incident_status(first, "acknowledged")["status"] == "acknowledged"
        assert client.assign_incident(first, "ann")["assignee"] == "ann"
        assert client.note_incident(first, "seen")["number"] == first
