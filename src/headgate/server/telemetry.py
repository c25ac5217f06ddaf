"""What the server counts and times, for Prometheus. One registry per application: tests make many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from headgate.server.db.pool import Database

VERSION = version("headgate")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# Labels that say whose a number is. Who may ask without a key must not learn who is here, and what they do.
_OWNERS = frozenset({"tenant", "organization"})
_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Telemetry:
    """The registry, and the metrics of the HTTP edge and the pool; slices add their own to `registry`."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "headgate_http_requests",
            "Requests answered",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "headgate_http_request_seconds",
            "Time from request to the end of its answer",
            ["route", "method"],
            buckets=_LATENCY_S,
            registry=self.registry,
        )
        # Numbers that have to be asked for before they can be shown.
        self._asks: list[Callable[[], Awaitable[None]]] = []
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        Info("headgate_build", "The running version", registry=self.registry).info({"version": VERSION})
        ProcessCollector(registry=self.registry)

    def watch_pool(self, database: Database) -> None:
        """Report the connections of this pool."""
        for name, text, read in (
            ("size", "Open connections", lambda: database.size),
            ("idle", "Open connections that nobody uses", lambda: database.idle),
            ("max", "Connections that may be open", lambda: database.max_size),
        ):
            gauge = Gauge(f"headgate_database_pool_{name}", text, registry=self.registry)
            gauge.set_function(read)

    def observe(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answered request. `route` is the template, never the path: paths are without number."""
        key = (route, method if method in _METHODS else "other", status)
        children = self._children.get(key)
        if children is None:
            children = (self._requests.labels(*map(str, key)), self._seconds.labels(*key[:2]))
            self._children[key] = children
        children[0].inc()
        children[1].observe(seconds)

    def ask_first(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Have this awaited before each rendering."""
        self._asks.append(ask)

    async def refresh(self) -> None:
        for ask in self._asks:
            await ask()

    def render(self) -> bytes:
        """For everybody: the numbers of all tenants together."""
        return generate_latest(_Shown(self.registry, _of_all))

    def render_for(self, tenant: str) -> bytes:
        """Only what is counted for one tenant."""
        return generate_latest(_Shown(self.registry, lambda metric: _of_one(metric, tenant)))


class _Shown(Collector):
    """A registry with other samples in its metrics; those without any are left out."""

    def __init__(self, registry: CollectorRegistry, samples: Callable[[Metric], Iterable[Sample]]) -> None:
        self._registry = registry
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            shown = Metric(metric.name, metric.documentation, metric.type, metric.unit)
            shown.samples = list(self._samples(metric))
            if shown.samples or not metric.samples:
                yield shown


def _of_all(metric: Metric) -> Iterable[Sample]:
    if not any(_OWNERS & sample.labels.keys() for sample in metric.samples):
        return metric.samples
    found: dict[tuple[object, ...], list[Sample]] = {}
    for sample in metric.samples:
        rest = {name: value for name, value in sample.labels.items() if name not in _OWNERS}
        key = (sample.name, *sorted(rest.items()))
        found.setdefault(key, []).append(Sample(sample.name, rest, sample.value))
    return [_together(samples) for samples in found.values()]


def _together(samples: list[Sample]) -> Sample:
    """Numbers add up; of ages the greatest counts, of times of making the first."""
    first, values = samples[0], [sample.value for sample in samples]
    if first.name.endswith("_created"):
        return first._replace(value=min(values))
    return first._replace(value=max(values) if first.name.endswith("_due_seconds") else sum(values))


def _of_one(metric: Metric, tenant: str) -> Iterable[Sample]:
    return [sample for sample in metric.samples if tenant in (sample.labels.get(name) for name in _OWNERS)]
