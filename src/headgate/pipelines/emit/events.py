"""The events of a run: of each pipeline, of each node in it, and of the tests of a node.

Made of records alone: the same record gives the same event, so one that is sent twice is known as such.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

from msgspec import to_builtins
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import JobFacet, RunFacet, processing_engine_run

from headgate.pipelines.alerts.send import Sent
from headgate.pipelines.config.node import OnError
from headgate.pipelines.emit import facets
from headgate.pipelines.emit.facets import PRODUCER, OwnFacet
from headgate.pipelines.places import Address, Kind
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.record import DatasetRef, NodeRecord, RunRecord, Status, overall

_ENDS = {
    Status.published: RunState.COMPLETE,
    Status.skipped: RunState.ABORT,
    Status.stopped: RunState.FAIL,
    Status.failed: RunState.FAIL,
}
_BAD = (Status.failed, Status.stopped)
_MAX_TEXT = 4000
_MAX_ALERTS = 10_000
_QUERY = "(query)"


def pipeline_run_id(run: RunRecord, pipeline: str) -> str:
    """The run of one pipeline: the run itself, unless it has several."""
    return run.run_id if len(run.pipelines) == 1 else str(uuid5(UUID(run.run_id), pipeline))


def run_id_of_tests(record: NodeRecord) -> str:
    """The run that tells of a node's tests; always the same one."""
    return str(uuid5(UUID(record.run_id), "tests"))


@dataclass(frozen=True)
class Events:
    """What is told of the runs of a plan; `engine` is the name and version of what works on the rows."""

    plan: Plan
    engine: tuple[str, str] | None = None

    def pipeline_started(self, run: RunRecord, pipeline: str) -> RunEvent:
        told = self._pipeline_facet(run, pipeline)
        return self._pipeline_event(RunState.START, run, pipeline, told, at=_or_now(run.started_at))

    def pipeline_ended(self, run: RunRecord, pipeline: str, alerts: Sequence[Sent] = ()) -> RunEvent:
        nodes = [node for node in run.nodes if node.pipeline == pipeline]
        status = run.status if len(run.pipelines) == 1 else overall([each for each in nodes if not self._ignored(each)])
        at = _or_now(run.ended_at)
        told = self._pipeline_facet(run, pipeline) | {"status": status, "ended_at": at}
        own = [sent for sent in alerts if sent.alert.pipeline == pipeline]
        more: dict[str, RunFacet] = {}
        if own:
            more["headgate_alerts"] = OwnFacet("AlertsRunFacet", _alerts(own))
        reasons = [_why(node) for node in nodes if node.status in _BAD]
        if reasons and status in _BAD:
            more["errorMessage"] = facets.error("\n".join(reasons))
        kind = _end(status, run, has_left_work=any(node.status is Status.skipped for node in nodes))
        return self._pipeline_event(kind, run, pipeline, told, more, at=at)

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> RunEvent:
        told = {"pipeline": record.pipeline, "name": record.name, "run_id": record.run_id, "attempt": record.attempt}
        told |= {"started_at": record.started_at, "project": run.project}
        inputs = [facets.read(each, self._link(run)) for each in self._planned_inputs(node)]
        outputs = [facets.named(each, self._link(run)) for each in _known(node.target)]
        at = _or_now(record.started_at)
        return self._node_event(RunState.START, run, record, told, {}, inputs, outputs, at=at)

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> Iterator[RunEvent]:
        """How a node ended, and how its tests went."""
        inputs = list(record.inputs or self._planned_inputs(node))
        target = record.output or next(iter(_known(node.target)), None)
        at = _or_now(record.ended_at)
        if record.tests:
            yield from self._tests(run, record, target, at)
        more: dict[str, RunFacet] = {}
        if record.error or record.status is Status.stopped:
            more["errorMessage"] = facets.error(_why(record))
        if record.status is Status.skipped:
            # It has touched nothing: what it would have read and written is told by the runs that did.
            inputs, outputs = [], []
        else:
            outputs = list(self._outputs(run, record, target))
        yield self._node_event(
            _end(record.status, run),
            run,
            record,
            self._node_facet(run, node, record, inputs, target),
            more,
            [facets.read(each, self._link(run)) for each in inputs],
            outputs,
            at=at,
        )

    def _tests(self, run: RunRecord, record: NodeRecord, target: DatasetRef | None, at: datetime) -> Iterator[RunEvent]:
        job = f"{record.pipeline}.{record.name}"
        beside = {"parent": facets.parent(run.project, job, record.run_id, _root(run, record.pipeline))}
        results: dict[str, RunFacet] = {}
        rest = [test for test in record.tests if target is None or test.status not in facets.JUDGED]
        if rest:
            results["test"] = facets.executions(rest)
        inputs = [] if target is None else [facets.tested(target, record.tests, self._link(run))]
        kinds = facets.job_facets("TEST", owner=record.owner, tags=record.tags)
        names = (run.project, f"{job}.tests")
        run_id = run_id_of_tests(record)
        yield _event(RunState.START, run_id, names, beside, kinds, at=_or_now(record.started_at or at))
        yield _event(RunState.COMPLETE, run_id, names, beside | results, kinds, inputs, at=at)

    def _outputs(self, run: RunRecord, record: NodeRecord, target: DatasetRef | None) -> Iterator[OutputDataset]:
        if target is not None:
            is_there = record.status is Status.published
            link = self._link(run)
            yield facets.published(target, record, link) if is_there else facets.named(target, link)
        if record.quarantine is not None:
            yield facets.set_apart(record.quarantine, self._link(run))

    def _pipeline_facet(self, run: RunRecord, pipeline: str) -> dict[str, Any]:
        return {
            "project": run.project,
            "pipeline": pipeline,
            "environment": _cut(run.environment),
            "file": _cut(run.file),
            "run_id": run.run_id,
            "nodes": [node.config.name for node in self.plan.nodes if node.pipeline.pipeline == pipeline],
            "started_at": run.started_at,
        }

    def _node_facet(
        self, run: RunRecord, node: Node, record: NodeRecord, inputs: list[DatasetRef], target: DatasetRef | None
    ) -> dict[str, Any]:
        told: dict[str, Any] = _plain(record) | {"project": run.project}
        told["inputs"] = _plain(inputs)
        told["output"] = _plain(target)
        if node.config.freshness is not None:
            told["freshness"] = {"max_age_hours": node.config.freshness.max_age.total_seconds() / 3600}
        return told

    def _pipeline_event(
        self,
        kind: RunState,
        run: RunRecord,
        pipeline: str,
        told: dict[str, Any],
        more: dict[str, RunFacet] | None = None,
        *,
        at: datetime,
    ) -> RunEvent:
        config = next(each for each in self.plan.loaded.project.pipelines if each.pipeline == pipeline)
        project = self.plan.loaded.project
        kinds = facets.job_facets(
            "PIPELINE",
            owner=config.owner or project.owner,
            tags=dict.fromkeys([*project.tags, *config.tags]),
            description=config.description,
        )
        own = {"headgate_pipeline": OwnFacet("PipelineRunFacet", _plain(told)), **self._engine()}
        return _event(kind, pipeline_run_id(run, pipeline), (run.project, pipeline), own | (more or {}), kinds, at=at)

    def _node_event(
        self,
        kind: RunState,
        run: RunRecord,
        record: NodeRecord,
        told: dict[str, Any],
        more: dict[str, RunFacet],
        inputs: list[InputDataset],
        outputs: list[OutputDataset],
        *,
        at: datetime,
    ) -> RunEvent:
        upper = facets.parent(run.project, record.pipeline, pipeline_run_id(run, record.pipeline))
        own = {"headgate_node": OwnFacet("NodeRunFacet", _plain(told)), "parent": upper, **self._engine()}
        kinds = facets.job_facets("NODE", owner=record.owner, tags=record.tags, description=record.description)
        names = (run.project, f"{record.pipeline}.{record.name}")
        return _event(kind, record.run_id, names, own | more, kinds, inputs, outputs, at=at)

    def _engine(self) -> dict[str, RunFacet]:
        if self.engine is None:
            return {}
        name, number = self.engine
        found = processing_engine_run.ProcessingEngineRunFacet(number, name, facets.VERSION, producer=PRODUCER)
        return {"processing_engine": found}

    def _planned_inputs(self, node: Node) -> list[DatasetRef]:
        """What the node is going to read: its source, and what the nodes before it have written or read."""
        found = _known(node.source)
        for name in node.config.depends_on:
            other = self.plan.node((node.pipeline.pipeline, name))
            found += self._planned_inputs(other) if other.target is None else _known(other.target)
        return list(dict.fromkeys(found))

    def _link(self, run: RunRecord) -> str:
        """The same words mean other datasets in another environment."""
        return f"headgate:{run.project}" + (f"/{run.environment}" if run.environment else "")

    def _ignored(self, record: NodeRecord) -> bool:
        node = next((each for each in self.plan.nodes if each.key == (record.pipeline, record.name)), None)
        if node is None or record.status not in _BAD:
            return False
        return self.plan.on_error(node) is OnError.ignore


