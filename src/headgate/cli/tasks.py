"""`headgate tasks`: what the workers have done and have to do, and trying again or giving up by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from textwrap import wrap
from typing import Annotated, Any

import typer

from headgate.cli import ask, console
from headgate.cli.ask import Question, minute, moment
from headgate.errors import FieldError, InvalidFields

app = ask.group("See background work, retry and cancel it.")

Type = Annotated[str | None, typer.Option("--type", help="Only of this type, such as DETECT.", show_default=False)]
Status = Annotated[
    list[str] | None, typer.Option(help="Only in this state, such as DEAD; may be repeated.", show_default=False)
]
Resource = Annotated[str | None, typer.Option(help="Only about this, such as the id of a run.", show_default=False)]
TaskId = Annotated[int, typer.Argument(metavar="TASK", min=1, help="As `tasks list` shows it.", show_default=False)]
MaybeTaskId = Annotated[
    int | None, typer.Argument(metavar="[TASK]", min=1, help="As `tasks list` shows it.", show_default=False)
]
Dead = Annotated[bool, typer.Option("--dead", help="All that were given up.")]
Failed = Annotated[bool, typer.Option("--failed", help="All that failed and wait for their next try.")]


# Where a line of what a task is about may end: an id of a run or a dataset is so long, and is copied.
_ID_WIDTH = 36
_AGES = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def _age(value: object) -> str:
    """How long ago, in a few characters: a time in full would leave no room for what people copy."""
    past = max(0, int((datetime.now(UTC) - datetime.fromisoformat(str(value))).total_seconds()))
    unit, seconds = next((each for each in _AGES if past >= each[1]), _AGES[-1])
    return f"{past // seconds}{unit}"


def _task_row(item: dict[str, Any]) -> tuple[str, ...]:
    about = "\n".join(wrap(item["resource_id"], _ID_WIDTH, break_on_hyphens=False))
    return str(item["id"]), item["task_type"], item["status"], str(item["attempts"]), _age(item["updated_at"]), about


_show_tasks = ask.show_page(
    ("task", "type", "status", "tries", "age", "about"),
    _task_row,
    "no task fits",
    whole=("task", "type", "status", "about"),
)


@ask.question(app, "list", show=_show_tasks)
def list_tasks(type_: Type = None, status: Status = None, resource: Resource = None, limit: ask.Limit = 50) -> Question:
    """List tasks, newest first."""
    from headgate.client import tasks

    states = [state.upper() for state in status or ()]
    return tasks.tasks(task_type=type_ and type_.upper(), status=states, resource=resource, limit=limit)


def _attempt(item: dict[str, Any]) -> str:
    took = "" if item["latency_ms"] is None else f" after {item['latency_ms'] / 1000:.1f} s"
    error = f": {item['error_type']}: {item['error_message']}" if item["error_type"] else ""
    return f"{item['status']} {moment(item['started_at'])}{took}{error}"


def _show_task(found: dict[str, Any]) -> None:
    rows = [
        ("task", str(found["id"])),
        ("type", found["task_type"]),
        ("status", found["status"]),
        ("about", f"{found['resource_type'].lower()} {found['resource_id']}"),
        ("model", found["model_fingerprint"]),
        ("made", moment(found["created_at"])),
        ("due", moment(found["next_run_at"])),
        ("every", f"{found['repeat_s']} s" if found["repeat_s"] else ""),
        ("retries", f"{found['retry_count']} of {found['max_retry']}"),
        ("worker", found["worker_id"] if found["status"] == "RUNNING" else ""),
        ("last error", found["last_error"]),
    ]
    rows += [(f"attempt {item['attempt_no']}", _attempt(item)) for item in found["attempt_log"]]
    console.pairs([(name, value) for name, value in rows if value])


@ask.question(app, "show", show=_show_task)
def show_task(task: TaskId) -> Question:
    """Show a task with its attempts."""
    from headgate.client import tasks

    return tasks.task(task)


def _show_retried(answer: dict[str, Any]) -> None:
    if "retried" not in answer:
        console.say(f"task {answer['id']} is due now")
        return
    console.say(f"{ask.count(answer['retried'], 'task')} due now")
    if answer["is_more"]:
        console.note("enough is waiting already; ask again for the rest when some of it is done")


@ask.question(app, "retry", show=_show_retried)
def retry(task: MaybeTaskId = None, dead: Dead = False, failed: Failed = False, type_: Type = None) -> Question:
    """Have one task done now, or all dead or failed ones, of one type or of all."""
    from headgate.client import tasks

    if [task is not None, dead, failed].count(True) != 1 or (task is not None and type_ is not None):
        raise InvalidFields(
            [FieldError("TASK", "say which: a task, --dead or --failed")],
            hint="`headgate tasks retry --dead --type ALERT` has all dead alerts tried again",
        )
    if task is not None:
        return tasks.retry_task(task)
    return tasks.retry_tasks("DEAD" if dead else "FAILED", task_type=type_ and type_.upper())


def _show_canceled(answer: dict[str, Any]) -> None:
    console.say(f"task {answer['id']} is canceled; `headgate tasks retry {answer['id']}` takes it up again")


@ask.question(app, "cancel", show=_show_canceled)
def cancel(task: TaskId) -> Question:
    """Give a task up."""
    from headgate.client import tasks

    return tasks.cancel_task(task)


def _stats_row(item: dict[str, Any]) -> tuple[str, ...]:
    numbers = (f"{item[name]:,}" for name in ("backlog", "running", "failed", "dead"))
    return (item["task_type"], *numbers, minute(item["oldest_due_at"]))


def _show_stats(answer: dict[str, Any]) -> None:
    if not answer["types"]:
        console.note("there are no tasks")
        return
    rows = [_stats_row(item) for item in (*answer["types"], answer | {"task_type": "all"})]
    console.table(("type", "due", "running", "failed", "dead", "oldest due"), rows, whole=("type", "oldest due"))
    if answer.get("is_behind"):
        console.note("the work is behind: something has been due for more than a minute; more workers help")


@ask.question(app, "stats", show=_show_stats)
def stats() -> Question:
    """Count what is due, at work, waiting for a retry and dead, by type."""
    from headgate.client import tasks

    return tasks.task_stats()
