"""`headgate spark`: run a Spark job with the agent, or print what to add to one that is started elsewhere."""

from __future__ import annotations

import os
import socket
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from headgate.cli import ask, console
from headgate.cli.ask import DataDir
from headgate.errors import ConfigError
from headgate.local import credentials

if TYPE_CHECKING:
    from headgate.spark.compose import Server

app = ask.group("Watch Spark jobs: unchanged, by configuration alone.")

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
_PROBE_S = 1.0

Url = Annotated[str | None, typer.Option(envvar="HEADGATE_URL", help="Server to send to; else the one of this folder.")]
ApiKey = Annotated[
    str | None, typer.Option(envvar="HEADGATE_API_KEY", help="Key with the scope `ingest`.", show_default=False)
]
Namespace = Annotated[
    str | None, typer.Option(envvar="HEADGATE_NAMESPACE", help="Namespace of the jobs.", show_default=False)
]
SpoolDir = Annotated[
    Path | None,
    typer.Option(envvar="HEADGATE_SPOOL_DIR", help="Keep undelivered events here for `headgate replay`."),
]
RequireServer = Annotated[bool, typer.Option("--require-server", help="Refuse to run if no server answers.")]
Python = Annotated[str | None, typer.Option(help="Interpreter of the job.", show_default=False)]
SparkVersion = Annotated[
    str | None, typer.Option(help="Version of Spark, as in 3.5.9; else the one found here.", show_default=False)
]
Scala = Annotated[str | None, typer.Option(help="Scala that it is built with.", show_default=False)]


class Format(StrEnum):
    """How `headgate spark conf` prints."""

    submit = "submit"
    defaults = "defaults"
    python = "python"
    json = "json"


@app.command(context_settings=_PASSED_ON)
def run(
    context: typer.Context,
    job: Annotated[
        str | None, typer.Argument(help="The job's script; its arguments follow.", show_default=False)
    ] = None,
    module: Annotated[str | None, typer.Option("-m", help="Run a module, as `python -m` does.")] = None,
    by_submit: Annotated[bool, typer.Option("--submit", help="Run it by spark-submit.")] = False,
    python: Python = None,
    url: Url = None,
    api_key: ApiKey = None,
    namespace: Namespace = None,
    spool_dir: SpoolDir = None,
    require_server: RequireServer = False,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
) -> None:
    """Run a PySpark script unchanged, with the agent: `headgate spark run job.py --its-own arguments`.

    Input, output, signals and the exit code are the job's own. Without a server it says so and runs the job alone.
    """
    from headgate.spark import launch

    given = [*([job] if job is not None else []), *context.args]
    if not given and module is None:
        raise ConfigError("no job is named", hint="headgate spark run job.py, or headgate spark run -m package.job")
    if module is None and not by_submit:
        _refuse_option(given[0])
        launch.check_job(given[0])
    server = _server(url, api_key, namespace, spool_dir, data_dir, require_server)
    environ = dict(os.environ)
    if by_submit:
        launch.start(launch.submission(given, server, environ=environ))
    if module is not None:
        launch.start(launch.module(module, given, server, python=python, environ=environ))
    launch.start(launch.script(given[0], given[1:], server, python=python, environ=environ))


def _refuse_option(job: str) -> None:
    """What stands where the job should be is an option that we do not know."""
    if job.startswith("-") and not Path(job).exists():
        raise ConfigError(
            f"there is no option {job!r}", hint="the job's own options follow the job; see --help for ours"
        )


@app.command(context_settings=_PASSED_ON)
def submit(
    context: typer.Context,
    url: Url = None,
    api_key: ApiKey = None,
    namespace: Namespace = None,
    spool_dir: SpoolDir = None,
    require_server: RequireServer = False,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
) -> None:
    """Call spark-submit with the agent: `headgate spark submit -- --master yarn job.py arguments`.

    Your own --jars, --conf and spark-defaults.conf count as they do without it.
    """
    from headgate.spark import launch
    from headgate.spark.submit import Submission

    if not context.args:
        raise ConfigError("nothing to submit", hint="headgate spark submit -- OPTIONS job.py ARGUMENTS")
    server = _server(url, api_key, namespace, spool_dir, data_dir, require_server)
    launched = launch.submission(context.args, server, environ=dict(os.environ))
    if server is not None and server.api_key and Submission.parse(context.args).is_in_cluster:
        console.note("headgate: the driver runs elsewhere: give it HEADGATE_API_KEY there (docs/spark.md says how)")
    launch.start(launched)


