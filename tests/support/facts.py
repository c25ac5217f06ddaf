"""Events as the projector reads them."""

from __future__ import annotations

import json

from headgate.openlineage.facets import FacetReader
from headgate.openlineage.facts import Facts
from headgate.openlineage.project import Projector
from headgate.openlineage.validate import STRICT, check_event
from tests.support.events import Json


def facts_of(event: Json, projector: Projector | None = None) -> Facts:
    """What a strict organisation takes from an event."""
    raw = json.dumps(event).encode()
    return (projector or Projector()).facts(check_event(raw, STRICT, FacetReader()), raw)
