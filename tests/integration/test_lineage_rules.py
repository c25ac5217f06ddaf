"""Cases in which lineage, schemas and metrics are easily got wrong."""

from __future__ import annotations

import asyncpg
import pytest

from tests.support.events import a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.server import Server

NS = "postgres://db:5432"


def columns_from(source: str, field: str = "id") -> dict[str, object]:
    fields = {"id": {"inputFields": [{"namespace": NS, "name": source, "field": field}]}}
    return {"columnLineage": a_facet(fields=fields)}


async def edges(db: asyncpg.Connection) -> set[tuple[str, str, str]]:
    rows = await db.fetch(
        """
        SELECT s.name, t.name, j.name
          FROM lineage_edges e
          JOIN datasets s ON s.id = e.source_id
          JOIN datasets t ON t.id = e.target_id
          JOIN jobs j ON j.id = e.job_id
        """
    )
    return {tuple(row) for row in rows}


async def schema_names(db: asyncpg.Connection) -> list[tuple[str, bool]]:
    rows = await db.fetch("SELECT fields, valid_to FROM schema_versions ORDER BY valid_from, version")
    return [(row["fields"], row["valid_to"] is None) for row in rows]


async def test_a_column_too_long_to_be_looked_up_costs_only_itself(server: Server, db: asyncpg.Connection) -> None:
    good, bad = columns_from("unlisted"), columns_from("unlisted", "x" * 6000)
    event = an_event(outputs=[a_dataset("one", facets=bad), a_dataset("two", facets=good)])
    await server.tenant.send_ok(event, an_event(job="reader", inputs=[a_dataset("unlisted")]))
    assert await db.fetchval("SELECT count(*) FROM column_lineage_edges") == 1


async def test_a_name_too_long_in_a_facet_does_not_refuse_the_event(server: Server, db: asyncpg.Connection) -> None:
    entry = {"namespace": NS, "name": "n" * 5000, "type": "DATASET", "inputs": [{"namespace": NS, "name": "a"}]}
    links = {"symlinks": a_facet(identifiers=[{"namespace": NS, "name": "n" * 5000, "type": "TABLE"}])}
    await server.tenant.send_ok(
        an_event(job_facets={"lineage": a_facet(entries=[entry])}, outputs=[a_dataset("x", facets=links)])
    )
    assert await edges(db) == set()


async def test_a_run_under_two_jobs_invents_no_lineage(server: Server, db: asyncpg.Connection) -> None:
    run = a_run_id()
    await server.tenant.send_ok(
        an_event("RUNNING", run=run, job="a", time=at(1), inputs=[a_dataset("x")], outputs=[a_dataset("y")]),
        an_event("RUNNING", run=run, job="b", time=at(2), inputs=[a_dataset("p")], outputs=[a_dataset("q")]),
    )
    assert await edges(db) == {("x", "y", "a"), ("p", "q", "b")}


async def test_an_outputs_own_lineage_facet_speaks_for_that_output_alone(
    server: Server, db: asyncpg.Connection
) -> None:
    told = {"lineage": a_facet(inputs=[{"namespace": NS, "name": "b"}])}
    await server.tenant.send_ok(
        an_event(
            inputs=[a_dataset("a", facets={"lineage": a_facet(inputs=[{"namespace": NS, "name": "z"}])})],
            outputs=[a_dataset("x", facets=told), a_dataset("y")],
        )
    )
    assert await edges(db) == {("b", "x", "orders"), ("a", "y", "orders")}


async def test_two_countries_written_by_one_run_keep_their_own_counts(server: Server, db: asyncpg.Connection) -> None:
    def part(country: str, rows: int) -> dict[str, object]:
        statistics = {"outputStatistics": a_facet(rowCount=rows)}
        name = f"sales/dt=2026-01-01/country={country}"
        return a_dataset(name, "s3://lake", outputFacets=statistics)

    run = a_run_id()
    await server.tenant.send_ok(an_event(run=run, outputs=[part("US", 100), part("IN", 7)]))
    assert {row["row_count"] for row in await db.fetch("SELECT row_count FROM dataset_metrics")} == {100, 7}
    assert [output["row_count"] for output in (await server.tenant.run(run))["outputs"]] == [107]


async def test_a_late_schema_between_two_sightings_does_not_become_current(
    server: Server, db: asyncpg.Connection
) -> None:
    for seconds, columns in ((0, ("a",)), (200, ("a",)), (300, ("a",)), (100, ("a", "b"))):
        await server.tenant.send_ok(an_event(time=at(seconds), outputs=[a_dataset("t", facets=with_schema(*columns))]))
    versions = await schema_names(db)
    assert ['"b"' in fields for fields, _ in versions] == [False, True, False]
    assert [is_open for _, is_open in versions] == [False, False, True]


