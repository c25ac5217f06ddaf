"""Incidents: what can be wrong, when two causes are two problems, how an incident may go on, what is the same again."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from headgate.domain.anomaly import AnomalyType, read_type
from headgate.errors import Conflict

WINDOW: Final = timedelta(hours=24)
# From here on a cause is sure enough to tell two problems apart.
SURE: Final = 0.6
# A cause that is hardly surer than the one that is known is no news.
_MARGIN: Final = 0.05
MAX_MUTE: Final = timedelta(days=365)
# Who does what nobody else has done.
HEADGATE: Final = "headgate"


class Outright(StrEnum):
    """What is wrong by itself, without being out of the ordinary."""

    TestFailed = "TestFailed"
    RunFailed = "RunFailed"
    GateBlocked = "GateBlocked"


# All that a symptom can be; clients may send anomalies by other names.
SYMPTOMS: Final = tuple(str(each) for each in (*Outright, *AnomalyType))


def read_symptom(text: str) -> str | None:
    """The type of symptom that is meant, however it is spelled; None for one that we do not know.

    >>> read_symptom("testfailed"), read_symptom("GATE_BLOCKED"), read_symptom("schema drift"), read_symptom("x")
    ('TestFailed', 'GateBlocked', 'SchemaChange', None)
    """
    known = read_type(text)
    if known is not None:
        return str(known)
    plain = "".join(filter(str.isalnum, text)).lower()
    return next((str(each) for each in Outright if each.lower() == plain), None)


class Status(StrEnum):
    """How far an incident is. One that comes back is open again."""

    open = "open"
    acknowledged = "acknowledged"
    resolved = "resolved"
    muted = "muted"


_OUTRIGHT: Final = frozenset({Outright.TestFailed, Outright.RunFailed})
# Where rows and bytes are odd, the rows say more.
_ROWS: Final = frozenset({AnomalyType.RowCountDrop, AnomalyType.RowCountSpike})
_BYTES: Final = frozenset({AnomalyType.VolumeDrop, AnomalyType.VolumeSpike})
_MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    Status.open: frozenset({Status.acknowledged, Status.resolved, Status.muted}),
    Status.acknowledged: frozenset({Status.open, Status.resolved, Status.muted}),
    Status.resolved: frozenset({Status.open, Status.muted}),
    Status.muted: frozenset({Status.open, Status.acknowledged, Status.resolved}),
}


# --- the life of an incident ---


class Blamed(NamedTuple):
    """What is held to be the cause: a job or, of what nobody is known to write, a dataset; which run; how surely; when
    the run had ended; and the kind of what speaks for it most."""

    who: str | None
    run: str | None
    confidence: float
    ended_at: datetime | None = None
    what: str | None = None

    @property
    def is_sure(self) -> bool:
        return self.who is not None and self.confidence >= SURE


def is_other_problem(known: Blamed, new: Blamed, seen_at: datetime, well_at: datetime | None = None) -> bool:
    """Whether what was last seen to fail at one time, and to be well again at another, fails for another reason now.

    The same job may have run again and be as bad as before, but not if all was well in between. Of what nothing was
    known to be the cause, a run that came after it cannot have been.
    """
    if not new.is_sure:
        return False
    if known.is_sure and (new.who != known.who or (new.run != known.run and new.what != known.what)):
        return True
    since = well_at if known.is_sure else seen_at
    return since is not None and new.ended_at is not None and new.ended_at > since


def is_unrelated(known: Blamed, new: Blamed, *, is_part: bool = False) -> bool:
    """Whether what lies next to a problem is surely not part of it: its own cause is known, and is another.

    The same job that ran again is no other cause if it is as bad as before, or if that run is part of the problem.
    """
    if not new.is_sure or (new.who, new.run) == (known.who, known.run):
        return False
    is_as_bad = new.what is not None and new.what == known.what
    return new.who != known.who or not (is_part or is_as_bad)


class Ended(NamedTuple):
    """A run that failed: whether it says why, and when that was."""

    says_why: bool
    at: datetime | None


def is_told_by_parent(child: Ended, parent: Ended) -> bool:
    """Whether what started a run says why it failed, and the run itself does not."""
    return parent.says_why and not child.says_why


def is_told_by_child(child: Ended, parent: Ended) -> bool:
    """Whether a run says better why what started it failed: it is nearer to the cause, if it ended first."""
    if is_told_by_parent(child, parent) or child.at is None:
        return False
    return parent.at is None or child.at <= parent.at


def tells_more(known: Blamed, of: str | None, opened_at: datetime, new: Blamed, new_of: str) -> bool:
    """Whether another symptom of the same run tells more of why than the one that is known to, each by its type.

    What fails outright says what is wrong, an odd figure only that something is. Nothing that came later is the cause.
    """
    if new.who is None or (new.ended_at is not None and new.ended_at > opened_at):
        return False
    if new.is_sure and new_of in _OUTRIGHT and of not in _OUTRIGHT:
        return True
    return not known.is_sure and new.confidence > known.confidence + _MARGIN


def is_plainer(of: str, new_of: str) -> bool:
    """Whether one type of symptom of a run says in plainer words what another one means."""
    return of in _BYTES and new_of in _ROWS


def check_move(status: Status, to: Status) -> None:
    """Raise `Conflict` unless an incident may go from the one status to the other; staying is no move."""
    if to is status or to in _MOVES[status]:
        return
    allowed = ", ".join(sorted(_MOVES[status]))
    raise Conflict(f"an incident that is {status} cannot become {to}", hint=f"it can become: {allowed}")


# --- keys: what makes two symptoms the same ---


def key_of_test(dataset_id: str, test_key: str) -> str:
    return _key("test", dataset_id, test_key)


def key_of_anomaly(dataset_id: str, metric: str, column: str | None = None, partition: str = "") -> str:
    """
    >>> key_of_anomaly("d1", "null_share", "email")
    'anomaly:d1:null_share:email:'
    """
    return _key("anomaly", dataset_id, metric, column or "", partition)


def key_of_run(job_id: str) -> str:
    return _key("run", job_id)


def key_of_gate(project: str, pipeline: str, node: str) -> str:
    """
    >>> key_of_gate("shop", "daily", "clean")
    'gate:shop/daily/clean'
    """
    return _key("gate", "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (project, pipeline, node)))


def key_of_freshness(dataset_id: str) -> str:
    return _key("fresh", dataset_id)


def key_of_schema(dataset_id: str, version_id: str) -> str:
    return _key("schema", dataset_id, version_id)


def key_of_stuck(job_id: str) -> str:
    return _key("stuck", job_id)


def _key(kind: str, *parts: str) -> str:
    # A colon inside a column must not look like the end of it.
    quoted = (part if kind == "gate" else part.replace("%", "%25") for part in parts)
    return ":".join((kind, *(part.replace(":", "%3A") for part in quoted)))
