"""`headgate anomalies` and the client, against a real server, in a terminal of 80 columns."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from headgate.cli import anomalies
from headgate.client import HeadgateClient
from headgate.domain.band import judge
from headgate.domain.verdict import Metric, Point
from headgate.errors import NotFound
from headgate.server.anomalies import jobs
from headgate.server.db.pool import Database
from headgate.server.worker import Worker
from tests.conftest import Cluster
from tests.support.anomalies import NOW, a_load
from tests.support.asking import Ask, asking_server
from tests.support.live import Live, live_server


@pytest.fixture(scope="module")
async def live(cluster: Cluster) -> AsyncIterator[Live]:
    """A server on which a table has lost most of its rows."""
    async with live_server(cluster) as live:
        events = [a_load(NOW - timedelta(days=7 - day), rows) for day, rows in enumerate([1000] * 7 + [12])]
        await live.replay(*(json.dumps(event).encode() for event in events))
        name = await live.db.fetchval("SELECT current_database()")
        database = Database(cluster.app_dsn(name), max_size=4)
        await Worker(database, [kind for kind in jobs.KINDS if kind.every_s is None]).drain()
        await database.close()
        yield live


@pytest.fixture
def ask(live: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    return asking_server(live, monkeypatch, capsys, "anomalies")


def the_one(ask: Ask) -> str:
    (found,) = json.loads(ask("list", "--json").out)["items"]
    return str(found["id"])


def test_a_list_fits_80_columns_and_says_what_and_where(ask: Ask) -> None:
    shown = ask("list")

    assert shown.code == 0, shown.err
    assert the_one(ask) in shown.out
    assert "critical RowCountDrop" in shown.out
    assert "orders, 12, " in shown.out
    assert [line for line in shown.out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--dataset", "orders"], 1),
        (["--type", "RowCountDrop", "--severity", "critical", "--hours", "1"], 1),
        (["--severity", "INFO"], 0),
        (["--status", "resolved", "--severity", "warning"], 0),
        (["--severity", "warning", "--severity", "critical", "--job", "load"], 1),
        (["--column", "amount"], 0),
    ],
    ids=str,
)
def test_a_list_shows_what_is_asked_for(ask: Ask, options: list[str], count: int) -> None:
    assert len(json.loads(ask("list", *options, "--json").out)["items"]) == count


def test_a_list_tells_partitions_and_columns_apart() -> None:
    item = {"id": "1", "type": "NullShareSpike", "severity": "WARNING", "status": "OPEN", "metric": "null_share"}
    where = {"dataset": {"display_name": "orders"}, "job": None, "column": "amount", "partition_key": "country=DE"}
    found = {"actual_value": {"value": 0.25}, "detected_at": "2026-03-02T06:00:00Z"}
    (_, _, what) = anomalies._row(item | where | found)
    assert what == "warning NullShareSpike\norders.amount [country=DE], 25 %, open"


@pytest.mark.parametrize(
    ("metric", "usual", "value", "shown"),
    [
        (Metric.duration_ms, 120_000, 3_600_000, "60 min"),
        (Metric.byte_size, 1_000_000, 240_000, "240 kB"),
        (Metric.byte_size, 1_000_000, 24_100_000_000, "24.1 GB"),
        (Metric.null_share, 0.01, 0.987, "98.7 %"),
        (Metric.row_count, 1000, 12, "12"),
        (Metric.distinct_count, 1000, 1_234_567, "1,234,567"),
    ],
)
def test_values_are_shown_as_the_sentences_say_them(metric: Metric, usual: float, value: float, shown: str) -> None:
    points = [Point(NOW - timedelta(days=back), usual) for back in range(9, 0, -1)]
    verdict = judge(metric, points, NOW, value)
    assert f"{shown} " in verdict.reason
    item = {
        "id": "1", "type": "Any", "severity": "WARNING", "status": "OPEN", "metric": metric.value, "column": None,
        "dataset": {"display_name": "orders"}, "job": None, "partition_key": None, "actual_value": {"value": value},
        "detected_at": "2026-03-02T06:00:00Z",
    }  # fmt: skip
    assert anomalies._row(item)[2] == f"warning Any\norders, {shown}, open"
    low, high = anomalies._band({"low": usual, "high": value}, metric.value).split(" to ")
    assert high == shown
    assert f"mean of {low}" in verdict.reason


@pytest.mark.parametrize("metric", [None, "mood"])
def test_values_of_what_nobody_knows_the_unit_of_are_shown_as_they_are(metric: str | None) -> None:
    assert anomalies._value({"value": 1234.5}, metric) == "1,234.5"
    assert anomalies._value({"value": "high", "limit": None}, metric) == "value high"


def test_an_empty_list_says_so(ask: Ask) -> None:
    assert ask("list", "--severity", "info").err == "nothing out of the ordinary\n"


def test_one_is_shown_with_its_band_and_its_reason(ask: Ask) -> None:
    shown = ask("show", the_one(ask)).out

    assert "RowCountDrop, CRITICAL" in shown
    assert "standard deviations" in shown
    assert "postgres://db/orders" in shown
    assert "  measured  12\n" in shown


STUCK = (
    "the run of load_the_orders_of_the_night_before has not ended: it should have by 2026-01-12 06:00 UTC, "
    "as almost all before it would have"
)
LATE = (
    "the last write was 1 day 20 hours ago, at 2026-01-10 06:00 UTC; by its rhythm the next was due by "
    "2026-01-11 07:30 UTC"
)


@pytest.mark.parametrize(("kind", "why"), [("StuckRun", STUCK), ("FreshnessMissed", LATE)])
async def test_a_long_reason_fits_80_columns(ask: Ask, live: Live, kind: str, why: str) -> None:
    when = "2026-01-11T07:30:00.123456+00:00"
    change = {"at": when, "from": "OPEN", "to": "RESOLVED", "by": "headgate", "notes": "the dataset was written " * 4}
    anomaly = await live.db.fetchval(
        """INSERT INTO anomalies (organization_id, dataset_id, anomaly_type, severity, description, observed_at, source,
                                  expected_value, actual_value, changes, status)
           SELECT organization_id, id, $1, 'WARNING', $2, now(), 'detector', $3, $4, $5, 'RESOLVED'
             FROM datasets LIMIT 1 RETURNING id""",
        kind,
        why,
        json.dumps({"written_by": when, "sla_hours": None}),
        json.dumps({"state": "RUNNING", "started_at": when, "last_write_at": when}),
        json.dumps([change]),
    )
    shown = await asyncio.to_thread(ask, "show", str(anomaly))
    await live.db.execute("DELETE FROM anomalies WHERE id = $1", anomaly)

    assert shown.code == 0, shown.err
    assert [line for line in shown.out.splitlines() if len(line) > 80] == []
    assert why in " ".join(shown.out.split())
    assert "sla_hours" not in shown.out


def test_such_values_can_be_expected_of_all_metrics_for_a_time(ask: Ask) -> None:
    anomaly = the_one(ask)
    until = f"{NOW + timedelta(days=2):%Y-%m-%d}"

    shown = ask("expect", anomaly, "--until", until, "--all-metrics", "--notes", "a migration")

    assert (shown.code, shown.out) == (0, "such values of orders are expected\n"), shown.err
    assert ask("expect", anomaly).code == 0
    marks = expected_marks()
    assert [(mark["kind"], mark["metric"]) for mark in marks][:2] == [("once", "row_count"), ("until", None)]
    assert marks[1]["until"] == f"{until}T00:00:00Z"


@pytest.mark.parametrize(
    "options", [["--until", "soon"], ["--until", "2001-01-01"], ["--on", "once", "--until", "2999-01-01"]], ids=str
)
def test_an_end_that_makes_no_sense_is_an_error(ask: Ask, options: list[str]) -> None:
    shown = ask("expect", the_one(ask), *options)

    assert shown.code == 2
    assert "until" in shown.err


def test_policies_are_listed_with_what_they_change(ask: Ask, live: Live) -> None:
    assert ask("policies").err == "everything is judged as usual\n"
    with HeadgateClient(live.url, live.api_key) as client:
        made = [
            client.add_detection_policy("sales_*", metric="row_count", sigma=4, spike_severity="INFO"),
            client.add_detection_policy("*", metric="stuck", enabled=False),
        ]
        shown = ask("policies")
        for policy in made:
            client.remove_detection_policy(policy["id"])

    assert shown.code == 0, shown.err
    assert [line for line in shown.out.splitlines() if len(line) > 80] == []
    assert all(policy["id"] in shown.out for policy in made)
    assert "sales_*, row_count" in shown.out
    assert "sigma 4.0, spike_severity INFO" in shown.out
    assert "*, stuck" in shown.out
    assert "not judged" in shown.out


def expected_marks() -> list[dict[str, Any]]:
    with HeadgateClient(os.environ["HEADGATE_URL"], os.environ["HEADGATE_API_KEY"]) as client:
        return list(client.expected("orders").items)


def test_what_people_make_of_it_is_kept(ask: Ask) -> None:
    anomaly = the_one(ask)

    assert ask("ack", anomaly, "--notes", "looking").out == "RowCountDrop of orders is acknowledged\n"
    assert ask("resolve", anomaly, "--notes", "source fixed", "--expect", "once").code == 0
    assert ask("false-positive", anomaly).out == "RowCountDrop of orders is false_positive\n"
    shown = ask("show", anomaly).out
    assert ": looking\n" in shown
    assert ": source fixed\n" in shown


def test_one_that_is_not_there_is_an_error_with_a_way_out(ask: Ask) -> None:
    shown = ask("show", "00000000-0000-0000-0000-000000000001")

    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith("error[not_found]: no anomaly")


async def test_the_client_asks_for_all_of_it(live: Live) -> None:
    def asked() -> None:
        with HeadgateClient(live.url, live.api_key) as client:
            (found,) = client.anomalies(dataset="orders").items
            assert client.anomaly(found["id"])["type"] == "RowCountDrop"
            assert client.change_anomaly(found["id"], status="OPEN", notes="x")["status"] == "OPEN"
            assert client.anomaly_summary(days=7)["total"] == client.anomaly_summary(hours=1)["total"] == 1
            assert client.set_freshness("orders", 2.5)["sla_hours"] == 2.5
            assert client.freshness("orders")["source"] == "user"
            client.remove_freshness("orders")
            policy = client.add_detection_policy("ord*", metric="row_count", sigma=4)
            assert client.detection_policy("orders")["metrics"]["row_count"]["sigma"] == 4
            client.change_detection_policy(policy["id"], "*", enabled=False)
            assert [item["enabled"] for item in client.detection_policies().items] == [False]
            client.remove_detection_policy(policy["id"])
            mark = client.expect("orders", "weekday", weekday=6)
            assert mark["id"] in [item["id"] for item in client.expected("orders").items]
            client.unexpect("orders", mark["id"])
            with pytest.raises(NotFound):
                client.unexpect("orders", mark["id"])

    await asyncio.to_thread(asked)
