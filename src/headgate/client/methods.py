"""Every method that both clients have, written once: a call that one runs and the other awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from headgate.client import accounts, ingest, names
from headgate.client import datasets as _datasets
from headgate.client import events as _events
from headgate.client import lineage as _lineage
from headgate.client import pipelines as _pipelines
from headgate.client import runs as _runs
from headgate.client.http import Call

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Protocol):
    def call(self, call: Call[T]) -> T: ...


class Asynchronous(Protocol):
    async def call(self, call: Call[T]) -> T: ...


class Method(Generic[P, T]):
    """A function that makes a call, as a method of either client."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Blocking, owner: type[Any]) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: Asynchronous, owner: type[Any]) -> Callable[P, Awaitable[T]]: ...

    @overload
    def __get__(self, client: None, owner: type[Any]) -> Method[P, T]: ...

    def __get__(self, client: Any, owner: type[Any]) -> Any:
        if client is None:
            return self
        build = self._build

        @wraps(build)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.call(build(*args, **kwargs))

        return method


class Methods:
    """What a server can be asked; `call` asks it."""

    send = Method(ingest.send)
    send_batch = Method(ingest.send_batch)
    create_key = Method(accounts.create_key)
    keys = Method(accounts.keys)
    revoke_key = Method(accounts.revoke_key)
    health = Method(accounts.health)
    datasets = Method(_datasets.datasets)
    dataset = Method(_datasets.dataset)
    annotate = Method(_datasets.annotate)
    add_tag = Method(_datasets.add_tag)
    remove_tag = Method(_datasets.remove_tag)
    tags = Method(_datasets.tags)
    status = Method(_datasets.status)
    schema = Method(_datasets.schema)
    schema_history = Method(_datasets.schema_history)
    schema_diff = Method(_datasets.schema_diff)
    metrics = Method(_datasets.metrics)
    metric_stats = Method(_datasets.metric_stats)
    checks = Method(_datasets.checks)
    upstream = Method(_lineage.upstream)
    downstream = Method(_lineage.downstream)
    lineage = Method(_lineage.lineage)
    paths = Method(_lineage.paths)
    neighbourhood = Method(_lineage.neighbourhood)
    column_lineage = Method(_lineage.column_lineage)
    column_upstream = Method(_lineage.column_upstream)
    column_downstream = Method(_lineage.column_downstream)
    column_impact = Method(_lineage.column_impact)
    impact = Method(_lineage.impact)
    run_impact = Method(_lineage.run_impact)
    runs = Method(_runs.runs)
    run = Method(_runs.run)
    run_stages = Method(_runs.run_stages)
    run_lineage = Method(_runs.run_lineage)
    run_events = Method(_runs.run_events)
    jobs = Method(_runs.jobs)
    job = Method(_runs.job)
    job_runs = Method(_runs.job_runs)
    job_summary = Method(_runs.job_summary)
    pipelines = Method(_pipelines.pipelines)
    pipeline = Method(_pipelines.pipeline)
    pipeline_runs = Method(_pipelines.pipeline_runs)
    pipeline_run = Method(_pipelines.pipeline_run)
    pipeline_story = Method(_pipelines.pipeline_story)
    node_history = Method(_pipelines.node_history)
    last_published = Method(_pipelines.last_published)
    quarantine_batches = Method(_pipelines.quarantine_batches)
    search = Method(names.search)
    aliases = Method(names.aliases)
    preview_alias = Method(names.preview_alias)
    add_alias = Method(names.add_alias)
    undo_alias = Method(names.undo_alias)
    alias_suggestions = Method(names.alias_suggestions)
    events = Method(_events.events)
    ingest_stats = Method(_events.ingest_stats)
    conformance = Method(_events.conformance)
