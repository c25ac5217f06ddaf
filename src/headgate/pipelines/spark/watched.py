"""What the Spark agent is told of an engine's work: the pass, as a write to the target, and nothing else of it.

All the rest (looking for duplicates, counting, setting rows apart, merging) reads and writes staging only, and the node
tells its outcome itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.record import NodeRecord
from headgate.pipelines.spark.naming import dataset
from headgate.pipelines.spark.session import SILENT

_TARGETS = "spark.headgate.action.targets"
_PARENT = "spark.headgate.action.parent"


def _lives_on_staging(plan: Plan, node: Node) -> bool:
    """Whether it reads what another node keeps in staging, which is a dataset to nobody."""
    others = [plan.node((node.pipeline.pipeline, name)) for name in node.config.depends_on]
    return any(other.target is None for other in others)


@contextmanager
def told(spark: SparkSession, plan: Plan, node: Node, record: NodeRecord, staging: str) -> Iterator[None]:
    """What is written to staging meanwhile is told as written to the target, as a part of the node's run."""
    target = None if node.target is None else dataset(spark, node.target)
    if target is None or _lives_on_staging(plan, node):
        yield
        return
    settings = {
        SILENT: "false",
        _TARGETS: f"{staging}\t{target.namespace}\t{target.name}",
        _PARENT: f"{plan.loaded.project.project}/{node.job_name}/{record.run_id}",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.unset(_TARGETS)
        spark.conf.unset(_PARENT)
        spark.conf.set(SILENT, "true")
