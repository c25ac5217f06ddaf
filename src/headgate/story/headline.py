"""What happened, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.pipelines.record import NodeRecord, RunRecord, Status
from headgate.story.facts import job_name
from headgate.story.figures import count, cut

MAX_CAUSE = 200


def headline(run: RunRecord) -> str:
    """The sentence that a reader in a hurry needs."""
    problem = _first_problem(run)
    if problem is None:
        return _nothing_wrong(run)
    rest = _others(run, problem)
    if run.status is Status.published:
        published = [node for node in run.nodes if node.status is Status.published]
        begun = f"{_of_all(published, run)} published {_rows(published)}"
        return f"{begun}, but {job_name(problem)} {problem.status}: {_cause(problem)}{rest}"
    return f"{problem.pipeline} {problem.status}: {_cause(problem)}{rest}"


def why(node: NodeRecord) -> str | None:
    """Why a node ended as it did, where there is something to say."""
    if node.status is Status.failed:
        return first_line(node.error) or next(iter(node.reasons), None)
    if node.status is Status.skipped:
        return next(iter(node.reasons or node.notes), None)
    return next(iter(node.reasons or (node.gate.reasons if node.gate else ())), None)


def first_line(text: str | None) -> str | None:
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return None
    # A traceback says at its end what happened.
    said = lines[-1] if lines[0].startswith(("Traceback", 'File "')) else lines[0]
    return cut(said, MAX_CAUSE)


def _first_problem(run: RunRecord) -> NodeRecord | None:
    for status in (Status.failed, Status.stopped):
        for node in run.nodes:
            if node.status is status:
                return node
    return None


def _cause(node: NodeRecord) -> str:
    if node.status is Status.failed:
        return f"{node.name} broke, {why(node) or 'without saying why'}"
    if node.gate is not None and not node.gate.passed:
        return f"the gate of {node.name} blocked {count(node.gate.total_rows, 'row')}"
    return f"{node.name} was not published, {why(node) or 'a test did not pass'}"


def _others(run: RunRecord, problem: NodeRecord) -> str:
    parts = []
    for status, verb in ((Status.failed, "failed"), (Status.stopped, "stopped"), (Status.skipped, "skipped")):
        found = sum(node.status is status and node is not problem for node in run.nodes)
        if found:
            more = " more" if status is problem.status else ""
            was = (" was" if found == 1 else " were") if status is Status.skipped else ""
            parts.append(f"{count(found, f'{more} node'.strip(), f'{more} nodes'.strip())}{was} {verb}")
    return f"; {_listed(parts)}" if parts else ""


def _nothing_wrong(run: RunRecord) -> str:
    published = [node for node in run.nodes if node.status is Status.published]
    if not published:
        reason = next((text for node in run.nodes if (text := why(node))), None)
        return f"Nothing ran: {reason}" if reason else "Nothing ran"
    said = f"{_of_all(published, run)} published {_rows(published)}"
    quarantined = sum(node.rows_quarantined for node in run.nodes)
    if quarantined:
        said += f"; {count(quarantined, 'row')} went to quarantine"
    return said + _let_through(published)


def _let_through(nodes: Sequence[NodeRecord]) -> str:
    names = [node.name for node in nodes if node.gate is not None and not node.gate.passed]
    if not names:
        return ""
    of = names[0] if len(names) == 1 else count(len(names), "node")
    return f"; the gate of {of} did not pass and let rows through"


def _of_all(nodes: Sequence[NodeRecord], run: RunRecord) -> str:
    if len(nodes) < len(run.nodes):
        return f"{len(nodes):,} of {count(len(run.nodes), 'node')}"
    return job_name(nodes[0]) if len(nodes) == 1 else f"All {count(len(nodes), 'node')}"


def _rows(nodes: Sequence[NodeRecord]) -> str:
    return count(sum(node.rows_published for node in nodes), "row")


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
