"""Tells a simulated world as OpenLineage events, as producers would: facts of runs, and nothing of causes."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

from benchmarks.causes.shape import LAYERS, Dataset
from benchmarks.causes.world import BEGIN, DATA, JOBS, Check, Run, World

Json = dict[str, Any]
PRODUCER = "https://github.com/example/platform/1.4.2"
SPEC = "https://openlineage.io/spec"
VERSIONS = {
    "schema": "1-2-0/SchemaDatasetFacet",
    "columnLineage": "1-2-0/ColumnLineageDatasetFacet",
    "dataQualityMetrics": "1-0-0/DataQualityMetricsDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "dataQualityAssertions": "1-1-0/DataQualityAssertionsDatasetFacet",
    "parent": "1-2-0/ParentRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "sql": "1-1-0/SQLJobFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
}


def tell(world: World) -> list[Json]:
    """All events of a world, by time; a START before what ends at the same instant."""
    teller = _Teller(world)
    for run in world.runs:
        teller.run(run)
    for check in world.checks:
        teller.check(check)
    teller.upkeep()
    return [event for _, _, event in sorted(teller.told, key=lambda each: each[:2])]


def facet(name: str, **body: Any) -> Json:
    return {"_producer": PRODUCER, "_schemaURL": f"{SPEC}/facets/{VERSIONS[name]}.json", **body}


class _Teller:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = Random(f"telling {world.seed} {len(world.datasets)}")
        self.told: list[tuple[datetime, int, Json]] = []
        self.schemas: dict[tuple[int, frozenset[int], int], Json] = {}
        self.lineages: dict[tuple[int, frozenset[int]], Json] = {}
        self.inputs = [self._inputs(dataset) for dataset in world.datasets]
        self.parents: dict[tuple[int, datetime], Json] = {}

    def run(self, run: Run) -> None:
        dataset = self.world.datasets[run.dataset]
        facets: Json = {"parent": self._parent(dataset.layer, run.scheduled_at)}
        job = {"namespace": JOBS, "name": dataset.job, "facets": _job_facets(self.world, dataset, run)}
        self._tell(run.started_at, "START", run.id, job, facets, self.inputs[run.dataset], [])
        if run.error is not None:
            facets = facets | {"errorMessage": facet("errorMessage", message=run.error, programmingLanguage="SCALA")}
        outputs = [self._output(dataset, run)]
        self._tell(run.ended_at, run.state, run.id, job, facets, self.inputs[run.dataset], outputs)

    def check(self, check: Check) -> None:
        dataset = self.world.datasets[check.dataset]
        job = {"namespace": "dbt", "name": f"test.{dataset.name}", "facets": {"jobType": _kind("TEST", "DBT")}}
        assertions = [
            {"assertion": test.name, "success": holds, "severity": "error"}
            | ({} if test.column is None else {"column": dataset.columns[test.column].name})
            for test, holds in check.results
        ]
        told = {"dataQualityAssertions": facet("dataQualityAssertions", assertions=assertions)}
        inputs = [{"namespace": DATA, "name": dataset.name, "inputFacets": told}]
        self._tell(check.at - timedelta(seconds=30), "START", check.id, job, {}, [], [])
        self._tell(check.at, "COMPLETE", check.id, job, {}, inputs, [])

    def upkeep(self) -> None:
        """Jobs that read, write nothing, and fail now and then: nobody's cause."""
        days = int((max(run.ended_at for run in self.world.runs) - BEGIN).days) if self.world.runs else 0
        for day in range(days):
            for number in range(1 + len(self.world.datasets) // 50):
                at = BEGIN + timedelta(days=day, hours=self.rng.uniform(0, 23))
                self._vacuum(number, at, self.rng.choice(self.world.datasets))

    def _vacuum(self, number: int, at: datetime, dataset: Dataset) -> None:
        run, job = str(UUID(int=self.rng.getrandbits(128), version=4)), {"namespace": "ops", "name": f"vacuum_{number}"}
        inputs = [{"namespace": DATA, "name": dataset.name}]
        self._tell(at, "START", run, job, {}, inputs, [])
        state = "FAIL" if self.rng.random() < 0.1 else "COMPLETE"
        self._tell(at + timedelta(seconds=60), state, run, job, {}, inputs, [])

    def _tell(
        self, at: datetime, kind: str, run: str, job: Json, facets: Json, inputs: list[Json], outputs: list[Json]
    ) -> None:
        event = {
            "eventType": kind,
            "eventTime": at.isoformat(),
            "producer": PRODUCER,
            "schemaURL": f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
            "run": {"runId": run, "facets": facets},
            "job": job,
            "inputs": inputs,
            "outputs": outputs,
        }
        self.told.append((at, 0 if kind == "START" else 1, event))

    def _parent(self, layer: int, scheduled_at: datetime) -> Json:
        cycle = scheduled_at.replace(minute=0, second=0, microsecond=0)
        known = self.parents.get((layer, cycle))
        if known is None:
            task, dag = (str(UUID(int=self.rng.getrandbits(128), version=4)) for _ in range(2))
            root = {"run": {"runId": dag}, "job": {"namespace": "airflow", "name": "warehouse"}}
            job = {"namespace": "airflow", "name": f"warehouse.{LAYERS[layer]}"}
            known = self.parents[(layer, cycle)] = facet("parent", run={"runId": task}, job=job, root=root)
        return known

    def _inputs(self, dataset: Dataset) -> list[Json]:
        if dataset.is_source:
            return [{"namespace": "s3://landing", "name": f"in/{dataset.name.partition('.')[2]}"}]
        names = dict.fromkeys(self.world.datasets[place].name for place in dataset.inputs)
        return [{"namespace": DATA, "name": name} for name in names]

    def _output(self, dataset: Dataset, run: Run) -> Json:
        version = run.version
        if version is None:
            return {"namespace": DATA, "name": dataset.name}
        facets: Json = {"schema": self._schema(dataset, version.absent, run.added)}
        if dataset.tells_column_lineage and dataset.inputs:
            facets["columnLineage"] = self._lineage(dataset, version.absent)
        rows = round(version.rows)
        if dataset.tells_columns:
            nulls = {
                column.name: {"nullCount": round(rows * version.nulls[place])}
                for place, column in enumerate(dataset.columns)
                if place not in version.absent
            }
            facets["dataQualityMetrics"] = facet("dataQualityMetrics", rowCount=rows, columnMetrics=nulls)
        output: Json = {"namespace": DATA, "name": dataset.name, "facets": facets}
        if dataset.tells_rows:
            output["outputFacets"] = {"outputStatistics": facet("outputStatistics", rowCount=rows, size=rows * 120)}
        return output

    def _schema(self, dataset: Dataset, absent: frozenset[int], added: int) -> Json:
        key = (dataset.index, absent, added)
        if key not in self.schemas:
            fields = [{"name": c.name, "type": c.type} for i, c in enumerate(dataset.columns) if i not in absent]
            fields += [{"name": f"extra_{number}", "type": "string"} for number in range(added)]
            self.schemas[key] = facet("schema", fields=fields)
        return self.schemas[key]

    def _lineage(self, dataset: Dataset, absent: frozenset[int]) -> Json:
        key = (dataset.index, absent)
        if key not in self.lineages:
            fields = {c.name: self._made_of(dataset, place) for place, c in enumerate(dataset.columns)}
            kept = {c.name: fields[c.name] for place, c in enumerate(dataset.columns) if place not in absent}
            self.lineages[key] = facet("columnLineage", fields=kept)
        return self.lineages[key]

    def _made_of(self, dataset: Dataset, place: int) -> Json:
        datasets = self.world.datasets
        direct = [{"type": "DIRECT", "subtype": "IDENTITY"}]
        fields = [
            {
                "namespace": DATA,
                "name": datasets[source.dataset].name,
                "field": datasets[source.dataset].columns[source.column].name,
                "transformations": direct,
            }
            for source in dict.fromkeys(dataset.columns[place].sources)
        ]
        return {"inputFields": fields}


def _job_facets(world: World, dataset: Dataset, run: Run) -> Json:
    tables = [world.datasets[place].name for place in dataset.inputs] or [f"landing.{dataset.index}"]
    joined = " ".join(f"LEFT JOIN {table} ON {table}.id = {tables[0]}.id" for table in tables[1:])
    columns = ", ".join(column.name for column in dataset.columns)
    query = f"INSERT INTO {dataset.name} SELECT {columns} FROM {tables[0]} {joined} WHERE batch >= {run.sql}"
    return {"sql": facet("sql", query=query), "jobType": _kind("JOB", "SPARK")}


def _kind(kind: str, integration: str) -> Json:
    return facet("jobType", processingType="BATCH", integration=integration, jobType=kind)
