"""Incidents for people who query directly, orphans, and what merges of datasets and changes of code leave behind."""

from __future__ import annotations

import pytest

from headgate.domain.run import producer_name
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.incidents import DAY, Shop, checked, wrote

FAILS = ("unique", "id", False)
EVER = 87_600
# Seed 003, as it is written there.
CORRELATION = """
SELECT run_id, job_name, producer_name, job_started_at
FROM incident_correlation_view
WHERE test_status IN ('failed', 'error')
  AND dataset_urn = 'postgres://db:5432/marts.orders';
"""


async def test_the_correlation_query_runs_as_written_and_finds_what_was_sent(shop: Shop) -> None:
    run = a_run_id()
    await shop.send(*wrote("load", 0, "marts.orders", run=run))
    await shop.send(checked("marts.orders", 60, FAILS))

    (row,) = await shop.select(CORRELATION)
    assert (str(row["run_id"]), row["job_name"], row["producer_name"]) == (run, "load", "headgate-tests")
    assert row["job_started_at"].isoformat() == at(-60).replace("Z", "+00:00")
    by_canonical = CORRELATION.replace("dataset_urn", "canonical_urn").replace(":5432", "")
    assert await shop.select(by_canonical) == [row]


async def test_the_view_tells_why_before_and_after_it_was_looked_into(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, FAILS), checked("marts.unknown", 60, FAILS))
    sql = (
        "SELECT canonical_urn, test_name, test_status, incident_id, root_cause "
        "FROM incident_correlation_view ORDER BY 1"
    )
    before = await shop.select(sql)
    assert [row["root_cause"] for row in before] == [
        "Job 'load' produced dataset 'marts.orders' which failed test 'unique'",
        "No known job produces dataset 'marts.unknown', which failed test 'unique'",
    ]
    assert [row["incident_id"] for row in before] == [None, None]
    await shop.work()

    after = await shop.select(sql)
    assert [(row["test_name"], row["test_status"]) for row in after] == [("unique", "failed")] * 2
    told = {each["dataset_urn"]: (each["id"], each["root_cause"]) for each in await shop.incidents()}
    assert {row["canonical_urn"]: (str(row["incident_id"]), row["root_cause"]) for row in after} == told


async def test_each_failure_in_the_view_has_the_run_of_its_time(shop: Shop) -> None:
    runs = [a_run_id() for _ in range(5)]
    for day, run in enumerate(runs):
        await shop.send(*wrote("load", day * DAY, "marts.orders", run=run))
        await shop.send(checked("marts.orders", day * DAY + 600, FAILS))

    rows = await shop.select("SELECT run_id FROM incident_correlation_view ORDER BY test_executed_at")
    assert [str(row["run_id"]) for row in rows] == runs


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/correlator-io/dbt-correlator/0.1.0",
        "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt",
        "https://github.com/apache/airflow/tree/providers-openlineage/2.1.0",
        "https://example.org/tool/v1.2?x=1#y",
        "https://example.org/tool/1.0-rc1/",
        "tool",
        "1.2.3",
    ],
)
async def test_the_producers_name_is_read_as_everywhere(shop: Shop, url: str) -> None:
    assert await shop.db.fetchval("SELECT producer_name($1)", url) == producer_name(url)


async def test_the_summary_counts_incidents_by_dataset(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "marts.orders"))
    await shop.send(checked("marts.orders", 60, FAILS, ("not_null", "id", False)))
    await shop.work()
    sql = "SELECT dataset_urn, incidents, open_incidents, failed_tests, failures FROM recent_incidents_summary"
    assert await shop.select(sql) == [], "they are older than seven days"
    await shop.db.execute(
        "UPDATE incident_symptoms SET last_observed_at = now() WHERE organization_id = $1", shop.tenant.organization_id
    )
    await shop.db.execute(
        "UPDATE incidents SET last_seen_at = now() WHERE organization_id = $1", shop.tenant.organization_id
    )

    (row,) = await shop.select(sql)
    assert tuple(row.values()) == ("postgres://db/marts.orders", 1, 1, 2, 2)


async def test_failures_without_a_known_producer_are_orphans(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "db.marts.orders"))
    await shop.send(checked("db.marts.orders", 60, FAILS), checked("marts.orders", 61, FAILS))
    await shop.work()

    orphan = (await shop.incidents(orphan=True))[0]
    assert (orphan["dataset"]["name"], orphan["run_id"], orphan["is_orphan"]) == ("marts.orders", None, True)
    listed = await shop.get("/orphans", hours=EVER)
    assert [(each["name"], each["failures"], each["incident"]) for each in listed["items"]] == [
        ("marts.orders", 1, orphan["number"])
    ]
    rate = await shop.get("/correlation", hours=EVER)
    assert (rate["failed_datasets"], rate["correlated_datasets"], rate["correlation_rate"]) == (2, 1, 0.5)
    suggested = (await shop.tenant.client.get(rate["suggestions"])).json()
    assert suggested["items"], "a rule that would bring the two together"
    assert orphan["root_cause"] == "No run is known that wrote 'postgres://db/marts.orders'."
    for path in ("", "/evidence"):
        told = await shop.get(f"/{orphan['number']}{path}")
        assert [each["name"] for each in told["namesakes"]] == ["db.marts.orders"]


async def test_an_orphan_is_looked_for_in_whatever_case(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "shop.Sales.Ord"), checked("shop.sales.ord", 60, FAILS))
    await shop.work()

    (item,) = (await shop.tenant.client.get("/api/v1/aliases/suggestions")).json()["items"]
    assert (item["rule"]["pattern"], item["rule"]["canonical"], item["confidence"]) == (
        "postgres://db/shop.sales.ord", "postgres://db/shop.Sales.Ord", "high",
    )  # fmt: skip
    assert [each["name"] for each in (await shop.incident())["namesakes"]] == ["shop.Sales.Ord"]


