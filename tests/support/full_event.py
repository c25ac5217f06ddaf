"""Bodies that use every field Headgate reads, for tests that break them one field at a time."""

from __future__ import annotations

from typing import Any

from tests.support.events import Json, a_dataset, a_facet, a_run_id, an_event, at

SOURCE = {"namespace": "postgres://db:5432", "name": "shop.public.orders"}


def a_full_event(run: str | None = None, **more: Any) -> Json:
    """A run event with every core field and every facet that is understood."""
    event = an_event(
        run=run,
        run_facets=_run_facets(),
        job_facets=_job_facets(),
        inputs=[a_dataset(SOURCE["name"], facets=_input_facets(), inputFacets=_input_measures())],
        outputs=[a_dataset("shop.public.daily", facets=_output_facets(), outputFacets=_output_measures())],
    )
    return event | more


def a_full_dataset_event() -> Json:
    event = a_full_event()
    dataset = event["outputs"][0]
    return {name: event[name] for name in ("eventTime", "producer", "schemaURL")} | {"dataset": dataset}


def a_full_job_event() -> Json:
    event = a_full_event()
    return {name: part for name, part in event.items() if name not in ("run", "eventType")}


def a_full_metadata() -> Json:
    """A body of `/api/v1/ingest/metadata` with every field."""
    return {
        "job_id": "spark-7",
        "api_version": "1",
        "job_name": "daily orders",
        "application_id": "application_1",
        "timestamp": at(60),
        "started_at": at(0),
        "ended_at": at(60),
        "status": "Success",
        "error_message": "none",
        "inputs": [{"name": "orders", "type": "Table", "location": "s3://lake/orders", "database": "shop"}],
        "outputs": [{"name": "daily", "type": "Table", "catalog": "prod", "database": "shop"}],
        "lineage_edges": [{"source": "orders", "target": "daily", "job_id": "spark-7", "job_name": "daily orders"}],
        "column_lineage": [
            {
                "source_table": "orders",
                "source_column": "amount",
                "target_table": "daily",
                "target_column": "total",
                "transformation_type": "AGGREGATION",
                "expression": "sum(amount)",
            }
        ],
        "metrics": {"daily": {"row_count": 5, "byte_size": 500, "file_count": 1, "partition_count": 1}},
        "anomalies": [
            {
                "dataset_name": "daily",
                "anomaly_type": "ROW_COUNT_DROP",
                "current_value": 1,
                "expected_value": 10,
                "threshold": 3,
                "message": "too few rows",
                "severity": "WARNING",
            }
        ],
        "execution_metrics": {"executorRunTime": 100, "stages": [{"stageId": 1, "numTasks": 2}]},
        "executor_memory_mb": 1024,
        "executor_cores": 2,
        "partition_key": "dt=2026-03-01",
        "partition_context": {"dt": "2026-03-01"},
    }


def a_full_schema() -> Json:
    """A body of `/api/v1/ingest/schema` with every field."""
    return {
        "job_id": "capture-1",
        "api_version": "1",
        "application_id": "application_1",
        "timestamp": at(60),
        "started_at": at(0),
        "ended_at": at(60),
        "schemas": [
            {
                "dataset_name": "daily",
                "version_hash": "abc",
                "fields": [{"name": "total", "data_type": "decimal(10,2)", "nullable": True, "description": "sum"}],
            }
        ],
    }


def _run_facets() -> Json:
    job = {"namespace": "airflow", "name": "dag.task"}
    root = {"run": {"runId": a_run_id()}, "job": {"namespace": "airflow", "name": "dag"}}
    return {
        "parent": a_facet(run={"runId": a_run_id()}, job=job, root=root),
        "errorMessage": a_facet(message="out of memory", programmingLanguage="SCALA", stackTrace="at line 1"),
        "test": a_facet(tests=[_a_test("rows")]),
        "spark_applicationDetails": a_facet(applicationId="application_1"),
        "headgate_execution": a_facet(metrics={"executorRunTime": 5}, executorMemoryMb=1024, executorCores=2),
        "headgate_stages": a_facet(stages=[{"stageId": 1, "attempt": 0, "name": "scan", "numTasks": 4}]),
        "headgate_partition": a_facet(key="dt=*", context={"dt": "2026-03-01"}),
        "nominalTime": a_facet(nominalStartTime=at(0)),
        "custom_facet": a_facet(anything={"deep": [1, 2.5, "x", None, True]}),
    }


