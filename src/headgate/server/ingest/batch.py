"""Events on their way into the database, packed one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from uuid import UUID

from msgspec import Struct

from headgate.domain.names import DatasetName
from headgate.openlineage.facts import Facts
from headgate.openlineage.packing import pack
from headgate.server.ingest.memory import NameKey


class Prepared(Struct, gc=False):
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


def named_datasets(events: Iterable[Facts]) -> dict[NameKey, tuple[DatasetName, str | None, str | None]]:
    """Every dataset that these events name, with the type and location they give it."""
    found: dict[NameKey, tuple[DatasetName, str | None, str | None]] = {}
    for facts in events:
        for use in facts.uses:
            found.setdefault(use.key, (use.dataset, use.type, use.location))
            for source in use.sources or ():
                found.setdefault(source[:2], (source, None, None))
        for pair in facts.edges or ():
            for dataset in pair:
                found.setdefault(dataset[:2], (dataset, None, None))
    return found
