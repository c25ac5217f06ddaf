"""What the server counts and times, for Prometheus. One registry per application: tests make many."""

from __future__ import annotations

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

from headgate.server.db.pool import Database

VERSION = version("headgate")

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
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

    def render(self) -> bytes:
        return generate_latest(self.registry)
