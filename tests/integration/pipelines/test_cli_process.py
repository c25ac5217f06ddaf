"""`headgate run` as a process of its own: what reaches stdout, and what Ctrl-C does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headgate.pipelines.resume import latest
from tests.support.up import environment
from tests.unit.pipelines.samples import saved, with_nodes

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "headgate.cli.main"]
START_S = 120
SLOW = """
import time
from pathlib import Path

from pyspark.sql import functions as F


def in_spark(df):
    later = F.udf(lambda value: time.sleep(5) or value, "int")
    return df.withColumn("id", later("id"))


def in_python(df):
    checked = Path(__file__).with_name("checked")
    if checked.exists():
        time.sleep(120)
    checked.touch()
    return df
"""


def a_slow_project(folder: Path, function: str) -> Path:
    saved(folder, SLOW, "slowly.py")
    saved(folder, "id\n" + "\n".join(map(str, range(100))) + "\n", "data/bronze/ids.csv")
    nodes = f"""
        - {{name: first, read: {{connection: bronze, path: ids.csv, format: csv}},
           write: {{connection: silver, path: first}}}}
        - name: slow
          read: {{connection: bronze, path: ids.csv, format: csv}}
          depends_on: first
          transform: {{steps: [{{function: "slowly:{function}"}}]}}
          write: {{connection: silver, path: slow}}
    """
    return saved(folder, with_nodes(nodes))


def started(file: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [*COMMAND, "run", str(file), "--no-server", "--master", "local[1]", *arguments]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        # A group of its own, so that Ctrl-C reaches all of it and nobody else.
        start_new_session=True,
    )


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    deadline = time.monotonic() + START_S
    for line in process.stderr:
        if words in line:
            return
        assert time.monotonic() < deadline, f"{words!r} was not said within {START_S} s"
    pytest.fail(f"it ended without {words!r}")


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def test_stdout_holds_one_line_of_json_whatever_functions_and_spark_print(tmp_path: Path) -> None:
    subprocess.run([*COMMAND, "init", str(tmp_path)], check=True, capture_output=True, env=environment())
    module = tmp_path / "cleaning.py"
    text = module.read_text(encoding="utf-8")
    shout = '    print("to Python")\n    __import__("os").system("echo to the process")\n'
    module.write_text(text.replace("    seconds =", f"{shout}    seconds ="), encoding="utf-8")

    process = started(tmp_path / "pipeline.yaml", "--json")
    out, err = process.communicate(timeout=300)

    answer: dict[str, Any] = json.loads(out)
    assert process.returncode == 0
    assert out.count("\n") == 1
    assert answer["status"] == "published"
    assert "to Python" in err
    assert "to the process" in err
    assert "silver.trips: published, 61 rows, 4 quarantined" in err


def test_ctrl_c_stops_a_run_cleanly_and_it_can_be_resumed(tmp_path: Path) -> None:
    file = a_slow_project(tmp_path, "in_spark")
    process = started(file, "--json")
    wait_for(process, "daily.slow: started")
    time.sleep(2)
    press_ctrl_c(process)
    out, err = process.communicate(timeout=60)

    answer = json.loads(out)
    record = latest(file)
    assert process.returncode == 130
    assert "Ctrl-C again to end at once" in err
    assert {node["name"]: node["status"] for node in answer["nodes"]} == {"first": "published", "slow": "failed"}
    assert not (tmp_path / "data/silver/slow").exists()
    assert record is not None
    assert record.run_id == answer["run_id"]
    assert record.is_interrupted
    assert record.ended_at is not None


def test_a_second_ctrl_c_ends_a_run_at_once_and_keeps_its_record(tmp_path: Path) -> None:
    file = a_slow_project(tmp_path, "in_python")
    process = started(file)
    wait_for(process, "daily.slow: started")
    time.sleep(2)
    press_ctrl_c(process)
    wait_for(process, "Ctrl-C again")
    time.sleep(1)
    press_ctrl_c(process)
    process.communicate(timeout=15)

    record = latest(file)
    assert process.returncode == 130
    assert record is not None
    assert {node.name: str(node.status) for node in record.nodes} == {"first": "published", "slow": "skipped"}
