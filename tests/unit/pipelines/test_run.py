"""A run with an engine that does as it is told: order, failures, retries, stops and what is skipped."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec
import pytest

from headgate.errors import ConfigError, InvalidPipeline, PipelineProblem
from headgate.pipelines.plan import Key, Node, Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status, exit_code
from headgate.pipelines.run import Runner, worded
from tests.unit.pipelines.samples import plan_of, with_nodes

CHAIN = """
    - {name: a, read: {connection: bronze, path: a}}
    - {name: b, depends_on: a}
    - {name: c, depends_on: b}
    - {name: d, read: {connection: bronze, path: d}}
"""
Deed = Callable[[NodeRecord], None]


class ScriptedEngine:
    """Publishes every node but those for which it has something else to do."""

    def __init__(self, **deeds: Deed) -> None:
        self.deeds = deeds
        self.ran: list[str] = []
        self.seen: dict[str, set[Key]] = {}
        self.is_cancelled = threading.Event()

    def run(self, node: Node, record: NodeRecord, done: dict[Key, NodeRecord]) -> NodeRecord:
        self.ran.append(node.config.name)
        self.seen[node.config.name] = set(done)
        record.status = Status.published
        self.deeds.get(node.config.name, lambda _: None)(record)
        return record

    def cancel(self) -> None:
        self.is_cancelled.set()


class Diary:
    """Writes down what it hears of."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.delays: list[float] = []

    def run_started(self, run: RunRecord) -> None:
        self.lines.append("run started")

    def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self.lines.append(f"{record.name} started {record.attempt}")

    def node_ended(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
        self.lines.append(f"{record.name} {record.status}")

    def node_retried(self, run: RunRecord, node: Node, record: NodeRecord, delay_s: float) -> None:
        self.lines.append(f"{record.name} retried")
        self.delays.append(delay_s)

    def run_ended(self, run: RunRecord) -> None:
        self.lines.append(f"run {run.status}")


def breaks(record: NodeRecord) -> None:
    raise ConnectionError("the network is gone")


def stopped(record: NodeRecord) -> None:
    record.status = Status.stopped
    record.reasons = ("50 % of the rows pass",)


def a_plan(folder: Path, nodes: str, more: str = "") -> Plan:
    return plan_of(folder, f"{with_nodes(nodes)}\n{more}")


def a_run() -> RunRecord:
    return RunRecord("run-1", "shop", ("daily",))


def a_runner(plan: Plan, engine: ScriptedEngine, *watchers: Diary, parallel: int = 4) -> Runner:
    numbers = count(1)
    return Runner(plan, engine, watchers, lambda: f"id-{next(numbers)}", parallel, sleep=lambda _: None)


def statuses(run: RunRecord) -> dict[str, str]:
    return {node.name: str(node.status) for node in run.nodes}


def notes(run: RunRecord) -> dict[str, tuple[str, ...]]:
    return {node.name: node.notes for node in run.nodes if node.notes}


def test_all_nodes_run_after_what_they_wait_for(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    run = a_runner(a_plan(tmp_path, CHAIN), engine).run(a_run())

    assert run.status is Status.published
    assert [name for name in engine.ran if name != "d"] == ["a", "b", "c"]
    assert engine.seen["c"] >= {("daily", "a"), ("daily", "b")}
    assert run.started_at is not None
    assert run.ended_at is not None
    assert run.started_at <= run.ended_at
    assert len({node.run_id for node in run.nodes}) == 4


def test_nodes_that_do_not_wait_for_each_other_run_side_by_side(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=10)
    meet: Deed = lambda record: both.wait() and None  # noqa: E731 - a deed is a value here
    run = a_runner(a_plan(tmp_path, CHAIN), ScriptedEngine(a=meet, d=meet)).run(a_run())

    assert run.status is Status.published


def test_no_more_run_at_once_than_were_asked_for(tmp_path: Path) -> None:
    at_once, most, lock = 0, 0, threading.Lock()

    def counted(record: NodeRecord) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        threading.Event().wait(0.02)
        with lock:
            at_once -= 1

    nodes = "".join(f"- {{name: n{n}, read: {{connection: bronze, path: n}}}}\n" for n in range(6))
    engine = ScriptedEngine(**{f"n{n}": counted for n in range(6)})
    a_runner(a_plan(tmp_path, nodes), engine, parallel=2).run(a_run())

    assert most == 2


def test_watchers_hear_of_everything_in_order(tmp_path: Path) -> None:
    diary = Diary()
    a_runner(a_plan(tmp_path, CHAIN), ScriptedEngine(b=stopped), diary, parallel=1).run(a_run())

    assert diary.lines[0] == "run started"
    assert diary.lines[-2:] == ["c skipped", "run stopped"]
    for name in ("a", "b", "d"):
        said = [line for line in diary.lines if line.startswith(f"{name} ")]
        if said and said[0] != f"{name} skipped":
            assert said[0] == f"{name} started 1"
    assert diary.lines.index("a published") < diary.lines.index("b started 1") < diary.lines.index("b stopped")


SIDE = """
    - {name: a, read: {connection: bronze, path: a}}
    - {name: b, depends_on: a}
    - {name: x, read: {connection: bronze, path: x}, on_error: MODE}
    - {name: y, depends_on: x}
"""


def test_fail_fast_begins_nothing_more(tmp_path: Path) -> None:
    engine = ScriptedEngine(a=breaks)
    run = a_runner(a_plan(tmp_path, SIDE.replace("MODE", "fail_fast")), engine, parallel=1).run(a_run())

    assert run.status is Status.failed
    assert engine.ran[0] == "a"
    assert statuses(run)["b"] == statuses(run)["y"] == "skipped"
    assert notes(run)["b"] == ("daily.a was failed",)
    assert "the network is gone" in str(run.nodes[0].error)


def test_fail_later_goes_on_with_what_does_not_need_it(tmp_path: Path) -> None:
    engine = ScriptedEngine(x=breaks)
    run = a_runner(a_plan(tmp_path, SIDE.replace("MODE", "fail_later")), engine, parallel=1).run(a_run())

    assert run.status is Status.failed
    assert statuses(run) == {"a": "published", "x": "failed", "b": "published", "y": "skipped"}
    assert notes(run) == {"y": ("daily.x was failed",)}


def test_ignore_goes_on_and_the_run_does_not_fail(tmp_path: Path) -> None:
    run = a_runner(a_plan(tmp_path, SIDE.replace("MODE", "ignore")), ScriptedEngine(x=breaks), parallel=1).run(a_run())

    assert run.status is Status.published
    assert statuses(run) == {"a": "published", "x": "failed", "b": "published", "y": "skipped"}


def test_what_a_failure_means_is_said_by_the_node_then_the_pipeline_then_the_project(tmp_path: Path) -> None:
    nodes = SIDE.replace(", on_error: MODE", "")
    run = a_runner(a_plan(tmp_path, nodes, "on_error: ignore\n"), ScriptedEngine(a=breaks), parallel=1).run(a_run())

    assert run.status is Status.published
    assert statuses(run)["y"] == "published"


def test_skipped_nodes_say_what_they_waited_for_along_the_way(tmp_path: Path) -> None:
    run = a_runner(a_plan(tmp_path, CHAIN, "on_error: fail_later\n"), ScriptedEngine(a=stopped)).run(a_run())

    assert run.status is Status.stopped
    assert notes(run) == {"b": ("daily.a was stopped",), "c": ("daily.b was skipped",)}


RETRIED = "- {name: a, read: {connection: bronze, path: a}, retry: {attempts: 4, delay: 2s, backoff: 3}}"


def test_what_broke_is_tried_again_with_growing_delays(tmp_path: Path) -> None:
    tries = count(1)
    slept: list[float] = []

    def third_time(record: NodeRecord) -> None:
        if next(tries) < 3:
            breaks(record)

    diary = Diary()
    runner = a_runner(a_plan(tmp_path, RETRIED), ScriptedEngine(a=third_time), diary)
    runner.sleep = slept.append
    run = runner.run(a_run())

    assert run.status is Status.published
    assert slept == diary.delays == [2.0, 6.0]
    assert [node.attempt for node in run.nodes] == [3]
    assert diary.lines == [
        "run started",
        "a started 1",
        "a retried",
        "a started 2",
        "a retried",
        "a started 3",
        "a published",
        "run published",
    ]


def test_after_the_last_try_a_node_has_failed(tmp_path: Path) -> None:
    engine = ScriptedEngine(a=breaks)

    assert a_runner(a_plan(tmp_path, RETRIED), engine).run(a_run()).status is Status.failed
    assert engine.ran == ["a"] * 4


def test_a_verdict_is_never_tried_again(tmp_path: Path) -> None:
    engine = ScriptedEngine(a=stopped)

    assert a_runner(a_plan(tmp_path, RETRIED), engine).run(a_run()).status is Status.stopped
    assert engine.ran == ["a"]


class AnalysisException(Exception):
    """As Spark has it."""

    __module__ = "pyspark.errors.exceptions.base"


class GrpcException(Exception):
    """As Spark Connect has it."""

    __module__ = "pyspark.errors.exceptions.connect"


def raises(error: Exception, cause: Exception | None = None) -> Deed:
    def deed(record: NodeRecord) -> None:
        raise error from cause

    return deed


@pytest.mark.parametrize(
    "deed",
    [
        raises(ConfigError("the rows share keys")),
        raises(InvalidPipeline([PipelineProblem("a.yaml:1:1", "there is no column 'x'")])),
        raises(ConfigError("step 1 of transform: no x"), AnalysisException("no x")),
    ],
    ids=["config", "pipeline", "analysis"],
)
def test_what_is_wrong_with_the_file_is_not_tried_again_and_is_another_exit_code(tmp_path: Path, deed: Deed) -> None:
    engine = ScriptedEngine(a=deed)

    run = a_runner(a_plan(tmp_path, RETRIED), engine).run(a_run())

    assert engine.ran == ["a"]
    assert (run.status, run.nodes[0].is_config_error) == (Status.failed, True)
    assert exit_code(run) == 2


def test_what_spark_could_not_do_while_it_looked_at_a_step_is_tried_again(tmp_path: Path) -> None:
    engine = ScriptedEngine(a=raises(ConfigError("step 1 of transform: unavailable"), GrpcException("unavailable")))

    run = a_runner(a_plan(tmp_path, RETRIED), engine).run(a_run())

    assert engine.ran == ["a"] * 4
    assert exit_code(run) == 1


@pytest.mark.parametrize(("other", "code"), [(breaks, 1), (stopped, 2), (lambda record: None, 2)])
def test_the_file_is_to_blame_for_a_run_only_if_it_is_for_each_node_that_failed(
    tmp_path: Path, other: Deed, code: int
) -> None:
    plan = a_plan(tmp_path, CHAIN, "on_error: fail_later\n")

    assert exit_code(a_runner(plan, ScriptedEngine(a=raises(ConfigError("no")), d=other)).run(a_run())) == code


def test_a_record_from_before_still_loads() -> None:
    told = msgspec.to_builtins(NodeRecord("daily", "a", "id", Status.failed, error="no"))
    del told["is_config_error"]

    assert msgspec.convert(told, NodeRecord).is_config_error is False


def test_a_stop_begins_nothing_more_and_cancels_what_is_under_way(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    runner = a_runner(a_plan(tmp_path, CHAIN), engine, parallel=1)

    def interrupted(record: NodeRecord) -> None:
        runner.stop()
        assert engine.is_cancelled.wait(5)
        raise ConnectionAbortedError("cancelled")

    engine.deeds["a"] = interrupted
    run = runner.run(a_run())

    assert run.status is Status.failed
    assert engine.ran == ["a"]
    assert notes(run)["d"] == ("the run was stopped before",)
    assert notes(run)["b"] == ("daily.a was failed",)


def test_a_stop_while_waiting_for_another_try_is_no_other_try(tmp_path: Path) -> None:
    engine = ScriptedEngine(a=breaks)
    runner = a_runner(a_plan(tmp_path, RETRIED), engine)
    runner.sleep = lambda _: runner.stop()

    assert runner.run(a_run()).status is Status.failed
    assert engine.ran == ["a"]


def test_a_run_that_is_resumed_leaves_out_what_was_published(tmp_path: Path) -> None:
    plan = a_plan(tmp_path, CHAIN)
    first = a_runner(plan, ScriptedEngine(b=breaks), parallel=1).run(a_run())
    began = first.started_at
    assert statuses(first)["a"] == "published"

    engine = ScriptedEngine()
    again = a_runner(plan, engine, parallel=1).run(first)

    assert again.status is Status.published
    assert "a" not in engine.ran
    assert [name for name in engine.ran if name != "d"] == ["b", "c"]
    assert engine.seen["b"] >= {("daily", "a")}
    assert sorted(node.name for node in again.nodes) == ["a", "b", "c", "d"]
    assert again.started_at == began


def test_a_record_names_owner_and_tags_of_node_pipeline_and_project(tmp_path: Path) -> None:
    nodes = "- {name: a, read: {connection: bronze, path: a}, tags: [x], write: {connection: silver, path: a}}"
    run = a_runner(a_plan(tmp_path, nodes, "owner: team\n"), ScriptedEngine()).run(a_run())

    (node,) = run.nodes
    assert (node.owner, node.tags, node.mode) == ("team", ("x",), "overwrite")
    assert node.timings_s["total"] >= 0


def test_watchers_are_told_of_one_thing_at_a_time(tmp_path: Path) -> None:
    busy = threading.Lock()
    overlaps: list[str] = []

    class Careful(Diary):
        def node_started(self, run: RunRecord, node: Node, record: NodeRecord) -> None:
            if not busy.acquire(blocking=False):
                overlaps.append(record.name)
                return
            threading.Event().wait(0.01)
            busy.release()

    nodes = "".join(f"- {{name: n{n}, read: {{connection: bronze, path: n}}}}\n" for n in range(6))
    a_runner(a_plan(tmp_path, nodes), ScriptedEngine(), Careful()).run(a_run())

    assert overlaps == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConfigError("no such column", hint="did you mean 'id'?"), "no such column\ndid you mean 'id'?"),
        (ConfigError("no such column"), "no such column"),
    ],
)
def test_an_error_of_ours_is_told_in_its_own_words(error: Exception, words: str) -> None:
    assert worded(error) == words