async def test_readers_that_see_different_columns_change_no_schema_back_and_forth(
    server: Server, db: asyncpg.Connection
) -> None:
    for seconds, column in enumerate(["x", "y", "x", "y"]):
        facets = with_schema("id", column)
        await server.tenant.send_ok(
            an_event(time=at(seconds), job=f"reader {column}", inputs=[a_dataset("t", facets=facets)])
        )
    changes = await db.fetch("SELECT change_type, breaking FROM schema_versions ORDER BY valid_from")
    assert [tuple(row) for row in changes] == [("INITIAL", False), ("ADDED_COLUMN", False)]


async def test_great_expectations_results_are_read_in_its_own_spelling(server: Server, db: asyncpg.Connection) -> None:
    assertions = [{"expectationType": "expect_column_values_to_not_be_null", "success": False, "column": "id"}]
    facets = {"greatExpectations_assertions": a_facet(assertions=assertions)}
    await server.tenant.send_ok(an_event(inputs=[a_dataset("t", facets=facets)]))
    row = await db.fetchrow("SELECT name, column_name, status FROM test_results")
    assert tuple(row) == ("expect_column_values_to_not_be_null", "id", "failed")


async def test_facets_that_trade_their_bodies_are_noticed(server: Server, db: asyncpg.Connection) -> None:
    one, two = a_facet(value=1), a_facet(value=2)
    await server.tenant.send_ok(
        an_event(time=at(0), outputs=[a_dataset("t", facets={"x_one": one, "y_two": two})]),
        an_event(time=at(1), outputs=[a_dataset("t", facets={"y_two": one, "x_one": two})]),
    )
    rows = await db.fetch("SELECT name, body ->> 'value' AS value FROM dataset_facets")
    assert {row["name"]: row["value"] for row in rows} == {"x_one": "2", "y_two": "1"}


async def test_what_a_job_said_of_its_type_outlasts_an_event_without_it(server: Server, db: asyncpg.Connection) -> None:
    run = a_run_id()
    events = [
        an_event("START", run=run, job_facets={"jobType": a_facet(processingType="STREAMING", integration="SPARK")}),
        an_event("RUNNING", run=run, time=at(1), job_facets={"documentation": a_facet(description="d")}),
    ]
    response = await server.client.post("/api/v1/lineage/batch", json=events)
    assert response.status_code == 200, response.text
    assert await db.fetchval("SELECT processing_type FROM jobs") == "STREAMING"


async def test_a_simple_form_without_times_is_stored_once(server: Server, db: asyncpg.Connection) -> None:
    body = b'{"job_id": "query-7", "outputs": [{"name": "t"}]}'
    first = await server.tenant.send(body, "/api/v1/ingest/metadata")
    again = await server.tenant.send(body, "/api/v1/ingest/metadata")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json()["message"].startswith("known already")
    assert await db.fetchval("SELECT count(*) FROM job_runs") == 1


async def test_a_simple_form_says_what_was_refused(server: Server) -> None:
    form = {"job_id": "j", "application_id": "app_1", "status": "Success", "ended_at": at(0)}
    await server.client.post("/api/v1/ingest/metadata", json=form)
    later = await server.client.post("/api/v1/ingest/metadata", json=form | {"status": "Failed", "ended_at": at(60)})
    assert later.status_code == 202
    assert "refused" in later.json()["message"]


@pytest.mark.parametrize("path", ["/api/v1/line%61ge", "/api/v1%2Flineage", "/api%2Fopenlineage"])
async def test_an_oddly_spelled_ingest_path_is_not_found(server: Server, path: str) -> None:
    assert (await server.client.post(path, json=an_event())).status_code == 404


async def test_what_cannot_be_read_is_counted_and_kept_too(server: Server, db: asyncpg.Connection) -> None:
    response = await server.client.post("/api/v1/lineage", content=b"x", headers={"content-encoding": "br"})
    assert response.status_code == 415
    assert await db.fetchval("SELECT code FROM refused_events") == "body.wrong_encoding"
    assert 'reason="body.wrong_encoding"' in (await server.client.get("/metrics")).text


async def test_a_clock_that_runs_backwards_gives_no_negative_duration(server: Server) -> None:
    run = a_run_id()
    statistics = {"outputStatistics": a_facet(rowCount=5)}
    await server.tenant.send_ok(
        an_event("START", run=run, time=at(300)),
        an_event("COMPLETE", run=run, time=at(0), outputs=[a_dataset("t", outputFacets=statistics)]),
    )
    found = await server.tenant.run(run)
    assert (found["duration_ms"], found["outputs"][0]["row_count"], found["is_late"]) == (0, 5, True)
