"""What is done with batches in quarantine: listed, shown, replayed, discarded; the server is told what became of them.

Spark is loaded for what needs it, and not before: a local quarantine is listed and emptied without.
"""

from __future__ import annotations

import csv
import getpass
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec import structs

from headgate.errors import ConfigError, HeadgateError
from headgate.pipelines.assemble import spark_of
from headgate.pipelines.batches import Batch, batches, delete_batch
from headgate.pipelines.config.wording import nearest
from headgate.pipelines.corrections import check_format
from headgate.pipelines.files import LocalFiles
from headgate.pipelines.history import History, Memory
from headgate.pipelines.home import Home, Server, connect
from headgate.pipelines.journal import Journal
from headgate.pipelines.load import Loaded
from headgate.pipelines.masking import secrets_of
from headgate.pipelines.places import Kind, has_scheme
from headgate.pipelines.plan import Node, Plan
from headgate.pipelines.publish import journal_folder
from headgate.pipelines.record import DatasetRef, QuarantineRecord, RunRecord, Status
from headgate.pipelines.replays import ReplayRecord, pick
from headgate.pipelines.run import worded

if TYPE_CHECKING:
    from headgate.pipelines.emit import Emitter
    from headgate.pipelines.spark.stores import Store

_TABLES = ("delta", "iceberg")


@dataclass(frozen=True)
class Shown:
    """Rows of a batch as JSON has them, and how many there are in all."""

    batch: Batch
    rows: list[dict[str, Any]]
    total: int


@dataclass(frozen=True)
class Wish:
    """Which batch of which node, and where Spark runs."""

    plan: Plan
    node: Node
    batch: str | None = None
    master: str | None = None


def quarantining(plan: Plan) -> list[Node]:
    """The nodes of a plan that have a quarantine."""
    return [node for node in (*plan.nodes, *plan.others) if node.quarantine is not None]


