"""From a checked event to facts: datasets by canonical name, lineage, schemas, metrics and test results.

Pure: the same event and the same name rules give the same facts. Nothing here can refuse an event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from headgate.domain import names
from headgate.domain.lineage import label_of
from headgate.domain.names import DatasetName
from headgate.domain.quality import severity_of, status_of, test_key
from headgate.openlineage.anomalies import anomalies_of, are_readable
from headgate.openlineage.events import NO_FACETS, Dataset
from headgate.openlineage.facets import (
    AssertionsFacet,
    ColumnLineageFacet,
    Facet,
    InputField,
    LineageFacet,
    LineageInput,
    OutputField,
    StatisticsFacet,
)
from headgate.openlineage.facts import ColumnEdge, ColumnSet, DatasetUse, Facts, JobFacts, Metric, TestResult
from headgate.openlineage.measurements import joined
from headgate.openlineage.pipelines import NodeTold, PipelineTold
from headgate.openlineage.validate import Checked, name_fits
from headgate.pipelines.record import DatasetRef

MAX_DATASETS = 10_000
MAX_COLUMN_BYTES = 1000
MAX_REMEMBERED = 10_000
Facets = Mapping[str, Facet]
# Facets that measure or test a dataset, by where they stand, and the direction of what they measure.
_OUTPUT_METRICS = {"outputStatistics": "output"}
_FACET_METRICS = {
    "dataQualityMetrics": "profile",
    "dataQualityAssertions": "test",
    "greatExpectations_assertions": "test",
}
_INPUT_METRICS = _FACET_METRICS | {"inputStatistics": "input"}
# Facets of runs that few events have.
_SELDOM = frozenset(
    {
        "errorMessage", "spark_applicationDetails", "headgate_execution", "headgate_stages", "headgate_partition",
        "headgate_anomalies", "headgate_pipeline", "headgate_node", "headgate_alerts", "test",
    }
)  # fmt: skip
_NO_FIGURES = (None,) * 5


class _KnownUse(NamedTuple):
    facets: Facets
    use: DatasetUse
    invalid: list[str]
    is_measured: bool


class Projector:
    """Reads events of one organisation under its name rules; keeps small caches, so make one and reuse it."""

    def __init__(
        self,
        patterns: names.Patterns = names.DEFAULT_PATTERNS,
        rules: Sequence[names.AliasRule] = (),
    ) -> None:
        self.rules = tuple(rules)
        self._patterns = patterns
        self.name = lru_cache(maxsize=20_000)(self._canonical)
        self._jobs: dict[tuple[str, str], tuple[Facets, JobFacts]] = {}
        self._uses: dict[tuple[str, str, str, bool], _KnownUse] = {}

    def facts(self, checked: Checked, raw: bytes) -> Facts:
        event = checked.event
        facts = Facts(
            kind=checked.kind,
            event_type=_event_type(checked),
            event_time=checked.event_time,
            producer=event.producer,
            raw=raw,
            lenient=checked.lenient,
        )
        if checked.kind == "dataset":
            assert not isinstance(event.dataset, UnsetType)
            self._use(facts, event.dataset, "dataset")
            return facts
        assert not isinstance(event.job, UnsetType)
        facts.job = (event.job.namespace, event.job.name)
        self._job_facets(facts, event.job.facets or NO_FACETS)  # type: ignore[arg-type]  # read by validation
        if not isinstance(event.run, UnsetType):
            facts.run_id = event.run.runId
            self._run_facets(facts, event.run.facets or NO_FACETS)  # type: ignore[arg-type]  # read by validation
        room = MAX_DATASETS
        for role, datasets in (("input", event.inputs), ("output", event.outputs)):
            for dataset in (datasets or ())[:room]:
                self._use(facts, dataset, role)
            room = max(0, room - len(datasets or ()))
        facts.metrics = joined(facts.metrics)
        self._attribute_tests(facts)
        self._partition_context(facts)
        return facts

    def _canonical(self, namespace: str, name: str) -> DatasetName:
        found = names.canonical_dataset(namespace, name, self._patterns)
        target = names.apply_rules((namespace, name), self.rules, self._patterns)
        return found if target is None else names.canonical_dataset(*target, self._patterns)

    def _job_facets(self, facts: Facts, facets: Facets) -> None:
        """What a job says of itself; like datasets, it mostly repeats itself."""
        if not facets:
            return
        assert facts.job is not None
        known = self._jobs.get(facts.job)
        if known is None or known[0] != facets:
            if len(self._jobs) >= MAX_REMEMBERED:
                self._jobs.clear()
            known = self._jobs[facts.job] = (facets, self._new_job(facets))
        job = known[1]
        facts.job_facets, facts.job_facets_hash = job.job_facets, job.job_facets_hash
        facts.job_type, facts.processing_type, facts.integration = job.job_type, job.processing_type, job.integration
        facts.is_test = job.is_test
        facts.edges = None if job.edges is None else list(job.edges)
        if job.invalid_facets:
            facts.invalid_facets.extend(job.invalid_facets)

    def _new_job(self, facets: Facets) -> JobFacts:
        found = JobFacts()
        found.job_facets, found.job_facets_hash = _bodies(facets)
        if (facet := facets.get("jobType")) and (job_type := _value(found, "jobType", facet)):
            found.job_type = _text(job_type.job_type)
            found.processing_type = _text(job_type.processing_type)
            found.integration = _text(job_type.integration)
            found.is_test = (found.job_type or "").upper() == "TEST"
        if (facet := facets.get("lineage")) and (lineage := _value(found, "lineage", facet)):
            found.edges = list(self._explicit_edges(lineage))
        return found

    def _explicit_edges(self, lineage: LineageFacet) -> Iterable[tuple[DatasetName, DatasetName]]:
        for entry in lineage.entries or ():
            if entry.type != "DATASET" or not entry.namespace or not entry.name:
                continue
            if name_fits(entry.namespace, entry.name):
                target = self.name(entry.namespace, entry.name)
                for source in self._sources(entry.inputs or ()):
                    yield source, target

    def _sources(self, inputs: Iterable[LineageInput]) -> Iterable[DatasetName]:
        """Datasets among the sources that a facet lists; a name that cannot be one is left out."""
        for source in inputs:
            if (source.type or "DATASET") == "DATASET" and name_fits(source.namespace, source.name):
                yield self.name(source.namespace, source.name)

    def _run_facets(self, facts: Facts, facets: Facets) -> None:
        if (raw := facets.get("parent")) and (parent := _value(facts, "parent", raw)):
            facts.parent_run = parent.run.runId
            facts.parent_job = (parent.job.namespace, parent.job.name) if parent.job else None
            if parent.root:
                facts.root_run = parent.root.run.runId
                facts.root_job = (parent.root.job.namespace, parent.root.job.name) if parent.root.job else None
        if not _SELDOM.isdisjoint(facets):
            self._seldom_facets(facts, facets)

    def _seldom_facets(self, facts: Facts, facets: Facets) -> None:
        if (raw := facets.get("errorMessage")) and (error := _value(facts, "errorMessage", raw)):
            facts.error = error.message
        for name in ("spark_applicationDetails", "headgate_execution", "headgate_stages"):
            if (raw := facets.get(name)) and (value := _value(facts, name, raw)):
                facts.application_id = _text(value.application_id) or facts.application_id
                facts.stages.extend(getattr(value, "rows", ()))
        if (raw := facets.get("headgate_partition")) and (partition := _value(facts, "headgate_partition", raw)):
            facts.partition_context = {str(k): str(v) for k, v in (partition.context or {}).items()} or None
            facts.partition_key = _text(partition.key)
        if (raw := facets.get("headgate_anomalies")) and (found := _value(facts, "headgate_anomalies", raw)):
            facts.anomalies = list(anomalies_of(found, self._fitting, facts.event_time))
            if not are_readable(found):
                facts.invalid_facets.append("headgate_anomalies")
        self._pipeline_facets(facts, facets)
        if raw := facets.get("test"):
            facts.is_test = True
            self._run_tests(facts, _value(facts, "test", raw))

    def _pipeline_facets(self, facts: Facts, facets: Facets) -> None:
        if (raw := facets.get("headgate_pipeline")) and (pipeline := _value(facts, "headgate_pipeline", raw)):
            facts.pipeline = PipelineTold(pipeline, raw.body)
        if (raw := facets.get("headgate_node")) and (node := _value(facts, "headgate_node", raw)):
            batch = node.quarantine
            quarantine = None if batch is None else self._reference(batch.dataset)
            facts.node = NodeTold(node, raw.body, self._reference(node.output), quarantine)
        if (raw := facets.get("headgate_alerts")) and (sent := _value(facts, "headgate_alerts", raw)):
            facts.alerts = sent.alerts

    def _reference(self, dataset: DatasetRef | None) -> DatasetName | None:
        return None if dataset is None else self._fitting(dataset.namespace, dataset.name)

    def _fitting(self, namespace: str, name: str) -> DatasetName | None:
        return self.name(namespace, name) if name_fits(namespace, name) else None

    def _run_tests(self, facts: Facts, facet: Any) -> None:
        if facet is None or facts.event_type == "START":
            return
        facts.tests.extend(
            TestResult(
                dataset=None,
                key=test_key(test.name, None),
                name=test.name,
                assertion=_text(test.type),
                column=None,
                status=status_of(test.status),
                severity=severity_of(_text(test.severity)),
                expected=_text(test.expected),
                actual=_text(test.actual),
                description=_text(test.description),
                detail=_detail(test),
            )
            for test in facet.tests
        )

    def _attribute_tests(self, facts: Facts) -> None:
        """A run-level test belongs to the one dataset the run read; if assertions name it too, they win."""
        if not facts.tests:
            return
        named = {test.name for test in facts.tests if test.dataset is not None}
        inputs = {use.dataset[:2]: use.dataset for use in facts.uses if use.role == "input"}
        only = next(iter(inputs.values())) if len(inputs) == 1 else None
        sent = {use.dataset[:2]: use.sent_urn for use in facts.uses if use.sent_urn}
        kept: dict[tuple[tuple[str, str] | None, str], TestResult] = {}
        for test in facts.tests:
            if test.dataset is None:
                # dbt names a test of its own `test.project.name` here and `name` in the assertion.
                if test.name in named or test.name.rpartition(".")[2] in named:
                    continue
                test.dataset = only
            test.sent_urn = sent.get(test.dataset[:2]) if test.dataset else None
            identity = (test.dataset[:2] if test.dataset else None, test.key)
            # dbt has tests that differ only in their arguments: what one of them found is not undone by the next.
            if identity not in kept or _badness(test) >= _badness(kept[identity]):
                kept[identity] = test
        facts.tests = list(kept.values())

    def _use(self, facts: Facts, dataset: Dataset, role: str) -> None:
        facets: Facets = dataset.facets or NO_FACETS  # type: ignore[assignment]  # read by validation
        known = self._content(facts, dataset, role, facets)
        use = known.use
        if use.origin_run is not None:
            facts.run_id = facts.run_id or use.origin_run
        if facts.event_type != "START" and (known.is_measured or dataset.inputFacets or dataset.outputFacets):
            inputs: Facets = dataset.inputFacets or NO_FACETS  # type: ignore[assignment]  # as above
            outputs: Facets = dataset.outputFacets or NO_FACETS  # type: ignore[assignment]  # as above
            self._measure(facts, use, facets, inputs, outputs)
        facts.uses.append(use)

    def _content(self, facts: Facts, dataset: Dataset, role: str, facets: Facets) -> _KnownUse:
        """What the facets say of the dataset itself. A job's next run mostly says the same: remember it."""
        # What a START says of a dataset is often not what the end does.
        key = (role, dataset.namespace, dataset.name, facts.event_type == "START")
        known = self._uses.get(key)
        # The reader gives the same object for the same bytes, so this compares identities.
        if known is not None and known.facets == facets:
            if known.invalid:
                facts.invalid_facets.extend(known.invalid)
            return known
        before = len(facts.invalid_facets)
        use = self._new_use(facts, dataset, role, facets)
        if len(self._uses) >= MAX_REMEMBERED:
            self._uses.clear()
        known = _KnownUse(facets, use, facts.invalid_facets[before:], not facets.keys().isdisjoint(_FACET_METRICS))
        self._uses[key] = known
        return known

    def _new_use(self, facts: Facts, dataset: Dataset, role: str, facets: Facets) -> DatasetUse:
        name = self.name(dataset.namespace, dataset.name)
        use = DatasetUse(name, role, name[:2])
        sent_urn = f"{dataset.namespace}/{dataset.name}"
        use.sent_urn = sent_urn if sent_urn != name.urn else None
        if "/" in dataset.name:
            use.context = names.partition_context(dataset.name, self._patterns) or None
        if facets:
            use.facets, use.facets_hash = _bodies(facets)
            self._dataset_facets(facts, use, facets)
        if use.type is None:
            use.type = names.infer_type(use.dataset.name, use.location or use.dataset.urn, None)
        return use

    def _dataset_facets(self, facts: Facts, use: DatasetUse, facets: Facets) -> None:
        read = {name: _value(facts, name, facet) for name, facet in facets.items()}
        use.schema = read.get("schema")
        if columns := read.get("columnLineage"):
            edges = tuple(self._column_edges(columns))
            use.columns = ColumnSet(_signed(facets["columnLineage"].digest), edges)
        if symlinks := read.get("symlinks"):
            tables = [link for link in symlinks.identifiers or () if link.type.upper() == "TABLE"]
            links = [self.name(link.namespace, link.name) for link in tables if name_fits(link.namespace, link.name)]
            use.symlinks = tuple(link for link in links if link[:2] != use.key)
        if kind := read.get("datasetType"):
            use.type = use.told_type = kind.dataset_type.lower()
        if location := read.get("headgate_location"):
            use.location = _text(location.location)
        if lifecycle := read.get("lifecycleStateChange"):
            use.lifecycle = lifecycle.lifecycle_state_change.upper()
            if previous := lifecycle.previous_identifier:
                use.previous = self.name(previous.namespace, previous.name)
        if lineage := read.get("lineage"):
            use.sources = list(self._sources(lineage.inputs or ()))
        if origin := read.get("headgate_origin"):
            use.client_hash = _text(origin.client_hash)
            use.origin_run = origin.run_id

    def _measure(self, facts: Facts, use: DatasetUse, facets: Facets, inputs: Facets, outputs: Facets) -> None:
        for group, directions in ((outputs, _OUTPUT_METRICS), (inputs, _INPUT_METRICS), (facets, _FACET_METRICS)):
            for name in group:
                direction = directions.get(name)
                if direction is None:
                    continue
                # The dataset's own facets have been read, and counted if wrong, with what they say of it.
                value = group[name].value if group is facets else _value(facts, name, group[name])
                if value is not None:
                    if isinstance(value, AssertionsFacet):
                        facts.tests.extend(_assertions(use.dataset, value, facts.event_type))
                    else:
                        self._metric(facts, use, direction, value)

    def _metric(self, facts: Facts, use: DatasetUse, direction: str, value: StatisticsFacet) -> None:
        size = _number(value.size)
        figures = (
            _number(value.row_count),
            size if size is not None else _number(value.bytes),
            _number(value.file_count),
            _number(value.partition_count),
            value.column_metrics or None,
        )
        if figures != _NO_FIGURES:
            facts.metrics.append(Metric(use.dataset, direction, *figures, sent_urn=use.sent_urn))

    def _column_edges(self, facet: ColumnLineageFacet) -> Iterable[ColumnEdge]:
        merged: dict[tuple[tuple[str, str], str, str], ColumnEdge] = {}
        for column, output in facet.fields.items():
            for source in output.input_fields:
                if _fits_columns(source, column):
                    _add_edge(merged, self._column_edge(source, column, output))
        for source in facet.dataset or ():
            if _fits_columns(source, ""):
                _add_edge(merged, self._column_edge(source, "", None))
        return merged.values()

    def _column_edge(self, source: InputField, column: str, output: OutputField | None) -> ColumnEdge:
        told = [
            (_kind(step.type.upper(), _text(step.subtype), step.masking), _text(step.description))
            for step in source.transformations or ()
        ]
        kinds = [kind for kind, _ in told]
        expression = _telling(told)
        if not kinds and output is not None and output.transformation_type:
            kinds.append(_legacy_kind(output.transformation_type))
        if expression is None and output is not None:
            expression = _text(output.transformation_description)
        return ColumnEdge(
            self.name(source.namespace, source.name),
            source.field,
            column,
            tuple(kinds) or (_kind("DIRECT"),),
            expression,
        )

    def _partition_context(self, facts: Facts) -> None:
        if facts.partition_context is None:
            contexts = [use for use in facts.uses if use.context]
            if contexts:
                # Outputs stand last; the first of them speaks for the run, else the first input.
                outputs = [use for use in contexts if use.role == "output"]
                facts.partition_context = (outputs or contexts)[0].context


