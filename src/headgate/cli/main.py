"""The `headgate` command: reads arguments, calls the module that does the work, and words the failures."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli import (
    alerts,
    aliases,
    anomalies,
    console,
    datasets,
    events,
    incidents,
    jobs,
    keys,
    lineage,
    pipelines,
    quarantine,
    replay,
    scaffold,
    schema,
    search,
    spark,
    story,
    tasks,
)
from headgate.errors import HeadgateError
from headgate.local.credentials import DEFAULT_DATA_DIR

EXIT_BUG, EXIT_USER, EXIT_INTERRUPTED = 1, 2, 130

app = typer.Typer(
    name="headgate",
    help="Watch and guard the data that flows through Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Host = Annotated[str, typer.Option(envvar="HEADGATE_HOST", help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, envvar="HEADGATE_PORT", help="Port; 0 picks a free one.")]
DataDir = Annotated[Path, typer.Option(envvar="HEADGATE_DATA_DIR", help="Where the database and the credentials live.")]


@app.command()
def up(host: Host = "127.0.0.1", port: Port = 8642, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Start everything on this machine: PostgreSQL, API and worker.

    With HEADGATE_DATABASE_URL it uses that PostgreSQL instead of the embedded one. The first start
    makes an organisation, an admin and an API key, and writes them to credentials.json in the data
    directory. Ctrl-C stops everything.
    """
    from headgate.cli import launch

    launch.up(host=host, port=port, data_dir=data_dir)


@app.command()
def serve(host: Host = "127.0.0.1", port: Port = 8642) -> None:
    """Serve the API on the PostgreSQL of HEADGATE_DATABASE_URL.

    Any number of these may run, on any number of machines, with at least one `headgate worker`.
    """
    from headgate.cli import launch

    launch.serve(host=host, port=port)


@app.command()
def worker(
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="How many batches to work on at once.")] = 2,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            envvar="HEADGATE_METRICS_PORT",
            help="Serve Prometheus' /metrics here.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Work on the background tasks in HEADGATE_DATABASE_URL.

    Any number of these may run, on any number of machines.
    """
    from headgate.cli import launch

    launch.worker(concurrency=concurrency, metrics_port=metrics_port)


@app.command()
def migrate() -> None:
    """Bring the database of HEADGATE_DATABASE_URL to this version.

    HEADGATE_MIGRATION_URL, if set, names the role that may change the schema.
    """
    from headgate.cli import launch

    applied = launch.migrate_database()
    typer.echo("\n".join(f"applied {name}" for name in applied) or "up to date")


app.command("init")(scaffold.init)
pipelines.add_to(app)
app.command("story")(story.story)
app.add_typer(quarantine.app, name="quarantine")
app.command("replay")(replay.replay)
search.add_to(app)
app.add_typer(lineage.app, name="lineage")
app.add_typer(schema.app, name="schema")
app.add_typer(datasets.app, name="datasets")
app.add_typer(jobs.jobs_app, name="jobs")
app.add_typer(jobs.runs_app, name="runs")
app.add_typer(anomalies.app, name="anomalies")
app.add_typer(incidents.app, name="incidents")
app.add_typer(alerts.app, name="alerts")
app.add_typer(aliases.app, name="aliases")
app.add_typer(events.app, name="events")
app.add_typer(tasks.app, name="tasks")
app.add_typer(keys.app, name="keys")
app.add_typer(spark.app, name="spark")


@app.command()
def version(as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False) -> None:
    """Print the version."""
    from importlib import metadata

    found = metadata.version("headgate")
    typer.echo(f'{{"version": "{found}"}}' if as_json else f"headgate {found}")


def main() -> None:
    """Entry point: every failure becomes one `error[code]` line and an exit code."""
    code = run(sys.argv[1:])
    # All is done: a further Ctrl-C would change nothing but the exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code: 0, 2 for user errors, 1 for bugs, 130 for Ctrl-C.

    A run of pipelines that a gate or a test has stopped ends with 3.
    """
    try:
        result = app(arguments, prog_name="headgate", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except HeadgateError as error:
        console.show_error(error)
        return EXIT_BUG if error.code == HeadgateError.code else EXIT_USER
    except typer.TyperException as error:
        return _usage_error(error)
    except (typer.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except Exception as error:  # the outermost boundary: a bug is shown whole, so that it can be reported
        import traceback

        traceback.print_exc()
        console.fail("internal", f"{type(error).__name__}: {error}", hint="this is a bug in headgate; please report it")
        return EXIT_BUG


def _usage_error(error: typer.TyperException) -> int:
    context: typer.Context | None = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        console.note(error.format_message())
        return EXIT_USER
    command = context.command_path if context else "headgate"
    console.fail("usage", error.format_message(), hint=f"`{command} --help` shows what it takes")
    return EXIT_USER


if __name__ == "__main__":
    main()