def _a_test(name: str) -> Json:
    return {
        "name": name,
        "status": "fail",
        "severity": "error",
        "type": "not_null",
        "description": "no holes",
        "expected": "0",
        "actual": "3",
        "content": "select 1",
        "contentType": "SQL",
        "params": {"column": "id"},
    }


def _job_facets() -> Json:
    target = {"namespace": SOURCE["namespace"], "name": "shop.public.daily", "type": "DATASET"}
    return {
        "jobType": a_facet(processingType="BATCH", integration="SPARK", jobType="JOB"),
        "lineage": a_facet(entries=[target | {"inputs": [SOURCE | {"type": "DATASET", "field": "id"}]}]),
        "sql": a_facet(query="select 1"),
        "documentation": a_facet(description="what it does"),
    }


def _input_facets() -> Json:
    nested = [{"name": "city", "type": "string"}]
    return {
        "schema": a_facet(
            fields=[
                {"name": "id", "type": "bigint", "nullable": False, "description": "key"},
                {"name": "address", "type": "struct", "fields": nested},
            ]
        ),
        "symlinks": a_facet(identifiers=[{"namespace": "glue://eu", "name": "table/orders", "type": "TABLE"}]),
        "dataSource": a_facet(name="db", uri="postgres://db:5432"),
        "dataQualityAssertions": a_facet(assertions=[_an_assertion("unique")]),
    }


def _an_assertion(kind: str) -> Json:
    return {
        "assertion": kind,
        "success": False,
        "column": "id",
        "severity": "error",
        "name": "ids are unique",
        "description": "every id once",
        "expected": "0",
        "actual": "2",
        "content": "select 1",
        "contentType": "SQL",
        "params": {"threshold": 1},
    }


def _input_measures() -> Json:
    columns = {"id": {"nullCount": 0, "distinctCount": 5, "min": 1, "max": 9, "quantiles": {"0.5": 4}}}
    return {
        "inputStatistics": a_facet(rowCount=5, size=500, fileCount=1),
        "dataQualityMetrics": a_facet(rowCount=5, bytes=500, fileCount=1, columnMetrics=columns),
        "dataQualityAssertions": a_facet(assertions=[_an_assertion("not_null")]),
        "greatExpectations_assertions": a_facet(assertions=[{"assertion": "expect", "success": True}]),
    }


def _output_facets() -> Json:
    step = {"type": "DIRECT", "subtype": "AGGREGATION", "description": "sum(amount)", "masking": False}
    source = SOURCE | {"field": "amount", "transformations": [step]}
    return {
        "schema": a_facet(fields=[{"name": "total", "type": "decimal", "nullable": True}]),
        "columnLineage": a_facet(
            fields={
                "total": {
                    "inputFields": [source],
                    "transformationType": "IDENTITY",
                    "transformationDescription": "as is",
                }
            },
            dataset=[SOURCE | {"field": "id"}],
        ),
        "datasetType": a_facet(datasetType="TABLE"),
        "lifecycleStateChange": a_facet(lifecycleStateChange="OVERWRITE", previousIdentifier=SOURCE),
        "headgate_location": a_facet(location="s3://lake/daily"),
        "headgate_origin": a_facet(runId=a_run_id(), clientHash="abc"),
        "lineage": a_facet(inputs=[SOURCE | {"type": "DATASET", "field": "id"}]),
    }


def _output_measures() -> Json:
    return {"outputStatistics": a_facet(rowCount=5, size=500, fileCount=1, partitionCount=1)}