def test_an_error_of_others_keeps_its_place_in_the_code() -> None:
    with pytest.raises(ConnectionError) as caught:
        breaks(NodeRecord("p", "n", "id"))

    assert "ConnectionError: the network is gone" in worded(caught.value)
    assert "in breaks" in worded(caught.value)


STACK = "".join(f"\tat org.apache.spark.Task.run$extension(Task.scala:{line})\n" for line in range(200))


class JavaError(Exception):
    """As py4j has it."""

    __module__ = "py4j.protocol"


def test_an_error_of_spark_is_told_with_its_class_and_causes_and_without_stacks_of_java() -> None:
    error = JavaError(
        "An error occurred while calling o42.count.\n"
        f": org.apache.spark.SparkException: [FAILED_READ_FILE] Cannot read a.parquet\n{STACK}"
        f"Caused by: java.io.IOException: the disk is gone\n{STACK}\t... 12 more\n"
    )

    assert worded(error).splitlines() == [
        "org.apache.spark.SparkException: [FAILED_READ_FILE] Cannot read a.parquet",
        "Caused by: java.io.IOException: the disk is gone",
    ]


def test_an_error_of_spark_connect_is_told_without_its_stack() -> None:
    error = GrpcException(f"[DIVIDE_BY_ZERO] Division by zero.\n\nJVM stacktrace:\norg.apache.x.E: no\n{STACK}")

    assert worded(error) == "[DIVIDE_BY_ZERO] Division by zero."


