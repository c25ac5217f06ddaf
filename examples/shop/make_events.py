"""Writes events.ndjson: two days in the life of a small shop's data, as OpenLineage events.

Every run id and every time is fixed, so the file is the same wherever it is made.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

Json = dict[str, Any]

TARGET = Path(__file__).with_name("events.ndjson")
SHOP = UUID("6f1d3f7e-52a4-4c0e-9d53-7a2f0c9b1e11")
SPEC = "https://openlineage.io/spec"

AIRFLOW = "https://github.com/apache/airflow/tree/providers-openlineage/2.7.0"
SPARK = "https://github.com/OpenLineage/OpenLineage/tree/1.52.0/integration/spark"
DBT = "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/dbt"

KAFKA = "kafka://broker.shop.example:9092"
LAKE = "s3://shop-lake"
ERP = "postgres://erp.shop.example:5432"
WAREHOUSE = "postgres://warehouse.shop.example:5432"
METASTORE = "hive://metastore.shop.example:9083"

RAW_FIELDS = {
    "order_id": "long",
    "customer_id": "long",
    "amount_cents": "long",
    "ordered_at": "string",
}
ORDER_FIELDS = {
    "order_id": "long",
    "customer_id": "long",
    "country": "string",
    "amount": "decimal(12,2)",
    "ordered_at": "timestamp",
}
REVENUE_FIELDS = {"day": "date", "country": "text", "orders": "bigint", "revenue": "numeric(14,2)"}
VALUE_FIELDS = {"customer_id": "bigint", "orders": "bigint", "lifetime_value": "numeric(14,2)"}


@dataclass(frozen=True)
class Job:
    """A job as one producer names it."""

    producer: str
    namespace: str
    name: str
    facets: tuple[tuple[str, Json], ...] = ()

    def identity(self) -> Json:
        return {"namespace": self.namespace, "name": self.name}


@dataclass(frozen=True)
class Run:
    """One run of a job, with the runs that it belongs to."""

    job: Job
    run_id: str
    facets: tuple[tuple[str, Json], ...] = ()
    parent: Run | None = None

    @property
    def root(self) -> Run:
        return self.parent.root if self.parent else self

    def reference(self) -> Json:
        return {"run": {"runId": self.run_id}, "job": self.job.identity()}


@dataclass(frozen=True)
class Day:
    """One daily schedule; from the second one on, orders carry a currency."""

    number: int

    @property
    def date(self) -> str:
        return self.at("00:00").strftime("%Y-%m-%d")

    @property
    def has_currency(self) -> bool:
        return self.number > 1

    def at(self, clock: str, second: int = 0) -> datetime:
        hour, minute = map(int, clock.split(":"))
        return datetime(2026, 11, 9, hour, minute, second, tzinfo=UTC) + timedelta(days=self.number)

    def run(self, job: Job, parent: Run | None = None, *, attempt: int = 1, **facets: Json) -> Run:
        run_id = uuid5(SHOP, f"{self.date} {job.name} {attempt}")
        return Run(job, str(run_id), tuple(facets.items()), parent)

    def fields(self, known: dict[str, str]) -> dict[str, str]:
        return known | ({"currency": "string"} if self.has_currency else {})


def facet(producer: str, name: str, version: str, /, **body: Any) -> Json:
    schema = f"{SPEC}/facets/{version}/{name}.json#/$defs/{name}"
    return {"_producer": producer, "_schemaURL": schema, **body}


def job_type(producer: str, integration: str, kind: str) -> tuple[str, Json]:
    body = {"processingType": "BATCH", "integration": integration, "jobType": kind}
    return "jobType", facet(producer, "JobTypeJobFacet", "2-0-4", **body)


def sql(query: str) -> tuple[str, Json]:
    return "sql", facet(DBT, "SQLJobFacet", "1-1-0", query=query, dialect="postgres")


DAG = Job(AIRFLOW, "airflow", "shop_daily", (job_type(AIRFLOW, "AIRFLOW", "DAG"),))
INGEST = Job(SPARK, "spark", "shop.ingest_orders", (job_type(SPARK, "SPARK", "APPLICATION"),))
SILVER = Job(SPARK, "spark", "shop.silver_orders", (job_type(SPARK, "SPARK", "APPLICATION"),))
PUBLISH = Job(SPARK, "spark", "shop.publish_orders", (job_type(SPARK, "SPARK", "APPLICATION"),))
DBT_RUN = Job(DBT, "dbt", "shop_marts", (job_type(DBT, "DBT", "JOB"),))
REVENUE = Job(
    DBT,
    "dbt",
    "shop_marts.daily_revenue",
    (
        job_type(DBT, "DBT", "MODEL"),
        sql(
            "select ordered_at::date as day, country, count(*) as orders, sum(amount) as revenue "
            "from shop.staging.orders group by 1, 2"
        ),
    ),
)
VALUE = Job(
    DBT,
    "dbt",
    "shop_marts.customer_value",
    (
        job_type(DBT, "DBT", "MODEL"),
        sql(
            "select customer_id, count(*) as orders, sum(amount) as lifetime_value from shop.staging.orders group by 1"
        ),
    ),
)
TESTS = Job(DBT, "dbt", "shop_marts.test", (job_type(DBT, "DBT", "TEST"),))


def event(kind: str, run: Run, at: datetime, *, inputs: Any = (), outputs: Any = (), **facets: Json) -> Json:
    producer = run.job.producer
    run_facets = dict(run.facets) | facets
    if run.parent:
        body = {**run.parent.reference(), "root": run.root.reference()}
        run_facets["parent"] = facet(producer, "ParentRunFacet", "1-2-0", **body)
    return {
        "eventType": kind,
        "eventTime": stamp(at),
        "run": {"runId": run.run_id, "facets": run_facets},
        "job": run.job.identity() | {"facets": dict(run.job.facets)},
        "inputs": list(inputs),
        "outputs": list(outputs),
        "producer": producer,
        "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
    }


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def dataset(namespace: str, name: str, **facets: Json) -> Json:
    return {"namespace": namespace, "name": name} | ({"facets": facets} if facets else {})


def schema(producer: str, fields: dict[str, str]) -> Json:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return facet(producer, "SchemaDatasetFacet", "1-2-0", fields=listed)


def written(target: Json, producer: str, *, rows: int, size: int, files: int) -> Json:
    body = {"rowCount": rows, "size": size, "fileCount": files}
    statistics = facet(producer, "OutputStatisticsOutputDatasetFacet", "1-0-2", **body)
    return target | {"outputFacets": {"outputStatistics": statistics}}


def from_field(source: Json, name: str, kind: str = "IDENTITY", *, is_direct: bool = True) -> Json:
    transformation = {"type": "DIRECT" if is_direct else "INDIRECT", "subtype": kind, "masking": False}
    identity = {"namespace": source["namespace"], "name": source["name"]}
    return {**identity, "field": name, "transformations": [transformation]}


def column_lineage(producer: str, fields: dict[str, list[Json]]) -> Json:
    inputs = {name: {"inputFields": sources} for name, sources in fields.items()}
    return facet(producer, "ColumnLineageDatasetFacet", "1-2-0", fields=inputs)


def engine() -> Json:
    body = {"version": "3.5.3", "name": "spark", "openlineageAdapterVersion": "1.52.0"}
    return facet(SPARK, "ProcessingEngineRunFacet", "1-1-1", **body)


def raw_orders(day: Day) -> Json:
    return dataset(LAKE, f"raw/orders/dt={day.date}", schema=schema(SPARK, day.fields(RAW_FIELDS)))


def customers() -> Json:
    fields = {"customer_id": "bigint", "email": "text", "country": "text"}
    return dataset(ERP, "shop.public.customers", schema=schema(SPARK, fields))


def silver_orders(day: Day) -> Json:
    identifier = {"namespace": METASTORE, "name": "silver.orders", "type": "TABLE"}
    return dataset(
        LAKE,
        "silver/orders",
        schema=schema(SPARK, day.fields(ORDER_FIELDS)),
        symlinks=facet(SPARK, "SymlinksDatasetFacet", "1-0-1", identifiers=[identifier]),
    )


def staged_orders(day: Day, producer: str) -> Json:
    return dataset(WAREHOUSE, "shop.staging.orders", schema=schema(producer, day.fields(ORDER_FIELDS)))


def silver_lineage(day: Day) -> Json:
    raw, people = raw_orders(day), customers()
    join = [from_field(side, "customer_id", "JOIN", is_direct=False) for side in (raw, people)]
    fields = {
        "order_id": [from_field(raw, "order_id"), *join],
        "customer_id": [from_field(raw, "customer_id"), *join],
        "country": [from_field(people, "country"), *join],
        "amount": [from_field(raw, "amount_cents", "TRANSFORMATION"), *join],
        "ordered_at": [from_field(raw, "ordered_at", "TRANSFORMATION"), *join],
    }
    if day.has_currency:
        fields["currency"] = [from_field(raw, "currency"), *join]
    return column_lineage(SPARK, fields)


def ingest(day: Day, dag: Run) -> list[Json]:
    run = day.run(INGEST, dag, processing_engine=engine())
    topic = dataset(KAFKA, "orders")
    rows = 18_420 if day.number == 1 else 19_007
    output = written(raw_orders(day), SPARK, rows=rows, size=rows * 96, files=8)
    return [
        event("START", run, day.at("02:01"), inputs=[topic]),
        event("COMPLETE", run, day.at("02:06"), inputs=[topic], outputs=[output]),
    ]


def silver(day: Day, dag: Run) -> list[Json]:
    """The second day's first attempt fails, because nobody had told it of the new column."""
    failed = [] if day.number == 1 else failed_silver(day, dag)
    run = day.run(SILVER, dag, attempt=2 if failed else 1, processing_engine=engine())
    inputs = [raw_orders(day), customers()]
    lineage = {"columnLineage": silver_lineage(day)}
    rows = 18_377 if day.number == 1 else 18_951
    target = silver_orders(day)
    target = target | {"facets": target["facets"] | lineage}
    clock = ("02:08", "02:10", "02:14") if day.number == 1 else ("02:20", "02:22", "02:26")
    return [
        *failed,
        event("START", run, day.at(clock[0]), inputs=inputs),
        event("RUNNING", run, day.at(clock[1]), inputs=inputs, outputs=[silver_orders(day)]),
        event(
            "COMPLETE",
            run,
            day.at(clock[2]),
            inputs=inputs,
            outputs=[written(target, SPARK, rows=rows, size=rows * 74, files=4)],
        ),
    ]


