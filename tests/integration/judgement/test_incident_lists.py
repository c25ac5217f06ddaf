"""Lists of incidents: what they cost among very many, page by page, and what may be asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.domain.incident import SYMPTOMS
from headgate.server.db.pool import Database
from headgate.server.incidents.store import Filters, IncidentStore
from headgate.server.pagination import Page
from tests.support.graphs import an_organization
from tests.support.incidents import Shop, checked, wrote

READ = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables"
COUNT = 4000


class Past:
    """Very many incidents that ended, each a test that failed on a dataset; the oldest five are on one of their own."""

    def __init__(self, db: asyncpg.Connection, organization_id: UUID) -> None:
        self._db = db
        self.organization_id = organization_id
        self.dataset, self.job = uuid4(), uuid4()

    async def fill(self) -> None:
        await self._db.execute(
            "INSERT INTO incidents (organization_id, number, title, status, severity, kind, opened_at, last_seen_at) "
            "SELECT $1, n, 't', 'resolved', 'CRITICAL', 'TestFailed', now() - n * interval '1 h', now() "
            "FROM generate_series(1, $2) n",
            *(self.organization_id, COUNT),
        )
        # Two symptoms each; the oldest five are of a job and a dataset that no other is of, and the gate was shut.
        await self._db.execute(
            "INSERT INTO incident_symptoms (organization_id, incident_id, type, key, dataset_id, job_id, severity, "
            "sentence, observed_at, last_observed_at, cleared_at) SELECT i.organization_id, i.id, "
            "CASE WHEN i.number > $2 - 5 AND k = 1 THEN 'GateBlocked' ELSE 'TestFailed' END, 'k' || k, "
            "CASE WHEN i.number > $2 - 5 THEN $3 ELSE gen_random_uuid() END, "
            "CASE WHEN i.number > $2 - 5 THEN $4 ELSE gen_random_uuid() END, 'CRITICAL', 's', i.opened_at, "
            "i.opened_at, i.opened_at FROM incidents i CROSS JOIN generate_series(1, 2) k WHERE i.organization_id = $1",
            *(self.organization_id, COUNT, self.dataset, self.job),
        )
        await self._db.execute("ANALYZE incidents, incident_symptoms")

    async def numbers(self, database: Database, asked: Filters, limit: int = 2) -> tuple[list[list[int]], int]:
        """The pages that are asked for, and how many rows were read for the list of the first."""
        pages: list[list[int]] = []
        page = Page(limit, None, None)
        async with database.tenant(self.organization_id) as conn:
            store = IncidentStore(conn, self.organization_id)
            before = await conn.fetchval(READ)
            rows, cursor = await store.page(asked, page)
            read: int = await conn.fetchval(READ) - before
            pages.append([row["number"] for row in rows])
            while cursor is not None:
                page = page._replace(at=rows[-1]["opened_at"], id=rows[-1]["id"])
                rows, cursor = await store.page(asked, page)
                pages.append([row["number"] for row in rows])
        return pages, read


@pytest.fixture
async def past(db: asyncpg.Connection) -> Past:
    made = Past(db, await an_organization(db))
    await made.fill()
    return made


def asked_for(past: Past, by: str) -> Filters:
    given: dict[str, Any] = {
        "dataset": {"dataset_id": past.dataset},
        "job": {"job_id": past.job},
        "kind": {"kind": "GateBlocked"},
        "all": {"kind": "GateBlocked", "dataset_id": past.dataset, "job_id": past.job, "status": ["resolved"]},
    }
    return Filters(**given[by])


@pytest.mark.parametrize("by", ["dataset", "job", "kind", "all"])
async def test_a_few_of_very_many_incidents_are_found_page_by_page_in_a_few_rows(
    database: Database, past: Past, by: str
) -> None:
    pages, read = await past.numbers(database, asked_for(past, by))

    assert pages == [[COUNT - 4, COUNT - 3], [COUNT - 2, COUNT - 1], [COUNT]]
    assert read < 100, read


# Of a kind or a job so many symptoms are counted to know whether to begin with them.
COUNTED = 5000


@pytest.mark.parametrize(
    ("asked", "most"),
    [(Filters(), 200), (Filters(status=["resolved"]), 200), (Filters(kind="TestFailed"), COUNTED + 200)],
    ids=["all", "status", "a kind that most are of"],
)
async def test_the_newest_of_very_many_are_found_in_a_few_rows(
    database: Database, past: Past, asked: Filters, most: int
) -> None:
    async with database.tenant(past.organization_id) as conn:
        before = await conn.fetchval(READ)
        rows, _ = await IncidentStore(conn, past.organization_id).page(asked, Page(10, None, None))
        read = await conn.fetchval(READ) - before

    assert [row["number"] for row in rows] == list(range(1, 11))
    assert read < most, read


async def test_what_a_job_has_caused_is_listed_with_it_and_what_was_merged_by_its_kind(shop: Shop) -> None:
    await shop.send(*wrote("ingest", 0, "raw.orders", state="FAIL"))
    await shop.send(*wrote("other", 0, "marts.other"))
    await shop.send_and_work(checked("marts.other", 60, ("unique", "id", False)))
    assert [each["kind"] for each in await shop.incidents(job="ingest")] == ["RunFailed"]
    numbers = {each["kind"]: each["number"] for each in await shop.incidents()}

    await shop.change(f"{numbers['RunFailed']}/merge", into=numbers["TestFailed"])

    assert {each["number"] for each in await shop.incidents(kind="RunFailed")} == set(numbers.values())
    assert {each["number"] for each in await shop.incidents(job="ingest")} >= {numbers["TestFailed"]}


# --- what may be asked for ---


@pytest.mark.parametrize("spelled", ["TestFailed", "testfailed", "TEST_FAILED", "test-failed"])
async def test_a_kind_is_read_in_any_spelling(shop: Shop, spelled: str) -> None:
    await shop.send_and_work(checked("marts.orders", 0, ("unique", "id", False)))

    assert len(await shop.incidents(kind=spelled)) == 1
    assert await shop.incidents(kind="schema drift") == []


async def test_a_kind_that_there_is_not_is_named_with_those_that_there_are(shop: Shop) -> None:
    response = await shop.ask(kind="TestFaild")

    assert response.status_code == 422
    problem = response.json()
    assert "kind" in problem["detail"]
    assert "TestFaild" in response.text
    assert all(each in problem["hint"] for each in SYMPTOMS)


async def test_a_word_that_only_a_client_uses_is_a_kind_once_it_was_seen(shop: Shop) -> None:
    await shop.send_and_work(checked("marts.orders", 0, ("unique", "id", False)))
    await shop.db.execute(
        "UPDATE incident_symptoms SET type = 'OddWeather' WHERE organization_id = $1", shop.tenant.organization_id
    )

    assert len(await shop.incidents(kind="OddWeather")) == 1


async def test_of_a_clock_that_is_ahead_the_summary_tells_nothing_later_than_now(shop: Shop) -> None:
    ahead = (datetime.now(UTC) - datetime.fromisoformat("2026-03-01T10:00:00Z")).total_seconds() + 2 * 24 * 3600
    await shop.send_and_work(checked("marts.orders", ahead, ("unique", "id", False)))

    (row,) = await shop.select("SELECT first_failed_at, last_failed_at FROM recent_incidents_summary")

    assert all(told <= datetime.now(UTC) for told in row.values())
