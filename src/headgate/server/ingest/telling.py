"""What of pipelines somebody may want to be told: the same events that a pipeline's own alerts know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from headgate.openlineage.facts import Facts
from headgate.openlineage.pipelines import NodeTold, PipelineTold
from headgate.pipelines.alerts.events import Alert, alert_of_whole, alerts_within_node
from headgate.pipelines.config.alerts import AlertEvent
from headgate.pipelines.record import Status
from headgate.server.queue import NewTask, content_hash

_ENDS = frozenset({"COMPLETE", "FAIL", "ABORT"})


def told(events: Sequence[Facts]) -> list[NewTask]:
    """A task for each event of a pipeline or of a node in these; one that was told already is not told again."""
    return [_task(alert, node) for facts in events for alert, node in _alerts(facts)]


def _alerts(facts: Facts) -> Iterator[tuple[Alert, NodeTold | None]]:
    if facts.pipeline is not None and (alert := _of_pipeline(facts, facts.pipeline)):
        yield alert, None
    node = facts.node
    if node is not None and facts.event_type in _ENDS and not node.facet.handles_batch:
        for each in alerts_within_node(node.facet.project, node.facet):
            yield each, node


def _of_pipeline(facts: Facts, pipeline: PipelineTold) -> Alert | None:
    facet = pipeline.facet
    if facts.event_type == "START":
        event = AlertEvent.on_start
    elif facts.event_type not in _ENDS:
        return None
    elif facts.event_type == "COMPLETE" and facet.status in (None, Status.published):
        event = AlertEvent.on_success
    else:
        event = AlertEvent.on_failure
    began, ended = facet.started_at, facet.ended_at
    return alert_of_whole(
        event,
        facts.event_time,
        project=facet.project,
        pipeline=facet.pipeline,
        run_id=str(facts.run_id),
        ended_as=facet.status,
        duration_s=(ended - began).total_seconds() if began and ended else 0.0,
        details={"run_details": {"environment": facet.environment, "file": facet.file}},
    )


def _task(alert: Alert, node: NodeTold | None) -> NewTask:
    output = None if node is None else node.output
    payload: dict[str, Any] = msgspec.to_builtins(alert) | {
        "dataset": None if output is None else {"namespace": output.namespace, "name": output.name, "urn": output.urn}
    }
    resource = f"{alert.run_id}:{alert.event}"
    return NewTask("ALERT", "PIPELINE_EVENT", resource, content_hash(resource), payload)