def _value(facts: Facts | JobFacts, name: str, facet: Facet) -> Any:
    if facet.invalid:
        facts.invalid_facets.append(name)
    return facet.value


def _bodies(facets: Facets) -> tuple[dict[str, bytes | None], int]:
    """Facet bodies by name (None where the producer deleted one), and a hash over all of them."""
    bodies = {name: None if facet.deleted else facet.body for name, facet in facets.items()}
    digests = b"".join(sorted(name.encode() + facet.digest for name, facet in facets.items()))
    return bodies, _signed(hashlib.blake2b(digests, digest_size=8).digest())


def _event_type(checked: Checked) -> str | None:
    if checked.kind != "run":
        return None
    kind = checked.event.eventType
    return "OTHER" if isinstance(kind, UnsetType) else kind


def _assertions(dataset: DatasetName, facet: AssertionsFacet, event_type: str | None) -> Iterable[TestResult]:
    for item in facet.assertions:
        # An aborted run lists the tests it never got to as unsuccessful, with nothing observed.
        was_skipped = event_type == "ABORT" and not item.success and not item.actual
        name = _text(item.name) or item.assertion
        column = _text(item.column)
        yield TestResult(
            dataset=dataset,
            key=test_key(name, column),
            name=name,
            assertion=item.assertion,
            column=column,
            status="skipped" if was_skipped else "passed" if item.success else "failed",
            severity=severity_of(_text(item.severity)),
            expected=_text(item.expected),
            actual=_text(item.actual),
            description=_text(item.description),
            detail=_detail(item),
        )


