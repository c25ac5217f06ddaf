"""The scene of a failure: who may have caused it, and what speaks for each, ready to be ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from headgate.domain.scene import Candidate, DatasetRef, Evidence, JobRef
from headgate.server.db.pool import Connection
from headgate.server.incidents.scene.facts import Facts
from headgate.server.incidents.scene.walk import Observed, Place, Q, Run, Walk

TELLING: Final = 0.2


class Chain(NamedTuple):
    """What started a run: runs, the nearest first, and names of their jobs, the outermost first."""

    runs: tuple[UUID, ...]
    names: tuple[str, ...]


class Scene(NamedTuple):
    """Candidates with their evidence, and the runs that the walk came by."""

    candidates: tuple[Candidate, ...]
    urns: Mapping[UUID, str]
    chains: Mapping[UUID, Chain]
    runs: Mapping[UUID, Run]

    def above(self, run_id: UUID) -> tuple[UUID, ...]:
        """What started a run, nearest first."""
        return self.chains[run_id].runs if run_id in self.chains else ()


async def load_scene(conn: Connection, organization_id: UUID, observed: Observed) -> Scene:
    """Who may be behind what was observed, as things were then."""
    places = list((await Walk(conn, organization_id).run(observed)).values())
    facts = Facts(conn, organization_id, places)
    await facts.load(observed.at, but_tests_of=observed.dataset_id)
    ids = {place.dataset_id for place in places if place.dataset_id} | facts.usual_inputs()
    urns = await _urns(conn, organization_id, sorted(ids))
    facts.missing_inputs(urns)
    runs = {place.run.run_id: place.run for place in places if place.run is not None}
    chains = await _chains(conn, organization_id, list(runs))
    places = [place for place in places if not place.is_superseded or _is_telling(facts.found[place.key])]
    found = [_as_of(_candidate(place, facts, urns, chains), observed) for place in places]
    return Scene(tuple(_with_late(places, found, facts, observed)), urns, chains, runs)


def _is_telling(evidence: Sequence[Evidence]) -> bool:
    """Of runs that were superseded only those count that something is known of."""
    return any(each.weight >= TELLING for each in evidence)


def _with_late(
    places: Sequence[Place], found: Sequence[Candidate], facts: Facts, observed: Observed
) -> list[Candidate]:
    """And for each dataset whose next run was overdue when it was read, and did not fail, the lack of that run."""
    made: dict[str, Candidate] = {}
    missed: dict[str, list[str]] = {}
    failed = {place.dataset_id for place in places if place.run is not None and place.run.state in ("FAIL", "ABORT")}
    for place, candidate in zip(places, found, strict=True):
        key = f"late:{place.dataset_id}"
        if key in made or place.dataset_id in failed or (place.depth == 0 and not observed.is_overdue):
            continue
        late = facts.late(place)
        if late is None:
            continue
        bare = replace(candidate, key=key, run_id=None, started_at=None, ended_at=None, state=None, upstream=())
        made[key] = replace(bare, evidence=(late,))
        for reader in places:
            if place.key in reader.upstream and reader.reads_at >= place.read_at:
                missed.setdefault(reader.key, []).append(key)
    linked = [replace(each, upstream=(*each.upstream, *missed.get(each.key, ()))) for each in found]
    return [*linked, *made.values()]


def _as_of(candidate: Candidate, observed: Observed) -> Candidate:
    """A run that observed what it wrote itself goes on a little longer; what is known of it still counts."""
    if candidate.depth > 0 or not observed.is_of_run:
        return candidate
    known = tuple(each._replace(at=_clipped(each, observed)) for each in candidate.evidence)
    ended_at = None if candidate.ended_at is None else min(candidate.ended_at, observed.at)
    started_at = None if candidate.started_at is None else min(candidate.started_at, observed.at)
    return replace(candidate, evidence=known, ended_at=ended_at, started_at=started_at)


def _clipped(evidence: Evidence, observed: Observed) -> datetime | None:
    return None if evidence.at is None else min(evidence.at, observed.at)


def _candidate(place: Place, facts: Facts, urns: Mapping[UUID, str], chains: Mapping[UUID, Chain]) -> Candidate:
    run = place.run
    # A stream may end long after what it wrote was read.
    ended_at = None if run is None or (run.ended_at and run.ended_at > place.read_at) else run.ended_at
    dataset = None
    if place.dataset_id is not None:
        dataset = DatasetRef(str(place.dataset_id), urns.get(place.dataset_id, ""))
    return Candidate(
        key=place.key,
        dataset=dataset,
        depth=place.depth,
        run_id=None if run is None else str(run.run_id),
        job=None if run is None else JobRef(run.job_namespace, run.job_name, str(run.job_id)),
        started_at=None if run is None else run.started_at,
        ended_at=ended_at,
        state=None if run is None else run.state,
        via_column=place.via_column,
        columns=place.columns,
        evidence=tuple(facts.found[place.key]),
        upstream=tuple(place.upstream),
        is_measured=place.key in facts.measured,
        is_superseded=place.is_superseded,
        chain=() if run is None or run.run_id not in chains else chains[run.run_id].names,
    )


async def _urns(conn: Connection, organization_id: UUID, ids: Sequence[UUID]) -> dict[UUID, str]:
    rows = await conn.fetch(Q.list_datasets, organization_id, ids) if ids else []
    return {row["id"]: f"{row['namespace']}/{row['name']}" for row in rows}


async def _chains(conn: Connection, organization_id: UUID, ids: Sequence[UUID]) -> dict[UUID, Chain]:
    found: dict[UUID, tuple[list[UUID], list[str]]] = {}
    roots: dict[UUID, tuple[UUID, str | None]] = {}
    for row in await conn.fetch(Q.list_chains, organization_id, ids) if ids else []:
        runs, names = found.setdefault(row["of_run"], ([], []))
        runs.append(row["run_id"])
        names.append(row["job_name"] or str(row["run_id"]))
        if row["root_run_id"] is not None:
            roots[row["of_run"]] = (row["root_run_id"], row["root_name"])
    for run_id, (root, name) in roots.items():
        runs, names = found[run_id]
        if root != run_id and root not in runs:
            runs.append(root)
            names.append(name or str(root))
    return {run_id: Chain(tuple(runs), tuple(reversed(names))) for run_id, (runs, names) in found.items()}
