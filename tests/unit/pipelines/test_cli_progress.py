"""What is shown of a run while it goes on: lines for logs, live lines for people."""

from __future__ import annotations

import io
import time
from itertools import count
from pathlib import Path

import pytest
from rich.console import Console

from headgate.cli.progress import Lines, Live, ended, phase_of, span
from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.pipelines.run import Runner
from tests.unit.pipelines.samples import plan_of, with_nodes
from tests.unit.pipelines.test_run import ScriptedEngine, breaks, stopped

NODES = """
    - {name: a, read: {connection: bronze, path: a}, on_error: fail_later}
    - {name: b, depends_on: a}
"""


def a_record(status: Status = Status.published, **facts: object) -> NodeRecord:
    return NodeRecord("daily", "orders", "1", status, **facts)  # type: ignore[arg-type]  # as the test says them


def shown(folder: Path, engine: ScriptedEngine, display: Lines, more: str = "") -> RunRecord:
    numbers = count()
    plan = plan_of(folder, f"{with_nodes(NODES)}\n{more}")
    runner = Runner(plan, engine, [display], lambda: f"id-{next(numbers)}", sleep=lambda _: None)
    return runner.run(RunRecord("run-1", "shop", ("daily",)))


def test_lines_tell_of_each_node_from_its_start_to_its_end(tmp_path: Path) -> None:
    lines: list[str] = []
    display = Lines(lines.append)
    display.preparing("starting Spark")

    shown(tmp_path, ScriptedEngine(a=lambda record: setattr(record, "rows_in", 1200)), display)

    assert lines[:3] == ["starting Spark …", "run run-1", "daily.a: started"]
    assert lines[3].startswith("daily.a: published, 1,200 rows, ")
    assert lines[4] == "daily.b: started"


def test_lines_tell_why_a_node_was_stopped_and_what_that_means_for_the_rest(tmp_path: Path) -> None:
    lines: list[str] = []

    shown(tmp_path, ScriptedEngine(a=stopped), Lines(lines.append))

    assert lines[2].startswith("daily.a: stopped, ")
    assert lines[2].endswith(": 50 % of the rows pass")
    assert lines[3] == "daily.b: skipped: daily.a was stopped"


def test_lines_tell_of_another_try_and_of_what_broke_the_one_before(tmp_path: Path) -> None:
    lines: list[str] = []

    shown(tmp_path, ScriptedEngine(a=breaks), Lines(lines.append), "retry: {attempts: 2, delay: 90s}")

    assert lines[2] == "daily.a: failed, trying again in 1 min 30 s: ConnectionError: the network is gone"
    assert lines[3] == "daily.a: started (attempt 2)"
    assert lines[4].endswith(": ConnectionError: the network is gone")


def test_lines_remind_of_what_is_still_at_work(tmp_path: Path) -> None:
    lines: list[str] = []

    def works(record: NodeRecord) -> None:
        record.timings_s["plan"] = 0.1
        deadline = time.monotonic() + 10
        while not any("testing rows" in line for line in lines) and time.monotonic() < deadline:
            time.sleep(0.01)

    shown(tmp_path, ScriptedEngine(a=works), Lines(lines.append, every_s=0.05))

    assert any(line.startswith("daily.a: testing rows, ") for line in lines)


def test_live_lines_stay_for_what_has_ended_and_go_for_what_was_at_work(tmp_path: Path) -> None:
    drawn = io.StringIO()
    terminal = Console(file=drawn, force_terminal=True, width=80, color_system=None)
    display = Live(terminal)
    display.preparing("starting Spark")

    shown(tmp_path, ScriptedEngine(a=lambda record: time.sleep(0.3)), display)

    text = drawn.getvalue()
    assert "  starting Spark …" in text or "daily.a: reading the plan" in text
    assert "daily.a: reading the plan, " in text
    assert "daily.a: published, " in text


@pytest.mark.parametrize(
    ("timings", "phase"),
    [
        ({}, "reading the plan"),
        ({"plan": 1.0}, "testing rows"),
        ({"plan": 1.0, "pass": 2.0}, "deciding"),
        ({"plan": 1.0, "pass": 2.0, "decide": 0.1}, "publishing"),
        ({"plan": 1.0, "pass": 2.0, "decide": 0.1, "publish": 0.1}, "finishing"),
    ],
)
def test_the_phase_is_the_first_that_is_not_over(timings: dict[str, float], phase: str) -> None:
    assert phase_of(a_record(timings_s=timings)) == phase


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.04, "0.0 s"), (59.94, "59.9 s"), (61, "1 min 01 s"), (3600, "1 h 00 min")]
)
def test_a_span_is_said_in_the_unit_that_fits(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_an_end_is_one_line_whatever_broke_the_node() -> None:
    broken = a_record(Status.failed, error="Traceback (most recent call last):\n  File x\nValueError: no\n")

    assert ended(broken) == "daily.orders: failed: ValueError: no"
    assert "\n" not in ended(a_record(Status.failed, error="there is no module 'x'\nput x.py there"))
