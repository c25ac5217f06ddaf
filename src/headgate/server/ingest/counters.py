"""What ingest counts, for `/metrics`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class IngestCounters:
    """Counters of one server. Organisation is a label: tenants are few and each wants its own numbers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.accepted = Counter(
            "headgate_events_accepted", "Events stored", ["organization", "route"], registry=registry
        )
        self.duplicate = Counter(
            "headgate_events_duplicate",
            "Events that were known already",
            ["organization", "route"],
            registry=registry,
        )
        self.refused = Counter(
            "headgate_events_refused",
            "Events refused, by reason",
            ["organization", "reason"],
            registry=registry,
        )
        self.invalid_facets = Counter(
            "headgate_facets_invalid", "Known facets whose body was wrong", ["facet"], registry=registry
        )
        self.secondary_failed = Counter(
            "headgate_secondary_facts_failed", "Secondary facts left out", ["fact"], registry=registry
        )
        self.latency = Histogram(
            "headgate_ingest_seconds", "From the body's arrival to the answer", ["route"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10), registry=registry,
        )  # fmt: skip
        self.group_size = Histogram(
            "headgate_group_events", "Events that shared one transaction",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024), registry=registry,
        )  # fmt: skip
        self.queue_depth = Gauge("headgate_queue_events", "Events waiting to be written", registry=registry)
        self.queue_bytes = Gauge("headgate_queue_bytes", "Bytes waiting to be written", registry=registry)
        self.group_retries = Counter("headgate_group_retries", "Groups that had to start over", registry=registry)
