"""Every method that both clients have, written once: a call that one runs and the other awaits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from headgate.client import accounts, ingest, names
from headgate.client import alerts as _alerts
from headgate.client import anomalies as _anomalies
from headgate.client import datasets as _datasets
from headgate.client import events as _events
from headgate.client import incidents as _incidents
from headgate.client import lineage as _lineage
from headgate.client import pipelines as _pipelines
from headgate.client import runs as _runs
from headgate.client import tasks as _tasks
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
    anomalies = Method(_anomalies.anomalies)
    anomaly = Method(_anomalies.anomaly)
    change_anomaly = Method(_anomalies.change_anomaly)
    anomaly_summary = Method(_anomalies.anomaly_summary)
    freshness = Method(_anomalies.freshness)
    set_freshness = Method(_anomalies.set_freshness)
    remove_freshness = Method(_anomalies.remove_freshness)
    detection_policies = Method(_anomalies.detection_policies)
    add_detection_policy = Method(_anomalies.add_detection_policy)
    change_detection_policy = Method(_anomalies.change_detection_policy)
    remove_detection_policy = Method(_anomalies.remove_detection_policy)
    detection_policy = Method(_anomalies.detection_policy)
    expected = Method(_anomalies.expected)
    expect = Method(_anomalies.expect)
    unexpect = Method(_anomalies.unexpect)
    search = Method(names.search)
    aliases = Method(names.aliases)
    preview_alias = Method(names.preview_alias)
    add_alias = Method(names.add_alias)
    undo_alias = Method(names.undo_alias)
    alias_suggestions = Method(names.alias_suggestions)
    events = Method(_events.events)
    ingest_stats = Method(_events.ingest_stats)
    conformance = Method(_events.conformance)
    tasks = Method(_tasks.tasks)
    task = Method(_tasks.task)
    task_stats = Method(_tasks.task_stats)
    task_batches = Method(_tasks.task_batches)
    retry_task = Method(_tasks.retry_task)
    retry_tasks = Method(_tasks.retry_tasks)
    cancel_task = Method(_tasks.cancel_task)
    incidents = Method(_incidents.incidents)
    incident = Method(_incidents.incident)
    incident_evidence = Method(_incidents.incident_evidence)
    incident_impact = Method(_incidents.incident_impact)
    incident_timeline = Method(_incidents.incident_timeline)
    incident_counts = Method(_incidents.incident_counts)
    orphans = Method(_incidents.orphans)
    correlation = Method(_incidents.correlation)
    set_incident_status = Method(_incidents.set_incident_status)
    assign_incident = Method(_incidents.assign_incident)
    note_incident = Method(_incidents.note_incident)
    merge_incident = Method(_incidents.merge_incident)
    split_incident = Method(_incidents.split_incident)
    set_incident_root = Method(_incidents.set_incident_root)
    forget_incident_root = Method(_incidents.forget_incident_root)
    alert_rules = Method(_alerts.alert_rules)
    alert_rule = Method(_alerts.alert_rule)
    add_alert_rule = Method(_alerts.add_alert_rule)
    change_alert_rule = Method(_alerts.change_alert_rule)
    switch_alert_rule = Method(_alerts.switch_alert_rule)
    adjust_alert_rule = Method(_alerts.adjust_alert_rule)
    remove_alert_rule = Method(_alerts.remove_alert_rule)
    preview_alert_rule = Method(_alerts.preview_alert_rule)
    alert_history = Method(_alerts.alert_history)
    send_test_alert = Method(_alerts.send_test_alert)
    email_settings = Method(_alerts.email_settings)
    set_email_settings = Method(_alerts.set_email_settings)
