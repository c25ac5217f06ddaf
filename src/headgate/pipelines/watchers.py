"""Those who hear of a run and tell it on: its record, its alerts, its story."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import structs

from headgate.pipelines.config.node import OnError
from headgate.pipelines.history import Scribe
from headgate.pipelines.home import Home
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.record import NodeRecord, RunRecord
from headgate.pipelines.run import Watcher

if TYPE_CHECKING:
    from headgate.pipelines.alerts.events import Alert
    from headgate.pipelines.alerts.send import Dispatcher, Sent

ALERT_PATIENCE_S = 10.0
_log = logging.getLogger(__name__)


class Watched:
    """A watcher that hears of nothing; others begin with it."""

    def run_started(self, run: RunRecord) -> None: ...

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None: ...

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None: ...

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None: ...

    def run_ended(self, run: RunRecord) -> None: ...


class Guarded:
    """What goes wrong with a watcher is logged, and costs the run nothing."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def run_started(self, run: RunRecord) -> None:
        self._tell("run_started", run)

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self._tell("node_started", run, node, record)

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self._tell("node_ended", run, node, record)

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None:
        self._tell("node_retried", run, node, record, delay_s)

    def run_ended(self, run: RunRecord) -> None:
        self._tell("run_ended", run)

    def _tell(self, what: str, *facts: object) -> None:
        try:
            getattr(self._watcher, what)(*facts)
        except Exception as error:  # the run does not depend on those who listen
            name = type(self._watcher).__name__
            _log.warning("%s did not take %s: %s: %s", name, what, type(error).__name__, error)


class Keeping(Watched):
    """Keeps the record with the nodes that are still to come, so that a run that was killed can be resumed."""

    def __init__(self, plan: Plan, scribe: Scribe) -> None:
        self._plan = plan
        self._scribe = scribe

    def run_started(self, run: RunRecord) -> None:
        self._scribe.run_started(self._with_rest(run))

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self._scribe.node_ended(self._with_rest(run, node.key), node, record)

    def run_ended(self, run: RunRecord) -> None:
        self._scribe.run_ended(run)

    def _with_rest(self, run: RunRecord, *ended: Key) -> RunRecord:
        known = {(node.pipeline, node.name) for node in run.nodes}.union(ended)
        rest = [NodeRecord(*node.key, run_id="") for node in self._plan.nodes if node.key not in known]
        return structs.replace(run, nodes=[*run.nodes, *rest])


class Alerting(Watched):
    """Tells the channels of the file what they want to hear; `sent` is known when the run has ended."""

    def __init__(self, plan: Plan, throttle_file: Path, story_url: str | None) -> None:
        self._plan = plan
        self._throttle_file = throttle_file
        self._story_url = story_url
        self._project = plan.loaded.project
        self._dispatcher: Dispatcher | None = None
        self.sent: list[Sent] = []

    def run_started(self, run: RunRecord) -> None:
        from headgate.pipelines.alerts.events import alerts_of_start

        self._tell(alerts_of_start(run, owners=self._owners(), story_url=self._story_url))

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        from headgate.pipelines.alerts.events import alerts_of_node_start

        if record.attempt == 1:
            self._tell(alerts_of_node_start(run.project, record, story_url=self._story_url))

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        from headgate.pipelines.alerts.events import alerts_of_node

        self._tell(alerts_of_node(run.project, record, story_url=self._story_url))

    def run_ended(self, run: RunRecord) -> None:
        from headgate.pipelines.alerts.events import alerts_of_end

        ignored = [node.key for node in self._plan.nodes if self._plan.on_error(node) is OnError.ignore]
        self._tell(alerts_of_end(run, ignored=ignored, owners=self._owners(), story_url=self._story_url))
        if self._dispatcher is not None:
            self.sent = self._dispatcher.close(ALERT_PATIENCE_S)

    def _tell(self, alerts: Sequence[Alert]) -> None:
        from headgate.pipelines.alerts.channels import channels_of

        for alert in alerts:
            if channels := channels_of(self._project, alert):
                self._opened().tell(alert, channels)

    def _opened(self) -> Dispatcher:
        from headgate.pipelines.alerts.send import Dispatcher
        from headgate.pipelines.alerts.throttle import Throttle

        if self._dispatcher is None:
            self._dispatcher = Dispatcher(Throttle(self._throttle_file))
        return self._dispatcher

    def _owners(self) -> Mapping[str, str | None]:
        return {each.pipeline: each.owner or self._project.owner for each in self._project.pipelines}


class Telling(Watched):
    """Writes the story when the run has ended."""

    def __init__(self, home: Home, told: Callable[[Path], None]) -> None:
        self._home = home
        self._told = told

    def run_ended(self, run: RunRecord) -> None:
        path = story_path(self._home, run.run_id)
        path.parent.mkdir(exist_ok=True, mode=0o700)
        path.write_text(story_of(self._home, run), encoding="utf-8")
        self._told(path)


def story_of(home: Home, run: RunRecord) -> str:
    """The story of a recorded run, compared with the published one before it."""
    from headgate.story import Story, render

    return render(Story(run, datetime.now(UTC), previous=home.previous(run)))


def story_path(home: Home, run_id: str) -> Path:
    # A run id may come from the command line: it names a file here, and none elsewhere.
    return home.folder / "stories" / f"{quote(run_id, safe='')}.html"
