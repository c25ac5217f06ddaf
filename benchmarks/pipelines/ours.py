"""Our side: a pipeline file, loaded, planned and run by the engine of `headgate run`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from benchmarks.pipelines import suite
from headgate.pipelines.history import History, Memory
from headgate.pipelines.home import Home, connect
from headgate.pipelines.load import load
from headgate.pipelines.plan import make_plan
from headgate.pipelines.record import NodeRecord, Status
from headgate.pipelines.spark.engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKS: Mapping[str, Sequence[suite.Test]] = {
    "checks": suite.TEN,
    "checks_unique": [*suite.TEN, suite.UNIQUE],
    "tests50": suite.fifty(),
}


def works(spark: SparkSession, source: Path, target: Path) -> dict[str, Callable[[], None]]:
    return {name: partial(_run, spark, _file(source, target / name, tests)) for name, tests in WORKS.items()}


def _run(spark: SparkSession, file: Path) -> None:
    plan = make_plan(load(file))
    project = plan.loaded.project.project
    with ExitStack() as stack:
        server = stack.enter_context(connect(plan.loaded, is_offline=True))
        history = History(server, Memory(Home.of(plan.loaded).nodes, project), project)
        engine = SparkEngine(spark, plan, str(uuid4()), history)
        stack.callback(engine.close)
        for node in plan.nodes:
            record = engine.run(node, NodeRecord(*node.key, run_id=str(uuid4())), {})
            if record.status is not Status.published:
                raise RuntimeError(f"{file}: the run was {record.status}: {record.reasons}")


def _file(source: Path, target: Path, tests: Sequence[suite.Test]) -> Path:
    """The pipeline file, beside its target; what is JSON is YAML too."""
    file = target.with_suffix(".yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_project(source, target, suite.quarantining(tests))))
    return file


def _project(source: Path, target: Path, tests: Sequence[suite.Test]) -> dict[str, Any]:
    node = {
        "name": "trips",
        "read": {"connection": "source", "path": source.name},
        "validation": {"tests": tests, "quarantine": {"connection": "target", "path": "rejected"}},
        "gate": {"require_pass_rate": 0.9},
        "write": {"connection": "target", "path": "valid"},
    }
    return {
        "project": "bench",
        "connections": {
            "source": {"type": "local", "base_path": os.fspath(source.parent)},
            "target": {"type": "local", "base_path": os.fspath(target)},
        },
        "pipelines": [{"pipeline": "taxi", "nodes": [node]}],
    }
