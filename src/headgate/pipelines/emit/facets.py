"""The facets of events: those of the standard from what a node's record says, and those of our own.

Knows records and the official client's classes; knows nothing of runs, order or delivery.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import attr
import msgspec
from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent
from openlineage.client.facet_v2 import (
    DatasetFacet,
    InputDatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    data_quality_assertions_dataset,
    data_quality_metrics_dataset,
    documentation_job,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    ownership_job,
    parent_run,
    schema_dataset,
    symlinks_dataset,
    tags_job,
    test_run,
)
from openlineage.client.serde import Serde

from headgate.domain.names import canonical_dataset
from headgate.pipelines.record import ColumnProfile, DatasetRef, FieldRecord, NodeRecord, QuarantineRecord, TestRecord

VERSION = version("headgate")
PRODUCER = f"https://github.com/headgate/headgate/tree/{VERSION}/pipelines"
_OWN = "https://headgate.dev/spec/facets/1-0-0/{0}.json#/$defs/{0}"
# The whole text stays in the run's own record; Spark's can have megabytes.
MAX_ERROR = 20_000
JUDGED = ("passed", "failed")


@attr.define
class OwnFacet(RunFacet):
    """A facet of ours: its body goes out as it is, where the client would drop what is null."""

    definition: str
    body: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        return {"_producer": PRODUCER, "_schemaURL": _OWN.format(self.definition), **self.body}


@attr.define
class Column(schema_dataset.SchemaDatasetFacetFields):
    """A column that says whether it may be null."""

    nullable: bool = True


def encoded(event: RunEvent) -> bytes:
    """The event as JSON that is the same each time, so that the server knows one that it already has."""
    plain = Serde.to_dict(event)
    for name, facet in (event.run.facets or {}).items():
        if isinstance(facet, OwnFacet):
            plain["run"]["facets"][name] = facet.plain()
    return msgspec.json.encode(_clean(plain), order="sorted", enc_hook=str)


def _clean(value: Any) -> Any:
    """Without what no server takes: NUL, and halves of characters."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(str(key)): _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


def job_facets(
    kind: str, *, owner: str | None = None, tags: Iterable[str] = (), description: str | None = None
) -> dict[str, JobFacet]:
    found: dict[str, JobFacet] = {
        "jobType": job_type_job.JobTypeJobFacet("BATCH", "HEADGATE", kind, producer=PRODUCER),
    }
    if owner:
        found["ownership"] = ownership_job.OwnershipJobFacet([ownership_job.Owner(owner)], producer=PRODUCER)
    if listed := [tags_job.TagsJobFacetFields(tag, "true", "HEADGATE") for tag in tags]:
        found["tags"] = tags_job.TagsJobFacet(listed, producer=PRODUCER)
    if description:
        found["documentation"] = documentation_job.DocumentationJobFacet(description, producer=PRODUCER)
    return found


def parent(namespace: str, name: str, run_id: str, root: tuple[str, str] | None = None) -> RunFacet:
    """The run that this one is a part of; `root` is the job and run at the top, where that is another one."""
    top = None
    if root is not None:
        top = parent_run.Root(parent_run.RootRun(root[1]), parent_run.RootJob(namespace, root[0]))
    return parent_run.ParentRunFacet(parent_run.Run(run_id), parent_run.Job(namespace, name), top, producer=PRODUCER)


def error(text: str) -> RunFacet:
    cut = text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}…"
    return error_message_run.ErrorMessageRunFacet(cut, "PYTHON", producer=PRODUCER)


def labelled(dataset: DatasetRef, links: str) -> dict[str, DatasetFacet]:
    """What the pipeline's file calls the dataset, as another name of it."""
    known_as = symlinks_dataset.Identifier(links, _without_partitions(dataset.label), "TABLE")
    return {"symlinks": symlinks_dataset.SymlinksDatasetFacet([known_as], producer=PRODUCER)}


def _without_partitions(label: str) -> str:
    """As the dataset itself: the path of a day is one of all days."""
    return canonical_dataset("file", f"/{label}").name.removeprefix("/") if "/" in label else label


def read(dataset: DatasetRef, links: str) -> InputDataset:
    return InputDataset(dataset.namespace, dataset.name, facets=labelled(dataset, links))


