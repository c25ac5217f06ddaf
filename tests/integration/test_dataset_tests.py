"""Results of tests read back: the latest of each test, or all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import permutations
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest

from headgate.server.quality.schemas import ResultPage
from tests.conftest import Cluster
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at
from tests.support.ingest import a_server
from tests.support.server import Server, Tenant


@pytest.fixture(scope="module")
async def shared(cluster: Cluster) -> AsyncIterator[Server]:
    async with a_server(cluster) as server:
        yield server


@pytest.fixture
async def tenant(shared: Server) -> Tenant:
    """An organisation of the test's own."""
    return await shared.add_tenant(f"Org {a_run_id()}")


def checked(second: float, *assertions: Json, run: str | None = None, name: str = "t") -> Json:
    facet = {"dataQualityAssertions": a_facet(assertions=list(assertions))}
    return an_event(job="check", run=run, time=at(second), inputs=[a_dataset(name, inputFacets=facet)])


def not_null(column: str, success: bool, **more: Any) -> Json:
    return {"assertion": "not_null", "success": success, "column": column, **more}


async def ask(tenant: Tenant, dataset: str = "t", **query: Any) -> httpx.Response:
    params = {name: value for name, value in query.items() if value is not None}
    return await tenant.client.get(f"/api/v1/datasets/{quote(dataset, safe='')}/tests", params=params)


async def results(tenant: Tenant, **query: Any) -> Json:
    response = await ask(tenant, **query)
    assert response.status_code == 200, response.text
    ResultPage.model_validate(response.json())
    return dict(response.json())


async def told(tenant: Tenant, **query: Any) -> list[tuple[str | None, str, str]]:
    items = (await results(tenant, **query))["items"]
    return [(item["column"], item["status"], item["observed_at"]) for item in items]


async def test_a_result_is_told_with_all_that_is_known_of_it(tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(checked(1, not_null("email", False, severity="warn"), run=run))
    (item,) = (await results(tenant))["items"]
    assert (item["name"], item["assertion"], item["column"]) == ("not_null", "not_null", "email")
    assert (item["status"], item["severity"], item["run_id"], item["observed_at"]) == ("failed", "warn", run, at(1))
    assert (item["job"]["namespace"], item["job"]["name"]) == ("tests", "check")
    assert {"id", "expected", "actual", "description"} < set(item)


async def test_a_run_of_tests_tells_what_it_expected_and_found(tenant: Tenant) -> None:
    test = {
        "name": "orders_are_recent",
        "type": "freshness",
        "status": "fail",
        "severity": "error",
        "expected": "1 h",
        "actual": "3 h",
        "description": "orders come in all day",
    }
    event = an_event(run_facets={"test": a_facet(tests=[test])}, inputs=[a_dataset("t")], time=at(2))
    await tenant.send_ok(event)
    items = (await results(tenant))["items"]
    assert [(item["name"], item["expected"], item["actual"], item["description"]) for item in items] == [
        ("orders_are_recent", "1 h", "3 h", "orders come in all day")
    ]


async def test_of_each_test_the_latest_result_is_told(tenant: Tenant) -> None:
    await tenant.send_ok(
        checked(1, not_null("email", False), not_null("id", True)),
        checked(2, not_null("email", True)),
        checked(3, {"assertion": "row_count_between", "success": False}),
    )
    assert await told(tenant) == [(None, "failed", at(3)), ("email", "passed", at(2)), ("id", "passed", at(1))]


async def test_the_same_check_on_two_columns_is_two_tests(tenant: Tenant) -> None:
    await tenant.send_ok(checked(1, not_null("email", False), not_null("id", True)))
    assert sorted(await told(tenant)) == [("email", "failed", at(1)), ("id", "passed", at(1))]


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
async def test_the_latest_result_is_the_latest_by_its_own_time(tenant: Tenant, order: tuple[int, ...]) -> None:
    events = [checked(second, not_null("id", second == 3)) for second in (1, 2, 3)]
    await tenant.send_ok(*(events[place] for place in order))
    assert await told(tenant) == [("id", "passed", at(3))]
    assert [time for _, _, time in await told(tenant, history=True)] == [at(3), at(2), at(1)]


async def test_the_history_has_every_result(tenant: Tenant) -> None:
    await tenant.send_ok(
        checked(1, not_null("email", False), not_null("id", True)), checked(2, not_null("email", True))
    )
    items = await told(tenant, history=True)
    assert items[0] == ("email", "passed", at(2))
    assert sorted(items[1:]) == [("email", "failed", at(1)), ("id", "passed", at(1))]


async def test_a_status_chooses_among_the_latest_or_among_all(tenant: Tenant) -> None:
    await tenant.send_ok(
        checked(1, not_null("email", False), not_null("id", False)), checked(2, not_null("email", True))
    )
    assert await told(tenant, status="failed") == [("id", "failed", at(1))]
    assert await told(tenant, status="passed") == [("email", "passed", at(2))]
    assert sorted(await told(tenant, status="failed", history=True)) == [
        ("email", "failed", at(1)),
        ("id", "failed", at(1)),
    ]
    assert await told(tenant, status="skipped") == []


@pytest.mark.parametrize("history", [None, True], ids=["latest", "history"])
@pytest.mark.parametrize("limit", [1, 2, 5, 1000])
async def test_pages_lose_and_repeat_nothing(tenant: Tenant, limit: int, history: bool | None) -> None:
    columns = [f"c{n}" for n in range(6)]
    await tenant.send_ok(
        checked(1, *(not_null(column, True) for column in columns)),
        checked(2, *(not_null(column, False) for column in columns[:3])),
    )
    found: list[str] = []
    cursor = None
    while True:
        page = await results(tenant, limit=limit, history=history, cursor=cursor)
        assert len(page["items"]) <= limit
        found += [f"{item['column']} {item['status']}" for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    latest = {f"c{n} failed" for n in range(3)} | {f"c{n} passed" for n in range(3, 6)}
    assert set(found) == latest | ({f"c{n} passed" for n in range(3)} if history else set())
    assert len(found) == len(set(found))
    assert all(item.endswith("failed") for item in found[:3])


async def test_tests_of_other_datasets_are_not_told(tenant: Tenant) -> None:
    await tenant.send_ok(checked(1, not_null("id", True)), checked(2, not_null("id", False), name="other"))
    assert await told(tenant) == [("id", "passed", at(1))]
    assert await told(tenant, dataset="other", history=True) == [("id", "failed", at(2))]


async def test_a_dataset_without_tests_has_none(tenant: Tenant) -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset("t")]))
    assert await results(tenant) == await results(tenant, history=True) == {"items": [], "next_cursor": None}