def test_of_a_long_error_of_spark_the_beginning_and_the_end_are_told() -> None:
    lines = worded(AnalysisException("\n".join(f"line {number}" for number in range(500)))).splitlines()

    assert len(lines) == 20
    assert (lines[0], lines[-1]) == ("line 0", "line 499")
    assert len(worded(AnalysisException("x" * 50_000))) == 4000
    assert worded(AnalysisException("")) == "AnalysisException"


SECRETS = """
project: shop
server: {url: "http://headgate", api_key: of-the-server}
spark: {conf: {spark.hadoop.fs.s3a.secret.key: of-the-session, spark.sql.shuffle.partitions: 2}}
connections:
  lake: {type: s3, base_path: "s3a://lake", options: {fs.s3a.access.key: of-the-lake, fs.s3a.endpoint: the-endpoint}}
  db: {type: jdbc, url: "jdbc:postgresql://db/shop", user: me, password: of-the-db, options: {sslpassword: of-tls}}
  bus:
    type: kafka
    bootstrap_servers: "k:9092"
    options: {kafka.sasl.jaas.config: 'login required username="me" password="of-the-bus";'}
pipelines:
  - pipeline: daily
    nodes:
      - name: a
        read: {connection: db, table: orders, options: {oauthToken: of-the-node}}
        transform: {steps: [{function: "a:b", params: {key: customer_id, api_key: of-the-function}}]}
        write: {connection: lake, path: orders}
"""


def test_no_error_says_a_secret_of_the_project(tmp_path: Path) -> None:
    said = (
        "of-the-server of-the-session of-the-lake of-the-db of-tls of-the-bus of-the-node of-the-function "
        "the-endpoint customer_id orders"
    )
    run = a_runner(plan_of(tmp_path, SECRETS), ScriptedEngine(a=raises(ConfigError(said)))).run(a_run())

    assert run.nodes[0].error == "*** *** *** *** *** *** *** *** the-endpoint customer_id orders"