def failed_silver(day: Day, dag: Run) -> list[Json]:
    run = day.run(SILVER, dag, processing_engine=engine())
    message = "A schema mismatch detected when writing to silver/orders: unexpected column 'currency'"
    error = facet(
        SPARK,
        "ErrorMessageRunFacet",
        "1-0-1",
        message=message,
        programmingLanguage="SCALA",
        stackTrace=f"org.apache.spark.sql.AnalysisException: {message}\n\tat shop.SilverOrders.main",
    )
    inputs = [raw_orders(day), customers()]
    return [
        event("START", run, day.at("02:08"), inputs=inputs),
        event("FAIL", run, day.at("02:09"), inputs=inputs, errorMessage=error),
    ]


def publish(day: Day, dag: Run) -> list[Json]:
    run = day.run(PUBLISH, dag, processing_engine=engine())
    source, target = silver_orders(day), staged_orders(day, SPARK)
    lineage = column_lineage(SPARK, {name: [from_field(source, name)] for name in day.fields(ORDER_FIELDS)})
    target = target | {"facets": target["facets"] | {"columnLineage": lineage}}
    rows = 18_377 if day.number == 1 else 18_951
    return [
        event("START", run, day.at("02:30"), inputs=[source]),
        event(
            "COMPLETE",
            run,
            day.at("02:33"),
            inputs=[source],
            outputs=[written(target, SPARK, rows=rows, size=rows * 81, files=1)],
        ),
    ]


