"""What belongs to a run besides its nodes: its record while it goes on, alerts, and what a resumed one takes over."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path

import pytest

from headgate.errors import ConfigError, NotFound
from headgate.pipelines import resume
from headgate.pipelines.assemble import new_run, resumed
from headgate.pipelines.history import Memory, Scribe
from headgate.pipelines.home import Home
from headgate.pipelines.plan import Plan
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.run import Runner, Watcher
from headgate.pipelines.watchers import Alerting, Guarded, Keeping, Watched
from tests.unit.pipelines.samples import plan_of, with_nodes
from tests.unit.pipelines.test_run import ScriptedEngine, breaks, stopped

NODES = """
    - {name: a, read: {connection: bronze, path: a}, write: {connection: bronze, path: out/a}}
    - {name: b, depends_on: a, write: {connection: bronze, path: out/b}}
    - {name: c, depends_on: b}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(tmp_path, with_nodes(NODES))


def ran(plan: Plan, run: RunRecord, engine: ScriptedEngine, *watchers: Watcher) -> RunRecord:
    numbers = count(1)
    return Runner(plan, engine, watchers, lambda: f"id-{next(numbers)}", sleep=lambda _: None).run(run)


def keeping(plan: Plan) -> Keeping:
    home = Home.of(plan.loaded)
    return Keeping(plan, Scribe(home, Memory(home.nodes, "shop")))


def kept(plan: Plan, run: RunRecord) -> dict[str, str]:
    return {node.name: str(node.status) for node in Home.of(plan.loaded).load_record(run.run_id).nodes}


def test_the_record_of_a_run_that_is_killed_holds_what_was_still_to_come(plan: Plan) -> None:
    run, seen = new_run(plan), []

    ran(plan, run, ScriptedEngine(b=lambda record: seen.append(kept(plan, run))), keeping(plan))

    assert seen == [{"a": "published", "b": "skipped", "c": "skipped"}]
    assert kept(plan, run) == {"a": "published", "b": "published", "c": "published"}


def test_a_run_goes_on_after_what_an_earlier_one_has_published(plan: Plan) -> None:
    earlier = ran(plan, new_run(plan), ScriptedEngine(b=breaks), keeping(plan))
    engine = ScriptedEngine()

    left, run = resumed(plan, resume.resumable(plan.loaded.file, None))
    ran(left, run, engine, keeping(left))

    assert engine.ran == ["b", "c"]
    assert run.run_id != earlier.run_id
    assert run.batch_id == earlier.run_id
    assert run.status is Status.published
    assert run.nodes[0].notes == (f"published by run {earlier.run_id}",)


def test_a_resumed_run_has_the_nodes_of_the_earlier_one_and_no_others(plan: Plan) -> None:
    part = Plan(plan.loaded, plan.nodes[:2], plan.nodes[2:])
    ran(part, new_run(part), ScriptedEngine(b=stopped), keeping(part))

    left, run = resumed(plan, resume.resumable(plan.loaded.file, None))

    assert [node.config.name for node in left.nodes] == ["a", "b"]
    assert [node.config.name for node in left.others] == ["c"]
    assert [node.name for node in run.nodes] == ["a"]


def test_a_node_that_keeps_no_rows_runs_again(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, with_nodes(NODES.replace(", write: {connection: bronze, path: out/b}", "")))
    ran(plan, new_run(plan), ScriptedEngine(c=breaks), keeping(plan))
    engine = ScriptedEngine()

    left, run = resumed(plan, resume.resumable(plan.loaded.file, None))
    ran(left, run, engine, keeping(left))

    assert engine.ran == ["b", "c"]


def test_what_cannot_be_resumed_says_why(plan: Plan) -> None:
    file = plan.loaded.file
    with pytest.raises(NotFound, match="no run of"):
        resume.resumable(file, None)
    run = ran(plan, new_run(plan), ScriptedEngine(), keeping(plan))
    with pytest.raises(ConfigError, match="was published: nothing is left to do"):
        resume.resumable(file, None)
    with pytest.raises(ConfigError, match="was one of"):
        resume.resumable(file.with_name("other.yaml"), run.run_id)


def test_nothing_is_resumed_of_a_file_that_has_lost_all_nodes_of_the_run(plan: Plan) -> None:
    run = RunRecord("old", "shop", ("daily",), Status.failed, nodes=[NodeRecord("daily", "gone", "1", Status.failed)])

    with pytest.raises(ConfigError, match="no node of run old any more"):
        resumed(plan, run)


def test_a_watcher_that_breaks_costs_the_run_nothing(plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Watched):
        def node_ended(self, *facts: object) -> None:
            raise RuntimeError("out of ink")

    with caplog.at_level(logging.WARNING):
        run = ran(plan, new_run(plan), ScriptedEngine(), Guarded(Broken()))

    assert run.status is Status.published
    assert "Broken did not take node_ended: RuntimeError: out of ink" in caplog.messages


@pytest.fixture
def channel() -> Iterator[HTTPServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            """Not to the test's output."""

    heard: list[object] = []
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.heard = heard  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_the_channels_of_a_file_hear_of_its_run_and_all_is_known_of_it_at_the_end(
    tmp_path: Path, channel: HTTPServer
) -> None:
    url = f"http://127.0.0.1:{channel.server_port}/hook"
    alerts = f"alerts: [{{type: webhook, url: '{url}', on_events: [on_start, on_failure]}}]\n"
    plan = plan_of(tmp_path, with_nodes(NODES) + alerts)
    alerting = Alerting(plan, tmp_path / "alerts.json", "https://headgate.example/story")

    ran(plan, new_run(plan), ScriptedEngine(b=breaks), alerting)

    assert [(str(each.alert.event), str(each.outcome)) for each in alerting.sent] == [
        ("on_start", "sent"),
        ("on_failure", "sent"),
    ]
    assert len(channel.heard) == 2  # type: ignore[attr-defined]
    assert "https://headgate.example/story" in json.dumps(channel.heard)  # type: ignore[attr-defined]
