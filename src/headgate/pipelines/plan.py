"""What will run in which order: the nodes of a file, what each reads and writes, and what cannot be run.

Needs no Spark; what only the data can tell (columns, types) is checked by the engine before its first job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from itertools import islice

from headgate.domain.gate import OnFail
from headgate.errors import InvalidPipeline, PipelineProblem
from headgate.pipelines.config.connection import CatalogConnection, FolderConnection, JdbcConnection, KafkaConnection
from headgate.pipelines.config.node import NodeConfig, OnError
from headgate.pipelines.config.pipeline import PipelineConfig
from headgate.pipelines.config.tests import TestConfig
from headgate.pipelines.config.tests.datasets import FreshnessTest, SchemaTest
from headgate.pipelines.config.tests.rows import ReferenceConfig
from headgate.pipelines.config.wording import nearest
from headgate.pipelines.config.write import WriteMode
from headgate.pipelines.load import Loaded
from headgate.pipelines.places import Address, Kind, address
from headgate.pipelines.source import Loc

Key = tuple[str, str]
_FITS = {
    FolderConnection: ("path",),
    CatalogConnection: ("table",),
    JdbcConnection: ("table", "query"),
    KafkaConnection: ("topic",),
}


@dataclass(frozen=True)
class NamedTest:
    """A test with the name it goes by, and where it was said."""

    name: str
    config: TestConfig
    place: str
    reference: Address | None = None


@dataclass(frozen=True)
class Node:
    """A node as it will run."""

    pipeline: PipelineConfig
    config: NodeConfig
    loc: Loc
    source: Address | None
    target: Address | None
    quarantine: Address | None
    tests: tuple[NamedTest, ...]
    after: frozenset[Key] = frozenset()

    @property
    def key(self) -> Key:
        return self.pipeline.pipeline, self.config.name

    @property
    def job_name(self) -> str:
        return f"{self.pipeline.pipeline}.{self.config.name}"


@dataclass(frozen=True)
class Plan:
    """The nodes in an order in which they can run; `others` are in the file, but not in this run."""

    loaded: Loaded
    nodes: tuple[Node, ...] = field(default=())
    others: tuple[Node, ...] = field(default=())

    def node(self, key: Key) -> Node:
        return next(node for node in (*self.nodes, *self.others) if node.key == key)

    def on_error(self, node: Node) -> OnError:
        """What its failure means: as the node says it, else its pipeline, else the project."""
        return node.config.on_error or node.pipeline.on_error or self.loaded.project.on_error

    @property
    def pipelines(self) -> list[str]:
        return list(dict.fromkeys(node.pipeline.pipeline for node in self.nodes))


def make_plan(
    loaded: Loaded, *, pipeline: str | None = None, only: str | None = None, start: str | None = None
) -> Plan:
    """The plan of a file, or of one pipeline, one node, or a node and all that follows it."""
    problems: list[PipelineProblem] = []
    nodes = list(_nodes(loaded, problems))
    problems += _collisions(loaded, [node for node in nodes if node.config.enabled])
    if problems:
        raise InvalidPipeline(problems)
    ordered = _ordered(loaded, _linked(nodes))
    enabled = [node for node in ordered if node.config.enabled]
    chosen = _chosen(loaded, enabled, pipeline, only, start)
    keys = {node.key for node in chosen}
    plan = Plan(loaded, tuple(chosen), tuple(node for node in ordered if node.key not in keys))
    if problems := list(_without_rows(plan)):
        raise InvalidPipeline(problems)
    return plan


def _nodes(loaded: Loaded, problems: list[PipelineProblem]) -> Iterator[Node]:
    seen: set[str] = set()
    for index, pipeline in enumerate(loaded.project.pipelines):
        at: Loc = ("pipelines", index)
        if pipeline.pipeline in seen:
            message = f"there are two pipelines {pipeline.pipeline!r}"
            problems.append(_problem(loaded, (*at, "pipeline"), message, "give one another name"))
        seen.add(pipeline.pipeline)
        names = [node.name for node in pipeline.nodes]
        for number, node in enumerate(pipeline.nodes):
            loc: Loc = (*at, "nodes", number)
            if names.index(node.name) != number:
                problems.append(
                    _problem(loaded, (*loc, "name"), f"there are two nodes {node.name!r}", "give one another name")
                )
            # One that is switched off may be so because it is not finished.
            found: list[PipelineProblem] = problems if node.enabled else []
            found += _unknown_dependencies(loaded, node, names, loc)
            yield _node(loaded, pipeline, node, loc, found)


def _node(
    loaded: Loaded, pipeline: PipelineConfig, node: NodeConfig, loc: Loc, problems: list[PipelineProblem]
) -> Node:
    blocks = {"read": node.read, "write": node.write, "quarantine": node.validation.quarantine}
    found: dict[str, Address | None] = {}
    for name, block in blocks.items():
        at: Loc = (*loc, "validation", name) if name == "quarantine" else (*loc, name)
        found[name] = None if block is None else _address(loaded, block, at, problems)
    tests = tuple(_named_tests(loaded, node, loc, problems))
    problems += _unknown_thresholds(loaded, node, tests, loc)
    return Node(pipeline, node, loc, found["read"], found["write"], found["quarantine"], tests)


def _address(loaded: Loaded, block: object, loc: Loc, problems: list[PipelineProblem]) -> Address | None:
    name = str(getattr(block, "connection"))  # noqa: B009 - each of these blocks has one
    connection = loaded.project.connections.get(name)
    if connection is None:
        known = ", ".join(loaded.project.connections)
        hint = nearest(name, loaded.project.connections) or f"there are {known}" if known else "add it to connections"
        problems.append(_problem(loaded, (*loc, "connection"), f"there is no connection {name!r}", hint))
        return None
    given = next(key for key in ("path", "table", "topic", "query") if getattr(block, key, None) is not None)
    fitting = _FITS[type(connection)]
    if given not in fitting:
        message = f"connection {name!r} is {connection.type}, and takes {' or '.join(fitting)} instead of {given}"
        problems.append(_problem(loaded, (*loc, given), message, f"write {fitting[0]} in its place"))
        return None
    value = getattr(block, given)
    if isinstance(connection, FolderConnection):
        return address(name, connection, loaded.folder_of("connections", name, "base_path"), path=value)
    if given == "query":
        return replace(address(name, connection, loaded.folder, table="(query)"), kind=Kind.query)
    return address(name, connection, loaded.folder, table=value)


def _named_tests(loaded: Loaded, node: NodeConfig, loc: Loc, problems: list[PipelineProblem]) -> Iterator[NamedTest]:
    """Each test by its own name, else by its type; those that would be called alike say their columns too."""
    unnamed = [test.kind for test in node.validation.tests if test.name is None]
    taken: set[str] = set()
    for test, at in _tests_of(node, loc):
        name = test.name or test.kind
        if test.name is None and unnamed.count(test.kind) > 1 and test.tested_columns:
            name = f"{test.kind}:{','.join(test.tested_columns)}"
        if name in taken and test.name is not None:
            problems.append(_problem(loaded, at, f"there are two tests {name!r}", "give one another name"))
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        taken.add(unique)
        yield NamedTest(unique, test, loaded.place(*at), _reference(loaded, node, test, at, problems))


def _tests_of(node: NodeConfig, loc: Loc) -> Iterator[tuple[TestConfig, Loc]]:
    """The tests that are listed, and those that a contract and a freshness by a column are."""
    yield from ((test, (*loc, "validation", "tests", index)) for index, test in enumerate(node.validation.tests))
    contract, freshness = node.contract, node.freshness
    has_schema = any(isinstance(test, SchemaTest) for test in node.validation.tests)
    if contract is not None and contract.columns and not has_schema:
        columns, strict = contract.columns, contract.strict
        yield SchemaTest(type="schema", name="contract", columns=columns, strict=strict), (*loc, "contract")
    if freshness is not None and freshness.column is not None:
        test = FreshnessTest(type="freshness", column=freshness.column, max_age=freshness.max_age, on_fail=OnFail.warn)
        yield test, (*loc, "freshness")


def _reference(
    loaded: Loaded, node: NodeConfig, test: TestConfig, loc: Loc, problems: list[PipelineProblem]
) -> Address | None:
    """Where the other side of a test is, if it is not a node."""
    reference = getattr(test, "reference", None)
    if not isinstance(reference, ReferenceConfig):
        return None
    at: Loc = (*loc, "reference")
    if reference.node is None:
        return _address(loaded, reference, at, problems)
    if reference.node not in node.depends_on:
        message = f"node {node.name!r} does not depend on {reference.node!r}"
        hint = nearest(reference.node, node.depends_on) or f"add {reference.node} to depends_on"
        problems.append(_problem(loaded, (*at, "node"), message, hint))
    return None


def _unknown_dependencies(loaded: Loaded, node: NodeConfig, names: list[str], loc: Loc) -> Iterator[PipelineProblem]:
    for index, name in enumerate(node.depends_on):
        if name not in names:
            hint = nearest(name, names) or f"nodes of this pipeline: {', '.join(names)}"
            yield _problem(loaded, (*loc, "depends_on", index), f"there is no node {name!r}", hint)


def _unknown_thresholds(
    loaded: Loaded, node: NodeConfig, tests: tuple[NamedTest, ...], loc: Loc
) -> Iterator[PipelineProblem]:
    if node.gate is None:
        return
    known = {test.name for test in tests} | {test.config.kind for test in tests}
    for index, threshold in enumerate(node.gate.thresholds):
        if threshold.test not in known:
            hint = nearest(threshold.test, known) or f"tests of this node: {', '.join(sorted(known)) or 'none'}"
            at: Loc = (*loc, "gate", "thresholds", index, "test")
            yield _problem(loaded, at, f"there is no test {threshold.test!r}", hint)


def _linked(nodes: list[Node]) -> list[Node]:
    """With what each has to wait for: what it names, whoever writes what it reads, and who writes what it writes."""
    after = {node.key: _needed(node, nodes) if node.config.enabled else set[Key]() for node in nodes}
    writing = [node for node in nodes if node.config.enabled and node.target is not None]
    for number, node in enumerate(writing):
        for earlier in writing[:number]:
            # One that has to come later for another reason keeps its place.
            if _takes_turns(earlier, node) and node.key not in _all_before(earlier.key, after):
                after[node.key].add(earlier.key)
    return [replace(node, after=frozenset(after[node.key])) for node in nodes]


def _needed(node: Node, nodes: list[Node]) -> set[Key]:
    named = {(node.pipeline.pipeline, name) for name in node.config.depends_on}
    read = [each for each in (node.source, *(test.reference for test in node.tests)) if each is not None]
    return named | {
        other.key
        for other in nodes
        if other.target is not None and other.key != node.key and any(_overlap(each, other.target) for each in read)
    }


def _all_before(key: Key, after: Mapping[Key, set[Key]]) -> set[Key]:
    found: set[Key] = set()
    waiting = [key]
    while waiting:
        new = after.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _takes_turns(one: Node, other: Node) -> bool:
    """Whether both write one target, and what one writes depends on what the other has."""
    modes = {node.config.write.mode for node in (one, other) if node.config.write is not None}
    return modes != {WriteMode.append} and _is_same(one.target, other.target)


def _is_same(one: Address | None, other: Address | None) -> bool:
    if one is None or other is None or one.kind is not other.kind:
        return False
    # A database whose URL tells no host is known by its connection only.
    is_known = one.namespace != "jdbc" or one.label == other.label
    return is_known and (one.namespace, one.name) == (other.namespace, other.name)


def _overlap(one: Address, other: Address) -> bool:
    """Whether it is the same dataset, or one is a part of the other."""
    return _is_same(one, other) or _is_below(one, other) or _is_below(other, one)


def _is_below(one: Address, other: Address) -> bool:
    are_folders = one.kind is Kind.folder and other.kind is Kind.folder
    return are_folders and not _is_same(one, other) and _path(one).startswith(_path(other))


def _path(folder: Address) -> str:
    # By its name: s3a:// and s3:// lead to the same place.
    return f"{folder.namespace}/{folder.name.strip('/')}".rstrip("/") + "/"


def _collisions(loaded: Loaded, nodes: list[Node]) -> Iterator[PipelineProblem]:
    """Nodes that would replace each other's rows, or their own by what they set apart."""
    for number, node in enumerate(nodes):
        yield from _quarantine_refusals(loaded, node)
        for other in nodes:
            yield from _set_apart_into_target(loaded, node, other)
        for other in nodes[:number]:
            yield from _shared_quarantine(loaded, node, other)
        # One is enough to tell what is wrong.
        yield from islice(_shared_target(loaded, node, nodes[:number]), 1)


