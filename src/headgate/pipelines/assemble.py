"""Puts a run together: engine, history, events, alerts, records and whoever shows how far it is.

The one place that knows all of them. Spark is loaded when a run begins, and not before.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote
from uuid import uuid4

from msgspec import structs

from headgate.errors import ConfigError
from headgate.pipelines.config.node import OnError
from headgate.pipelines.history import History, Memory, Scribe
from headgate.pipelines.home import Home, Server, connect
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.resume import narrowed
from headgate.pipelines.run import MAX_PARALLEL, Runner, Watcher

if TYPE_CHECKING:
    from headgate.pipelines.alerts.events import Alert
    from headgate.pipelines.alerts.send import Dispatcher, Sent
    from headgate.pipelines.record import FieldRecord

ALERT_PATIENCE_S = 10.0
_log = logging.getLogger(__name__)


class Progress(Watcher, Protocol):
    """Shows how far a run is."""

    def preparing(self, what: str) -> None: ...


@dataclass(frozen=True)
class Wishes:
    """How a run was asked for, beyond its plan."""

    master: str | None = None
    parallel: int = MAX_PARALLEL
    has_server: bool = True


class Watched:
    """A watcher that hears of nothing; others begin with it."""

    def run_started(self, run: RunRecord) -> None: ...

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None: ...

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None: ...

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None: ...

    def run_ended(self, run: RunRecord) -> None: ...


def new_run(plan: Plan, carried: Sequence[NodeRecord] = ()) -> RunRecord:
    """The record of a run that is to begin; `carried` are nodes that an earlier one has published."""
    loaded = plan.loaded
    return RunRecord(
        str(uuid4()),
        loaded.project.project,
        tuple(plan.pipelines),
        environment=loaded.environment,
        file=str(loaded.file),
        nodes=list(carried),
    )


def resumed(plan: Plan, earlier: RunRecord) -> tuple[Plan, RunRecord]:
    """What an earlier run has left, and a new one that holds as done what that one has published.

    It has an id of its own, since a run that has ended can tell a server nothing more.
    """
    left, carried = narrowed(plan, earlier)
    run = new_run(left, carried)
    # What the earlier one has published without living to tell it is replaced, and not added to.
    run.batch_id = earlier.batch_id or earlier.run_id
    return left, run


@contextmanager
def spark_of(plan: Plan, master: str | None, server: Server | None = None) -> Iterator[Any]:
    """The Spark application of a plan."""
    _need_pyspark()
    from headgate.pipelines.spark.preflight import application

    with application(plan, master, _watching(server)) as spark, _attached(spark, server):
        yield spark


def columns_of(plan: Plan, master: str | None) -> dict[Key, tuple[FieldRecord, ...] | None]:
    """The columns of each node, without a run; what does not fit them is refused."""
    with spark_of(plan, master) as spark:
        from headgate.pipelines.spark.preflight import check_columns

        return check_columns(spark, plan)


@dataclass
class Assembly:
    """One run of a plan with all that belongs to it. `stop` may be called from elsewhere at any time."""

    plan: Plan
    record: RunRecord
    wishes: Wishes
    progress: Progress
    story: Path | None = None
    server_url: str | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _runner: Runner | None = None

    def run(self) -> RunRecord:
        """Run it to its end; raises what keeps it from beginning."""
        _need_pyspark()
        loaded = self.plan.loaded
        home = Home.of(loaded)
        with ExitStack() as stack:
            if self.wishes.has_server:
                self.progress.preparing("connecting to the server")
            server = stack.enter_context(connect(loaded, is_offline=not self.wishes.has_server))
            self.server_url = server.url
            self.progress.preparing("starting Spark")
            spark = stack.enter_context(spark_of(self.plan, self.wishes.master, server))
            self.progress.preparing("checking columns")
            self._check(spark)
            memory = Memory(home.nodes, loaded.project.project)
            history = History(server, memory, loaded.project.project)
            stack.callback(history.close)
            self._runner = self._assembled(spark, history, self._watchers(home, memory, server), stack)
            if self._stopping.is_set():
                self._runner.stop()
            return self._runner.run(self.record)

    def stop(self) -> None:
        """Begin nothing more, and end what is under way."""
        self._stopping.set()
        self.record.is_interrupted = True
        if self._runner is None:
            return
        try:
            self._runner.stop()
        except Exception as error:  # Spark may be gone already, or on its way
            _log.info("what is under way could not be cancelled: %s", error)

    def abandon(self) -> None:
        """Keep what is known, because the process ends at once."""
        if self._runner is not None and self.record.ended_at is None:
            home = Home.of(self.plan.loaded)
            Keeping(self.plan, Scribe(home, Memory(home.nodes, self.record.project))).run_started(self.record)

    def _check(self, spark: Any) -> None:
        from headgate.pipelines.spark.preflight import check_columns

        # Stopped already: what follows skips every node, and their columns are nobody's concern.
        if not self._stopping.is_set():
            check_columns(spark, self._left())

    def _left(self) -> Plan:
        """What is still to do; nodes that were published before count as others."""
        done = {(node.pipeline, node.name) for node in self.record.nodes if node.status is Status.published}
        left = tuple(node for node in self.plan.nodes if node.key not in done)
        return Plan(self.plan.loaded, left, (*self.plan.others, *(n for n in self.plan.nodes if n.key in done)))

    def _assembled(self, spark: Any, history: History, watchers: Sequence[Watcher], stack: ExitStack) -> Runner:
        from headgate.pipelines.spark.engine import SparkEngine

        engine = SparkEngine(spark, self.plan, self.record.batch_id or self.record.run_id, history)
        stack.callback(engine.close)
        return Runner(self.plan, engine, watchers, lambda: str(uuid4()), self.wishes.parallel)

    def _watchers(self, home: Home, memory: Memory, server: Server) -> list[Watcher]:
        """In the order in which they hear: the record first, so that nobody else can cost it."""
        alerting = Alerting(self.plan, home.throttle_file, _story_url(self.record, server))
        listening: list[Watcher] = [Keeping(self.plan, Scribe(home, memory)), self.progress, alerting]
        if server.url is not None:
            listening.append(_emitter(self.plan, home, server, lambda: alerting.sent))
        listening.append(Telling(home, self._told))
        return [Guarded(watcher) for watcher in listening]

    def _told(self, story: Path) -> None:
        self.story = story


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


def _need_pyspark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigError(
            "pyspark is not installed, and pipelines run on Spark",
            hint="`pip install pyspark` beside headgate, or run it where Spark has its own: spark-submit, a notebook",
        )


def _emitter(plan: Plan, home: Home, server: Server, sent: Callable[[], Sequence[Sent]]) -> Watcher:
    from headgate.pipelines.emit import Emitter, Outbox

    assert server.url is not None
    outbox = Outbox(server.url, server.api_key, home.spool, home.refused / "events.ndjson")
    return Emitter(plan, outbox, engine=("spark", version("pyspark")), alerts=sent)


def _has_begun() -> bool:
    """Whether Java runs already, as it does under spark-submit: what it should load came with its start."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def _attached(spark: Any, server: Server | None) -> Iterator[None]:
    """The agent in an application that had begun before."""
    if server is None or server.url is None or not _has_begun():
        yield
        return
    from headgate.spark import attach

    try:
        agent = attach(spark, server.url, server.api_key)
    except Exception as error:  # whatever keeps it out must not keep the run from its work
        _log.info("the Spark agent is left out: %s", error)
        yield
        return
    try:
        yield
    finally:
        agent.detach()


def _watching(server: Server | None) -> dict[str, str]:
    """What puts the agent into the session; without a server or a jar the run goes on unwatched."""
    if server is None or server.url is None or _has_begun():
        return {}
    from headgate.spark import compose

    if server.api_key is not None:
        os.environ.setdefault("HEADGATE_API_KEY", server.api_key)
    try:
        return compose.conf(server.url)
    except ConfigError as error:
        _log.info("the Spark agent is left out: %s", error.message)
        return {}


def _story_url(run: RunRecord, server: Server) -> str | None:
    """Links in messages are built only of the address that others know the server by."""
    public = os.environ.get("HEADGATE_PUBLIC_URL")
    return f"{public.rstrip('/')}/api/v1/pipeline-runs/{run.run_id}/story" if public and server.url else None