def marts(day: Day, dag: Run) -> list[Json]:
    build = day.run(DBT_RUN, dag)
    orders = staged_orders(day, DBT)
    grouped = [from_field(orders, name, "GROUP_BY", is_direct=False) for name in ("ordered_at", "country")]
    revenue = {
        "day": [from_field(orders, "ordered_at", "TRANSFORMATION"), *grouped],
        "country": [from_field(orders, "country"), *grouped],
        "orders": grouped,
        "revenue": [from_field(orders, "amount", "AGGREGATION"), *grouped],
    }
    by_customer = from_field(orders, "customer_id", "GROUP_BY", is_direct=False)
    value = {
        "customer_id": [from_field(orders, "customer_id"), by_customer],
        "orders": [by_customer],
        "lifetime_value": [from_field(orders, "amount", "AGGREGATION"), by_customer],
    }
    return [
        event("START", build, day.at("02:35")),
        *model(day, day.run(REVENUE, build), "daily_revenue", REVENUE_FIELDS, revenue, clock="02:36"),
        *model(day, day.run(VALUE, build), "customer_value", VALUE_FIELDS, value, clock="02:38"),
        *tests(day, day.run(TESTS, build)),
        event("COMPLETE" if day.number == 1 else "FAIL", build, day.at("02:44")),
    ]