def _quarantine_refusals(loaded: Loaded, node: Node) -> Iterator[PipelineProblem]:
    """What a quarantine block asks for that its kind of place cannot do."""
    config = node.config.validation.quarantine
    if config is None:
        return
    at: Loc = (*node.loc, "validation", "quarantine")
    if not config.add_columns.source_batch_id:
        message = "_source_batch_id cannot be left out: it tells the batches of a quarantine apart"
        yield _problem(loaded, (*at, "add_columns"), message, "take _source_batch_id: false out")
    is_limited = "retention_days" in config.model_fields_set and config.retention_days is not None
    if config.is_table and is_limited and not config.add_columns.rejected_at:
        message = f"retention_days {config.retention_days} needs _rejected_at, which tells how old rows of a table are"
        yield _problem(
            loaded, (*at, "retention_days"), message, "take _rejected_at: false out, or say retention_days: null"
        )


def _set_apart_into_target(loaded: Loaded, node: Node, other: Node) -> Iterator[PipelineProblem]:
    apart, target = node.quarantine, other.target
    if apart is None or target is None or not _overlap(apart, target):
        return
    whose = "the node" if other is node else f"node {other.job_name!r}"
    at: Loc = (*node.loc, "validation", "quarantine")
    if _is_same(apart, target):
        message = f"{apart} is the target of {whose} too"
    else:
        message = f"{apart} {_how(apart, target)} {target}, the target of {whose}"
    yield _problem(loaded, at, message, "give the quarantine its own place")


