"""One Spark session a test process, with the agent in it, and one server that it sends to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headgate.client import HeadgateClient
from tests.support.agent_jvm import AgentJvm, agent_jvm
from tests.support.live import Live, live_server
from tests.support.sessions import session
from tests.support.watching import Watched, Watcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.conftest import Cluster


@pytest.fixture(scope="session")
async def watching_server(cluster: Cluster) -> AsyncIterator[Live]:
    async with live_server(cluster) as live:
        yield live


@pytest.fixture(scope="module")
def spark(watching_server: Live, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    from headgate.spark import jar_path
    from tests.support.spark_jobs import spark_version

    settings = {
        "spark.jars": str(jar_path(spark_version())),
        "spark.extraListeners": "headgate.spark.HeadgateListener",
        "spark.headgate.url": watching_server.url,
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.memory": "2g",
    }
    # By the environment, as users should: the key is then in no command line.
    found = session("watched", settings, HEADGATE_API_KEY=watching_server.api_key)
    found.sparkContext.setLogLevel("ERROR")
    return found


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentJvm]:
    """The agent's transport in a JVM without Spark."""
    with agent_jvm(tmp_path_factory.mktemp("agent")) as agent:
        yield agent


@pytest.fixture
def log(agent: AgentJvm) -> AgentJvm:
    """The agent, with a log that starts here."""
    agent.new_log()
    return agent


@pytest.fixture(scope="module")
def watcher(spark: SparkSession, watching_server: Live) -> Iterator[Watcher]:
    with HeadgateClient(watching_server.url, watching_server.api_key) as client:
        yield Watcher(spark, client)


@pytest.fixture
def watched(watcher: Watcher, tmp_path: Path) -> Iterator[Watched]:
    watched = Watched(watcher, tmp_path)
    yield watched
    watched.close()
