"""Spark configuration with the agent in it: adds to what a user has set and never replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headgate.errors import ConfigError
from headgate.spark import find
from headgate.spark.jar import jar_path

LISTENER = "headgate.spark.HeadgateListener"
LISTENERS_KEY = "spark.extraListeners"
JARS_KEY = "spark.jars"
API_KEY = "spark.headgate.apiKey"
REDACTION_KEY = "spark.redaction.regex"
# Spark's own pattern does not know an API key; without this its environment page would show it.
REDACTION = r"(?i)secret|password|token|access[.]?key|api[._]?key"


@dataclass(frozen=True)
class Server:
    """Where the agent sends, and what else it is told."""

    url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    namespace: str | None = None
    spool_dir: str | None = None

    def __post_init__(self) -> None:
        """Refuse what the agent would only warn of, deep in a job's log."""
        if self.url is not None and not _is_address(self.url):
            raise ConfigError(
                f"{self.url!r} is not the address of a server", hint="give it as in http://127.0.0.1:8642"
            )

    @property
    def settings(self) -> dict[str, str]:
        """The part that may be seen by others: as Spark configuration."""
        named = {"url": self.url, "namespace": self.namespace, "spoolDir": self.spool_dir}
        return {f"spark.headgate.{name}": value for name, value in named.items() if value}

    @property
    def environment(self) -> dict[str, str]:
        """All of it, as environment variables, which other users of a machine cannot read."""
        named = {
            "HEADGATE_URL": self.url,
            "HEADGATE_API_KEY": self.api_key,
            "HEADGATE_NAMESPACE": self.namespace,
            "HEADGATE_SPOOL_DIR": self.spool_dir,
        }
        return {name: value for name, value in named.items() if value}


def _is_address(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def conf(
    url: str | None = None,
    *,
    api_key: str | None = None,
    namespace: str | None = None,
    spool_dir: str | None = None,
    existing: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Configuration for `SparkSession.builder.config(map=...)`: `existing` with the agent in it.

    Without `api_key` the agent takes HEADGATE_API_KEY from the driver's environment.
    """
    spark = find.spark_of_python(None)
    server = Server(url, api_key, namespace, spool_dir)
    return with_agent(existing or {}, jar_path(spark.version, spark.scala), with_key(server))


def with_key(server: Server) -> dict[str, str]:
    """The settings of a server with its key, and the pattern that keeps the key out of Spark's pages and logs."""
    if server.api_key is None:
        return server.settings
    return server.settings | {API_KEY: server.api_key, REDACTION_KEY: REDACTION}


def with_agent(conf: Mapping[str, str], jar: Path | str, settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The same configuration with the agent's jar, its listener and `settings`; what the user has set stays."""
    merged = dict(settings or {}) | dict(conf)
    merged[LISTENERS_KEY] = listed(conf.get(LISTENERS_KEY), LISTENER)
    merged[JARS_KEY] = listed(conf.get(JARS_KEY), str(jar))
    return merged


def listed(known: str | None, item: str) -> str:
    """`item` at the end of a comma-separated list, once."""
    items = [part.strip() for part in (known or "").split(",") if part.strip()]
    return ",".join(items if item in items else [*items, item])
