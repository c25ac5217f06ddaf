"""Finds what a Marquez client names: by its producer's spelling or by ours; what is not there is not found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from headgate.errors import NotFound
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.marquez import nodes
from headgate.server.marquez.nodes import Key
from headgate.server.marquez.requests import PREFIX
from headgate.server.references.datasets import spellings_of, unknown_dataset

Q = Queries("headgate.server.marquez")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A connection that has its organisation set, and which one that is."""

    conn: Connection
    organization_id: UUID

    async def fetch(self, query: str, *arguments: object) -> Sequence[Record]:
        rows: Sequence[Record] = await self.conn.fetch(query, self.organization_id, *arguments)
        return rows

    async def count(self, query: str, *arguments: object) -> int:
        found: int = await self.conn.fetchval(query, self.organization_id, *arguments)
        return found


async def find_namespace(tenant: Tenant, text: str, *, of_data: bool = False) -> Record:
    """The namespace that is meant. Jobs keep their producer's spelling, so one text may mean two: `of_data` chooses."""
    found = await tenant.fetch(Q.describe_namespaces, nodes.namespace_spellings(text))
    if not found:
        raise NotFound(f"no namespace {text!r}", hint=f"list them at {PREFIX}/namespaces")
    return next((row for row in found if row["has_data"]), found[0]) if of_data else found[0]


async def find_dataset(tenant: Tenant, keys: Sequence[Key]) -> UUID:
    """The dataset that the first of these names leads to, of those that lead to any."""
    found = await search_dataset(tenant, keys)
    if found is None:
        raise await unknown_dataset(tenant.conn, tenant.organization_id, "/".join(keys[0]))
    return found


async def search_dataset(tenant: Tenant, keys: Sequence[Key]) -> UUID | None:
    spellings = await spellings_of(tenant.conn, tenant.organization_id, keys)
    rows = await tenant.fetch(Q.find_datasets, *_columns(spellings))
    return rows[0]["dataset_id"] if rows else None


async def find_job(tenant: Tenant, keys: Sequence[Key]) -> UUID:
    """The job that has the first of these names, of those that are any job's."""
    found = await tenant.fetch(Q.find_jobs, *_columns(keys))
    if not found:
        namespace, name = keys[0]
        raise NotFound(f"no job {name!r} in namespace {namespace!r}", hint=f"list them at {PREFIX}/jobs")
    job_id: UUID = found[0]["id"]
    return job_id


def _columns(keys: Sequence[Key]) -> tuple[list[str], list[str]]:
    return [key[0] for key in keys], [key[1] for key in keys]
