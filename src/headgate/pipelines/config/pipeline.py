"""Nodes that run together."""

from __future__ import annotations

from pydantic import Field

from headgate.pipelines.config.alerts import AlertConfig
from headgate.pipelines.config.node import NodeConfig, OnError, RetryConfig
from headgate.pipelines.config.strict import Name, Strict


class PipelineConfig(Strict):
    """A pipeline: nodes that share an owner, alerts and what a failure means."""

    pipeline: Name
    description: str | None = None
    layer: str | None = Field(default=None, description="bronze, silver or gold, for those who read.")
    owner: str | None = None
    tags: list[str] = Field(default_factory=list)
    on_error: OnError | None = None
    retry: RetryConfig | None = None
    alerts: list[AlertConfig] = Field(default_factory=list)
    nodes: list[NodeConfig] = Field(min_length=1)
