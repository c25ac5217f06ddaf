"""Background work: what is waiting, what failed, and trying again or giving up by hand."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from fastapi import Path, Query, Request
from fastapi.responses import PlainTextResponse, Response

from headgate.errors import Conflict, FieldError, InvalidFields, NotFound, Unavailable
from headgate.server.db.pool import Record
from headgate.server.deps import Admin, Db, Reader, Writer
from headgate.server.pagination import Numbered
from headgate.server.problems import problems
from headgate.server.routing import new_router
from headgate.server.tasks.schemas import (
    AttemptOut,
    BatchOut,
    BatchPage,
    RetriedOut,
    RetryIn,
    StatsOut,
    Status,
    TaskDetailOut,
    TaskOut,
    TaskPage,
    TypeStatsOut,
)
from headgate.server.tasks.store import TaskFilter, TaskStore

# A transaction makes no more tasks due than this: workers wait for its rows.
RETRY_BATCH = 2000
# Beyond the bound on what may wait, workers need about this long to get below it.
RETRY_AFTER_S = 30.0
# Nothing waits for so long while there are enough workers.
BEHIND = timedelta(minutes=1)

_WAITING = ("PENDING", "FAILED")
router = new_router("/api/v1", "tasks")

TaskId = Annotated[int, Path(ge=1, le=2**63 - 1)]
TypeName = Annotated[
    str | None, Query(alias="type", max_length=64, pattern="^[^\\x00]*$", description="Only of this type")
]
StatusNames = Annotated[list[Status] | None, Query(alias="status", description="Only in this state; may be repeated")]
Resource = Annotated[str | None, Query(max_length=256, pattern="^[^\\x00]*$", description="Only about this resource")]
ResourceType = Annotated[
    str | None, Query(max_length=64, pattern="^[^\\x00]*$", description="What the resource is; with `resource`")
]


@router.get("/tasks")
async def list_tasks(
    database: Db,
    caller: Reader,
    page: Numbered,
    type_: TypeName = None,
    status: StatusNames = None,
    resource: Resource = None,
    resource_type: ResourceType = None,
) -> TaskPage:
    """Tasks of the organisation, newest first."""
    if resource_type is not None and resource is None:
        error = FieldError("query.resource_type", "needs the resource it is of", resource_type)
        raise InvalidFields([error], hint="give `resource`, too, or leave `resource_type` out")
    wanted = TaskFilter(type_, status, resource_type, resource)
    async with database.tenant(caller.organization_id) as conn:
        rows, cursor = await TaskStore(conn, caller.organization_id).list(wanted, page)
    return TaskPage(items=[TaskOut(**_task(row)) for row in rows], next_cursor=cursor)


@router.get("/tasks/stats")
async def count_tasks(database: Db, caller: Reader) -> StatsOut:
    """How much is waiting, at work and dead, by type. Recurring work counts among what is pending."""
    async with database.tenant(caller.organization_id) as conn:
        states, due = await TaskStore(conn, caller.organization_id).counts()
    return _stats(states, due)


@router.get("/tasks/metrics", response_class=PlainTextResponse)
async def measure_tasks(request: Request, caller: Admin) -> Response:
    """What this process counts for the organisation, in Prometheus' text form; `/metrics` has it for all together."""
    telemetry = request.app.state.telemetry
    await telemetry.refresh()
    return Response(telemetry.render_for(caller.tenant_code), media_type=telemetry.content_type)


@router.get("/tasks/{task}", responses=problems(NotFound))
async def show_task(task: TaskId, database: Db, caller: Reader) -> TaskDetailOut:
    """One task with its attempts."""
    async with database.tenant(caller.organization_id) as conn:
        store = TaskStore(conn, caller.organization_id)
        row = await store.find(task)
        if row is None:
            raise _unknown(task)
        attempts = await store.attempts(task)
    return _detail(row, attempts)


@router.post("/tasks/{task}/retry", responses=problems(NotFound, Conflict))
async def retry_task(task: TaskId, request: Request, database: Db, caller: Writer) -> TaskOut:
    """Have a task that is dead, failed or canceled done now, with all its tries before it."""
    async with database.tenant(caller.organization_id) as conn:
        store = TaskStore(conn, caller.organization_id)
        row = await store.retry(task) or _refuse(await store.find(task), task, "retried")
    request.app.state.bell.ring(caller.organization_id)
    return TaskOut(**_task(row))


@router.post("/tasks/{task}/cancel", responses=problems(NotFound, Conflict))
async def cancel_task(task: TaskId, database: Db, caller: Writer) -> TaskOut:
    """Give a task up. If it is at work at this moment, its effects are not kept, except for what was sent already."""
    async with database.tenant(caller.organization_id) as conn:
        store = TaskStore(conn, caller.organization_id)
        row = await store.cancel(task, f"canceled by {caller.name}")
        row = row or _refuse(await store.find(task), task, "canceled")
    return TaskOut(**_task(row))


