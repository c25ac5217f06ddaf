"""Events on their way into the database: packed one by one, and the ids of what they name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from headgate.domain.names import DatasetName
from headgate.openlineage.facts import Facts
from headgate.openlineage.packing import pack

_MAX_NAMES = 200_000

NameKey = tuple[str, str]


class Prepared(Struct):
    """An event ready to be written: its facts, its key and its bytes, packed."""

    facts: Facts
    key: bytes
    packed: bytes


def prepare(organization_id: UUID, facts: Facts) -> Prepared:
    return Prepared(facts, event_key(organization_id, facts.raw), pack(facts.raw))


def event_key(organization_id: UUID, raw: bytes) -> bytes:
    """Identity of an event: who sent which bytes."""
    digest = hashlib.sha256(organization_id.bytes)
    digest.update(raw)
    return digest.digest()


class Ids:
    """Ids of one organisation's jobs and datasets by name."""

    def __init__(self) -> None:
        self.jobs: dict[NameKey, UUID] = {}
        self.datasets: dict[NameKey, UUID] = {}
        # Facets that a job is known to have; the same ones again need no look.
        self.job_hashes: dict[UUID, int] = {}

    def learn(self, other: Ids) -> None:
        if len(self.jobs) + len(self.datasets) > _MAX_NAMES:
            self.jobs.clear()
            self.datasets.clear()
            self.job_hashes.clear()
        self.jobs |= other.jobs
        self.datasets |= other.datasets
        self.job_hashes |= other.job_hashes


class GroupIds(Ids):
    """The ids that one group needs: from what is committed, and from what its transaction makes."""

    def __init__(self, committed: Ids) -> None:
        super().__init__()
        self._committed = committed

    def missing_jobs(self, wanted: Iterable[NameKey]) -> list[NameKey]:
        """Take what is known of these; the rest, in order."""
        return _take(wanted, self.jobs, self._committed.jobs)

    def has_job_facets(self, job_id: UUID, hash_: int) -> bool:
        known = self.job_hashes.get(job_id)
        return (self._committed.job_hashes.get(job_id) if known is None else known) == hash_

    def missing_datasets(self, wanted: Iterable[NameKey]) -> list[NameKey]:
        return _take(wanted, self.datasets, self._committed.datasets)


def _take(wanted: Iterable[NameKey], into: dict[NameKey, UUID], known: dict[NameKey, UUID]) -> list[NameKey]:
    missing = []
    for key in set(wanted):
        if key not in into:
            found = known.get(key)
            if found is None:
                missing.append(key)
            else:
                into[key] = found
    return sorted(missing)


class IdCache:
    """Ids that were committed, by organisation; dropped when a merge or a rename is announced."""

    def __init__(self) -> None:
        self._known: dict[UUID, Ids] = {}

    def of(self, organization_id: UUID) -> Ids:
        known = self._known.get(organization_id)
        if known is None:
            known = self._known[organization_id] = Ids()
        return known

    def forget(self, organization_id: UUID | None) -> None:
        if organization_id is None:
            self._known.clear()
        else:
            self._known.pop(organization_id, None)


def named_datasets(events: Iterable[Facts]) -> dict[NameKey, tuple[DatasetName, str | None, str | None]]:
    """Every dataset that these events name, with the type and location they give it."""
    found: dict[NameKey, tuple[DatasetName, str | None, str | None]] = {}
    for facts in events:
        for use in facts.uses:
            found.setdefault(use.key, (use.dataset, use.type, use.location))
        for pair in facts.edges or ():
            for dataset in pair:
                found.setdefault(dataset[:2], (dataset, None, None))
    return found
