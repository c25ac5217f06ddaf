"""From facets to facts: what a checked event says of runs, jobs, datasets and lineage."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.domain.lineage import label_of
from headgate.domain.names import DatasetName
from headgate.openlineage.facts import ColumnEdge, Facts
from headgate.openlineage.project import Projector
from tests.support.events import PRODUCER, SCHEMA_URL, Json, a_dataset, a_facet, a_run_id, an_event, at, with_schema
from tests.support.facts import facts_of

NS = "postgres://db:5432"
DB = "postgres://db"


def columns_of(facet: Json) -> list[ColumnEdge]:
    facts = facts_of(an_event(outputs=[a_dataset("out", facets={"columnLineage": a_facet(**facet)})]))
    assert facts.invalid_facets == []
    columns = facts.uses[0].columns
    assert columns is not None
    return list(columns.edges)


def source(field: str, *transformations: Json, name: str = "src") -> Json:
    found: Json = {"namespace": NS, "name": name, "field": field}
    return found | ({"transformations": list(transformations)} if transformations else {})


def kinds(edge: ColumnEdge) -> list[tuple[str, str | None, bool]]:
    return [(dict(kind)["type"], dict(kind)["subtype"], dict(kind)["masking"]) for kind in edge.kinds]


DIRECT = ["IDENTITY", "TRANSFORMATION", "AGGREGATION"]
INDIRECT = ["JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL"]


@pytest.mark.parametrize(
    ("type_", "subtype"), [*(("DIRECT", s) for s in DIRECT), *(("INDIRECT", s) for s in INDIRECT)], ids=str
)
def test_every_kind_of_transformation_is_kept(type_: str, subtype: str) -> None:
    step = {"type": type_, "subtype": subtype, "description": "how", "masking": subtype == "AGGREGATION"}
    (edge,) = columns_of({"fields": {"total": {"inputFields": [source("amount", step)]}}})
    assert (edge.source[:2], edge.source_column, edge.target_column) == ((DB, "src"), "amount", "total")
    assert kinds(edge) == [(type_, subtype, subtype == "AGGREGATION")]
    assert edge.expression == "how"


def test_a_transformation_without_subtype_keeps_its_type() -> None:
    (edge,) = columns_of({"fields": {"b": {"inputFields": [source("a", {"type": "INDIRECT"})]}}})
    assert kinds(edge) == [("INDIRECT", None, False)]


def test_the_expression_of_an_edge_is_that_of_the_step_it_is_labelled_after() -> None:
    steps = [
        {"type": "INDIRECT", "subtype": "FILTER", "description": "id = 7"},
        {"type": "INDIRECT", "subtype": "JOIN", "description": "id < 10"},
    ]
    (edge,) = columns_of({"fields": {}, "dataset": [source("id", *steps)]})
    assert label_of([dict(kind) for kind in edge.kinds], edge.expression) == "JOIN"
    assert edge.expression == "id < 10"


def test_a_column_named_twice_is_one_edge_with_all_kinds() -> None:
    steps = [{"type": "DIRECT", "subtype": "IDENTITY"}, {"type": "INDIRECT", "subtype": "JOIN", "description": "x = y"}]
    fields = [source("a", steps[0]), source("a", steps[1]), source("a", steps[0])]
    (edge,) = columns_of({"fields": {"b": {"inputFields": fields}}})
    assert kinds(edge) == [("DIRECT", "IDENTITY", False), ("INDIRECT", "JOIN", False)]
    assert edge.expression == "x = y"


@pytest.mark.parametrize(
    ("legacy", "kind"),
    [
        ({"transformationType": "IDENTITY"}, ("DIRECT", "IDENTITY", False)),
        ({"transformationType": "MASKED"}, ("DIRECT", "TRANSFORMATION", True)),
        ({"transformationType": ""}, ("DIRECT", None, False)),
        ({}, ("DIRECT", None, False)),
    ],
    ids=["identity", "masked", "empty", "absent"],
)
def test_the_legacy_form_says_it_once_for_all_sources_of_a_column(legacy: Json, kind: tuple[Any, ...]) -> None:
    field = {"inputFields": [source("a"), source("b")], "transformationDescription": "a || b", **legacy}
    edges = columns_of({"fields": {"full": field}})
    assert [(edge.source_column, edge.expression) for edge in edges] == [("a", "a || b"), ("b", "a || b")]
    assert [kinds(edge) for edge in edges] == [[kind], [kind]]


def test_the_current_form_wins_over_the_legacy_one() -> None:
    field = {
        "inputFields": [source("a", {"type": "INDIRECT", "subtype": "SORT"})],
        "transformationType": "IDENTITY",
        "transformationDescription": "as it is",
    }
    (edge,) = columns_of({"fields": {"b": field}})
    assert (kinds(edge), edge.expression) == ([("INDIRECT", "SORT", False)], "as it is")


def test_columns_that_shape_the_whole_dataset_have_no_target_column() -> None:
    edges = columns_of({"fields": {}, "dataset": [source("country", {"type": "INDIRECT", "subtype": "FILTER"})]})
    assert [(edge.source_column, edge.target_column) for edge in edges] == [("country", "")]


def test_sources_of_columns_have_canonical_names() -> None:
    field = {"namespace": "s3a://lake", "name": "orders/dt=2026-03-01", "field": "id"}
    (edge,) = columns_of({"fields": {"id": {"inputFields": [field]}}})
    assert edge.source[:2] == ("s3://lake", "orders")


def test_equal_column_lineage_has_an_equal_hash() -> None:
    def hash_of(field: str) -> int:
        facet = a_facet(fields={"b": {"inputFields": [source(field)]}})
        columns = facts_of(an_event(outputs=[a_dataset("out", facets={"columnLineage": facet})])).uses[0].columns
        assert columns is not None
        return columns.hash

    assert hash_of("a") == hash_of("a") != hash_of("c")


def use_of(facets: Json, name: str = "t", namespace: str = NS, **event: Any) -> Any:
    (use,) = facts_of(an_event(outputs=[a_dataset(name, namespace, facets=facets)], **event)).uses
    return use


def test_table_symlinks_are_other_names_of_a_dataset() -> None:
    identifiers = [
        {"namespace": "hive://Meta:10000", "name": "shop.orders", "type": "TABLE"},
        {"namespace": "s3://lake", "name": "orders", "type": "LOCATION"},
        {"namespace": "s3a://lake", "name": "orders/", "type": "table"},
    ]
    use = use_of({"symlinks": a_facet(identifiers=identifiers)}, "orders", "s3://lake")
    assert [link[:2] for link in use.symlinks] == [("hive://meta", "shop.orders")]


def test_a_schema_is_flattened_in_order() -> None:
    fields = [
        {"name": "id", "type": "bigint", "nullable": False, "description": "key"},
        {"name": "at", "fields": [{"name": "city", "type": "string", "fields": []}, {"name": "zip"}]},
    ]
    use = use_of({"schema": a_facet(fields=fields)})
    assert [(f.name, f.type, f.nullable, f.description) for f in use.schema.fields] == [
        ("id", "bigint", False, "key"),
        ("at", "", True, None),
        ("at.city", "string", True, None),
        ("at.zip", "", True, None),
    ]


@pytest.mark.parametrize("body", [{}, {"fields": []}, {"fields": None}], ids=["absent", "empty", "null"])
def test_a_schema_without_fields_says_nothing(body: Json) -> None:
    assert use_of({"schema": a_facet(**body)}).schema is None


def test_a_deleted_facet_is_noted_and_says_nothing() -> None:
    use = use_of({"schema": with_schema("a")["schema"] | {"_deleted": True}})
    assert use.schema is None
    assert use.facets == {"schema": None}


def test_the_lifecycle_and_the_previous_name_are_read() -> None:
    facet = a_facet(lifecycleStateChange="RENAME", previousIdentifier={"namespace": "s3a://lake", "name": "old"})
    use = use_of({"lifecycleStateChange": facet})
    assert (use.lifecycle, use.previous[:2]) == ("RENAME", ("s3://lake", "old"))


def edges_of(facts: Facts) -> set[tuple[str, str]] | None:
    return None if facts.edges is None else {(one.name, other.name) for one, other in facts.edges}


def test_the_jobs_lineage_facet_spells_out_its_edges() -> None:
    entries = [
        {"namespace": NS, "name": "x", "type": "DATASET", "inputs": [{"namespace": NS, "name": "a"}]},
        {"namespace": NS, "name": "y", "type": "DATASET", "inputs": [{"namespace": NS, "name": "b"},
                                                                    {"namespace": "j", "name": "job", "type": "JOB"}]},
        {"namespace": "j", "name": "job", "type": "JOB", "inputs": [{"namespace": NS, "name": "a"}]},
        {"namespace": NS, "name": "z", "type": "DATASET"},
    ]  # fmt: skip
    event = an_event(job_facets={"lineage": a_facet(entries=entries)}, inputs=[a_dataset("a")])
    assert edges_of(facts_of(event)) == {("a", "x"), ("b", "y")}


def test_a_datasets_lineage_facet_spells_out_what_feeds_it() -> None:
    facet = a_facet(inputs=[{"namespace": NS, "name": "a", "type": "DATASET", "field": "id"}])
    event = an_event(inputs=[a_dataset("a"), a_dataset("b")], outputs=[a_dataset("x", facets={"lineage": facet})])
    facts = facts_of(event)
    assert facts.edges is None
    assert {use.dataset.name: use.sources and [s.name for s in use.sources] for use in facts.uses} == {
        "a": None,
        "b": None,
        "x": ["a"],
    }


def test_without_a_lineage_facet_nothing_is_spelled_out() -> None:
    assert facts_of(an_event(inputs=[a_dataset("a")], outputs=[a_dataset("x")])).edges is None


def test_an_empty_lineage_facet_says_that_there_are_no_edges() -> None:
    event = an_event(job_facets={"lineage": a_facet(entries=[])}, inputs=[a_dataset("a")], outputs=[a_dataset("x")])
    assert edges_of(facts_of(event)) == set()


def test_parent_and_root_are_read_with_their_jobs() -> None:
    parent, root = a_run_id(), a_run_id()
    facet = a_facet(
        run={"runId": parent},
        job={"namespace": "airflow", "name": "dag.task"},
        root={"run": {"runId": root}, "job": {"namespace": "airflow", "name": "dag"}},
    )
    facts = facts_of(an_event(run_facets={"parent": facet}))
    assert (str(facts.parent_run), str(facts.root_run)) == (parent, root)
    assert (facts.parent_job, facts.root_job) == (("airflow", "dag.task"), ("airflow", "dag"))


def test_a_parent_may_come_without_root_and_job() -> None:
    facts = facts_of(an_event(run_facets={"parent": a_facet(run={"runId": a_run_id()})}))
    assert facts.parent_run is not None
    assert (facts.parent_job, facts.root_run, facts.root_job) == (None, None, None)


def test_what_a_job_says_of_itself_is_read() -> None:
    facet = a_facet(processingType="STREAMING", integration="FLINK", jobType="JOB")
    facts = facts_of(an_event(job_facets={"jobType": facet}))
    assert (facts.processing_type, facts.integration, facts.job_type) == ("STREAMING", "FLINK", "JOB")


def test_a_failed_run_says_why() -> None:
    facets = {"errorMessage": a_facet(message="out of memory", programmingLanguage="SCALA")}
    assert facts_of(an_event("FAIL", run_facets=facets)).error == "out of memory"


def test_the_run_takes_its_partition_from_what_it_writes() -> None:
    event = an_event(
        inputs=[a_dataset("raw/country=FR/dt=2026-02-28", "s3://lake")],
        outputs=[a_dataset("plain", "s3://lake"), a_dataset("gold/country=DE/dt=2026-03-01", "s3://lake")],
    )
    facts = facts_of(event)
    assert facts.partition_context == {"country": "DE", "dt": "2026-03-01"}


def test_the_partition_facet_wins_over_paths() -> None:
    event = an_event(
        run_facets={"headgate_partition": a_facet(key="country=*", context={"country": "AT", "part": 3})},
        outputs=[a_dataset("gold/country=DE", "s3://lake")],
    )
    assert facts_of(event).partition_context == {"country": "AT", "part": "3"}


def test_execution_totals_are_stage_minus_one() -> None:
    facet = a_facet(
        metrics={"execution_time_ms": 900, "total_tasks": 4, "rows_read": 10, "custom": "x"},
        executorMemoryMb=1024,
        executorCores=2,
        applicationId="app-1",
    )
    facts = facts_of(an_event(run_facets={"headgate_execution": facet}))
    (row,) = facts.stages
    assert (row["stage_id"], row["attempt"], row["duration_ms"], row["num_tasks"]) == (-1, 0, 900, 4)
    assert row["input_records"] == 10
    assert row["extra"] == {"custom": "x", "executor_memory_mb": 1024, "executor_cores": 2}
    assert facts.application_id == "app-1"


def test_stages_are_read_with_their_times() -> None:
    stages = [
        {"stage_id": 3, "attempt": 1, "name": "scan", "started_at": 1_772_359_200_000, "num_tasks": 8, "odd": 1.5},
        {"stage_id": 4, "ended_at": "2026-03-01T10:00:01Z"},
    ]
    first, second = facts_of(an_event(run_facets={"headgate_stages": a_facet(stages=stages)})).stages
    assert (first["stage_id"], first["attempt"], first["name"], first["num_tasks"]) == (3, 1, "scan", 8)
    assert first["started_at"] == "2026-03-01T10:00:00+00:00"
    assert first["extra"] == {"odd": 1.5}
    assert (second["attempt"], second["ended_at"]) == (0, "2026-03-01T10:00:01+00:00")


def test_sparks_application_is_read() -> None:
    facets = {"spark_applicationDetails": a_facet(applicationId="application_7", master="yarn")}
    assert facts_of(an_event(run_facets=facets)).application_id == "application_7"


def test_a_dataset_event_may_name_the_run_it_comes_from() -> None:
    run = a_run_id()
    facets = {"headgate_origin": a_facet(runId=run, clientHash="abc"), **with_schema("a")}
    event = {"eventTime": at(), "producer": PRODUCER, "schemaURL": SCHEMA_URL, "dataset": a_dataset("t", facets=facets)}
    facts = facts_of(event)
    assert (facts.kind, str(facts.run_id), facts.job) == ("dataset", run, None)
    assert (facts.uses[0].role, facts.uses[0].client_hash) == ("dataset", "abc")


def test_a_location_and_a_type_are_read() -> None:
    use = use_of({"headgate_location": a_facet(location="s3://lake/t"), "datasetType": a_facet(datasetType="VIEW")})
    assert (use.location, use.type) == ("s3://lake/t", "view")


def test_datasets_have_canonical_names() -> None:
    event = an_event(
        inputs=[a_dataset("Db.Public.T", "postgresql://HOST:5432"), a_dataset("t", "postgres://host:5433")],
        outputs=[a_dataset("/gold/orders/dt=2026-03-01", "s3a://lake")],
    )
    facts = facts_of(event)
    assert [use.key for use in facts.uses] == [
        ("postgres://host", "Db.Public.T"),
        ("postgres://host:5433", "t"),
        ("s3://lake", "gold/orders"),
    ]
    assert isinstance(facts.uses[0].dataset, DatasetName)


def test_a_projector_that_remembers_gives_the_same_facts() -> None:
    projector = Projector()
    facets = {"lineage": a_facet(inputs=[{"namespace": NS, "name": "a"}]), **with_schema("a")}
    event = an_event(
        job_facets={"jobType": a_facet(jobType="TEST"), "lineage": a_facet(entries=[])},
        inputs=[a_dataset("raw/dt=2026-03-01", "s3://lake")],
        outputs=[a_dataset("x", facets=facets)],
    )
    first, again = facts_of(event, projector), facts_of(event, projector)
    assert first == again
    assert [source.name for use in again.uses for source in use.sources or ()] == ["a"]


def test_a_job_that_changes_what_it_says_is_read_anew() -> None:
    projector = Projector()
    said = []
    for name in ("A", "B", "A"):
        event = an_event(
            job_facets={"jobType": a_facet(jobType=name)}, outputs=[a_dataset("x", facets=with_schema(name))]
        )
        facts = facts_of(event, projector)
        assert facts.uses[0].schema is not None
        said.append((facts.job_type, facts.uses[0].schema.fields[0].name))
    assert said == [("A", "A"), ("B", "B"), ("A", "A")]