async def orphans(shop: Shop) -> tuple[int, int, int]:
    """How many there are, by each of the places that tell."""
    counts = await shop.get("/counts")
    listed = await shop.get("/orphans", hours=EVER)
    return len(listed["items"]), counts["orphans"], len(await shop.incidents(orphan=True))


async def test_an_alias_rule_gives_an_orphan_its_producer_and_its_undo_takes_it_away(shop: Shop) -> None:
    run = a_run_id()
    await shop.send(*wrote("load", 0, "core.users", run=run))
    await shop.send_and_work(checked("public.core.users", 60, FAILS))
    assert await orphans(shop) == (1, 1, 1)
    body = {"pattern": "postgres://db/public.core.users", "canonical": "postgres://db/core.users"}
    made = await shop.tenant.client.post("/api/v1/aliases", json=body)
    assert (made.status_code, made.json()["orphans_fixed"]) == (201, 1)
    await shop.work()

    found = await shop.incident()
    assert (found["is_orphan"], found["run_id"], found["job_name"]) == (False, run, "load")
    assert (found["cause"]["run_id"], "load" in found["root_cause"]) == (run, True)
    assert await orphans(shop) == (0, 0, 0)

    undone = await shop.tenant.client.post(f"/api/v1/aliases/{made.json()['rule']['id']}/undo")
    assert undone.is_success, undone.text
    await shop.work()

    found = await shop.incident()
    assert (found["is_orphan"], found["run_id"], found["dataset"]["name"]) == (True, None, "public.core.users")
    assert found["cause"]["run_id"] is None
    assert await orphans(shop) == (1, 1, 1)


async def test_a_symlink_gives_an_orphan_its_producer(shop: Shop) -> None:
    run = a_run_id()
    await shop.send(*wrote("load", 0, "core.users", run=run))
    await shop.send_and_work(checked("public.core.users", 60, FAILS))
    links = a_facet(identifiers=[{"namespace": "postgres://db", "name": "core.users", "type": "TABLE"}])
    linked = a_dataset("public.core.users", facets={"symlinks": links})
    await shop.send_and_work(an_event(job="read", time=at(90), inputs=[linked]))

    assert (await shop.incident())["run_id"] == run
    assert await orphans(shop) == (0, 0, 0)


async def test_a_dataset_that_a_job_writes_by_now_is_no_orphan_anywhere(shop: Shop) -> None:
    await shop.send_and_work(checked("marts.orders", 60, FAILS))
    assert await orphans(shop) == (1, 1, 1)
    await shop.send_and_work(*wrote("load", 300, "marts.orders"))

    found = await shop.incident()
    assert (found["run_id"], found["is_orphan"]) == (None, False), "no run had written it by then"
    assert await orphans(shop) == (0, 0, 0)


async def test_the_correlation_rate_of_nothing_is_one(shop: Shop) -> None:
    assert (await shop.get("/correlation"))["correlation_rate"] == 1.0


async def test_incidents_move_with_a_dataset_that_is_merged_and_come_back(shop: Shop) -> None:
    await shop.send(*wrote("load", 0, "public.orders"))
    await shop.send_and_work(checked("public.old_orders", 60, FAILS))
    before = await shop.rows("SELECT * FROM incident_symptoms WHERE organization_id = $1")
    one, other = [(await shop.dataset(name))["id"] for name in ("public.orders", "public.old_orders")]
    merged = await shop.tenant.client.post("/api/v1/dataset-merges", json={"one": one, "other": other})
    assert merged.is_success, merged.text

    found = await shop.incident()
    assert found["dataset"]["name"] == "public.orders"
    assert found["symptoms"][0]["dataset"]["name"] == "public.orders"
    await shop.send_and_work(checked("public.orders", 90, ("unique", "id", True)))
    assert (await shop.incident())["status"] == "resolved", "the test passes under either name"

    undone = await shop.tenant.client.post(f"/api/v1/dataset-merges/{merged.json()['id']}/undo")
    assert undone.is_success, undone.text
    after = await shop.rows("SELECT * FROM incident_symptoms WHERE organization_id = $1")
    assert [(row["dataset_id"], row["key"]) for row in after] == [(row["dataset_id"], row["key"]) for row in before]
    assert (await shop.incident())["dataset"]["name"] == "public.old_orders"


VERSIONS = (
    "SELECT version, changed, code_version, seen_at FROM job_versions WHERE organization_id = $1 ORDER BY version"
)


async def test_versions_of_a_jobs_code_are_kept(shop: Shop) -> None:
    def told(second: float, **facets: Json) -> Json:
        return an_event(job="load", time=at(second), outputs=[a_dataset("t")], job_facets=facets)

    location = a_facet(type="git", url="https://example.org/repo", version="abc123")
    await shop.send(told(0, documentation=a_facet(description="loads")))
    assert await shop.rows(VERSIONS) == []
    await shop.send(told(1, sql=a_facet(query="select  1 -- 2026-03-01 10:00:00")))
    await shop.send(told(2, sql=a_facet(query="select 1\n-- 2026-03-02 11:30:00")))
    await shop.send(told(3, documentation=a_facet(description="loads more")))
    await shop.send(told(4, sourceCodeLocation=location))
    await shop.send(told(5, sql=a_facet(query="select 2"), sourceCodeLocation=location | {"version": "def456"}))

    assert [(row["version"], row["changed"], row["code_version"]) for row in await shop.rows(VERSIONS)] == [
        (1, [], None),
        (2, ["version"], "abc123"),
        (3, ["sql", "version"], "def456"),
    ]
