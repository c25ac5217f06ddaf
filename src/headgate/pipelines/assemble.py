"""Puts a run together: engine, history, events, alerts, records and whoever shows how far it is.

The one place that knows all of them. Spark is loaded when a run begins, and not before.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from headgate.errors import ConfigError
from headgate.pipelines.history import History, Memory, Scribe
from headgate.pipelines.home import Home, Server, connect
from headgate.pipelines.plan import Key, Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.resume import narrowed
from headgate.pipelines.run import MAX_PARALLEL, Runner, Watcher
from headgate.pipelines.watchers import Alerting, Guarded, Keeping, Telling

if TYPE_CHECKING:
    from headgate.pipelines.alerts.send import Sent
    from headgate.pipelines.record import FieldRecord

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