def _event(
    kind: RunState,
    run_id: str,
    job: tuple[str, str],
    run_facets: dict[str, RunFacet],
    job_facets: dict[str, JobFacet],
    inputs: list[InputDataset] | None = None,
    outputs: list[OutputDataset] | None = None,
    *,
    at: datetime,
) -> RunEvent:
    return RunEvent(
        eventType=kind,
        eventTime=_spelled(at),
        run=Run(run_id, dict(run_facets)),
        job=Job(*job, dict(job_facets)),
        inputs=inputs or [],
        outputs=outputs or [],
        producer=PRODUCER,
    )


def _end(status: Status, run: RunRecord, *, has_left_work: bool = False) -> RunState:
    """How a run is said to have ended; what was broken off by somebody is no failure of its own."""
    if run.is_interrupted and (status is Status.failed or has_left_work):
        return RunState.ABORT
    return _ENDS[status]


def _known(address: Address | None) -> list[DatasetRef]:
    """The dataset of an address. What only the session can name, and a query, are told by the record alone."""
    if address is None or address.kind in (Kind.table, Kind.query) or address.location == _QUERY:
        return []
    return [DatasetRef(address.namespace, address.name, address.label)]


def _root(run: RunRecord, pipeline: str) -> tuple[str, str]:
    return pipeline, pipeline_run_id(run, pipeline)


def _why(record: NodeRecord) -> str:
    words = record.error or "; ".join(record.reasons) or f"it was {record.status}"
    return f"{record.pipeline}.{record.name}: {words}"


def _alerts(alerts: Sequence[Sent]) -> dict[str, Any]:
    told = [
        {
            "event": str(sent.alert.event),
            "channel": _cut(sent.channel),
            "outcome": str(sent.outcome),
            "at": sent.at,
            "node": sent.alert.node,
            "reason": sent.reason,
            "message": sent.alert.message,
        }
        for sent in alerts[:_MAX_ALERTS]
    ]
    return {"alerts": _plain(told)}


def _plain(value: Any) -> Any:
    return to_builtins(value, str_keys=True, enc_hook=str)


def _cut(text: str | None) -> str | None:
    return text if text is None else text[:_MAX_TEXT]


def _or_now(at: datetime | None) -> datetime:
    return at or datetime.now(UTC)


def _spelled(at: datetime) -> str:
    moment = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return moment.isoformat().replace("+00:00", "Z")
