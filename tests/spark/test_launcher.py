"""`headgate spark run` and `submit` as real processes: the job is the same, and the server knows it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headgate.client import HeadgateClient
from headgate.local import credentials
from headgate.local.credentials import Credentials
from headgate.spark.launch import HOOK, JARS_VARIABLE
from tests.support import maven
from tests.support.live import Live
from tests.support.spark_jobs import Finished, environment, finish, pyspark_home, run_job
from tests.support.watching import short

HEADGATE = [sys.executable, "-m", "headgate.cli.main"]
OTHER = "org.apache.spark.scheduler.StatsReportListener"
LOCAL = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}

# Says, as JSON, what became of its configuration, and whether any process of this machine shows the key.
JOB = """
import json, os, pathlib, sys
from pyspark.sql import SparkSession

def shown(key):
    lines = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes())
        except OSError:
            pass
    return any(key.encode() in line for line in lines)

builder = SparkSession.builder.appName("launched")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
context = spark.sparkContext
spark.range(7).write.parquet("numbers")
workers = context.parallelize([1], 1).map(lambda _: __import__("os").environ.get("PYTHONPATH", "")).collect()
loader = context._jvm.java.lang.Thread.currentThread().getContextClassLoader()
print(json.dumps({
    "application": context.applicationId,
    "arguments": sys.argv[2:],
    "input": "" if "PYSPARK_GATEWAY_PORT" in os.environ else sys.stdin.read(),  # spark-submit passes none on
    "listeners": (context.getConf().get("spark.extraListeners") or "").split(","),
    "drivers": loader.getResource("org/postgresql/Driver.class") is not None,
    "key_shown": shown(os.environ["HEADGATE_API_KEY"]),
    "hook_in_workers": "headgate/spark/hook" in workers[0],
    "hook_in_driver": "headgate/spark/hook" in os.environ.get("PYTHONPATH", ""),
}))
spark.stop()
sys.exit(7)
"""


def headgate_in(folder: Path, *arguments: str, stdin: str = "", **env: str) -> Finished:
    """One `headgate spark` command as a user would type it in a folder."""
    return finish([*HEADGATE, "spark", *arguments], cwd=folder, env=environment(env), timeout_s=180, stdin=stdin)


def a_folder_with_a_server(folder: Path, server: Live) -> None:
    """As `headgate up` leaves it."""
    (folder / ".headgate").mkdir()
    known = Credentials(server.url, "Live", server.email, server.password, server.api_key)
    credentials.write(folder / ".headgate", known)


def written_by(server: Live, application: str) -> set[str]:
    with HeadgateClient(server.url, server.api_key) as client:
        runs = client.runs(application_id=application, limit=100).items
        return {short(output) for run in runs for output in client.run(run["run_id"])["outputs"]}


def defaults_in(folder: Path, conf: Mapping[str, str]) -> dict[str, str]:
    """A configuration folder of the user's own."""
    (folder / "conf").mkdir()
    lines = [f"{key} {value}" for key, value in conf.items()]
    (folder / "conf" / "spark-defaults.conf").write_text("\n".join(lines))
    return {"SPARK_CONF_DIR": str(folder / "conf")}


def postgresql() -> str:
    return ",".join(map(str, maven.jars(maven.POSTGRESQL)))


def told(done: Finished) -> dict[str, Any]:
    """What JOB said, which is all that may be on its output."""
    assert done.returncode == 7, done.stderr
    assert len(done.stdout.splitlines()) == 1, done.stdout
    return dict(json.loads(done.stdout))


def test_job_that_sets_its_own_listeners_and_jars_is_watched_and_else_unchanged(
    tmp_path: Path, watching_server: Live
) -> None:
    a_folder_with_a_server(tmp_path, watching_server)
    (tmp_path / "job.py").write_text(JOB)
    builder = LOCAL | {"spark.extraListeners": OTHER, "spark.jars": postgresql()}
    done = headgate_in(tmp_path, "run", "job.py", json.dumps(builder), "--url", "x y", "", stdin="from stdin")
    job = told(done)
    assert job.pop("application") in done.stdout
    assert job == {
        "arguments": ["--url", "x y", ""],
        "input": "from stdin",
        "listeners": [OTHER, "headgate.spark.HeadgateListener"],
        "drivers": True,
        "key_shown": False,
        "hook_in_workers": False,
        "hook_in_driver": False,
    }
    assert written_by(watching_server, json.loads(done.stdout)["application"]) == {"numbers"}


def test_defaults_and_submit_arguments_of_the_user_count_as_ever(tmp_path: Path, watching_server: Live) -> None:
    (tmp_path / "job.py").write_text(JOB)
    own = defaults_in(tmp_path, LOCAL | {"spark.extraListeners": OTHER})
    submit = f"--jars {postgresql()} pyspark-shell"
    key = watching_server.api_key
    done = headgate_in(
        tmp_path,
        *("run", "--url", watching_server.url, "job.py", "{}"),
        **own,
        PYSPARK_SUBMIT_ARGS=submit,
        HEADGATE_API_KEY=key,
    )
    job = told(done)
    assert job["listeners"] == [OTHER, "headgate.spark.HeadgateListener"]
    assert job["drivers"] is True
    assert written_by(watching_server, job["application"]) == {"numbers"}


