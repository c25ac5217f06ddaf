"""Both clients against a real server that knows the shop: every method that reads, and what it gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headgate.client import AsyncHeadgateClient, Call, HeadgateClient, Page, datasets, events, lineage, names, runs
from headgate.errors import Conflict, InvalidFields, NotFound
from tests.conftest import Cluster
from tests.support.live import Live
from tests.support.shop import REVENUE, SILVER, STAGING, shop_server

RUN = "66ea8898-86cc-5d6d-b488-cb2a8abbeab4"
# Every question that changes nothing, asked of something that is there.
QUESTIONS: dict[str, Callable[[], Call[Any]]] = {
    "datasets": datasets.datasets,
    "dataset": lambda: datasets.dataset(REVENUE),
    "tags": datasets.tags,
    "status": lambda: datasets.status(["00000000-0000-0000-0000-000000000000"]),
    "schema": lambda: datasets.schema(REVENUE),
    "schema_history": lambda: datasets.schema_history(REVENUE),
    "schema_diff": lambda: datasets.schema_diff(REVENUE),
    "metrics": lambda: datasets.metrics(SILVER),
    "metric_stats": lambda: datasets.metric_stats(SILVER),
    "checks": lambda: datasets.checks(REVENUE, history=True),
    "upstream": lambda: lineage.upstream(REVENUE, depth=2, columns=True),
    "downstream": lambda: lineage.downstream(SILVER, as_of="2026-11-12T00:00:00Z"),
    "lineage": lambda: lineage.lineage(STAGING, limit=3),
    "paths": lambda: lineage.paths(SILVER, REVENUE),
    "neighbourhood": lambda: lineage.neighbourhood(root=STAGING, up=1, down=1),
    "neighbourhood of a job": lambda: lineage.neighbourhood(job="shop_daily"),
    "column_lineage": lambda: lineage.column_lineage(REVENUE),
    "column_upstream": lambda: lineage.column_upstream(REVENUE, "revenue"),
    "column_downstream": lambda: lineage.column_downstream(STAGING, "amount"),
    "column_impact": lambda: lineage.column_impact(STAGING, "amount"),
    "impact": lambda: lineage.impact(SILVER, if_schema_changes=True),
    "run_impact": lambda: lineage.run_impact(RUN),
    "runs": lambda: runs.runs(state="FAIL"),
    "run": lambda: runs.run(RUN),
    "run_stages": lambda: runs.run_stages(RUN),
    "run_lineage": lambda: runs.run_lineage(RUN),
    "run_events": lambda: runs.run_events(RUN),
    "jobs": runs.jobs,
    "job": lambda: runs.job("shop_daily"),
    "job_runs": lambda: runs.job_runs("shop_daily"),
    "job_summary": runs.job_summary,
    "search": lambda: names.search("revenue", kinds=["dataset"]),
    "aliases": names.aliases,
    "preview_alias": lambda: names.preview_alias("postgres://a/{t}", "postgres://b/{t}"),
    "alias_suggestions": names.alias_suggestions,
    "events": lambda: events.events(outcome="accepted", limit=3),
    "ingest_stats": events.ingest_stats,
    "conformance": events.conformance,
}


@pytest.fixture(scope="module")
async def shop(cluster: Cluster) -> AsyncIterator[Live]:
    async with shop_server(cluster) as live:
        yield live


@pytest.fixture
def client(shop: Live) -> HeadgateClient:
    return HeadgateClient(shop.url, shop.api_key)


@pytest.mark.parametrize("name", QUESTIONS)
async def test_both_clients_read_the_same_answer(shop: Live, client: HeadgateClient, name: str) -> None:
    blocking = client.call(QUESTIONS[name]())
    async with AsyncHeadgateClient(shop.url, shop.api_key) as awaiting:
        awaited = await awaiting.call(QUESTIONS[name]())

    assert type(blocking) is type(awaited)
    assert blocking is not None
    if isinstance(blocking, Page) and name not in ("tags", "aliases", "alias_suggestions"):
        assert blocking.items, "the shop has some"


def test_lineage_is_followed_upstream_to_where_it_begins(client: HeadgateClient) -> None:
    found = client.upstream(REVENUE)

    assert sorted((node.depth, node.urn, node.external) for node in found.nodes) == [
        (0, REVENUE, False),
        (1, STAGING, False),
        (2, SILVER, False),
        (3, "postgres://erp.shop.example/shop.public.customers", True),
        (3, "s3://shop-lake/raw/orders", False),
        (4, "kafka://broker.shop.example/orders", True),
    ]
    assert not found.truncated


def test_a_list_is_walked_page_by_page(client: HeadgateClient) -> None:
    every = [dataset.urn for dataset in client.each(datasets.datasets(limit=2))]

    assert len(every) == len(set(every)) == 7
    assert every == [dataset.urn for dataset in client.datasets(limit=1000).items]


def test_what_is_unknown_comes_with_the_nearest_name(client: HeadgateClient) -> None:
    with pytest.raises(NotFound, match="daily_revenu") as caught:
        client.dataset("shop.marts.daily_revenu")

    assert caught.value.hint is not None
    assert "daily_revenue" in caught.value.hint


def test_what_several_are_called_comes_with_all_of_them(client: HeadgateClient) -> None:
    with pytest.raises(Conflict, match="shop-lake"):
        client.dataset("shop-lake:orders")


def test_a_wrong_time_names_its_field(client: HeadgateClient) -> None:
    with pytest.raises(InvalidFields, match=r"query\.as_of"):
        client.upstream(REVENUE, as_of="yesterday")


def test_tags_and_notes_are_written_and_read(client: HeadgateClient) -> None:
    client.add_tag(STAGING, "pii")
    client.add_tag(STAGING, "money", column="amount")
    client.annotate(STAGING, description="Orders as the shop has them.", owners=["team:shop"])

    found = client.dataset(STAGING)
    client.remove_tag(STAGING, "pii")

    assert (found["description"], found["owners"]) == ("Orders as the shop has them.", ["team:shop"])
    assert "pii" in found["tags"]
    assert "pii" not in client.dataset(STAGING)["tags"]
    assert [dataset.urn for dataset in client.datasets(tag="pii").items] == []


def test_a_rule_is_added_and_taken_back(client: HeadgateClient) -> None:
    added = client.add_alias("postgres://other/{t}", "postgres://warehouse.shop.example/{t}")

    assert added["rule"]["pattern"] == "postgres://other/{t}"
    assert client.undo_alias(added["rule"]["id"])["undone"] == 0
