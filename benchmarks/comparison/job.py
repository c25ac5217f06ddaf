"""Runs the catalogue of queries under one agent and prints, as one line of JSON, what the server then knows of each."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.queries import QUERIES, Query, open_shop, prepare_shop
from tests.support.spark_jobs import spark_minor, spark_version
from tests.support.watching import Watched, short

from headgate.client import HeadgateClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSH_MS = 60_000


class Watcher:
    """A session under any agent; every run that the server knows is this session's."""

    def __init__(self, spark: SparkSession, client: HeadgateClient) -> None:
        self.spark = spark
        self.client = client
        self._known: set[str] = set()

    def new_runs(self) -> list[dict[str, Any]]:
        self._flush()
        ids = {run["run_id"] for run in self.client.runs(limit=1000).items} - self._known
        self._known |= ids
        return [self.client.run(each) for each in sorted(ids)]

    def _flush(self) -> None:
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(FLUSH_MS)
        if "headgate" in self.spark.conf.get("spark.extraListeners", ""):
            assert self.spark._jvm is not None
            assert self.spark._jvm.headgate.spark.Agent.flush(FLUSH_MS), "the agent could not send everything"


def watch(conf: dict[str, str], url: str, key: str) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="headgate-compare-") as folder, HeadgateClient(url, key) as client:
        builder = SparkSession.builder.appName("comparison")
        for name, value in (conf | {"spark.sql.warehouse.dir": f"{folder}/warehouse"}).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("FATAL")
        prepare_shop(spark, folder)
        open_shop(spark, folder)
        watcher = Watcher(spark, client)
        chosen = [query for query in QUERIES if query.since <= spark_minor()]
        found = {query.name: seen(watcher, query, Path(folder) / f"q{n}") for n, query in enumerate(chosen)}
        spark.stop()
    return {"spark": spark_version(), "queries": found}


def seen(watcher: Watcher, query: Query, folder: Path) -> dict[str, Any]:
    """Edges into what the query wrote, and which facets told of it."""
    place = Watched(watcher, folder)  # type: ignore[arg-type]  # all that is asked of it, ours has
    query.prepare(place)
    watcher.new_runs()
    query.run(place)
    runs = watcher.new_runs()
    print(f"{query.name}: {len(runs)} runs", file=sys.stderr, flush=True)
    outputs = {output["id"]: _name(output["name"]) for run in runs for output in run["outputs"]}
    found = {
        "tables": sorted(_tables(watcher.client, outputs)),
        "columns": sorted(_columns(watcher.client, outputs)),
        "facets": sorted(_facets(watcher.client, [run["run_id"] for run in runs])),
    }
    place.close()
    return found


def _tables(client: HeadgateClient, outputs: dict[str, str]) -> set[tuple[str, str]]:
    found = set()
    for output, name in outputs.items():
        lineage = client.upstream(output, depth=1)
        names = {node.id: _name(node.name) for node in lineage.nodes}
        found |= {(names[edge.source], name) for edge in lineage.edges if str(edge.target) == output}
    return found


def _columns(client: HeadgateClient, outputs: dict[str, str]) -> set[tuple[str, str, str]]:
    return {
        (_column(edge.target), _column(edge.source), kind.subtype or kind.type)
        for output in outputs
        for edge in client.column_lineage(output).edges
        if str(edge.target.dataset_id) == output
        for kind in edge.kinds
    }


def _name(dataset: str) -> str:
    """The last part of a path or of a table's name; a view is named by its database, below the warehouse's path."""
    return short({"name": dataset}).rpartition(".")[2]


def _column(end: Any) -> str:
    name = _name(end.name)
    return f"{name}.{end.column}" if end.column else name


def _facets(client: HeadgateClient, runs: Iterable[str]) -> set[str]:
    found = set()
    for run in runs:
        for item in client.run_events(run, limit=100).items:
            event = item["event"]
            found |= {f"run {name}" for name in event["run"].get("facets", {})}
            found |= {f"job {name}" for name in event["job"].get("facets", {})}
            for side in ("inputs", "outputs"):
                found |= {f"{side} {facet}" for each in event.get(side, ()) for facet in _dataset_facets(each)}
    return found


def _dataset_facets(dataset: dict[str, Any]) -> set[str]:
    return {name for kind in ("facets", "inputFacets", "outputFacets") for name in dataset.get(kind, {})}


if __name__ == "__main__":
    print(json.dumps(watch(**json.loads(sys.argv[1]))))
