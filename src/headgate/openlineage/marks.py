"""What the log notes of an accepted event: known facets that could not be read, and what leniency let pass."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.openlineage.explain import Rules, field_errors, read_document
from headgate.openlineage.facts import Facts

LENIENT = "lenient"
INVALID = "invalid:"
NO_SCHEMA_URL = f"{LENIENT}:no_schema_url"
NO_TIME_ZONE = f"{LENIENT}:no_time_zone"
BARE_FACET = f"{LENIENT}:bare_facet"
LOOSE_PART = f"{LENIENT}:loose_part"


def marks_of(facts: Facts) -> str | None:
    """The marks of an event, separated by spaces; none for one that is as it should be."""
    if not (facts.lenient or facts.invalid_facets):
        return None
    marks = [f"{INVALID}{name}" for name in sorted(set(facts.invalid_facets))]
    return " ".join([LENIENT, *sorted(_allowances(facts.raw)), *marks] if facts.lenient else marks)


def _allowances(raw: bytes) -> Iterable[str]:
    """What strict rules would have refused this event for."""
    return {_allowance(error.path) for error in field_errors(read_document(raw), Rules())}


def _allowance(path: str) -> str:
    if path == "schemaURL":
        return NO_SCHEMA_URL
    if path == "eventTime":
        return NO_TIME_ZONE
    return BARE_FACET if path.endswith(("._producer", "._schemaURL")) else LOOSE_PART