@pytest.mark.parametrize("builder", [{}, {"spark.extraListeners": OTHER}], ids=["by defaults", "by the builder"])
def test_submitted_job_keeps_its_own_listeners_and_jars(
    builder: dict[str, str], tmp_path: Path, watching_server: Live
) -> None:
    a_folder_with_a_server(tmp_path, watching_server)
    (tmp_path / "job.py").write_text(JOB)
    own = defaults_in(tmp_path, LOCAL | {"spark.extraListeners": OTHER, "spark.jars": postgresql()})
    arguments = ["submit", "--", "--name", "launched", "job.py", json.dumps(builder), "last"]
    done = headgate_in(tmp_path, *arguments, **own, SPARK_HOME=str(pyspark_home()))
    job = told(done)
    assert job["listeners"] == [OTHER, "headgate.spark.HeadgateListener"]
    assert job["drivers"] is True
    assert job["key_shown"] is False
    assert job["arguments"] == ["last"]
    assert written_by(watching_server, job["application"]) == {"numbers"}


def test_job_runs_on_when_the_agent_cannot_be_loaded(tmp_path: Path) -> None:
    hooked = {"PYTHONPATH": f"{HOOK}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".strip(os.pathsep)}
    done = run_job(
        """
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        print(spark.range(3).count())
        """,
        watch=False,
        env={**hooked, JARS_VARIABLE: str(tmp_path), "HEADGATE_URL": "http://127.0.0.1:1"},
    )
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert done.stderr.count("headgate: the job runs without the agent") == 1


def test_printed_configuration_keeps_the_key_out_of_what_spark_shows(tmp_path: Path, watching_server: Live) -> None:
    to = ["--url", watching_server.url, "--api-key", watching_server.api_key]
    printed = headgate_in(tmp_path, "conf", "--format", "json", "--with-key", *to)
    conf = json.loads(printed.stdout)
    done = run_job(
        """
        from pyspark.sql import SparkSession
        spark = SparkSession.builder.getOrCreate()
        spark.range(3).write.parquet("three")
        print(spark.sparkContext.applicationId)
        print(spark.sparkContext.getConf().toDebugString())
        """,
        watch=False,
        conf=conf,
    )
    assert done.returncode == 0, done.stderr
    assert watching_server.api_key in conf.values()
    assert watching_server.api_key not in done.stdout
    assert "spark.headgate.apiKey=*********(redacted)" in done.stdout
    assert written_by(watching_server, done.stdout.splitlines()[0]) == {"three"}


def test_without_a_server_the_job_runs_alone_and_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import os, sys; print(os.environ.get('PYTHONPATH')); sys.exit(3)")
    own = {"PYTHONPATH": os.environ.get("PYTHONPATH", "/own")}
    done = headgate_in(tmp_path, "run", "job.py", **own)
    assert (done.returncode, done.stdout) == (3, f"{own['PYTHONPATH']}\n")
    assert done.stderr.splitlines() == [
        "headgate: no server is named, so the job runs without the agent (`headgate up` starts one)"
    ]


def test_server_that_is_gone_is_said_and_the_job_runs_alone(tmp_path: Path) -> None:
    (tmp_path / ".headgate").mkdir()
    credentials.write(tmp_path / ".headgate", Credentials.fresh("http://127.0.0.1:1"))
    (tmp_path / "job.py").write_text("import os; print('HEADGATE_URL' in os.environ)")
    done = headgate_in(tmp_path, "run", "job.py")
    assert (done.returncode, done.stdout) == (0, "False\n")
    assert done.stderr == "headgate: no server answers at http://127.0.0.1:1, so the job runs without the agent\n"


def test_module_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "daily.py").write_text("import sys; print(__name__, sys.argv[1:])")
    done = headgate_in(tmp_path, "run", "-m", "jobs.daily", "--day", "1", PYTHONPATH=_path_with(tmp_path))
    assert done.stdout == "__main__ ['--day', '1']\n", done.stderr


def test_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.OWN = 'yes'")
    (tmp_path / "job.py").write_text("import sitecustomize; print(OWN, sitecustomize.__file__)")
    to = ["--url", "http://127.0.0.1:1"]
    done = headgate_in(tmp_path, "run", *to, "job.py", PYTHONPATH=_path_with(tmp_path))
    assert done.stdout == f"yes {tmp_path / 'sitecustomize.py'}\n", done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_reaches_the_job_once_and_its_end_is_the_jobs(number: signal.Signals, tmp_path: Path) -> None:
    script = """
    import signal, sys, time
    heard = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: heard.append(number))
    print("ready", flush=True)
    while not heard:
        time.sleep(0.01)
    time.sleep(0.3)
    sys.exit(40 + len(heard))
    """
    (tmp_path / "job.py").write_text("\n".join(line[4:] for line in script.splitlines()))
    command = [*HEADGATE, "spark", "run", "--url", "http://127.0.0.1:1", "job.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(20) == 41


@pytest.mark.parametrize(
    ("arguments", "env", "said"),
    [
        (["run", "job.py"], {"JAVA_HOME": "/nowhere"}, "Spark needs Java"),
        (["run", "job.py"], {"SPARK_HOME": "/nowhere"}, "holds no Spark"),
        (["run", "--python", "/bin/true", "job.py"], {}, "has no pyspark"),
        (["submit", "missing.py"], {}, "there is no job 'missing.py'"),
    ],
)
def test_what_spark_needs_is_asked_for_before_the_job(
    arguments: Sequence[str], env: Mapping[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text("print('ran')")
    started = time.monotonic()
    done = headgate_in(tmp_path, *arguments, **{"HEADGATE_URL": "http://127.0.0.1:1"} | dict(env))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[config.invalid]: ")
    assert said in done.stderr
    assert time.monotonic() - started < 20


def test_question_to_spark_submit_passes_through(tmp_path: Path) -> None:
    asked = ["submit", "--url", "http://127.0.0.1:1", "--", "--version"]
    done = headgate_in(tmp_path, *asked, SPARK_HOME=str(pyspark_home()))
    assert done.returncode == 0
    assert "version" in done.stderr


def _path_with(folder: Path) -> str:
    """The folder on the path, behind what the matrix puts there."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))