def _how(one: Address, other: Address) -> str:
    return "lies in" if _is_below(one, other) else "holds"


def _shared_quarantine(loaded: Loaded, node: Node, other: Node) -> Iterator[PipelineProblem]:
    mine, theirs = node.config.validation.quarantine, other.config.validation.quarantine
    if mine is None or theirs is None or not mine.is_table or not _is_same(node.quarantine, other.quarantine):
        return
    at: Loc = (*node.loc, "validation", "quarantine")
    message = f"{node.quarantine} is the quarantine of node {other.job_name!r} too"
    if node.config.name == other.config.name:
        hint = f"both would be {node.config.name!r} in it: give one another table, or another name"
        yield _problem(loaded, at, message, hint)
    elif not (mine.add_columns.original_node and theirs.add_columns.original_node):
        hint = "say add_columns: {_original_node: true} in both, or give one another table"
        yield _problem(loaded, at, message, hint)


def _shared_target(loaded: Loaded, node: Node, others: list[Node]) -> Iterator[PipelineProblem]:
    for other in others:
        if node.target is None or other.target is None or not _overlap(node.target, other.target):
            continue
        at: Loc = (*node.loc, "write")
        if not _is_same(node.target, other.target):
            how = _how(node.target, other.target)
            message = f"{node.target} {how} {other.target}, the target of node {other.job_name!r}"
            yield _problem(loaded, at, message, "write elsewhere: a target may not be a part of another")
        elif _replaces(other):
            message = f"{node.target} is overwritten by node {other.job_name!r} too"
            yield _problem(loaded, at, message, "say mode: append, or write elsewhere")
        elif _replaces(node):
            message = f"{node.target} is written by node {other.job_name!r} too, and would be overwritten"
            yield _problem(loaded, at, message, "say mode: append, or write elsewhere")