@router.post("/tasks/retry", responses=problems(Unavailable))
async def retry_tasks(body: RetryIn, request: Request, database: Db, caller: Writer) -> RetriedOut:
    """Have all dead or all failed tasks done now, of one type or of all, as far as there is room for them."""
    most: int = request.app.state.settings.tasks_max_backlog
    async with database.tenant(caller.organization_id) as conn:
        waiting = await TaskStore(conn, caller.organization_id).count_open(most)
    if waiting >= most:
        raise Unavailable(
            f"{most} tasks are waiting already", retry_after_s=RETRY_AFTER_S, hint="retry when some of them are done"
        )
    # What failed is among those that wait; what is dead comes on top.
    room = most - waiting if body.status == "DEAD" else most
    retried, limit = 0, 0
    while retried < room:
        limit = min(RETRY_BATCH, room - retried)
        async with database.tenant(caller.organization_id) as conn:
            number = await TaskStore(conn, caller.organization_id).retry_all(body.status, body.task_type, limit)
        retried += number
        request.app.state.bell.ring(caller.organization_id)
        if number < limit:
            return RetriedOut(retried=retried, is_more=False)
    return RetriedOut(retried=retried, is_more=True)


@router.get("/task-batches")
async def list_task_batches(database: Db, caller: Reader, page: Numbered, type_: TypeName = None) -> BatchPage:
    """Which tasks were done together, newest first. Recurring work has no batches."""
    async with database.tenant(caller.organization_id) as conn:
        rows, cursor = await TaskStore(conn, caller.organization_id).batches(type_, page)
    return BatchPage(items=[BatchOut(**_only(row, BatchOut)) for row in rows], next_cursor=cursor)


def _only(row: Record, shape: type[Any]) -> dict[str, Any]:
    return {name: row[name] for name in shape.model_fields}


def _task(row: Record) -> dict[str, Any]:
    found = _only(row, TaskOut) | {"payload": msgspec.json.decode(row["payload"])}
    return found if row["status"] in _WAITING else found | {"next_run_at": None}


def _detail(row: Record, attempts: Sequence[Record]) -> TaskDetailOut:
    log = [AttemptOut(**_only(attempt, AttemptOut)) for attempt in attempts]
    if row["status"] == "RUNNING":
        log.append(
            AttemptOut(
                attempt_no=row["attempts"],
                status="RUNNING",
                worker_id=row["worker_id"],
                batch_no=row["batch_no"],
                input_size=None,
                started_at=row["claimed_at"],
                finished_at=None,
                latency_ms=None,
                error_type=None,
                error_message=None,
            )
        )
    return TaskDetailOut(**_task(row), attempt_log=log)


def _stats(states: Sequence[Record], due: Sequence[Record]) -> StatsOut:
    types: dict[str, TypeStatsOut] = {}
    for row in states:
        name = row["task_type"]
        empty = TypeStatsOut(task_type=name, backlog=0, oldest_due_at=None, pending=0, failed=0, running=0, dead=0)
        setattr(types.setdefault(name, empty), row["status"].lower(), row["number"])
    for row in due:
        if row["task_type"] in types:
            types[row["task_type"]].backlog, types[row["task_type"]].oldest_due_at = row["number"], row["oldest_at"]
    listed = list(types.values())
    oldest: list[datetime] = [each.oldest_due_at for each in listed if each.oldest_due_at is not None]
    totals = {
        name: sum(getattr(each, name) for each in listed)
        for name in ("backlog", "pending", "failed", "running", "dead")
    }
    since = min(oldest, default=None)
    is_behind = since is not None and datetime.now(UTC) - since > BEHIND
    return StatsOut(**totals, oldest_due_at=since, is_behind=is_behind, types=listed)


def _refuse(row: Record | None, task_id: int, wish: str) -> Record:
    if row is None:
        raise _unknown(task_id)
    if row["repeat_s"] is not None and wish == "canceled":
        raise Conflict(
            f"task {task_id} is recurring work, which is not {wish}", hint="it comes again by itself; let it be"
        )
    hint = "it is tried by itself, soon" if row["status"] in ("PENDING", "RUNNING") else "it is over"
    raise Conflict(f"task {task_id} is {row['status']} and cannot be {wish}", hint=hint)


def _unknown(task_id: int) -> NotFound:
    return NotFound(f"there is no task {task_id}", hint="GET /api/v1/tasks lists them; old ones are removed")