def _badness(test: TestResult) -> int:
    """Of results of one test in one event the worst counts; that one was left out is no pass."""
    if test.status in ("failed", "error"):
        return 3 if test.severity == "error" else 2
    return 1 if test.status == "skipped" else 0


def _detail(item: Any) -> dict[str, Any]:
    parts: Mapping[str, Any] = {
        "content": item.content,
        "content_type": item.content_type,
        "params": item.params,
    }
    return {name: value for name, value in parts.items() if value is not UNSET and value}


def _fits_columns(source: InputField, column: str) -> bool:
    """Names beyond any database's are left out: they could not be looked up."""
    longest = max(len(source.field.encode()), len(column.encode()))
    return longest <= MAX_COLUMN_BYTES and name_fits(source.namespace, source.name)


def _add_edge(merged: dict[tuple[tuple[str, str], str, str], ColumnEdge], edge: ColumnEdge) -> None:
    """The same pair of columns may be named more than once; its kinds add up."""
    key = (edge.source[:2], edge.source_column, edge.target_column)
    seen = merged.get(key)
    if seen is not None:
        kinds = (*seen.kinds, *(kind for kind in edge.kinds if kind not in seen.kinds))
        edge = edge._replace(kinds=kinds, expression=seen.expression or edge.expression)
    merged[key] = edge


def _kind(type_: str, subtype: str | None = None, masking: object = None) -> tuple[tuple[str, Any], ...]:
    return (("type", type_), ("subtype", subtype.upper() if subtype else None), ("masking", masking is True))


def _telling(told: Sequence[tuple[tuple[tuple[str, Any], ...], str | None]]) -> str | None:
    """The expression of the step that the edge is labelled after, so that label and expression say the same."""
    said = [text for _, text in told if text]
    if len(set(said)) < 2:
        return said[0] if said else None
    label = label_of([dict(kind) for kind, _ in told], None)
    return next((text for kind, text in told if text and label_of([dict(kind)], None) is label), said[0])


def _legacy_kind(transformation_type: str) -> tuple[tuple[str, Any], ...]:
    subtype = transformation_type.upper()
    return _kind("DIRECT", "TRANSFORMATION", True) if subtype == "MASKED" else _kind("DIRECT", subtype)


def _signed(digest: bytes) -> int:
    return int.from_bytes(digest, "big", signed=True)


def _text(value: str | UnsetType | None) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: int | UnsetType | None) -> int | None:
    return value if isinstance(value, int) else None