@app.command()
def conf(
    form: Annotated[
        Format, typer.Option("--format", help="For spark-submit, spark-defaults.conf, Python or as JSON.")
    ] = Format.submit,
    with_key: Annotated[bool, typer.Option("--with-key", help="Print the API key, too.")] = False,
    jar: Annotated[
        str | None, typer.Option(help="Where the jar is for Spark, if not here.", show_default=False)
    ] = None,
    spark_version: SparkVersion = None,
    scala: Scala = None,
    url: Url = None,
    api_key: ApiKey = None,
    namespace: Namespace = None,
    spool_dir: SpoolDir = None,
    data_dir: DataDir = credentials.DEFAULT_DATA_DIR,
) -> None:
    """Print what to add to any spark-submit, notebook or spark-defaults.conf.

    The API key is left out unless you ask for it: the driver takes HEADGATE_API_KEY from its environment.
    """
    from headgate.spark import compose, formats

    server = _named(url, api_key, namespace, spool_dir, data_dir) or compose.Server(None, None, namespace)
    settings = compose.with_key(server) if with_key else server.settings
    added = compose.with_agent({}, jar or _jar(spark_version, scala), settings)
    console.say(formats.written(added, form.value))
    if server.url is None:
        console.note("headgate: no server is named: add spark.headgate.url, or set HEADGATE_URL for the driver")
    elif not with_key:
        console.note("headgate: set HEADGATE_API_KEY in the driver's environment")


@app.command("jar")
def print_jar(spark_version: SparkVersion = None, scala: Scala = None) -> None:
    """Print the path of the agent's jar for a version of Spark."""
    console.say(str(_jar(spark_version, scala)))


def _jar(spark_version: str | None, scala: str | None) -> Path:
    from headgate.spark import find, jar

    if spark_version is not None:
        return jar.jar_path(spark_version, scala)
    found = find.spark_of_python(find.python_for(None))
    return jar.jar_path(found.version, scala or found.scala)


def _server(
    url: str | None,
    api_key: str | None,
    namespace: str | None,
    spool_dir: Path | None,
    data_dir: Path,
    require: bool,
) -> Server | None:
    """Where to send; None, with a line that says so, if the job is to run alone."""
    found = _named(url, api_key, namespace, spool_dir, data_dir)
    if require and (found is None or not _answers(found.url)):
        raise ConfigError(
            f"no server answers at {found.url}" if found and found.url else "no server is named",
            hint="start one with `headgate up`, or leave out --require-server to run the job alone",
        )
    if found is None:
        console.note("headgate: no server is named, so the job runs without the agent (`headgate up` starts one)")
        return None
    # One that was named is the agent's to reach; one that a credentials file remembers may be long gone.
    if url is None and spool_dir is None and not _answers(found.url):
        console.note(f"headgate: no server answers at {found.url}, so the job runs without the agent")
        return None
    return found


def _named(
    url: str | None, api_key: str | None, namespace: str | None, spool_dir: Path | None, data_dir: Path
) -> Server | None:
    from headgate.spark.compose import Server

    spool = str(spool_dir.absolute()) if spool_dir else None
    if url is None and credentials.read(data_dir) is None:
        return Server(None, None, namespace, spool) if spool else None
    to = credentials.target(url, api_key, data_dir)
    return Server(to.url, to.api_key, namespace, spool)


def _answers(url: str | None) -> bool:
    parts = urlsplit(url or "")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=_PROBE_S).close()
    except (OSError, ValueError):
        return False
    return True