def _replaces(node: Node) -> bool:
    return node.config.write is not None and node.config.write.mode is WriteMode.overwrite


def _without_rows(plan: Plan) -> Iterator[PipelineProblem]:
    """Nodes that need what another does not keep, in a run that the other has no part in."""
    running = {node.key for node in plan.nodes}
    for node in plan.nodes:
        for index, name in enumerate(node.config.depends_on):
            key = (node.pipeline.pipeline, name)
            if key not in running and plan.node(key).config.write is None:
                message = f"node {name!r} keeps no rows, and is not a part of this run"
                hint = f"run it too, or give it a write block; {node.job_name} needs its rows"
                yield _problem(plan.loaded, (*node.loc, "depends_on", index), message, hint)


def _ordered(loaded: Loaded, nodes: list[Node]) -> list[Node]:
    by_key = {node.key: node for node in nodes}
    sorter = TopologicalSorter({node.key: sorted(key for key in node.after if key in by_key) for node in nodes})
    try:
        return [by_key[key] for key in sorter.static_order()]
    except CycleError as error:
        circle = [f"{pipeline}.{node}" for pipeline, node in error.args[1]]
        node = by_key[error.args[1][0]]
        raise InvalidPipeline(
            [
                _problem(
                    loaded,
                    node.loc,
                    f"the nodes wait for each other: {' -> '.join(circle)}",
                    "a node waits for those in depends_on, and for those that write what it reads, or a part of it",
                )
            ]
        ) from None


