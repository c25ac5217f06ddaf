"""Which channels hear of an alert, and how a channel is called where its URL must not appear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from urllib.parse import urlsplit

from headgate.pipelines.alerts.events import OF_THE_WHOLE, Alert
from headgate.pipelines.config.alerts import AlertConfig
from headgate.pipelines.config.project import ProjectConfig


def channels_of(project: ProjectConfig, alert: Alert) -> list[AlertConfig]:
    """The channels of the node, its pipeline and the project that want the event, the nearest first and each once."""
    return _distinct(each for each in _in_reach(project, alert) if alert.event in each.on_events)


def key_of(channel: AlertConfig) -> str:
    """Tells channels apart without saying their URLs."""
    return f"{channel.type}:{sha256(channel.url.get_secret_value().encode()).hexdigest()[:16]}"


def label_of(channel: AlertConfig) -> str:
    """The channel for people: its type, and the name in it or else the host."""
    return f"{channel.type} {channel.metadata.channel or _host(channel)}"


def _in_reach(project: ProjectConfig, alert: Alert) -> Iterator[AlertConfig]:
    pipelines = [each for each in project.pipelines if each.pipeline == alert.pipeline]
    nodes = [node for pipeline in pipelines for node in pipeline.nodes if node.name == alert.node]
    for node in nodes:
        yield from node.alerts
    if alert.node is not None and alert.event in OF_THE_WHOLE:
        return
    for pipeline in pipelines:
        yield from pipeline.alerts
    yield from project.alerts


def _distinct(channels: Iterable[AlertConfig]) -> list[AlertConfig]:
    found: dict[str, AlertConfig] = {}
    for each in channels:
        found.setdefault(key_of(each), each)
    return list(found.values())


def _host(channel: AlertConfig) -> str:
    try:
        return urlsplit(channel.url.get_secret_value()).hostname or "of an unknown host"
    except ValueError:
        return "of an unknown host"
