"""What ingest needs to know of an organisation: how strict it is and how it names things. Cached briefly."""

from __future__ import annotations

import logging
import time
from uuid import UUID

import msgspec

from headgate.domain.names import DEFAULT_PATTERNS, compile_rules
from headgate.domain.partitions import Patterns
from headgate.errors import ConfigError
from headgate.openlineage.explain import Rules
from headgate.openlineage.project import Projector
from headgate.server.db.pool import Database
from headgate.server.ingest.context import Q

log = logging.getLogger("headgate.ingest")
DEFAULT_NAMESPACE = "default"


class Tenant(msgspec.Struct):
    """One organisation's rules, compiled."""

    organization_id: UUID
    rules: Rules
    projector: Projector
    default_namespace: str
    patterns: Patterns
    loaded_at: float


class Tenants:
    """Loads organisations' rules; a change is seen at once in this process and within seconds in others."""

    def __init__(self, database: Database, max_depth: int, *, ttl_s: float = 5.0) -> None:
        self._database = database
        self._max_depth = max_depth
        self._ttl_s = ttl_s
        self._known: dict[UUID, Tenant] = {}

    async def get(self, organization_id: UUID) -> Tenant:
        known = self._known.get(organization_id)
        if known is not None and time.monotonic() - known.loaded_at < self._ttl_s:
            return known
        fresh = await self._load(organization_id, known)
        self._known[organization_id] = fresh
        return fresh

    def forget(self, organization_id: UUID) -> None:
        """Forget what was cached; the next event reads the rules anew."""
        if (known := self._known.get(organization_id)) is not None:
            known.loaded_at = float("-inf")

    async def _load(self, organization_id: UUID, known: Tenant | None) -> Tenant:
        async with self._database.tenant(organization_id) as conn:
            row = await conn.fetchrow(Q.get_tenant, organization_id)
        settings = msgspec.json.decode(row["settings"]) if row else {}
        patterns = _patterns(msgspec.json.decode(row["patterns"]) if row else [])
        pairs = msgspec.json.decode(row["rules"]) if row else []
        aliases = compile_rules((pattern, canonical) for pattern, canonical in pairs)
        # Rules that did not change keep their projector, and with it the names it has worked out.
        if known is not None and known.patterns == patterns and known.projector.rules == aliases:
            projector = known.projector
        else:
            projector = Projector(patterns, aliases)
        return Tenant(
            organization_id,
            Rules(
                lenient=settings.get("validation") == "lenient",
                require_event_type=settings.get("require_event_type") is True,
                max_depth=self._max_depth,
            ),
            projector,
            settings.get("default_namespace") or DEFAULT_NAMESPACE,
            patterns,
            time.monotonic(),
        )


def _patterns(rows: list[tuple[str, str, str, bool]]) -> Patterns:
    """The defaults, with the organisation's own patterns in place of those of the same name."""
    try:
        return DEFAULT_PATTERNS.with_own(rows)
    except ConfigError as error:
        log.warning("name patterns cannot be used; the defaults stand in", extra={"error": str(error)})
        return DEFAULT_PATTERNS