async def test_a_result_without_a_run_has_no_run_and_no_job(tenant: Tenant) -> None:
    facet = {"dataQualityAssertions": a_facet(assertions=[not_null("id", True)])}
    dataset = a_dataset("t", facets=facet)
    await tenant.send_ok({"eventTime": at(1), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": dataset})
    (item,) = (await results(tenant))["items"]
    assert (item["run_id"], item["job"]) == (None, None)


@pytest.mark.parametrize(
    "query",
    [{"status": "bad"}, {"history": "perhaps"}, {"limit": 0}, {"limit": 1001}, {"cursor": "nonsense"}],
    ids=str,
)
async def test_wrong_questions_are_refused_by_name(tenant: Tenant, query: Json) -> None:
    await tenant.send_ok(checked(1, not_null("id", True)))
    response = await ask(tenant, **query)
    assert response.status_code == 422
    assert [error["path"] for error in response.json()["errors"]] == [f"query.{name}" for name in query]


async def test_an_unknown_dataset_has_its_nearest_names(tenant: Tenant) -> None:
    await tenant.send_ok(checked(1, not_null("id", True), name="shop.public.orders"))
    response = await ask(tenant, dataset="shop.public.order")
    assert response.status_code == 404
    assert "shop.public.orders" in response.json()["hint"]


async def test_another_organisation_has_no_such_dataset(shared: Server, tenant: Tenant) -> None:
    run = a_run_id()
    await tenant.send_ok(checked(1, not_null("id", True), run=run))
    other = await shared.add_tenant(f"Org {a_run_id()}")
    await other.send_ok(checked(1, not_null("id", False)))
    assert await told(tenant) == [("id", "passed", at(1))]
    assert await told(other) == [("id", "failed", at(1))]
    unknown = await ask(other, dataset=str(uuid4()))
    assert unknown.status_code == 404
