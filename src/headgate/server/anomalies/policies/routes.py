"""How series are judged, and what people expect of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from headgate.domain.patterns import ALL
from headgate.errors import Conflict, FieldError, InvalidFields, NotFound
from headgate.server.anomalies.judging.rules import hold_names, load_rules, rule_of
from headgate.server.anomalies.policies.schemas import (
    EffectiveOut,
    EffectivePolicyOut,
    Judged,
    MarkIn,
    MarkKind,
    MarkOut,
    MarkPage,
    PolicyIn,
    PolicyOut,
    PolicyPage,
)
from headgate.server.anomalies.policies.store import About, NewMark, PolicyStore
from headgate.server.db.pool import Connection, Record
from headgate.server.deps import Db, Reads, Writer
from headgate.server.pagination import Paged
from headgate.server.problems import problems
from headgate.server.references.datasets import DatasetRef, find_dataset
from headgate.server.routing import new_router

router = new_router("/api/v1", "anomalies")


@router.get("/detection-policies")
async def list_detection_policies(reads: Reads, page: Paged) -> PolicyPage:
    """How series are judged where that is not the default, the latest policy first."""
    async with reads.open() as conn:
        rows, cursor = await PolicyStore(conn, reads.organization_id).page(page)
    return PolicyPage(items=[_policy(row) for row in rows], next_cursor=cursor)


@router.post("/detection-policies", status_code=201, responses=problems(NotFound, Conflict))
async def create_detection_policy(body: PolicyIn, caller: Writer, database: Db) -> PolicyOut:
    """Sets how a metric of some datasets is judged. Where several fit, the most specific counts as a whole."""
    async with database.tenant(caller.organization_id) as conn:
        about = await _about(conn, caller.organization_id, body.dataset)
        row = await PolicyStore(conn, caller.organization_id).add(about, body, caller.name)
    return _policy(row)


@router.get("/detection-policies/{policy}", responses=problems(NotFound))
async def get_detection_policy(policy: UUID, reads: Reads) -> PolicyOut:
    """One policy."""
    async with reads.open() as conn:
        return _policy(await PolicyStore(conn, reads.organization_id).get(policy))


@router.put("/detection-policies/{policy}", responses=problems(NotFound, Conflict))
async def change_detection_policy(policy: UUID, body: PolicyIn, caller: Writer, database: Db) -> PolicyOut:
    """Puts a policy in the place of another; what is left out has its default again."""
    async with database.tenant(caller.organization_id) as conn:
        about = await _about(conn, caller.organization_id, body.dataset)
        row = await PolicyStore(conn, caller.organization_id).change(policy, about, body)
    return _policy(row)


@router.delete("/detection-policies/{policy}", status_code=204, responses=problems(NotFound))
async def delete_detection_policy(policy: UUID, caller: Writer, database: Db) -> None:
    """Removes a policy."""
    async with database.tenant(caller.organization_id) as conn:
        await PolicyStore(conn, caller.organization_id).remove(policy)


@router.get("/datasets/{dataset}/detection-policy", responses=problems(NotFound, Conflict))
async def get_dataset_policy(dataset: DatasetRef, reads: Reads) -> EffectivePolicyOut:
    """How each metric of a dataset is judged, and which policy says so."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        rules = await load_rules(conn, reads.organization_id, [found.id])
    metrics = {}
    for metric in Judged:
        rule = rules.rule(found.id, metric)
        source = None if rule is None else rule.pattern or found.urn
        settings = vars(rules.policy(found.id, metric))
        metrics[metric.value] = EffectiveOut(policy_id=rule and rule.id, policy=source, **settings)
    return EffectivePolicyOut(dataset=found.out(), metrics=metrics)


@router.get("/datasets/{dataset}/expected", responses=problems(NotFound, Conflict))
async def list_expected(dataset: DatasetRef, reads: Reads, page: Paged) -> MarkPage:
    """What people expect of a dataset, the latest mark first."""
    async with reads.open() as conn:
        found = await find_dataset(conn, reads.organization_id, dataset)
        rows, cursor = await PolicyStore(conn, reads.organization_id).marks(found.id, page)
    return MarkPage(items=[_mark(row) for row in rows], next_cursor=cursor)


@router.post("/datasets/{dataset}/expected", status_code=201, responses=problems(NotFound, Conflict))
async def add_expected(dataset: DatasetRef, body: MarkIn, caller: Writer, database: Db) -> MarkOut:
    """Says that values out of the band are to be expected. They are no anomalies then, and no part of what is usual."""
    given = body.model_dump() | {"anomaly_id": None, "created_by": caller.name}
    if body.kind is MarkKind.until and body.at is None:
        given["at"] = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    async with database.tenant(caller.organization_id) as conn:
        await hold_names(conn, caller.organization_id)
        found = await find_dataset(conn, caller.organization_id, dataset)
        return _mark(await PolicyStore(conn, caller.organization_id).add_mark(found.id, NewMark(**given)))


@router.delete("/datasets/{dataset}/expected/{mark}", status_code=204, responses=problems(NotFound, Conflict))
async def delete_expected(dataset: DatasetRef, mark: UUID, caller: Writer, database: Db) -> None:
    """Takes back what somebody expected. What was judged meanwhile stays as it is."""
    async with database.tenant(caller.organization_id) as conn:
        await hold_names(conn, caller.organization_id)
        found = await find_dataset(conn, caller.organization_id, dataset)
        await PolicyStore(conn, caller.organization_id).remove_mark(found.id, mark)


async def _about(conn: Connection, organization_id: UUID, text: str) -> About:
    """A pattern ends with a star; everything else is the name of a dataset that exists."""
    wanted = text.strip()
    if ALL in wanted[:-1]:
        error = FieldError("dataset", "may have a `*` only at its end", text[:120])
        raise InvalidFields([error], hint="give a name, the beginning of names such as `sales_*`, or `*`")
    if wanted.endswith(ALL):
        return About(None, wanted)
    await hold_names(conn, organization_id)
    return About((await find_dataset(conn, organization_id, wanted)).id, None)


def _policy(row: Record) -> PolicyOut:
    settings = vars(rule_of(row).policy)
    names = ("id", "dataset_id", "description", "created_by", "created_at", "updated_at")
    of: dict[str, Any] = {name: row[name] for name in names}
    return PolicyOut(dataset=row["pattern"] or row["urn"], metric=row["metric"] or None, **of, **settings)


def _mark(row: Record) -> MarkOut:
    names = [name for name in MarkOut.model_fields if name != "column"]
    return MarkOut(column=row["column_name"], **{name: row[name] for name in names})
