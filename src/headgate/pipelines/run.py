"""Runs the nodes of a plan: side by side where they can, again where they broke, and none after one that must stop all.

Knows order, retries and what a failure means for the others. What a node does is the engine's business, who hears of it
the watchers'.
"""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from headgate.errors import ConfigError, HeadgateError
from headgate.pipelines.config.node import OnError, RetryConfig
from headgate.pipelines.masking import masked, secrets_of
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status, overall

MAX_PARALLEL = 4
# Of what Spark says: its beginning with the class of the error, and its end with the first cause.
_FIRST_LINES, _LAST_LINES, _MAX_SAID = 14, 5, 4000
_OF_JAVA = re.compile(r"\s+at [\w.$/<>]+\(|\s*\.\.\. \d+ more|Driver stacktrace:|An error occurred while calling ")


class Engine(Protocol):
    """Reads, tests, decides and publishes one node. A stop by a gate or test is a record; whatever breaks is raised."""

    def run(self, node: Node, record: NodeRecord, done: dict[Key, NodeRecord]) -> NodeRecord: ...

    def cancel(self) -> None: ...


class Watcher(Protocol):
    """Hears of everything that happens; must not raise."""

    def run_started(self, run: RunRecord) -> None: ...

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None: ...

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None: ...

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None: ...

    def run_ended(self, run: RunRecord) -> None: ...


@dataclass
class Runner:
    """One run of a plan."""

    plan: Plan
    engine: Engine
    watchers: Sequence[Watcher]
    new_id: Callable[[], str]
    parallel: int = MAX_PARALLEL
    sleep: Callable[[float], object] | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    # Nodes run side by side; those who listen hear of one thing at a time.
    _telling: threading.RLock = field(default_factory=threading.RLock)

    def run(self, run: RunRecord) -> RunRecord:
        """Run what the record does not hold as published already; it is filled as nodes end."""
        run.started_at = run.started_at or datetime.now(UTC)
        done = {(node.pipeline, node.name): node for node in run.nodes if node.status is Status.published}
        run.nodes[:] = list(done.values())
        self._tell("run_started", run)
        try:
            self._run_all(run, done)
        finally:
            self._skip_rest(run, done)
            run.ended_at = datetime.now(UTC)
            run.status = overall([node for node in run.nodes if not self._is_ignored(node)])
            self._tell("run_ended", run)
        return run

    def stop(self) -> None:
        """Begin nothing more, and end what is under way."""
        self._stop.set()
        self.engine.cancel()

    def _run_all(self, run: RunRecord, done: dict[Key, NodeRecord]) -> None:
        waiting = [node for node in self.plan.nodes if node.key not in done]
        running: dict[Future[NodeRecord], Node] = {}
        with ThreadPoolExecutor(self.parallel, thread_name_prefix="node") as pool:
            while waiting or running:
                for node in [node for node in waiting if self._is_ready(node, waiting, running)]:
                    # One that waits for a thread would still begin after all others are to stop.
                    if len(running) == self.parallel:
                        break
                    waiting.remove(node)
                    if self._may_begin(node, done):
                        running[pool.submit(self._attempts, run, node, done)] = node
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    node = running.pop(future)
                    self._ended(run, node, future.result(), done)

    def _is_ready(self, node: Node, waiting: list[Node], running: dict[Future[NodeRecord], Node]) -> bool:
        ahead = {each.key for each in waiting} | {each.key for each in running.values()}
        return not node.after & ahead

    def _may_begin(self, node: Node, done: dict[Key, NodeRecord]) -> bool:
        if self._stop.is_set():
            return False
        planned = {each.key for each in self.plan.nodes}
        return all(key in done and done[key].status is Status.published for key in node.after & planned)

    def _ended(self, run: RunRecord, node: Node, record: NodeRecord, done: dict[Key, NodeRecord]) -> None:
        done[node.key] = record
        run.nodes.append(record)
        if record.status is not Status.published and self.plan.on_error(node) is OnError.fail_fast:
            self._stop.set()

    def _attempts(self, run: RunRecord, node: Node, done: dict[Key, NodeRecord]) -> NodeRecord:
        retry = node.config.retry or node.pipeline.retry or self.plan.loaded.project.retry
        for attempt in range(1, retry.attempts + 1):
            record = self._attempt(run, node, done, attempt)
            if not _may_help(record) or attempt == retry.attempts or self._stop.is_set():
                break
            delay_s = _delay_s(retry, attempt)
            self._tell("node_retried", run, node, record, delay_s)
            (self.sleep or self._stop.wait)(delay_s)
            if self._stop.is_set():
                break
        self._tell("node_ended", run, node, record)
        return record

    def _attempt(self, run: RunRecord, node: Node, done: dict[Key, NodeRecord], attempt: int) -> NodeRecord:
        record = self._new_record(node, attempt)
        record.started_at = datetime.now(UTC)
        began = time.monotonic()
        self._tell("node_started", run, node, record)
        try:
            record = self.engine.run(node, record, dict(done))
        except Exception as error:  # whatever breaks a node must not break the others
            record.status = Status.failed
            record.error = worded(error, secrets_of(self.plan.loaded.project))
            record.is_config_error = _is_of_config(error)
        record.ended_at = datetime.now(UTC)
        record.timings_s["total"] = round(time.monotonic() - began, 3)
        return record

    def _new_record(self, node: Node, attempt: int) -> NodeRecord:
        owner = node.config.owner or node.pipeline.owner or self.plan.loaded.project.owner
        return NodeRecord(
            node.pipeline.pipeline,
            node.config.name,
            self.new_id(),
            attempt=attempt,
            owner=owner,
            tags=tuple(dict.fromkeys([*node.pipeline.tags, *node.config.tags])),
            description=node.config.description,
            mode=None if node.config.write is None else str(node.config.write.mode),
        )

    def _skip_rest(self, run: RunRecord, done: dict[Key, NodeRecord]) -> None:
        for node in self.plan.nodes:
            if node.key not in done:
                record = self._new_record(node, 1)
                record.notes = (self._why_skipped(node, done),)
                run.nodes.append(record)
                done[node.key] = record
                self._tell("node_ended", run, node, record)

    def _why_skipped(self, node: Node, done: dict[Key, NodeRecord]) -> str:
        for key in sorted(node.after):
            if key in done and done[key].status is not Status.published:
                return f"{'.'.join(key)} was {done[key].status}"
        return "the run was stopped before"

    def _is_ignored(self, record: NodeRecord) -> bool:
        node = next((each for each in self.plan.nodes if each.key == (record.pipeline, record.name)), None)
        is_bad = record.status in (Status.failed, Status.stopped)
        return is_bad and node is not None and self.plan.on_error(node) is OnError.ignore

    def _tell(self, what: str, *facts: object) -> None:
        with self._telling:
            for watcher in self.watchers:
                getattr(watcher, what)(*facts)


