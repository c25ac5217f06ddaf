"""Changes of schemas: which of them are told, and which only end what was told before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from headgate.domain.schema import Field, diff, is_same_schema
from headgate.server.anomalies.judging.findings import ended
from headgate.server.db.pool import Connection, Record
from headgate.server.db.queries import Queries
from headgate.server.queue import enqueue

Q = Queries("headgate.server.anomalies.judging")

BACK: Final = "the columns are back"
# Whoever has lived with a change for longer may break when it is undone.
_SOON: Final = timedelta(days=1)

Fields = Sequence[Field]


class Outcome(NamedTuple):
    """Changes to be told, and those of which it is over what was told: by version, with the dataset."""

    told: list[Record]
    over: dict[UUID, UUID]


def sort_out(changes: Iterable[Record], open_: Iterable[Record], is_told: Callable[[Record], bool]) -> Outcome:
    """What comes of changes, given those that were told before and are open. All of them as rows of versions.

    A schema that is what it was before a change ends that change, and all since. If that is soon, or breaks nobody, it
    is none of its own. A breaking change is also over when readers of what was before could read on.
    """
    known, told, over = list(open_), [], dict[UUID, UUID]()
    for change in sorted(changes, key=lambda row: row["valid_from"]):
        fields = _fields(change["fields"])
        of_it = [each for each in known if each["dataset_id"] == change["dataset_id"]]
        earlier = [each for each in of_it if each["valid_from"] < change["valid_from"]]
        undone = [each for each in earlier if _is_as_before(each, fields)]
        since = min((each["valid_from"] for each in undone), default=None)
        ends = [each for each in earlier if _is_survived(each, fields) or (since and each["valid_from"] >= since)]
        over |= {each["id"]: each["dataset_id"] for each in ends}
        known = [each for each in known if each["id"] not in over]
        is_end = bool(undone) and (
            not change["breaking"] or change["valid_from"] - max(each["valid_from"] for each in undone) <= _SOON
        )
        if not is_end and is_told(change):
            told.append(change)
            known.append(change)
    return Outcome(told, over)


async def end_changes(conn: Connection, organization_id: UUID, over: Mapping[UUID, UUID]) -> None:
    """Resolve what was told of these versions, and let incidents know."""
    if over:
        given = (list(set(over.values())), [str(each) for each in over], BACK)
        rows = await conn.fetch(Q.end_changes, organization_id, *given)
        await enqueue(conn, organization_id, [ended(row["id"], BACK) for row in rows])


def _is_as_before(change: Record, fields: Fields) -> bool:
    return is_same_schema(_fields(change["fields_before"]), fields, as_spelled=False)


def _is_survived(change: Record, fields: Fields) -> bool:
    return change["breaking"] and not diff(_fields(change["fields_before"]), fields).breaking


def _fields(text: str) -> Fields:
    return tuple(msgspec.json.decode(text, type=list[Field]))
