"""One problem, one incident: which symptoms belong together, and which do not."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from headgate.server.incidents.jobs import correlate
from headgate.server.queue import Batch, Kind
from headgate.server.worker import Worker
from tests.support.events import Json, a_run_id, an_event, at
from tests.support.incidents import DAY, HOUR, Shop, checked, started_by, wrote
from tests.support.server import Server
from tests.support.stored import Stored

FAILS = ("not_null", "id", False)
TABLES = ("raw.orders", "staging.orders", "marts.orders")


def chain(start: float = 0, runs: list[str] | None = None) -> list[Json]:
    """Runs of three jobs, each of which reads what the one before has written."""
    ids = runs or [a_run_id() for _ in range(3)]
    return [
        *wrote("ingest", start, "raw.orders", "src.orders", run=ids[0]),
        *wrote("clean", start + 600, "staging.orders", "raw.orders", run=ids[1]),
        *wrote("build", start + 1200, "marts.orders", "staging.orders", run=ids[2]),
    ]


async def test_failures_on_three_levels_are_one_incident(shop: Shop) -> None:
    runs = [a_run_id() for _ in range(3)]
    await shop.send(*chain(runs=runs))
    for place, table in enumerate(TABLES):
        await shop.send_and_work(checked(table, 2000 + place, FAILS))

    found = await shop.incident()
    assert [each["producing_run_id"] for each in found["symptoms"]] == runs
    assert found["cause"]["run_id"] == runs[0]
    timeline = (await shop.get("/1/timeline"))["items"]
    assert [each["detail"].get("how") for each in timeline] == [None, "downstream of it", "downstream of it"]


async def test_an_upstream_symptom_that_comes_later_joins_and_changes_the_root(shop: Shop) -> None:
    runs = [a_run_id() for _ in range(3)]
    await shop.send(*chain(runs=runs))
    await shop.send_and_work(checked("marts.orders", 2000, FAILS))
    assert (await shop.incident())["cause"]["run_id"] == runs[2]

    await shop.send_and_work(checked("raw.orders", 1900, FAILS))

    found = await shop.incident()
    assert len(found["symptoms"]) == 2
    assert found["cause"]["run_id"] == runs[0]
    events = [each["kind"] for each in (await shop.get("/1/timeline"))["items"]]
    assert events == ["opened", "symptom_joined", "root_changed"]


async def test_the_order_in_which_levels_fail_does_not_matter(shop: Shop) -> None:
    runs = [a_run_id() for _ in range(3)]
    await shop.send(*chain(runs=runs))
    for table, second in (("staging.orders", 2001), ("marts.orders", 2002), ("raw.orders", 2000)):
        await shop.send_and_work(checked(table, second, FAILS))

    assert len((await shop.incident())["symptoms"]) == 3


async def test_two_branches_turn_out_to_be_one_problem_when_their_source_fails(shop: Shop) -> None:
    await shop.send(*wrote("ingest", 0, "raw.orders"))
    await shop.send(*wrote("left", 600, "marts.left", "raw.orders"), *wrote("right", 600, "marts.right", "raw.orders"))
    await shop.send_and_work(checked("marts.left", 700, FAILS), checked("marts.right", 700, FAILS))
    assert len(await shop.incidents()) == 2

    await shop.send_and_work(checked("raw.orders", 650, FAILS))

    first, second = sorted(await shop.incidents(), key=lambda each: each["number"])
    assert (first["status"], first["symptom_count"]) == ("open", 3)
    assert (second["status"], second["merged_into"]) == ("resolved", first["number"])


async def test_failures_with_one_sure_cause_are_one_incident_though_it_has_no_symptom(shop: Shop) -> None:
    for day in range(6):
        await shop.send(*wrote("ingest", day * DAY, "raw.orders", rows=1000, fields=["id", "mail"]))
    await shop.send(*wrote("ingest", 6 * DAY, "raw.orders", rows=1000, fields=["mail"]))
    for side in ("left", "right"):
        await shop.send(*wrote(side, 6 * DAY + 600, f"marts.{side}", "raw.orders"))
        await shop.send(checked(f"marts.{side}", 6 * DAY + 700, FAILS))
    # Nobody judges the change of schema here: only tests are looked into.
    await Worker(shop.server.database, [Kind("CORRELATE", correlate)]).drain()

    assert len((await shop.incident())["symptoms"]) == 2


async def test_unrelated_failures_are_two_incidents(shop: Shop) -> None:
    await shop.send(*wrote("one", 0, "marts.one", "raw.one"), *wrote("two", 0, "marts.two", "raw.two"))
    await shop.send_and_work(checked("marts.one", 60, FAILS), checked("marts.two", 60, FAILS))

    assert [each["number"] for each in sorted(await shop.incidents(), key=lambda each: each["number"])] == [1, 2]


@pytest.mark.parametrize(
    ("error", "number"),
    [("FATAL: password authentication failed for user 'etl'", 2), ("division by zero in line 7", 1)],
    ids=["of its surroundings", "maybe of its data"],
)
async def test_a_run_that_reads_bad_data_and_fails_for_want_of_a_password_is_another_problem(
    shop: Shop, error: str, number: int
) -> None:
    await shop.send(*wrote("load", 0, "core.stock", "raw.stock"))
    await shop.send_and_work(checked("core.stock", 60, ("accepted_values", "kind", False)))
    await shop.send_and_work(*wrote("bill", 600, "billing.invoices", "core.stock", state="FAIL", error=error))

    found = await shop.incidents()
    assert len(found) == number
    assert (found[-1]["kind"], found[-1]["job_name"]) == (
        ("RunFailed", "bill") if number == 2 else ("TestFailed", "load")
    )


async def test_what_is_downstream_of_an_old_root_is_another_incident(shop: Shop) -> None:
    await shop.send(*wrote("ingest", 0, "raw.static"))
    await shop.send_and_work(checked("raw.static", 60, FAILS))
    await shop.send(*wrote("build", 3 * DAY, "marts.orders", "raw.static"))
    await shop.send_and_work(checked("marts.orders", 3 * DAY + 60, FAILS))

    assert len(await shop.incidents()) == 2


async def test_retries_of_a_test_are_one_symptom(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    for attempt in range(3):
        await shop.send_and_work(checked("marts.orders", 60 + attempt, FAILS))

    (symptom,) = (await shop.incident())["symptoms"]
    assert (symptom["count"], symptom["observed_at"], symptom["last_observed_at"]) == (3, at(60), at(62))
    assert len([each for each in await shop.alerts() if each[0] == "SYMPTOM"]) == 3, "rules say how often they tell it"
    (_, again) = (await shop.get("/1/timeline"))["items"]
    told = f"the same was seen 2 times more: {symptom['sentence']}"
    assert (again["sentence"], again["detail"]["last_at"]) == (told, at(62))


async def test_a_test_that_fails_again_on_the_next_run_stays_in_its_incident(shop: Shop) -> None:
    for hour in range(3):
        await shop.send(*wrote("load", hour * HOUR, "marts.orders"))
        await shop.send_and_work(checked("marts.orders", hour * HOUR + 60, FAILS))

    found = await shop.incident()
    assert len({each["producing_run_id"] for each in found["symptoms"]}) == 3
    assert (found["opened_at"], found["last_seen_at"]) == (at(60), at(2 * HOUR + 60))


@pytest.mark.parametrize("first", ["child", "parent"])
async def test_a_run_and_what_started_it_fail_as_one(shop: Shop, first: str) -> None:
    dag, task = a_run_id(), a_run_id()
    child = wrote("dag.task", 0, "marts.orders", run=task, state="FAIL", parent=started_by(dag, "dag"))
    parent = [an_event("START", run=dag, job="dag", time=at(-300)), an_event("FAIL", run=dag, job="dag", time=at(5))]
    order = (child, parent) if first == "child" else (parent, child)
    for events in order:
        await shop.send(*events)
        await shop.work()

    assert len((await shop.incident())["symptoms"]) == 2


async def test_two_tasks_of_one_dag_that_fail_alone_are_two_incidents(shop: Shop) -> None:
    dag = a_run_id()
    for name in ("one", "two"):
        failed = wrote(f"dag.{name}", 0, f"marts.{name}", f"raw.{name}", state="FAIL", parent=started_by(dag, "dag"))
        await shop.send_and_work(*failed)

    assert len(await shop.incidents()) == 2


async def test_two_organisations_never_mix(shop: Shop, observed: tuple[Server, Stored]) -> None:
    other = Shop(shop.server, await shop.server.add_tenant(f"Org {a_run_id()}"), shop.db)
    runs = [a_run_id() for _ in range(3)]
    for each in (shop, other):
        await each.send(*chain(runs=runs))
    await shop.send(checked("raw.orders", 2000, FAILS))
    await other.send(checked("marts.orders", 2000, FAILS))
    await shop.work()

    mine, theirs = await shop.incident(), await other.incident()
    assert (mine["number"], theirs["number"]) == (1, 1)
    assert (len(mine["symptoms"]), len(theirs["symptoms"])) == (1, 1)
    assert (await other.ask(f"/{mine['id']}")).status_code == 404
    assert theirs["cause"]["run_id"] == runs[2], "what failed elsewhere is no evidence here"


async def test_many_workers_at_once_make_one_incident_of_one_problem(shop: Shop) -> None:
    await shop.send(*chain())
    await shop.send(*(checked(table, 2000 + n, (f"t{n}", "id", False)) for n in range(10) for table in TABLES))
    kinds = [Kind("CORRELATE", correlate, batch_size=1)]

    await asyncio.gather(*(Worker(shop.server.database, kinds).drain() for _ in range(4)))

    found = await shop.incident()
    assert (len(found["symptoms"]), {each["count"] for each in found["symptoms"]}) == (30, {1})


async def test_work_that_dies_in_the_middle_leaves_nothing_half_done(shop: Shop) -> None:
    await shop.send(*chain())
    await shop.send(checked("raw.orders", 2000, FAILS), checked("marts.orders", 2001, FAILS))

    async def dies(conn: asyncpg.Connection, batch: Batch) -> None:
        await correlate(conn, batch)
        raise RuntimeError("killed")

    await Worker(shop.server.database, [Kind("CORRELATE", dies)]).drain()
    for table in ("incidents", "incident_symptoms", "incident_events", "incident_paths"):
        assert await shop.rows(f"SELECT 1 FROM {table} WHERE organization_id = $1") == []
    assert await shop.alerts() == []

    await shop.db.execute("UPDATE async_task SET next_run_at = now() WHERE status = 'FAILED'")
    await shop.work()
    found = await shop.incident()
    assert (len(found["symptoms"]), [each["count"] for each in found["symptoms"]]) == (2, [1, 1])
    assert len(await shop.alerts()) == 2