def worded(error: BaseException, secrets: Iterable[str] = ()) -> str:
    """What broke a node, in the words of whoever raised it; a bug of ours keeps its place in the code."""
    return masked(_said(error), secrets)


def _said(error: BaseException) -> str:
    if isinstance(error, HeadgateError):
        return f"{error.message}\n{error.hint}" if error.hint else error.message
    if _is_of_spark(error):
        return _said_by_spark(str(error)) or type(error).__name__
    return "".join(traceback.format_exception(error)[-2:]).strip()


def _is_of_spark(error: BaseException | None) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


def _said_by_spark(text: str) -> str:
    """The message and its causes, without the stacks of Java."""
    told = text.partition("\nJVM stacktrace:")[0].splitlines()
    lines = [line.removeprefix(": ").rstrip() for line in told if line.strip() and not _OF_JAVA.match(line)]
    if len(lines) > _FIRST_LINES + 1 + _LAST_LINES:
        lines = [*lines[:_FIRST_LINES], "…", *lines[-_LAST_LINES:]]
    short = "\n".join(lines).strip()
    return short if len(short) <= _MAX_SAID else f"{short[: _MAX_SAID - 1]}…"


def _is_of_config(error: Exception) -> bool:
    """Whether the file has to be changed; what Spark could not do while it looked at a step may be no fault of it."""
    if not isinstance(error, ConfigError):
        return False
    cause = error.__cause__
    return not _is_of_spark(cause) or "AnalysisException" in {each.__name__ for each in type(cause).__mro__}


def _may_help(record: NodeRecord) -> bool:
    """Whether another try may end otherwise."""
    return record.status is Status.failed and not record.is_config_error


def _delay_s(retry: RetryConfig, attempt: int) -> float:
    return float(retry.delay.total_seconds() * retry.backoff ** (attempt - 1))
