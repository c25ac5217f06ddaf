"""What is known when somebody asks why: the failure, the runs that led to it, what is odd about each, the answer.

Whoever loads it walks upstream from the failing dataset as it was read at the time: for each run its inputs, for
each input the latest run that had ended when it was read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class EvidenceKind(StrEnum):
    """What can speak for a candidate."""

    schema_diff = "schema_diff"
    row_count = "row_count"
    volume = "volume"
    null_share = "null_share"
    run_failed = "run_failed"
    run_late = "run_late"
    missing_input = "missing_input"
    code_changed = "code_changed"
    quarantine_burst = "quarantine_burst"
    test_failed = "test_failed"
    duration = "duration"


class Evidence(NamedTuple):
    """One fact that speaks for a candidate. `weight` is how unusual it is by itself, from 0 to 1.

    `at` is since when it is so, `seen_at` when it was seen, if that was later.
    `change` is signed and relative (-0.6 is 60 % fewer), so that a drop never explains a spike. `column` is set
    where the fact is about one column. Built by the functions of `headgate.domain.evidence`, which weigh it.
    """

    kind: EvidenceKind
    sentence: str
    weight: float
    link: str | None = None
    column: str | None = None
    at: datetime | None = None
    change: float | None = None
    seen_at: datetime | None = None


class DatasetRef(NamedTuple):
    id: str
    urn: str


class JobRef(NamedTuple):
    namespace: str
    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """What was observed, and when. `type` is a symptom type; `test` is the name of the failed test.

    `detail` is what the failure says itself, an error message for one; a column that it names is looked at first.
    """

    type: str
    observed_at: datetime
    dataset: DatasetRef | None = None
    column: str | None = None
    test: str | None = None
    run_id: str | None = None
    job: JobRef | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may be the cause, or the lack of one: then `run_id` is None and the evidence says run_late.

    `key` is unique among the candidates of a failure; `upstream` are the keys of those whose data this one read.
    `depth` is 0 for the run that wrote the failing dataset (or failed itself), 1 for what it read, and so on.
    `columns` are those of `dataset` that the failing column is made of; `via_column` says that column lineage leads
    here, else it is table lineage, and `columns` are those of the same name, if any.
    `is_measured` says that figures of what it wrote are known: only then does silence mean that all was quiet.
    `is_superseded` says that a later run had written the dataset again when it was read: rows of this one may still
    be in it. `chain` is what started the run, outermost first (DAG, task, application).
    """

    key: str
    dataset: DatasetRef | None
    depth: int
    run_id: str | None = None
    job: JobRef | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    state: str | None = None
    via_column: bool = False
    columns: frozenset[str] = frozenset()
    evidence: tuple[Evidence, ...] = ()
    upstream: tuple[str, ...] = ()
    is_measured: bool = True
    is_superseded: bool = False
    chain: tuple[str, ...] = ()


class Rejected(NamedTuple):
    candidate: Candidate
    reason: str
    score: float


@dataclass(frozen=True, slots=True)
class Ranking:
    """The answer: the cause (None without any candidate), how sure, why, and what was not chosen and why not.

    `evidence` is the cause's own, strongest first; `explains` is what it brought about on the way to the failure.
    """

    cause: Candidate | None
    confidence: float
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    explains: tuple[Evidence, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    chain: tuple[str, ...] = ()