def _chosen(loaded: Loaded, nodes: list[Node], pipeline: str | None, only: str | None, start: str | None) -> list[Node]:
    chosen = nodes
    if pipeline is not None:
        chosen = [node for node in chosen if node.pipeline.pipeline == pipeline]
        if not chosen:
            raise _no_such(loaded, "pipeline", pipeline, {node.pipeline.pipeline for node in nodes})
    if only is not None:
        return [_picked(loaded, chosen, only)]
    if start is not None:
        wanted = {_picked(loaded, chosen, start).key}
        for node in chosen:
            if node.after & wanted:
                wanted.add(node.key)
        chosen = [node for node in chosen if node.key in wanted]
    return chosen


def _picked(loaded: Loaded, nodes: list[Node], name: str) -> Node:
    found = [node for node in nodes if name in (node.config.name, node.job_name)]
    if len(found) > 1:
        names = " and ".join(node.job_name for node in found)
        raise InvalidPipeline([PipelineProblem(str(loaded.file), f"{name!r} is {names}", "add --pipeline")])
    if not found:
        raise _no_such(loaded, "node", name, {node.config.name for node in nodes})
    return found[0]


def _no_such(loaded: Loaded, kind: str, name: str, known: set[str]) -> InvalidPipeline:
    hint = nearest(name, known) or f"there are {', '.join(sorted(known))}"
    return InvalidPipeline([PipelineProblem(str(loaded.file), f"there is no {kind} {name!r}", hint)])


def _problem(loaded: Loaded, loc: Loc, message: str, hint: str | None = None) -> PipelineProblem:
    return PipelineProblem(loaded.place(*loc), message, hint)