def node_of(plan: Plan, name: str) -> Node:
    """A node with a quarantine, by its name or by that of its job."""
    known = quarantining(plan)
    found = [node for node in known if name in (node.config.name, node.job_name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{name!r} is {' and '.join(node.job_name for node in found)}", hint="add --pipeline")
    if any(name in (node.config.name, node.job_name) for node in (*plan.nodes, *plan.others)):
        raise ConfigError(f"node {name!r} has no quarantine", hint="only nodes with a quarantine block have batches")
    names = [node.config.name for node in known]
    there = f"with a quarantine there are {', '.join(names)}" if names else "no node of the file has a quarantine"
    raise ConfigError(f"there is no node {name!r}", hint=nearest(name, names) or there)


def listed(plan: Plan, nodes: Sequence[Node], master: str | None = None) -> list[tuple[Node, Batch]]:
    """The batches of these nodes, the newest first; Spark is asked only for files that are not this machine's."""
    local = [node for node in nodes if _is_local(node)] if master is None else []
    found = [(node, batch) for node in local for batch in _local_batches(node)]
    far = [node for node in nodes if node not in local]
    if far:
        with spark_of(plan, master) as spark:
            found += [(node, batch) for node in far for batch in _store(spark, plan, node).batches()]
    current = [(node, _with_retention(node, batch)) for node, batch in found]
    return sorted(current, key=lambda each: each[1].note.rejected_at, reverse=True)


def _with_retention(node: Node, batch: Batch) -> Batch:
    """As the file says it now, which is what the next run deletes by."""
    assert node.config.validation.quarantine is not None
    days = node.config.validation.quarantine.retention_days
    return replace(batch, note=structs.replace(batch.note, retention_days=days))


def _is_local(node: Node) -> bool:
    """Whether its quarantine is a folder of files on this machine's disks."""
    config, address = node.config.validation.quarantine, node.quarantine
    assert config is not None
    assert address is not None
    return address.kind is Kind.folder and config.format not in _TABLES and not has_scheme(address.location)


def _local_batches(node: Node) -> list[Batch]:
    # What a dead replay has left half done is neither here nor there.
    for each in (node.target, node.quarantine):
        if each is not None and each.kind is Kind.folder and not has_scheme(each.location):
            Journal(LocalFiles(), journal_folder(each.location)).recover()
    return batches(LocalFiles(), _location(node), node.job_name)


def _location(node: Node) -> str:
    assert node.quarantine is not None
    return node.quarantine.location


def _store(spark: Any, plan: Plan, node: Node) -> Store:
    from headgate.pipelines.spark.session import own_session
    from headgate.pipelines.spark.stores import store_of
    from headgate.pipelines.spark.write.base import end_leftovers

    session = own_session(spark, plan.loaded.project)
    end_leftovers(session, node)
    return store_of(session, plan, node)


def shown(wish: Wish, limit: int, test: str | None = None) -> Shown:
    """The first rows of a batch with what is wrong with them."""
    with _opened(wish) as (batch, rows):
        rows = _failing(rows, batch, test)
        return Shown(batch, [json.loads(row[0]) for row in _as_json(rows, batch).limit(limit).collect()], rows.count())


def exported(wish: Wish, path: Path, test: str | None = None) -> Shown:
    """All rows of a batch in a file, each with the id by which it is known when it comes back."""
    check_format(path)
    with _opened(wish) as (batch, rows):
        rows = _failing(rows, batch, test)
        try:
            count = _EXPORTS.get(path.suffix.lower(), _export_json)(rows, batch, path)
        except OSError as error:
            raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}", hint="name another file") from None
        return Shown(batch, [], count)


@contextmanager
def _opened(wish: Wish) -> Iterator[tuple[Batch, Any]]:
    with spark_of(wish.plan, wish.master) as spark:
        store = _store(spark, wish.plan, wish.node)
        batch = pick(store.batches(), wish.batch, wish.node)
        yield batch, store.rows(batch)


def _failing(rows: Any, batch: Batch, test: str | None) -> Any:
    if test is None:
        return rows
    note = batch.note
    if test not in note.failed_tests:
        known = ", ".join(note.failed_tests)
        raise ConfigError(
            f"no row of batch {note.batch_id} fails a test {test!r}",
            hint=nearest(test, note.failed_tests) or f"they fail {known}",
        )
    if "_failed_tests" not in note.added:
        raise ConfigError(
            "the rows do not say which tests they fail", hint="quarantine.add_columns has _failed_tests: false"
        )
    from headgate.pipelines.spark.held import failing

    return failing(rows, test)


def _as_json(rows: Any, batch: Batch) -> Any:
    from headgate.pipelines.spark.held import lines

    return lines(rows, batch.note)


def _export_csv(rows: Any, batch: Batch, path: Path) -> int:
    from headgate.pipelines.spark.held import texts

    found, count = texts(rows, batch.note), 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(found.columns)
        for row in found.toLocalIterator():
            writer.writerow(["" if value is None else value for value in row])
            count += 1
    return count


def _export_json(rows: Any, batch: Batch, path: Path) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for row in _as_json(rows, batch).toLocalIterator():
            file.write(f"{row[0]}\n")
            count += 1
    return count


def _export_parquet(rows: Any, batch: Batch, path: Path) -> int:
    rows.write.mode("overwrite").parquet(path.resolve().as_uri())
    return int(rows.count())


_EXPORTS = {".csv": _export_csv, ".parquet": _export_parquet}


def replayed(
    wish: Wish, *, given: Path | None = None, is_dry: bool = False, has_server: bool = True, new_id: str | None = None
) -> ReplayRecord:
    """A batch once more through the tests and the gate of its node. What breaks it is in the record, and told."""
    node, loaded = wish.node, wish.plan.loaded
    if node.config.write is None:
        raise ConfigError(
            f"node {node.config.name!r} writes nothing: there is nowhere to replay to", hint="discard the batch"
        )
    if given is not None:
        check_format(given)
        if not given.exists():
            raise ConfigError(f"{str(given)!r} does not exist", hint="`headgate quarantine show --output` writes it")
    record = _record(node, new_id)
    with ExitStack() as stack:
        server = stack.enter_context(connect(loaded, is_offline=is_dry or not has_server))
        application = stack.enter_context(spark_of(wish.plan, wish.master, server))
        from headgate.pipelines.spark.replaying import Replay
        from headgate.pipelines.spark.session import own_session

        history = History(server, Memory(Home.of(loaded).nodes, loaded.project.project), loaded.project.project)
        stack.callback(history.close)
        deed = Replay(
            own_session(application, loaded.project), wish.plan, node, wish.batch, record, history, given, is_dry
        )
        with _told(wish.plan, node, record, server):
            try:
                deed.run()
            except HeadgateError:
                raise
            except Exception as error:  # told by the record, as it is in a run
                record.status, record.error = Status.failed, worded(error, secrets_of(loaded.project))
    return record


def discarded(wish: Wish, *, has_server: bool = True) -> ReplayRecord:
    """Delete a batch, and tell the server who did."""
    node, loaded = wish.node, wish.plan.loaded
    record = _record(node, None)
    with ExitStack() as stack:
        drop, found = _dropping(wish, stack)
        batch = pick(found, wish.batch, node)
        record.replay_of = batch.note.batch_id
        server = stack.enter_context(connect(loaded, is_offline=not has_server))
        with _told(wish.plan, node, record, server):
            left = drop(batch, record.run_id)
            record.notes = (f"discarded by {_user()}", *([left] if left else []))
            record.quarantine = _gone(node, batch)
    return record


def _dropping(wish: Wish, stack: ExitStack) -> tuple[Callable[[Batch, str], str | None], list[Batch]]:
    """What deletes a batch, and the batches that there are."""
    if _is_local(wish.node) and wish.master is None:
        location = _location(wish.node)
        return partial(delete_batch, LocalFiles(), location), _local_batches(wish.node)
    store = _store(stack.enter_context(spark_of(wish.plan, wish.master)), wish.plan, wish.node)
    return store.drop, store.batches()


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have a number and no name
        return "nobody that this machine knows"


def _gone(node: Node, batch: Batch) -> QuarantineRecord:
    address, note = node.quarantine, batch.note
    assert address is not None
    ref = DatasetRef(address.namespace, address.name, address.label)
    return QuarantineRecord(
        ref, address.location, note.batch_id, 0, {}, state="discarded", retention_days=note.retention_days
    )


def _record(node: Node, run_id: str | None) -> ReplayRecord:
    return ReplayRecord(
        node.pipeline.pipeline,
        node.config.name,
        run_id or str(uuid4()),
        owner=node.config.owner or node.pipeline.owner,
        tags=tuple(dict.fromkeys([*node.pipeline.tags, *node.config.tags])),
        description=node.config.description,
        mode=None if node.config.write is None else str(node.config.write.mode),
    )


@contextmanager
def _told(plan: Plan, node: Node, record: ReplayRecord, server: Server) -> Iterator[None]:
    """Around a deed: the server hears of it when it has ended, however that was."""
    loaded = plan.loaded
    record.started_at = datetime.now(UTC)
    if server.url is None:
        yield
        record.ended_at = datetime.now(UTC)
        return
    from headgate.pipelines.emit import Emitter, Outbox

    home = Home.of(loaded)
    outbox = Outbox(server.url, server.api_key, home.spool, home.refused / "events.ndjson")
    emitter = Emitter(plan, outbox, engine=_engine())
    try:
        yield
    except BaseException as error:
        record.status, record.error = Status.failed, worded(error, secrets_of(loaded.project))
        raise
    finally:
        record.ended_at = datetime.now(UTC)
        # Where no batch was found, nothing has happened.
        if record.replay_of:
            _tell(emitter, _run_of(loaded, node, record), node, record)


def _run_of(loaded: Loaded, node: Node, record: ReplayRecord) -> RunRecord:
    """A run of the pipeline that had this one node."""
    return RunRecord(
        str(uuid4()),
        loaded.project.project,
        (node.pipeline.pipeline,),
        status=record.status,
        environment=loaded.environment,
        file=str(loaded.file),
        started_at=record.started_at,
        ended_at=record.ended_at,
        nodes=[record],
    )


def _tell(emitter: Emitter, run: RunRecord, node: Node, record: ReplayRecord) -> None:
    emitter.run_started(run)
    emitter.node_started(run, node, record)
    emitter.node_ended(run, node, record)
    emitter.run_ended(run)


def _engine() -> tuple[str, str] | None:
    try:
        return "spark", version("pyspark")
    except PackageNotFoundError:
        return None
