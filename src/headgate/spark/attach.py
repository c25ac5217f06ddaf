"""The agent in a session that is already running, such as a notebook's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headgate.errors import ConfigError
from headgate.spark.compose import API_KEY, LISTENER, LISTENERS_KEY, Server
from headgate.spark.jar import jar_path

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_AGENT = "headgate.spark.Agent"
# Those that were attached from here: a second time is not a failure.
_applications: set[str] = set()


class Attached:
    """The agent in a running session; everything that the session does from now on is watched."""

    def __init__(self, agent: Any, context: SparkContext) -> None:
        self._agent = agent
        self._context = context

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until everything so far was sent; False if it was not within the time."""
        return bool(self._agent.flush(int(timeout_s * 1000)))

    def detach(self) -> None:
        """Send what is left and stop watching; the session goes on."""
        self._agent.detach(self._context._jsc.sc())
        _applications.discard(self._context.applicationId)


def attach(
    spark: SparkSession,
    url: str | None = None,
    api_key: str | None = None,
    *,
    namespace: str | None = None,
    spool_dir: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Attached:
    """Add the agent to a live session. Nothing is restarted, and attaching twice is attaching once.

    `conf` takes any other `spark.headgate.*` key. Without `url` the session's own configuration and
    HEADGATE_URL in the driver's environment count.
    """
    context = _context_of(spark)
    jvm: Any = context._jvm
    settings = Server(url, api_key, namespace, spool_dir).settings | dict(conf or {})
    if api_key is not None:
        settings[API_KEY] = api_key
    agent = _agent(spark, jvm)
    given = jvm.java.util.HashMap()
    for key, value in settings.items():
        given.put(key, value)
    java_context = context._jsc.sc()
    if agent.attach(java_context, given):
        _applications.add(context.applicationId)
    elif context.applicationId not in _applications and LISTENER not in _listeners_of(context):
        raise ConfigError(
            "the agent was not attached: it is switched off, or no server is named",
            hint="give url=..., or set spark.headgate.url or HEADGATE_URL; spark.headgate.enabled must not be false",
        )
    return Attached(agent, context)


def _context_of(spark: SparkSession) -> SparkContext:
    """The session's context; a Spark Connect client has none."""
    if ".connect." in type(spark).__module__:
        raise ConfigError(
            "this session is a Spark Connect client: what it does runs on the server, where the agent has to be",
            hint="start the server with what `headgate spark conf` prints",
        )
    return spark.sparkContext


def _listeners_of(context: SparkContext) -> list[str]:
    return [name.strip() for name in (context.getConf().get(LISTENERS_KEY) or "").split(",")]


def _agent(spark: SparkSession, jvm: Any) -> Any:
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if loader.getResource(f"{_AGENT.replace('.', '/')}.class") is None:
        scala = ".".join(jvm.scala.util.Properties.versionNumberString().split(".")[:2])
        jar = jvm.java.io.File(str(jar_path(spark.sparkContext.version, scala))).toURI().toURL()
        if "addURL" not in dir(loader):
            return _agent_in_session(spark, jar)
        loader.addURL(jar)
    return jvm.headgate.spark.Agent


def _agent_in_session(spark: SparkSession, jar: Any) -> Any:
    """The agent through the loader that takes the jars of ADD JAR, where the thread's own takes none."""
    try:
        loader = spark._jsparkSession.sharedState().jarClassLoader()
        loader.addURL(jar)
        return loader.loadClass(f"{_AGENT}$").getField("MODULE$").get(None)
    except Exception as error:
        raise ConfigError(
            "the agent was not attached: this Spark takes no jar while it runs",
            hint="start the session with what `headgate spark conf` prints",
        ) from error
