"""PySpark scripts in a process of their own, with the agent added as a user would add it by hand."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from headgate.spark.compose import with_agent
from headgate.spark.jar import jar_path, scala_of

ROOT = Path(__file__).resolve().parents[2]
DEFAULTS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


class QuickJava(NamedTuple):
    """How a JVM of the tests is started, and the archive of classes that it uses if it is there (see `jvm`)."""

    flags: str
    archive: Path

    def __str__(self) -> str:
        return f"{self.flags} -XX:SharedArchiveFile={self.archive}"


class Finished(NamedTuple):
    """How a script ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def beside(spark: str) -> Path:
    """The folder of another Spark, such as "3.5": the one for the older Scala is there wherever the agent is built."""
    return ROOT / "build" / "spark" / spark


def pyspark_home(spark: str | None = None) -> Path:
    """The pyspark that this interpreter imports (the matrix puts another one in front), or another one."""
    if spark is not None:
        return beside(spark) / "pyspark"
    found = find_spec("pyspark")
    assert found is not None, "pyspark is not installed"
    assert found.origin is not None
    return Path(found.origin).parent


def spark_version(spark: str | None = None) -> str:
    found = re.search(r"""__version__[^"']*["']([^"']+)""", (pyspark_home(spark) / "version.py").read_text())
    assert found is not None
    return found[1]


def spark_minor(spark: str | None = None) -> tuple[int, int]:
    major, minor = spark_version(spark).split(".")[:2]
    return int(major), int(minor)


def jars_folder(spark: str | None = None) -> Path:
    return pyspark_home(spark) / "jars"


def scala_version(spark: str | None = None) -> str:
    found = scala_of(jars_folder(spark))
    assert found is not None
    return found


def agent_jar(spark: str | None = None) -> Path:
    return jar_path(spark_version(spark), scala_version(spark))


def quick_java() -> QuickJava:
    """Little is done often enough to be worth a better compiler, or collectors with threads of their own.

    Without a log: an archive of other jars is passed over, and nobody has to hear of it.
    """
    flags = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
    return QuickJava(flags, ROOT / "build" / "jvm" / f"{spark_version()}.jsa")


def submit_args(conf: Mapping[str, str], *, watch: bool = True, spark: str | None = None) -> str:
    """PYSPARK_SUBMIT_ARGS for a session with this configuration and, if watched, the agent."""
    wanted = DEFAULTS | dict(conf)
    wanted = with_agent(wanted, agent_jar(spark)) if watch else wanted
    options = [part for key, value in wanted.items() for part in ("--conf", f"{key}={value}")]
    return shlex.join([*options, "pyspark-shell"])


def environment(env: Mapping[str, str] | None = None, *, spark: str | None = None) -> dict[str, str]:
    """This process's environment without what would configure Headgate or Spark, and with `env`.

    How the JVMs of tests are started stays; a benchmark measures with JVMs as users have them.
    """
    outside = ("HEADGATE_", "SPARK_", "PYSPARK_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
    front = {"PYTHONPATH": os.pathsep.join(filter(None, [str(beside(spark)), own.get("PYTHONPATH")]))} if spark else {}
    options = os.environ.get("SPARK_SUBMIT_OPTS")
    quick = {"SPARK_SUBMIT_OPTS": options} if options == str(quick_java()) else {}
    return own | quick | {"PYSPARK_PYTHON": sys.executable} | front | dict(env or {})


def run_job(
    source: str,
    *,
    conf: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    args: Sequence[str] = (),
    timeout_s: float = 180,
    watch: bool = True,
    url: str | None = None,
    api_key: str | None = None,
    spark: str | None = None,
) -> Finished:
    """Run a script to its end in a folder of its own; it and its JVM are killed after `timeout_s`.

    `spark` is the minor version of a Spark other than this interpreter's own (see `beside`).
    """
    given = ({"spark.headgate.url": url} if url else {}) | dict(conf or {})
    known = {"HEADGATE_API_KEY": api_key} if api_key else {}
    variables = {"PYSPARK_SUBMIT_ARGS": submit_args(given, watch=watch, spark=spark)} | known | dict(env or {})
    with tempfile.TemporaryDirectory(prefix="headgate-job-") as folder:
        script = Path(folder) / "job.py"
        script.write_text(textwrap.dedent(source))
        surroundings = environment(variables, spark=spark)
        return finish([sys.executable, str(script), *args], cwd=folder, env=surroundings, timeout_s=timeout_s)


def finish(
    command: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], timeout_s: float, stdin: str = ""
) -> Finished:
    """Run a command to its end; its whole process group goes if it takes too long."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"not done within {timeout_s} s\n{out}\n{err}") from None
    return Finished(process.returncode, out, err)
