"""Which datasets a simple metadata payload means, what one job does with them, and what it left out.

Works on names and figures; jobs, runs and times belong to `simple_metadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from headgate.domain import names
from headgate.domain.partitions import Patterns
from headgate.openlineage.simple_body import ColumnPair, Declared, Edge, Statistics, name_fits
from headgate.openlineage.simple_events import Dataset, dataset_of, facet

Spelled = tuple[str, str]

_TRANSFORMATIONS: Mapping[str, tuple[str, str]] = {
    "DIRECT": ("DIRECT", "IDENTITY"),
    "EXPRESSION": ("DIRECT", "TRANSFORMATION"),
    "AGGREGATE": ("DIRECT", "AGGREGATION"),
    "JOIN": ("INDIRECT", "JOIN"),
    "FILTER": ("INDIRECT", "FILTER"),
    "CASE": ("INDIRECT", "CONDITIONAL"),
}


class NameBook:
    """The dataset behind each name of one payload: where an input or output declares it, that one decides.

    Edges, columns and metrics give bare names; read alone they would move a dataset to another namespace.
    """

    def __init__(
        self,
        inputs: Sequence[Declared],
        outputs: Sequence[Declared],
        default_namespace: str,
        patterns: Patterns,
    ) -> None:
        self._inputs = _by_name(inputs)
        self._outputs = _by_name(outputs)
        self._default_namespace = default_namespace
        self._patterns = patterns
        self._found: dict[Declared, Dataset] = {}
        self.too_long: set[str] = set()

    def source(self, name: str) -> Dataset:
        return self.declared(self._inputs.get(name) or self._outputs.get(name) or Declared(name))

    def target(self, name: str) -> Dataset:
        return self.declared(self._outputs.get(name) or self._inputs.get(name) or Declared(name))

    def declared(self, item: Declared) -> Dataset:
        """The dataset of a declaration; one without a place takes it from its namesake on either side."""
        if not item.has_place():
            namesakes = (self._outputs.get(item.name), self._inputs.get(item.name))
            placed = next((other for other in namesakes if other and other.has_place()), item)
            item = replace(placed, type=item.type or placed.type)
        found = self._found.get(item)
        if found is None:
            found = self._found[item] = self._resolve(item)
        return found

    def _resolve(self, item: Declared) -> Dataset:
        found = dataset_of(
            item.name,
            location=item.location,
            database=item.database,
            catalog=item.catalog,
            declared_type=item.type,
            default_namespace=self._default_namespace,
            patterns=self._patterns,
        )
        if not name_fits(found.namespace, found.name):
            self.too_long.add(item.name)
        return found


class Draft:
    """What one job reads and writes, gathered from every part of a payload that says something about it."""

    def __init__(self, book: NameBook) -> None:
        self._book = book
        self._inputs: dict[Spelled, Dataset] = {}
        self._outputs: dict[Spelled, Dataset] = {}
        self._left_out: set[Spelled] = set()
        self._edges: dict[tuple[Spelled, Spelled], tuple[Dataset, Dataset]] | None = None
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> list[str]:
        return list(self._notes)

    def keys(self) -> set[Spelled]:
        return {dataset.key for dataset in (*self._inputs.values(), *self._outputs.values())}

    def declare(self, inputs: Iterable[Declared], outputs: Iterable[Declared]) -> None:
        for item in outputs:
            self._write(self._book.declared(item))
        for item in inputs:
            found = self._book.declared(item)
            if not self._is_staging(found):
                self._read(found)

    def connect(self, edges: Iterable[Edge]) -> None:
        """Record these edges and no others; ends that were not declared become datasets too."""
        self._edges = {}
        for edge in edges:
            source, target = self._book.source(edge.source), self._book.target(edge.target)
            if source.key == target.key:
                self._note(f"edge from {edge.source!r} to itself left out")
            elif not self._is_staging(source):
                self._edges[source.spelled, target.spelled] = source, target
        known = self.keys()
        for _, target in self._edges.values():
            if target.key not in known:
                self._write(target)
        known = self.keys()
        for source, _ in self._edges.values():
            if source.key not in known:
                self._read(source)

    def trace(self, pairs: Iterable[ColumnPair]) -> None:
        """Put column lineage on each target table, and take the tables it comes from as inputs."""
        sources: dict[Spelled, Dataset] = {}
        steps: dict[tuple[Spelled, Spelled, str, str], list[dict[str, Any]]] = {}
        for pair in pairs:
            source = self._book.source(pair.source_table)
            if self._is_staging(source):
                continue
            sources[source.spelled] = source
            target = self._write(self._book.target(pair.target_table))
            place = (target.spelled, source.spelled, pair.target_column, pair.source_column)
            if place not in steps:
                steps[place] = _input_field(target, source, pair)
            if (step := _transformation(pair)) not in steps[place]:
                steps[place].append(step)
        written = {dataset.key for dataset in self._outputs.values()}
        for source in sources.values():
            if source.key not in written:
                self._read(source)

    def drop_self_reads(self) -> None:
        """A job that reads back what it writes would seem to feed itself."""
        written = {dataset.key for dataset in self._outputs.values()}
        for dataset in [found for found in self._inputs.values() if found.key in written]:
            self._left_out.add(self._inputs.pop(dataset.spelled).spelled)
            self._note(f"input {_shown(dataset)} left out: the job writes it itself")

    def measure(self, metrics: Mapping[str, Statistics | None]) -> None:
        """Figures of written datasets and of read ones; a name that is neither counts as written."""
        for name, figures in metrics.items():
            source, target = self._book.source(name), self._book.target(name)
            if target.spelled not in self._outputs and source.spelled in self._inputs:
                _set_figures(self._inputs[source.spelled], "inputStatistics", figures)
            elif target.spelled not in self._outputs and source.spelled in self._left_out:
                self._note(f"metrics of {name!r} left out with their input")
            else:
                _set_figures(self._write(target), "outputStatistics", figures)

    def edge_count(self) -> int:
        if self._edges is not None:
            return len(self._edges)
        reads, writes = ({dataset.key for dataset in side.values()} for side in (self._inputs, self._outputs))
        return len(reads) * len(writes)

    def rendered(self) -> dict[str, Any]:
        return {
            "inputs": [dataset.rendered("inputFacets") for dataset in self._inputs.values()],
            "outputs": [dataset.rendered("outputFacets") for dataset in self._outputs.values()],
        }

    def job_facets(self) -> dict[str, Any]:
        """The explicit edges, if any: without them a reader pairs every input with every output."""
        if self._edges is None:
            return {}
        entries: dict[Spelled, dict[str, Any]] = {place: _entry(found) for place, found in self._outputs.items()}
        for source, target in self._edges.values():
            entry = entries.setdefault(target.spelled, _entry(target))
            entry["inputs"].append(source.identifier() | {"type": "DATASET"})
        return {"lineage": facet("lineage", entries=list(entries.values()))}

    def _read(self, dataset: Dataset) -> None:
        if dataset.spelled not in self._inputs:
            self._inputs[dataset.spelled] = dataset.copied()

    def _write(self, dataset: Dataset) -> Dataset:
        if dataset.spelled not in self._outputs:
            self._outputs[dataset.spelled] = dataset.copied()
        return self._outputs[dataset.spelled]

    def _is_staging(self, dataset: Dataset) -> bool:
        if not names.is_staging(dataset.name):
            return False
        self._left_out.add(dataset.spelled)
        self._note(f"input {_shown(dataset)} left out: it lies in a staging folder")
        return True

    def _note(self, text: str) -> None:
        self._notes[text] = None


def _by_name(items: Iterable[Declared]) -> dict[str, Declared]:
    found: dict[str, Declared] = {}
    for item in items:
        known = found.get(item.name)
        if known is None or (item.has_place() and not known.has_place()):
            found[item.name] = item
    return found


def _input_field(target: Dataset, source: Dataset, pair: ColumnPair) -> list[dict[str, Any]]:
    """A new source column under a target column; gives the list that its transformations go to."""
    if "columnLineage" not in target.facets:
        target.facets["columnLineage"] = facet("columnLineage", fields={})
    column = target.facets["columnLineage"]["fields"].setdefault(pair.target_column, {"inputFields": []})
    steps: list[dict[str, Any]] = []
    column["inputFields"].append(
        source.identifier() | {"field": pair.source_column, "transformations": steps},
    )
    return steps


def _transformation(pair: ColumnPair) -> dict[str, str]:
    spoken = (pair.transformation_type or "").strip().upper() or "DIRECT"
    kind, subtype = _TRANSFORMATIONS.get(spoken, ("DIRECT", spoken))
    step = {"type": kind, "subtype": subtype}
    return step | {"description": pair.expression} if pair.expression else step


def _set_figures(dataset: Dataset, name: str, figures: Statistics | None) -> None:
    if figures is None or figures == Statistics():
        return
    dataset.use_facets[name] = facet(
        name,
        rowCount=figures.row_count,
        size=figures.byte_size,
        fileCount=figures.file_count,
        partitionCount=figures.partition_count,
    )


def _entry(dataset: Dataset) -> dict[str, Any]:
    return dataset.identifier() | {"type": "DATASET", "inputs": []}


def _shown(dataset: Dataset) -> str:
    return repr(f"{dataset.namespace}/{dataset.name.lstrip('/')}")
