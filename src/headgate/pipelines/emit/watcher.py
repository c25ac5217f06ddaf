"""Hears what a run does and tells the server; whatever goes wrong here is logged, and the run goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec

from openlineage.client import OpenLineageClient
from openlineage.client.client import Event
from openlineage.client.event_v2 import RunEvent
from openlineage.client.transport import Transport

from headgate.errors import ConfigError
from headgate.pipelines.alerts.send import Sent
from headgate.pipelines.emit.events import Events
from headgate.pipelines.emit.facets import encoded
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.record import NodeRecord, RunRecord
from headgate.pipelines.spool import Outbox, Standing

P = ParamSpec("P")

# The address of the repository, which the client would add, may carry a password.
_CONFIG: dict[str, Any] = {"facets": {"source_code_location": {"disabled": True}}}

_log = logging.getLogger(__name__)


class OutboxTransport(Transport):
    """Lets the official client send by way of the outbox."""

    kind = "headgate"

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def emit(self, event: Event) -> None:
        assert isinstance(event, RunEvent), "a run tells of runs only"
        self._outbox.send(encoded(event))


def _harmless(method: Callable[P, None]) -> Callable[P, None]:
    """The boundary to the run: nothing that happens in here may end it."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            _log.warning("the server is not told all of this run; this is a bug in headgate", exc_info=True)

    return guarded


class Emitter:
    """A watcher that sends OpenLineage. Those that send alerts have to be told before it of the end of a run."""

    def __init__(
        self,
        plan: Plan,
        outbox: Outbox,
        *,
        engine: tuple[str, str] | None = None,
        alerts: Callable[[], Sequence[Sent]] = tuple,
    ) -> None:
        """`engine` is its name and version; `alerts` is asked when the run has ended."""
        self._outbox = outbox
        self._events = Events(plan, engine)
        self._alerts = alerts
        self._ended: set[str] = set()
        self._client = _client(outbox)

    @property
    def standing(self) -> Standing:
        """What became of the events so far."""
        return self._outbox.standing

    @_harmless
    def run_started(self, run: RunRecord) -> None:
        if not isinstance(self._client.transport, OutboxTransport):
            _log.warning("OPENLINEAGE_DISABLED is set, so the server hears nothing of this run; unset it")
        self._outbox.begin(run.run_id)
        self._send(self._events.pipeline_started(run, pipeline) for pipeline in run.pipelines)

    @_harmless
    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self._send([self._events.node_started(run, node, record)])

    @_harmless
    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None:
        self._node_ended(run, node, record)

    @_harmless
    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self._node_ended(run, node, record)

    @_harmless
    def run_ended(self, run: RunRecord) -> None:
        try:
            sent = self._sent_alerts()
            self._send(self._events.pipeline_ended(run, pipeline, sent) for pipeline in run.pipelines)
        finally:
            self._outbox.finish()

    def _sent_alerts(self) -> Sequence[Sent]:
        try:
            return self._alerts()
        except Exception:  # how the run ended is told all the same
            _log.warning("the server is not told of the alerts of this run; this is a bug in headgate", exc_info=True)
            return ()

    def _node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        # A try that was to be repeated may turn out to have been the last.
        if record.run_id not in self._ended:
            self._ended.add(record.run_id)
            self._send(self._events.node_ended(run, node, record))

    def _send(self, events: Iterable[RunEvent]) -> None:
        for event in events:
            self._client.emit(event)


def _client(outbox: Outbox) -> OpenLineageClient:
    try:
        return OpenLineageClient(transport=OutboxTransport(outbox), config=_CONFIG)
    except Exception as error:  # it reads the settings of its users, and raises whatever comes of that
        raise ConfigError(
            f"the settings of the OpenLineage client cannot be used: {error}",
            hint="correct openlineage.yml (OPENLINEAGE_CONFIG) and the variables that begin with OPENLINEAGE__",
        ) from error