def model(
    day: Day, run: Run, table: str, fields: dict[str, str], lineage: dict[str, list[Json]], *, clock: str
) -> list[Json]:
    source = staged_orders(day, DBT)
    facets = {"schema": schema(DBT, fields), "columnLineage": column_lineage(DBT, lineage)}
    target = dataset(WAREHOUSE, f"shop.marts.{table}", **facets)
    return [
        event("START", run, day.at(clock), inputs=[source]),
        event("COMPLETE", run, day.at(clock, 48), inputs=[source], outputs=[target]),
    ]


def tests(day: Day, run: Run) -> list[Json]:
    """On the second day one order has no customer, which the test of customer_value finds."""
    revenue = tested("daily_revenue", [assertion("not_null", "day"), assertion("not_null", "revenue")])
    is_sound = day.number == 1
    value = tested(
        "customer_value", [assertion("unique", "customer_id"), assertion("not_null", "customer_id", is_sound)]
    )
    kind = "COMPLETE" if is_sound else "FAIL"
    return [
        event("START", run, day.at("02:40")),
        event(kind, run, day.at("02:41"), inputs=[revenue, value]),
    ]


def assertion(kind: str, column: str, success: bool = True) -> Json:
    body = {"assertion": kind, "success": success, "column": column, "severity": "error"}
    counts = {"expected": "0", "actual": "0" if success else "43"}
    return body | counts


def tested(table: str, assertions: list[Json]) -> Json:
    checks = facet(DBT, "DataQualityAssertionsDatasetFacet", "1-1-0", assertions=assertions)
    return dataset(WAREHOUSE, f"shop.marts.{table}") | {"inputFacets": {"dataQualityAssertions": checks}}


def daily(day: Day) -> list[Json]:
    window = {
        "nominalStartTime": stamp(day.at("02:00")),
        "nominalEndTime": stamp(replace(day, number=day.number + 1).at("02:00")),
    }
    dag = day.run(DAG, nominalTime=facet(AIRFLOW, "NominalTimeRunFacet", "1-0-1", **window))
    return [
        event("START", dag, day.at("02:00")),
        *ingest(day, dag),
        *silver(day, dag),
        *publish(day, dag),
        *marts(day, dag),
        event("COMPLETE" if day.number == 1 else "FAIL", dag, day.at("02:45")),
    ]


def declarations() -> list[Json]:
    """What is known before anything runs: who owns the topic, and what a job is for."""
    owners = facet(AIRFLOW, "OwnershipDatasetFacet", "1-0-1", owners=[{"name": "team:checkout", "type": "OWNER"}])
    text = "Joins the day's orders with the customers and writes them to the lake."
    documentation = facet(AIRFLOW, "DocumentationJobFacet", "1-1-0", description=text)
    at = {"eventTime": stamp(Day(1).at("01:00")), "producer": AIRFLOW}
    return [
        at
        | {
            "dataset": dataset(KAFKA, "orders", ownership=owners),
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/DatasetEvent",
        },
        at
        | {
            "job": SILVER.identity() | {"facets": {"documentation": documentation}},
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/JobEvent",
        },
    ]


def events() -> list[Json]:
    return [*declarations(), *daily(Day(1)), *daily(Day(2))]


def render() -> str:
    return "".join(json.dumps(item, separators=(",", ":")) + "\n" for item in events())


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"{TARGET.name}: {len(events())} events\n")
