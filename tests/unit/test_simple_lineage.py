"""Lineage in the simple metadata form: which datasets a payload means and what feeds what."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.simple_forms import (
    CUSTOMERS,
    CUSTOMERS_ID,
    ORDERS,
    ORDERS_ID,
    anomaly,
    bare,
    columns,
    edges_of,
    events_of,
    ids,
    metadata,
    run_event,
)


def test_names_without_a_place_fall_into_the_default_namespace() -> None:
    assert ids(run_event(inputs=[{"name": "plain"}])["inputs"]) == [("house", "plain")]


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/gold/orders/country=DE/dt=2026-05-01",
        "s3://lake/gold/orders/country=DE/dt=2026-04-30",
        "s3n://lake/gold/orders",
    ],
    ids=["same place", "other partition", "other spelling"],
)
def test_a_job_that_reads_back_what_it_writes_does_not_feed_itself(location: str) -> None:
    translated = metadata(inputs=[{"name": "back", "location": location}, CUSTOMERS], outputs=[ORDERS])

    (event,) = events_of(translated)
    assert ids(event["inputs"]) == [CUSTOMERS_ID]
    assert translated.edges == 1
    assert len(translated.notes) == 1
    assert "the job writes it itself" in translated.notes[0]


def test_figures_of_an_input_that_is_left_out_do_not_make_it_an_output() -> None:
    back = {"name": "back", "location": "s3://lake/gold/orders/country=DE/dt=2026-04-30"}
    scratch = {"name": "scratch", "location": "s3://lake/x/_temporary/0"}
    translated = metadata(
        inputs=[back, scratch],
        outputs=[ORDERS],
        metrics={"back": {"row_count": 1}, "scratch": {"row_count": 2}},
    )

    (event,) = events_of(translated)
    assert event["inputs"] == []
    assert ids(event["outputs"]) == [ORDERS_ID]
    assert "outputFacets" not in event["outputs"][0]
    assert sum(note.startswith("metrics of") for note in translated.notes) == 2


@pytest.mark.parametrize(
    "folder", ["_temporary/0", "_checkpoint/3", ".spark-staging-41/x", "_spark_metadata/9"], ids=str
)
def test_staging_folders_are_no_inputs(folder: str) -> None:
    place = f"s3://lake/gold/orders/{folder}"
    translated = metadata(
        inputs=[{"name": "scratch", "location": place}, CUSTOMERS],
        outputs=[ORDERS],
        lineage_edges=[
            {"source": "scratch", "target": "lake:orders"},
            {"source": "crm.customers", "target": "lake:orders"},
        ],
        column_lineage=[
            {
                "source_table": place,
                "source_column": "a",
                "target_table": "lake:orders",
                "target_column": "a",
            }
        ],
    )

    (event,) = events_of(translated)
    assert ids(event["inputs"]) == [CUSTOMERS_ID]
    assert edges_of(event) == {(CUSTOMERS_ID[1], ORDERS_ID[1])}
    assert "columnLineage" not in event["outputs"][0]["facets"]
    assert len(translated.notes) == 1
    assert "staging" in translated.notes[0]


def test_explicit_edges_are_the_only_edges() -> None:
    translated = metadata(
        inputs=[{"name": "a"}, {"name": "b"}],
        outputs=[{"name": "x"}, {"name": "y"}, {"name": "z"}],
        lineage_edges=[
            {"source": "a", "target": "x"},
            {"source": "b", "target": "y"},
            {"source": "b", "target": "y"},
        ],
    )

    (event,) = events_of(translated)
    entries = event["job"]["facets"]["lineage"]["entries"]
    assert edges_of(event) == {("a", "x"), ("b", "y")}
    assert {entry["name"]: len(entry["inputs"]) for entry in entries} == {"x": 1, "y": 1, "z": 0}
    assert {entry["type"] for entry in entries} == {"DATASET"}
    assert translated.edges == 2


@pytest.mark.parametrize("edges", [None, []], ids=["absent", "empty"])
def test_without_edges_every_input_feeds_every_output(edges: list[Any] | None) -> None:
    translated = metadata(inputs=[{"name": "a"}, {"name": "b"}], outputs=[{"name": "x"}], lineage_edges=edges)

    (event,) = events_of(translated)
    assert "lineage" not in event["job"]["facets"]
    assert translated.edges == 2


def test_ends_of_edges_that_nobody_declared_become_datasets() -> None:
    event = run_event(
        outputs=[{"name": "x"}],
        lineage_edges=[
            {"source": "a", "target": "x"},
            {"source": "x", "target": "y"},
            {"source": "y", "target": "z"},
        ],
    )

    assert ids(event["inputs"]) == [("house", "a")]
    assert ids(event["outputs"]) == [("house", "x"), ("house", "y"), ("house", "z")]
    assert edges_of(event) == {("a", "x"), ("x", "y"), ("y", "z")}


def test_a_dataset_declared_as_input_stays_one_although_an_edge_leads_to_it() -> None:
    event = run_event(
        inputs=[{"name": "a"}, {"name": "b"}],
        outputs=[{"name": "c"}],
        lineage_edges=[{"source": "a", "target": "b"}, {"source": "b", "target": "c"}],
    )

    assert ids(event["inputs"]) == [("house", "a"), ("house", "b")]
    assert ids(event["outputs"]) == [("house", "c")]
    assert edges_of(event) == {("a", "b"), ("b", "c")}


def test_a_run_whose_edges_all_belong_to_another_job_has_none() -> None:
    translated = metadata(
        inputs=[{"name": "a"}],
        outputs=[{"name": "x"}],
        lineage_edges=[{"source": "a", "target": "x", "job_name": "hourly"}],
        column_lineage=columns("DIRECT", source_table="a", target_table="x"),
        metrics={"x": {"row_count": 3}},
    )

    run, hourly = events_of(translated)
    assert (edges_of(run), edges_of(hourly), translated.edges) == (set(), {("a", "x")}, 1)
    assert "columnLineage" in run["outputs"][0]["facets"]
    assert "columnLineage" not in hourly["outputs"][0]["facets"]
    assert "outputFacets" not in hourly["outputs"][0]


def test_another_job_without_a_usable_edge_gets_no_event() -> None:
    edge = {"source": "s3://lake/x/_temporary/0", "target": "x", "job_name": "hourly"}
    translated = metadata(lineage_edges=[edge])

    assert ["run" in event for event in events_of(translated)] == [True]
    assert len(translated.notes) == 1


def test_an_edge_to_itself_is_left_out_and_noted() -> None:
    translated = metadata(lineage_edges=[{"source": "a", "target": "a"}])

    (event,) = events_of(translated)
    assert edges_of(event) == set()
    assert translated.notes == ["edge from 'a' to itself left out"]


def test_edges_of_another_job_become_that_jobs_event() -> None:
    translated = metadata(
        job_name="nightly",
        timestamp="2026-05-01T02:00:00Z",
        inputs=[{"name": "a", "location": "s3://lake/a"}],
        outputs=[{"name": "x"}],
        lineage_edges=[
            {"source": "a", "target": "x", "job_id": "app-7"},
            {"source": "a", "target": "x", "job_name": "nightly"},
            {"source": "a", "target": "p", "job_id": "app-8", "job_name": "hourly"},
            {"source": "p", "target": "q", "job_name": "hourly"},
            {"source": "a", "target": "r", "job_id": "app-9"},
        ],
    )

    run, hourly, bare_id = events_of(translated)
    assert edges_of(run) == {("a", "x")}
    assert ids(run["outputs"]) == [("house", "x")]
    assert (hourly["job"]["name"], bare_id["job"]["name"]) == ("hourly", "app-9")
    assert edges_of(hourly) == {("a", "p"), ("p", "q")}
    assert ids(hourly["inputs"]) == [("s3://lake", "a")]
    assert hourly["inputs"][0]["facets"]["headgate_location"]["location"] == "s3://lake/a"
    assert ids(hourly["outputs"]) == [("house", "p"), ("house", "q")]
    assert hourly["eventTime"] == "2026-05-01T02:00:00Z"
    assert (translated.datasets, translated.edges) == (5, 4)


@pytest.mark.parametrize(
    ("sent", "kind", "subtype"),
    [
        (None, "DIRECT", "IDENTITY"),
        ("DIRECT", "DIRECT", "IDENTITY"),
        ("expression", "DIRECT", "TRANSFORMATION"),
        ("AGGREGATE", "DIRECT", "AGGREGATION"),
        ("JOIN", "INDIRECT", "JOIN"),
        ("FILTER", "INDIRECT", "FILTER"),
        ("Case", "INDIRECT", "CONDITIONAL"),
        ("udf", "DIRECT", "UDF"),
    ],
    ids=str,
)
def test_transformation_types_become_those_of_openlineage(sent: str | None, kind: str, subtype: str) -> None:
    event = run_event(column_lineage=columns(sent, expression="upper(a)"))

    assert bare(event["outputs"][0]["facets"]["columnLineage"]) == {
        "fields": {
            "b": {
                "inputFields": [
                    {
                        "namespace": "house",
                        "name": "s",
                        "field": "a",
                        "transformations": [{"type": kind, "subtype": subtype, "description": "upper(a)"}],
                    }
                ]
            }
        }
    }


def test_several_edges_between_two_columns_keep_all_their_kinds() -> None:
    pairs = columns("JOIN", "AGGREGATE", "JOIN") + columns("DIRECT", source_column="c")
    event = run_event(column_lineage=pairs)

    first, second = event["outputs"][0]["facets"]["columnLineage"]["fields"]["b"]["inputFields"]
    assert [step["subtype"] for step in first["transformations"]] == ["JOIN", "AGGREGATION"]
    assert (second["field"], [step["subtype"] for step in second["transformations"]]) == ("c", ["IDENTITY"])


def test_column_lineage_alone_gives_its_tables_and_the_edges_between_them() -> None:
    pairs = columns("DIRECT") + columns("DIRECT", source_table="u", target_table="v")
    translated = metadata(job_id="query-9", job_name="save", column_lineage=pairs)

    (event,) = events_of(translated)
    assert ids(event["inputs"]) == [("house", "s"), ("house", "u")]
    assert ids(event["outputs"]) == [("house", "t"), ("house", "v")]
    assert edges_of(event) == {("s", "t"), ("u", "v")}
    assert translated.edges == 2


def test_a_column_computed_from_its_own_table_is_kept_without_making_the_table_an_input() -> None:
    translated = metadata(outputs=[{"name": "t"}], column_lineage=columns("EXPRESSION", source_table="t"))

    (event,) = events_of(translated)
    assert (event["inputs"], translated.notes) == ([], [])
    assert event["outputs"][0]["facets"]["columnLineage"]["fields"]["b"]["inputFields"][0]["name"] == "t"


def test_column_lineage_does_not_take_type_and_place_from_a_declared_dataset() -> None:
    source = {"name": "lake:raw", "type": "File", "location": "gs://lake/raw/2026-05-01"}
    event = run_event(
        inputs=[source],
        outputs=[ORDERS],
        lineage_edges=[{"source": "lake:raw", "target": "lake:orders"}],
        column_lineage=columns("DIRECT", source_table="lake:raw", target_table="lake:orders"),
        metrics={"lake:raw": {"row_count": 5}, "lake:orders": {"row_count": 4}},
        anomalies=[anomaly(dataset_name="lake:orders")],
    )

    (read,), (written,) = event["inputs"], event["outputs"]
    assert ids([read, written]) == [("gs://lake", "raw/2026-05-01"), ORDERS_ID]
    assert read["facets"]["datasetType"]["datasetType"] == "gcs"
    assert written["facets"]["headgate_location"]["location"] == ORDERS["location"]
    assert ids(written["facets"]["columnLineage"]["fields"]["b"]["inputFields"]) == ids([read])
    assert edges_of(event) == {("raw/2026-05-01", ORDERS_ID[1])}
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 5
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 4
    assert ids([event["run"]["facets"]["headgate_anomalies"]["anomalies"][0]["dataset"]]) == [ORDERS_ID]


def test_one_name_at_two_places_means_the_input_as_source_and_the_output_as_target() -> None:
    event = run_event(
        inputs=[{"name": "lake:orders", "location": "s3://lake/bronze/orders"}],
        outputs=[{"name": "lake:orders", "location": "s3://lake/gold/orders"}],
        lineage_edges=[{"source": "lake:orders", "target": "lake:orders"}],
        column_lineage=columns("DIRECT", source_table="lake:orders", target_table="lake:orders"),
        metrics={"lake:orders": {"row_count": 1}},
    )

    assert ids(event["inputs"]) == [("s3://lake", "bronze/orders")]
    assert edges_of(event) == {("bronze/orders", "gold/orders")}
    fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]["b"]["inputFields"]
    assert fields[0]["name"] == "bronze/orders"
    assert "outputFacets" in event["outputs"][0]
    assert "inputFacets" not in event["inputs"][0]


def test_a_declaration_without_a_place_takes_it_from_its_namesake() -> None:
    event = run_event(inputs=[{"name": "lake:orders"}, {"name": "lake:orders", "location": "s3://lake/orders"}])

    assert ids(event["inputs"]) == [("s3://lake", "orders")]
