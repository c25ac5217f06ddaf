"""What to execute so that a job runs as it would alone, with the agent beside it.

A launch is a value: a command and an environment. `start` replaces this process by it, so that the job's
input, output, signals and exit code are its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from headgate.errors import ConfigError
from headgate.spark import find, properties
from headgate.spark.compose import Server
from headgate.spark.jar import FOLDER, jar_path
from headgate.spark.submit import Submission

HOOK = Path(__file__).parent / "hook"
JARS_VARIABLE = "HEADGATE_SPARK_JARS"
NAME_VARIABLE = "HEADGATE_APPLICATION"


@dataclass(frozen=True)
class Launch:
    """A command and the environment it gets, which may hold a key."""

    command: list[str]
    environment: dict[str, str] = field(repr=False)


def script(
    job: str, arguments: Sequence[str], server: Server | None, *, python: str | None, environ: Mapping[str, str]
) -> Launch:
    """`python job.py arguments...`; watched, if there is a server."""
    check_job(job)
    return _by_python(Path(job).stem, [job, *arguments], server, python, environ)


def module(
    name: str, arguments: Sequence[str], server: Server | None, *, python: str | None, environ: Mapping[str, str]
) -> Launch:
    """`python -m name arguments...`; watched, if there is a server."""
    return _by_python(name, ["-m", name, *arguments], server, python, environ)


def submission(arguments: Sequence[str], server: Server | None, *, environ: Mapping[str, str]) -> Launch:
    """`spark-submit arguments...`; watched, if there is a server."""
    read = Submission.parse(arguments)
    spark = find.spark_of_submit(environ)
    find.java_of(environ)
    if read.is_question or server is None:
        return Launch([str(spark.submit), *arguments], dict(environ))
    if read.application and read.application[0].endswith(".py") and "://" not in read.application[0]:
        check_job(read.application[0])
    jar = jar_path(spark.version, spark.scala)
    command = read.with_agent(jar, server.settings, lambda: properties.spark_defaults(spark.home, environ))
    return Launch([str(spark.submit), *command], watched(environ, server))


def watched(environ: Mapping[str, str], server: Server) -> dict[str, str]:
    """An environment in which every Python that makes a SparkContext adds the agent to it."""
    path = os.pathsep.join(part for part in (str(HOOK), environ.get("PYTHONPATH")) if part)
    return {**environ, **server.environment, "PYTHONPATH": path, JARS_VARIABLE: str(FOLDER)}


def start(launch: Launch) -> NoReturn:
    """Become the job. Returns to nobody."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        # There is no replacing a process there; the exit code is passed on.
        sys.exit(subprocess.run(launch.command, env=launch.environment, check=False).returncode)
    try:
        os.execve(launch.command[0], launch.command, launch.environment)
    except OSError as error:
        raise ConfigError(
            f"{launch.command[0]!r} cannot be started: {error.strerror}", hint="check that it may be executed"
        ) from error


def _by_python(
    name: str, arguments: list[str], server: Server | None, named: str | None, environ: Mapping[str, str]
) -> Launch:
    python = find.python_for(named, environ)
    spark = find.spark_of_python(python, environ)
    find.java_of(environ)
    if server is None:
        return Launch([str(python), *arguments], dict(environ))
    jar_path(spark.version, spark.scala)  # refuses a Spark that there is no jar for
    # An application that the job gives no name to is known by its script's.
    return Launch([str(python), *arguments], watched({NAME_VARIABLE: name, **environ}, server))


def check_job(job: str) -> None:
    """Refuse a script that is not there."""
    path = Path(job)
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise ConfigError(f"{job!r} is a folder, not a job", hint="give the script that starts the job")
    if not path.exists():
        raise ConfigError(f"there is no job {job!r}", hint="give the path of the script, seen from this folder")
