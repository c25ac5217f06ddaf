"""A Spark session with the agent in it, and what the server knows of each thing the session did."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.client import HeadgateClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSH_MS = 30_000
_numbers = itertools.count(1)


@dataclass
class Seen:
    """One user action, as it comes out of the server's API."""

    client: HeadgateClient
    run_id: str

    @cached_property
    def run(self) -> dict[str, Any]:
        return self.client.run(self.run_id)

    @property
    def state(self) -> str:
        return str(self.run["state"])

    @property
    def job(self) -> str:
        return str(self.run["job"]["name"])

    @property
    def inputs(self) -> set[str]:
        return {short(dataset) for dataset in self.run["inputs"]}

    @property
    def outputs(self) -> set[str]:
        return {short(dataset) for dataset in self.run["outputs"]}

    @property
    def input_rows(self) -> dict[str, int | None]:
        return {short(dataset): dataset["row_count"] for dataset in self.run["inputs"]}

    @property
    def output_rows(self) -> dict[str, int | None]:
        return {short(dataset): dataset["row_count"] for dataset in self.run["outputs"]}

    @cached_property
    def edges(self) -> set[tuple[str, str]]:
        """The edges that this action's job has into what it wrote."""
        found = set()
        for output in self.run["outputs"]:
            lineage = self.client.upstream(output["id"], depth=1)
            names = {node.id: short({"name": node.name}) for node in lineage.nodes}
            found |= {
                (names[edge.source], short(output))
                for edge in lineage.edges
                if str(edge.target) == output["id"] and self._is_ours(edge.job)
            }
        return found

    @cached_property
    def _column_edges(self) -> list[Any]:
        edges: list[Any] = []
        for output in self.run["outputs"]:
            into = self.client.column_lineage(output["id"]).edges
            edges += [e for e in into if str(e.target.dataset_id) == output["id"] and self._is_ours(e.job)]
        return edges

    @property
    def columns(self) -> set[str]:
        """`totals.total <- orders.amount AGGREGATION`; `totals <- orders.status FILTER` for the whole dataset."""
        return {
            f"{_column(edge.target)} <- {_column(edge.source)} {kind.subtype or kind.type}"
            for edge in self._column_edges
            for kind in edge.kinds
        }

    @property
    def expressions(self) -> dict[tuple[str, str], str | None]:
        return {(_column(edge.target), _column(edge.source)): edge.expression for edge in self._column_edges}

    @property
    def labels(self) -> dict[tuple[str, str], str]:
        return {(_column(edge.target), _column(edge.source)): edge.label for edge in self._column_edges}

    @cached_property
    def stages(self) -> list[dict[str, Any]]:
        return list(self.client.run_stages(self.run_id)["items"])

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        return [item["event"] for item in self.client.run_events(self.run_id, limit=100).items]

    @property
    def lost(self) -> list[str]:
        return list(self.run["facets"].get("headgate_extraction", {}).get("lost", []))

    def dataset(self, name: str) -> dict[str, Any]:
        """An input or output of its last event, facets and all."""
        last = self.events[-1]
        return next(each for each in [*last["outputs"], *last["inputs"]] if short(each) == name)

    def _is_ours(self, job: Any) -> bool:
        return str(job.id) == self.run["job"]["id"]


@dataclass
class Watcher:
    """The session and the server, for as long as the tests run."""

    spark: SparkSession
    client: HeadgateClient
    known: set[str] = field(default_factory=set)

    def new_runs(self) -> list[Seen]:
        """Runs of this application that were not there before, the earliest first."""
        self.flush()
        runs = self.client.runs(application_id=self.spark.sparkContext.applicationId, limit=1000).items
        fresh = [run for run in runs if run["run_id"] not in self.known and run["parent_run_id"] is not None]
        self.known |= {run["run_id"] for run in runs}
        fresh.sort(key=lambda run: (run["started_at"], run["run_id"]))
        return [Seen(self.client, run["run_id"]) for run in fresh]

    def flush(self) -> None:
        assert self.spark._jvm is not None
        assert self.spark._jvm.headgate.spark.Agent.flush(FLUSH_MS), "the agent could not send everything"


class Watched:
    """A test's own folder and database, in the session that all share."""

    def __init__(self, watcher: Watcher, folder: Path) -> None:
        self.spark = watcher.spark
        self.client = watcher.client
        self._watcher = watcher
        self._folder = folder

    def path(self, name: str) -> str:
        return str(self._folder / name)

    @cached_property
    def database(self) -> str:
        name = f"db{next(_numbers)}"
        self.spark.sql(f"CREATE DATABASE {name} LOCATION '{self._folder / name}'")
        self._watcher.new_runs()
        return name

    def table(self, name: str) -> str:
        return f"{self.database}.{name}"

    def do(self, action: Callable[[], object]) -> list[Seen]:
        """Do it, and say what the server then knows of it."""
        self._watcher.new_runs()
        action()
        return self._watcher.new_runs()

    def one(self, action: Callable[[], object]) -> Seen:
        seen = self.do(action)
        assert len(seen) == 1, [each.job for each in seen]
        return seen[0]

    def close(self) -> None:
        if "database" in self.__dict__:
            self.spark.sql(f"DROP DATABASE {self.database} CASCADE")


def short(dataset: Mapping[str, Any]) -> str:
    """The last part of a path or of a table's name."""
    name = str(dataset["name"]).rstrip("/").rpartition("/")[2]
    return name if "/" in dataset["name"] else name.rpartition(".")[2]


def _column(end: Any) -> str:
    name = short({"name": end.name})
    return f"{name}.{end.column}" if end.column else name
