"""What has changed in the columns of a node since its last published run."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.pipelines.record import DriftRecord, FieldRecord


def drift(before: Sequence[FieldRecord], now: Sequence[FieldRecord], policy: str) -> DriftRecord | None:
    """None if they are the same; what may be NULL does not count, for files do not keep it."""
    there, here = ({each.name: each.type for each in fields} for fields in (before, now))
    found = DriftRecord(
        added=tuple(f"{name} {kind}" for name, kind in here.items() if name not in there),
        removed=tuple(f"{name} {kind}" for name, kind in there.items() if name not in here),
        changed=tuple(
            f"{name} {there[name]} -> {kind}" for name, kind in here.items() if name in there and there[name] != kind
        ),
        policy=policy,
    )
    return None if found.is_empty else found


def told(found: DriftRecord) -> str:
    """In one sentence."""
    parts = [("added", found.added), ("removed", found.removed), ("changed", found.changed)]
    return "the columns have changed: " + "; ".join(f"{what} {', '.join(names)}" for what, names in parts if names)
