"""The whole file: connections, pipelines, and what holds for all of them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, SecretStr

from headgate.pipelines.config.alerts import AlertConfig
from headgate.pipelines.config.connection import ConnectionConfig
from headgate.pipelines.config.node import OnError, RetryConfig
from headgate.pipelines.config.pipeline import PipelineConfig
from headgate.pipelines.config.strict import Name, OneOrMore, Strict


class ServerConfig(Strict):
    """Where history is kept; HEADGATE_URL and HEADGATE_API_KEY say the same."""

    url: str | None = None
    api_key: SecretStr | None = None


class SparkConfig(Strict):
    """The session that a run starts if there is none."""

    master: str | None = Field(default=None, description="local[*] unless said otherwise; sc:// is Spark Connect.")
    conf: dict[str, str | int | float | bool] = Field(
        default_factory=dict, repr=False, description="Spark's settings, as spark.sql.shuffle.partitions."
    )
    packages: list[str] = Field(
        default_factory=list, description="Maven coordinates, as io.delta:delta-spark_2.13:4.0.0."
    )


class ProjectConfig(Strict):
    """A project. `vars`, `environments` and `include` are dealt with when the file is read."""

    project: Name
    version: int = Field(default=1, ge=1, le=1, description="Of this format.")
    description: str | None = None
    owner: str | None = None
    tags: list[str] = Field(default_factory=list)
    include: Annotated[list[str], OneOrMore()] = Field(
        default_factory=list, description="Other files with connections and pipelines; * stands for any name."
    )
    vars: dict[str, Any] = Field(default_factory=dict, repr=False, description="Values for ${NAME}.")
    environments: dict[Name, dict[str, Any]] = Field(
        default_factory=dict, repr=False, description="What differs, by --env."
    )
    connections: dict[Name, ConnectionConfig] = Field(default_factory=dict)
    server: ServerConfig = Field(default_factory=ServerConfig)
    spark: SparkConfig = Field(default_factory=SparkConfig)
    on_error: OnError = OnError.fail_fast
    retry: RetryConfig = Field(default_factory=RetryConfig)
    alerts: list[AlertConfig] = Field(default_factory=list)
    pipelines: list[PipelineConfig] = Field(min_length=1)
