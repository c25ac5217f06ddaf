"""Policies and marks of one organisation in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import asyncpg

from headgate.errors import Conflict, NotFound
from headgate.server.anomalies.policies.schemas import PolicyIn
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.pagination import Page

Q = Queries("headgate.server.anomalies.policies")


class About(NamedTuple):
    """Which datasets a policy is for: one, or those that fit a pattern."""

    dataset_id: UUID | None
    pattern: str | None


class NewMark(NamedTuple):
    """What somebody expects, before it is kept."""

    kind: str
    at: datetime | None
    weekday: int | None
    until: datetime | None
    metric: str | None
    column: str | None
    partition_key: str | None
    note: str | None
    anomaly_id: UUID | None
    created_by: str
    side: str | None = None


class PolicyStore:
    """On a connection that has the organisation set."""

    def __init__(self, conn: Connection, organization_id: UUID) -> None:
        self._conn = conn
        self._organization_id = organization_id

    async def page(self, page: Page) -> tuple[Sequence[Record], str | None]:
        return page.cut(await self._fetch(Q.list_policies, page.at, page.id, page.limit + 1))

    async def get(self, policy_id: UUID) -> Record:
        row = await self._conn.fetchrow(Q.get_policy, self._organization_id, policy_id)
        if row is None:
            raise _unknown_policy(policy_id)
        return row

    async def add(self, about: About, policy: PolicyIn, by: str) -> Record:
        try:
            row = await self._conn.fetchrow(Q.add_policy, self._organization_id, *about, *_columns(policy), by)
        except asyncpg.UniqueViolationError:
            raise _taken(policy) from None
        return await self.get(row["id"])

    async def change(self, policy_id: UUID, about: About, policy: PolicyIn) -> Record:
        try:
            given = (policy_id, *about, *_columns(policy))
            row = await self._conn.fetchrow(Q.change_policy, self._organization_id, *given)
        except asyncpg.UniqueViolationError:
            raise _taken(policy) from None
        if row is None:
            raise _unknown_policy(policy_id)
        return await self.get(policy_id)

    async def remove(self, policy_id: UUID) -> None:
        if await self._conn.fetchval(Q.delete_policy, self._organization_id, policy_id) is None:
            raise _unknown_policy(policy_id)

    async def marks(self, dataset_id: UUID, page: Page) -> tuple[Sequence[Record], str | None]:
        return page.cut(await self._fetch(Q.list_marks, dataset_id, page.at, page.id, page.limit + 1))

    async def add_mark(self, dataset_id: UUID, mark: NewMark) -> Record:
        return await self._conn.fetchrow(Q.add_mark, self._organization_id, dataset_id, *mark)

    async def remove_mark(self, dataset_id: UUID, mark_id: UUID) -> None:
        if await self._conn.fetchval(Q.delete_mark, self._organization_id, dataset_id, mark_id) is None:
            raise NotFound(
                f"no mark {str(mark_id)!r} of this dataset", hint="GET on the same path without the id lists them"
            )

    async def _fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self._conn.fetch(query, self._organization_id, *arguments)
        return rows


def _columns(policy: PolicyIn) -> tuple[object, ...]:
    return (
        policy.metric or "", policy.description, policy.enabled, policy.method, policy.sigma, policy.min_points,
        policy.window_days, policy.drop_share, policy.floor_share, policy.seasonality, policy.small_sample,
        policy.spike_severity, policy.drop_severity,
    )  # fmt: skip


def _taken(policy: PolicyIn) -> Conflict:
    of = f"the metric {policy.metric.value!r}" if policy.metric else "all metrics"
    return Conflict(
        f"there is a policy for {policy.dataset!r} and {of} already", hint="change that one, or remove it first"
    )


def _unknown_policy(policy_id: UUID) -> NotFound:
    return NotFound(f"no policy {str(policy_id)!r}", hint="list them at /api/v1/detection-policies")
