"""One Spark session a test process, without the agent: what is tested here is the engine of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.sessions import plain_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return plain_session(str(tmp_path_factory.mktemp("warehouse")))
