"""Search: what is found by which text, in which order, and how the index keeps up."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from headgate.server.db.pool import Database
from headgate.server.index.writer import Q, catch_up
from headgate.server.search import routes
from headgate.server.search.ranking import Kind
from headgate.server.search.store import SearchStore
from headgate.server.worker import Worker
from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server, Tenant

SEARCH = "/api/v1/search"


async def search(tenant: Tenant, q: str, **params: Any) -> Json:
    response = await tenant.client.get(SEARCH, params={"q": q, **params})
    assert response.status_code == 200, response.text
    found: Json = response.json()
    assert found["indexing"] is False
    return found


async def found(tenant: Tenant, q: str, kind: str = "dataset", **params: Any) -> list[tuple[str, str]]:
    """Name and match of the results of one kind."""
    body = await search(tenant, q, kind=kind, **params)
    return [(item["name"], item["match"]) for item in body["items"]]


async def names(tenant: Tenant, q: str, **params: Any) -> list[str]:
    return [name for name, _ in await found(tenant, q, **params)]


async def datasets(tenant: Tenant, *named: str, namespace: str = "postgres://shop-db") -> None:
    await tenant.send_ok(an_event(outputs=[a_dataset(name, namespace) for name in named]))


async def test_a_dataset_is_found_right_after_it_came_in(server: Server) -> None:
    await datasets(server.tenant, "shop.public.orders")

    [item] = (await search(server.tenant, "public.ord", kind="dataset"))["items"]

    assert UUID(item.pop("id"))
    assert item.pop("score") == pytest.approx(0.8, abs=0.05)
    assert item == {
        "kind": "dataset",
        "namespace": "postgres://shop-db",
        "name": "shop.public.orders",
        "urn": "postgres://shop-db/shop.public.orders",
        "display": "shop.public.orders",
        "dataset": None,
        "dropped": False,
        "match": "prefix",
    }


async def test_better_fits_come_first_and_shorter_names_before_longer(server: Server) -> None:
    await datasets(
        server.tenant,
        "shop.orders",
        "shop.orders_daily",
        "shop.orders_hourly_archive",
        "shop.open_orders",
        "orders.customers",
        "shop.reorders",
        "shop.border",
    )
    await datasets(server.tenant, "shop.items", namespace="postgres://orders-db")

    assert await found(server.tenant, "orders") == [
        ("shop.orders", "exact"),
        ("shop.orders_daily", "prefix"),
        ("shop.orders_hourly_archive", "prefix"),
        ("orders.customers", "prefix"),
        ("shop.open_orders", "prefix"),
        ("shop.items", "prefix"),
        ("shop.reorders", "infix"),
    ]


@pytest.mark.parametrize(
    ("q", "match"),
    [
        ("orders_daily", "exact"),
        ("ORDERS DAILY", "exact"),
        ("shop.public.orders_daily", "exact"),
        ("shop public orders daily", "exact"),
        ("postgres://shop-db/shop.public.orders_daily", "exact"),
        ("postgresql://SHOP-DB:5432/shop.public.orders_daily", "exact"),
        ("shop.public.ord", "prefix"),
        ("public.orders", "prefix"),
        ("dai", "prefix"),
        ("daily orders", "prefix"),
        ("shop-db", "prefix"),
        ("rder", "infix"),
        ("ly", "infix"),
        ("ders_dai", "infix"),
        ("ublic orders", "infix"),
        ("shop rder", "infix"),
        ("odrers", "fuzzy"),
        ("oders", "fuzzy"),
        ("oders daly", "fuzzy"),
        ("daly", "fuzzy"),
        ("publc.oders", "fuzzy"),
    ],
)
async def test_a_dataset_is_found_by_what_people_type(server: Server, q: str, match: str) -> None:
    await datasets(server.tenant, "shop.public.orders_daily", "shop.public.people_by_country_and_city")
    await datasets(server.tenant, "crm.accounts", namespace="postgres://crm-db")

    results = await found(server.tenant, q)

    assert results[0] == ("shop.public.orders_daily", match)
    assert "crm.accounts" not in dict(results)


@pytest.mark.parametrize(
    "q", ["zzz", "orders people accounts", "99999", "!!! ... ///", "\U0001f600", "%", "_", "'; --"]
)
async def test_what_nothing_fits_finds_nothing(server: Server, q: str) -> None:
    await datasets(server.tenant, "shop.orders")

    assert (await search(server.tenant, q))["items"] == []


@pytest.mark.parametrize(
    ("name", "q"),
    [
        ("заказы.ежедневные", "ЗАКАЗ"),
        ("заказы.ежедневные", "дневн"),
        ("订单明细", "明细"),
        ("订单明细", "单"),
        ("täble名", "名"),
        ("Übersicht/Größe", "GRÖSSE"),
        ("हिन्दी_तालिका", "तालिका"),
        ("sales report (2024)/orders", "report 2024"),
        ("OrderItems", "order items"),
        ("OrderItems", "orderitem"),
        ("OrderItems", "items"),
    ],
)
async def test_names_of_any_script_are_found(server: Server, name: str, q: str) -> None:
    await datasets(server.tenant, name)

    assert await names(server.tenant, q) == [name]


async def test_paths_are_found_by_the_name_they_are_shown_under_and_by_any_spelling(server: Server) -> None:
    await datasets(server.tenant, "silver/orders", namespace="s3://lake")

    for q in ("lake:orders", "s3a://lake/silver/orders/date=2026-01-31", "lake orders", "silver/ord"):
        assert await names(server.tenant, q) == ["silver/orders"], q


async def test_long_names_are_told_apart_beyond_what_the_index_holds(server: Server) -> None:
    long = "segment_" * 20
    await datasets(server.tenant, f"{long}left", f"{long}right")

    assert await names(server.tenant, f"{long}left") == [f"{long}left"]


async def test_a_column_is_found_with_its_datasets(server: Server) -> None:
    await server.tenant.send_ok(
        an_event(outputs=[a_dataset("people", facets=with_schema("id", "customer_email"))]),
        an_event(outputs=[a_dataset("orders", facets=with_schema("id", "customer_email"))]),
    )

    items = (await search(server.tenant, "email", kind="column"))["items"]

    assert [(item["name"], item["dataset"]["name"]) for item in items] == [
        ("customer_email", "orders"),
        ("customer_email", "people"),
    ]
    assert [item["id"] for item in items] == [item["dataset"]["id"] for item in items]
    assert items[0]["dataset"]["urn"] == "postgres://db/orders"


async def test_a_column_of_many_datasets_does_not_crowd_out_the_rest(server: Server) -> None:
    outputs = [a_dataset(f"t{number}", facets=with_schema("order_id")) for number in range(10)]
    await server.tenant.send_ok(an_event(outputs=[*outputs, a_dataset("order_id_map")]))

    mixed = await search(server.tenant, "order_id")
    columns = await search(server.tenant, "order_id", kind="column")

    assert [item["kind"] for item in mixed["items"]] == ["column", "column", "column", "dataset"]
    assert mixed["truncated"] is True
    assert len(columns["items"]) == 10
    assert columns["truncated"] is False


async def test_a_column_that_was_dropped_is_not_found(server: Server) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("t", facets=with_schema("id", "old_name"))], time=at(0)))
    assert await names(server.tenant, "old_name", kind="column") == ["old_name"]

    await server.tenant.send_ok(an_event(outputs=[a_dataset("t", facets=with_schema("id", "new_name"))], time=at(9)))

    assert await names(server.tenant, "name", kind="column") == ["new_name"]


async def test_jobs_are_found(server: Server) -> None:
    await server.tenant.send_ok(an_event(job="nightly.load_orders", namespace="airflow"))

    [item] = (await search(server.tenant, "load ord"))["items"]

    assert (item["kind"], item["namespace"], item["name"]) == ("job", "airflow", "nightly.load_orders")
    assert item["urn"] is None
    assert (await search(server.tenant, item["id"]))["items"][0]["name"] == "nightly.load_orders"


async def test_pipelines_are_what_jobs_are_part_of(server: Server) -> None:
    parent = a_facet(
        run={"runId": a_run_id()},
        job={"namespace": "airflow", "name": "nightly.load"},
        root={"run": {"runId": a_run_id()}, "job": {"namespace": "airflow", "name": "nightly"}},
    )
    await server.tenant.send_ok(an_event(job="spark_app.insert", run_facets={"parent": parent}))

    items = (await search(server.tenant, "nightly"))["items"]

    assert [(item["kind"], item["name"], item["match"], item["id"]) for item in items] == [
        ("pipeline", "nightly", "exact", None),
        ("pipeline", "nightly.load", "prefix", None),
    ]


async def test_a_job_that_is_a_pipeline_is_shown_as_one(server: Server) -> None:
    dag = {"jobType": a_facet(processingType="BATCH", integration="AIRFLOW", jobType="DAG")}
    await server.tenant.send_ok(an_event(job="nightly", job_facets=dag))

    everything = (await search(server.tenant, "nightly"))["items"]
    jobs = (await search(server.tenant, "nightly", kind="job"))["items"]

    assert [item["kind"] for item in everything] == ["pipeline"]
    assert [item["kind"] for item in jobs] == ["job"]
    assert everything[0]["id"] == jobs[0]["id"]


async def test_runs_are_found_by_id_by_its_beginning_and_by_application(server: Server) -> None:
    run = "0f00aa11-2233-4455-8677-8899aabbccdd"
    details = {"spark_applicationDetails": a_facet(applicationId="application_1700_0042")}
    await server.tenant.send_ok(an_event(run=run, job="load", run_facets=details), an_event(job="other"))

    for q, match in [
        (run, "exact"),
        ("0f00aa11", "prefix"),
        ("0F00AA11-22", "prefix"),
        (run.replace("-", ""), "exact"),
    ]:
        [item] = (await search(server.tenant, q, kind="run"))["items"]
        assert (item["id"], item["name"], item["match"]) == (run, "load", match)
    [item] = (await search(server.tenant, "application_1700_0042"))["items"]
    assert (item["kind"], item["id"], item["match"]) == ("run", run, "exact")


async def test_runs_are_found_by_the_beginning_of_their_application(server: Server) -> None:
    runs = {application: a_run_id() for application in ("app-2026-L3", "app-2026-L30", "app-2027-L3", "App-2026-L3")}
    for application, run in runs.items():
        details = {"spark_applicationDetails": a_facet(applicationId=application)}
        await server.tenant.send_ok(an_event(run=run, job="load", run_facets=details))

    async def found_by(q: str) -> set[tuple[str, str]]:
        return {(item["id"], item["match"]) for item in (await search(server.tenant, q))["items"]}

    assert await found_by("app-2026") == {(runs["app-2026-L3"], "prefix"), (runs["app-2026-L30"], "prefix")}
    assert await found_by("app-2026-L3") == {(runs["app-2026-L3"], "exact"), (runs["app-2026-L30"], "prefix")}
    assert await found_by("app-2028") == set()


DROP = {"lifecycleStateChange": a_facet(lifecycleStateChange="DROP")}


async def test_a_dropped_dataset_is_marked_and_comes_after_others_of_its_match(server: Server) -> None:
    await datasets(server.tenant, "orders_of_the_past_year")
    gone = [a_dataset(name, "postgres://shop-db", facets=DROP) for name in ("orders_a", "orders_b", "orders_c")]
    await server.tenant.send_ok(an_event(job="drop", outputs=gone, time=at(60)))
    await datasets(server.tenant, "reorders")

    items = (await search(server.tenant, "orders", kind="dataset"))["items"]
    [first] = (await search(server.tenant, "orders", kind="dataset", limit=1))["items"]

    assert [(item["name"], item["match"], item["dropped"]) for item in items] == [
        ("orders_of_the_past_year", "prefix", False),
        ("orders_a", "prefix", True),
        ("orders_b", "prefix", True),
        ("orders_c", "prefix", True),
        ("reorders", "infix", False),
    ]
    assert first["name"] == "orders_of_the_past_year"


async def test_a_dataset_that_was_written_again_is_not_dropped(server: Server) -> None:
    await server.tenant.send_ok(
        an_event("COMPLETE", job="drop", outputs=[a_dataset("orders", facets=DROP)], time=at(0)),
        an_event("COMPLETE", job="load", outputs=[a_dataset("orders")], time=at(60)),
    )

    [item] = (await search(server.tenant, "orders", kind="dataset"))["items"]

    assert item["dropped"] is False


async def test_the_id_of_a_dataset_finds_it_also_after_a_merge(server: Server, db: asyncpg.Connection) -> None:
    await datasets(server.tenant, "one")
    await datasets(server.tenant, "two")
    ids = [str(row["id"]) for row in await db.fetch("SELECT id FROM datasets ORDER BY created_at")]
    body = {"one": ids[0], "other": ids[1]}
    assert (await server.client.post("/api/v1/dataset-merges", json=body)).status_code == 201

    assert await names(server.tenant, ids[0]) == await names(server.tenant, ids[1]) == ["one"]


async def test_a_merged_name_finds_the_survivor_and_itself_again_when_that_is_undone(server: Server) -> None:
    await datasets(server.tenant, "shop.orders")
    await datasets(server.tenant, "legacy.purchases")
    ids = [(await search(server.tenant, q, kind="dataset"))["items"][0]["id"] for q in ("orders", "purchases")]

    merge = (await server.client.post("/api/v1/dataset-merges", json={"one": ids[0], "other": ids[1]})).json()
    assert await names(server.tenant, "purchases") == ["shop.orders"]

    await server.client.post(f"/api/v1/dataset-merges/{merge['id']}/undo")
    assert await names(server.tenant, "purchases") == ["legacy.purchases"]
    assert await names(server.tenant, "orders") == ["shop.orders"]


async def test_columns_follow_a_merge(server: Server) -> None:
    await server.tenant.send_ok(
        an_event(outputs=[a_dataset("one")], time=at(0)),
        an_event(outputs=[a_dataset("two", facets=with_schema("amount"))], time=at(1)),
    )
    items = (await search(server.tenant, "two", kind="dataset"))["items"]
    ones = (await search(server.tenant, "one", kind="dataset"))["items"]
    body = {"one": ones[0]["id"], "other": items[0]["id"]}

    merge = (await server.client.post("/api/v1/dataset-merges", json=body)).json()
    [column] = (await search(server.tenant, "amount"))["items"]
    assert column["dataset"]["name"] == "one"

    await server.client.post(f"/api/v1/dataset-merges/{merge['id']}/undo")
    [column] = (await search(server.tenant, "amount"))["items"]
    assert column["dataset"]["name"] == "two"


async def test_a_renamed_dataset_is_found_by_both_names(server: Server) -> None:
    await datasets(server.tenant, "shop.orders", namespace="postgres://replica")
    await search(server.tenant, "orders")
    rule = {"pattern": "postgres://replica/shop.{table}", "canonical": "postgres://main/sales.{table}"}
    assert (await server.client.post("/api/v1/aliases", json=rule)).status_code == 201

    assert await names(server.tenant, "replica") == await names(server.tenant, "sales.ord") == ["sales.orders"]


async def test_symlinks_lead_to_their_dataset(server: Server) -> None:
    link = {"namespace": "hive://meta", "name": "warehouse.purchases", "type": "TABLE"}
    path = a_dataset("silver/orders", "s3://lake", facets={"symlinks": a_facet(identifiers=[link])})
    await server.tenant.send_ok(an_event(outputs=[path]))

    assert await names(server.tenant, "warehouse.purch") == ["silver/orders"]


async def test_kinds_can_be_chosen(server: Server) -> None:
    await server.tenant.send_ok(an_event(job="orders", outputs=[a_dataset("orders", facets=with_schema("orders"))]))

    def kinds_of(body: Json) -> list[str]:
        return [item["kind"] for item in body["items"]]

    assert kinds_of(await search(server.tenant, "orders")) == ["dataset", "job", "column"]
    assert kinds_of(await search(server.tenant, "orders", kind=["job", "column"])) == ["job", "column"]
    assert kinds_of(await search(server.tenant, "orders", kind=["run"])) == []


async def test_the_limit_is_kept_and_said(server: Server) -> None:
    await datasets(server.tenant, *(f"orders_{number}" for number in range(30)))

    body = await search(server.tenant, "orders", limit=10)
    again = await search(server.tenant, "orders", limit=10)

    assert len(body["items"]) == 10
    assert body["truncated"] is True
    assert again == body
    assert (await search(server.tenant, "orders", kind="dataset", limit=30))["truncated"] is False


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"q": ""}, "query.q"),
        ({}, "query.q"),
        ({"q": "x" * 201}, "query.q"),
        ({"q": "x", "limit": 0}, "query.limit"),
        ({"q": "x", "limit": 1001}, "query.limit"),
        ({"q": "x", "kind": "person"}, "query.kind"),
        ({"q": "x", "kind": ["job", "person"]}, "query.kind"),
    ],
)
async def test_wrong_parameters_are_named(server: Server, params: dict[str, Any], field: str) -> None:
    response = await server.client.get(SEARCH, params=params)

    assert response.status_code == 422
    assert [error["path"].startswith(field) for error in response.json()["errors"]] == [True]


@pytest.mark.parametrize(
    "q",
    [
        "x" * 200,
        "a " * 100,
        "\U0001f600" * 200,
        "\ufdfa" * 200,
        "a\u0301" * 100,
        "-" * 36,
        "0" * 36,
        "f" * 31,
        "/" * 200,
        "s3://" + "a/" * 90,
        "{x}/%2F/\\",
        "\x01\x1f\x7f",
        "\u202e\u200b",
    ],
    ids=range(13),
)
async def test_hostile_text_finds_nothing_and_breaks_nothing(server: Server, q: str) -> None:
    await datasets(server.tenant, "shop.orders")

    assert (await search(server.tenant, q, limit=1000))["items"] == []


@pytest.mark.parametrize("raw", ["q=a%00b", "q=%ED%A0%80", "q=%FF%FE", "q=%"])
async def test_bytes_that_are_no_text_are_no_error_of_ours(server: Server, raw: str) -> None:
    response = await server.client.get(f"{SEARCH}?{raw}")

    assert response.status_code in (200, 400, 422)


async def test_organisations_find_only_their_own(server: Server) -> None:
    stranger = await server.add_tenant("Stranger")
    run = a_run_id()
    theirs = a_dataset("secret_orders", facets=with_schema("secret_column"))
    await stranger.send_ok(an_event(run=run, job="secret_job", outputs=[theirs]))
    await datasets(server.tenant, "shop.orders")
    [item] = (await search(stranger, "secret_orders"))["items"]

    for q in ("secret", "secret_orders", "ecret", "secrte", run, run[:8], item["id"], item["urn"]):
        assert [
            each["name"] for each in (await search(server.tenant, q))["items"] if each["name"] != "shop.orders"
        ] == []
    assert await names(stranger, "orders") == ["secret_orders"]


async def test_searching_needs_the_scope(server: Server) -> None:
    assert (await server.anonymous().get(SEARCH, params={"q": "x"})).status_code == 401


async def test_a_backlog_is_indexed_in_portions_and_said(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    await datasets(server.tenant, *(f"orders_{number}" for number in range(40)))
    monkeypatch.setattr(routes, "PATIENCE_S", 0.0)
    monkeypatch.setattr(routes, "BATCH", 10)

    params = {"q": "orders", "kind": "dataset", "limit": 50}
    answers = [(await server.client.get(SEARCH, params=params)).json() for _ in range(6)]

    assert [body["indexing"] for body in answers] == [True, True, True, True, False, False]
    sizes = [len(body["items"]) for body in answers]
    assert sizes == sorted(sizes)
    assert sizes[0] < 40 == sizes[-1]


async def test_the_worker_indexes_what_nobody_searched_for(
    server: Server, database: Database, db: asyncpg.Connection
) -> None:
    await datasets(server.tenant, "shop.orders")
    assert await db.fetchval("SELECT count(*) FROM search_pending") > 0

    worker = Worker(database)
    await worker.schedule()
    await worker.drain()

    assert await db.fetchval("SELECT count(*) FROM search_pending") == 0
    assert await db.fetchval("SELECT count(*) FROM search_entries WHERE kind = 'dataset'") == 1


async def test_indexers_at_the_same_time_do_not_collide(server: Server, db: asyncpg.Connection) -> None:
    named = [f"shop.orders_{number}" for number in range(60)]
    await datasets(server.tenant, *named)

    async def index() -> bool:
        async with server.database.connection() as conn:
            return await catch_up(conn, server.tenant.organization_id, seconds=5, batch=7)

    done = await asyncio.gather(*(index() for _ in range(4)))

    assert all(done)
    assert await names(server.tenant, "orders", limit=100) == sorted(named, key=lambda name: (len(name), name))
    assert await db.fetchval("SELECT count(*) FROM search_pending") == 0


async def test_events_and_searches_at_the_same_time_lose_nothing(server: Server) -> None:
    async def send(number: int) -> None:
        await datasets(server.tenant, f"orders_{number}")

    async def look() -> None:
        response = await server.client.get(SEARCH, params={"q": "orders"})
        assert response.status_code == 200

    await asyncio.gather(*(each for number in range(15) for each in (send(number), look())))

    assert len(await names(server.tenant, "orders", limit=50)) == 15


async def test_many_searches_of_a_backlog_do_not_use_up_the_connections(server: Server) -> None:
    await datasets(server.tenant, *(f"orders_{number}" for number in range(300)))

    # On a machine with other work, an answer may come before all is indexed, and says so.
    params = {"q": "orders", "kind": "dataset", "limit": 300}
    answers = await asyncio.gather(*(server.client.get(SEARCH, params=params) for _ in range(40)))
    bodies = [answer.json() for answer in answers]

    assert {answer.status_code for answer in answers} == {200}
    assert {len(body["items"]) for body in bodies if not body["indexing"]} <= {300}
    assert len((await search(server.tenant, "orders", kind="dataset", limit=300))["items"]) == 300


async def test_indexing_again_changes_nothing(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("OrderItems", facets=with_schema("id", "unitPrice"))]))
    await search(server.tenant, "order")
    before = await dumped(db)

    await db.execute(
        """INSERT INTO search_pending (organization_id, kind, id)
           SELECT organization_id, 'dataset', id FROM datasets
           UNION ALL SELECT organization_id, 'job', id FROM jobs
           UNION ALL SELECT organization_id, 'job', gen_random_uuid() FROM jobs"""
    )
    await search(server.tenant, "order")

    assert await dumped(db) == before


async def dumped(db: asyncpg.Connection) -> dict[str, list[str]]:
    tables = ("search_entries", "search_tails", "search_suffixes", "search_columns")
    return {table: [row[0] for row in await db.fetch(f"SELECT t::text FROM {table} t ORDER BY 1")] for table in tables}


async def test_what_was_deleted_leaves_nothing_but_words(server: Server, db: asyncpg.Connection) -> None:
    await server.tenant.send_ok(an_event(outputs=[a_dataset("orders", facets=with_schema("amount"))]))
    await search(server.tenant, "orders")
    async with server.database.tenant(server.tenant.organization_id) as conn:
        await conn.execute("DELETE FROM datasets")
        await conn.execute("DELETE FROM jobs")

    assert (await search(server.tenant, "orders"))["items"] == []
    assert (await search(server.tenant, "amount"))["items"] == []
    left = await dumped(db)
    assert (left["search_entries"], left["search_tails"], left["search_columns"]) == ([], [], [])


async def test_the_index_is_asked_without_planning_each_question_anew(server: Server) -> None:
    await datasets(server.tenant, "shop.orders", "shop.customers")
    await search(server.tenant, "orders")

    async with server.database.tenant(server.tenant.organization_id) as conn:
        store = SearchStore(conn, server.tenant.organization_id)
        assert not await store.is_behind()
        for text in ("orders", "shop ord", "rder", "custmers"):
            await store.search(text, list(Kind), 20)
        asked = (Q.find_tails, Q.find_all_words, Q.find_inner_words, Q.find_similar_words)
        counted = await conn.fetch(
            "SELECT custom_plans, generic_plans > 0 FROM pg_prepared_statements WHERE statement = ANY ($1)", asked
        )

    assert [tuple(row) for row in counted] == [(0, True)] * len(asked)


async def test_unknown_id_finds_nothing(server: Server) -> None:
    assert (await search(server.tenant, str(uuid4())))["items"] == []
