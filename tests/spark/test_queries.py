"""Each query of the catalogue leaves exactly its table and column edges on the server."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.spark.queries import QUERIES, Query, open_shop, prepare_shop
from tests.support.absent import lacking
from tests.support.spark_jobs import spark_minor
from tests.support.watching import Seen, Watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("shop"))
    prepare_shop(spark, folder)
    return folder


def write_of(query: Query, watched: Watched, shop: str) -> Seen:
    """The one action of the query that writes; a cached frame is filled by another."""
    open_shop(watched.spark, shop)
    query.prepare(watched)
    (seen,) = [one for one in watched.do(lambda: query.run(watched)) if one.outputs]
    return seen


def bare(name: str) -> str:
    """A view lies in no folder of its own: its name has the database in front."""
    return name.rpartition(".")[2]


def admit(query: Query) -> None:
    if spark_minor() < query.since:
        pytest.skip(f"Spark has this since {query.since[0]}.{query.since[1]}")
    if query.needs_pandas and (find_spec("pandas") is None or find_spec("pyarrow") is None):
        lacking("pandas and pyarrow are not installed")


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_edges_of_a_query(query: Query, watched: Watched, shop: str) -> None:
    admit(query)

    seen = write_of(query, watched, shop)

    assert seen.state == "COMPLETE"
    assert {(bare(source), target) for source, target in seen.edges} == query.edges
    assert seen.columns == query.column_edges


def test_each_query_has_a_name_of_its_own() -> None:
    assert len({query.name for query in QUERIES}) == len(QUERIES)