def named(dataset: DatasetRef, links: str) -> OutputDataset:
    """An output of which nothing was written, or is known yet."""
    return OutputDataset(dataset.namespace, dataset.name, facets=labelled(dataset, links))


def published(dataset: DatasetRef, record: NodeRecord, links: str) -> OutputDataset:
    """The target with what is in it now."""
    facets = labelled(dataset, links)
    if record.schema:
        facets["schema"] = _schema(record.schema)
    if record.profile:
        facets["dataQualityMetrics"] = _profile(record.profile, record.rows_in)
    written = _written(record.rows_published, record.bytes_published, record.files_published)
    return OutputDataset(dataset.namespace, dataset.name, written, facets=facets)


def set_apart(batch: QuarantineRecord, links: str) -> OutputDataset:
    dataset = batch.dataset
    return OutputDataset(dataset.namespace, dataset.name, _written(batch.rows), facets=labelled(dataset, links))


def tested(dataset: DatasetRef, tests: Sequence[TestRecord], links: str) -> InputDataset:
    """The target with how its tests went; those that were not carried out have no place here."""
    told = [_assertion(test) for test in tests if test.status in JUDGED]
    facets: dict[str, InputDatasetFacet] = {}
    if told:
        facets["dataQualityAssertions"] = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            told, producer=PRODUCER
        )
    return InputDataset(dataset.namespace, dataset.name, facets, facets=labelled(dataset, links))


def executions(tests: Sequence[TestRecord]) -> RunFacet:
    """Tests as a fact of the run: what an assertion cannot say, or what has no dataset."""
    return test_run.TestRunFacet([_execution(test) for test in tests], producer=PRODUCER)


def _schema(fields: Sequence[FieldRecord]) -> DatasetFacet:
    columns = [Column(each.name, each.type, nullable=each.nullable) for each in fields]
    return schema_dataset.SchemaDatasetFacet(list(columns), producer=PRODUCER)


def _profile(columns: Mapping[str, ColumnProfile], rows: int) -> DatasetFacet:
    metrics = {
        name: data_quality_metrics_dataset.ColumnMetrics(
            nullCount=each.nulls,
            distinctCount=each.distinct,
            min=_number(each.min),
            max=_number(each.max),
            quantiles=None,
        )
        for name, each in columns.items()
    }
    return data_quality_metrics_dataset.DataQualityMetricsDatasetFacet(metrics, rowCount=rows, producer=PRODUCER)


def _number(value: object) -> float | None:
    """The standard has numbers only; what is none, such as a date, is in the record."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _written(rows: int, size: int | None = None, files: int | None = None) -> dict[str, OutputDatasetFacet]:
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rows, size, files, producer=PRODUCER
    )
    return {"outputStatistics": statistics}


def _assertion(test: TestRecord) -> data_quality_assertions_dataset.Assertion:
    return data_quality_assertions_dataset.Assertion(
        assertion=test.type,
        success=test.status == "passed",
        column=test.columns[0] if len(test.columns) == 1 else None,
        severity=_severity(test),
        name=test.name,
        description=test.detail,
        expected=test.limit or "no row fails",
        actual=_actual(test),
        params=_counts(test),
    )


def _execution(test: TestRecord) -> test_run.TestExecution:
    return test_run.TestExecution(
        name=test.name,
        status={"passed": "pass", "failed": "fail", "skipped": "skip"}.get(test.status, test.status),
        severity=_severity(test),
        type=test.type,
        description=test.detail,
        expected=test.limit,
        actual=_actual(test),
        params=_counts(test),
    )


def _severity(test: TestRecord) -> str:
    # Rows that were set apart are dealt with; when they are too many, the gate says so.
    return "error" if test.on_fail == "fail" else "warn"


def _actual(test: TestRecord) -> str:
    if test.observed is not None:
        return str(test.observed)
    among = "" if test.evaluated is None else f" of {test.evaluated:,}"
    return f"{test.failed:,}{among} rows fail"


def _counts(test: TestRecord) -> dict[str, Any]:
    told = {"failed": test.failed, "evaluated": test.evaluated, "on_fail": test.on_fail, "columns": list(test.columns)}
    return {name: value for name, value in told.items() if value is not None and value != []}
