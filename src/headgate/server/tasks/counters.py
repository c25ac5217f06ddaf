"""What workers count, for Prometheus: by type of task and by tenant."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram

# Each tenant and type has all of these.
_BATCH_S = (0.005, 0.025, 0.1, 0.5, 2.5, 10, 60)
_LABELS = ("type", "tenant")
# A label costs memory here and in Prometheus for ever; whoever comes after these is counted together.
MAX_TENANTS = 200
OTHER = "other"


class TaskCounters:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self._claimed = Counter("headgate_tasks_claimed", "Tasks that a worker has taken", _LABELS, registry=registry)
        self._succeeded = Counter("headgate_tasks_succeeded", "Tasks that were done", _LABELS, registry=registry)
        self._retried = Counter(
            "headgate_tasks_retried", "Tasks that failed and are tried again", _LABELS, registry=registry
        )
        self._dead = Counter("headgate_tasks_dead", "Tasks that were given up", _LABELS, registry=registry)
        self._held_back = Counter(
            "headgate_tasks_held_back", "Times that a tenant had to wait for its rate", ["tenant"], registry=registry
        )
        self._yielded = Counter(
            "headgate_tasks_yielded_seconds", "Time that lanes have held back for events", registry=registry
        )
        self._seconds = Histogram(
            "headgate_task_batch_seconds", "Time that a batch took", _LABELS, buckets=_BATCH_S, registry=registry
        )

        self._known: set[str] = set()

    def _named(self, tenant: str) -> str:
        if len(self._known) < MAX_TENANTS:
            self._known.add(tenant)
        return tenant if tenant in self._known else OTHER

    def claimed(self, task_type: str, tenant: str, number: int) -> None:
        self._claimed.labels(task_type, self._named(tenant)).inc(number)

    def done(self, task_type: str, tenant: str, succeeded: int, retried: int, dead: int, seconds: float) -> None:
        self.failed(task_type, tenant, retried, dead)
        tenant = self._named(tenant)
        if succeeded:
            self._succeeded.labels(task_type, tenant).inc(succeeded)
        self._seconds.labels(task_type, tenant).observe(seconds)

    def failed(self, task_type: str, tenant: str, retried: int, dead: int) -> None:
        tenant = self._named(tenant)
        for counter, number in ((self._retried, retried), (self._dead, dead)):
            if number:
                counter.labels(task_type, tenant).inc(number)

    def held_back(self, tenant: str) -> None:
        self._held_back.labels(self._named(tenant)).inc()

    def yielded(self, seconds: float) -> None:
        self._yielded.inc(seconds)
