"""`headgate jobs` and `headgate runs`: what runs, and how it went."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, minute, moment

jobs_app = ask.group("List jobs and look at one.")
runs_app = ask.group("List runs and look at one.")

Text = Annotated[str | None, typer.Option(help="Only names that hold this.", show_default=False)]
Namespace = Annotated[str | None, typer.Option(help="Only of this namespace.", show_default=False)]
Job = Annotated[
    str, typer.Argument(help="Id, namespace/name, name, or a run or application of it.", show_default=False)
]
Run = Annotated[str, typer.Argument(help="The OpenLineage runId.", show_default=False)]
State = Annotated[str | None, typer.Option(help="Only in this state, such as FAIL.", show_default=False)]
JobName = Annotated[str | None, typer.Option("--job", help="Only of jobs whose name holds this.", show_default=False)]
Application = Annotated[str | None, typer.Option(help="Only of this Spark application.", show_default=False)]
Hours = Annotated[int | None, typer.Option(min=1, help="Only of the last hours.", show_default=False)]
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHOWN_FAILURES = 5
Stuck = Annotated[bool, typer.Option("--stuck", help="Only those that should have ended.")]


def _job_row(item: dict[str, Any]) -> tuple[str, ...]:
    latest = item["latest_run"] or {}
    return (
        item["name"],
        item["namespace"],
        latest.get("state", "never ran"),
        minute(latest.get("started_at")),
        duration(latest.get("duration_ms")),
    )


_show_jobs = ask.show_page(
    ("job", "namespace", "last run", "started", "took"), _job_row, "no job fits", whole=("started", "took")
)


@ask.question(jobs_app, "list", show=_show_jobs)
def list_jobs(text: Text = None, namespace: Namespace = None, limit: ask.Limit = 50) -> Question:
    """List jobs, each with its latest run."""
    from headgate.client import runs

    return runs.jobs(text=text, namespace=namespace, limit=limit)


def _show_job(found: dict[str, Any]) -> None:
    latest = found["latest_run"] or {}
    rows = [
        ("name", found["name"]),
        ("namespace", found["namespace"]),
        ("id", found["id"]),
        ("type", " ".join(filter(None, (found["integration"], found["processing_type"], found["job_type"])))),
        ("description", found["description"]),
        ("owners", ", ".join(found["owners"])),
        ("last run", f"{latest['state']} {latest['run_id']}" if latest else "never ran"),
        ("started", moment(latest.get("started_at"))),
        ("took", duration(latest.get("duration_ms"))),
        ("part of", ", ".join(parent["name"] for parent in found["parents"])),
        ("parts", ", ".join(child["name"] for child in found["children"])),
        ("reads", ", ".join(map(ask.label, found["inputs"]))),
        ("writes", ", ".join(map(ask.label, found["outputs"]))),
    ]
    console.pairs([(name, value) for name, value in rows if value])


@ask.question(jobs_app, "show", show=_show_job)
def show_job(job: Job) -> Question:
    """Show what is known of a job."""
    from headgate.client import runs

    return runs.job(job)


def _run_row(item: dict[str, Any]) -> tuple[str, ...]:
    state = f"{item['state']} (stuck)" if item["is_stuck"] else item["state"]
    where = " ".join(f"{key}={value}" for key, value in (item["partition_context"] or {}).items())
    return item["run_id"], minute(item["started_at"]), state, f"{item['job']['name']} {where}".rstrip()


_show_runs = ask.show_page(("run", "started", "state", "job"), _run_row, "no run fits", whole=("run", "started"))


@ask.question(runs_app, "list", show=_show_runs)
def list_runs(
    state: State = None,
    job_name: JobName = None,
    application: Application = None,
    hours: Hours = None,
    stuck: Stuck = False,
    limit: ask.Limit = 50,
) -> Question:
    """List runs, latest start first."""
    from headgate.client import runs

    return runs.runs(
        limit=limit,
        state=state and state.upper(),
        job_name=job_name,
        application_id=application,
        hours=hours,
        stuck=stuck or None,
    )


def _show_run(found: dict[str, Any]) -> None:
    rows = [
        ("run", found["run_id"]),
        ("job", f"{found['job']['namespace']}/{found['job']['name']}"),
        ("state", f"{found['state']} (stuck)" if found["is_stuck"] else found["state"]),
        ("history", ", ".join(f"{step['state']} {moment(step['at'])}" for step in found["state_history"])),
        ("took", duration(found["duration_ms"])),
        ("error", found["error"]),
        ("producer", found["producer_name"]),
        ("parents", " < ".join(parent["job"]["name"] for parent in found["parents"] if parent["job"])),
    ]
    # What a run that failed was to write is not there, or not whole.
    written = "was to write" if found["state"] in ("FAIL", "ABORT") else "wrote"
    rows += [("read", _amount(item)) for item in found["inputs"]]
    rows += [(written, _amount(item)) for item in found["outputs"]]
    rows += _below(found)
    rows += [(signal["severity"].lower(), signal["message"]) for signal in found["signals"]]
    console.pairs([(name, value) for name, value in rows if value])


def _below(found: dict[str, Any]) -> list[tuple[str, str]]:
    """How the runs below went, and which of them failed."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(found["children_by_state"].items()))
    failed = [child["job"]["name"] for child in found["children"] if child["state"] == "FAIL" and child["job"]]
    return [("below", states), *(("failed below", name) for name in failed[:_SHOWN_FAILURES])]


@ask.question(runs_app, "show", show=_show_run)
def show_run(run: Run) -> Question:
    """Show how a run went: states, what it read and wrote, what it cost."""
    from headgate.client import runs

    return runs.run(run)


def _stage_row(stage: dict[str, Any]) -> tuple[str, ...]:
    failed = f" ({stage['failed_tasks']} failed)" if stage["failed_tasks"] else ""
    cpu = stage["executor_cpu_time_ns"]
    spilled = (stage["memory_bytes_spilled"] or 0) + (stage["disk_bytes_spilled"] or 0)
    return (
        str(stage["stage_id"]),
        f"{stage['num_tasks'] or ''}{failed}",
        duration(stage["duration_ms"]),
        duration(cpu // 1_000_000) if cpu is not None else "",
        size(stage["input_bytes"]),
        size(stage["shuffle_read_bytes"]),
        size(stage["shuffle_write_bytes"]),
        size(stage["output_bytes"]),
        size(spilled),
    )


def _show_stages(answer: dict[str, Any]) -> None:
    if not answer["items"]:
        console.note("no stage is known of this run")
        return
    columns = ("stage", "tasks", "took", "CPU", "read", "fetched", "shuffled", "wrote", "spilled")
    console.table(columns, [_stage_row(stage) for stage in answer["items"]])
    for signal in answer["signals"]:
        console.note(f"{signal['severity'].lower()}: {signal['message']}")


@ask.question(runs_app, "stages", show=_show_stages)
def show_stages(run: Run) -> Question:
    """Show what each Spark stage of a run cost."""
    from headgate.client import runs

    return runs.run_stages(run)


def size(count: int | None) -> str:
    """A number of bytes that people can read; nothing for none."""
    if not count:
        return ""
    power = min((count.bit_length() - 1) // 10, len(_UNITS) - 1)
    return f"{count} B" if power == 0 else f"{count / 1024**power:.1f} {_UNITS[power]}"


def duration(milliseconds: int | None) -> str:
    """A length of time that people can read."""
    if milliseconds is None:
        return ""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _amount(item: dict[str, Any]) -> str:
    rows = "" if item["row_count"] is None else f", {item['row_count']:,} rows"
    return f"{ask.label(item)}{rows}"
